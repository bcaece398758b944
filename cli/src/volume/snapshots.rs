//! `weft volume snapshot`, `clone`, `rollback`, and the list of snapshots.

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_host::ControlRequest;
use weft_host::status::{ScheduleStatus, VolumeStatus};
use weft_terminal::{align_right, bytes, folded, say, table, width};

use crate::args::Common;
use crate::confirm::Confirm;

/// Which volumes to list.
#[derive(Debug, Args)]
pub struct List {
    /// List the snapshots of volumes instead
    #[arg(long)]
    snapshots: bool,
    #[command(flatten)]
    common: Common,
}

/// The snapshot to take.
#[derive(Debug, Args)]
pub struct Snapshot {
    /// Name of the volume, or names of several, such as data,log
    #[arg(value_name = "VOLUME[,VOLUME...]", value_parser = names)]
    volumes: Names,
    /// Name of the snapshot; the snapshot of volume data is data@NAME
    #[arg(value_name = "NAME")]
    snapshot_name: String,
    #[command(flatten)]
    common: Common,
}

/// The snapshot to clone.
#[derive(Debug, Args)]
pub struct Cloning {
    /// Name of the snapshot, such as data@before
    snapshot: String,
    /// Name of the new volume
    to: String,
    #[command(flatten)]
    common: Common,
}

/// The volume to set back.
#[derive(Debug, Args)]
pub struct Rollback {
    /// Name of the volume
    name: String,
    /// Name of the snapshot, such as before or data@before
    snapshot: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    common: Common,
}

/// Names of volumes, with commas between them.
#[derive(Clone, Debug)]
struct Names(Vec<String>);

fn names(text: &str) -> Result<Names, String> {
    let names: Vec<String> = text.split(',').map(str::to_string).collect();
    match names.iter().any(String::is_empty) {
        true => Err(format!(
            "'{text}' has an empty name; write names of volumes like data,log, without spaces"
        )),
        false => Ok(Names(names)),
    }
}

impl List {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        ControlRequest::VolumeList { snapshots: self.snapshots }
    }

    pub(super) fn said(&self, answer: &Value) -> Result<()> {
        let all: Vec<VolumeStatus> = serde_json::from_value(answer["volumes"].clone())?;
        say(match self.snapshots {
            true => snapshots(&all, width()),
            false => super::volumes(&all, width()),
        })
    }
}

impl Snapshot {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        let (volumes, snapshot) = (self.volumes.0.clone(), self.snapshot_name.clone());
        ControlRequest::VolumeSnapshot { volumes, snapshot }
    }
}

impl Cloning {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        ControlRequest::VolumeClone { snapshot: self.snapshot.clone(), to: self.to.clone() }
    }
}

impl Rollback {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        let (name, snapshot) = (self.name.clone(), self.snapshot.clone());
        ControlRequest::VolumeRollback { name, snapshot }
    }

    /// Asks whether it is meant.
    pub(super) fn confirm(&self) -> Result<()> {
        let Rollback { name, snapshot, .. } = self;
        self.confirm.ask(&format!(
            "volume {name} would be set back to snapshot {snapshot}, and all later writes would be lost (`weft volume \
             snapshot {name} NAME` keeps it)"
        ))
    }
}

/// Says which snapshots have been taken.
pub(super) fn taken(answer: &Value) -> Result<()> {
    let all: Vec<VolumeStatus> = serde_json::from_value(answer["snapshots"].clone())?;
    say(without_use(&all, width()))
}

/// A table of snapshots just taken: how much they use is not known yet.
fn without_use(list: &[VolumeStatus], width: Option<usize>) -> String {
    let mut table = table(["snapshot", "taken (UTC)", "size"]);
    for snapshot in list {
        let taken = snapshot.taken.as_deref().map_or("-".to_string(), to_the_second);
        table.add_row([snapshot.name.clone(), taken, bytes(snapshot.size)]);
    }
    align_right(&mut table, [2]);
    folded(&table, width)
}

/// A table of snapshots, no wider than that if it is given.
fn snapshots(list: &[VolumeStatus], width: Option<usize>) -> String {
    if list.is_empty() {
        return "no snapshots; take one with `weft volume snapshot VOLUME NAME`".to_string();
    }
    let mut table = table(["snapshot", "taken (UTC)", "size", "used", "exclusive"]);
    for snapshot in list {
        table.add_row([
            snapshot.name.clone(),
            snapshot.taken.as_deref().map_or("-".to_string(), to_the_second),
            bytes(snapshot.size),
            snapshot.used_bytes.map_or_else(|| bytes(snapshot.size), bytes),
            snapshot.exclusive_bytes.map_or("-".to_string(), bytes),
        ]);
    }
    align_right(&mut table, [2, 3, 4]);
    folded(&table, width)
}

/// A time as people read it, to the second.
fn to_the_second(stamp: &str) -> String {
    stamp.split('.').next().unwrap_or_default().replace('T', " ")
}

