//! What keys a scenario has, and what is wrong with a value.

use std::fmt::Write;
use std::sync::LazyLock;

use anyhow::{Result, anyhow};
use toml::Value;
use weft_load::workload;
use weft_sim::perf::parameters::{self, Range, show};

/// Tables of which only one key can be there, and the keys that it may be.
const ALTERNATIVES: &[(&str, &[&str])] = &[
    ("workload.arrivals", &["closed", "open", "traced", "saturating"]),
    ("workload.arrivals.closed.think", &["constant_us", "exponential_us", "normal_us"]),
    ("workload.requests", &["fixed", "mix", "imitation", "trace"]),
    ("workload.addresses", &["uniform", "sequential", "zipf", "part"]),
];

/// A key, as it is explained to people.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name, with those above it.
    pub key: String,
    /// What its value counts.
    pub unit: &'static str,
    /// Which values it may have.
    pub range: String,
    /// What it is if left out; empty if it must be given, or is not needed.
    pub default: String,
    /// What it means.
    pub meaning: &'static str,
    /// Where the default, or the notion, comes from.
    pub source: &'static str,
}

/// A key with the keys above it.
pub fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_string(),
        _ => format!("{prefix}.{name}"),
    }
}

/// All keys of a scenario but its own three.
pub fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(all_rows);
    &ROWS
}

fn all_rows() -> Vec<Row> {
    let system = parameters::PARAMETERS.iter().map(|p| Row {
        key: p.key.to_string(),
        unit: p.unit,
        range: show(&p.range),
        default: String::new(),
        meaning: p.meaning,
        source: p.source,
    });
    let workload = workload::PARAMETERS.iter().map(|p| Row {
        key: join("workload", p.key),
        unit: p.unit,
        range: p.range.to_string(),
        default: p.default.to_string(),
        meaning: p.meaning,
        source: p.source,
    });
    system.chain(workload).collect()
}

/// The keys of which one can be in this table, if it is such a table.
pub fn alternatives(table: &str) -> Option<&'static [&'static str]> {
    ALTERNATIVES.iter().find(|(key, _)| *key == table).map(|(_, names)| *names)
}

/// Refuses a key that there is none.
///
/// # Errors
/// With the nearest that there is.
pub fn known(key: &str) -> Result<()> {
    let rows = rows();
    let mut above = String::new();
    for name in key.split('.') {
        let at = join(&above, name);
        let below = format!("{at}.");
        if !rows.iter().any(|r| r.key == at || r.key.starts_with(&below)) {
            return Err(anyhow!("{key}: this key does not exist; {}", nearest(rows, &above, name)));
        }
        above = at;
    }
    Ok(())
}

/// What may have been meant by `name` in a table.
fn nearest(rows: &[Row], above: &str, name: &str) -> String {
    let prefix = join(above, "");
    let names = rows.iter().filter_map(|r| r.key.strip_prefix(prefix.as_str()));
    let mut names: Vec<&str> = names.filter_map(|k| k.split('.').next()).collect();
    names.sort_unstable();
    names.dedup();
    let with_unit = format!("{name}_");
    // The shortest adds nothing but its unit.
    let fuller = names.iter().filter(|n| n.starts_with(&with_unit));
    if let Some(full) = fuller.min_by_key(|n| n.len()) {
        return format!("its unit is part of its name: {}", join(above, full));
    }
    match most_like(name, names.iter().copied()) {
        Some(best) => format!("did you mean {}?", join(above, best)),
        _ if names.is_empty() => format!("{above} has no keys below it"),
        _ => {
            let mut list = format!("{} has ", if above.is_empty() { "a scenario" } else { above });
            let _ = write!(list, "{}", names.join(", "));
            list
        }
    }
}

/// What a value should be, if it is not.
pub fn check_value(key: &str, value: &Value) -> Result<(), String> {
    let Some(row) = parameters::PARAMETERS.iter().find(|p| p.key == key) else { return Ok(()) };
    let good = match (row.range, value) {
        (Range::Number(..), Value::Float(number)) => row.range.holds(*number),
        (Range::Number(..) | Range::Whole(..) | Range::WholeOr(..), Value::Integer(number)) => {
            row.range.holds(*number as f64)
        }
        (Range::WholeOr(.., other), Value::String(word)) => word == other,
        (Range::Word(words), Value::String(word)) => words.contains(&word.as_str()),
        (Range::YesNo, Value::Boolean(_)) | (Range::Text, Value::String(_)) => true,
        _ => false,
    };
    if good {
        return Ok(());
    }
    Err(match (row.range, value) {
        (Range::Number(..), Value::String(_)) => {
            format!("give a number without unit, {}{}", show(&row.range), counts(row.unit))
        }
        (Range::Whole(..) | Range::WholeOr(..), Value::String(_) | Value::Float(_)) => {
            format!("give a whole number without unit, {}{}", row.range, counts(row.unit))
        }
        (Range::Word(words), _) => format!("choose from {}", words.join(", ")),
        (range, _) => format!("give {}", show(&range)),
    })
}

/// A key without the numbers of elements of lists: `a.b` of `a[3].b`.
pub fn without_indices(key: &str) -> String {
    let name = |part: &str| part.split('[').next().unwrap_or_default().to_string();
    key.split('.').map(name).collect::<Vec<String>>().join(".")
}

/// The keys right below this one.
pub fn below(key: &str) -> Vec<&'static str> {
    let prefix = join(key, "");
    let keys = rows().iter().map(|r| r.key.as_str());
    keys.filter(|k| k.starts_with(&prefix)).collect()
}

/// What a value should be, where the workload's own reading refused it.
pub fn expected(key: &str) -> Option<String> {
    let key = without_indices(key);
    let row = rows().iter().find(|r| r.key == key)?;
    Some(format!("give {}{}", row.range, counts(row.unit)))
}

/// What a value counts, to end an error with; nothing if it counts nothing.
fn counts(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!("; it counts {unit}") }
}

/// A value as people write it: words without quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

/// Of these names the one that may have been meant: at most half of its letters are others.
pub fn most_like<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let differs = |n: &str| strsim::damerau_levenshtein(n, name);
    names.min_by_key(|n| differs(n)).filter(|best| differs(best) * 2 <= name.len().max(2))
}
