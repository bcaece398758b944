//! What scenarios there are, and what their keys mean.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use toml::Value;
use weft_model::spec;
use weft_sim::perf;

use crate::catalogue::ENTRIES;
use crate::keys::{self, Row};
use crate::scenario::{Scenario, flatten};
use weft_terminal::{align_right, table};

/// The scenarios that come with Weft.
///
/// # Errors
/// If one of them cannot be read.
pub fn list() -> Result<String> {
    let mut table = table(["scenario", "", "points"]);
    for entry in ENTRIES {
        let scenario = Scenario::parse(&entry.path(), entry.text)?;
        let points = scenario.points()?.len();
        table.add_row([entry.name, &scenario.title, &points.to_string()]);
    }
    align_right(&mut table, [2]);
    let name = ENTRIES[0].name;
    let keys = key_list()?;
    Ok(format!(
        "{table}\nRun one by its name: weft sim {name}\n\n{keys}\nExplain a key: weft sim \
         --describe KEY; --describe '' explains all."
    ))
}

/// All keys of a scenario and of a disk's parameter file, each in a line, without what they mean.
fn key_list() -> Result<String> {
    let mut text = String::new();
    for row in own_rows().into_iter().chain(system_rows()?).chain(disk_rows()) {
        let _ = writeln!(text, "{:<44} {} ({})", row.key, facts(&row), row.source);
    }
    Ok(text)
}

/// A key's range, unit and default.
fn facts(row: &Row) -> String {
    let mut facts = vec![row.range.clone()];
    if !row.unit.is_empty() {
        facts.push(format!("in {}", row.unit));
    }
    if !row.default.is_empty() {
        facts.push(format!("default {}", row.default));
    }
    facts.join("; ")
}

/// Explains the keys whose names are `key` or begin with it; all, if it is empty.
///
/// # Errors
/// If there are none, with the nearest.
pub fn describe(key: &str) -> Result<String> {
    // Of one class of a list the same is said as of all.
    let key = &keys::without_indices(key.trim_end_matches('.'));
    let below = format!("{key}.");
    let meant = |name: &str| key.is_empty() || name == *key || name.starts_with(&below);
    let all = own_rows().into_iter().chain(system_rows()?);
    let found: Vec<Row> = all.filter(|r| meant(&r.key)).collect();
    let disk: Vec<Row> = disk_rows().into_iter().filter(|r| meant(&r.key)).collect();
    if found.is_empty() && disk.is_empty() {
        keys::known(key)?;
    }
    let mut text = String::new();
    found.iter().for_each(|row| show(&mut text, row));
    if !disk.is_empty() {
        let _ = writeln!(text, "Keys of a disk's parameter file (disks.model names one):\n");
        disk.iter().for_each(|row| show(&mut text, row));
    }
    if key.is_empty() || "disks.model" == key || key == "disks" {
        let _ = writeln!(text, "Disks that come with Weft:");
        for (name, _) in spec::builtins() {
            let _ = writeln!(text, "  {name:<20} {}", spec::builtin(name)?.about);
        }
    }
    Ok(text.trim_end().to_string())
}

/// The keys of a system, with what they are if left out.
fn system_rows() -> Result<Vec<Row>> {
    let mut rows = keys::rows().to_vec();
    let defaults = defaults()?;
    for row in &mut rows {
        if let Some(value) = defaults.get(&row.key) {
            row.default = keys::plain(value);
        } else if !row.key.starts_with("workload.") {
            row.default = "left out".into();
        }
    }
    Ok(rows)
}

/// What a system's keys are if left out, from the values themselves.
fn defaults() -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for (name, value) in [
        ("nodes", Value::try_from(perf::Nodes::default())?),
        ("disks", Value::try_from(perf::Disks::default())?),
        ("links", Value::try_from(perf::Links::default())?),
        ("hosts", Value::try_from(perf::Hosts::default())?),
        ("links.torus", Value::try_from(perf::Torus::default())?),
        ("links.hierarchy", Value::try_from(perf::Hierarchy::default())?),
        // What they are if any of their keys is given.
        ("hosts.links", Value::try_from(perf::Links::default())?),
        ("volume", Value::try_from(perf::VolumeSpec::default())?),
        ("recovery", Value::try_from(perf::Recovery::default())?),
        ("measure", Value::try_from(perf::Measure::default())?),
    ] {
        if let Value::Table(table) = value {
            flatten(name, &table, &mut |key, value| {
                found.insert(key, value.clone());
            });
        }
    }
    Ok(found)
}

/// The keys of a scenario that are not the system's.
fn own_rows() -> Vec<Row> {
    let row = |key: &str, range: &str, meaning| Row {
        key: key.into(),
        unit: "",
        range: range.into(),
        default: String::new(),
        meaning,
        source: "Weft",
    };
    vec![
        row("title", "text", "Name of the scenario."),
        row("about", "text", "Purpose of the scenario."),
        row(
            "sweep",
            "a table",
            "Keys to vary: KEY = [values]. With several keys, every combination is run. A name \
             that is not a key has cases: NAME = [{ name = \"...\", KEY = VALUE, ... }, ...].",
        ),
    ]
}

/// The keys of a disk's parameter file, below `disk.` so that they are told from a system's.
fn disk_rows() -> Vec<Row> {
    let row = |p: &spec::Parameter| Row {
        key: format!("disk.{}", p.key),
        unit: p.unit,
        range: p.range.to_string(),
        default: p.default.unwrap_or_default().to_string(),
        meaning: p.meaning,
        source: p.source,
    };
    spec::parameters().iter().map(row).collect()
}

fn show(text: &mut String, row: &Row) {
    let _ = writeln!(text, "{}\n    {}\n    {}", row.key, facts(row), row.meaning);
    if !row.source.is_empty() {
        let _ = writeln!(text, "    source: {}", row.source);
    }
    text.push('\n');
}
