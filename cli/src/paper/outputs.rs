//! What `weft paper --out` writes: the rows as JSON and CSV, a plot for each figure and metric,
//! and all of it on one page.

use std::path::Path;

use anyhow::{Context, Result};
use weft_report::{Axis, Block, Cell, Kind, Page, Plot, Point, Series, Table};
use weft_sim::paper::{Metric, Row, Value};

/// The key along an experiment's horizontal axis; the other keys tell its curves apart.
fn along(experiment: &str) -> &'static str {
    match experiment {
        "figure-9" | "figure-12" | "figure-13" => "mips",
        "figure-14" => "workers",
        "table-8" => "workload",
        "figure-15" => "load",
        _ => "size_bytes",
    }
}

/// Writes everything into a directory that is there.
pub fn write(dir: &Path, title: &str, rows: &[(&'static str, Vec<&Row>)]) -> Result<()> {
    let all: Vec<&Row> = rows.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    put(dir, "results.json", &serde_json::to_string_pretty(&all)?)?;
    put(dir, "results.csv", &table(&all).csv())?;
    let mut blocks = Vec::new();
    for (experiment, rows) in rows {
        blocks.push(Block::Heading(experiment.to_string()));
        for (metric, name) in
            [(Metric::ThroughputMbS, "throughput"), (Metric::ResponseMs, "response")]
        {
            let of: Vec<&Row> = rows.iter().copied().filter(|r| r.metric == metric).collect();
            if of.is_empty() {
                continue;
            }
            let plot = plot(experiment, metric, &of);
            put(dir, &format!("{experiment}-{name}.svg"), &plot.svg())?;
            blocks.push(Block::Plot(plot));
        }
        blocks.push(Block::Table(table(rows)));
    }
    put(dir, "report.html", &Page { title: title.to_string(), blocks }.html())
}

fn put(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// One line a row; the points' keys are columns, empty where they have no meaning.
fn table(rows: &[&Row]) -> Table {
    let mut keys: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(|r| r.point.iter().map(|p| p.0)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let ends = ["metric", "measured", "ci95", "paper"];
    let mut table = Table::new(["experiment"].iter().chain(&keys).chain(&ends).copied());
    let number = |x: Option<f64>| x.map_or(Cell::Text(String::new()), Cell::Number);
    for row in rows {
        let value = |key: &&str| {
            let found = row.point.iter().find(|p| p.0 == *key);
            Cell::Text(found.map(|p| p.1.to_string()).unwrap_or_default())
        };
        let mut cells = vec![Cell::Text(row.experiment.to_string())];
        cells.extend(keys.iter().map(value));
        cells.push(Cell::Text(name(row.metric).to_string()));
        cells.extend([number(Some(row.measured)), number(row.ci95), number(row.paper)]);
        table.row(cells);
    }
    table
}

fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::ThroughputMbS => "throughput_mb_s",
        Metric::ResponseMs => "response_ms",
    }
}

fn plot(experiment: &str, metric: Metric, rows: &[&Row]) -> Plot {
    let key = along(experiment);
    let label = match metric {
        Metric::ThroughputMbS => "throughput, MB/s",
        Metric::ResponseMs => "response time, ms",
    };
    let values: Vec<&Value> =
        rows.iter().filter_map(|r| r.point.iter().find(|p| p.0 == key).map(|p| &p.1)).collect();
    let mut names: Vec<String> = Vec::new();
    for value in values.iter().filter(|v| matches!(v, Value::Name(_))) {
        if !names.contains(&value.to_string()) {
            names.push(value.to_string());
        }
    }
    let x = |value: &Value| match value {
        Value::Name(name) => names.iter().position(|n| n == name).unwrap_or(0) as f64,
        Value::Count(n) => *n as f64,
        Value::Number(x) => *x,
        Value::Switch(on) => f64::from(u8::from(*on)),
    };
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let Some((_, value)) = row.point.iter().find(|p| p.0 == key) else { continue };
        let curve = curve(rows, row, key);
        let mut add = |kind: Kind, y: f64, error: Option<f64>| {
            let at = series.iter().position(|s| s.name == curve && s.kind == kind);
            let at = at.unwrap_or_else(|| {
                series.push(Series { name: curve.clone(), kind, points: Vec::new() });
                series.len() - 1
            });
            series[at].points.push(Point { x: x(value), y, error });
        };
        add(Kind::Measured, row.measured, row.ci95);
        if let Some(paper) = row.paper {
            add(Kind::Published, paper, None);
        }
    }
    let along = match names.is_empty() {
        true => Axis::suiting(key, values.iter().map(|v| x(v))),
        false => Axis::names(key, names.clone()),
    };
    let y = Axis::suiting(label, rows.iter().map(|r| r.measured));
    Plot { title: format!("{experiment}: {label}"), x: along, y, series }
}

/// What tells a row's curve from the plot's others: the keys that are not along the axis and vary.
fn curve(rows: &[&Row], row: &Row, along: &str) -> String {
    let varies = |key: &str| {
        let value = |r: &Row| r.point.iter().find(|p| p.0 == key).map(|p| p.1.clone());
        rows.iter().any(|r| value(r) != value(row))
    };
    let words: Vec<String> = row
        .point
        .iter()
        .filter(|(key, _)| *key != along && varies(key))
        .map(|(key, value)| match value {
            Value::Name(name) => name.to_string(),
            value => format!("{key} {value}"),
        })
        .collect();
    match words.is_empty() {
        true => "measured".to_string(),
        false => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(link: f64, size: u64, measured: f64, paper: Option<f64>) -> Row {
        let point = vec![
            ("op", Value::Name("read")),
            ("size_bytes", Value::Count(size)),
            ("link_mb_s", Value::Number(link)),
        ];
        let metric = Metric::ResponseMs;
        Row { experiment: "table-7", point, metric, measured, ci95: Some(1.0), paper }
    }

    #[test]
    fn curves_are_told_apart_by_what_varies_and_the_papers_points_stand_beside_them() {
        let rows = [
            row(1.0, 4096, 34.0, Some(33.0)),
            row(1.0, 40_960, 38.0, Some(38.0)),
            row(10.0, 4096, 30.0, None),
        ];
        let plot = plot("table-7", Metric::ResponseMs, &rows.iter().collect::<Vec<_>>());
        let shape: Vec<(&str, Kind, usize)> =
            plot.series.iter().map(|s| (s.name.as_str(), s.kind, s.points.len())).collect();
        let expected = [
            ("link_mb_s 1", Kind::Measured, 2),
            ("link_mb_s 1", Kind::Published, 2),
            ("link_mb_s 10", Kind::Measured, 1),
        ];
        assert_eq!(shape, expected);
    }

    #[test]
    fn everything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let rows = [row(1.0, 4096, 34.0, Some(33.0))];
        write(dir.path(), "A paper", &[("table-7", rows.iter().collect())]).unwrap();
        let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(text("results.csv").starts_with("experiment,op,size_bytes,link_mb_s,metric,"));
        assert!(text("results.json").contains("\"metric\": \"response_ms\""));
        assert!(text("table-7-response.svg").contains("<svg"));
        assert!(text("report.html").contains("A paper"));
    }
}
