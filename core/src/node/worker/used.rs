//! Which of many stripes are in use on this disk. That is asked before they are zeroed, and before their holes are
//! reported: stripes that were never written are skipped in one step, here and at the originator.
//!
//! A stripe that is not in use on any disk reads as zeros. Zeroing it would change nothing, if no earlier write is
//! admitted later: see [`Admission::sweep`](crate::order::Admission::sweep).

use std::ops::Range;

use super::{Admittance, Ticket, Worker};
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::outbox::Outbox;
use crate::node::{Body, Refusal, Wanted};
use crate::plan::Range as Bytes;
use crate::store::Scan;
use crate::units::{Epoch, NodeId, Timestamp, VolumeId};

/// The asking node, and its question.
#[derive(Clone, Debug, Hash)]
pub(super) struct Asked {
    from: NodeId,
    ts: Timestamp,
    epoch: Epoch,
    volume: VolumeId,
    column: usize,
    stripes: Range<u64>,
    /// Those of the column's units.
    sectors: Range<u64>,
    /// Those of them with a write undecided at the time of the question.
    busy: Vec<Range<u64>>,
    /// No write before `ts` may be admitted later where nothing is in use.
    sweeps: bool,
    hops: u8,
}

impl Worker {
    /// An originator asks which of these stripes are in use here.
    pub(super) fn on_used(
        &mut self,
        asker: (NodeId, Timestamp),
        asked: (&Volume, Bytes),
        wanted: Wanted,
        outbox: &mut Outbox,
    ) {
        let Some(asked) = self.take_asked(asker, asked, wanted, outbox) else { return };
        let (first, count) = (asked.sectors.start, asked.sectors.end - asked.sectors.start);
        let ticket = self.tickets.issue(Ticket::Used(Box::new(asked)));
        let what = match wanted {
            Wanted::Placed => Scan::Placed,
            Wanted::UsedOwn => Scan::WRITTEN,
            _ => Scan::Used,
        };
        self.store.scan(ticket, first, count, what);
    }

    /// The stripes to search, unless it is refused. Undecided ones are in use: they may be committed during the scan,
    /// behind it, and their hosts may have their answers already.
    fn take_asked(
        &mut self,
        (from, ts): (NodeId, Timestamp),
        (volume, range): (&Volume, Bytes),
        wanted: Wanted,
        outbox: &mut Outbox,
    ) -> Option<Asked> {
        let stripes = range.stripes(&volume.geometry);
        let extent = volume.extent(stripes.start);
        let column = extent.column_of(self.node)?;
        if stripes.end > volume.extent_end(stripes.start) {
            return None;
        }
        let units = |stripe| volume.geometry.layout.units_before(stripe, column);
        let place = |stripe| {
            let before = units(stripe) - units(extent.first);
            extent.columns[column].1 + before * volume.unit_sectors()
        };
        let sectors = place(stripes.start)..place(stripes.end);
        let sweeps = wanted == Wanted::UsedBefore;
        let mut busy: Vec<Range<u64>> =
            self.admission.busy(Timestamp(u64::MAX), sectors.clone()).collect();
        let looks_beneath = wanted != Wanted::UsedOwn;
        if looks_beneath && !self.undecided_beneath(Timestamp(u64::MAX), sectors.clone()).is_empty()
        {
            busy = vec![sectors.clone()];
        }
        let (epoch, hops, volume) = (self.map.epoch, outbox.hops + 1, volume.id);
        let asked = Asked { from, ts, epoch, volume, column, stripes, sectors, busy, sweeps, hops };
        if sweeps && let Admittance::Rejected(latest) = self.admission.sweep(ts, &asked.sectors) {
            reply_used(&asked, Err(Refusal::Late(latest)), outbox);
            return None;
        }
        Some(asked)
    }

