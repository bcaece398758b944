//! Copies of small writes that no parity describes yet (`redundancy=copied`), and their folds.
//!
//! The disk of the data and all disks with parity that covers it keep new content beside the old
//! (`store/copies.rs`). A *fold* writes it in place and into parity: an ordinary write of the content that is there already, by
//! this node's originator. So the old content fits parity at all times, and all that computes anything from it goes on as
//! without copies. The rules:
//!
//! - Copies are made only where all disks of the extent are present and have missed nothing. So each of them has every copy
//!   of its stripes, and any loss that the layout bears leaves the old content, by the code, and a copy.
//! - A fold happens only if its copies are still the newest, else it is refused (`NotCopied`). It waits for all earlier
//!   undecided writes of the sectors, and refuses later ones with earlier timestamps.
//! - Parity's disks, too, refuse a copy with a timestamp before a later change of the same sectors: the disk of the data may
//!   die first. A write that replaces copies waits for undecided ones before it (`JournalStore::fold`).
//! - Where content and copies could be taken for one another, the copies are folded first: before a write of part of a
//!   sector, whose rest is in a copy; a read that is solved for, of data that has a copy, or from such data; a rebuild of a
//!   column whose disk has missed something, and so knows nothing of the copies or has some that were folded since; and
//!   before a column is copied from another disk. Until then these are refused (`Busy`).
//! - A disk that was away believes its copies only where it has missed nothing. Copies count as writes of their sectors in
//!   `Dirty`. A fold goes without a disk only in single sectors that the disk is known to lack.
//! - Columns do not move and snapshots are not taken while there are copies: the authority waits for `ParityDone` reports, and
//!   no more copies are made. Of a volume that sleeps no first snapshot is taken, since nodes that are away may have copies.
//! - A fold always finds space. Only sectors in slots with a place are copied, in at most a 16th of the journal. Where copies
//!   keep the journal from being freed, host writes are refused (`Busy`) before folds need the rest.
//! - What waits for folds is refused before it is admitted at a disk, so it does not hinder them.
//!
//! Which copies are folded, and when, is in [`folding`](super::folding).

use std::collections::BTreeSet;

use super::reading::ReadJob;
use super::*;
use crate::Buffer;
use crate::cluster::Undescribed;
use crate::node::MemberReport;
use crate::store::{ChangeKind, Copy, Kept};

impl Worker {
    /// Why a write must not begin: this disk may not keep its copies, or folds need the room in the journal first.
    pub(super) fn refused_at_once_for_copies(&self, header: &Header) -> Option<Refusal> {
        if header.waits.copied && !self.may_keep_copies(&self.txns[&header.ts].cells) {
            return Some(Refusal::MustNotWait);
        }
        let is_hosts = matches!(header.task, Task::Write(_));
        (is_hosts && self.waits_for_folds()).then_some(Refusal::Busy)
    }

    /// A part of a host's request has come.
    pub(super) fn host_part(&mut self, now: Nanos) {
        self.folding.paused(self.load.quiet_since(now));
        self.load.host_part(now);
    }

    fn may_keep_copies(&self, cells: &[Cell]) -> bool {
        if self.is_searched_for_marks() {
            return false;
        }
        if cells.iter().any(|cell| self.folding.rests(cell.redundancy())) {
            return false;
        }
        let mut copied = cells.iter().filter(|cell| cell.kind().is_copy()).flat_map(Cell::writes);
        copied.all(|changed| {
            let sectors = changed.sectors;
            self.store.may_copy(sectors.clone())
                && !self.is_stale(sectors.clone())
                && !self.exposure.has(&sectors)
                && sectors.clone().all(|sector| !self.damaged.contains(&sector))
        })
    }

    /// Whether there may be copies of what a write changes, here or on the way here. None come to a volume that chooses
    /// otherwise by now but those that are prepared.
    fn may_have_copies(&self, txn: &Participation) -> bool {
        let copies = |volume: &Arc<Volume>| volume.copies();
        let may_come = || self.map.volumes.get(&txn.volume).is_some_and(copies);
        matches!(self.store, AnyStore::Journal(_)) && (self.store.may_have_copies() || may_come())
    }

