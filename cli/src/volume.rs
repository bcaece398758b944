//! `weft volume`: creates, lists, shows, changes and deletes volumes.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use serde_json::Value;
use weft_core::layout::LayoutSpec;
use weft_core::order::Ordering;
use weft_core::order::sequencer::SequencerForm;
use weft_host::{ControlRequest, Size};
use weft_terminal::{align_right, say, say_json, table};

use crate::args::{self, Common, Dispatch, Switch};
use crate::output::{say_cut_off, uri};

/// What to do about volumes.
#[derive(Debug, Subcommand)]
pub enum Volume {
    /// Add a volume
    Create(Create),
    /// All volumes
    List(Common),
    /// One volume, and how hosts reach it
    Show(Named),
    /// Make a volume larger while it is in use (hosts see the new size when they connect again), or
    /// smaller while no host uses it
    Resize(Resize),
    /// Change who goes first among requests, when writes are decided, or who works out what each
    /// node does, while the volume is in use
    Set(Set),
    /// Remove a volume that no host uses, with all that is on it
    Delete(Named),
}

/// The volume to create.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the volume
    name: String,
    /// Size, such as 1G; 'all' takes all the room that is left
    #[arg(value_parser = args::volume_size)]
    size: u64,
    /// raid0, raid1, raid4, raid5 (or raid5:left-asymmetric and the like), raid6, rs:K+M or lrc:K+L+G, by default raid5
    #[arg(long, value_parser = args::layout)]
    layout: Option<LayoutSpec>,
    /// Bytes on one disk before the next one's turn [default: 64K]
    #[arg(long, value_parser = args::size)]
    stripe_unit: Option<u64>,
    /// Whether writes go to a journal before they are voted on [default: on]
    #[arg(long)]
    journal: Option<Switch>,
    /// Who works out what each node does for a write: itself, or the originator (as a central controller would)
    #[arg(long, default_value = "collaborative")]
    dispatch: Dispatch,
    /// Label of the failure domains: no two columns of an extent go to nodes with the same value; 'node' means any nodes [default: box]
    #[arg(long, value_name = "LABEL")]
    apart: Option<String>,
    /// Who goes first among requests that overlap: none, sequencer, lock-server, callback-locks, device-locks or timestamps [default: timestamps]
    #[arg(long)]
    ordering: Option<Ordering>,
    /// With --ordering sequencer, who keeps the graph of requests: centralized, partially-centralized, originator-driven or worker-driven [default: as for the other volumes that have one, else centralized]
    #[arg(long, value_name = "FORM")]
    sequencer: Option<SequencerForm>,
    /// When a write is decided: late or early [default: late]
    #[arg(long)]
    commit: Option<String>,
    /// For how long requests wait when the volume has lost nodes that it cannot do without, before they fail: 0s, 20s, 5m, forever [default: 20s]
    #[arg(long, value_name = "TIME")]
    lost_wait: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// What to set.
#[derive(Debug, Args)]
pub struct Set {
    /// Name of the volume
    name: String,
    /// ordering=none|sequencer|lock-server|callback-locks|device-locks|timestamps, sequencer=centralized|partially-centralized|originator-driven|worker-driven (of all volumes with ordering=sequencer: one graph of requests spans them), commit=late|early, dispatch=collaborative|commanded, roles=node|host (the same choice as dispatch: who asks drives the disks), lost-wait=0s|20s|5m|forever (for how long requests wait when the volume has lost nodes that it cannot do without, before they fail)
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// ordering=none also for a volume that several hosts use, or are to use
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    split.ok_or_else(|| format!("'{text}' is not KEY=VALUE; write it like ordering=sequencer"))
}

