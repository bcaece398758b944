//! Copies of small writes that no parity describes yet (`redundancy=copied`), and their folds.
//!
//! The disk of the data and all disks with parity that covers it keep new content beside the old
//! (`store/copies.rs`). A *fold* writes it in place and into parity: an ordinary write of the content that is there already, by
//! this node's originator. So the old content fits parity at all times, and all that computes anything from it goes on as
//! without copies. Where content and copies could be taken for one another, the copies are folded first:
//!
//! - a write of part of a sector, whose rest is in a copy;
//! - a read that is solved for, of data that has a copy, or from such data;
//! - a rebuild of a column whose disk has missed something: the disk knows nothing of the copies, or has copies that were
//!   folded since;
//! - a column that is copied from another disk.
//!
//! Who folds: the disk of the data, when it is idle, when the copies are old, when they take much of the journal, and at once
//! if a disk of their stripes is away. If that is the disk of the data, the first disk with parity that covers it. Every
//! write that parity takes in drops the earlier copies of the same data.
//!
//! When copies have taken as much of the journal as they may, the disk takes no more until hosts have paused.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Buffer;
use crate::layout::ColumnRole;
use crate::node::{HostError, MemberReport};
use crate::plan::Range as Bytes;
use crate::policy::Redundancy;
use crate::store::{ChangeKind, Copy, Kept};
use crate::units::MILLIS;

/// Most folds at a time, and while there is no hurry.
const MOST_FOLDS: usize = 16;
const FEW_FOLDS: usize = 8;
/// Copies are folded when they are this old, whatever else there is to do.
const OLD: Nanos = 30_000 * MILLIS;
/// A fold that has failed, or not ended, is asked for again after this time.
const ASKED_FOR: Nanos = 2_000 * MILLIS;
/// Where a disk is full no fold is asked for during this time, and twice as long each time; then one is, to see. Each that fails
/// takes room in journals, which copies keep from being freed.
const FULL_PAUSE: Nanos = 500 * MILLIS;
const LONGEST_FULL_PAUSE: Nanos = 64_000 * MILLIS;
/// This many copies are listed at a time.
const LOOKED_AT: usize = 512;
/// The time between two looks at the copies, and while there is a hurry.
const PAUSE: Nanos = 20 * MILLIS;
const SHORT_PAUSE: Nanos = MILLIS;

/// A fold for the originator: the bytes of the volume, their content, and the write that was copied.
#[derive(Clone, Debug, Hash)]
pub(in crate::node) struct FoldOf {
    pub range: Bytes,
    pub data: Buffer,
    pub of: Timestamp,
    pub kept: Kept,
}

/// A fold that has ended, and how.
#[derive(Clone, Debug, Hash)]
pub(in crate::node) struct FoldEnd {
    pub of: Timestamp,
    pub kept: Kept,
    pub result: Result<(), HostError>,
}

/// The folds of a worker.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Folding {
    /// Since when those are in progress, by the first copy.
    asked: BTreeMap<Copy, Nanos>,
    to_ask: Vec<FoldOf>,
    /// Sectors in which something waits for folds.
    wanted: BTreeSet<u64>,
    /// When copies are looked at again, unless something waits.
    next_look: Nanos,
    /// The longest pause of hosts since copies last took as much of the journal as they may.
    longest_pause: Option<Nanos>,
    /// A disk had no space for a fold: until when none is asked for, and how long that is.
    full: Option<(Nanos, Nanos)>,
    /// Whether there were copies when this epoch began, and the authority has not been told that none is left.
    had_some: bool,
}

/// Where a copy belongs by the map.
struct Placed {
    volume: Arc<Volume>,
    stripe: u64,
    /// Bytes of the unit before the sector.
    within: u64,
    /// Whether this is the disk of the data, or was.
    is_own: bool,
}

