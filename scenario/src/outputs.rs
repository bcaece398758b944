//! Results as a table, as CSV and JSON, as plots, and as one report.

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};
use weft_report::{Axis, Block, Cell, Kind, Page, Plot, Point, Series, Table, short};

use crate::differences;
use crate::grid::Grid;
use crate::result::{Figure, METRICS, Measured, Metric};
use crate::store::{Done, Place, Study, write};
use crate::value::{cell, plain};

/// What the table of differences is.
const DIFFERENCES: &str = "The n-th runs of all points draw from the same seed, so each design is compared with the first one run by \
                           run. The difference has its 95 % interval (ci95) and is also a share of the first one's mean.";

/// As many differences are shown at a terminal.
const MOST_DIFFERENCES: usize = 48;

/// The most overloaded points that are named.
const MOST_POINTS: usize = 5;

/// What a study came to, to be written and printed.
pub struct Outputs<'a> {
    study: &'a Study,
    /// The points that are done, in their order.
    rows: Vec<(&'a Place, &'a Measured)>,
    /// The axes that have more than one value, by their number.
    varying: Vec<usize>,
}

impl<'a> Outputs<'a> {
    /// Of the points that are done.
    pub fn new(study: &'a Study, done: &'a Done) -> Outputs<'a> {
        let rows = study.points.iter().filter_map(|p| Some((p, done.get(&p.key)?))).collect();
        let varies = |n: &usize| study.points.iter().any(|p| p.at[*n] != study.points[0].at[*n]);
        let varying = (0..study.axes.len()).filter(varies).collect();
        Outputs { study, rows, varying }
    }

    /// Tables for people: what came out, and designs beside one another on common seeds.
    pub fn text(&self) -> String {
        let axes = || self.varying.iter();
        let metrics: Vec<_> = self.known().into_iter().filter(|m| !m.short.is_empty()).collect();
        let heads = axes().map(|n| self.study.axes[*n].clone());
        let row = |(place, measured): &(&Place, &Measured)| {
            let at = axes().map(|n| plain(&place.at[*n]));
            at.chain(metrics.iter().map(|m| shown(m, measured))).collect()
        };
        let numbers = axes().map(|n| self.is_number(*n)).chain(metrics.iter().map(|_| true));
        let grid = Grid {
            heads: heads.chain(metrics.iter().map(|m| m.short.to_string())).collect(),
            rows: self.rows.iter().map(row).collect(),
            keys: self.varying.len(),
            numbers: numbers.collect(),
        }
        .shortened(self.varying.len());
        let differences = self.differences_in_words();
        let overload = self.overload().map_or(String::new(), |warning| format!("\n{warning}"));
        format!(
            "{}\n{}\n{}{overload}{differences}",
            self.study.title,
            grid.text(),
            self.study.method
        )
    }

    /// A warning of points at which hosts offered more than was answered, if there are any.
    fn overload(&self) -> Option<String> {
        let behind = |(place, measured): &(&Place, &Measured)| {
            let offered = overload(place, measured)?;
            let at = self.varying.iter();
            let at: Vec<String> =
                at.map(|n| format!("{} = {}", self.study.axes[*n], plain(&place.at[*n]))).collect();
            let at = if at.is_empty() { String::new() } else { format!("{}: ", at.join(", ")) };
            Some(format!("{at}{} of {}", short(measured.requests_s.mean), short(offered)))
        };
        let all: Vec<String> = self.rows.iter().filter_map(behind).collect();
        let more = if all.len() > MOST_POINTS { "; ..." } else { "" };
        let some = &all[..all.len().min(MOST_POINTS)];
        (!all.is_empty()).then(|| {
            format!(
                "Warning: fewer requests a second were answered than offered ({}{more}). Queues grow as long as this goes \
                 on, so response times depend on the length of the run; give a lower workload.arrivals.open.rate_per_s.",
                some.join("; ")
            )
        })
    }

    /// The differences on common seeds, for people; nothing if there are none.
    fn differences_in_words(&self) -> String {
        let Some(table) = self.differences() else { return String::new() };
        if table.rows.len() > MOST_DIFFERENCES {
            let n = table.rows.len();
            return format!("\n{n} differences on common seeds are in differences.csv with --out.");
        }
        let axes = self.varying.len();
        let grid = differences::grid(&table, axes).shortened(axes);
        format!("\nOn common seeds, run by run, with 95 % intervals:\n{}", grid.text())
    }

    /// The metrics that are known of some point: the others are left out of what people read.
    fn known(&self) -> Vec<&'static Metric> {
        let is = |m: &&Metric| self.rows.iter().any(|(_, p)| (m.of)(p).value.is_some());
        METRICS.iter().filter(is).collect()
    }

    /// Whether all values of an axis are numbers.
    fn is_number(&self, axis: usize) -> bool {
        self.study.points.iter().all(|p| p.at[axis].is_number())
    }

    /// All results, in JSON.
    pub fn json(&self) -> String {
        let point = |place: &Place| -> Map<String, Value> {
            self.study.axes.iter().cloned().zip(place.at.iter().cloned()).collect()
        };
        let row = |(place, measured): &(&Place, &Measured)| {
            let mut row = Map::new();
            row.insert("point".into(), Value::Object(point(place)));
            row.extend(measured.as_json());
            row.insert("overload_s".into(), json!(overload(place, measured)));
            Value::Object(row)
        };
        let all = json!({
            "weft": self.study.weft,
            "title": self.study.title,
            "about": self.study.about,
            "method": self.study.method,
            "results": self.rows.iter().map(row).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }

    /// All results, with every digit.
    pub fn table(&self) -> Table {
        let mut columns = self.study.axes.clone();
        for metric in METRICS {
            columns.push(metric.name.into());
            if metric.is_mean {
                columns.push(format!("{}_ci95", metric.name));
                columns.push(format!("{}_relative_deviation", metric.name));
            }
        }
        columns.extend(["requests".into(), "warm_up".into(), "events".into()]);
        let mut table = Table::new(columns);
        for (place, measured) in &self.rows {
            let mut row: Vec<Cell> = place.at.iter().map(cell).collect();
            for metric in METRICS {
                let figure = (metric.of)(measured);
                row.push(figure.value.into());
                if metric.is_mean {
                    row.extend([figure.ci95.into(), figure.relative_deviation.into()]);
                }
            }
            row.push(Cell::Number(measured.requests as f64));
            row.push(measured.warm_up.map(|n| n as f64).into());
            row.push(measured.events.map(|n| n as f64).into());
            table.row(row);
        }
        table
    }

    /// The axis that is drawn from left to right: of those that are numbers the one with most
    /// values, or else the last. `None` if nothing varies.
    fn horizontal(&self) -> Option<usize> {
        let values = |n: usize| {
            let mut all: Vec<String> = self.study.points.iter().map(|p| plain(&p.at[n])).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        let numbers = self.varying.iter().copied().filter(|n| self.is_number(*n));
        // The first of equally many.
        let most = numbers.rev().max_by_key(|n| values(*n));
        most.or(self.varying.last().copied())
    }

    /// One plot for each metric, with its name; none if nothing varies.
    pub fn plots(&self) -> Vec<(&'static str, Plot)> {
        let Some(x) = self.horizontal() else { return Vec::new() };
        let label = self.study.axes[x].as_str();
        let mut names: Vec<String> = Vec::new();
        for (place, _) in &self.rows {
            let name = plain(&place.at[x]);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let at = |place: &Place| match place.at[x].as_f64() {
            Some(value) if self.is_number(x) => value,
            _ => names.iter().position(|n| *n == plain(&place.at[x])).unwrap_or(0) as f64,
        };
        let axis = match self.is_number(x) {
            true => Axis::suiting(label, self.rows.iter().map(|(place, _)| at(place))),
            false => Axis::names(label, names.clone()),
        };
        let plot = |metric: &'static Metric| {
            let values = self.rows.iter().filter_map(|(_, m)| (metric.of)(m).value);
            let y = match metric.is_share {
                true => Axis::linear(metric.label),
                false => Axis::suiting(metric.label, values),
            };
            let title = format!("{}: {}", self.study.title, metric.label);
            let series = self.series(x, &at, metric);
            (metric.name, Plot { title, x: axis.clone(), y, series })
        };
        self.known().into_iter().map(plot).collect()
    }

    /// One series for each combination of what is not drawn from left to right.
    fn series(&self, x: usize, at: &dyn Fn(&Place) -> f64, metric: &Metric) -> Vec<Series> {
        let others: Vec<usize> = self.varying.iter().copied().filter(|n| *n != x).collect();
        let name = |place: &Place| -> String {
            // A name says what it is; a number needs its key.
            let part = |n: &usize| match place.at[*n].is_number() {
                true => {
                    let key = &self.study.axes[*n];
                    let last = key.rsplit('.').next().unwrap_or(key);
                    format!("{last} = {}", plain(&place.at[*n]))
                }
                false => plain(&place.at[*n]),
            };
            others.iter().map(part).collect::<Vec<_>>().join(", ")
        };
        let mut series: Vec<Series> = Vec::new();
        for (place, measured) in &self.rows {
            let Figure { value: Some(y), ci95: error, .. } = (metric.of)(measured) else {
                continue;
            };
            let (name, point) = (name(place), Point { x: at(place), y, error });
            match series.iter_mut().find(|s| s.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, kind: Kind::Measured, points: vec![point] }),
            }
        }
        for series in &mut series {
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        series
    }

    /// Everything on one page.
    fn page(&self, plots: &[(&str, Plot)]) -> Page {
        let mut blocks = vec![
            Block::Paragraph(self.study.about.clone()),
            Block::Paragraph(self.study.method.clone()),
        ];
        blocks.extend(self.overload().map(Block::Paragraph));
        blocks.push(Block::Table(self.short_table()));
        if !plots.is_empty() {
            blocks.push(Block::Heading("Plots".into()));
        }
        blocks.extend(plots.iter().map(|(_, plot)| Block::Plot(plot.clone())));
        if let Some(differences) = self.differences() {
            blocks.push(Block::Heading("Differences on common seeds".into()));
            blocks.push(Block::Paragraph(DIFFERENCES.into()));
            blocks.push(Block::Table(differences));
        }
        blocks.push(Block::Heading("Columns".into()));
        let lines = self.known().into_iter().map(|m| format!("{}: {}", m.short, m.label));
        blocks.push(Block::Paragraph(format!(
            "{}. In parentheses: relative standard deviations over the runs.",
            lines.collect::<Vec<_>>().join(". ")
        )));
        blocks.push(Block::Paragraph(format!("Made by weft {}.", self.study.weft)));
        Page { title: self.study.title.clone(), blocks }
    }

    /// Designs compared run by run, if there are any.
    pub fn differences(&self) -> Option<Table> {
        differences::table(&self.study.axes, &self.varying, &self.rows)
    }

    /// What varies and the metrics, with intervals in the same cells.
    fn short_table(&self) -> Table {
        let axes = self.varying.iter().map(|n| self.study.axes[*n].clone());
        let known = self.known();
        let mut table = Table::new(axes.chain(known.iter().map(|m| m.short.to_string())));
        for (place, measured) in &self.rows {
            let at = self.varying.iter().map(|n| cell(&place.at[*n]));
            let metrics = known.iter().map(|m| Cell::Text(shown(m, measured)));
            table.row(at.chain(metrics));
        }
        table
    }

    /// Writes everything to a directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        write(dir, "results.json", &self.json())?;
        write(dir, "results.csv", &self.table().csv())?;
        if let Some(differences) = self.differences() {
            write(dir, "differences.csv", &differences.csv())?;
        }
        let plots = self.plots();
        for (name, plot) in &plots {
            write(dir, &format!("{name}.svg"), &plot.svg())?;
        }
        write(dir, "report.html", &self.page(&plots).html())
    }
}

/// The requests a second that hosts offered at a point, if clearly fewer were answered.
fn overload(place: &Place, measured: &Measured) -> Option<f64> {
    place.offered.filter(|o| o.exceeds(measured)).map(|o| o.requests_s)
}

/// A metric's value for people.
fn shown(metric: &Metric, measured: &Measured) -> String {
    (metric.of)(measured).text()
}
