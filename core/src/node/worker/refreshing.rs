//! Computes deferred parity (AFRAID 2). Parity on this disk is due while the disk is idle, or hosts give way to it, or
//! a bound is reached, or a range must be made redundant. `exposure.rs` knows the marks. The parity is rebuilt like
//! content that a disk has missed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::reading::{NotThere, not_there};
use super::{Cell, Participation, Phase, Rebuild, Ticket, Worker};
use crate::cluster::{Area, Extent, Stripes, Volume};
use crate::node::background::{Background, Loop};
use crate::node::outbox::Outbox;
use crate::node::{Body, Refusal};
use crate::plan::{self, Span};
use crate::policy::{Redundancy, Refresh, Timing};
use crate::store::Scan;
use crate::units::{MILLIS, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

/// The parity of a disk that is being computed, and that is due.
#[derive(Clone, Default, Hash)]
pub(super) struct Refreshing {
    /// Whether the disk has been searched for marks since it was opened.
    search: Search,
    /// Units that are being computed, or could not be, and since when. They are requested again after a while.
    asked: BTreeMap<Place, Nanos>,
    /// When it was last checked which of them have ended.
    looked: Nanos,
    /// The units to request.
    to_ask: Vec<Rebuild>,
    /// Units that are due, and left to other nodes to compute with theirs, and since when. If those do not, this node
    /// requests them itself.
    left_to_others: BTreeMap<Place, Nanos>,
    /// Ranges that must become redundant, and the requests that wait for this.
    wanted: Vec<Wanted>,
    /// Volumes whose columns move, or are to: their parity may not wait.
    moving: BTreeSet<VolumeId>,
}

/// How long due parity is left to other nodes.
const LEFT_FOR: Nanos = 50 * MILLIS;

/// Parity that the controller has not had computed is due in idle time after this many times a node's patience.
const MISSED_AFTER: Nanos = 30;

/// A unit: its volume, stripe and seat.
type Place = (VolumeId, u64, usize);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Search {
    #[default]
    ToBegin,
    UnderWay,
    Done,
}

/// A range that must become redundant. No parity in it is deferred meanwhile.
#[derive(Clone, Hash)]
struct Wanted {
    to: NodeId,
    id: u64,
    volume: VolumeId,
    stripes: Range<u64>,
    /// Marks up to this time must be computed.
    by: Nanos,
    /// A write to it in progress may still mark something, which counts as marked by then.
    is_open: bool,
}

/// Which of a volume's parity is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// All of it, in this loop.
    All(Loop),
    /// Only parity marked by then, whatever other work there is.
    MarkedBy(Nanos),
}

impl Refreshing {
    /// The request for a unit has ended.
    pub fn is_over(&mut self, unit: Place) {
        self.asked.remove(&unit);
    }

    /// Whether anything must be requested.
    pub fn has_to_ask(&self) -> bool {
        !self.to_ask.is_empty()
    }

    /// No parity is deferred any more: all requests are done, whichever node did them.
    fn nothing_is_exposed(&mut self) {
        if !(self.asked.is_empty() && self.left_to_others.is_empty()) {
            self.asked.clear();
            self.left_to_others.clear();
        }
    }

    /// A unit is being computed, by whichever node's request.
    pub fn is_led(&mut self, unit: Place, now: Nanos) {
        self.asked.insert(unit, now);
    }

    /// When to check units that were left to other nodes.
    pub fn looks_after_others(&self) -> Option<Nanos> {
        self.left_to_others.values().map(|since| since.saturating_add(LEFT_FOR)).min()
    }

    /// Whether columns of a volume move, or are to.
    pub fn moves(&self, id: VolumeId) -> bool {
        self.moving.contains(&id)
    }

    /// The node enters an epoch with these volumes whose columns move: everything is requested again.
    pub fn enter(&mut self, moving: BTreeSet<VolumeId>) {
        self.moving = moving;
        self.asked.clear();
        self.left_to_others.clear();
        self.wanted.clear();
    }
}

impl Worker {
    /// When the disk is open and the node is in an epoch, the disk is searched for marks.
    pub(super) fn search_marks(&mut self) {
        if self.refreshing.search != Search::ToBegin {
            return;
        }
        if self.store.data_sectors() == 0 {
            self.refreshing.search = Search::Done;
            return;
        }
        self.refreshing.search = Search::UnderWay;
        let (ticket, all) = (self.tickets.issue(Ticket::Marks), self.store.end());
        self.store.scan(ticket, 0, all, Scan::Marked);
    }

