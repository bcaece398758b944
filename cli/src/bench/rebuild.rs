//! `weft bench --rebuild`: what it takes to fill a lost disk again, by layout.
//!
//! For each layout an array with as many nodes as it has columns, and as much on each disk. A disk is
//! replaced by an empty one, round after round, the layouts in turns; the middle of the rounds counts.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weft_core::layout::LayoutSpec;
use weft_core::units::SECTOR;
use weft_host::status::{NodeState, NodeStatus, Status};
use weft_host::{Array, Control, ControlRequest, Handle, Listen, NodeAction, Spec};
use weft_terminal::{Counts, Stage, align_right, mb_per_s, say, say_json, table};

use super::{Bench, Medium, VICTIM, VOLUME, is_whole_at};
use weft_trial::load::{connect, fill};
use weft_trial::scratch::Scratch;

/// An odd number, so that there is one in the middle.
const ROUNDS: usize = 5;
/// How long a rebuild may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(Vec<LayoutSpec>);

impl std::str::FromStr for Choice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let one = |name: &str| {
            let spec: LayoutSpec = name.trim().parse().map_err(|e| format!("{e}"))?;
            let layout = spec.over(spec.least_nodes()).map_err(|e| e.to_string())?;
            let code = layout.code().map_err(|e| e.to_string())?;
            match code.any_losses() {
                0 => Err(format!("{name} has no redundancy to rebuild from")),
                _ => Ok(spec),
            }
        };
        Ok(Choice(text.split(',').map(one).collect::<Result<_, _>>()?))
    }
}

/// An array of a layout.
struct Subject {
    layout: LayoutSpec,
    /// The node whose disk is lost.
    victim: usize,
    array: Handle,
    control: Control,
    rounds: Vec<Round>,
    _dir: Scratch,
}

/// What came out of a rebuild.
#[derive(Clone, Copy)]
struct Round {
    seconds: f64,
    /// Bytes put back.
    put_back: u64,
    /// Bytes that helpers sent for it.
    read: u64,
}

/// Runs all of it.
pub fn run(bench: &Bench, choice: &Choice) -> Result<ExitCode> {
    let mut media = Vec::new();
    for medium in bench.media()? {
        media.push((medium.name, measure(bench, &medium, &choice.0)?));
    }
    match bench.json {
        true => say_json(json!({
            "column_bytes": share(bench),
            "rounds": ROUNDS,
            "rebuilds": media.iter().flat_map(|(name, all)| as_json(name, all)).collect::<Vec<_>>(),
        }))?,
        false => say(describe(bench, &media))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Bytes of the volume on each disk.
fn share(bench: &Bench) -> u64 {
    bench.size() / 16
}

fn measure(
    bench: &Bench,
    medium: &Medium,
    layouts: &[LayoutSpec],
) -> Result<Vec<(LayoutSpec, Round)>> {
    let mut subjects = Vec::new();
    for layout in layouts {
        subjects.push(start(bench, medium, *layout)?);
    }
    let name = format!("{}: disks are rebuilt", medium.name);
    let stage = Stage::new(name, (ROUNDS * layouts.len()) as u64, Counts::Things);
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            let round = rebuild(&mut subject.control, subject.victim)?;
            subject.rounds.push(round);
            stage.advance(1);
        }
    }
    stage.bar().finish_and_clear();
    let mut out = Vec::new();
    for subject in subjects {
        out.push((subject.layout, middle(subject.rounds)));
        subject.array.shutdown()?;
    }
    Ok(out)
}

