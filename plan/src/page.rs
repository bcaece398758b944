//! What became of the designs, as tables and as AFRAID's Figure 3 for them: availability over performance, and over cost.

use weft_report::{Axis, Block, Cell, Kind, Page, Plot, Point, Series, Table};

use crate::outcome::Outcome;
use crate::spec::Spec;

/// What a column of the table is called, and what of an outcome it has.
type Column = (&'static str, fn(&Outcome) -> Cell);

const COLUMNS: [Column; 16] = [
    ("design", |o| o.name.as_str().into()),
    ("layout", |o| o.layout.as_str().into()),
    ("disks", |o| Cell::Number(o.disks as f64)),
    ("usable TB", |o| o.usable_tb.into()),
    ("cost", |o| o.cost.into()),
    ("cost per TB", |o| o.cost_per_tb.into()),
    ("rebuild h", |o| o.rebuild_h.into()),
    ("repair h", |o| o.repair_h.into()),
    ("MTTDL by disks, h", |o| o.mttdl_disk_h.into()),
    ("MTTDL, h", |o| o.mttdl_h.into()),
    ("MDLR, B/h", |o| o.mdlr_b_h.into()),
    ("loss in a year", |o| o.loss_per_year.into()),
    ("loss in the mission", |o| o.loss_per_mission.into()),
    ("bytes lost in the mission", |o| o.bytes_lost_per_mission.into()),
    ("requests/s", |o| o.requests_s.into()),
    ("budget", |o| met(o).as_str().into()),
];

/// Whether a design meets the budget, in words.
fn met(outcome: &Outcome) -> String {
    match outcome.beyond.is_empty() {
        true => "met".to_string(),
        false => format!("not met: {}", outcome.beyond.join(", ")),
    }
}

/// All designs, in their order: with the intervals of what was played, if it was.
pub fn table(outcomes: &[Outcome]) -> Table {
    let played = outcomes.iter().any(|o| o.played.is_some());
    let more =
        if played { &["played: loss by disks", "± (95 %)", "the chain's"][..] } else { &[] };
    let names = COLUMNS.iter().map(|c| c.0).chain(more.iter().copied());
    let mut table = Table::new(names);
    for outcome in outcomes {
        let mut row: Vec<Cell> = COLUMNS.iter().map(|c| c.1(outcome)).collect();
        if played {
            let played = outcome.played.as_ref();
            row.push(played.map(|p| p.loss_per_mission).into());
            row.push(played.map(|p| p.ci95).into());
            row.push(played.map(|p| p.by_chain).into());
        }
        table.row(row);
    }
    table
}

/// What loses data in each design: the mean time to each cause.
pub fn causes(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(["design", "cause", "once in h", "share of losses"]);
    for outcome in outcomes {
        let all: f64 = outcome.causes.iter().map(|c| c.per_h).sum();
        for cause in &outcome.causes {
            table.row([
                outcome.name.as_str().into(),
                cause.name.as_str().into(),
                Cell::Number(1.0 / cause.per_h),
                Cell::Number(cause.per_h / all),
            ]);
        }
    }
    table
}

/// Availability, as the mean time to data loss, over something: a mark for each design, and a line through those of a
/// curve.
fn plot(title: &str, over: &str, outcomes: &[Outcome], of: fn(&Outcome) -> f64) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for outcome in outcomes {
        let name = outcome.curve.as_ref().unwrap_or(&outcome.name);
        let point = outcome.mttdl_h.map(|y| Point { x: of(outcome), y, error: None });
        match series.iter_mut().find(|s| outcome.curve.is_some() && s.name == *name) {
            Some(curve) => curve.points.extend(point),
            None => series.push(Series {
                name: name.clone(),
                kind: Kind::Measured,
                points: point.into_iter().collect(),
            }),
        }
    }
    for curve in &mut series {
        curve.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Plot {
        title: title.to_string(),
        x: Axis::linear(over),
        y: Axis::log("mean time to data loss, h"),
        series,
    }
}

/// The designs' availability over their performance, and over their cost where anything is paid for.
pub fn plots(outcomes: &[Outcome]) -> Vec<Plot> {
    let performance =
        plot("Availability over performance", "requests/s", outcomes, |o| o.requests_s);
    let cost = outcomes
        .iter()
        .any(|o| o.cost > 0.0)
        .then(|| plot("Availability over cost", "cost per usable TB", outcomes, |o| o.cost_per_tb));
    [performance].into_iter().chain(cost).collect()
}

/// All of it as a page.
pub fn page(spec: &Spec, outcomes: &[Outcome]) -> Page {
    let heading = |text: &str| Block::Heading(text.to_string());
    let mut blocks = vec![Block::Paragraph(format!(
        "{} designs over {} years. Those that meet the budget come first, the cheapest of them before others.",
        outcomes.len(),
        spec.mission.years
    ))];
    blocks.extend(plots(outcomes).into_iter().map(Block::Plot));
    blocks.extend([heading("Designs"), Block::Table(table(outcomes))]);
    blocks.extend([heading("What loses data"), Block::Table(causes(outcomes))]);
    blocks.extend(notes(outcomes).into_iter().map(Block::Paragraph));
    Page { title: spec.title.clone(), blocks }
}

/// What must be said of how numbers came about.
pub fn notes(outcomes: &[Outcome]) -> Vec<String> {
    let sampled = outcomes.iter().filter(|o| o.sampled).map(|o| o.name.as_str());
    let sampled: Vec<&str> = sampled.collect();
    let mut out = Vec::new();
    if !sampled.is_empty() {
        out.push(format!(
            "Sets of losses were drawn, not all counted, for large losses of: {}.",
            sampled.join(", ")
        ));
    }
    let apart = |o: &&Outcome| {
        o.played.as_ref().is_some_and(|p| (p.loss_per_mission - p.by_chain).abs() > 2.0 * p.ci95)
    };
    for outcome in outcomes.iter().filter(apart) {
        out.push(format!(
            "{}: simulation and Markov chain differ much. Ageing disks can cause this, or repairs \
             that are long compared with the mission; more trials show whether it was chance.",
            outcome.name
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::outcomes;

    fn spec(more: &str) -> Spec {
        let text = format!(
            "title = \"ours\"\nbudget.mttdl_h = 1e7\ndisks = {{ size_gb = 4000, mttf_h = 1e6, price = 100 }}\n{more}\n\
             [[designs]]\nlayout = \"raid0\"\ndisks = 4\n[[designs]]\nlayout = \"raid6\"\ndisks = 6\n"
        );
        Spec::parse(&text).unwrap()
    }

    #[test]
    fn a_page_has_every_design_in_its_tables_and_figures() {
        let spec = spec("monte_carlo.trials = 100");
        let outcomes = outcomes(&spec).unwrap();
        let (html, plots) = (page(&spec, &outcomes).html(), plots(&outcomes));
        assert_eq!(plots.len(), 2);
        for name in ["raid0", "raid6"] {
            assert!(html.contains(&format!("<td>{name}</td>")), "{name}");
            assert!(plots.iter().all(|p| p.svg().contains(name)), "{name}");
        }
        assert!(html.contains("not met: mttdl_h") && html.contains("played: loss by disks"));
        assert_eq!(
            plots[0].svg().matches("class=\"dot\"").count(),
            4,
            "a mark and one in the legend each"
        );
    }

    /// AFRAID's Figure 3 from measured policies: they are one line, the slowest first.
    #[test]
    fn policies_of_one_array_are_a_line() {
        let policy = |requests: u32, share: f64| {
            format!(
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\ncurve = \"ours\"\nrequests_s = {requests}\n\
                 deferred = {{ unprotected_share = {share}, lag_bytes = 1e6 }}\n"
            )
        };
        let spec = spec(&(policy(400, 0.3) + &policy(200, 0.01) + &policy(300, 0.1)));
        let plots = plots(&outcomes(&spec).unwrap());
        let ours = plots[0].series.iter().find(|s| s.name == "ours").unwrap();
        let points: Vec<(f64, f64)> = ours.points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(points.iter().map(|p| p.0).collect::<Vec<_>>(), [200.0, 300.0, 400.0]);
        assert!(points.is_sorted_by(|a, b| a.1 > b.1), "{points:?}");
    }

    #[test]
    fn what_was_not_asked_for_is_not_there() {
        let mut spec = spec("");
        spec.disks.price = 0.0;
        let outcomes = outcomes(&spec).unwrap();
        assert_eq!(plots(&outcomes).len(), 1);
        assert_eq!(table(&outcomes).columns.len(), COLUMNS.len());
        assert!(notes(&outcomes).is_empty());
    }
}
