//! Prediction and reality of the same points, side by side.

use serde_json::{Map, Value, json};
use weft_report::{Cell, Table};

use crate::result::{Mean, Measured};
use crate::store::{Done, Study};
use crate::value::{cell, plain};
use weft_terminal::{align_right, table};

/// The metrics that are compared: name, heading, value.
type Compared = (&'static str, &'static str, fn(&Measured) -> Mean);
const COMPARED: [Compared; 4] = [
    ("throughput_mb_s", "MB/s", |m| m.throughput_mb_s),
    ("response_ms", "mean ms", |m| m.response_ms),
    ("p50_ms", "p50 ms", |m| single(m.p50_ms)),
    ("processor_us", "CPU µs", |m| single(m.processor_us.unwrap_or(f64::NAN))),
];

/// Of what has no interval.
fn single(mean: f64) -> Mean {
    Mean { mean, ci95: None, relative_deviation: None }
}

/// What both worlds came to.
pub struct Comparison<'a> {
    study: &'a Study,
    reality: &'a str,
    /// Values of the axes, prediction and reality.
    rows: Vec<(&'a [Value], &'a Measured, &'a Measured)>,
}

/// By how many per cent a prediction is above what was measured.
fn error(predicted: Mean, real: Mean) -> f64 {
    (predicted.mean / real.mean - 1.0) * 100.0
}

impl<'a> Comparison<'a> {
    /// Of what was predicted and measured of the same points.
    pub fn of(
        (study, predicted): &'a (Study, Done),
        (real_study, real): &'a (Study, Done),
    ) -> Comparison<'a> {
        let rows = study.points.iter().zip(&real_study.points).filter_map(|(p, r)| {
            Some((p.at.as_slice(), predicted.get(&p.key)?, real.get(&r.key)?))
        });
        Comparison { study, reality: &real_study.method, rows: rows.collect() }
    }

    /// The mean and the largest of all errors' amounts, in per cent, of one metric.
    fn summary(&self, of: fn(&Measured) -> Mean) -> (f64, f64) {
        let errors: Vec<f64> =
            self.rows.iter().map(|(_, p, r)| error(of(p), of(r)).abs()).collect();
        let errors: Vec<f64> = errors.into_iter().filter(|e| e.is_finite()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        (mean, errors.iter().copied().fold(0.0, f64::max))
    }

    /// A table for people.
    pub fn text(&self) -> String {
        let mut headings: Vec<String> = self.study.axes.clone();
        for (_, short, _) in COMPARED {
            headings.extend([format!("{short} predicted"), "real".into(), "error %".into()]);
        }
        headings.push("others %".into());
        let mut table = table(headings);
        for (at, predicted, real) in &self.rows {
            let mut row: Vec<String> = at.iter().map(plain).collect();
            for (_, _, of) in COMPARED {
                let (p, r) = (of(predicted), of(real));
                row.extend([p.figure().text(), r.figure().text(), format!("{:+.1}", error(p, r))]);
            }
            row.push(real.others.map_or(String::new(), |o| format!("{:.0}", o * 100.0)));
            table.add_row(row);
        }
        let axes = self.study.axes.len();
        align_right(&mut table, axes..axes + 3 * COMPARED.len() + 1);
        let errors = COMPARED.map(|(_, short, of)| {
            let (mean, most) = self.summary(of);
            format!("{short}: {mean:.1} % on average, {most:.1} % at most")
        });
        format!(
            "{}\n{table}\nErrors, without their sign: {}.\nPrediction: {}\nReality: {}",
            self.study.title,
            errors.join("; "),
            self.study.method,
            self.reality
        )
    }

    /// Everything, with every digit.
    pub fn table(&self) -> Table {
        let mut columns = self.study.axes.clone();
        for (name, _, _) in COMPARED {
            let parts = ["predicted", "predicted_ci95", "real", "real_ci95", "error_percent"];
            columns.extend(parts.map(|part| format!("{name}_{part}")));
        }
        columns.push("others".to_string());
        let mut table = Table::new(columns);
        for (at, predicted, real) in &self.rows {
            let mut row: Vec<Cell> = at.iter().map(cell).collect();
            for (_, _, of) in COMPARED {
                let (p, r) = (of(predicted), of(real));
                row.extend([p.mean.into(), p.ci95.into(), r.mean.into(), r.ci95.into()]);
                row.push(error(p, r).into());
            }
            row.push(real.others.into());
            table.row(row);
        }
        table
    }

    /// Everything in JSON.
    pub fn json(&self) -> String {
        let row = |(at, predicted, real): &(&[Value], &Measured, &Measured)| {
            let point: Map<String, Value> =
                self.study.axes.iter().cloned().zip(at.iter().cloned()).collect();
            let mut row = Map::from_iter([("point".to_string(), Value::Object(point))]);
            row.insert("others".into(), json!(real.others));
            for (name, _, of) in COMPARED {
                let (p, r) = (of(predicted), of(real));
                let values = json!({
                    "predicted": p.mean, "predicted_ci95": p.ci95,
                    "real": r.mean, "real_ci95": r.ci95,
                    "error_percent": error(p, r),
                });
                row.insert(name.into(), values);
            }
            Value::Object(row)
        };
        let errors = COMPARED.map(|(name, _, of)| {
            let (mean, most) = self.summary(of);
            (name.to_string(), json!({ "mean": mean, "most": most }))
        });
        let all = json!({
            "weft": self.study.weft,
            "title": self.study.title,
            "prediction": self.study.method,
            "reality": self.reality,
            "absolute_error_percent": Map::from_iter(errors),
            "results": self.rows.iter().map(row).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}
