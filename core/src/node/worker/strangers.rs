//! Who may say what of a write.
//!
//! Who coordinates says that it begins. Parts, and sums of them, are taken from the nodes that are to send them by the
//! plan, and from no others. If an endpoint holds the bytes, what it gives, or who calculates, is taken only once the
//! controller has said who that is. All else is a stranger's: it is counted, logged, and has no effect.

use std::collections::VecDeque;

use super::*;

/// Parts that come before the controller's word, of which so many are kept at most.
const MOST_EARLY: usize = 256;

/// A part of a write that the controller has not spoken of yet.
#[derive(Clone, Hash)]
struct Early {
    from: NodeId,
    header: Header,
    to: Role,
    items: Vec<Item>,
}

/// Parts of writes that the controller has not spoken of yet, the oldest first.
#[derive(Clone, Default, Hash)]
pub(super) struct EarlyParts(VecDeque<Early>);

impl EarlyParts {
    /// Keeps one. If that is too much, the oldest is dropped.
    fn keep(&mut self, part: Early) {
        if self.0.len() >= MOST_EARLY {
            self.0.pop_front();
        }
        self.0.push_back(part);
    }

    /// Those of a write, which are kept no longer.
    fn take(&mut self, ts: Timestamp) -> VecDeque<Early> {
        if self.0.is_empty() {
            return VecDeque::new();
        }
        let (its, others) =
            std::mem::take(&mut self.0).into_iter().partition(|e| e.header.ts == ts);
        self.0 = others;
        its
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Worker {
    /// Keeps what comes before the controller has said who the endpoint is. Says whether it did.
    pub(super) fn keeps_early(
        &mut self,
        from: NodeId,
        header: &Header,
        to: Option<Role>,
        items: &[Item],
    ) -> bool {
        let is_told = self.txns.get(&header.ts).is_some_and(|t| t.is_told);
        let (Some(to), false, true) = (to, is_told, self.config.checks_strangers()) else {
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

    /// The controller has spoken of a write: what came before is looked at now.
    pub fn hear_early(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let its = self.early.take(ts);
        if self.txns.get(&ts).is_some_and(|t| t.is_told) {
            its.into_iter()
                .for_each(|e| self.on_part(e.from, e.header, Some(e.to), e.items, outbox));
        }
    }

    /// Whether somebody may say this of a write.
    pub(super) fn may_say(
        &mut self,
        from: NodeId,
        header: &Header,
        to: Option<Role>,
        items: &[Item],
        outbox: &mut Outbox,
    ) -> bool {
        if !self.config.checks_strangers() {
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
        outbox.refuse(from, || format!("is not who is to send something of write {}", header.ts));
        if may
            && to.is_none()
            && self.txns.get(&header.ts).is_some_and(|t| t.phase == Phase::Working)
        {
            // It was begun by somebody else's word.
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

    /// Whether a node is to send all of this by the plan. Who coordinates may send what an endpoint has, if it has it.
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

    /// What is asked of who has which role in a write; not so if it makes no sense.
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
