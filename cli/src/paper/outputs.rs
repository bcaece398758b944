//! What `weft paper --out` writes: the rows as JSON and CSV, a plot for each figure and metric,
//! and all of it on one page.

use std::path::Path;

use anyhow::{Context, Result};
use weft_report::{Axis, Block, Cell, Kind, Page, Plot, Point, Series, Table};
use weft_sim::paper::{Evaluation, Metric, Row, Value};

use super::VAGUE;
use super::curves::{curve, is_name, keys_of_curves, label, title};

/// Writes everything into a directory that is there.
pub fn write(
    dir: &Path,
    evaluation: &Evaluation,
    rows: &[(&'static str, Vec<&Row>)],
) -> Result<()> {
    let all: Vec<&Row> = rows.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    put(dir, "results.json", &serde_json::to_string_pretty(&all)?)?;
    put(dir, "results.csv", &table(&all).csv())?;
    let mut blocks = Vec::new();
    for (experiment, rows) in rows {
        blocks.push(Block::Heading(title(experiment)));
        let settings: Vec<_> =
            evaluation.settings.iter().filter(|s| s.experiment == *experiment).collect();
        if !settings.is_empty() {
            let mut table = Table::new(["parameter", "paper", "simulated"]);
            let cells = |s: [&str; 3]| s.map(|text| Cell::Text(text.to_string()));
            settings.iter().for_each(|s| table.row(cells([s.name, s.paper, s.value])));
            blocks.push(Block::Table(table));
        }
        let key = (evaluation.along)(experiment);
        let mut draw = |name: String, plot: Plot| {
            // The table below has a value that stands alone.
            if plot.series.iter().map(|s| s.points.len()).sum::<usize>() < 2 {
                return Ok(());
            }
            put(dir, &format!("{experiment}-{name}.svg"), &plot.svg())?;
            blocks.push(Block::Plot(plot));
            anyhow::Ok(())
        };
        if let Some((x, y)) = (evaluation.curve)(experiment) {
            let name = format!("{}-by-{}", file(y), file(x));
            draw(name, curves(experiment, key, x, y, rows))?;
        }
        for metric in Metric::ALL {
            let of: Vec<&Row> = rows.iter().copied().filter(|r| r.metric == metric).collect();
            if !of.is_empty() {
                draw(file(metric).to_string(), plot(experiment, key, metric, &of))?;
            }
        }
        blocks.push(Block::Table(table_of_page(rows)));
    }
    put(dir, "report.html", &Page { title: evaluation.title.to_string(), blocks }.html())
}

fn put(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// One line a row; the points' keys are columns, empty where they have no meaning.
fn table(rows: &[&Row]) -> Table {
    let (heads, lines) = cells(rows);
    let mut table = Table::new(heads);
    lines.into_iter().for_each(|line| table.row(line));
    table
}

/// The same without columns in which nothing stands, and without what the heading says.
fn table_of_page(rows: &[&Row]) -> Table {
    let (heads, lines) = cells(rows);
    let says = |n: &usize| {
        *n > 0 && lines.iter().any(|line| !matches!(&line[*n], Cell::Text(text) if text.is_empty()))
    };
    let kept: Vec<usize> = (0..heads.len()).filter(says).collect();
    let mut table = Table::new(kept.iter().map(|n| heads[*n]));
    for mut line in lines {
        let nothing = || Cell::Text(String::new());
        table.row(kept.iter().map(|n| std::mem::replace(&mut line[*n], nothing())));
    }
    table
}

/// The heads of a table's columns, and its lines.
fn cells<'a>(rows: &[&'a Row]) -> (Vec<&'a str>, Vec<Vec<Cell>>) {
    let mut keys: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(|r| r.point.iter().map(|p| p.0)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let ends = ["metric", "measured", "ci95", "vague", "relative_deviation", "paper"];
    let heads = ["experiment"].iter().chain(&keys).chain(&ends).copied().collect();
    let mut lines = Vec::with_capacity(rows.len());
    let number = |x: Option<f64>| x.map_or(Cell::Text(String::new()), Cell::Number);
    for row in rows {
        let value = |key: &&str| {
            let found = row.point.iter().find(|p| p.0 == *key);
            Cell::Text(found.map(|p| p.1.to_string()).unwrap_or_default())
        };
        let mut cells = vec![Cell::Text(row.experiment.to_string())];
        cells.extend(keys.iter().map(value));
        cells.push(Cell::Text(row.metric.name().to_string()));
        cells.extend([Some(row.measured), row.ci95].map(number));
        cells.push(Cell::Text(if row.is_vague() { VAGUE } else { "" }.to_string()));
        cells.extend([row.relative_deviation, row.paper].map(number));
        lines.push(cells);
    }
    (heads, lines)
}

/// A metric's name in names of files.
fn file(metric: Metric) -> &'static str {
    match metric {
        Metric::ThroughputMbS | Metric::ThroughputOpsS => "throughput",
        Metric::ResponseMs => "response",
        Metric::LatencyMs => "latency",
        Metric::DelayedFraction => "delayed",
        Metric::MessagesPerOp => "messages",
        Metric::DeviceUtilization => "utilization",
        Metric::RebuildMbS => "rebuilding",
        Metric::RelativePerformance => "performance",
        Metric::UnprotectedShare => "unprotected",
        Metric::ParityLagBytes => "lag",
        Metric::MttdlDiskH => "mttdl-disks",
        Metric::MttdlH => "mttdl",
        Metric::MdlrUnprotectedBH => "mdlr-unprotected",
        Metric::MdlrBH => "mdlr",
        Metric::RelativeAvailability => "availability",
        Metric::ControllerMbS => "controller",
        Metric::ControllerProcessorMbS => "controller-processor",
        Metric::ControllerPortMbS => "controller-port",
        Metric::HostsMulti => "hosts-multi",
        Metric::HostsSingle => "hosts-single",
        Metric::ControllerTraffic => "traffic-controller",
        Metric::TargetTraffic => "traffic-target",
        Metric::HostTraffic => "traffic-host",
        Metric::Ratio => "ratio",
        Metric::IsMet => "met",
    }
}

/// One metric against another: a curve goes along `key`.
fn curves(experiment: &str, key: &str, x: Metric, y: Metric, rows: &[&Row]) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    let drawn: Vec<&Row> = rows.iter().copied().filter(|r| r.metric == y).collect();
    let keys = keys_of_curves(&drawn, key);
    for row in &drawn {
        let same = |r: &&&Row| r.metric == x && r.point == row.point;
        let Some(beside) = rows.iter().find(same) else { continue };
        // Names have no order that a line could follow.
        let kind = if is_name(row, key) { Kind::Scattered } else { Kind::Measured };
        let name = curve(&keys, row);
        let point = Point { x: beside.measured, y: row.measured, error: row.ci95 };
        match series.iter_mut().find(|s| s.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name, kind, points: vec![point] }),
        }
    }
    let of = |metric: Metric| rows.iter().filter(move |r| r.metric == metric).map(|r| r.measured);
    Plot {
        title: format!(
            "{}: {} by {}, along {}",
            title(experiment),
            y.label(),
            x.label(),
            label(key)
        ),
        x: Axis::linear(x.label()),
        y: Axis::suiting(y.label(), of(y)),
        series,
    }
}

