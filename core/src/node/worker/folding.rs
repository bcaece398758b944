//! The folds of a disk's [copies](super::copies): which are due, who asks for them, and what comes of them.
//!
//! Who folds: the disk of the data, when it is idle, when the copies are old, when they take much of the journal, and at once
//! if a disk of their stripes is away. If that is the disk of the data, the first disk with parity that covers it. Every
//! write that parity takes in drops the earlier copies of the same data.
//!
//! When copies have taken as much of the journal as they may, the disk takes no more until hosts have paused.

use std::collections::{BTreeMap, BTreeSet};

use super::copies::fold_of;
use super::*;
use crate::Buffer;
use crate::layout::ColumnRole;
use crate::node::HostError;
use crate::plan::Range as Bytes;
use crate::policy::Redundancy;
use crate::store::{Copy, Kept};
use crate::units::MILLIS;

/// Most folds at a time, and while there is no hurry.
const MOST_FOLDS: usize = 16;
const FEW_FOLDS: usize = 8;
/// Copies are folded when they are this old, whatever else there is to do.
const OLD: Nanos = 30_000 * MILLIS;
/// This part of a volume's `idle` is a pause under steady load: copies are folded in it, and taken again after it.
const PAUSES: Nanos = 10;
/// A fold that has failed is asked for again after this time. One that takes longer does not keep others from being asked for.
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

/// A fold, or a piece of one, that has ended, and how.
#[derive(Clone, Debug, Hash)]
pub(in crate::node) struct FoldEnd {
    pub range: Bytes,
    pub of: Timestamp,
    pub kept: Kept,
    pub result: Result<Folded, HostError>,
}

/// How a fold has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::node) enum Folded {
    /// The copies are in place and in parity.
    InPlace,
    /// There are no copies of this write any more: a later one has replaced them, or they had been folded.
    Gone,
}

/// A fold that was asked for.
#[derive(Clone, Debug, Hash)]
struct Asked {
    range: Bytes,
    /// Bytes whose fold has not ended: the originator may fold them in pieces.
    left: u64,
    /// When it was asked for, or failed.
    since: Nanos,
}

/// The folds of a worker.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Folding {
    /// Those in progress, and those that have failed lately, by the first copy. The originator goes on with them whatever
    /// happens, so each is asked for once: of two one would keep the other from happening.
    asked: BTreeMap<Copy, Asked>,
    to_ask: Vec<FoldOf>,
    /// Sectors in which something waits for folds.
    wanted: BTreeSet<u64>,
    /// When copies are looked at again, unless something waits.
    next_look: Nanos,
    /// The longest pause of hosts since copies last took as much of the journal as they may.
    longest_pause: Option<Nanos>,
    /// A disk had no space for a fold: until when none is asked for, and how long that is.
    full: Option<(Nanos, Nanos)>,
    /// The volumes with copies, or with parity that waits, when this node last stopped for a new epoch.
    said: Vec<VolumeId>,
    /// Volumes among them that the authority may wait for, and those that were reported to it in this epoch.
    to_report: BTreeSet<VolumeId>,
    reported: Vec<VolumeId>,
}

/// Where a copy belongs by the map.
pub(super) struct Placed {
    volume: Arc<Volume>,
    stripe: u64,
    /// Bytes of the unit before the sector.
    within: u64,
    /// Whether this is the disk of the data, or was.
    is_own: bool,
}

