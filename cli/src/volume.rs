//! `weft volume`: creates, lists, shows, changes and deletes volumes.

mod controlled;
mod copying;
mod creating;
mod deleting;
mod diff;
mod flattening;
mod keys;
mod limits;
mod ranges;
mod refreshing;
mod rights;
mod snapshots;
mod transferring;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use weft_core::policy::time::about;
use weft_host::ControlRequest;
use weft_host::status::{ExposedStatus, MissingNode, VolumeMode, VolumeStatus};
use weft_terminal::{align_right, bytes, folded, say, say_json, table, width};

use crate::args::{self, Common};
use crate::lost;
use crate::output::{say_cut_off, uris};

use copying::Copy;
use creating::Create;
use deleting::Delete;
use diff::Diff;
use flattening::Flatten;
pub use limits::{limits, promise};
use rights::{Allow, Deny};
use snapshots::{Cloning, List, Rollback, Snapshot};
pub use snapshots::{count_in_words, without_snapshots};
use transferring::{Export, Import};

/// Commands for volumes.
#[derive(Debug, Subcommand)]
pub enum Volume {
    /// Create a volume
    Create(Create),
    /// List all volumes, or all snapshots
    List(List),
    /// Show one volume, and how hosts reach it
    Show(Named),
    /// Grow a volume online (hosts see the new size when they reconnect), or shrink it while no host uses it
    Resize(Resize),
    /// Change a volume's policy online: ordering, commit, redundancy and so on
    Set(Set),
    /// Refresh deferred parity of a volume with redundancy=deferred or never, and wait until it is done
    Refresh(Refresh),
    /// Show the lost ranges of a volume, and when each was found
    Lost(Lost),
    /// Copy a volume to another one that no host uses. Holes stay holes
    Copy(Copy),
    /// Rename a volume that no host uses
    Rename(Rename),
    /// Take a snapshot of volumes, all at one instant, while hosts use them
    Snapshot(Snapshot),
    /// Create a writable volume from a snapshot. Both share unchanged content
    Clone(Cloning),
    /// Make a clone independent of its snapshot, by copying the shared content in the background
    Flatten(Flatten),
    /// List ranges that may have changed in a volume since a snapshot of it, or between two snapshots
    Diff(Diff),
    /// Write a snapshot, or its changes since an earlier one, to a file or to standard output
    Export(Export),
    /// Import an exported snapshot to a new volume, or changes to the volume that has the earlier snapshot
    Import(Import),
    /// Set a volume that no host uses back to a snapshot of it: later writes are lost
    Rollback(Rollback),
    /// Delete a volume that no host uses; it can be undeleted for a day, until its space is needed. Or delete a snapshot
    Delete(Delete),
    /// Restore a deleted volume with its content
    Undelete(Named),
    /// Add a known host to the list of a volume; a volume with a list serves only hosts on it. Or remove the list
    Allow(Allow),
    /// Remove the persistent reservation of a volume and all hosts that registered with it
    Unreserve(Named),
    /// Take a host off the list of a volume: its connections to it end
    Deny(Deny),
}

/// The volume to rename.
#[derive(Debug, Args)]
pub struct Rename {
    /// Name of the volume
    name: String,
    /// New name
    to: String,
    #[command(flatten)]
    common: Common,
}

/// The values to set.
#[derive(Debug, Args)]
pub struct Set {
    /// Name of the volume
    name: String,
    /// Choices to change, such as redundancy=deferred; `weft choices` explains all
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Apply only to bytes A up to B, such as 1G..2G: whole stripes, and only keys about redundancy
    #[arg(long, value_name = "A..B", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Allow ordering=none for a volume with several hosts
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    split.ok_or_else(|| format!("'{text}' is not KEY=VALUE; write it like ordering=sequencer"))
}