    /// The earlier undecided writes for which a write waits that replaces copies: they may yet become some. A fold waits for
    /// all, since it writes the earlier content.
    pub(super) fn undecided_copies_below(&self, ts: Timestamp) -> Vec<Timestamp> {
        let txn = &self.txns[&ts];
        if !self.may_have_copies(txn) || !self.config.waits_for_undecided_copies() {
            return Vec::new();
        }
        let replaces = txn.cells.iter().filter(|cell| cell.folded().next().is_some());
        let earlier = replaces
            .flat_map(Cell::writes)
            .flat_map(|changed| self.admission.earlier_unresolved(ts, changed.sectors));
        let copies = |e: &Timestamp| self.txns.get(e).is_some_and(|txn| is_copy(txn));
        earlier.filter(|e| fold_of(txn).is_some() || copies(e)).collect()
    }

    /// Why a write that is about to be prepared must not be, because of copies on this disk.
    pub(super) fn refused_for_copies(&mut self, ts: Timestamp) -> Option<Refusal> {
        let txn = &self.txns[&ts];
        let is_copy = txn.cells.first().is_some_and(|cell| cell.header.waits.copied);
        if is_copy && !self.may_keep_copies(&txn.cells) {
            return Some(Refusal::MustNotWait);
        }
        if self.store.copied_bytes() == 0 && fold_of(txn).is_none() {
            return None;
        }
        let is_gone = |of| self.config.checks_folds() && !self.has_copies_of(txn, of);
        if fold_of(txn).is_some_and(is_gone) {
            return Some(Refusal::NotCopied);
        }
        let relies = txn.cells.first().is_some_and(|c| c.header.waits.marked_since.is_some());
        if relies && txn.ranges.iter().any(|c| !self.store.copies_in(c.sectors.clone()).is_empty())
        {
            // Parity's disks have them, too, and must hear that they are replaced.
            return Some(Refusal::MarksAreGone);
        }
        let waits = txn.cells.iter().flat_map(|cell| self.copies_cut_by(cell)).collect();
        self.wait_for_folds(waits)
    }

    /// Copies of sectors that a cell writes in part. Their rest would be taken from what they replace.
    fn copies_cut_by(&self, cell: &Cell) -> Vec<Copy> {
        let mut cut: Vec<Copy> = Vec::new();
        for (unit, span) in cell.folded().filter(|(_, span)| *span != span.sectors_out()) {
            let sectors = cell.sectors_of(span.sectors_out());
            let ends = [sectors.start..sectors.start + 1, sectors.end - 1..sectors.end];
            let copies = ends.into_iter().flat_map(|end| self.store.copies_in(end));
            cut.extend(copies.filter(|copy| copy.kept.unit == unit));
        }
        cut
    }

    /// Why a write must not be admitted yet: copies on this disk are folded first.
    pub(super) fn refused_before_admission(&mut self, cells: &[Cell]) -> Option<Refusal> {
        if self.store.copied_bytes() == 0 || !self.config.folds_before_it_shows() {
            return None;
        }
        let mut waits: Vec<Copy> = Vec::new();
        for cell in cells {
            if cell.execution.must_read() {
                waits.extend(self.copies_hidden_from(cell));
            }
            if !cell.writes().any(|changed| self.is_stale(changed.sectors)) {
                waits.extend(self.copies_cut_by(cell));
            }
        }
        self.wait_for_folds(waits)
    }

    /// Why a cell must not show its content, because of copies on this disk: it is for a disk that knows nothing of them.
    pub(super) fn refuses_to_show(&mut self, ts: Timestamp, n: usize) -> Option<Refusal> {
        if self.store.copied_bytes() == 0 || !self.config.folds_before_it_shows() {
            return None;
        }
        let held = self.copies_hidden_from(&self.txns[&ts].cells[n]);
        self.wait_for_folds(held)
    }

    /// Copies of what a cell reads for a disk that knows nothing of them.
    fn copies_hidden_from(&self, cell: &Cell) -> Vec<Copy> {
        let (id, stripe) = (cell.volume_id(), cell.row.stripe);
        let is_missing = match cell.header.task {
            Task::Rebuild { column: seat, .. } => self.map.volumes.get(&id).is_some_and(|volume| {
                self.is_column_behind(id, stripe, volume.geometry.layout.column_at(stripe, seat))
            }),
            Task::Write(_) | Task::Accept(_) => cell
                .columns_of(cell.row.afresh)
                .any(|column| self.is_column_behind(id, stripe, column)),
            // Columns do not move while there are copies.
            Task::Fold { .. } | Task::Refresh { .. } | Task::Lose { .. } | Task::Copy { .. } => {
                false
            }
        };
        if !is_missing || cell.read_ranges().any(|sectors| self.is_stale(sectors)) {
            return Vec::new();
        }
        cell.read_ranges().flat_map(|s| self.store.copies_in(s)).collect()
    }