fn plot(experiment: &str, key: &str, metric: Metric, rows: &[&Row]) -> Plot {
    let of = metric.label();
    let keys = keys_of_curves(rows, key);
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
        let curve = curve(&keys, row);
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
        true => Axis::suiting(label(key), values.iter().map(|v| x(v))),
        false => Axis::names(label(key), names.clone()),
    };
    let y = match metric {
        Metric::DelayedFraction | Metric::DeviceUtilization => Axis::linear(of),
        _ => Axis::suiting(of, rows.iter().map(|r| r.measured)),
    };
    Plot { title: format!("{}: {of}", title(experiment)), x: along, y, series }
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
        let (ci95, relative_deviation) = (Some(measured / 30.0), Some(0.01));
        Row { experiment: "table-7", point, metric, measured, ci95, relative_deviation, paper }
    }

    #[test]
    fn curves_are_told_apart_by_what_varies_and_the_papers_points_stand_beside_them() {
        let rows = [
            row(1.0, 4096, 34.0, Some(33.0)),
            row(1.0, 40_960, 38.0, Some(38.0)),
            row(10.0, 4096, 30.0, None),
        ];
        let plot =
            plot("table-7", "size_bytes", Metric::ResponseMs, &rows.iter().collect::<Vec<_>>());
        let shape: Vec<(&str, Kind, usize)> =
            plot.series.iter().map(|s| (s.name.as_str(), s.kind, s.points.len())).collect();
        let expected = [
            ("link 1 MB/s", Kind::Measured, 2),
            ("link 1 MB/s", Kind::Published, 2),
            ("link 10 MB/s", Kind::Measured, 1),
        ];
        assert_eq!(shape, expected);
    }

    #[test]
    fn everything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let rows = [row(1.0, 4096, 34.0, Some(33.0))];
        let evaluation = &weft_sim::paper::tickertaip::EVALUATION;
        write(dir.path(), evaluation, &[("table-7", rows.iter().collect())]).unwrap();
        let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(text("results.csv").starts_with("experiment,op,size_bytes,link_mb_s,metric,"));
        assert!(text("results.json").contains("\"metric\": \"response_ms\""));
        assert!(text("table-7-response.svg").contains("<svg"));
        assert!(text("report.html").contains(evaluation.title));
    }

    #[test]
    fn a_value_without_a_usable_interval_says_so() {
        let clear = row(1.0, 4096, 34.0, None);
        let vague = Row { ci95: Some(24.5), measured: 23.9, ..clear.clone() };
        let rows = [&clear, &vague];
        let columns = |line: &str| line.split(',').nth(7).map(str::to_string);
        let said: Vec<_> = table(&rows).csv().lines().map(columns).collect();
        assert_eq!(said, ["vague", "", "vague"].map(|s| Some(s.to_string())));
        let html = Page { title: String::new(), blocks: vec![Block::Table(table_of_page(&rows))] };
        let html = html.html();
        assert!(
            html.contains("vague") && !html.contains("paper"),
            "no paper says anything: {html}"
        );
        let text = super::super::describe(&rows);
        assert!(text.contains("(vague) 24.5") && text.contains("counts: 1 of 2."), "{text}");
        assert!(!super::super::describe(&rows[..1]).contains("vague"));
    }

    #[test]
    fn one_metric_is_drawn_against_another() {
        let dir = tempfile::tempdir().unwrap();
        let row = |hosts: u64, metric: Metric, measured: f64| {
            let point =
                vec![("protocol", Value::Name("timestamps")), ("hosts", Value::Count(hosts))];
            let (ci95, relative_deviation, paper) = (None, None, None);
            Row { experiment: "figure-9", point, metric, measured, ci95, relative_deviation, paper }
        };
        let (x, y) = (Metric::ThroughputOpsS, Metric::LatencyMs);
        let rows = [row(4, x, 70.0), row(4, y, 20.0), row(8, x, 130.0), row(8, y, 22.0)];
        let all: Vec<&Row> = rows.iter().collect();
        let plot = curves("figure-9", "hosts", x, y, &all);
        let points: Vec<(f64, f64)> = plot.series[0].points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!((plot.series.len(), points), (1, vec![(70.0, 20.0), (130.0, 22.0)]));
        let evaluation = &weft_sim::paper::bst::EVALUATION;
        write(dir.path(), evaluation, &[("figure-9", all)]).unwrap();
        assert!(dir.path().join("figure-9-latency-by-throughput.svg").exists());
        assert!(dir.path().join("figure-9-latency.svg").exists());
    }

    #[test]
    fn metrics_have_one_name_in_all_results() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
        }
    }
}