    pub(super) fn marks_found(&mut self, found: Vec<(u64, Timestamp)>, now: Nanos) {
        self.refreshing.search = Search::Done;
        let mut exposure = std::mem::take(&mut self.exposure);
        exposure.found(found, now, |sector| self.unit_at(sector));
        self.exposure = exposure;
        self.stalled.wake();
    }

    /// Whether the disk is being searched for marks.
    pub(super) fn is_searched_for_marks(&self) -> bool {
        self.refreshing.search == Search::UnderWay
    }

    /// Whether it is known which sectors of the disk are marked.
    pub(super) fn knows_marks(&self) -> bool {
        self.refreshing.search == Search::Done
    }

    /// Whether the marks of a write's parity are still unknown.
    pub(super) fn must_know_marks(&self, ts: Timestamp) -> bool {
        let changes = |c: &Cell| c.writes().any(|w| w.kind.is_delta());
        let txn = &self.txns[&ts];
        !self.knows_marks() && (txn.accepts() || txn.cells.iter().any(changes))
    }

    /// Volumes with marked parity on this disk; all volumes on it until the marks are known.
    pub fn may_be_exposed(&self) -> Vec<VolumeId> {
        let marked = |v: &&Arc<Volume>| {
            let here = || v.extents.iter().any(|e| e.column_of(self.node).is_some());
            let counted = self.exposure.of(v.id).is_some_and(|t| t.oldest().is_some());
            counted || (!self.knows_marks() && here())
        };
        self.map.volumes.values().filter(marked).map(|v| v.id).collect()
    }

    /// Volumes whose parity waits on this disk and can be computed, or with writes that may mark some; all volumes on it until
    /// the marks are known.
    pub fn volumes_to_refresh(&self) -> Vec<VolumeId> {
        let marking: BTreeSet<VolumeId> =
            self.txns.values().filter(|txn| may_mark(txn)).map(|txn| txn.volume).collect();
        let waits = |v: &&Arc<Volume>| self.waits_here(v) || marking.contains(&v.id);
        self.map.volumes.values().filter(waits).map(|v| v.id).collect()
    }

    /// Whether parity of a volume waits on this disk and can be computed, or may.
    fn waits_here(&self, volume: &Volume) -> bool {
        let here = || volume.extents.iter().any(|e| e.column_of(self.node).is_some());
        match self.knows_marks() {
            true => self.exposure.of(volume.id).is_some_and(|tally| tally.recoverable().0 > 0),
            false => here(),
        }
    }

    /// Whether this disk has deferred parity that is due without a request.
    pub(super) fn has_to_refresh(&self) -> bool {
        let waits =
            |v: &Volume, a: &Stripes| a.redundancy.timing != Timing::Never || self.needs_parity(v);
        let hopes = |v: &Volume, a: &Stripes| {
            a.runs.iter().any(|run| self.recoverable(v, (run.start, 0), run.end).is_some())
        };
        !self.exposure.is_empty()
            && self.map.volumes.values().filter(|v| !self.map.is_asleep(v)).any(|v| {
                self.exposure.of(v.id).is_some_and(|t| t.oldest().is_some())
                    && v.areas().iter().any(|area| waits(v, area) && hopes(v, area))
            })
    }

    /// Whether parity here may not wait: a disk of its stripes is expected to fail, or columns are to move.
    fn needs_parity(&self, volume: &Volume) -> bool {
        let here = || volume.extents.iter().filter(|e| e.column_of(self.node).is_some());
        let is_suspect = |e: &Extent| self.map.has_suspect(volume, e.first..e.first + 1);
        self.refreshing.moves(volume.id) || (self.config.heeds_suspects() && here().any(is_suspect))
    }

    /// Whether a write may defer the parity of these stripes. With immediate parity it may only if the parity cannot be
    /// computed, and then it must. Otherwise it may not if a request waits for their redundancy. Nor may it if it would
    /// mark more sectors (`adds`) that could be computed while marks already exceed twice a bound. Nor may it if the
    /// MTTDL so far is below the target, or a disk may fail soon, or columns are to move, unless the parity cannot be
    /// computed (`must`).
    pub(super) fn may_wait(
        &mut self,
        volume: &Volume,
        (ts, stripes): (Timestamp, Range<u64>),
        adds: bool,
        must: bool,
        now: Nanos,
    ) -> bool {
        let redundancy = *volume.redundancy_at(stripes.start);
        let (timing, area) = (redundancy.timing, volume.area_of(stripes.start));
        if matches!(timing, Timing::Immediate | Timing::Copied) {
            return true;
        }
        let is_needed = self.refreshing.moves(volume.id)
            || (self.config.heeds_suspects() && self.map.has_suspect(volume, stripes.clone()));
        if is_needed && !must {
            return false;
        }
        let never = timing == Timing::Never;
        // Of a volume with a controller that node has looked at bounds and target.
        let is_decided = volume.has_one_account();
        let is_time = |w: &mut Worker| {
            is_decided || (w.has_started(volume, now) && w.target_allows(volume.id, now))
        };
        if !(must || never || is_time(self)) {
            return false;
        }
        let meets = |w: &Wanted| {
            w.volume == volume.id && w.stripes.start < stripes.end && stripes.start < w.stripes.end
        };
        !self.refreshing.wanted.iter().any(meets)
            && (!adds
                || never
                || is_decided
                || !self.would_exceed(ts, volume, area.unwrap_or(Area::Whole), &redundancy))
    }

