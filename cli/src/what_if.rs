//! `weft cluster what-if`: what the loss of nodes, more disks or other layouts would mean.

use anyhow::Result;
use clap::{ArgGroup, Args};
use serde_json::json;
use weft_core::policy::time::about;
use weft_host::ControlRequest;
use weft_host::status::{
    PredictedDisk, PredictedLayout, PredictedMode, PredictedRebuild, PredictedVolume, Prediction,
};
use weft_terminal::{align_right, bytes, say, say_json, table};

use crate::args::{Common, numbered};

/// The changes to predict.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["lose", "add", "layout"]))]
pub struct WhatIf {
    /// Nodes that would be lost: a node number, or the name of a process for all its nodes; can be repeated
    #[arg(long, value_name = "NODE|BOX", value_delimiter = ',')]
    lose: Vec<String>,
    /// Empty disk that would be there before, as 16T@box3, or 16T for a disk in a box of its own; can be repeated
    #[arg(long, value_name = "SIZE[@BOX]", value_delimiter = ',')]
    add: Vec<String>,
    /// Layout that a volume would have, as db=rs:4+2; can be repeated
    #[arg(long, value_name = "VOLUME=LAYOUT", value_delimiter = ',')]
    layout: Vec<String>,
    #[command(flatten)]
    common: Common,
}

impl WhatIf {
    /// Asks, and prints the prediction.
    pub fn run(&self) -> Result<()> {
        let mut control = self.common.target.connect()?;
        let question =
            ControlRequest::what_if(&control.status()?, &self.lose, &self.add, &self.layout)?;
        let prediction = control.predict(&question)?;
        match self.common.json {
            true => say_json(json!(prediction)),
            false => say(describe(&prediction)),
        }
    }
}

fn describe(prediction: &Prediction) -> String {
    let mut out = Vec::new();
    if !prediction.layouts.is_empty() {
        out.push(format!("{}\n", layouts(&prediction.layouts)));
        out.extend(not_beside(&prediction.layouts));
    }
    if !prediction.lost.is_empty() {
        let are = if prediction.lost.len() == 1 { "is" } else { "are" };
        let lost = numbered(&prediction.lost);
        out.push(format!("if {lost} {are} lost:\n\n{}\n", volumes(&prediction.volumes)));
        out.push(rebuild(&prediction.rebuild));
        out.extend(without_room(&prediction.volumes));
    }
    out.extend(prediction.rebalance.map(|moves| match moves.columns {
        0 => "`weft cluster rebalance` would move nothing to the added disks".to_string(),
        n => format!("`weft cluster rebalance` would move {n} columns, {}", bytes(moves.bytes)),
    }));
    out.push(format!("\n{}", disks(&prediction.disks)));
    out.join("\n")
}

/// A row for each volume with its layout, and one with the other.
fn layouts(all: &[PredictedLayout]) -> String {
    let mut table = table(["volume", "layout", "on disks", "disks", "survives", "MTTDL"]);
    for predicted in all {
        for (when, figures) in [("now", &predicted.now), ("then", &predicted.then)] {
            table.add_row([
                format!("{} {when}", predicted.volume),
                figures.layout.clone(),
                bytes(figures.bytes_on_disks),
                figures.disks.to_string(),
                numbered_nodes(figures.survives),
                format!("{:.1e} hours", figures.mttdl_hours),
            ]);
        }
    }
    align_right(&mut table, 2..4);
    table.to_string()
}

fn numbered_nodes(n: usize) -> String {
    match n {
        1 => "1 node".to_string(),
        n => format!("{n} nodes"),
    }
}

/// The volumes that cannot be copied to new ones of the other layouts for lack of space.
fn not_beside(all: &[PredictedLayout]) -> Option<String> {
    let lacks = all.iter().filter(|predicted| !predicted.fits_beside);
    let names: Vec<&str> = lacks.map(|predicted| predicted.volume.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no space for both layouts at once of {}, which `weft volume copy` to a new volume needs\n",
            names.join(", ")
        )
    })
}

fn volumes(all: &[PredictedVolume]) -> String {
    let mut table = table(["volume", "then", "survives then", "after the rebuild"]);
    for volume in all {
        let then = match volume.then {
            PredictedMode::Failed => "failed",
            PredictedMode::Degraded => "degraded",
            PredictedMode::AsNow => "as now",
        };
        let nodes = |n: usize| match volume.then {
            PredictedMode::Failed => "-".to_string(),
            _ => numbered_nodes(n),
        };
        let (survives, rebuilt) = (nodes(volume.survives), nodes(volume.survives_rebuilt));
        table.add_row([volume.name.clone(), then.to_string(), survives, rebuilt]);
    }
    table.to_string()
}