/// The volume to make larger or smaller.
#[derive(Debug, Args)]
pub struct Resize {
    /// Name of the volume
    name: String,
    /// New size, such as 2G; 'all' takes all the room that is left; a smaller one only while no host uses the volume
    #[arg(value_parser = args::volume_size)]
    size: u64,
    /// Also if that cuts off bytes that are in use, which are lost then
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
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
    /// Asks the array, and says what it answered.
    pub fn run(&self) -> Result<ExitCode> {
        let (common, request) = self.request()?;
        let mut control = common.target.connect()?;
        let answer = control.request(&request)?;
        if let Some(warning) = answer["volume"]["warning"].as_str()
            && !matches!(self, Volume::Show(_))
        {
            eprintln!("warning: {warning}");
        }
        if common.json {
            say_json(answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        say_cut_off(&answer)?;
        match self {
            Volume::List(_) => {
                say(volumes(answer["volumes"].as_array().map_or(&[], Vec::as_slice)))?
            }
            Volume::Delete(named) => say(format!("volume {} is deleted", named.name))?,
            Volume::Create(_) | Volume::Show(_) | Volume::Resize(_) | Volume::Set(_) => {
                let status = control.request(&ControlRequest::Status)?;
                let volume = &answer["volume"];
                say(volumes(std::slice::from_ref(volume)))?;
                let word = |key: &str| volume[key].as_str().unwrap_or("?").to_string();
                let form = volume["sequencer"].as_str();
                let form = form.map_or(String::new(), |f| format!(", sequencer: {f}"));
                let [commit, dispatch, roles, apart, wait] =
                    ["commit", "dispatch", "roles", "apart", "lost_wait"].map(word);
                say(format!(
                    "commit: {commit}, dispatch: {dispatch} (roles={roles}){form}, apart: {apart}, \
                     lost-wait: {wait}"
                ))?;
                for line in troubles(volume) {
                    say(line)?;
                }
                if let (Volume::Show(_), Some(warning)) = (self, volume["warning"].as_str()) {
                    say(format!("warning: {warning}"))?;
                }
                for listen in status["listens"].as_array().into_iter().flatten() {
                    let name = answer["volume"]["name"].as_str().unwrap_or_default();
                    say(uri(listen.as_str().unwrap_or_default(), name))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self) -> Result<(&Common, ControlRequest)> {
        Ok(match self {
            Volume::Create(c) => {
                let request = ControlRequest::VolumeCreate {
                    name: c.name.clone(),
                    size: c.size,
                    layout: c.layout.map(|l| l.to_string()),
                    stripe_unit: c.stripe_unit,
                    journal: c.journal.map(Switch::is_on),
                    commanded: c.dispatch == Dispatch::Commanded,
                    apart: c.apart.clone(),
                    ordering: c.ordering.map(|o| o.to_string()),
                    sequencer: c.sequencer.map(|s| s.to_string()),
                    commit: c.commit.clone(),
                    lost_wait: c.lost_wait.clone(),
                };
                (&c.common, request)
            }
            Volume::Set(s) => {
                let mut set = BTreeMap::new();
                for (key, value) in &s.set {
                    let before = set.insert(key.clone(), value.clone());
                    ensure!(before.is_none(), "'{key}' is given twice; give it once");
                }
                let request =
                    ControlRequest::VolumeSet { name: s.name.clone(), set, force: s.force };
                (&s.common, request)
            }
            Volume::Resize(r) => {
                let (name, size, force) = (r.name.clone(), r.size, r.force);
                (&r.common, ControlRequest::VolumeResize { name, size, force })
            }
            Volume::List(list) => (list, ControlRequest::VolumeList),
            Volume::Show(n) => (&n.common, ControlRequest::VolumeShow { name: n.name.clone() }),
            Volume::Delete(n) => (&n.common, ControlRequest::VolumeDelete { name: n.name.clone() }),
        })
    }
}

/// A table of volumes as the array describes them.
pub fn volumes(list: &[Value]) -> String {
    if list.is_empty() {
        return "no volumes; make one with `weft volume create NAME SIZE`".to_string();
    }
    let mut table = table([
        "volume", "size", "layout", "unit", "journal", "ordering", "mode", "survives", "hosts",
    ]);
    let size = |v: &Value| v.as_u64().map_or("?".to_string(), |n| Size(n).to_string());
    let text = |v: &Value| v.as_str().unwrap_or("?").to_string();
    for v in list {
        table.add_row([
            text(&v["name"]),
            size(&v["size"]),
            text(&v["layout"]),
            size(&v["stripe_unit"]),
            if v["journal"] == true { "on" } else { "off" }.to_string(),
            text(&v["ordering"]),
            text(&v["mode"]),
            survives(v),
            v["clients"].to_string(),
        ]);
    }
    align_right(&mut table, [1, 3, 8]);
    table.to_string()
}

/// What is to be said of a volume that is not whole.
pub fn troubles(volume: &Value) -> Vec<String> {
    let number = |key: &str| volume[key].as_u64().unwrap_or(0);
    let (name, stripes) = (volume["name"].as_str().unwrap_or("?"), number("stripes"));
    let mut out = Vec::new();
    if volume["mode"] == "unfinished" {
        out.push(format!(
            "volume {name} is being made or deleted; if whoever did that is gone, `weft volume delete \
             {name}` gives back its room"
        ));
    }
    let (degraded, exposed) = (number("stripes_degraded"), number("stripes_exposed"));
    if degraded + exposed > 0 {
        out.push(format!(
            "volume {name}: of {stripes} stripes {degraded} are degraded, {exposed} bear no more losses"
        ));
    }
    let forgot: Vec<String> =
        volume["forgot"].as_array().into_iter().flatten().map(|n| format!("node {n}")).collect();
    if !forgot.is_empty() {
        out.push(format!(
            "volume {name} waits: the disks of {} have lost writes that they had promised, more than the \
             layout bears, and nobody left remembers them. Start the nodes that are down, or put the right \
             disks back and start theirs again; what cannot be had again is lost with `weft disk replace`",
            forgot.join(", ")
        ));
    }
    let missing: Vec<String> =
        volume["missing"].as_array().into_iter().flatten().map(lacking).collect();
    if !missing.is_empty() {
        out.push(format!(
            "volume {name}: {} of {} extents ({} of {stripes} stripes) have failed; they lack {}; \
             {}",
            number("extents_failed"),
            number("extents"),
            number("stripes_failed"),
            missing.join(", "),
            meanwhile(volume["lost_wait"].as_str().unwrap_or("?"))
        ));
    }
    out
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
fn lacking(node: &Value) -> String {
    let name = node["name"].as_str().map_or(String::new(), |n| format!("{n}, "));
    let state = if node["up"] == true { "not caught up" } else { "down" };
    format!("node {} ({name}{state}; {} extents)", node["node"], node["extents"])
}

/// What a volume bears to lose, in words.
pub fn survives(volume: &Value) -> String {
    let nodes = match volume["survives"].as_u64() {
        None => return "-".to_string(),
        Some(n) if volume["survives_next"].as_f64().is_some_and(|share| share > 0.0) => {
            let share = volume["survives_next"].as_f64().unwrap_or(0.0);
            let any = match n {
                0 => String::new(),
                1 => "any 1 more node, ".to_string(),
                n => format!("any {n} more nodes, "),
            };
            format!("{any}{:.0} % of {}", (100.0 * share).floor(), sets_of(n as usize + 1))
        }
        Some(1) => "1 more node lost".to_string(),
        Some(n) if n > 0 => format!("{n} more nodes lost"),
        _ => return "no more losses".to_string(),
    };
    match volume["bears"]["box"].as_u64() {
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_survived_is_said_of_nodes_and_of_boxes() {
        for (survives_now, boxes, text) in [
            (0, json!(0), "no more losses"),
            (1, json!(null), "1 more node lost"),
            (1, json!(0), "1 more node lost, no whole box"),
            (2, json!(1), "2 more nodes lost, or 1 box"),
            (2, json!(2), "2 more nodes lost, or 2 boxes"),
        ] {
            let volume = json!({ "survives": survives_now, "bears": { "box": boxes } });
            assert_eq!(survives(&volume), text);
        }
        assert_eq!(survives(&json!({ "survives": null, "bears": null })), "-");
        let some =
            json!({ "survives": 3, "survives_next": 1568.0 / 1820.0, "bears": { "box": 1 } });
        assert_eq!(survives(&some), "any 3 more nodes, 86 % of fours, or 1 box");
        let none = json!({ "survives": 0, "survives_next": 0.5, "bears": null });
        assert_eq!(survives(&none), "50 % of single ones");
    }

    #[test]
    fn what_a_failed_volume_lacks_is_said() {
        let volume = json!({
            "name": "v", "mode": "failed", "stripes": 40, "extents": 4,
            "stripes_degraded": 10, "stripes_exposed": 10, "stripes_failed": 30, "extents_failed": 3,
            "missing": [
                { "node": 1, "name": "n1", "up": false, "extents": 3 },
                { "node": 4, "name": null, "up": true, "extents": 2 },
            ],
            "lost_wait": "20s",
        });
        assert_eq!(
            troubles(&volume),
            [
                "volume v: of 40 stripes 10 are degraded, 10 bear no more losses",
                "volume v: 3 of 4 extents (30 of 40 stripes) have failed; they lack node 1 (n1, down; 3 \
                 extents), node 4 (not caught up; 2 extents); requests that need them fail after 20s \
                 (lost-wait: 20s)",
            ]
        );
        let forgetful = json!({ "name": "v", "mode": "failed", "stripes": 40, "forgot": [1, 2] });
        assert!(
            troubles(&forgetful)[0].starts_with("volume v waits: the disks of node 1, node 2 have")
        );
        assert!(meanwhile("0s").contains("fail (") && meanwhile("forever").contains("wait ("));
        assert!(troubles(&json!({ "name": "v", "mode": "fault-free", "stripes": 40 })).is_empty());
    }
}