impl Worker {
    /// Why a write must not begin: this disk may not keep its copies, or folds need the room in the journal first.
    pub(super) fn refused_at_once_for_copies(&self, header: &Header) -> Option<Refusal> {
        if header.waits.copied && !self.may_keep_copies(&self.txns[&header.ts].cells) {
            return Some(Refusal::MustNotWait);
        }
        let is_hosts = matches!(header.task, Task::Write(_));
        (is_hosts && self.store.waits_for_folds()).then_some(Refusal::Busy)
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
        // A fold costs as much as the write, so under steady load copies would only cost.
        let lasts = |pause: Nanos| cells.iter().any(|cell| pause < idle(cell.redundancy()));
        if self.folding.longest_pause.is_some_and(lasts) {
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
        let mut waits: Vec<Copy> = Vec::new();
        for cell in &txn.cells {
            for (unit, span) in cell.folded() {
                let cut = cell.sectors_of(span.sectors_out());
                // The rest of the sectors at its ends.
                let ends = [cut.start..cut.start + 1, cut.end - 1..cut.end];
                if span != span.sectors_out() {
                    let copies = ends.into_iter().flat_map(|end| self.store.copies_in(end));
                    waits.extend(copies.filter(|copy| copy.kept.unit == unit));
                }
            }
        }
        self.wait_for_folds(waits)
    }

    /// Why a cell must not show its content, because of copies on this disk: it is for a disk that knows nothing of them.
    pub(super) fn refuses_to_show(&mut self, ts: Timestamp, n: usize) -> Option<Refusal> {
        if self.store.copied_bytes() == 0 || !self.config.folds_before_it_shows() {
            return None;
        }
        let cell = &self.txns[&ts].cells[n];
        let (id, stripe) = (cell.volume_id(), cell.row.stripe);
        let is_missing = match cell.header.task {
            Task::Rebuild { column: seat, .. } => {
                let volume = self.map.volumes.get(&id)?;
                self.is_column_behind(id, stripe, volume.geometry.layout.column_at(stripe, seat))
            }
            Task::Write(_) | Task::Accept(_) => cell
                .columns_of(cell.row.afresh)
                .any(|column| self.is_column_behind(id, stripe, column)),
            // Columns do not move while there are copies.
            Task::Fold { .. } | Task::Refresh { .. } | Task::Lose { .. } | Task::Copy { .. } => {
                false
            }
        };
        if !is_missing || cell.read_ranges().any(|sectors| self.is_stale(sectors)) {
            return None;
        }
        let held = cell.read_ranges().flat_map(|s| self.store.copies_in(s)).collect();
        self.wait_for_folds(held)
    }

    /// Why a read must wait: content is solved for, and there are copies of it, or of what it is solved from.
    pub(super) fn refuses_to_solve(&mut self, ts: Timestamp) -> Option<Refusal> {
        let solved_from = self.reads.get(&ts)?.solved_from();
        if solved_from.is_empty() || self.store.copied_bytes() == 0 {
            return None;
        }
        let held = solved_from.iter().flat_map(|s| self.store.copies_in(s.clone())).collect();
        self.wait_for_folds(held)
    }

    /// Something waits until these are folded.
    fn wait_for_folds(&mut self, copies: Vec<Copy>) -> Option<Refusal> {
        if copies.is_empty() {
            return None;
        }
        self.folding.wanted.extend(copies.iter().map(|copy| copy.sector));
        self.folding.next_look = 0;
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

    /// Asks for the folds that are due.
    pub(super) fn ask_folds(&mut self, outbox: &mut Outbox) {
        let now = outbox.now;
        if self.store.copied_bytes() == 0 {
            return self.folding.nothing_is_copied();
        }
        let is_pressed = self.store.copies_are_due();
        if is_pressed {
            self.folding.longest_pause = Some(0);
        }
        self.make_room_for_folds(outbox);
        if now < self.folding.next_look() {
            return;
        }
        self.folding.next_look = now + if is_pressed { SHORT_PAUSE } else { PAUSE };
        self.folding.asked.retain(|_, since| now.saturating_sub(*since) < ASKED_FOR);
        let quiet = self.load.quiet_since(now);
        let old = Timestamp::reading(now.saturating_sub(OLD), NodeId(0));
        let mut after = None;
        loop {
            let copies = self.store.copies_after(after, LOOKED_AT);
            let is_last = copies.len() < LOOKED_AT;
            after = copies.last().copied();
            for run in runs_of(copies) {
                let first = run[0];
                let wanted = run.iter().any(|copy| self.folding.wanted.contains(&copy.sector));
                let Some(placed) = self.place_of_copy(first) else { continue };
                let in_hurry = wanted || is_pressed || !self.may_stay(&placed);
                let is_idle = quiet >= idle(placed.volume.redundancy_at(placed.stripe));
                let is_due = in_hurry || is_idle || first.ts < old;
                let most = match (self.folding.full, in_hurry) {
                    (Some(_), _) => 1,
                    (None, true) => MOST_FOLDS,
                    (None, false) => FEW_FOLDS,
                };
                if is_due
                    && self.folding.asked.len() < most
                    && self.leads(&placed, first, is_pressed || wanted)
                {
                    self.ask_fold(&placed, &run, now);
                }
            }
            if is_last || self.folding.asked.len() >= MOST_FOLDS {
                return;
            }
        }
    }

    /// Hosts' writes that wait for room in the journal do not wait before the folds that free it.
    fn make_room_for_folds(&mut self, outbox: &mut Outbox) {
        if !self.store.waits_for_folds() {
            return;
        }
        let waits = |ts: &Timestamp, t: &Participation| {
            t.phase == Phase::Preparing && fold_of(t).is_none() && self.store.waits_for_room(*ts)
        };
        let waiting = self.txns.iter().filter(|(ts, t)| waits(ts, t)).map(|(ts, _)| *ts);
        for ts in waiting.collect::<Vec<_>>() {
            self.refuse(ts, Refusal::Busy, outbox);
        }
    }

    /// Where a copy belongs; nothing if that is not on this disk any more.
    fn place_of_copy(&self, copy: Copy) -> Option<Placed> {
        let volume = self.map.volumes.get(&copy.kept.volume)?;
        let (stripe, seat, within) = volume.stripe_at(self.node, copy.sector)?;
        volume.seats_on(self.node, stripe).find(|s| *s == seat)?;
        let (g, unit) = (&volume.geometry, usize::from(copy.kept.unit));
        let is_own = match g.layout.role(stripe, seat) {
            ColumnRole::Data(i) if i == unit => true,
            ColumnRole::Parity(j) if g.code.support(j).contains(unit) => false,
            ColumnRole::Data(_) | ColumnRole::Parity(_) => return None,
        };
        Some(Placed { volume: volume.clone(), stripe, within: within * SECTOR, is_own })
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

    /// Whether copies may stay for now: the volume has them, no column of it is to move, and all disks of the stripe are there and
    /// have missed nothing.
    fn may_stay(&self, placed: &Placed) -> bool {
        let (volume, extent) = (&placed.volume, placed.volume.extent_of(placed.stripe));
        let columns = &volume.extents[extent].columns;
        volume.redundancy_at(placed.stripe).copies()
            && self.map.may_copy_writes()
            && self.map.lost(volume, extent).is_empty()
            && !columns.iter().any(|c| self.map.behind_since(volume, extent, c.0).is_some())
    }

    /// Volumes with copies on this disk, or with writes that may become some.
    pub fn copied_volumes(&self) -> Vec<VolumeId> {
        let coming = self.txns.values().filter(|t| is_copy(t)).map(|t| t.volume);
        let held = self.store.copies_after(None, usize::MAX).into_iter().map(|c| c.kept.volume);
        coming.chain(held).collect::<BTreeSet<VolumeId>>().into_iter().collect()
    }

    /// Reports that no copies are left, if there were some when this epoch began.
    pub(super) fn report_folded(&mut self, outbox: &mut Outbox) {
        if self.folding.had_some && self.copied_volumes().is_empty() {
            self.folding.had_some = false;
            outbox.report(MemberReport::Folded { epoch: self.map.epoch });
        }
    }

    /// Whether this node folds a copy.
    fn leads(&self, placed: &Placed, copy: Copy, is_awaited: bool) -> bool {
        let (volume, stripe) = (&placed.volume, placed.stripe);
        let (g, extent) = (&volume.geometry, volume.extent_of(stripe));
        let lost = self.map.lost(volume, extent);
        let is_sound = |column: usize| {
            let node = volume.extents[extent].columns[column].0;
            !lost.contains(column) && self.map.behind_since(volume, extent, node).is_none()
        };
        let is_known = !self.is_stale(copy.sector..copy.sector + 1);
        if !is_known || self.map.is_asleep(volume) {
            return false;
        }
        if placed.is_own || is_awaited {
            return true;
        }
        let unit = usize::from(copy.kept.unit);
        let data = g.layout.column_at(stripe, g.layout.data_column(stripe, unit));
        if is_sound(data) {
            return false;
        }
        let parities = g.code.parities_of(unit);
        let columns =
            parities.iter().map(|j| g.layout.column_at(stripe, g.layout.parity_seat(stripe, j)));
        let first = columns.into_iter().find(|column| is_sound(*column));
        first.is_some_and(|column| volume.extents[extent].columns[column].0 == self.node)
    }

    /// Asks for the fold of copies of one write in sectors that follow one another.
    fn ask_fold(&mut self, placed: &Placed, run: &[Copy], now: Nanos) {
        let (first, g) = (run[0], &placed.volume.geometry);
        if self.folding.asked.contains_key(&first) {
            return;
        }
        let left = (g.unit - placed.within) / SECTOR;
        let run = &run[..run.len().min(left as usize)];
        let content =
            run.iter().filter_map(|copy| Some(self.store.copied(copy.sector, copy.kept)?.1));
        let data = Buffer::joined(&content.collect::<Vec<_>>());
        let offset =
            placed.stripe * g.stripe_bytes() + u64::from(first.kept.unit) * g.unit + placed.within;
        let range = Bytes { offset, len: data.len() as u64 };
        self.folding.asked.insert(first, now);
        let fold = FoldOf { range, data, of: first.ts, kept: first.kept };
        self.folding.to_ask.push(fold);
    }

    /// The folds that the originator is asked for.
    pub fn take_folds(&mut self) -> Vec<FoldOf> {
        std::mem::take(&mut self.folding.to_ask)
    }

    /// A fold has ended.
    pub fn fold_ended(&mut self, end: FoldEnd, now: Nanos) {
        let folding = &mut self.folding;
        match end.result {
            Ok(()) => folding.full = None,
            Err(HostError::NoSpace) => folding.wait_for_space(now),
            // It is asked for again later.
            Err(_) => return,
        }
        folding.next_look = 0;
        folding.asked.retain(|copy, _| (copy.ts, copy.kept) != (end.of, end.kept));
    }
}

impl Folding {
    fn nothing_is_copied(&mut self) {
        self.asked.clear();
        self.wanted.clear();
    }

    /// A disk has no space for a fold: the next waits.
    fn wait_for_space(&mut self, now: Nanos) {
        // Others were on their way.
        if self.full.is_some_and(|(until, _)| now < until) {
            return;
        }
        let pause = self.full.map_or(FULL_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_FULL_PAUSE));
        self.full = Some((now + pause, pause));
    }

    /// Hosts begin again after a pause.
    pub fn paused(&mut self, pause: Nanos) {
        self.longest_pause = self.longest_pause.map(|longest| longest.max(pause));
    }

    /// Whether it has folds to ask for.
    pub fn has_to_ask(&self) -> bool {
        !self.to_ask.is_empty()
    }

    /// When it looks at it again.
    pub fn next_look(&self) -> Nanos {
        self.full.map_or(self.next_look, |(until, _)| self.next_look.max(until))
    }

    /// A new epoch: work in progress begins again.
    pub fn enter(&mut self, had_some: bool) {
        let longest_pause = self.longest_pause;
        *self = Folding { had_some, longest_pause, ..Folding::default() };
    }
}

/// For how long no host has used a disk that counts as idle. A fold is soon over, unlike the parity of a whole unit.
fn idle(redundancy: &Redundancy) -> Nanos {
    redundancy.idle / 10
}

/// Whether a write may become a copy.
fn is_copy(txn: &Participation) -> bool {
    let is_decided = matches!(txn.phase, Phase::Committed { .. });
    !is_decided && txn.ranges.iter().any(|changed| changed.kind.is_copy())
}

/// The write whose copies this one folds, if it is a fold.
fn fold_of(txn: &Participation) -> Option<Timestamp> {
    match txn.task? {
        Task::Fold { of, .. } => Some(of),
        _ => None,
    }
}

fn avoids(txn: &Participation, column: usize) -> bool {
    txn.cells.first().is_some_and(|cell| cell.header.avoid.contains(column))
}

/// Copies of one write and unit in sectors that follow one another, together.
fn runs_of(copies: Vec<Copy>) -> Vec<Vec<Copy>> {
    let mut runs: Vec<Vec<Copy>> = Vec::new();
    for copy in copies {
        let follows = |last: &Copy| {
            (last.ts, last.kept, last.sector + 1) == (copy.ts, copy.kept, copy.sector)
        };
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(follows) => run.push(copy),
            _ => runs.push(vec![copy]),
        }
    }
    runs
}