    /// The store has reported the stripes in use. Undecided ones count, too, and content later than the question: it
    /// may have become a hole only by then.
    pub(super) fn used_done(
        &mut self,
        asked: &Asked,
        found: &[(u64, Timestamp)],
        outbox: &mut Outbox,
    ) {
        if asked.epoch != self.map.epoch {
            return;
        }
        let Some(volume) = self.map.volumes.get(&asked.volume) else { return };
        let ts = if asked.sweeps { asked.ts } else { Timestamp(u64::MAX) };
        if asked.sweeps && self.admission.has_forgotten(ts) {
            let late = Refusal::Late(self.admission.latest_committed(0..0));
            return reply_used(asked, Err(late), outbox);
        }
        let (layout, first) = (volume.geometry.layout, volume.extent(asked.stripes.start).first);
        let base = volume.extent(asked.stripes.start).columns[asked.column].1;
        let unit_sectors = volume.unit_sectors();
        let stripe_of = |sector: u64| {
            let unit = layout.units_before(first, asked.column) + (sector - base) / unit_sectors;
            layout.unit_at(asked.column, unit).0
        };
        let mut used = vec![false; (asked.stripes.end - asked.stripes.start) as usize];
        let mut mark = |sector| used[(stripe_of(sector) - asked.stripes.start) as usize] = true;
        found.iter().for_each(|(sector, _)| mark(*sector));
        asked.busy.iter().cloned().flatten().for_each(&mut mark);
        self.admission.busy(ts, asked.sectors.clone()).flatten().for_each(&mut mark);
        if self.is_stale(asked.sectors.clone()) {
            used.fill(true);
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (stripe, _) in asked.stripes.clone().zip(used).filter(|(_, used)| *used) {
            match runs.last_mut() {
                Some(run) if run.end == stripe => run.end += 1,
                _ => runs.push(stripe..stripe + 1),
            }
        }
        let piece = |run: Range<u64>| {
            let count = (run.end - run.start).to_le_bytes();
            (run.start, Buffer::from(count.to_vec()))
        };
        reply_used(asked, Ok(runs.into_iter().map(piece).collect()), outbox);
    }
}

fn reply_used(asked: &Asked, result: Result<Vec<(u64, Buffer)>, Refusal>, outbox: &mut Outbox) {
    let body = Body::ReadReply { ts: asked.ts, column: asked.column, result };
    outbox.send_after(asked.from, body, asked.hops);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Notice;
    use crate::node::test_bench::{Bench, PEER, UNIT, VOLUME, at};

    /// The scan had gone by, and at its end nothing was undecided any more. The write's host had its answer before.
    #[test]
    fn what_is_committed_behind_a_scan_is_in_use() {
        let mut bench = Bench::new();
        bench.begin_write(at(400));
        while bench.disk_works().is_some() {}
        assert!(bench.has_sent(|b| matches!(b, Body::Vote { vote: Ok(()), .. })), "it is prepared");
        let range = Bytes { offset: 0, len: 8 * UNIT };
        for (n, wanted) in [Wanted::UsedBefore, Wanted::Used].into_iter().enumerate() {
            let (worker, outbox) = (&mut bench.node.worker, &mut bench.node.outbox);
            let volume = worker.map.volumes[&VOLUME].clone();
            let ts = at(500 + n as u64);
            let asked = worker.take_asked((PEER, ts), (&volume, range), wanted, outbox);
            if n == 0 {
                bench.hear_with(PEER, vec![Notice::Commit(at(400))], None);
            }
            let (worker, outbox) = (&mut bench.node.worker, &mut bench.node.outbox);
            worker.used_done(&asked.expect("it is taken"), &[], outbox);
            bench.hear_with(PEER, vec![], None);
            let runs = bench.sent.iter().find_map(|b| match b {
                Body::ReadReply { ts: of, result: Ok(runs), .. } if *of == ts => Some(runs.len()),
                _ => None,
            });
            assert_eq!(runs, Some(1 - n), "{wanted:?}");
        }
    }
}
