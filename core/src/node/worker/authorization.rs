//! Which node may send which message of a write.
//!
//! The coordinator says that a write begins. Parts, and sums of them, are accepted from the nodes that the plan names,
//! and from no others. If an endpoint holds the bytes, its messages, and those of the calculator, are accepted only
//! once the controller has named these. All others are refused: counted, logged, and without effect.

use std::collections::VecDeque;

use super::*;

/// The most parts kept that arrive before the controller's message.
const MOST_EARLY: usize = 256;

/// A part of a write that the controller has not announced yet.
#[derive(Clone, Hash)]
struct Early {
    from: NodeId,
    header: Header,
    to: Role,
    items: Vec<Item>,
}

/// Parts of writes that the controller has not announced yet, the oldest first.
#[derive(Clone, Default, Hash)]
pub(super) struct EarlyParts(VecDeque<Early>);

impl EarlyParts {
    /// Keeps one. Beyond the limit the oldest is dropped.
    fn keep(&mut self, part: Early) {
        if self.0.len() >= MOST_EARLY {
            self.0.pop_front();
        }
        self.0.push_back(part);
    }

    /// Removes and returns the parts of a write.
    fn take(&mut self, ts: Timestamp) -> VecDeque<Early> {
        if self.0.is_empty() {
            return VecDeque::new();
        }
        let (its, others) =
            std::mem::take(&mut self.0).into_iter().partition(|e| e.header.ts == ts);
        self.0 = others;
        its
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Worker {
    /// Keeps a part that arrives before the controller has named the endpoint. Returns whether it did.
    pub(super) fn keeps_early(
        &mut self,
        from: NodeId,
        header: &Header,
        to: Option<Role>,
        items: &[Item],
    ) -> bool {
        let is_told = self.txns.get(&header.ts).is_some_and(|t| t.is_told);
        let (Some(to), false, true) = (to, is_told, self.config.checks_senders()) else {
            return false;
        };
        if !items.is_empty()
            && self.cast(header, |cast| items.iter().all(|i| cast.shows(from, to, i)))
        {
            return false;
        }
        self.early.keep(Early { from, header: *header, to, items: items.to_vec() });
        true
    }

    /// The controller has announced a write: its kept parts are processed now.
    pub fn hear_early(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let its = self.early.take(ts);
        if self.txns.get(&ts).is_some_and(|t| t.is_told) {
            its.into_iter()
                .for_each(|e| self.on_part(e.from, e.header, Some(e.to), e.items, outbox));
        }
    }

    /// Whether a node may send this of a write.
    pub(super) fn may_say(
        &mut self,
        from: NodeId,
        header: &Header,
        to: Option<Role>,
        items: &[Item],
        outbox: &mut Outbox,
    ) -> bool {
        if !self.config.checks_senders() {
            return true;
        }
        let is_held = header.holder.is_some();
        let coordinates =
            from == header.ts.originator() && (!is_held || self.map.server() == Some(from));
        let may = match to {
            None => coordinates,
            Some(_) if items.is_empty() => {
                coordinates || header.holder.is_some_and(|holder| holder.node == from)
            }
            Some(to) => self.sends(from, header, to, items, coordinates),
        };
        let is_same = !is_held || self.is_known_as(header);
        if may && is_same {
            return true;
        }
        outbox.refuse(from, || format!("is not a node that sends content for write {}", header.ts));
        if may
            && to.is_none()
            && self.txns.get(&header.ts).is_some_and(|t| t.phase == Phase::Working)
        {
            // Another node's message began it.
            self.refuse(header.ts, Refusal::Aborted, outbox);
        }
        false
    }

    /// Whether a write is known by this header, or not at all.
    fn is_known_as(&self, header: &Header) -> bool {
        let Some(txn) = self.txns.get(&header.ts) else { return true };
        let of_cell = txn.cells.first().map(|cell| cell.header);
        let own = of_cell.or_else(|| txn.calculators.first().map(Calculator::header));
        own.is_none_or(|own| own == *header)
    }

    /// Whether a node sends all of this by the plan. The coordinator may send the endpoint's data, if it has them.
    fn sends(
        &self,
        from: NodeId,
        header: &Header,
        to: Role,
        items: &[Item],
        coordinates: bool,
    ) -> bool {
        self.cast(header, |cast| {
            let of_columns = |i: &Item| matches!(i.part, Part::From(_) | Part::Sum { .. });
            let may = |i: &Item| cast.sends(from, to, i) || (coordinates && !of_columns(i));
            items.iter().all(may)
        })
    }

    /// A question about the roles in a write; false if it makes no sense.
    fn cast(&self, header: &Header, asked: impl FnOnce(Cast) -> bool) -> bool {
        let Some(volume) = self.map.volumes.get(&header.volume) else { return false };
        if !header.task.fits(volume) {
            return false;
        }
        let extent = volume.extent_of(header.task.first_stripe(volume));
        let (originator, endpoint) = (header.ts.originator(), header.holder.map(|h| h.node));
        let calculators = header.calculators;
        asked(Cast { volume, extent, originator, calculators, endpoint })
    }
}
