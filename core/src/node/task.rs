//! From a task to its plan, and from a role to the node that has it: the same wherever it is asked, so
//! that all who take part derive the same.

use super::{Item, Task};
use crate::cluster::Volume;
use crate::plan::{Calculators, Part, PlanError, Range, Role, Span, Waits, WritePlan};
use crate::policy::{Policy, Preference};
use crate::units::{ColumnSet, NodeId, SECTOR};

impl Task {
    /// The number in a chain of messages of that which brings a column what is new: it comes with the word to begin, or is
    /// fetched from the endpoint.
    pub fn new_at(&self, volume: &Volume, is_held: bool) -> u8 {
        match *self {
            Task::Write(range) if is_held && range.len > volume.policy.inline => 3,
            _ => 1,
        }
    }

    /// The range of the volume whose content a host changes; none if it changes no content of hosts.
    pub fn host_range(&self) -> Option<Range> {
        match *self {
            Task::Write(range) | Task::Accept(range) | Task::Fold { range, .. } => Some(range),
            Task::Refresh { .. } | Task::Rebuild { .. } | Task::Lose { .. } | Task::Copy { .. } => {
                None
            }
        }
    }

    /// Whether it is about several stripes that are rebuilt together: what of them goes the same way at the same time
    /// goes in one message.
    pub fn is_joined(&self) -> bool {
        matches!(self, Task::Rebuild { stripes: 2.., .. })
    }

    /// The first stripe that it is about.
    pub fn first_stripe(&self, volume: &Volume) -> u64 {
        match *self {
            Task::Write(range) | Task::Accept(range) | Task::Fold { range, .. } => {
                range.stripes(&volume.geometry).start
            }
            Task::Refresh { stripe, .. }
            | Task::Rebuild { stripe, .. }
            | Task::Lose { stripe, .. }
            | Task::Copy { stripe, .. } => stripe,
        }
    }

    /// Whether it lies inside the volume.
    pub fn fits(&self, volume: &Volume) -> bool {
        let g = &volume.geometry;
        match *self {
            Task::Write(range) | Task::Accept(range) => volume.holds(range),
            Task::Fold { range, .. } => {
                let unit = range.offset / g.unit;
                let whole = range.offset % SECTOR == 0 && range.len % SECTOR == 0;
                volume.holds(range) && whole && range.len > 0 && (range.end() - 1) / g.unit == unit
            }
            Task::Refresh { stripe, part, parities, .. } => {
                let known = g.code.has_parities(parities) && g.code.covers_all();
                stripe < volume.stripes() && part.hi <= g.unit && known
            }
            Task::Rebuild { stripe, stripes, column, part } => {
                joins(volume, stripe, stripes, column, part) && part.hi <= g.unit
            }
            Task::Lose { stripe, column, part } | Task::Copy { stripe, column, part } => {
                stripe < volume.stripes() && column < g.layout.seats() && part.hi <= g.unit
            }
        }
    }

    /// Its plan when the columns of `avoid` are not used and the parities of `waits` are at most marked.
    pub fn plan(
        &self,
        volume: &Volume,
        avoid: ColumnSet,
        waits: impl Into<Waits>,
    ) -> Result<WritePlan, PlanError> {
        let g = &volume.geometry;
        match *self {
            Task::Write(range) | Task::Accept(range) => {
                WritePlan::deferring(g, range, avoid, volume.policy, waits)
            }
            // A change of parity needs nothing of the other data, whose copies may wait for a fold, too.
            Task::Fold { range, .. } => {
                let policy = Policy { strategy: Some(Preference::Small), ..volume.policy };
                WritePlan::deferring(g, range, avoid, policy, waits)
            }
            Task::Refresh { stripe, part, parities, .. } => {
                Ok(WritePlan::refresh(g, stripe, part, parities))
            }
            Task::Rebuild { stripe, stripes, column, part } => {
                let stripes = stripe..stripe + stripes;
                WritePlan::rebuild(g, stripes, column, part, avoid, volume.policy)
            }
            Task::Lose { stripe, column, part } => Ok(WritePlan::lose(g, stripe, column, part)),
            Task::Copy { stripe, column, part } => Ok(WritePlan::copy(g, stripe, column, part)),
        }
    }
}

/// Most bytes of a column that one task rebuilds, if it is more than one unit.
const MOST_JOINED: u64 = 4 << 20;