/// What a volume has to do with snapshots, in words.
pub(super) fn in_words(volume: &VolumeStatus) -> Vec<String> {
    let mut out = Vec::new();
    let shows = |below| format!("sectors not written since are those of {below}");
    match (&volume.snapshot_of, &volume.taken, &volume.below) {
        (Some(of), Some(taken), below) => {
            let mut line = format!("snapshot of volume {of}, taken {}", to_the_second(taken));
            line += " UTC; hosts can only read it";
            out.push(line);
            out.extend(
                below.as_ref().map(|below| format!("is based on {below}: {}", shows(below))),
            );
        }
        (_, _, Some(below)) => out.push(format!("is based on {below}: {}", shows(below))),
        _ => {}
    }
    out.extend(super::flattening::in_words(volume));
    out.extend(count_in_words(std::slice::from_ref(volume)));
    out.extend(volume.schedule.iter().map(schedule_in_words));
    out
}

/// A kind of scheduled snapshots, in words.
fn schedule_in_words(of: &ScheduleStatus) -> String {
    let ScheduleStatus { kind, keep, snapshots, .. } = of;
    let newest = match &of.newest {
        Some(newest) => format!("the newest taken {} UTC", to_the_second(newest)),
        None => "none taken yet".to_string(),
    };
    let next = match &of.hindrance {
        Some(why) => format!("the next cannot be taken: {why}"),
        None => format!("the next is due {} UTC", to_the_second(&of.next)),
    };
    format!("{kind} snapshots: {snapshots} of {keep}, {newest}; {next}")
}

/// The volumes that are no snapshots.
pub fn without_snapshots(list: &[VolumeStatus]) -> Vec<VolumeStatus> {
    list.iter().filter(|volume| volume.snapshot_of.is_none()).cloned().collect()
}

/// How many snapshots there are, in words, if there are any.
pub fn count_in_words(list: &[VolumeStatus]) -> Option<String> {
    let all: usize = list.iter().map(|volume| volume.snapshots).sum();
    match all {
        0 => None,
        1 => Some("1 snapshot; `weft volume list --snapshots` lists it".to_string()),
        n => Some(format!("{n} snapshots; `weft volume list --snapshots` lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_with_commas() {
        assert_eq!(names("a,b").unwrap().0, ["a", "b"]);
        assert_eq!(names("a").unwrap().0, ["a"]);
        for wrong in ["", "a,", ",a", "a,,b"] {
            assert!(names(wrong).unwrap_err().contains("has an empty name"), "{wrong}");
        }
    }

    #[test]
    fn snapshots_are_listed_with_their_time_and_told_of_in_words() {
        let volume = VolumeStatus { name: "a".into(), snapshots: 2, ..VolumeStatus::default() };
        let first = VolumeStatus {
            name: "a@s".into(),
            snapshot_of: Some("a".into()),
            taken: Some("2026-11-28T04:05:06.000Z".into()),
            size: 4096,
            ..VolumeStatus::default()
        };
        let second = VolumeStatus {
            name: "a@t".into(),
            below: Some("a@s".into()),
            used_bytes: Some(0),
            exclusive_bytes: Some(8192),
            ..first.clone()
        };
        let taken = without_use(std::slice::from_ref(&first), None);
        assert!(taken.contains(&first.name) && !taken.contains("exclusive"), "{taken}");
        let listed = snapshots(&[first.clone(), second.clone()], None);
        let row = |name: &str| listed.lines().find(|line| line.contains(name)).unwrap().to_string();
        assert!(row("a@s").contains("2026-11-28 04:05:06"), "{listed}");
        assert_eq!(row("a@s").matches("4.00 KiB").count(), 2, "its space is reserved");
        assert!(row("a@t").contains("0 B") && row("a@t").contains("8.00 KiB"), "{listed}");
        assert!(snapshots(&[], None).contains("take one with"));
        let taken = "snapshot of volume a, taken 2026-11-28 04:05:06 UTC; hosts can only read it";
        assert_eq!(in_words(&first), [taken]);
        let below = "is based on a@s: sectors not written since are those of a@s";
        assert_eq!(in_words(&second), [taken, below]);
        let clone = VolumeStatus { below: Some("a@s".into()), ..VolumeStatus::default() };
        assert_eq!(in_words(&clone), [below]);
        let all = [volume, first, second];
        let count = "2 snapshots; `weft volume list --snapshots` lists them";
        assert_eq!(in_words(&all[0]), [count]);
        assert_eq!(count_in_words(&all).as_deref(), Some(count));
        assert_eq!(count_in_words(&all[1..]), None);
        let hourly = ScheduleStatus {
            kind: "hourly".into(),
            keep: 24,
            snapshots: 3,
            newest: Some("2026-11-28T12:00:01.000Z".into()),
            next: "2026-11-28T13:00:00.000Z".into(),
            ..ScheduleStatus::default()
        };
        let daily = ScheduleStatus {
            kind: "daily".into(),
            keep: 7,
            hindrance: Some("no votes".into()),
            ..ScheduleStatus::default()
        };
        let scheduled = VolumeStatus { schedule: vec![hourly, daily], ..VolumeStatus::default() };
        assert_eq!(
            in_words(&scheduled),
            [
                "hourly snapshots: 3 of 24, the newest taken 2026-11-28 12:00:01 UTC; the next is due 2026-11-28 13:00:00 UTC",
                "daily snapshots: 0 of 7, none taken yet; the next cannot be taken: no votes"
            ]
        );
        let names: Vec<String> = without_snapshots(&all).into_iter().map(|v| v.name).collect();
        assert_eq!(names, ["a"]);
    }
}
