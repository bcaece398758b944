//! `weft explain`: what each column does for a read or a write, and what it costs; what a layout is.

mod layout;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use weft_core::SECTOR;
use weft_core::cluster::EXTENT_COLUMN_BYTES;
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::NodeConfig;
use weft_core::order::sequencer::{OrderCost, Standpoint};
use weft_core::plan::{self, Asked, Explanation, PlanError, Range, Totals};
use weft_core::policy::{Choice, Ordering, Policy, PolicyError, SequencerForm, Setting, Timing};
use weft_core::units::{ColumnSet, MAX_NODES};
use weft_host::{Size, Spec};
use weft_terminal::{bytes, say, say_json, table, with_rules};

use crate::args;
use crate::choices::{Choices, Takes};

/// The longest request that is explained: it has a row for every stripe.
const LONGEST: u64 = 1 << 30;

/// The subject to explain.
#[derive(Debug, Subcommand)]
pub enum Explain {
    /// A read
    Read(Common),
    /// A write
    Write(Write),
    /// The refresh of deferred parity of a written range
    Refresh(Refresh),
    /// A layout: what each parity covers, its cost, and the losses it tolerates
    Layout(layout::Layout),
}

/// The request and its array.
#[derive(Debug, Args)]
pub struct Common {
    #[arg(long, value_parser = args::layout, help = args::layout_help())]
    layout: LayoutSpec,
    /// Number of nodes [default: 5, or the layout's minimum]. With more nodes than columns, a volume consists of
    /// extents, and requests are split at their ends
    #[arg(long)]
    nodes: Option<usize>,
    /// Stripe unit: contiguous bytes per disk
    #[arg(long, default_value = "64K", value_parser = args::size)]
    stripe_unit: u64,
    /// Offset of the request in the volume
    #[arg(long, value_parser = args::size)]
    offset: u64,
    /// Length of the request
    #[arg(long, value_parser = args::size)]
    length: u64,
    /// Lost columns, in every extent, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "COLUMN", value_parser = column)]
    failed: Vec<usize>,
    #[command(flatten)]
    order: Choices<OfOrder>,
    /// With --ordering sequencer: number of originators, including this one [default: all]
    #[arg(long, value_name = "N")]
    originators: Option<usize>,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

fn column(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("'{text}' is not a column; give numbers such as 0 or 0,2"))
}

/// A write and the volume's policy.
#[derive(Debug, Args)]
pub struct Write {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    choices: Choices<OfWrites>,
    /// With --redundancy deferred or never: all deferred parity is already marked by earlier writes
    #[arg(long)]
    marked: bool,
}

/// A range with deferred parity and the volume's policy.
#[derive(Debug, Args)]
pub struct Refresh {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    choices: Choices<OfWrites>,
}

/// What a request's order may be, and what else the plan of a read depends on. Sequencer and lock server are on other nodes, nothing is in the way, and no lock is
/// kept.
#[derive(Clone, Debug)]
struct OfOrder;

impl Takes for OfOrder {
    fn takes(choice: &Choice) -> bool {
        ["ordering", "sequencer", "roles", "calculator", "commands"].contains(&choice.key)
    }
}

/// What else a write's plan depends on.
#[derive(Clone, Debug)]
struct OfWrites;

impl Takes for OfWrites {
    fn takes(choice: &Choice) -> bool {
        let other = OfOrder::takes(choice) || ["lost-wait", "snapshots"].contains(&choice.key);
        !other
    }

    const MEASURING: bool = true;
}

impl Explain {
    /// Explains it.
    pub fn run(&self) -> Result<ExitCode> {
        let (common, write) = match self {
            Explain::Read(common) => (common, None),
            Explain::Write(write) => (&write.common, Some(write)),
            Explain::Refresh(refresh) => {
                let (geometry, explanation) = refresh.explain()?;
                return refresh.common.show(&geometry, &explanation);
            }
            Explain::Layout(layout) => return layout.run(),
        };
        let (geometry, explanation) = explain(common, write)?;
        common.show(&geometry, &explanation)
    }
}

impl Refresh {
    fn explain(&self) -> Result<(Geometry, Explanation)> {
        let policy = self.common.policy(&self.choices.given)?;
        if !policy.redundancy.defers() {
            bail!("parity is already up to date; give --redundancy deferred");
        }
        if !self.common.failed.is_empty() {
            bail!("with a lost column parity is not deferred; omit --failed");
        }
        self.common.explain(policy, Asked::Refresh)
    }
}

fn explain(common: &Common, write: Option<&Write>) -> Result<(Geometry, Explanation)> {
    let policy = common.policy(write.map_or(&[], |w| &w.choices.given[..]))?;
    common.explain(policy, asked(write, &policy, !common.failed.is_empty())?)
}