/// Whether these bytes of a seat's units in so many stripes can be rebuilt together: the stripes lie in one extent, and the
/// seat is the same column's in all of them.
pub(super) fn joins(volume: &Volume, stripe: u64, stripes: u64, seat: usize, part: Span) -> bool {
    let layout = &volume.geometry.layout;
    let Some(end) = stripe.checked_add(stripes).filter(|end| *end <= volume.stripes()) else {
        return false;
    };
    let together = || {
        let of_column = seat < layout.width() && !part.is_empty();
        of_column
            && stripes.saturating_mul(part.len()) <= MOST_JOINED
            && volume.extent_of(stripe) == volume.extent_of(end - 1)
    };
    seat < layout.seats() && stripes > 0 && (stripes == 1 || together())
}

/// Who has which role in a task: the columns' roles by the stripe map, the others at the originator, but for the
/// calculator where a column is named for it.
#[derive(Clone, Copy)]
pub(super) struct Cast<'a> {
    pub volume: &'a Volume,
    /// The number of the extent in the stripe map.
    pub extent: usize,
    pub originator: NodeId,
    /// The columns that calculate, if neither the originator nor an endpoint does.
    pub calculators: Calculators,
    /// Who holds the bytes and calculates, if that is another.
    pub endpoint: Option<NodeId>,
}

impl Cast<'_> {
    /// The node that has a role in a stripe. A column that no disk leaves has no source.
    pub fn node(&self, stripe: u64, role: Role) -> Option<NodeId> {
        let extent = &self.volume.extents[self.extent];
        let column = |seat| self.volume.geometry.layout.column_at(stripe, seat);
        match role {
            Role::Column(seat) => extent.columns.get(column(seat)).map(|c| c.0),
            Role::Source(seat) => extent.leaving.get(&column(seat)).map(|left| left.0),
            Role::Coordinator => Some(self.originator),
            Role::Calculator if let Some(column) = self.calculators.of(stripe) => {
                extent.columns.get(column).map(|c| c.0)
            }
            Role::Calculator | Role::Endpoint => Some(self.endpoint.unwrap_or(self.originator)),
        }
    }

    /// Whether a node has the column that sends this by the plan, to that role.
    pub fn shows(&self, from: NodeId, to: Role, item: &Item) -> bool {
        let g = &self.volume.geometry;
        let column = match item.part {
            Part::From(column) | Part::Sum { from: column, .. } => column,
            Part::NewOf(unit) if to == Role::Calculator => unit,
            _ => return false,
        };
        column < g.code.columns()
            && self.node(item.stripe, Role::Column(g.seat_of(item.stripe, column))) == Some(from)
    }

    /// Whether a node has the role that sends this by the plan, to that role.
    pub fn sends(&self, from: NodeId, to: Role, item: &Item) -> bool {
        let has = |role| self.node(item.stripe, role) == Some(from);
        match (item.part, to) {
            (Part::From(_) | Part::Sum { .. }, _) => self.shows(from, to, item),
            (Part::NewOf(_), Role::Calculator) if self.shows(from, to, item) => true,
            (Part::Result, Role::Column(seat)) => {
                [Role::Calculator, Role::Endpoint, Role::Source(seat)].into_iter().any(has)
            }
            _ => has(Role::Endpoint),
        }
    }

    /// The column that a node's disk has in a task, and whether it is being copied from there.
    pub fn column_of(&self, node: NodeId, task: &Task) -> Option<(usize, bool)> {
        let extent = &self.volume.extents[self.extent];
        let of_source = || match *task {
            Task::Copy { stripe, column: seat, .. } => {
                let column = self.volume.geometry.layout.column_at(stripe, seat);
                (extent.column_leaving(node) == Some(column)).then_some((column, true))
            }
            _ => None,
        };
        extent.column_of(node).map(|column| (column, false)).or_else(of_source)
    }

    /// The roles that a disk with such a column has in a stripe.
    pub fn roles_of(
        &self,
        stripe: u64,
        (column, leaves): (usize, bool),
    ) -> impl Iterator<Item = Role> + use<> {
        let seats = self.volume.geometry.layout.seats_of(stripe, column);
        seats.map(move |seat| if leaves { Role::Source(seat) } else { Role::Column(seat) })
    }
}
