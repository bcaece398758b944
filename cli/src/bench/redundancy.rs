//! `weft bench --redundancy`: small random writes whose parity waits, or that are copied, beside those that bring their parity
//! and those whose parity is never computed.
//!
//! One array and one volume. The ways take turns, so that whatever else the machine does meets all of them, and the middle of
//! the rounds counts. A *marked* row is one of which all parity waits already; of an *unmarked* one none does.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use weft_front::nbd::client::{ClientRequest, Data};
use weft_host::{Array, Control, ControlRequest, Listen};
use weft_terminal::{Counts, Stage, align_right, say, say_json, table};

use super::workload::{self, Case, Measured};
use super::{Bench, Medium, NODES, VOLUME};
use weft_trial::load::{Host, Work, connect, fill, pump};
use weft_trial::scratch::Scratch;

/// An odd number, so that there is one in the middle.
const ROUNDS: usize = 5;
const KIB: u32 = 1 << 10;

const CASES: [Case; 2] = [
    Case { write: true, random: true, block: 4 * KIB, depth: 1 },
    Case { write: true, random: true, block: 4 * KIB, depth: 32 },
];

/// Bursts are so short, and so far apart, that idle disks compute parity between them.
const BURST: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(250);

/// Copies are folded after this time where the volume makes no more.
const FOLDED: Duration = Duration::from_secs(30);

/// What is compared, in the order of a round: each begins with the parity that the one before has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each write brings its parity.
    Immediate,
    /// Parity waits; none did at first.
    Unmarked,
    /// All parity waits already.
    Marked,
    /// The same, and it is never computed.
    Never,
    /// Bursts, and between them nothing is computed.
    Bursts,
    /// Bursts, and parity is computed between them.
    Refreshed,
    /// Each write is copied, as long as the journals have room.
    Copied,
    /// Bursts of writes that bring their parity.
    ImmediateBursts,
    /// Bursts of copied writes, which are folded between them.
    CopiedBursts,
}

impl Way {
    const ALL: [Way; 9] = [
        Way::Immediate,
        Way::Unmarked,
        Way::Marked,
        Way::Never,
        Way::Bursts,
        Way::Refreshed,
        Way::Copied,
        Way::ImmediateBursts,
        Way::CopiedBursts,
    ];

    fn name(self) -> &'static str {
        match self {
            Way::Immediate => "immediate",
            Way::Unmarked => "deferred, unmarked rows",
            Way::Marked => "deferred, marked rows",
            Way::Never => "never, marked rows",
            Way::Bursts => "deferred, bursts",
            Way::Refreshed => "deferred, bursts, refreshed between",
            Way::Copied => "copied",
            Way::ImmediateBursts => "immediate, bursts",
            Way::CopiedBursts => "copied, bursts, folded between",
        }
    }

    /// What it is compared with.
    fn against(self) -> Way {
        match self {
            Way::Immediate | Way::Unmarked | Way::Copied => Way::Immediate,
            Way::Marked | Way::Never => Way::Never,
            Way::Bursts | Way::Refreshed => Way::Bursts,
            Way::ImmediateBursts | Way::CopiedBursts => Way::ImmediateBursts,
        }
    }

    /// What the volume chooses.
    fn choices(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Way::Immediate | Way::ImmediateBursts => &[("redundancy", "immediate")],
            Way::Copied | Way::CopiedBursts => &[("redundancy", "copied"), ("idle", "100ms")],
            Way::Never => &[("redundancy", "never")],
            Way::Refreshed => &[("redundancy", "deferred"), ("idle", "100ms")],
            Way::Unmarked | Way::Marked | Way::Bursts => {
                &[("redundancy", "deferred"), ("idle", "1h")]
            }
        }
    }

    /// Whether all parity is computed before, or all waits; or it is as it was left.
    fn begins(self) -> Option<bool> {
        match self {
            Way::Marked => Some(true),
            Way::Never => None,
            Way::Immediate
            | Way::Unmarked
            | Way::Bursts
            | Way::Refreshed
            | Way::Copied
            | Way::ImmediateBursts
            | Way::CopiedBursts => Some(false),
        }
    }

    fn is_in_bursts(self) -> bool {
        matches!(self, Way::Bursts | Way::Refreshed | Way::ImmediateBursts | Way::CopiedBursts)
    }
}