/// What is asked for. Only parity that waits can be marked, and writes rely on marks only where all of it does.
fn asked(write: Option<&Write>, policy: &Policy, lacks: bool) -> Result<Asked> {
    let Some(write) = write else { return Ok(Asked::Read) };
    if !write.marked {
        return Ok(Asked::Write);
    }
    if lacks {
        bail!(
            "--marked needs stripes without lost columns, because otherwise parity is not deferred; omit --failed"
        );
    }
    if !policy.relies_on_marks() {
        bail!(
            "--marked needs --redundancy deferred or never, with --refresh idle, no --immediate-parities, the \
             journal and an ordering: otherwise each write informs the parity nodes"
        );
    }
    Ok(Asked::WriteToMarked)
}

/// The columns that a user says are lost.
fn failed_columns(named: &[usize], layout: &LayoutSpec, geometry: &Geometry) -> Result<ColumnSet> {
    let width = geometry.layout.width();
    if let Some(column) = named.iter().find(|c| **c >= width) {
        bail!("there is no column {column}; layout {layout} has columns 0 to {} here", width - 1);
    }
    let failed: ColumnSet = named.iter().copied().collect();
    if !geometry.is_always_recoverable(failed) {
        bail!(PlanError::NotRecoverable { lost: failed });
    }
    Ok(failed)
}

/// The layout over so many nodes, or as many as a user has in mind who says nothing.
fn geometry(layout: &LayoutSpec, nodes: Option<usize>, unit: u64) -> Result<Geometry> {
    if unit == 0 || !unit.is_multiple_of(SECTOR) {
        bail!("a stripe unit of {unit} bytes is not a multiple of {SECTOR}; give one such as 64K");
    }
    if unit > LONGEST {
        bail!("a stripe unit of {} is too large; give at most {}", Size(unit), Size(LONGEST));
    }
    let nodes = nodes_of(layout, nodes);
    if nodes == 0 || nodes > MAX_NODES {
        bail!("an array cannot have {nodes} nodes; choose 1 to {MAX_NODES}");
    }
    Ok(Geometry::new(layout.over(nodes)?, unit))
}

fn nodes_of(layout: &LayoutSpec, nodes: Option<usize>) -> usize {
    nodes.unwrap_or(layout.least_nodes().max(Spec::default().nodes()))
}

impl Common {
    /// How requests are ordered.
    fn ordered(&self) -> Policy {
        Policy::default().with(self.order.given.iter().copied())
    }

    fn ordering(&self) -> Ordering {
        self.ordered().ordering
    }

    fn form(&self) -> SequencerForm {
        self.ordered().sequencer
    }

    /// All that is chosen, if it goes together. Without votes there is no journal unless it is asked for.
    fn policy(&self, of_write: &[Setting]) -> Result<Policy> {
        let said: Vec<Setting> = self.order.given.iter().chain(of_write).copied().collect();
        let mut policy = Policy::default().with(said.iter().copied());
        if !said.iter().any(|s| matches!(s, Setting::Journal(_))) {
            policy.journal = policy.commit.is_voted();
        }
        policy.check(&said)?;
        self.check_layout(&policy, &said)?;
        Ok(policy)
    }

    /// Refuses what a cluster refuses of a volume with this layout.
    fn check_layout(&self, policy: &Policy, said: &[Setting]) -> Result<()> {
        let (geometry, layout) = (self.geometry()?, self.layout.to_string());
        let waits = |s: &&Setting| matches!(s, Setting::Redundancy(t) if *t != Timing::Immediate);
        if let Some(given) = said.iter().find(waits).filter(|_| !geometry.is_redundant()) {
            bail!(PolicyError::NoParity { given: *given, layout });
        }
        let parities = geometry.code.parity_columns();
        let given = policy.redundancy.immediate_parities;
        if given > 0 && usize::from(given) >= parities {
            let most = parities.saturating_sub(1);
            let given = Setting::ImmediateParities(given);
            bail!(PolicyError::NoneWaits { given, layout, parities, most });
        }
        Ok(())
    }

    fn explain(&self, policy: Policy, asked: Asked) -> Result<(Geometry, Explanation)> {
        let geometry = self.geometry()?;
        let (range, failed) = (self.range()?, self.failed(&geometry)?);
        let max = NodeConfig::default().max_chunk;
        let (extent, at) = (self.extent_stripes(&geometry), self.standpoint()?);
        let explanation =
            plan::explain(&geometry, asked, range, failed, policy, max, Some(extent), at)?;
        Ok((geometry, explanation))
    }

