//! Content of writes without journal that is committed, and not in place yet. Should the node restart, the marks under it
//! are back: they stay until then.

use super::{Changed, Exposure};
use crate::store::View;

impl Exposure {
    /// Its sectors.
    pub(super) fn unplaced_sectors(&self) -> impl Iterator<Item = u64> + '_ {
        self.unplaced.values().flatten().flat_map(|changed| changed.sectors.clone())
    }

    /// Whether a sector of data is marked, and no content of it is committed.
    pub fn lacks_content(&self, sector: u64) -> bool {
        let has = |changed: &Changed| changed.sectors.contains(&sector);
        self.marks.contains_key(&sector) && !self.unplaced.values().flatten().any(has)
    }

    /// A new view shows content that is not in place yet, and marks under it.
    pub(in crate::node::worker) fn inherit_unplaced(&mut self, view: &View) {
        let count = view.sectors.end - view.sectors.start;
        for all in self.unplaced.values_mut() {
            let shown = |changed: &Changed| {
                let from = changed.sectors.start.max(view.below);
                let end = changed.sectors.end.min(view.below + count);
                let above = |sector: u64| view.sectors.start + (sector - view.below);
                let kind = changed.kind;
                (from < end).then(|| Changed { sectors: above(from)..above(end), kind })
            };
            let above: Vec<Changed> = all.iter().filter_map(shown).collect();
            all.extend(above);
        }
    }
}