    /// Why a read must wait: content is solved for, and there are copies of it, or of what it is solved from.
    pub(super) fn refuses_to_solve(&mut self, ts: Timestamp) -> Option<Refusal> {
        let held = self.copies_solved_from(self.reads.get(&ts)?);
        self.wait_for_folds(held)
    }

    /// The same before a read is admitted.
    pub(super) fn refused_to_solve_before_admission(&mut self, job: &ReadJob) -> Option<Refusal> {
        let is_stale = job.parts_where(|range| self.stale_in(range)).is_some();
        let held = if is_stale { Vec::new() } else { self.copies_solved_from(job) };
        self.wait_for_folds(held)
    }

    fn copies_solved_from(&self, job: &ReadJob) -> Vec<Copy> {
        if self.store.copied_bytes() == 0 {
            return Vec::new();
        }
        job.solved_from().iter().flat_map(|s| self.store.copies_in(s.clone())).collect()
    }

    /// Something waits until these are folded.
    fn wait_for_folds(&mut self, copies: Vec<Copy>) -> Option<Refusal> {
        if copies.is_empty() {
            return None;
        }
        self.folding.want(&copies);
        Some(Refusal::Busy)
    }

    /// Whether the copies of this write are the newest content of all sectors of a fold, if this disk can say.
    fn has_copies_of(&self, txn: &Participation, of: Timestamp) -> bool {
        txn.cells.iter().all(|cell| {
            let volume = cell.volume_id();
            let mut folded = cell.folded();
            let Some((unit, span)) = folded.next() else { return true };
            let own = !cell.is_parity();
            let data_column = cell.data_column(unit);
            let data_is_away = avoids(txn, data_column)
                || self.is_column_behind(volume, cell.row.stripe, data_column);
            let sectors = cell.sectors_of(span.sectors_out());
            if self.is_stale(sectors.clone()) || !(own || data_is_away) {
                return true;
            }
            let kept = Kept { unit, volume };
            sectors
                .into_iter()
                .all(|sector| self.store.copied(sector, kept).is_some_and(|copy| copy.0 == of))
        })
    }

    /// Whether the disk of a column has missed something of a stripe's extent.
    fn is_column_behind(&self, volume: VolumeId, stripe: u64, column: usize) -> bool {
        self.map.volumes.get(&volume).is_some_and(|volume| {
            let extent = volume.extent_of(stripe);
            let node = volume.extents[extent].columns[column].0;
            self.map.behind_since(volume, extent, node).is_some()
        })
    }

    /// Reads a cell's sectors for a plan, which sees only the content that parity describes.
    pub(super) fn read_below_copies(&mut self, ts: Timestamp, ticket: u64, range: Range<u64>) {
        let count = range.end - range.start;
        match self.config.sees_what_parity_describes() {
            true => self.store.read(ticket, range.start, count),
            false => self.store.read_newest(ticket, range.start, count, self.txns[&ts].volume),
        }
    }

    /// What a write drops besides what it changes: earlier copies of the data that it puts into parity; and where a disk gets
    /// back what it has missed, the copies that it had before.
    pub(super) fn folds_of(&self, ts: Timestamp) -> Vec<Change> {
        let txn = &self.txns[&ts];
        if !self.may_have_copies(txn) {
            return Vec::new();
        }
        let mut folds = Vec::new();
        let mut add = |sectors: Range<u64>, unit: u8| {
            let data = Buffer::Zero(((sectors.end - sectors.start) * SECTOR) as usize);
            folds.push(Change { sector: sectors.start, kind: ChangeKind::Fold(unit), data });
        };
        for cell in &txn.cells {
            if txn.puts_back() && !txn.accepts() {
                let missed = cell.writes().map(|changed| changed.sectors);
                let missed = missed
                    .filter(|s| self.is_stale(s.clone()) && self.config.drops_missed_copies());
                let copied = missed.filter(|s| !self.store.copies_in(s.clone()).is_empty());
                copied.for_each(|sectors| add(sectors, ChangeKind::EVERY_UNIT));
                continue;
            }
            let is_afresh = cell.is_parity() && !cell.kind().is_delta();
            let drops = self.config.drops_replaced_copies() || !cell.is_parity();
            for (unit, span) in cell.folded().filter(|_| drops) {
                let sectors = cell.sectors_of(span.sectors_out());
                // On the disk of the data there are no others. And one that has missed writes does not know which copies have
                // been folded since.
                let is_all = !cell.is_parity() || (is_afresh && self.is_stale(sectors.clone()));
                add(sectors, if is_all { ChangeKind::EVERY_UNIT } else { unit });
            }
        }
        folds
    }

