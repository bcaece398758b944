//! `weft explain`: what each column does for a read or a write, and what it costs; what a layout is.

mod layout;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use weft_core::SECTOR;
use weft_core::cluster::EXTENT_COLUMN_BYTES;
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::NodeConfig;
use weft_core::order::Ordering;
use weft_core::order::sequencer::{OrderCost, SequencerForm, Standpoint};
use weft_core::plan::{self, Explanation, PlanError, Policy, Range, Totals};
use weft_core::units::{ColumnSet, MAX_NODES};
use weft_host::{Size, Spec};
use weft_terminal::{bytes, say, say_json, table, with_rules};

use crate::args::{self, Dispatch, Switch};

/// The longest request that is explained: it has a row for every stripe.
const LONGEST: u64 = 1 << 30;

/// What to explain.
#[derive(Debug, Subcommand)]
pub enum Explain {
    /// A read
    Read(Common),
    /// A write
    Write(Write),
    /// A layout: what it covers with which parity, what it costs and what it survives
    Layout(layout::Layout),
}

/// The request, and on what.
#[derive(Debug, Args)]
pub struct Common {
    /// raid0, raid1, raid4, raid5 (or raid5:left-asymmetric and the like), raid6, rs:K+M or lrc:K+L+G
    #[arg(long, value_parser = args::layout)]
    layout: LayoutSpec,
    /// Number of nodes [default: 5, or as many as the layout needs]. Over more nodes than it
    /// has columns a volume consists of extents, and requests are cut where one ends
    #[arg(long)]
    nodes: Option<usize>,
    /// Bytes on one disk before the next one's turn
    #[arg(long, default_value = "64K", value_parser = args::size)]
    stripe_unit: u64,
    /// Where the request begins in the volume
    #[arg(long, value_parser = args::size)]
    offset: u64,
    /// How long it is
    #[arg(long, value_parser = args::size)]
    length: u64,
    /// Columns that are lost, in every extent, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "COLUMN", value_parser = column)]
    failed: Vec<usize>,
    /// Who says which request goes first: none, sequencer, lock-server, callback-locks, device-locks or
    /// timestamps. Sequencer and lock server are on other nodes, nothing is in the way, and no lock is kept
    #[arg(long, default_value = "timestamps")]
    ordering: Ordering,
    /// With --ordering sequencer: who keeps the graph of requests: centralized,
    /// partially-centralized, originator-driven or worker-driven [default: centralized]
    #[arg(long, value_name = "FORM")]
    sequencer: Option<SequencerForm>,
    /// With --ordering sequencer: how many nodes have taken requests from hosts, this one's among
    /// them [default: all]
    #[arg(long, value_name = "N")]
    originators: Option<usize>,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

fn column(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("'{text}' is not a column; give numbers such as 0 or 0,2"))
}