    fn show(&self, geometry: &Geometry, explanation: &Explanation) -> Result<ExitCode> {
        if self.json {
            say_json(as_json(explanation, self))?;
        } else {
            say(describe(geometry, explanation, self))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// From where a sequencer sees the request.
    fn standpoint(&self) -> Result<Standpoint> {
        if self.originators.is_some() && self.ordering() != Ordering::Sequencer {
            bail!("--originators is for --ordering sequencer");
        }
        let nodes = self.nodes();
        let originators = self.originators.unwrap_or(nodes);
        if originators == 0 || originators > nodes {
            bail!("{nodes} nodes cannot have {originators} originators; choose 1 to {nodes}");
        }
        let (nodes, originators) = (nodes as u64, originators as u64);
        Ok(Standpoint { nodes, originators, at_primary: nodes == 1 })
    }

    fn nodes(&self) -> usize {
        nodes_of(&self.layout, self.nodes)
    }

    fn geometry(&self) -> Result<Geometry> {
        geometry(&self.layout, self.nodes, self.stripe_unit)
    }

    /// How many stripes an extent has, in all but very large volumes.
    fn extent_stripes(&self, geometry: &Geometry) -> u64 {
        (EXTENT_COLUMN_BYTES / geometry.unit).max(1)
    }

    fn range(&self) -> Result<Range> {
        let (offset, len) = (self.offset, self.length);
        if len == 0 {
            bail!("a request cannot have length 0; give a length such as 4K");
        }
        if len > LONGEST {
            bail!(
                "a request of {} is too long to explain; give at most {}",
                Size(len),
                Size(LONGEST)
            );
        }
        if offset > u64::MAX / 8 {
            bail!("offset {offset} is beyond any volume; give a smaller one");
        }
        Ok(Range { offset, len })
    }

    fn failed(&self, geometry: &Geometry) -> Result<ColumnSet> {
        failed_columns(&self.failed, &self.layout, geometry)
    }
}

fn as_json(explanation: &Explanation, common: &Common) -> Value {
    let rows = explanation.rows.iter().map(
        |r| json!({"stripe": r.stripe, "count": r.count, "strategy": r.strategy, "cells": r.cells}),
    );
    let mut all = json!({
        "rows": rows.collect::<Vec<_>>(),
        "chunks": explanation.chunks,
        "totals": totals_as_json(explanation.totals),
    });
    if let Some(cost) = explanation.order {
        all["order"] = json!({
            "ordering": common.ordering().name(),
            "messages_before": cost.before,
            "round_trips": cost.round_trips,
            "messages_after": cost.after,
        });
        if common.ordering() == Ordering::Sequencer {
            all["order"]["sequencer"] = json!(common.form().name());
            all["order"]["tickertaip"] = json!(common.form().prediction());
        }
    }
    all
}

fn describe(geometry: &Geometry, explanation: &Explanation, common: &Common) -> String {
    let columns = (0..geometry.layout.width()).map(|c| format!("column {c}"));
    let mut table =
        table(["stripe".to_string(), "strategy".to_string()].into_iter().chain(columns));
    with_rules(&mut table);
    for row in &explanation.rows {
        let stripes = match row.count {
            1 => row.stripe.to_string(),
            n => format!("{} to {}", row.stripe, row.stripe + n - 1),
        };
        let cells = row.cells.iter().map(|cell| cell.replace(": ", "\n").replace(", ", "\n"));
        table.add_row([stripes, row.strategy.replace(", ", "\n")].into_iter().chain(cells));
    }
    let t = explanation.totals;
    let chunks = match explanation.chunks {
        1 => "one piece, atomic".to_string(),
        n => format!("{n} pieces, each atomic by itself"),
    };
    let order = explanation.order.map_or_else(String::new, |cost| describe_order(cost, common));
    format!(
        "{table}\n{chunks}: {}, {}, {}, {}, {} on the wire, {}{order}",
        many(t.disk_reads, "disk read"),
        many(t.disk_writes, "disk write"),
        many(t.journal_writes, "journal write"),
        many(t.messages, "message"),
        bytes(t.wire_bytes),
        many(t.round_trips, "round trip"),
    )
}

fn describe_order(cost: OrderCost, common: &Common) -> String {
    let by = match common.ordering() {
        Ordering::Sequencer => common.form().to_string(),
        ordering => ordering.to_string(),
    };
    let paper = match common.ordering() {
        Ordering::Sequencer => format!("\nTickerTAIP 3.4.4 says: {}", common.form().prediction()),
        _ => String::new(),
    };
    format!(
        "\nof these for its order ({by}): {}, {}; and {} afterwards{paper}",
        many(cost.before, "message"),
        many(cost.round_trips, "round trip"),
        many(cost.after, "message"),
    )
}

fn totals_as_json(t: Totals) -> Value {
    json!({
        "disk_reads": t.disk_reads,
        "disk_writes": t.disk_writes,
        "journal_writes": t.journal_writes,
        "messages": t.messages,
        "wire_bytes": t.wire_bytes,
        "round_trips": t.round_trips,
    })
}

fn many(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

#[cfg(test)]
mod tests;
