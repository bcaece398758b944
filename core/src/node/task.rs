//! From a task to its plan, and from a role to the node that has it: the same wherever it is asked, so
//! that all who take part derive the same.

use super::Task;
use crate::cluster::Volume;
use crate::plan::{PlanError, Role, WritePlan};
use crate::units::{ColumnSet, NodeId};

impl Task {
    /// The first stripe that it is about.
    pub fn first_stripe(&self, volume: &Volume) -> u64 {
        match *self {
            Task::Write(range) => range.stripes(&volume.geometry).start,
            Task::Rebuild { stripe, .. }
            | Task::Lose { stripe, .. }
            | Task::Copy { stripe, .. } => stripe,
        }
    }

    /// Whether it lies inside the volume.
    pub fn fits(&self, volume: &Volume) -> bool {
        let g = &volume.geometry;
        match *self {
            Task::Write(range) => volume.holds(range),
            Task::Rebuild { stripe, column, part }
            | Task::Lose { stripe, column, part }
            | Task::Copy { stripe, column, part } => {
                stripe < volume.stripes() && column < g.layout.width() && part.hi <= g.unit
            }
        }
    }

    /// Its plan when the columns of `avoid` are not used and the parities of `waits` are only marked.
    pub fn plan(
        &self,
        volume: &Volume,
        avoid: ColumnSet,
        waits: ColumnSet,
    ) -> Result<WritePlan, PlanError> {
        let g = &volume.geometry;
        match *self {
            Task::Write(range) => WritePlan::deferring(g, range, avoid, volume.policy, waits),
            Task::Rebuild { stripe, column, part } => {
                WritePlan::rebuild(g, stripe, column, part, avoid)
            }
            Task::Lose { stripe, column, part } => Ok(WritePlan::lose(g, stripe, column, part)),
            Task::Copy { stripe, column, part } => Ok(WritePlan::copy(g, stripe, column, part)),
        }
    }
}

/// Who has which role in a task: the columns' roles by the stripe map, the others at the originator.
#[derive(Clone, Copy)]
pub(super) struct Cast<'a> {
    pub volume: &'a Volume,
    /// The number of the extent in the stripe map.
    pub extent: usize,
    pub originator: NodeId,
}

impl Cast<'_> {
    /// The node that has a role. A column that no disk leaves has no source.
    pub fn node(&self, role: Role) -> Option<NodeId> {
        let extent = &self.volume.extents[self.extent];
        match role {
            Role::Column(column) => extent.columns.get(column).map(|c| c.0),
            Role::Source(column) => extent.leaving.get(&column).map(|left| left.0),
            Role::Calculator | Role::Endpoint | Role::Coordinator => Some(self.originator),
        }
    }

    /// The role that a node's disk has in a task.
    pub fn role_of(&self, node: NodeId, task: &Task) -> Option<Role> {
        let extent = &self.volume.extents[self.extent];
        let of_source = || match task {
            Task::Copy { column, .. } if extent.column_leaving(node) == Some(*column) => {
                Some(Role::Source(*column))
            }
            _ => None,
        };
        extent.column_of(node).map(Role::Column).or_else(of_source)
    }
}