impl Worker {
    /// Asks for the folds that are due.
    pub(super) fn ask_folds(&mut self, outbox: &mut Outbox) {
        let now = outbox.now;
        if self.store.copied_bytes() == 0 {
            return self.folding.nothing_is_copied();
        }
        let is_pressed = self.store.copies_are_due() && self.has_copies_to_fold();
        if is_pressed {
            self.folding.is_pressed();
        }
        self.make_room_for_folds(outbox);
        if now < self.folding.next_look() {
            return;
        }
        self.folding.next_look = now + if is_pressed { SHORT_PAUSE } else { PAUSE };
        self.folding.forget_failed(now);
        let quiet = self.load.quiet_since(now);
        let old = Timestamp::reading(now.saturating_sub(OLD), NodeId(0));
        let (mut after, mut wanted_there) = (None, BTreeSet::new());
        loop {
            let copies = self.store.copies_after(after, LOOKED_AT);
            let is_last = copies.len() < LOOKED_AT;
            after = copies.last().copied();
            for run in runs_of(copies) {
                let first = run[0];
                let sectors = run.iter().map(|copy| copy.sector);
                let waited = sectors.filter(|s| self.folding.wanted.contains(s));
                let before = wanted_there.len();
                wanted_there.extend(waited);
                let wanted = wanted_there.len() > before;
                let Some(placed) = self.place_of_copy(first) else { continue };
                let in_hurry = wanted || is_pressed || !self.may_stay(&placed);
                let is_idle =
                    quiet >= self.folding.pause(placed.volume.redundancy_at(placed.stripe));
                let is_due = in_hurry || is_idle || first.ts < old;
                let most = match (self.folding.full, in_hurry) {
                    (Some(_), _) => 1,
                    (None, true) => MOST_FOLDS,
                    (None, false) => FEW_FOLDS,
                };
                if is_due
                    && self.folding.in_progress(now) < most
                    && self.leads(&placed, first, (wanted, is_pressed))
                {
                    self.ask_fold(&placed, &run, now);
                }
            }
            if is_last {
                self.folding.wanted = wanted_there;
                return;
            }
            if self.folding.in_progress(now) >= MOST_FOLDS {
                return;
            }
        }
    }