fn start(bench: &Bench, medium: &Medium, layout: LayoutSpec) -> Result<Subject> {
    let dir = Scratch::new("weft-bench-", &medium.dir)?;
    let nodes = layout.least_nodes();
    let columns = layout.over(nodes)?;
    let spec = Spec {
        nodes: Some(nodes),
        disk_size: Some((share(bench) + (128 << 20)).next_multiple_of(1 << 20)),
        volumes: vec![(VOLUME.to_string(), share(bench) * columns.data_columns() as u64)],
        layout: Some(layout),
        ..Spec::default()
    };
    let socket = dir.path().join("nbd.sock");
    let listens = [Listen::unix(socket.clone())];
    let array = Array::start(dir.path(), &spec, &listens, weft_host::Log::silent())?.spawn()?;
    let mut host = connect(&socket, VOLUME)?;
    fill(&mut host, &format!("{}, {layout}: filling the volume", medium.name))?;
    let mut control = Control::connect(dir.path())?;
    control.request(&ControlRequest::Quiesce)?;
    Ok(Subject { layout, victim: victim(nodes), array, control, rounds: Vec::new(), _dir: dir })
}

/// The node whose disk is lost: the last one where there are few.
fn victim(nodes: usize) -> usize {
    VICTIM.min(nodes - 1)
}

/// Loses a disk and waits until an empty one in its place holds all again.
fn rebuild(control: &mut Control, victim: usize) -> Result<Round> {
    control.request(&ControlRequest::Node { action: NodeAction::Kill, node: victim })?;
    let before = counted(&control.status()?, victim);
    let begun = Instant::now();
    control.request(&ControlRequest::disk_replace(victim))?;
    let status = loop {
        let status = control.status()?;
        if is_whole_at(&status, victim) {
            break status;
        }
        ensure!(begun.elapsed() < PATIENCE, "the disk was not rebuilt within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    };
    let seconds = begun.elapsed().as_secs_f64();
    let counters = status.nodes[victim].counters;
    let counters = counters.context("the node does not report its rebuilt content")?;
    let put_back = counters.rebuilt_sectors * SECTOR;
    // Between nodes went what was read, and what came of it.
    let read = (counted(&status, victim) - before).saturating_sub(put_back);
    Ok(Round { seconds, put_back, read })
}

/// Bytes that went between nodes so far.
fn counted(status: &Status, victim: usize) -> u64 {
    // The victim begins to count anew.
    let counts = |(n, node): &(usize, &NodeStatus)| *n != victim || node.state == NodeState::Up;
    let nodes = status.nodes.iter().enumerate().filter(counts);
    nodes.filter_map(|(_, node)| node.counters).map(|c| c.totals.wire_bytes).sum()
}

fn middle(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    rounds[rounds.len() / 2]
}

fn as_json<'a>(
    medium: &'a str,
    all: &'a [(LayoutSpec, Round)],
) -> impl Iterator<Item = Value> + 'a {
    all.iter().map(move |(layout, round)| {
        json!({
            "medium": medium,
            "layout": layout.to_string(),
            "seconds": round.seconds,
            "put_back_bytes": round.put_back,
            "read_bytes": round.read,
        })
    })
}

fn describe(bench: &Bench, media: &[(&str, Vec<(LayoutSpec, Round)>)]) -> String {
    let head =
        ["on", "layout", "s", "MB/s", "read for each byte", "bytes of first", "time of first"];
    let mut table = table(head);
    for (medium, all) in media {
        let first = all[0].1;
        for (layout, round) in all {
            table.add_row([
                medium.to_string(),
                layout.to_string(),
                format!("{:.2}", round.seconds),
                format!("{:.1}", mb_per_s(round.put_back, round.seconds)),
                format!("{:.2}", round.read as f64 / round.put_back as f64),
                format!("{:.3}", round.read as f64 / first.read as f64),
                format!("{:.3}", round.seconds / first.seconds),
            ]);
        }
    }
    align_right(&mut table, 2..7);
    format!(
        "{table}\na disk with {} of a filled volume, replaced by an empty one while no host sends requests; all nodes in one \
         process; the median of {ROUNDS} rounds, in turns",
        weft_host::Size(share(bench)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mirror has two nodes only.
    #[test]
    fn the_victim_is_a_node_of_the_layout() {
        for (layout, node) in [("raid1", 1), ("rs:1+1", 1), ("raid5", 2), ("lrc:12+2+2", 2)] {
            let Choice(chosen) = layout.parse().unwrap();
            assert_eq!(victim(chosen[0].least_nodes()), node, "{layout}");
        }
    }
}
