//! How near the disk models come to measured and published figures.
//!
//! ```text
//! cargo run --release -p weft-model --example validate [-- DISK TRACE ...]
//! ```
//!
//! Without arguments: closed forms, and the published figures for the HP 97560. With pairs of
//! a disk's name (or parameter file) and a trace, also how the distribution of service times
//! differs from the trace's. A trace has a line for each access, "R|W note sector sectors
//! service_us gap_us", where the gap is from its completion to the next; DiskSim 4.0 comes
//! with such traces of real disks (valid/*.trace).

use std::process::ExitCode;

use weft_core::units::Nanos;
use weft_model::disk::{Access, Completed, Disk, Kind, Model};
use weft_model::schedule::Policy;
use weft_model::spec::{Spec, builtin};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    published();
    for pair in arguments.chunks(2) {
        let [disk, trace] = pair else {
            eprintln!("a disk without a trace: {}", pair[0]);
            return ExitCode::FAILURE;
        };
        if let Err(error) = against_trace(disk, trace) {
            eprintln!("{trace}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Random reads of 4 KiB, one at a time, against what is published.
fn published() {
    println!("random 4 KiB reads, one at a time: mean service time in ms");
    for (name, reference, whose) in [
        ("hp97560-tickertaip", 22.96, "closed form of Table VI"),
        ("hp97560-tickertaip", 23.6, "DiskSim 4.0 with Table VI"),
        ("hp97560", 25.5, "DiskSim 4.0 with Ruemmler and Wilkes' numbers"),
    ] {
        let model = Model::new(&builtin(name).expect("it comes with Weft"));
        let mut disk = Disk::new(&model, Policy::Fcfs, 0, fastrand::Rng::with_seed(1));
        let mut chance = fastrand::Rng::with_seed(2);
        let (mut now, mut done, count) = (0, Vec::new(), 200_000);
        let started = std::time::Instant::now();
        for id in 0..count {
            disk.submit(now, id, Access::read(chance.u64(0..model.sectors() / 8) * 8, 8));
            now = disk.next().expect("it was just handed an access");
            done.clear();
            disk.advance(now, &mut done);
        }
        let rate = count as f64 / started.elapsed().as_secs_f64() / 1e6;
        let mean = now as f64 / count as f64 / 1e6;
        let error = (mean / reference - 1.0) * 100.0;
        println!(
            "  {name:20} {mean:6.2}  {reference:6.2}  {error:+5.1} %  {whose}  ({rate:.1} M accesses/s)"
        );
    }
}

struct Record {
    access: Access,
    /// Measured.
    service: Nanos,
    gap: Nanos,
    sequential: bool,
    /// In the second half of the trace.
    late: bool,
}

fn parse(text: &str) -> Result<Vec<Record>, String> {
    let mut records: Vec<Record> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [way, _, first, sectors, service, gap] = words[..] else {
            return Err(format!("line {}: six words expected", index + 1));
        };
        let whole =
            |word: &str| word.parse::<u64>().map_err(|e| format!("line {}: {e}", index + 1));
        let time = |word: &str| {
            let micros = word.parse::<f64>().map_err(|e| format!("line {}: {e}", index + 1))?;
            Ok::<u64, String>((micros * 1e3) as u64)
        };
        let kind = if way == "R" { Kind::Read } else { Kind::Write };
        let access = Access { kind, first: whole(first)?, sectors: whole(sectors)? };
        let sequential = records.last().is_some_and(|last| last.access.end() == access.first);
        records.push(Record {
            access,
            service: time(service)?,
            gap: time(gap)?,
            sequential,
            late: false,
        });
    }
    let half = records.len() / 2;
    records[half..].iter_mut().for_each(|record| record.late = true);
    Ok(records)
}

fn against_trace(disk: &str, trace: &str) -> Result<(), String> {
    let spec = match std::fs::read_to_string(disk) {
        Ok(text) => Spec::parse(&text),
        Err(_) => builtin(disk),
    };
    let model = Model::new(&spec.map_err(|e| e.to_string())?);
    let text = std::fs::read_to_string(trace).map_err(|e| e.to_string())?;
    let records = parse(&text)?;
    let run = replay(&model, &records, None);
    println!("\n{disk} against {trace}: service times in ms");
    println!(
        "  {:24} {:>6} {:>8} {:>8} {:>8} {:>7}",
        "", "count", "measured", "model", "demerit", "%"
    );
    type Choice = fn(&Record) -> bool;
    let choices: [(&str, Choice); 7] = [
        ("all", |_| true),
        ("second half", |r| r.late),
        ("reads", |r| r.access.kind == Kind::Read),
        ("  of these, sequential", |r| r.access.kind == Kind::Read && r.sequential),
        ("writes", |r| r.access.kind == Kind::Write),
        ("  of these, sequential", |r| r.access.kind == Kind::Write && r.sequential),
        ("not sequential", |r| !r.sequential),
    ];
    for (name, chosen) in choices {
        let picked = || records.iter().zip(&run).filter(move |(record, _)| chosen(record));
        let mut measured: Vec<f64> = picked().map(|(r, _)| r.service as f64 / 1e6).collect();
        let mut modelled: Vec<f64> = picked().map(|(_, c)| c.times.total() as f64 / 1e6).collect();
        let (mean, of_model) = (mean(&measured), mean(&modelled));
        let demerit = demerit(&mut measured, &mut modelled);
        println!(
            "  {name:24} {:6} {mean:8.3} {of_model:8.3} {demerit:8.3} {:6.2}%",
            measured.len(),
            demerit / mean * 100.0
        );
    }
    println!("  by chance alone: {:.3}", chance(&model, &records, &run));
    Ok(())
}

/// How far the model's service times are from its own if the platter is elsewhere when an access
/// comes that does not follow the one before: what chance alone does to a demerit.
fn chance(model: &Model, records: &[Record], run: &[Completed]) -> f64 {
    let times = |run: &[Completed]| -> Vec<f64> {
        run.iter().map(|c| c.times.total() as f64 / 1e6).collect()
    };
    let again = |seed| {
        let other = replay(model, records, Some(fastrand::Rng::with_seed(seed)));
        demerit(&mut times(run), &mut times(&other))
    };
    (0..8).map(again).sum::<f64>() / 8.0
}

/// Each access begins a gap after the one before was complete; with `turns`, up to a revolution
/// later where it does not follow the one before.
fn replay(model: &Model, records: &[Record], mut turns: Option<fastrand::Rng>) -> Vec<Completed> {
    let mut disk = Disk::new(model, Policy::Fcfs, 0, fastrand::Rng::with_seed(1));
    let (mut now, mut done) = (0, Vec::with_capacity(records.len()));
    for (id, record) in records.iter().enumerate() {
        if let (Some(turns), Some(revolution), false) =
            (&mut turns, model.revolution(), record.sequential)
        {
            now += turns.u64(0..revolution);
        }
        disk.submit(now, id as u64, record.access);
        let at = disk.next().expect("it was just handed an access");
        disk.advance(at, &mut done);
        now = at + record.gap;
    }
    done
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The root mean square of the horizontal distance between two distribution curves (Ruemmler
/// and Wilkes, IEEE Computer 27(3), 1994), for equally many values.
fn demerit(a: &mut [f64], b: &mut [f64]) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let squares: f64 = a.iter().zip(b.iter()).map(|(a, b)| (a - b) * (a - b)).sum();
    (squares / a.len() as f64).sqrt()
}
