//! `weft bench --ordering`: what each way to order requests costs, against none at all.
//!
//! One array and one volume, whose ordering is set anew before every measurement; the orderings
//! take turns, so that whatever else the machine does meets all of them, and the middle of the
//! rounds counts.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use weft_core::order::Ordering;
use weft_host::status::Totals;
use weft_host::{Array, Control, ControlRequest, Listen};
use weft_terminal::{Counts, Stage, align_right, say, say_json, table};

use super::workload::{self, Case};
use super::{Bench, Medium, NODES, VOLUME};
use weft_trial::load::{Host, connect, fill};
use weft_trial::scratch::Scratch;

/// An odd number, so that there is one in the middle.
const ROUNDS: usize = 7;
const KIB: u32 = 1 << 10;

const CASES: [Case; 5] = [
    Case { write: false, random: true, block: 4 * KIB, depth: 1 },
    Case { write: false, random: true, block: 4 * KIB, depth: 32 },
    Case { write: true, random: true, block: 4 * KIB, depth: 1 },
    Case { write: true, random: true, block: 4 * KIB, depth: 32 },
    Case { write: true, random: true, block: 256 * KIB, depth: 8 },
];

/// What is compared: all of them, or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(Vec<Ordering>);

impl std::str::FromStr for Choice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |word: &str| word.trim().parse::<Ordering>().map_err(|e| e.to_string());
        let mut chosen = match text {
            "all" => Ordering::ALL.to_vec(),
            list => list.split(',').map(named).collect::<Result<_, _>>()?,
        };
        // What the others are compared with.
        chosen.push(Ordering::None);
        chosen.sort();
        chosen.dedup();
        Ok(Choice(chosen))
    }
}

/// What came out of one ordering in one workload.
struct Line {
    medium: &'static str,
    case: Case,
    ordering: Ordering,
    iops: f64,
    mean_us: f64,
    /// Against none, of the same rounds.
    ratio: f64,
    /// Between nodes, for each request: those before its answer; and those that order it, before
    /// it or after.
    messages: f64,
    order_messages: f64,
}

/// One measurement.
#[derive(Clone, Copy)]
struct Round {
    iops: f64,
    mean_us: f64,
    messages: f64,
    order_messages: f64,
}

/// Runs all of it.
pub fn run(bench: &Bench, choice: &Choice) -> Result<ExitCode> {
    let mut lines = Vec::new();
    for medium in bench.media()? {
        measure(bench, &medium, &choice.0, &mut lines)?;
    }
    match bench.json {
        true => say_json(json!({
            "volume_bytes": bench.size(),
            "seconds": seconds(bench).as_secs_f64(),
            "rounds": ROUNDS,
            "orderings": lines.iter().map(Line::as_json).collect::<Vec<_>>(),
        }))?,
        false => say(describe(bench, &lines))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Of one measurement: a round of all orderings is short against what else goes on.
fn seconds(bench: &Bench) -> Duration {
    Duration::from_millis(bench.seconds() * 300)
}

fn measure(
    bench: &Bench,
    medium: &Medium,
    orderings: &[Ordering],
    lines: &mut Vec<Line>,
) -> Result<()> {
    let dir = Scratch::new("weft-bench-", &medium.dir)?;
    let socket = dir.path().join("nbd.sock");
    let listens = [Listen::unix(socket.clone())];
    let silent = weft_host::Log::silent();
    let array = Array::start(dir.path(), &bench.spec(), &listens, silent)?.spawn()?;
    let mut host = connect(&socket, VOLUME)?;
    let mut control = Control::connect(dir.path())?;
    fill(&mut host, &format!("{}: filling the volume", medium.name))?;
    for case in CASES {
        let name = format!("{}: {case}", medium.name);
        let stage = Stage::new(name, (ROUNDS * orderings.len()) as u64, Counts::Things);
        let mut rounds = vec![Vec::new(); orderings.len()];
        for _ in 0..ROUNDS {
            for (ordering, rounds) in orderings.iter().zip(&mut rounds) {
                set(&mut control, *ordering)?;
                rounds.push(one(&mut host, &mut control, case, seconds(bench))?);
                stage.advance(1);
            }
        }
        stage.bar().finish_and_clear();
        let bare = middle(&rounds[0]).iops;
        for (ordering, rounds) in orderings.iter().zip(&rounds) {
            let Round { iops, mean_us, messages, order_messages } = middle(rounds);
            let (medium, ordering, ratio) = (medium.name, *ordering, iops / bare);
            lines.push(Line {
                medium,
                case,
                ordering,
                iops,
                mean_us,
                ratio,
                messages,
                order_messages,
            });
        }
    }
    drop(host);
    Ok(array.shutdown()?)
}

/// The round with the middle of the rates.
fn middle(rounds: &[Round]) -> Round {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    sorted[sorted.len() / 2]
}

fn set(control: &mut Control, ordering: Ordering) -> Result<()> {
    let set = [("ordering".to_string(), ordering.to_string())].into();
    control.request(&ControlRequest::VolumeSet {
        name: VOLUME.to_string(),
        set,
        force: false,
        range: None,
    })?;
    control.request(&ControlRequest::Quiesce)?;
    Ok(())
}

fn one(host: &mut Host, control: &mut Control, case: Case, time: Duration) -> Result<Round> {
    let before = counted(control)?;
    let measured = workload::run(host, control, case, time)?;
    let after = counted(control)?;
    let requests = (after.0 - before.0).max(1.0);
    Ok(Round {
        iops: measured.iops,
        mean_us: measured.mean_us,
        messages: (after.1 - before.1) / requests,
        order_messages: (after.2 - before.2) / requests,
    })
}

/// Requests, messages, and messages that keep the order, so far.
fn counted(control: &mut Control) -> Result<(f64, f64, f64)> {
    let Totals { requests, messages, order_messages, .. } = control.status()?.totals;
    Ok((requests as f64, messages as f64, order_messages as f64))
}

fn describe(bench: &Bench, lines: &[Line]) -> String {
    let mut table =
        table(["on", "workload", "ordering", "IOPS", "of none", "mean µs", "messages", "to order"]);
    for line in lines {
        table.add_row([
            line.medium.to_string(),
            line.case.to_string(),
            line.ordering.to_string(),
            format!("{:.0}", line.iops),
            format!("{:.3}", line.ratio),
            format!("{:.0}", line.mean_us),
            format!("{:.2}", line.messages),
            format!("{:.2}", line.order_messages),
        ]);
    }
    align_right(&mut table, 3..8);
    format!(
        "{table}\n{NODES} nodes in one process, raid5, journal on; the median of {ROUNDS} rounds of {} s each. Messages per \
         request between nodes' roles: those before its answer, as counted by `weft explain`; and those of a lock server \
         or sequencer, before the answer (also in the first number) and after",
        seconds(bench).as_secs_f64()
    )
}

impl Line {
    fn as_json(&self) -> Value {
        json!({
            "medium": self.medium,
            "workload": self.case.to_string(),
            "ordering": self.ordering.name(),
            "iops": self.iops,
            "mean_us": self.mean_us,
            "ratio_to_none": self.ratio,
            "messages_per_op": self.messages,
            "order_messages_per_op": self.order_messages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_always_measured_and_nothing_twice() {
        let chosen = "timestamps,device-locks,timestamps".parse::<Choice>().unwrap();
        assert_eq!(chosen.0, [Ordering::None, Ordering::DeviceLocks, Ordering::Timestamps]);
        assert_eq!("all".parse::<Choice>().unwrap().0, Ordering::ALL);
        assert!("clocks".parse::<Choice>().unwrap_err().contains("a value of ordering"));
    }
}
