//! What tells the curves of a plot apart, and how it is called.

use weft_sim::paper::{Row, Value};

/// What keys end with that have a unit, and the unit. The first that fits counts.
const UNITS: [(&str, &str); 6] = [
    ("_mb_s", "MB/s"),
    ("_bytes", "bytes"),
    ("_ms", "ms"),
    ("_us", "us"),
    ("_kb", "KB"),
    ("_s", "1/s"),
];

/// A key in words, and its unit.
fn in_words(key: &str) -> (String, Option<&'static str>) {
    let unit = UNITS.iter().find(|(ending, _)| key.ends_with(ending));
    let name = unit.map_or(key, |(ending, _)| &key[..key.len() - ending.len()]);
    (name.replace('_', " "), unit.map(|(_, unit)| *unit))
}

/// What stands at an axis along a key.
pub(super) fn label(key: &str) -> String {
    match in_words(key) {
        (name, Some(unit)) => format!("{name}, {unit}"),
        (name, None) => name,
    }
}

/// An experiment as a heading: "Figure 8" of figure-8.
pub(super) fn title(experiment: &str) -> String {
    let words = experiment.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The keys that tell the rows' curves apart: those that are not along the axis, and vary. A number that follows from the
/// rest and from the place along the axis tells nothing: it would make a curve of each point.
pub(super) fn keys_of_curves<'a>(rows: &[&'a Row], along: &str) -> Vec<&'a str> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(|r| &r.point) {
        let varies = rows.iter().any(|r| value(r, key) != value(rows[0], key));
        if *key != along && varies && !keys.contains(key) {
            keys.push(key);
        }
    }
    for key in keys.clone().into_iter().rev() {
        let rest: Vec<&str> = keys.iter().copied().filter(|k| *k != key).collect();
        if follows(rows, key, &rest, along) {
            keys = rest;
        }
    }
    keys
}

/// Whether a key follows, for every row, from the others of its curve and the place along the axis; a name from a name
/// there alone.
fn follows(rows: &[&Row], key: &str, rest: &[&str], along: &str) -> bool {
    rows.iter().all(|row| {
        if is_name(row, key) {
            let here = |r: &&&Row| value(r, along) == value(row, along);
            let mut here = rows.iter().filter(here);
            return is_name(row, along) && here.all(|r| value(r, key) == value(row, key));
        }
        let of_curve = |r: &&&Row| rest.iter().all(|k| value(r, k) == value(row, k));
        let curve: Vec<&Row> = rows.iter().filter(of_curve).copied().collect();
        let alike = |r: &&Row| value(r, key) == value(row, key);
        let here = |r: &&&Row| value(r, along) == value(row, along);
        let alone = || curve.iter().copied().filter(alike).count() == 1;
        curve.iter().all(alike) || alone() && curve.iter().filter(here).count() == 1
    })
}

/// What a row's curve is called by these keys.
pub(super) fn curve(keys: &[&str], row: &Row) -> String {
    let said = |key: &&str| {
        let value = value(row, key)?;
        Some(match (value, in_words(key)) {
            (Value::Name(name), _) => name.to_string(),
            (value, (name, Some(unit))) => format!("{name} {value} {unit}"),
            (value, (name, None)) => format!("{name} {value}"),
        })
    };
    let words: Vec<String> = keys.iter().filter_map(said).collect();
    match words.is_empty() {
        true => "measured".to_string(),
        false => words.join(", "),
    }
}

/// Whether what a row has there is a name.
pub(super) fn is_name(row: &Row, key: &str) -> bool {
    matches!(value(row, key), Some(Value::Name(_)))
}

fn value<'a>(row: &'a Row, key: &str) -> Option<&'a Value> {
    row.point.iter().find(|p| p.0 == key).map(|p| &p.1)
}

#[cfg(test)]
mod tests {
    use weft_sim::paper::Metric;

    use super::*;

    fn rows(points: &[(&'static str, u64, u64)]) -> Vec<Row> {
        let row = |(system, mips, link): &(&'static str, u64, u64)| Row {
            experiment: "figure-13",
            point: vec![
                ("system", Value::Name(system)),
                ("mips", Value::Count(*mips)),
                ("link_mb_s", Value::Count(*link)),
            ],
            metric: Metric::ResponseMs,
            measured: 1.0,
            ci95: None,
            relative_deviation: None,
            paper: None,
        };
        points.iter().map(row).collect()
    }

    fn keys(points: &[(&'static str, u64, u64)]) -> Vec<String> {
        let rows = rows(points);
        let all: Vec<&Row> = rows.iter().collect();
        keys_of_curves(&all, "mips").into_iter().map(str::to_string).collect()
    }

    #[test]
    fn what_goes_along_with_the_axis_makes_no_curves() {
        assert_eq!(keys(&[("a", 1, 1), ("a", 2, 2), ("b", 1, 1), ("b", 2, 2)]), ["system"]);
        let crossed = [("a", 1, 1), ("a", 2, 1), ("a", 1, 2), ("a", 2, 2)];
        assert_eq!(keys(&crossed), ["link_mb_s"]);
        let partly = [("a", 1, 1), ("a", 2, 1), ("a", 2, 2)];
        assert_eq!(keys(&partly), ["link_mb_s"], "two at one place");
        assert_eq!(keys(&[("a", 1, 1), ("b", 1, 2), ("a", 2, 1), ("b", 2, 2)]), ["system"]);
        assert!(keys(&[("a", 1, 1)]).is_empty());
    }

    #[test]
    fn a_name_that_is_another_word_for_the_place_tells_nothing() {
        let rows = rows(&[("raid0", 1, 1), ("raid5", 1, 2), ("raid0", 2, 1), ("raid5", 2, 2)]);
        let with_policy = |row: &Row| {
            let policy = if is("raid0", row) { "never" } else { "immediate" };
            let mut row = row.clone();
            row.point.push(("policy", Value::Name(policy)));
            row
        };
        let rows: Vec<Row> = rows.iter().map(with_policy).collect();
        let all: Vec<&Row> = rows.iter().collect();
        assert_eq!(keys_of_curves(&all, "policy"), ["mips"]);
        assert_eq!(keys_of_curves(&all, "mips"), ["system", "policy"], "a line each");
    }

    fn is(name: &str, row: &Row) -> bool {
        value(row, "system").is_some_and(|v| v.to_string() == name)
    }

    #[test]
    fn keys_are_said_with_their_units() {
        let rows = rows(&[("a", 1, 5)]);
        assert_eq!(curve(&["system", "link_mb_s"], &rows[0]), "a, link 5 MB/s");
        assert_eq!(curve(&["mips"], &rows[0]), "mips 1");
        assert_eq!(curve(&[], &rows[0]), "measured");
        assert_eq!(label("message_window_ms"), "message window, ms");
        assert_eq!((label("hosts"), label("arrivals_s")), ("hosts".into(), "arrivals, 1/s".into()));
        assert_eq!((title("figure-10-open"), title("")), ("Figure 10 open".into(), String::new()));
    }
}
