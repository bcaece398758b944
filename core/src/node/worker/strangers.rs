//! Who may say what of a write whose bytes an endpoint holds.
//!
//! The controller says that it begins. Of columns parts are taken that they are to send by the plan. What the endpoint
//! gives, or computes, is taken from it alone, and only once the controller has said who that is. All else is a
//! stranger's: it is counted, and has no effect.

use super::*;

/// Parts that come before the controller's word, of which so many are kept at most.
const MOST_EARLY: usize = 256;

/// A part of a write that the controller has not spoken of yet.
#[derive(Clone, Hash)]
pub(super) struct Early {
    from: NodeId,
    header: Header,
    to: Role,
    items: Vec<Item>,
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
        let of_columns = |i: &Item| matches!(i.part, Part::From(_));
        let is_told = self.txns.get(&header.ts).is_some_and(|t| t.is_told);
        let (Some(to), false, true) = (to, is_told, self.config.checks_strangers()) else {
            return false;
        };
        if items.iter().all(of_columns) {
            return false;
        }
        if self.early.len() >= MOST_EARLY {
            self.early.pop_front();
        }
        self.early.push_back(Early { from, header: *header, to, items: items.to_vec() });
        true
    }

    /// The controller has spoken of a write: what came before is looked at now.
    pub fn hear_early(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let (its, others) =
            std::mem::take(&mut self.early).into_iter().partition(|e| e.header.ts == ts);
        self.early = others;
        let its: VecDeque<Early> = its;
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
        let known = self.txns.get(&header.ts);
        let own = known.and_then(|t| t.cells.first()).map(|c| c.header);
        let is_same = own.is_none_or(|own| own == *header);
        let coordinates = from == header.ts.originator() && self.map.server() == Some(from);
        let of_columns = |i: &Item| matches!(i.part, Part::From(_));
        let may = match to {
            None => coordinates,
            Some(_) if items.is_empty() || !items.iter().all(of_columns) => {
                coordinates || header.holder.is_some_and(|holder| holder.node == from)
            }
            Some(_) => self.show(from, header, items),
        };
        outbox.counters.refused_strangers += u64::from(!(may && is_same));
        if may && !is_same && to.is_none() && known.is_some_and(|t| t.phase == Phase::Working) {
            // It was begun by somebody else's word.
            self.refuse(header.ts, Refusal::Aborted, outbox);
        }
        may && is_same
    }

    /// Whether a node has the columns whose parts it sends.
    fn show(&self, from: NodeId, header: &Header, items: &[Item]) -> bool {
        let Some(volume) = self.map.volumes.get(&header.volume) else { return false };
        if !header.task.fits(volume) {
            return false;
        }
        let extent = volume.extent_of(header.task.first_stripe(volume));
        let (originator, endpoint) = (header.ts.originator(), None);
        let calculators = header.calculators;
        let cast = Cast { volume, extent, originator, calculators, endpoint };
        items.iter().all(|item| cast.shows(from, item))
    }
}