    /// Copies that do not belong on this disk any more are forgotten.
    pub(super) fn keep_copies_of_volumes(&mut self) {
        // The map may have been recovered from a copy that does not know later volumes.
        let next = self.map.next_volume;
        let all = self.store.copies_after(None, usize::MAX);
        let gone = |copy: &Copy| copy.kept.volume.0 < next && self.place_of_copy(*copy).is_none();
        for copy in all.into_iter().filter(gone).collect::<Vec<_>>() {
            self.store.drop_copy(copy);
        }
    }

    /// Volumes with copies on this disk, or with writes that may become some.
    pub fn copied_volumes(&self) -> Vec<VolumeId> {
        let coming = self.txns.values().filter(|t| is_copy(t)).map(|t| t.volume);
        let held = self.store.copies_after(None, usize::MAX).into_iter().map(|c| c.kept.volume);
        coming.chain(held).collect::<BTreeSet<VolumeId>>().into_iter().collect()
    }

    /// What parity here does not describe, for the authority, when this node stops for a new epoch.
    pub fn say_undescribed(&mut self) -> Undescribed {
        let (copied, refreshing) = (self.copied_volumes(), self.volumes_to_refresh());
        self.folding.is_said(copied.iter().chain(&refreshing).copied().collect());
        Undescribed { exposed: self.may_be_exposed(), refreshing, copied }
    }

    /// The named volumes that the authority may wait for: their columns move, or they have stopped deferring and copying, and a
    /// snapshot waits. Parity of volumes that sleep is not computed.
    pub(super) fn parity_to_report(&self) -> BTreeSet<VolumeId> {
        let is_waited_for = |id: &VolumeId| {
            let volume = self.map.volumes.get(id).filter(|volume| !self.map.is_asleep(volume));
            volume.is_some_and(|v| self.refreshing.moves(*id) || !(v.copies() || v.defers()))
        };
        self.folding.said().iter().copied().filter(is_waited_for).collect()
    }

    /// Whether copies keep room in the journal that their folds need. Those of volumes that sleep are not folded: the journal
    /// carries them.
    pub(super) fn waits_for_folds(&self) -> bool {
        self.store.waits_for_folds() && self.has_copies_to_fold()
    }

    /// Whether there are copies of a volume that does not sleep, or only rests.
    pub(super) fn has_copies_to_fold(&self) -> bool {
        let lacks = |id| self.map.volumes.get(&id).is_some_and(|v| self.map.lacks_nodes(v));
        self.store.copies_after(None, usize::MAX).iter().any(|copy| !lacks(copy.kept.volume))
    }

    /// Reports volumes without copies that can be folded, and without parity that waits and can be computed, if there were any
    /// when this node stopped for this epoch.
    pub(super) fn report_parity_done(&mut self, outbox: &mut Outbox) {
        if self.folding.to_report().is_empty() {
            return;
        }
        let mut left = self.volumes_to_refresh();
        left.extend(self.copied_volumes());
        let is_done = |id: &VolumeId| !left.contains(id);
        let done: Vec<_> = self.folding.to_report().iter().copied().filter(is_done).collect();
        if !done.is_empty() {
            let volumes = self.folding.is_reported(done);
            outbox.report(MemberReport::ParityDone { epoch: self.map.epoch, volumes });
        }
    }
}

/// Whether a write may become a copy.
fn is_copy(txn: &Participation) -> bool {
    let is_decided = matches!(txn.phase, Phase::Committed { .. });
    !is_decided && txn.ranges.iter().any(|changed| changed.kind.is_copy())
}

/// The write whose copies this one folds, if it is a fold.
pub(super) fn fold_of(txn: &Participation) -> Option<Timestamp> {
    match txn.task? {
        Task::Fold { of, .. } => Some(of),
        _ => None,
    }
}

fn avoids(txn: &Participation, column: usize) -> bool {
    txn.cells.first().is_some_and(|cell| cell.header.avoid.contains(column))
}