    /// The due parity of an area.
    fn due(&mut self, volume: &Volume, area: &Stripes, now: Nanos) -> Due {
        let redundancy = &area.redundancy;
        let for_target = self.is_due_for_target(volume, now);
        if self.needs_parity(volume) {
            return Due::All(Loop::RefreshFirst);
        }
        match (redundancy.timing, redundancy.refresh) {
            (Timing::Never, _) => return Due::Nothing,
            (Timing::Immediate | Timing::Copied, _) | (_, Refresh::Busy) => {
                return Due::All(Loop::Refresh);
            }
            (_, Refresh::First) => return Due::All(Loop::RefreshFirst),
            (Timing::Deferred, Refresh::Idle) => {}
        }
        if volume.has_one_account() {
            return self.due_without_account(redundancy, now);
        }
        if for_target || self.exceeds(volume, area.area, redundancy) {
            return Due::All(Loop::RefreshFirst);
        }
        if self.load.quiet_since(now) >= redundancy.idle {
            return Due::All(Loop::Refresh);
        }
        match now.checked_sub(redundancy.exposed_for) {
            Some(by) => Due::MarkedBy(by),
            None => Due::Nothing,
        }
    }

    /// The due parity of a volume whose controller has it computed: only what that node does not seem to know.
    fn due_without_account(&self, redundancy: &Redundancy, now: Nanos) -> Due {
        let is_idle = self.load.quiet_since(now) >= redundancy.idle;
        let missed = now.checked_sub(self.config.patience * MISSED_AFTER).filter(|_| is_idle);
        let old = now.checked_sub(redundancy.exposed_for.saturating_mul(2));
        missed.max(old).map_or(Due::Nothing, Due::MarkedBy)
    }

    /// Requests the due parity.
    pub(super) fn ask_refresh(&mut self, background: &mut Background, now: Nanos) {
        if self.exposure.is_empty() {
            self.note_redundant(now);
            return self.refreshing.nothing_is_exposed();
        }
        self.forget_asked(now);
        for wanted in self.refreshing.wanted.clone() {
            if let Some(volume) = self.map.volumes.get(&wanted.volume).cloned() {
                self.ask_units(&volume, wanted.stripes, Loop::RefreshFirst, background, now);
            }
        }
        for volume in self.map.volumes.values().cloned().collect::<Vec<_>>() {
            if self.map.is_asleep(&volume) {
                continue;
            }
            for area in volume.areas() {
                match self.due(&volume, &area, now) {
                    Due::Nothing => {}
                    Due::All(which) => {
                        for run in area.runs {
                            self.ask_units(&volume, run, which, background, now);
                        }
                    }
                    Due::MarkedBy(by) => self.ask_old(&volume, &area, by, background, now),
                }
            }
        }
    }

    /// The requests since the last call.
    pub fn take_refreshes(&mut self) -> Vec<Rebuild> {
        std::mem::take(&mut self.refreshing.to_ask)
    }

    /// The request for a unit is done. If the unit was marked again meanwhile, it is requested again.
    pub fn is_put_back(&mut self, unit: (VolumeId, u64, usize)) {
        self.refreshing.is_over(unit);
    }

