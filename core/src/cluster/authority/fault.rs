//! Deliberate bugs of the authority, which the simulation check must find. Where one strikes there is a call with its
//! name, and nothing else.

use std::sync::Arc;

use super::Change;
use crate::cluster::map::{ClusterMap, Volume};
use crate::units::{ColumnSet, NodeId};

/// What an authority does wrong if it is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorityBug {
    /// Whether a volume can go on is judged by the number of columns that it lacks, and not by its code.
    ByNumber,
    /// Nodes are given up while what others had is still being rebuilt.
    TwoAtOnce,
    /// A volume that gets another size forgets which of its columns are being filled, and from where they are copied.
    SizeForgetsFilling,
}

/// Whether nodes are given up one failure domain at a time.
pub(super) fn waits_for_rebuilds(bug: Option<AuthorityBug>) -> bool {
    bug != Some(AuthorityBug::TwoAtOnce)
}

/// Whether a volume cannot go on without such nodes: the code is asked.
pub(super) fn is_lost_with(
    bug: Option<AuthorityBug>,
    volume: &Volume,
    which: impl Fn(NodeId) -> bool,
) -> bool {
    if bug != Some(AuthorityBug::ByNumber) {
        return volume.is_lost_with(which);
    }
    let parities = volume.geometry.code.parity_columns();
    volume.extents.iter().any(|e| {
        let lost: ColumnSet = (0..e.columns.len()).filter(|c| which(e.columns[*c].0)).collect();
        lost.len() > parities
    })
}

/// A change of a volume's size leaves everything else of its extents as it was.
pub(super) fn changed(bug: Option<AuthorityBug>, change: &Change, map: &mut ClusterMap) {
    let Change::SizeVolume(id, _) = change else { return };
    if bug == Some(AuthorityBug::SizeForgetsFilling)
        && let Some(volume) = map.volumes.get_mut(id)
    {
        for extent in &mut Arc::make_mut(volume).extents {
            extent.filling.clear();
            extent.leaving.clear();
        }
    }
}
