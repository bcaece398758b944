//! `weft explain layout`: which parity covers what, what a layout costs, and what it survives.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use weft_core::SECTOR;
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::plan::{Range, Totals, WritePlan};
use weft_core::policy::Policy;
use weft_core::units::ColumnSet;
use weft_terminal::{say, say_json, table};

use crate::args;
use crate::volume::sets_of;

use super::{column, failed_columns, geometry, many, totals_as_json};

/// Sets of columns beyond which those that are recoverable are not counted.
const MOST_SETS: u64 = 20_000_000;

/// The most columns of a set where each set is asked about.
const MOST_ONE_BY_ONE: usize = 4;

/// A layout and its lost columns.
#[derive(Debug, Args)]
pub struct Layout {
    #[arg(value_parser = args::layout, help = args::layout_help())]
    layout: LayoutSpec,
    /// Number of nodes [default: 5, or the layout's minimum]
    #[arg(long)]
    nodes: Option<usize>,
    /// Lost columns, separated by commas: show the helpers for these together, instead of for each column alone
    #[arg(long, value_delimiter = ',', value_name = "COLUMN", value_parser = column)]
    failed: Vec<usize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Layout {
    pub(super) fn run(&self) -> Result<ExitCode> {
        match self.json {
            true => say_json(self.as_json()?)?,
            false => {
                let (g, failed) = self.given()?;
                say(describe(&g, &self.layout, failed))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn as_json(&self) -> Result<Value> {
        let (g, failed) = self.given()?;
        Ok(as_json(&g, &self.layout, failed))
    }

    fn given(&self) -> Result<(Geometry, ColumnSet)> {
        let g = geometry(&self.layout, self.nodes, 64 << 10)?;
        let failed = failed_columns(&self.failed, &self.layout, &g)?;
        Ok((g, failed))
    }
}

/// A unit of the code by its name, with data units by number.
fn unit_name(g: &Geometry, code_column: usize) -> String {
    match code_column.checked_sub(g.data_columns()) {
        None => format!("D{code_column}"),
        Some(j) => format!("P{j}"),
    }
}

/// The units of the code that a column of the first stripe holds, as it has them on its disk.
fn units(g: &Geometry, column: usize) -> Vec<usize> {
    g.layout.seats_of(0, column).map(|seat| g.code_column(0, seat)).collect()
}

/// The names of what a column of the first stripe holds.
fn held(g: &Geometry, column: usize) -> Vec<String> {
    units(g, column).into_iter().map(|unit| unit_name(g, unit)).collect()
}

/// What a parity is the sum of.
fn equation(g: &Geometry, j: usize) -> String {
    let term = |i: usize| match g.code.coefficient(j, i) {
        1 => format!("D{i}"),
        c => format!("{c}*D{i}"),
    };
    let terms: Vec<String> = g.code.support(j).iter().map(term).collect();
    format!("P{j} = {}", terms.join(" + "))
}

/// What is read to compute a unit that is lost.
struct Helpers {
    column: usize,
    unit: String,
    from: Vec<String>,
}

/// What is read to compute each unit that is lost, in the first stripe.
fn helpers(g: &Geometry, failed: ColumnSet) -> Vec<Helpers> {
    let lost_alone = failed.is_empty();
    let columns = if lost_alone { (0..g.layout.width()).collect() } else { failed };
    let of = |(column, unit): (usize, usize)| {
        let lost = if lost_alone { ColumnSet::of(column) } else { failed };
        let from = g.helpers(0, g.seats_of(0, lost), unit, ColumnSet::EMPTY)?;
        let from = from.iter().map(|helper| unit_name(g, helper)).collect();
        Some(Helpers { column, unit: unit_name(g, unit), from })
    };
    let lost = columns.iter().flat_map(|c| units(g, c).into_iter().map(move |unit| (c, unit)));
    lost.filter_map(of).collect()
}

/// What a write of one sector inside a stripe unit costs.
fn small_write(g: &Geometry, failed: ColumnSet) -> Option<Totals> {
    let (policy, range) = (Policy::default(), Range { offset: 0, len: SECTOR });
    let plan = WritePlan::new(g, range, failed, policy).ok()?;
    Some(plan.totals(g, policy))
}

/// Of the sets of each size, how many are recoverable, and how many there are.
fn recoverable(g: &Geometry) -> Vec<(usize, u64, u64)> {
    let sizes = 1..=g.code.parity_columns();
    let few = |size: &usize| {
        let (width, size) = (g.layout.width() as u64, *size as u64);
        (0..size).fold(1, |n, i| n * (width - i) / (i + 1)) <= MOST_SETS
    };
    // A disk that holds two units of a stripe loses both.
    let in_twos = g.layout.seats() > g.layout.width();
    let sizes = sizes.filter(few).take_while(|size| !in_twos || *size <= MOST_ONE_BY_ONE);
    let of = |size| {
        let (some, all) = if in_twos { one_by_one(g, size) } else { g.code.recoverable_sets(size) };
        (size, some, all)
    };
    sizes.map(of).collect()
}

/// The same of all stripes of a volume, if it is not that of one: where parity turns, each stripe must bear the loss.
fn recoverable_of_volume(g: &Geometry) -> Vec<(usize, u64, u64)> {
    if g.layout.loss_turns() == 1 {
        return Vec::new();
    }
    let columns: Vec<ColumnSet> = (0..g.layout.width()).map(ColumnSet::of).collect();
    let of = |size| {
        let (some, all) = g.survived_sets(ColumnSet::EMPTY, &columns, size);
        (size, some, all)
    };
    (1..=g.code.parity_columns().min(MOST_ONE_BY_ONE)).map(of).collect()
}

/// The same of the first stripe, where columns are not those of the code: each set is asked about.
fn one_by_one(g: &Geometry, size: usize) -> (u64, u64) {
    let width = g.layout.width();
    let longer = |set: &ColumnSet| {
        let set = *set;
        let first = set.iter().last().map_or(0, |last| last + 1);
        (first..width).map(move |c| set.union(ColumnSet::of(c)))
    };
    let sets =
        (0..size).fold(vec![ColumnSet::EMPTY], |sets, _| sets.iter().flat_map(longer).collect());
    let some = sets.iter().filter(|set| g.is_recoverable(0, **set)).count();
    (some as u64, sets.len() as u64)
}

/// The share of what disks hold that is data.
fn capacity(g: &Geometry) -> f64 {
    g.data_columns() as f64 / g.layout.seats() as f64
}

fn as_json(g: &Geometry, layout: &LayoutSpec, failed: ColumnSet) -> Value {
    let columns: Vec<String> = (0..g.layout.width()).map(|c| held(g, c).join(" ")).collect();
    let parities: Vec<Value> = (0..g.code.parity_columns())
        .map(|j| {
            let covers: Vec<usize> = g.code.support(j).iter().collect();
            let by: Vec<u8> = covers.iter().map(|i| g.code.coefficient(j, *i)).collect();
            json!({ "covers": covers, "coefficients": by })
        })
        .collect();
    let reads: Vec<Value> = helpers(g, failed)
        .into_iter()
        .map(|h| json!({ "column": h.column, "holds": h.unit, "from": h.from }))
        .collect();
    let sets = |of: Vec<(usize, u64, u64)>| -> Vec<Value> {
        let set = |(lost, some, all)| json!({ "lost": lost, "recoverable": some, "sets": all });
        of.into_iter().map(set).collect()
    };
    let write = small_write(g, failed).map(totals_as_json);
    let mut out = json!({
        "layout": layout.to_string(),
        "columns": columns,
        "parities": parities,
        "capacity": capacity(g),
        "failed": failed.iter().collect::<Vec<_>>(),
        "small_write": write,
        "read_for_lost": reads,
        "survives_any": g.code.any_losses(),
        "recoverable_sets": sets(recoverable(g)),
    });
    let of_volume = recoverable_of_volume(g);
    if !of_volume.is_empty() {
        out["recoverable_sets_of_volume"] = sets(of_volume).into();
    }
    out
}

fn describe(g: &Geometry, layout: &LayoutSpec, failed: ColumnSet) -> String {
    let width = g.layout.width();
    let mut out = vec![format!(
        "{layout}: {width} columns, {} of data and {} of parity; {:.1} % of the space is data",
        g.data_columns(),
        g.code.parity_columns(),
        100.0 * capacity(g),
    )];
    out.push(groups(g, failed));
    out.extend((0..g.code.parity_columns()).map(|j| equation(g, j)));
    if let Some(t) = small_write(g, failed) {
        out.push(format!(
            "\na write of 4 KiB takes {} in {}, {}; {} and {} in place",
            many(t.messages, "message"),
            many(t.round_trips, "round trip"),
            many(t.journal_writes, "journal write"),
            many(t.disk_reads, "read"),
            many(t.disk_writes, "write"),
        ));
    }
    let reads = helpers(g, failed);
    if !reads.is_empty() {
        out.push("\nreads for a lost column:".to_string());
    }
    for Helpers { column, unit, from } in reads {
        out.push(format!("  column {column} ({unit}): {} of {}", from.len(), from.join(" ")));
    }
    for (of, sets) in [
        ("of a stripe that are recoverable", recoverable(g)),
        (
            "of a volume, with parity on different columns in different stripes",
            recoverable_of_volume(g),
        ),
    ] {
        if !sets.is_empty() {
            out.push(format!("\nlosses {of}:"));
        }
        for (lost, some, all) in sets {
            let share = 100.0 * some as f64 / all as f64;
            out.push(format!("  {some} of {all} {} ({share:.1} %)", sets_of(lost)));
        }
    }
    out.join("\n")
}

/// The columns of the first stripe, and which parity covers each.
fn groups(g: &Geometry, failed: ColumnSet) -> String {
    let width = g.layout.width();
    let mut table =
        table(["column".to_string()].into_iter().chain((0..width).map(|c| c.to_string())));
    let lost = |c: usize| if failed.contains(c) { " lost" } else { "" };
    let holds = (0..width).map(|c| format!("{}{}", held(g, c).join(" "), lost(c)));
    table.add_row(["holds".to_string()].into_iter().chain(holds));
    for j in 0..g.code.parity_columns() {
        let mark = |unit: usize| match unit.checked_sub(g.data_columns()) {
            None if g.code.support(j).contains(unit) => "x",
            Some(own) if own == j => "P",
            _ => "",
        };
        let marks = (0..width).map(|c| units(g, c).into_iter().map(mark).collect::<String>());
        table.add_row([format!("group of P{j}")].into_iter().chain(marks));
    }
    table.to_string()
}