    /// Units that have been computed, or were requested long ago, are no longer in progress. They are searched only
    /// when there may be some, because this is called after every input.
    fn forget_asked(&mut self, now: Nanos) {
        let is_time = now.saturating_sub(self.refreshing.looked) >= self.config.patience / 8;
        if !self.exposure.has_shrunk() && !is_time {
            return;
        }
        self.refreshing.looked = now;
        let mut asked = std::mem::take(&mut self.refreshing.asked);
        asked.retain(|&(id, stripe, seat), since| {
            let volume = self.map.volumes.get(&id);
            now.saturating_sub(*since) < self.config.patience
                && volume.is_some_and(|v| self.marked_of(v, stripe, seat).is_some())
        });
        self.refreshing.asked = asked;
        let mut left = std::mem::take(&mut self.refreshing.left_to_others);
        left.retain(|&(id, stripe, seat), _| {
            let volume = self.map.volumes.get(&id);
            volume.is_some_and(|v| self.marked_of(v, stripe, seat).is_some())
        });
        self.refreshing.left_to_others = left;
    }

    /// Whether a unit of parity is left to another node for now: the node with the first of the parities that are
    /// computed together leads.
    fn is_left_to_another(&mut self, volume: &Volume, unit: &Marked, now: Nanos) -> bool {
        let g = &volume.geometry;
        let mut together = plan::refreshed_together(g, &volume.policy_at(unit.stripe))
            .iter()
            .map(|j| g.layout.parity_seat(unit.stripe, j));
        let leads = together.next() == Some(unit.seat);
        if leads || !together.any(|seat| seat == unit.seat) {
            return false;
        }
        let place = (volume.id, unit.stripe, unit.seat);
        let since = *self.refreshing.left_to_others.entry(place).or_insert(now);
        now.saturating_sub(since) < LEFT_FOR
    }

    /// Requests the marked sectors of some stripes, as many as may be in progress.
    fn ask_units(
        &mut self,
        volume: &Volume,
        stripes: Range<u64>,
        which: Loop,
        background: &mut Background,
        now: Nanos,
    ) {
        let most = background.most(which, now);
        // A controller has it computed, one unit after the other, unless it does not know of it.
        let marked_by = match volume.has_one_account() {
            true => now.checked_sub(self.config.patience),
            false => Some(now),
        };
        let (mut from, mut left) = ((stripes.start, 0), 0);
        while self.refreshing.asked.len() + left < most
            && let Some(unit) = self.recoverable(volume, from, stripes.end)
        {
            from = unit.next();
            let key = (volume.id, unit.stripe, unit.seat);
            if self.refreshing.asked.contains_key(&key) || Some(unit.since) > marked_by {
                continue;
            }
            if self.is_left_to_another(volume, &unit, now) {
                left += 1;
                continue;
            }
            if !background.begin(which, unit.part.len(), now) {
                return;
            }
            self.refreshing.asked.insert(key, now);
            self.refreshing.to_ask.push((volume.id, unit.stripe, unit.seat, unit.part));
        }
    }

    /// Requests the sectors of an area marked by then, if the oldest mark is that old.
    fn ask_old(
        &mut self,
        volume: &Volume,
        area: &Stripes,
        by: Nanos,
        background: &mut Background,
        now: Nanos,
    ) {
        let oldest = self.exposure.in_area(volume.id, area.area).and_then(|t| t.oldest());
        if oldest.is_none_or(|oldest| oldest > by) {
            return;
        }
        let mut oldest = now;
        for run in &area.runs {
            let mut from = (run.start, 0);
            while let Some(unit) = self.recoverable(volume, from, run.end) {
                from = unit.next();
                if unit.since <= by {
                    let one = unit.stripe..unit.stripe + 1;
                    self.ask_units(volume, one, Loop::RefreshFirst, background, now);
                }
                oldest = oldest.min(unit.since);
            }
        }
        self.exposure.oldest_is((volume.id, area.area), oldest);
    }

    /// The first unit from this stripe and seat on, before stripe `end`, with marked parity here that can be computed,
    /// as far as known.
    fn recoverable(&self, volume: &Volume, from: (u64, usize), end: u64) -> Option<Marked> {
        let tally = self.exposure.of(volume.id)?;
        let exposed = tally.stripes(from.0).take_while(|stripe| *stripe < end);
        let seats = |stripe| volume.seats_on(self.node, stripe).map(move |seat| (stripe, seat));
        let units = exposed.flat_map(seats).filter(|unit| *unit >= from);
        units.filter_map(|(stripe, seat)| self.marked_of(volume, stripe, seat)).next()
    }

    /// The marked sectors of a unit on this disk that are known to be computable.
    fn marked_of(&self, volume: &Volume, stripe: u64, seat: usize) -> Option<Marked> {
        volume.seats_on(self.node, stripe).find(|s| *s == seat)?;
        let first = volume.sector(stripe, seat);
        let (lo, hi, since) = self.exposure.recoverable(first..first + volume.unit_sectors())?;
        let part = Span::new((lo - first) * SECTOR, (hi + 1 - first) * SECTOR);
        Some(Marked { stripe, seat, part, since })
    }

