//! Copies of the map on the disks of this process's nodes.
//!
//! They are written with the nodes' own disk operations, between those, and nobody waits for them but a process that
//! stops in good order.

use weft_core::store::{DiskRequest, DiskResult, Urgency};

use super::Engine;
use crate::disk::map_copies::{Keeper, Wanted};
use crate::disk::uring::Tag;
use crate::log::About;

/// The number of the operation, which no node gives to one of its own.
pub(super) const COPY: u64 = u64::MAX;

impl Engine {
    /// The map has been stored: the disks are to have it, too.
    pub(super) fn copy_map(&mut self) {
        let Some(copy) = self.rule.copy() else { return };
        match Wanted::new(&copy) {
            Ok(wanted) => self.wanted = Some(wanted),
            Err(why) if !self.too_long => {
                self.too_long = true;
                self.log.warn(&why);
            }
            Err(_) => {}
        }
        self.copies_due = true;
    }

    /// A node's disk has just been opened.
    pub(super) fn keep_copies(&mut self, n: usize) {
        self.instances[n].keeper = Keeper::new();
        self.copies_due = true;
    }

    /// Starts what is to be done next on each disk.
    pub(super) fn start_copies(&mut self) {
        if !std::mem::take(&mut self.copies_due) {
            return;
        }
        let Some(wanted) = &self.wanted else { return };
        for (node, instance) in self.instances.iter_mut().enumerate().filter(|(_, s)| s.has_disk())
        {
            if let Some(op) = instance.keeper.next(wanted) {
                let urgency = Urgency::Awaited;
                let tag = Tag { node, life: instance.life, id: COPY, urgency };
                self.lanes
                    .lane_of(node)
                    .start_disk_operation(tag, DiskRequest { id: COPY, op, urgency });
            }
        }
    }

    /// An operation about the copies on a node's disk has ended.
    ///
    /// The node stops if a write has failed: a durable write may report that earlier writes were lost, and nothing else
    /// does after it.
    pub(super) fn copy_ended(&mut self, tag: Tag, result: DiskResult) {
        self.copies_due = true;
        let n = tag.node;
        let writes = self.instances[n].keeper.is_writing();
        let Err(why) = self.instances[n].keeper.ended(result) else { return };
        if writes {
            self.disk_failed(n, &why);
        } else {
            let text = format!("node {n}: its disk has no copies of the map: {why}");
            self.log.on(About::node(n)).warn(&text);
        }
    }

    /// Whether every disk has what it is to have, or cannot.
    pub(super) fn copies_are_done(&self) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        self.instances.iter().filter(|s| s.has_disk()).all(|s| s.keeper.is_done(wanted))
    }
}