/// How much would be rebuilt, and for how long.
fn rebuild(rebuild: &PredictedRebuild) -> String {
    if rebuild.bytes == 0 {
        return "nothing would be rebuilt".to_string();
    }
    let (all, most) = (bytes(rebuild.bytes), bytes(rebuild.most_bytes_on_a_disk));
    let mut text = format!("{all} would be rebuilt, at most {most} on a disk");
    if let Some(seconds) = rebuild.seconds_at_floor {
        text += &format!(": in {} at the rebuild floor, while hosts use the disks", about(seconds));
    }
    if let Some(seconds) = rebuild.seconds_at_ceiling {
        text += &format!("; in {} at the ceiling, while no host does", about(seconds));
    }
    text
}

/// The volumes that could not be rebuilt in full.
fn without_room(volumes: &[PredictedVolume]) -> Option<String> {
    let lacks = volumes.iter().filter(|v| !v.has_room);
    let names: Vec<&str> = lacks.map(|v| v.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no place for all lost columns of {}: the other disks lack space, or are in failure domains that have \
             columns already; `--add SIZE` shows whether another disk suffices",
            names.join(", ")
        )
    })
}

/// A table of the disks that are left: how full they may become, where a thin volume and each snapshot count as a whole.
fn disks(all: &[PredictedDisk]) -> String {
    let mut table = table(["node", "disk", "may become", "full", "rebuilt", "then", "full"]);
    for disk in all {
        let percent =
            |used: u64| format!("{:.1} %", used as f64 * 100.0 / disk.bytes.max(1) as f64);
        table.add_row([
            disk.node.to_string(),
            bytes(disk.bytes),
            bytes(disk.used_bytes),
            percent(disk.used_bytes),
            bytes(disk.rebuilt_bytes),
            bytes(disk.used_bytes_after),
            percent(disk.used_bytes_after),
        ]);
    }
    align_right(&mut table, 0..7);
    table.to_string()
}

#[cfg(test)]
mod tests {
    use weft_host::status::{LayoutFigures, PredictedMoves};

    use super::*;

    #[test]
    fn times_are_rounded_up() {
        let said: Vec<String> = [0, 299, 301, 17_999, 18_001, 432_001].map(about).into();
        assert_eq!(said, ["0s", "299s", "6m", "5h", "6h", "6d"]);
    }

    #[test]
    fn a_prediction_says_what_fails_what_is_rebuilt_and_what_lacks_room() {
        let volume = |name: &str, then| PredictedVolume {
            name: name.to_string(),
            then,
            survives: 0,
            survives_rebuilt: 1,
            has_room: true,
        };
        let rebuild = PredictedRebuild {
            bytes: 3 << 30,
            most_bytes_on_a_disk: 1 << 30,
            seconds_at_floor: Some(32),
            seconds_at_ceiling: None,
        };
        let mut prediction = Prediction {
            lost: vec![1, 2],
            volumes: vec![
                volume("db", PredictedMode::Degraded),
                volume("scratch", PredictedMode::Failed),
            ],
            rebuild,
            disks: vec![PredictedDisk { bytes: 1 << 40, ..PredictedDisk::default() }],
            ..Prediction::default()
        };
        let said = describe(&prediction);
        assert!(said.starts_with("if nodes 1, 2 are lost:"), "{said}");
        assert!(said.contains("3.00 GiB would be rebuilt, at most 1.00 GiB on a disk"), "{said}");
        assert!(
            said.contains("in 32s at the rebuild floor") && !said.contains("ceiling"),
            "{said}"
        );
        assert!(said.contains("failed") && said.contains("1 node"), "{said}");
        assert!(!said.contains("no place"), "{said}");
        prediction.volumes[0].has_room = false;
        prediction.rebalance = Some(PredictedMoves { columns: 3, bytes: 4096 });
        let said = describe(&prediction);
        assert!(said.contains("no place for all lost columns of db:"), "{said}");
        assert!(said.contains("would move 3 columns, 4.00 KiB"), "{said}");
    }

    #[test]
    fn layouts_are_compared_and_what_copying_needs_is_said() {
        let figures = |layout: &str, bytes_on_disks, survives| LayoutFigures {
            layout: layout.to_string(),
            bytes_on_disks,
            disks: 6,
            survives,
            mttdl_hours: 1.25e9,
        };
        let mut predicted = PredictedLayout {
            volume: "db".to_string(),
            now: figures("raid5", 5 << 30, 1),
            then: figures("rs:4+2", 6 << 30, 2),
            fits_beside: true,
        };
        let said = |predicted: &PredictedLayout| {
            let layouts = vec![predicted.clone()];
            describe(&Prediction { layouts, ..Prediction::default() })
        };
        let text = said(&predicted);
        for word in ["db now", "db then", "rs:4+2", "6.00 GiB", "1 node", "2 nodes", "1.2e9 hours"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("no space"), "{text}");
        predicted.fits_beside = false;
        assert!(said(&predicted).contains("no space for both layouts at once of db"));
    }
}