/// What came out of one way in one workload.
struct Line {
    medium: &'static str,
    case: Case,
    way: Way,
    iops: f64,
    p99_us: u64,
    /// Of what it is compared with: requests a second, and the time of 99 %.
    rate: f64,
    p99: f64,
}

/// Runs all of it.
pub fn run(bench: &Bench) -> Result<ExitCode> {
    let mut lines = Vec::new();
    for medium in bench.media()? {
        measure(bench, &medium, &mut lines)?;
    }
    match bench.json {
        true => say_json(json!({
            "volume_bytes": bench.size(),
            "seconds": bench.seconds(),
            "rounds": ROUNDS,
            "redundancy": lines.iter().map(Line::as_json).collect::<Vec<_>>(),
        }))?,
        false => say(describe(bench, &lines))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(bench: &Bench, medium: &Medium, lines: &mut Vec<Line>) -> Result<()> {
    let dir = Scratch::new("weft-bench-", &medium.dir)?;
    let socket = dir.path().join("nbd.sock");
    let listens = [Listen::unix(socket.clone())];
    let silent = weft_host::Log::silent();
    let array = Array::start(dir.path(), &bench.spec(), &listens, silent)?.spawn()?;
    let mut host = connect(&socket, VOLUME)?;
    let mut control = Control::connect(dir.path())?;
    fill(&mut host, &format!("{}: filling the volume", medium.name))?;
    set(&mut control, &[("exposed-bytes", "none"), ("exposed-for", "none")])?;
    for case in CASES {
        let name = format!("{}: {case}", medium.name);
        let stage = Stage::new(name, (ROUNDS * Way::ALL.len()) as u64, Counts::Things);
        let mut rounds = vec![Vec::new(); Way::ALL.len()];
        for _ in 0..ROUNDS {
            for (way, rounds) in Way::ALL.into_iter().zip(&mut rounds) {
                rounds.push(one(&mut host, &mut control, way, case, bench)?);
                stage.advance(1);
            }
        }
        stage.bar().finish_and_clear();
        let of = |way: Way| middle(&rounds[Way::ALL.iter().position(|w| *w == way).unwrap_or(0)]);
        lines.extend(Way::ALL.into_iter().map(|way| {
            let ((iops, p99_us), against) = (of(way), of(way.against()));
            let (rate, p99) = (iops / against.0, p99_us as f64 / against.1.max(1) as f64);
            Line { medium: medium.name, case, way, iops, p99_us, rate, p99 }
        }));
    }
    drop(host);
    // So that the end does not wait for what is exposed.
    refresh(&mut control)?;
    Ok(array.shutdown()?)
}

/// The middle of the rates, and of the times of 99 %.
fn middle(rounds: &[Measured]) -> (f64, u64) {
    let mut rates: Vec<f64> = rounds.iter().map(|m| m.iops).collect();
    let mut times: Vec<u64> = rounds.iter().map(|m| m.p99_us).collect();
    rates.sort_by(f64::total_cmp);
    times.sort_unstable();
    (rates[rates.len() / 2], times[times.len() / 2])
}

fn one(
    host: &mut Host,
    control: &mut Control,
    way: Way,
    case: Case,
    bench: &Bench,
) -> Result<Measured> {
    if way.begins() == Some(false) {
        refresh(control)?;
    }
    set(control, way.choices())?;
    if way.begins() == Some(true) {
        pump(host, 8, &mut Marking::new(host.size(), control)?)?;
    }
    let time = Duration::from_secs(bench.seconds());
    match way.is_in_bursts() {
        true => workload::bursts(host, case, time, BURST, || thread::sleep(PAUSE)),
        false => workload::bursts(host, case, time, time, || {}),
    }
}

fn set(control: &mut Control, choices: &[(&str, &str)]) -> Result<()> {
    let set = choices.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    control.request(&ControlRequest::VolumeSet {
        name: VOLUME.to_string(),
        set,
        force: false,
        range: None,
    })?;
    Ok(())
}

/// Has all parity computed, all copies folded, and everything put in place.
fn refresh(control: &mut Control) -> Result<()> {
    set(control, &[("redundancy", "immediate")])?;
    let refresh = ControlRequest::Refresh { volume: VOLUME.to_string(), offset: 0, length: None };
    let answer = control.request(&refresh)?;
    ensure!(answer["sectors_left"] == 0, "parity cannot be computed: {answer}");
    control.request(&ControlRequest::Quiesce)?;
    let since = Instant::now();
    while control.status()?.nodes.iter().any(|node| node.copied_bytes.is_some()) {
        ensure!(since.elapsed() < FOLDED, "copied writes are not folded");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Writes a stripe unit of each stripe: then all of its parity waits.
struct Marking {
    size: u64,
    at: u64,
    stripe: u64,
    data: Bytes,
}

impl Marking {
    fn new(size: u64, control: &mut Control) -> Result<Marking> {
        let status = control.status()?;
        let volume = status.volumes.first().context("there is no volume")?;
        let unit = volume.stripe_unit;
        let data = vec![0x5a; unit as usize].into();
        Ok(Marking { size, at: 0, stripe: unit * (NODES as u64 - 1), data })
    }
}

impl Work for Marking {
    fn next(&mut self) -> Option<ClientRequest> {
        let offset = self.at;
        self.at += self.stripe;
        let whole = offset + self.data.len() as u64 <= self.size;
        whole.then(|| ClientRequest::Write { offset, data: self.data.clone(), fua: false })
    }

    fn done(&mut self, _: u64, _: Data, _: Duration) -> Result<()> {
        Ok(())
    }
}

fn describe(bench: &Bench, lines: &[Line]) -> String {
    let mut table =
        table(["on", "workload", "redundancy", "IOPS", "p99 µs", "against", "rate", "p99"]);
    for line in lines {
        table.add_row([
            line.medium.to_string(),
            line.case.to_string(),
            line.way.name().to_string(),
            format!("{:.0}", line.iops),
            line.p99_us.to_string(),
            line.way.against().name().to_string(),
            format!("{:.3}", line.rate),
            format!("{:.3}", line.p99),
        ]);
    }
    align_right(&mut table, [3, 4, 6, 7]);
    format!(
        "{table}\n{NODES} nodes in one process, raid5, journal on; medians of {ROUNDS} rounds of {} s of requests each, of rates \
         and of 99th percentiles",
        bench.seconds()
    )
}

impl Line {
    fn as_json(&self) -> Value {
        json!({
            "medium": self.medium,
            "workload": self.case.to_string(),
            "redundancy": self.way.name(),
            "against": self.way.against().name(),
            "iops": self.iops,
            "p99_us": self.p99_us,
            "rate_ratio": self.rate,
            "p99_ratio": self.p99,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_compared_with_one_that_is_compared_with_itself() {
        for way in Way::ALL {
            assert_eq!(way.against().against(), way.against(), "{way:?}");
            assert_eq!(way.is_in_bursts(), way.against().is_in_bursts(), "{way:?}");
        }
    }

    #[test]
    fn the_middle_of_rates_and_of_times_need_not_be_of_one_round() {
        let round = |iops, p99_us| Measured {
            iops,
            p99_us,
            mb_per_s: 0.0,
            mean_us: 0.0,
            p50_us: 0,
            cpu_s_per_1000: 0.0,
        };
        assert_eq!(middle(&[round(1.0, 9), round(3.0, 5), round(2.0, 7)]), (2.0, 7));
    }
}