    /// Hosts' writes that wait for room in the journal do not wait before the folds that free it.
    fn make_room_for_folds(&mut self, outbox: &mut Outbox) {
        if !self.waits_for_folds() {
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
    pub(super) fn place_of_copy(&self, copy: Copy) -> Option<Placed> {
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

    /// Whether copies may stay for now: the volume has them, no column of it is to move, and all disks of the stripe are there and
    /// have missed nothing.
    fn may_stay(&self, placed: &Placed) -> bool {
        let (volume, extent) = (&placed.volume, placed.volume.extent_of(placed.stripe));
        let columns = &volume.extents[extent].columns;
        volume.redundancy_at(placed.stripe).copies()
            && !self.refreshing.moves(volume.id)
            && self.map.lost(volume, extent).is_empty()
            && !columns.iter().any(|c| self.map.behind_since(volume, extent, c.0).is_some())
    }

    /// Whether this node folds a copy: something waits for it (`wanted`), or copies take much of the journal (`pressed`), or it is
    /// this node's turn. Of a volume that rests only needed copies are folded, since that wakes it.
    fn leads(&self, placed: &Placed, copy: Copy, (wanted, pressed): (bool, bool)) -> bool {
        let (volume, stripe) = (&placed.volume, placed.stripe);
        let (g, extent) = (&volume.geometry, volume.extent_of(stripe));
        let lost = self.map.lost(volume, extent);
        let is_sound = |column: usize| {
            let node = volume.extents[extent].columns[column].0;
            !lost.contains(column) && self.map.behind_since(volume, extent, node).is_none()
        };
        let is_known = !self.is_stale(copy.sector..copy.sector + 1);
        let wakes = || self.map.rests(volume) && (wanted || self.store.waits_for_folds());
        if !is_known || (self.map.is_asleep(volume) && !wakes()) {
            return false;
        }
        if placed.is_own || wanted || pressed {
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
        let fold = FoldOf { range, data, of: first.ts, kept: first.kept };
        self.folding.ask(first, fold, now);
    }

    /// The folds that the originator is asked for.
    pub fn take_folds(&mut self) -> Vec<FoldOf> {
        std::mem::take(&mut self.folding.to_ask)
    }

    /// A fold has ended.
    pub fn fold_ended(&mut self, end: FoldEnd, now: Nanos) {
        self.folding.ended(end, now);
    }
}

impl Folding {
    fn nothing_is_copied(&mut self) {
        self.asked.clear();
        self.wanted.clear();
    }

    /// Something waits until these are folded.
    pub fn want(&mut self, copies: &[Copy]) {
        self.wanted.extend(copies.iter().map(|copy| copy.sector));
        self.next_look = 0;
    }

    /// Whether no copies are taken for now: they had taken as much of the journal as they may, and hosts have not paused since. A
    /// fold costs as much as the write, so under steady load copies would only cost.
    pub fn rests(&self, redundancy: &Redundancy) -> bool {
        self.longest_pause.is_some_and(|pause| pause < redundancy.idle / PAUSES)
    }

    /// For how long no host has used a disk before its copies are folded. Where they took as much of the journal as they may, all
    /// pauses are short that the load leaves, until one is as long as `idle`.
    fn pause(&self, redundancy: &Redundancy) -> Nanos {
        match self.longest_pause {
            Some(pause) if pause < redundancy.idle => redundancy.idle / PAUSES,
            _ => redundancy.idle,
        }
    }

    /// Copies have taken as much of the journal as they may.
    fn is_pressed(&mut self) {
        self.longest_pause = Some(0);
    }

    /// The node stops for a new epoch, and names volumes with parity to compute. Writes that wait for the journal are
    /// dropped when it enters.
    pub fn is_said(&mut self, volumes: Vec<VolumeId>) {
        self.said = volumes;
    }

    /// The volumes that it has named.
    pub fn said(&self) -> &[VolumeId] {
        &self.said
    }

    /// Volumes that the authority may wait for.
    pub fn to_report(&self) -> &BTreeSet<VolumeId> {
        &self.to_report
    }

    /// All parity of these is computed. Returns all that have been reported in this epoch.
    pub fn is_reported(&mut self, done: Vec<VolumeId>) -> Vec<VolumeId> {
        self.to_report.retain(|id| !done.contains(id));
        self.reported.extend(done);
        self.reported.clone()
    }

    /// The originator will be asked for a fold, whose first copy this is.
    fn ask(&mut self, first: Copy, fold: FoldOf, now: Nanos) {
        let asked = Asked { range: fold.range, left: fold.range.len, since: now };
        self.asked.insert(first, asked);
        self.to_ask.push(fold);
    }

    /// A fold has ended, or a piece of it.
    fn ended(&mut self, end: FoldEnd, now: Nanos) {
        match end.result {
            Ok(Folded::InPlace) => self.full = None,
            Err(HostError::NoSpace) => self.wait_for_space(now),
            // Nothing was written, so a full disk may be full still.
            Ok(Folded::Gone) | Err(_) => {}
        }
        let waits = !matches!(end.result, Ok(_) | Err(HostError::NoSpace));
        let range = end.range;
        let is_it = |(copy, asked): &(&Copy, &mut Asked)| {
            (copy.ts, copy.kept) == (end.of, end.kept)
                && asked.range.offset <= range.offset
                && range.end() <= asked.range.end()
        };
        let Some((copy, asked)) = self.asked.iter_mut().find(is_it) else { return };
        asked.left = asked.left.saturating_sub(range.len);
        if waits {
            asked.since = now;
        } else if asked.left == 0 {
            let copy = *copy;
            self.asked.remove(&copy);
            self.next_look = 0;
        }
    }

    /// Folds that failed some time ago are asked for again.
    fn forget_failed(&mut self, now: Nanos) {
        let is_recent = |asked: &Asked| now.saturating_sub(asked.since) < ASKED_FOR;
        self.asked.retain(|_, asked| asked.left > 0 || is_recent(asked));
    }

    /// How many folds are in progress, without those that wait for something.
    fn in_progress(&self, now: Nanos) -> usize {
        let is_recent = |asked: &&Asked| now.saturating_sub(asked.since) < ASKED_FOR;
        self.asked.values().filter(is_recent).count()
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

    /// A new epoch: copies are looked at again.
    pub fn enter(&mut self, to_report: BTreeSet<VolumeId>) {
        self.wanted.clear();
        (self.to_report, self.reported) = (to_report, Vec::new());
        (self.next_look, self.full) = (0, None);
    }
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

#[cfg(test)]
mod tests;
