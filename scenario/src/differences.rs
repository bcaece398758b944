//! Differences between designs that met the same requests: the n-th run of every point draws from the same seed, so
//! runs are compared one with one. What chance does to both alike falls out (common random numbers: Law, *Simulation
//! Modeling and Analysis*, chapter 11), and the interval is narrower than those of the two means suggest.

use serde_json::Value;
use weft_report::{Cell, Table, short};
use weft_sim::perf::Estimate;

use crate::grid::Grid;
use crate::result::{Measured, Run};
use crate::store::Place;
use crate::value::{cell, plain};

/// What a run is compared by.
type Of = fn(&Run) -> Option<f64>;

/// What is compared.
const COMPARED: [(&str, Of); 2] =
    [("throughput_mb_s", |r| Some(r.throughput_mb_s)), ("response_ms", |r| r.response_ms)];

/// Every design beside the first of its axis, all else being equal. A design is a value that is a name: of numbers the plots
/// say more. `None` if there are no two, or if points are single runs.
pub(crate) fn table(
    axes: &[String],
    varying: &[usize],
    rows: &[(&Place, &Measured)],
) -> Option<Table> {
    let of_names = |n: &usize| rows.iter().all(|(place, _)| !place.at[*n].is_number());
    let designs: Vec<usize> = varying.iter().copied().filter(of_names).collect();
    let at = varying.iter().map(|n| axes[*n].as_str());
    let ends = ["beside", "metric", "difference", "ci95", "share", "runs"];
    let mut table = Table::new(at.chain(ends));
    for axis in designs {
        for (place, measured) in rows {
            let Some((base, beside)) = base(axis, place, rows) else { continue };
            for (metric, of) in COMPARED {
                let Some(difference) = difference(&beside.runs, &measured.runs, of) else {
                    continue;
                };
                let at = varying.iter().map(|n| cell(&place.at[*n]));
                let ends = [
                    Cell::Text(plain(base)),
                    metric.into(),
                    difference.estimate.mean.into(),
                    difference.estimate.ci95.into(),
                    difference.share.into(),
                    (measured.runs.len() as f64).into(),
                ];
                table.row(at.chain(ends));
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The table for people: a difference with its interval, and as a share in per cent.
pub(crate) fn grid(table: &Table, axes: usize) -> Grid {
    let text = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(number) => short(*number),
        Cell::Empty => String::new(),
    };
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    };
    let row = |row: &Vec<Cell>| -> Vec<String> {
        let (at, ends) = row.split_at(axes);
        let sign = |n: f64| format!("{}{}", if n > 0.0 { "+" } else { "" }, short(n));
        let interval = number(&ends[3]).map(|half| format!(" ± {}", short(half)));
        let difference = number(&ends[2]).map_or(String::new(), sign);
        let share =
            number(&ends[4]).map_or(String::new(), |share| format!("{:+.1} %", 100.0 * share));
        let shown =
            [text(&ends[0]), text(&ends[1]), difference + &interval.unwrap_or_default(), share];
        at.iter().map(text).chain(shown).collect()
    };
    let heads = table.columns[..axes].iter().map(String::as_str);
    let heads = heads.chain(["beside", "metric", "difference", "share"]);
    let is_number = |n: usize| n >= axes + 2 || table.rows.iter().all(|r| number(&r[n]).is_some());
    Grid {
        heads: heads.map(String::from).collect(),
        rows: table.rows.iter().map(row).collect(),
        keys: axes + 2,
        numbers: (0..axes + 4).map(is_number).collect(),
    }
}

/// The point that differs from this one only by having the first design of this axis; `None` of that point itself.
fn base<'a>(
    axis: usize,
    place: &Place,
    rows: &[(&'a Place, &'a Measured)],
) -> Option<(&'a Value, &'a Measured)> {
    let first = &rows.first()?.0.at[axis];
    if place.at[axis] == *first {
        return None;
    }
    let same = |other: &Place| {
        (0..place.at.len())
            .all(|n| other.at[n] == if n == axis { first.clone() } else { place.at[n].clone() })
    };
    rows.iter().find(|(other, _)| same(other)).map(|(other, measured)| (&other.at[axis], *measured))
}

/// A difference over runs, and as a share of the first mean.
struct Difference {
    estimate: Estimate,
    share: Option<f64>,
}

/// Of as many runs each, and of more than one; nothing where a run does not know.
fn difference(from: &[Run], to: &[Run], of: Of) -> Option<Difference> {
    if from.len() != to.len() || from.len() < 2 {
        return None;
    }
    let values = |runs: &[Run]| runs.iter().map(of).collect::<Option<Vec<f64>>>();
    let (from, to) = (values(from)?, values(to)?);
    let estimate = Estimate::of(from.iter().zip(&to).map(|(from, to)| to - from));
    let mean = from.iter().sum::<f64>() / from.len() as f64;
    Some(Difference { estimate, share: (mean != 0.0).then(|| estimate.mean / mean) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ms: &[f64]) -> Vec<Run> {
        ms.iter()
            .map(|ms| Run { throughput_mb_s: 1.0, requests_s: 1.0, response_ms: Some(*ms) })
            .collect()
    }

    /// Two designs that chance treats alike differ by 1 to within less than their own intervals.
    #[test]
    fn what_chance_does_to_both_falls_out() {
        let (a, b) = (runs(&[10.0, 30.0, 20.0]), runs(&[11.0, 31.5, 20.5]));
        let Difference { estimate, share } = difference(&a, &b, |r| r.response_ms).unwrap();
        assert_eq!((estimate.mean, share), (1.0, Some(0.05)));
        // Student's t of 95 % and two degrees is 4.3027; the standard deviation of 1, 1.5 and 0.5 is 0.5.
        let half = estimate.ci95.unwrap();
        assert!((half - 4.302_653 * 0.5 / 3_f64.sqrt()).abs() < 1e-5, "{half}");
        let alone = Estimate::of(a.iter().filter_map(|r| r.response_ms)).ci95.unwrap();
        assert!(alone > 20.0 * half / 1.5, "{alone} and {half}");
        assert!(difference(&a[..1], &b[..1], |r| r.response_ms).is_none(), "a single run");
        assert!(difference(&a, &b[..2], |r| r.response_ms).is_none(), "not as many");
        let mut none = b.clone();
        none[1].response_ms = None;
        assert!(difference(&a, &none, |r| r.response_ms).is_none(), "a run without a request");
    }
}