    /// The marked part of the parity that a write would change: there the change has no base. This is checked before
    /// the write begins and again before it is prepared, because a mark may have come between.
    pub(super) fn marked_part(&self, cell: &Cell) -> Option<(u64, Span)> {
        let mut changes = cell.writes().filter(|c| c.kind.is_delta());
        let marked = changes.find_map(|c| self.exposure.marked_in(c.sectors))?;
        Some((cell.row.stripe, cell.span_of(marked)))
    }

    /// Why a write may not be prepared, if parity is marked where it would change it.
    pub(super) fn refused_for_marks(&self, ts: Timestamp) -> Option<Refusal> {
        let marked = |c: &Cell| Some((c.seat, self.marked_part(c)?));
        let (seat, part) = self.txns[&ts].cells.iter().find_map(marked)?;
        Some(not_there(seat, vec![part], NotThere::Marked))
    }

    /// A request to make a range redundant.
    pub fn on_refresh(
        &mut self,
        from: NodeId,
        id: u64,
        volume: VolumeId,
        range: plan::Range,
        outbox: &mut Outbox,
    ) {
        let Some(geometry) = self.map.volumes.get(&volume).map(|v| &v.geometry) else {
            return outbox.send(from, Body::Refreshed { id, left: 0 });
        };
        let (stripes, by) = (range.stripes(geometry), outbox.now);
        if !self.refreshing.wanted.iter().any(|w| (w.to, w.id) == (from, id)) {
            let is_open = false;
            self.refreshing.wanted.push(Wanted { to: from, id, volume, stripes, by, is_open });
        }
        outbox.want_soon();
    }

    /// Answers the requests whose ranges are redundant.
    pub(super) fn answer_refreshed(&mut self, outbox: &mut Outbox) {
        if self.refreshing.wanted.is_empty() {
            return;
        }
        for mut wanted in std::mem::take(&mut self.refreshing.wanted) {
            match self.left_of(&mut wanted, outbox.now) {
                Some(left) => outbox.send(wanted.to, Body::Refreshed { id: wanted.id, left }),
                None => self.refreshing.wanted.push(wanted),
            }
        }
    }

    /// The part of a range that cannot be made redundant; nothing while work on it continues.
    fn left_of(&self, wanted: &mut Wanted, now: Nanos) -> Option<u64> {
        let Some(volume) = self.map.volumes.get(&wanted.volume) else { return Some(0) };
        if self.refreshing.search != Search::Done {
            return None;
        }
        // A write in progress may still mark something.
        let is_open = self.txns.values().any(|t| {
            t.volume == wanted.volume
                && t.ranges.iter().any(|r| {
                    let stripe = volume.stripe_at(self.node, r.sectors.start).map(|at| at.0);
                    r.kind.is_mark() && stripe.is_none_or(|s| wanted.stripes.contains(&s))
                })
        });
        if is_open {
            wanted.is_open = true;
            return None;
        }
        if std::mem::take(&mut wanted.is_open) {
            wanted.by = now;
        }
        let Some(tally) = self.exposure.of(wanted.volume) else { return Some(0) };
        let mut left = 0;
        for stripe in tally.stripes(wanted.stripes.start) {
            if stripe >= wanted.stripes.end {
                break;
            }
            let whole = self.map.lost(volume, volume.extent_of(stripe)).is_empty();
            for seat in volume.seats_on(self.node, stripe) {
                match self.marked_of(volume, stripe, seat) {
                    Some(unit) if unit.since <= wanted.by && whole => return None,
                    Some(unit) => left += unit.part.len() / SECTOR,
                    None => {
                        let first = volume.sector(stripe, seat);
                        left +=
                            self.exposure.unrecoverable_in(first..first + volume.unit_sectors());
                    }
                }
            }
        }
        Some(left)
    }
}

/// A unit with marked sectors that can be computed: its bytes, and the time of the oldest mark.
struct Marked {
    stripe: u64,
    seat: usize,
    part: Span,
    since: Nanos,
}

impl Marked {
    /// The next stripe and seat.
    fn next(&self) -> (u64, usize) {
        (self.stripe, self.seat + 1)
    }
}

/// Whether an undecided write would mark parity. One in work may still be prepared before the next epoch begins.
fn may_mark(txn: &Participation) -> bool {
    let is_decided = matches!(txn.phase, Phase::Committed { .. });
    !is_decided && txn.ranges.iter().any(|changed| changed.kind.is_mark())
}