/// The volume to resize.
#[derive(Debug, Args)]
pub struct Resize {
    /// Name of the volume
    name: String,
    /// New size, such as 2G; 'all' takes all free space; a smaller size only while no host uses the volume
    #[arg(value_parser = args::volume_size)]
    size: u64,
    /// Shrink even if data is cut off, which is then lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

/// The range to refresh.
#[derive(Debug, Args)]
pub struct Refresh {
    /// Name of the volume
    name: String,
    /// Bytes A up to B, such as 1G..2G [default: the whole volume]
    #[arg(long, value_name = "A..B", value_parser = range)]
    range: Option<(u64, u64)>,
    #[command(flatten)]
    common: Common,
}

/// The volume with lost data.
#[derive(Debug, Args)]
pub struct Lost {
    /// Name of the volume
    name: String,
    /// Read lost ranges as zeros from now on; later writes of hosts stay
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    common: Common,
}

/// Reads a range of bytes.
fn range(text: &str) -> Result<(u64, u64), String> {
    let like = || format!("'{text}' is not a range; write it like 0..1G");
    let (from, to) = text.split_once("..").ok_or_else(like)?;
    let (from, to) = (args::size(from)?, args::size(to)?);
    if from < to {
        Ok((from, to))
    } else {
        Err(format!("{text} is empty; the second value must be larger"))
    }
}

/// A volume by its name.
#[derive(Debug, Args)]
pub struct Named {
    /// Name of the volume
    name: String,
    #[command(flatten)]
    common: Common,
}

impl Volume {
    /// It fails while something is lost, or is not redundant that should be.
    fn exit_code(&self, answer: &serde_json::Value) -> ExitCode {
        let is_left = |key: &str| answer[key].as_u64().is_some_and(|count| count > 0);
        let fails = match self {
            Volume::Lost(_) => is_left("bytes_lost"),
            Volume::Refresh(_) => is_left("sectors_left"),
            _ => false,
        };
        if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Asks the array, and says what it answered.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Volume::Copy(copy) => return copy.run(),
            Volume::Diff(diff) => return diff.run(),
            Volume::Export(export) => return export.run(),
            Volume::Flatten(flatten) => return flatten.run(),
            Volume::Import(import) => return import.run(),
            _ => {}
        }
        let (common, request) = self.request()?;
        let mut control = common.target.connect()?;
        match self {
            Volume::Delete(delete) => delete.confirm(&mut control)?,
            Volume::Rollback(rollback) => rollback.confirm()?,
            _ => {}
        }
        let answer = control.request(&request).map_err(|e| self.explained(e))?;
        if let Some(warning) = answer["volume"]["warning"].as_str()
            && !matches!(self, Volume::Show(_))
        {
            eprintln!("warning: {warning}");
        }
        if let Some(warning) = answer["warning"].as_str() {
            eprintln!("warning: {warning}");
        }
        let exit = self.exit_code(&answer);
        if common.json {
            say_json(answer)?;
            return Ok(exit);
        }
        say_cut_off(&answer)?;
        match self {
            Volume::List(list) => list.said(&answer)?,
            Volume::Snapshot(_) => snapshots::taken(&answer)?,
            Volume::Delete(delete) => {
                say(deleting::deleted(&delete.name, answer["seconds_left"].as_u64()))?
            }
            Volume::Refresh(refresh) => {
                let left = answer["sectors_left"].as_u64().unwrap_or(0);
                say(refreshing::refreshed(&refresh.name, left))?;
                return Ok(exit);
            }
            Volume::Lost(_) => {
                lost::show(&answer)?;
                return Ok(exit);
            }
            Volume::Allow(allow) => allow.said(&answer)?,
            Volume::Deny(deny) => deny.said(&answer)?,
            Volume::Unreserve(named) => rights::unreserved(&named.name, &answer)?,
            Volume::Copy(_)
            | Volume::Diff(_)
            | Volume::Flatten(_)
            | Volume::Export(_)
            | Volume::Import(_) => {
                unreachable!("it is several requests")
            }
            Volume::Create(_)
            | Volume::Clone(_)
            | Volume::Rollback(_)
            | Volume::Show(_)
            | Volume::Resize(_)
            | Volume::Set(_)
            | Volume::Rename(_)
            | Volume::Undelete(_) => {
                let volume = serde_json::from_value(answer["volume"].clone())?;
                self.show(&volume, &control.status()?.listens)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self) -> Result<(&Common, ControlRequest)> {
        Ok(match self {
            Volume::Copy(_)
            | Volume::Diff(_)
            | Volume::Flatten(_)
            | Volume::Export(_)
            | Volume::Import(_) => {
                unreachable!("it is several requests")
            }
            Volume::Create(c) => (c.common(), c.request()),
            Volume::Set(s) => {
                let mut set = BTreeMap::new();
                for (key, value) in &s.set {
                    let before = set.insert(key.clone(), value.clone());
                    ensure!(before.is_none(), "'{key}' is given twice; give it once");
                }
                let range = s.range.map(|(from, to)| (from, to - from));
                let (name, force) = (s.name.clone(), s.force);
                (&s.common, ControlRequest::VolumeSet { name, set, force, range })
            }
            Volume::Resize(r) => {
                let (name, size, force) = (r.name.clone(), r.size, r.force);
                (&r.common, ControlRequest::VolumeResize { name, size, force })
            }
            Volume::Refresh(r) => {
                let (offset, length) = r.range.map_or((0, None), |(a, b)| (a, Some(b - a)));
                let volume = r.name.clone();
                (&r.common, ControlRequest::Refresh { volume, offset, length })
            }
            Volume::Lost(l) => {
                (&l.common, ControlRequest::Lost { volume: l.name.clone(), accept: l.accept })
            }
            Volume::List(list) => (list.common(), list.request()),
            Volume::Snapshot(snapshot) => (snapshot.common(), snapshot.request()),
            Volume::Clone(clone) => (clone.common(), clone.request()),
            Volume::Rollback(rollback) => (rollback.common(), rollback.request()),
            Volume::Show(n) => (&n.common, ControlRequest::VolumeShow { name: n.name.clone() }),
            Volume::Delete(d) => {
                let request = ControlRequest::VolumeDelete { name: d.name.clone(), now: d.now };
                (&d.common, request)
            }
            Volume::Undelete(n) => {
                (&n.common, ControlRequest::VolumeUndelete { name: n.name.clone() })
            }
            Volume::Allow(allow) => (allow.common(), allow.request()),
            Volume::Deny(deny) => (deny.common(), deny.request()),
            Volume::Unreserve(n) => {
                (&n.common, ControlRequest::VolumeUnreserve { name: n.name.clone() })
            }
            Volume::Rename(r) => {
                let (name, to) = (r.name.clone(), r.to.clone());
                (&r.common, ControlRequest::VolumeRename { name, to })
            }
        })
    }

    /// Shows one volume, and where hosts find it.
    fn show(&self, volume: &VolumeStatus, listens: &[String]) -> Result<()> {
        say(volumes(std::slice::from_ref(volume), width()))?;
        let form = volume.policy.get("sequencer");
        let form = form.map_or(String::new(), |f| format!(", sequencer: {f}"));
        let [strategy, calculator, commit, dispatch, roles, wait] =
            ["strategy", "calculator", "commit", "dispatch", "roles", "lost_wait"]
                .map(|key| volume.choice(key));
        rights::list(volume)?;
        for line in snapshots::in_words(volume) {
            say(line)?;
        }
        let apart = &volume.apart;
        let block = volume.policy.get("block").filter(|bytes| *bytes != "512");
        let block = block.map_or(String::new(), |bytes| format!(", block: {bytes}"));
        say(format!(
            "commit: {commit}, dispatch: {dispatch} (roles={roles}){form}, strategy: {strategy}, \
             calculator: {calculator}, apart: {apart}, lost-wait: {wait}{}{}",
            block,
            controlled::in_words(volume)
        ))?;
        if let Some(line) = controller(volume) {
            say(line)?;
        }
        if let Some(line) = redundancy(volume) {
            say(line)?;
        }
        for line in ranges::in_words(volume).chain(limits(volume)).chain(promise(volume)) {
            say(line)?;
        }
        for line in troubles(volume) {
            say(line)?;
        }
        if let (Volume::Show(_), Some(warning)) = (self, &volume.warning) {
            say(format!("warning: {warning}"))?;
        }
        uris(listens, volume).try_for_each(say)
    }
}

/// When a volume's parity is computed, if not at once, in words.
fn redundancy(volume: &VolumeStatus) -> Option<String> {
    let timing = volume.choice("redundancy");
    let of = |key: &str| volume.choice(key).to_string();
    (!matches!(timing, "immediate" | "?")).then(|| {
        format!(
            "redundancy: {timing}, immediate-parities: {}, refresh: {}, idle: {}, exposed-stripes: {}, \
             exposed-bytes: {}, exposed-for: {}, flush: {}, mttdl: {}, start: {}, disk-mttf: {}",
            of("immediate_parities"),
            of("refresh"),
            of("idle"),
            of("exposed_stripes"),
            of("exposed_bytes"),
            of("exposed_for"),
            of("flush"),
            of("mttdl"),
            of("start"),
            of("disk_mttf"),
        )
    })
}

/// A table of volumes as the array describes them, no wider than that if it is given.
pub fn volumes(list: &[VolumeStatus], width: Option<usize>) -> String {
    if list.is_empty() {
        return "no volumes; create one with `weft volume create NAME SIZE`".to_string();
    }
    let mut table = table([
        "volume", "size", "layout", "unit", "journal", "ordering", "mode", "survives", "hosts",
    ]);
    for v in list {
        table.add_row([
            v.name.clone(),
            size(v),
            v.layout.clone(),
            bytes(v.stripe_unit),
            if v.journal { "on" } else { "off" }.to_string(),
            v.choice("ordering").to_string(),
            v.mode.to_string(),
            survives(v),
            v.clients.to_string(),
        ]);
    }
    align_right(&mut table, [1, 3, 8]);
    folded(&table, width)
}

/// A volume's size, and how much of it has space if it is thin.
fn size(volume: &VolumeStatus) -> String {
    match volume.used_bytes {
        Some(used) => format!("{} ({} used)", bytes(volume.size), bytes(used)),
        None => bytes(volume.size),
    }
}

/// Who is the controller, if there is one.
pub fn controller(volume: &VolumeStatus) -> Option<String> {
    let node = volume.controller?;
    let backup = volume.controller_backup.map_or("none".to_string(), |n| format!("node {n}"));
    let name = &volume.name;
    Some(format!("volume {name}: the controller is node {node}; its backup is {backup}"))
}

/// What is to be said of a volume that is not whole.
pub fn troubles(volume: &VolumeStatus) -> Vec<String> {
    let VolumeStatus { name, stripes, .. } = volume;
    let mut out = Vec::new();
    if volume.mode == VolumeMode::Unfinished && volume.snapshots > 0 {
        out.push(format!(
            "volume {name} is being rolled back; if that was interrupted, repeat `weft volume rollback {name} SNAPSHOT`"
        ));
    } else if volume.mode == VolumeMode::Unfinished {
        out.push(format!(
            "volume {name} is being created or deleted; if that was interrupted, `weft volume \
             delete {name}` frees its space"
        ));
    }
    if let Some(left) = volume.deleted_seconds_left {
        return vec![format!(
            "volume {name} has been deleted; `weft volume undelete {name}` restores it within {}, and `weft volume delete \
             --now {name}` frees its space",
            about(left)
        )];
    }
    let (degraded, critical) = (volume.stripes_degraded, volume.stripes_critical);
    if degraded + critical > 0 {
        out.push(format!(
            "volume {name}: of {stripes} stripes {degraded} are degraded, {critical} tolerate no more losses"
        ));
    }
    out.extend(volume.exposed.as_ref().and_then(|e| exposed(name, e)));
    let forgot: Vec<String> = volume.forgot.iter().map(|n| format!("node {n}")).collect();
    if !forgot.is_empty() {
        out.push(format!(
            "volume {name} waits: the disks of {} have lost acknowledged writes, more than the \
             layout tolerates, and no running node has them. Start the nodes that are down, or \
             restore the right disks and restart their nodes; `weft disk replace` gives up the remaining writes",
            forgot.join(", ")
        ));
    }
    let missing: Vec<String> = volume.missing.iter().map(lacking).collect();
    if !missing.is_empty() {
        out.push(format!(
            "volume {name}: {} of {} extent{} ({} of {stripes} stripes) {} failed; missing: {}; \
             {}",
            volume.extents_failed,
            volume.extents,
            if volume.extents == 1 { "" } else { "s" },
            volume.stripes_failed,
            if volume.extents_failed == 1 { "has" } else { "have" },
            missing.join(", "),
            meanwhile(volume.choice("lost_wait"))
        ));
    }
    out
}

/// What parity that waits exposes, in words, if it does or something is lost.
fn exposed(name: &str, e: &ExposedStatus) -> Option<String> {
    let lost = match e.lost_bytes {
        0 => String::new(),
        lost => format!(
            "; {} are permanently lost, and reads of them fail until they are written",
            bytes(lost)
        ),
    };
    let achieved = match (e.mttdl_hours, e.mdlr_bytes_per_hour) {
        (Some(mttdl), Some(mdlr)) => {
            format!("; MTTDL {mttdl:.3e} hours, MDLR {mdlr:.3} bytes an hour")
        }
        _ => String::new(),
    };
    let now = match e.bytes {
        0 => "nothing is exposed".to_string(),
        exposed => format!(
            "{} are exposed, for {:.0} s at most: parity of {} stripe units is deferred",
            bytes(exposed),
            e.oldest_seconds,
            e.stripes
        ),
    };
    (e.most_bytes > 0 || e.lost_bytes > 0).then(|| {
        format!(
            "volume {name}: {now} (so far {} on average, {} at most, {:.1} % of the time){achieved}{lost}",
            bytes(e.mean_bytes),
            bytes(e.most_bytes),
            100.0 * e.unprotected_share
        )
    })
}

/// What becomes of requests that need what a volume lacks, in words.
fn meanwhile(lost_wait: &str) -> String {
    match lost_wait {
        "0s" => "requests that need them fail (lost-wait: 0s)".to_string(),
        "forever" => "requests that need them wait (lost-wait: forever)".to_string(),
        time => format!("requests that need them fail after {time} (lost-wait: {time})"),
    }
}

/// A node that extents lack, in words.
fn lacking(node: &MissingNode) -> String {
    let name = node.name.as_ref().map_or(String::new(), |n| format!("{n}, "));
    let state = if node.up { "not caught up" } else { "down" };
    let plural = if node.extents == 1 { "" } else { "s" };
    format!("node {} ({name}{state}; {} extent{plural})", node.node, node.extents)
}

/// What a volume bears to lose, in words: all of it, but for what is exposed.
pub fn survives(volume: &VolumeStatus) -> String {
    let nodes = survived_nodes(volume);
    match volume.exposed.as_ref().map_or(0, |e| e.bytes) {
        0 => nodes,
        exposed => format!("{nodes}, but for {} exposed", bytes(exposed)),
    }
}

fn survived_nodes(volume: &VolumeStatus) -> String {
    let Some(survives) = volume.survives else { return "-".to_string() };
    let some = volume.survives_next.filter(|share| *share > 0.0);
    let nodes = match (survives, some) {
        (n, Some(share)) => {
            let any = match n {
                0 => String::new(),
                1 => "any 1 more node, ".to_string(),
                n => format!("any {n} more nodes, "),
            };
            format!("{any}{:.0} % of {}", (100.0 * share).floor(), sets_of(n + 1))
        }
        (0, None) => return "no more losses".to_string(),
        (1, None) => "1 more node lost".to_string(),
        (n, None) => format!("{n} more nodes lost"),
    };
    match volume.bears.as_ref().and_then(|bears| bears.get("box")) {
        None => nodes,
        Some(0) => format!("{nodes}, no whole box"),
        Some(1) => format!("{nodes}, or 1 box"),
        Some(n) => format!("{nodes}, or {n} boxes"),
    }
}

/// Sets of so many, in words.
pub fn sets_of(n: usize) -> String {
    let words =
        ["single ones", "pairs", "threes", "fours", "fives", "sixes", "sevens", "eights", "nines"];
    let word = n.checked_sub(1).and_then(|at| words.get(at));
    word.map_or_else(|| format!("sets of {n}"), |w| w.to_string())
}

#[cfg(test)]
mod tests;
