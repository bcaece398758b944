//! What follows from several runs: performance and availability relative to RAID 5, and geometric means over the workloads.

use super::super::{Metric, Point, Row, Value};

/// The workload of rows that are geometric means over all.
const MEAN: Value = Value::Name("geometric-mean");

fn of<'a>(point: &'a Point, key: &str) -> Option<&'a Value> {
    point.iter().find(|p| p.0 == key).map(|p| &p.1)
}

/// Adds to the rows what follows from them.
pub fn add(rows: &mut Vec<Row>) {
    let relative: Vec<Row> = rows.iter().filter_map(|row| relative(row, rows)).collect();
    rows.extend(relative);
    let means: Vec<Row> = rows.iter().filter_map(|row| mean(row, rows)).collect();
    rows.extend(means);
}

/// How a row's value stands to RAID 5's of the same workload. Of times the inverse is performance.
fn relative(row: &Row, rows: &[Row]) -> Option<Row> {
    let metric = match (row.metric, row.experiment) {
        (Metric::ResponseMs, "table-2" | "figure-2" | "figure-3") => Metric::RelativePerformance,
        (Metric::MttdlH, "table-3" | "figure-3") => Metric::RelativeAvailability,
        _ => return None,
    };
    let raid5 = rows.iter().find(|r| {
        (r.experiment, r.metric) == (row.experiment, row.metric)
            && of(&r.point, "workload") == of(&row.point, "workload")
            && of(&r.point, "system") == Some(&Value::Name("raid5"))
    })?;
    let measured = match metric {
        Metric::RelativePerformance => raid5.measured / row.measured,
        _ => row.measured / raid5.measured,
    };
    Some(Row { metric, measured, ci95: None, relative_deviation: None, ..row.clone() })
}

/// The geometric mean over the workloads, in the place of the first one's row.
fn mean(row: &Row, rows: &[Row]) -> Option<Row> {
    let is_mean_of = |r: &&Row| {
        (r.experiment, r.metric) == (row.experiment, row.metric)
            && ["system", "policy"].iter().all(|key| of(&r.point, key) == of(&row.point, key))
    };
    let all: Vec<&Row> = rows.iter().filter(is_mean_of).collect();
    let is_first = all.first().is_some_and(|first| first.point == row.point);
    // Of nothing that may be 0 there is one.
    let has = all.len() > 1 && all.iter().all(|r| r.measured > 0.0);
    if !is_first || !has {
        return None;
    }
    let logs: f64 = all.iter().map(|r| libm::log(r.measured)).sum();
    let mut point = row.point.clone();
    point.iter_mut().filter(|p| p.0 == "workload").for_each(|p| p.1 = MEAN);
    let measured = libm::exp(logs / all.len() as f64);
    Some(Row { point, measured, ci95: None, relative_deviation: None, ..row.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &'static str, system: &'static str, measured: f64) -> Row {
        let name = Value::Name;
        Row {
            experiment: "table-2",
            point: vec![
                ("workload", name(workload)),
                ("system", name(system)),
                ("policy", name(system)),
            ],
            metric: Metric::ResponseMs,
            measured,
            ci95: None,
            relative_deviation: None,
            paper: None,
        }
    }

    #[test]
    fn performance_is_relative_to_raid_5_and_means_are_geometric() {
        let mut rows = vec![
            row("a", "raid5", 40.0),
            row("a", "raid0", 10.0),
            row("b", "raid5", 18.0),
            row("b", "raid0", 18.0),
        ];
        add(&mut rows);
        let found = |workload: &'static str, system: &'static str| {
            let at = |r: &&Row| {
                r.metric == Metric::RelativePerformance
                    && r.point[0].1 == Value::Name(workload)
                    && r.point[1].1 == Value::Name(system)
            };
            rows.iter().find(at).unwrap().measured
        };
        assert_eq!(
            (found("a", "raid0"), found("b", "raid0"), found("a", "raid5")),
            (4.0, 1.0, 1.0)
        );
        assert!((found("geometric-mean", "raid0") - 2.0).abs() < 1e-12);
        let times = rows.iter().filter(|r| r.metric == Metric::ResponseMs);
        assert_eq!(times.count(), 4 + 2, "and of the times themselves");
    }
}