/// A write, and what the volume's policy leaves open.
#[derive(Debug, Args)]
pub struct Write {
    #[command(flatten)]
    common: Common,
    /// Where parity is computed
    #[arg(long, alias = "roles", default_value = "auto")]
    parity_at: ParityAt,
    /// Which strategy to take where it is possible
    #[arg(long, default_value = "auto")]
    strategy: Strategy,
    /// Who works out what each node does
    #[arg(long, default_value = "collaborative")]
    dispatch: Dispatch,
    /// When the write is decided: when all hold their part (late), when it can be finished without any one (early), or never (none); limited: when every device that writes has been asked, with --dispatch commanded
    #[arg(long, default_value = "late")]
    commit: Commit,
    /// Whether participants journal their part before they vote
    /// [default: on; off with --commit none]
    #[arg(long)]
    journal: Option<Switch>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ParityAt {
    Auto,
    Originator,
    Solely,
    Parity,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Strategy {
    Auto,
    Small,
    Large,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Commit {
    Late,
    Early,
    Limited,
    None,
}

impl Explain {
    /// Explains it.
    pub fn run(&self) -> Result<ExitCode> {
        let (common, write) = match self {
            Explain::Read(common) => (common, None),
            Explain::Write(write) => (&write.common, Some(write)),
            Explain::Layout(layout) => return layout.run(),
        };
        let (geometry, explanation) = explain(common, write)?;
        if common.json {
            say_json(as_json(&explanation, common))?;
        } else {
            say(describe(&geometry, &explanation, common))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn explain(common: &Common, write: Option<&Write>) -> Result<(Geometry, Explanation)> {
    let policy = match write {
        Some(write) => write.policy()?,
        None => Policy { ordering: common.ordering, sequencer: common.form(), ..Policy::default() },
    };
    let geometry = common.geometry()?;
    let (range, failed) = (common.range()?, common.failed(&geometry)?);
    let max = NodeConfig::default().max_chunk;
    let extent = common.extent_stripes(&geometry);
    let (at, writes) = (common.standpoint()?, write.is_some());
    let explanation =
        plan::explain(&geometry, writes, range, failed, policy, max, Some(extent), at)?;
    Ok((geometry, explanation))
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
        bail!("{nodes} nodes are not possible; choose 1 to {MAX_NODES}");
    }
    Ok(Geometry::new(layout.over(nodes)?, unit))
}

fn nodes_of(layout: &LayoutSpec, nodes: Option<usize>) -> usize {
    nodes.unwrap_or(layout.least_nodes().max(Spec::default().nodes()))
}

impl Common {
    fn form(&self) -> SequencerForm {
        self.sequencer.unwrap_or_default()
    }

    /// From where a sequencer sees the request.
    fn standpoint(&self) -> Result<Standpoint> {
        let said = [
            ("--sequencer", self.sequencer.is_some()),
            ("--originators", self.originators.is_some()),
        ];
        if let Some((option, _)) = said.iter().find(|s| s.1)
            && self.ordering != Ordering::Sequencer
        {
            bail!("{option} is for --ordering sequencer");
        }
        let nodes = self.nodes();
        let originators = self.originators.unwrap_or(nodes);
        if originators == 0 || originators > nodes {
            bail!("of {nodes} nodes {originators} cannot be originators; choose 1 to {nodes}");
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
            bail!("a request of length 0 does nothing; give a length such as 4K");
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

impl Write {
    fn policy(&self) -> Result<Policy> {
        if self.commit == Commit::Limited && self.dispatch != Dispatch::Commanded {
            bail!("--commit limited is for --dispatch commanded: the originator asks every device");
        }
        let decided = matches!(self.commit, Commit::Late | Commit::Early);
        let journal = self.journal.map_or(decided, Switch::is_on);
        if journal && !decided {
            bail!(
                "with --commit none or limited nothing is journalled; leave out --journal on, or use --commit late"
            );
        }
        Ok(Policy {
            strategy: match self.strategy {
                Strategy::Auto => None,
                Strategy::Small => Some(plan::Strategy::Small),
                Strategy::Large => Some(plan::Strategy::Large),
            },
            parity_at: match self.parity_at {
                ParityAt::Auto => None,
                ParityAt::Originator => Some(plan::ParityAt::Originator),
                ParityAt::Solely => Some(plan::ParityAt::Solely),
                ParityAt::Parity => Some(plan::ParityAt::Parity),
            },
            dispatch: match self.dispatch {
                Dispatch::Collaborative => plan::Dispatch::Collaborative,
                Dispatch::Commanded => plan::Dispatch::Commanded,
            },
            commit: match self.commit {
                Commit::Late => plan::Commit::Late,
                Commit::Early => plan::Commit::Early,
                Commit::Limited => plan::Commit::Limited,
                Commit::None => plan::Commit::None,
            },
            ordering: self.common.ordering,
            sequencer: self.common.form(),
            journal,
            ..Policy::default()
        })
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
            "ordering": common.ordering.name(),
            "messages_before": cost.before,
            "round_trips": cost.round_trips,
            "messages_after": cost.after,
        });
        if common.ordering == Ordering::Sequencer {
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
    let by = match common.ordering {
        Ordering::Sequencer => common.form().to_string(),
        ordering => ordering.to_string(),
    };
    let paper = match common.ordering {
        Ordering::Sequencer => format!("\nTickerTAIP 3.4.4 says: {}", common.form().prediction()),
        _ => String::new(),
    };
    format!(
        "\nof these for its order ({by}): {}, {}; and {} when it is over{paper}",
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
