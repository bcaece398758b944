//! One account of the deferred parity on all disks (AFRAID 4.1), at the controller.
//!
//! With `roles=central` and `controller` one node carries out all requests of hosts. It alone decides about deferred
//! parity: it keeps the marks, the idle time, the bounds and the MTTDL of a volume as a whole, and has parity computed,
//! one stripe after the other. With `node` and `host` each parity's disk decides (`worker/bounds.rs`, `worker/target.rs`,
//! `worker/refreshing.rs`); the numbers are counted by the same code.
//!
//! The originator asks whether a write may defer ([`Accounts::may_defer`]) and what to compute next
//! ([`Accounts::next`]). It tells what an attempt will mark or compute ([`Accounts::begins`]), that it has happened
//! ([`Accounts::happened`]), and that hosts use the array ([`Accounts::used`]).
//!
//! The record of the marks is on the disks, which are asked for it in each epoch ([`learning`]); until they have
//! answered no parity is deferred. What they miss of the account's decisions they make up for themselves, later.

mod choosing;
mod learning;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::outbox::Outbox;
use super::worker::bounds::{Amount, Part};
use super::worker::exposure::{Exposure, Unit};
use super::worker::load::Load;
use super::worker::target::Target;
use super::{Exposed, NodeConfig};
use crate::cluster::{Area, ClusterMap, Volume};
use crate::layout::ColumnRole;
use crate::plan::{Range, Role, Span, WritePlan};
use crate::policy::{Start, Timing};
use crate::store::{ChangeKind, Changed};
use crate::units::{ColumnSet, MILLIS, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

pub(super) use learning::LEARNS;

/// How long the computation of a unit takes, until one was seen.
const USUALLY_TAKES: Nanos = 100 * MILLIS;

/// A unit: its volume, stripe and seat.
type Place = (VolumeId, u64, usize);

/// The accounts of the volumes that this node controls.
#[derive(Clone, Hash)]
pub(super) struct Accounts {
    config: NodeConfig,
    of: BTreeMap<VolumeId, Account>,
    load: Load,
    /// The unit that is being computed, and since when.
    current: Option<(Place, Nanos)>,
    /// The longest time that the computation of a unit took lately.
    takes: Nanos,
    /// Until when the rate of background work allows none.
    paused_until: Nanos,
    /// Volumes whose columns move, or are to, also such as this node does not control: their parity may not wait.
    pub moving: BTreeSet<VolumeId>,
}

/// The account of a volume. In [`Exposure`] the sectors of its parity are numbered by [`number`].
#[derive(Clone, Hash)]
struct Account {
    volume: Arc<Volume>,
    exposure: Exposure,
    target: Option<Target>,
    /// Enough idle time was seen.
    has_started: bool,
    /// The disks that have yet to list their marks, and the byte of the volume from which on.
    to_learn: BTreeMap<NodeId, u64>,
    /// When they were last asked.
    asked: Nanos,
    /// What attempts in progress will mark or compute.
    coming: BTreeMap<Timestamp, Vec<Changed>>,
    /// The stripe after the one that was computed last.
    next_stripe: u64,
    /// Units that could not be computed, and since when. They are tried again after a while.
    set_aside: BTreeMap<(u64, usize), Nanos>,
    /// Stripes that must become redundant: of their marks those up to that time.
    wanted: Vec<(std::ops::Range<u64>, Nanos)>,
}

/// The number of a sector of parity `j` of a stripe.
fn number(volume: &Volume, stripe: u64, j: usize, sector: u64) -> u64 {
    let parities = volume.geometry.code.parity_columns() as u64;
    (stripe * parities + j as u64) * volume.unit_sectors() + sector
}

/// The unit of parity with this number.
fn unit_at(volume: &Volume, number: u64) -> Option<Unit> {
    let (parities, sectors) = (volume.geometry.code.parity_columns() as u64, volume.unit_sectors());
    let unit = number / sectors;
    let (stripe, j) = (unit / parities, (unit % parities) as usize);
    let first = unit * sectors;
    (stripe < volume.stripes()).then(|| Unit {
        volume: volume.id,
        area: volume.area_of(stripe),
        stripe,
        sectors: first..first + sectors,
        covers: Some(volume.geometry.code.support(j).len() as u64),
    })
}

impl Accounts {
    pub fn new(config: NodeConfig) -> Accounts {
        let (of, load) = (BTreeMap::new(), Load::default());
        let (takes, moving) = (USUALLY_TAKES, BTreeSet::new());
        Accounts { config, of, load, current: None, takes, paused_until: 0, moving }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// A new epoch. The measurements stay, and the disks are asked for their marks.
    pub fn enter(&mut self, map: &ClusterMap, outbox: &mut Outbox) {
        let now = outbox.now;
        let is_here = map.server() == Some(outbox.node());
        let kept = |v: &&Arc<Volume>| is_here && v.has_one_account();
        let mut before = std::mem::take(&mut self.of);
        (self.current, self.paused_until) = (None, 0);
        self.moving = map.moving();
        for volume in map.volumes.values().filter(kept) {
            let mut account = Account::new(volume, before.remove(&volume.id), now);
            account.to_learn = learning::whom(volume, map);
            account.ask(outbox);
            self.of.insert(volume.id, account);
        }
        if !self.of.is_empty() {
            self.load.begins(now);
        }
    }

    /// A host's request has begun, or is over.
    pub fn used(&mut self, now: Nanos) {
        self.load.host_part(now);
    }

    /// Whether a write to these bytes may defer these parities. Nothing speaks against it where all of them are marked
    /// there already. Else it may not while the target is not met or a request waits for redundancy, and not beyond
    /// twice a bound.
    pub fn may_defer(
        &mut self,
        volume: &Volume,
        range: Range,
        parities: ColumnSet,
        now: Nanos,
    ) -> bool {
        let current = self.current.map(|(place, _)| place).filter(|place| place.0 == volume.id);
        let (load, takes) = (&self.load, self.takes);
        match self.of.get_mut(&volume.id) {
            Some(account) => {
                account.keep_reserve(takes);
                account.may_defer((range, parities), current.map(|c| c.1), load, now)
            }
            // Nobody but the controller decides.
            None => !volume.has_one_account(),
        }
    }

    /// Whether no parity of these bytes is deferred anyway, by the target: then a write to them need not be cut.
    pub fn is_closed(&self, volume: &Volume, range: Range) -> bool {
        let Some(account) = self.of.get(&volume.id) else { return false };
        let coming = |stripe: u64| {
            let marks = account.coming.values().flatten().filter(|c| c.kind.is_mark());
            let mut units = marks.filter_map(|c| unit_at(&account.volume, c.sectors.start));
            units.any(|unit| unit.stripe == stripe)
        };
        account.target.as_ref().is_some_and(Target::is_closed)
            && !range.stripes(&volume.geometry).any(|s| account.is_marked(s) || coming(s))
    }

    /// An attempt begins. If it happens, it marks or computes parity.
    pub fn begins(&mut self, ts: Timestamp, volume: VolumeId, plan: &WritePlan) {
        let Some(account) = self.of.get_mut(&volume) else { return };
        let changes = changes(&account.volume, plan);
        if !changes.is_empty() {
            account.coming.insert(ts, changes);
        }
    }

    /// Only these attempts are still in progress.
    pub fn keep_coming(&mut self, volume: VolumeId, is_open: impl Fn(Timestamp) -> bool) {
        if let Some(account) = self.of.get_mut(&volume) {
            account.coming.retain(|ts, _| is_open(*ts));
        }
    }

    /// An attempt has happened.
    pub fn happened(&mut self, ts: Timestamp, volume: VolumeId, now: Nanos) {
        let Some(account) = self.of.get_mut(&volume) else { return };
        for changed in account.coming.remove(&ts).unwrap_or_default() {
            account.changed(ts, &changed, now);
        }
    }

    /// The computation of a unit has ended. If it was in vain, it is tried again after a while.
    pub fn ended(&mut self, place: Place, good: bool, now: Nanos) {
        if let Some((_, since)) = self.current.filter(|current| current.0 == place) {
            self.current = None;
            self.takes = now.saturating_sub(since).max(self.takes - self.takes / 16);
            if let Some(account) = self.of.get_mut(&place.0).filter(|_| !good) {
                account.set_aside.insert((place.1, place.2), now);
            }
        }
    }

    /// It is known that a part of a unit cannot be computed.
    pub fn give_up(&mut self, (id, stripe, seat, part): (VolumeId, u64, usize, Span)) {
        let Some(account) = self.of.get_mut(&id) else { return };
        let ColumnRole::Parity(j) = account.volume.geometry.layout.role(stripe, seat) else {
            return;
        };
        let first = number(&account.volume, stripe, j, 0);
        if let Some(unit) = unit_at(&account.volume, first) {
            let sectors = first + part.lo / SECTOR..first + part.hi.div_ceil(SECTOR);
            account.exposure.give_up(&unit, sectors);
        }
    }

    /// A request waits until a range is redundant.
    pub fn wants(&mut self, volume: VolumeId, range: Range, now: Nanos) {
        if let Some(account) = self.of.get_mut(&volume) {
            let stripes = range.stripes(&account.volume.geometry);
            account.wanted.push((stripes, now));
        }
    }

    /// The exposure of a volume, now and so far.
    pub fn exposed(&self, volume: VolumeId, now: Nanos) -> Option<Exposed> {
        let account = self.of.get(&volume)?;
        account.exposure.of(volume).map(|tally| tally.so_far(now))
    }

    /// Checks the counts.
    pub fn check(&self) {
        self.of.values().for_each(|account| account.exposure.check());
    }
}

/// What a plan does to parity.
fn changes(volume: &Volume, plan: &WritePlan) -> Vec<Changed> {
    let g = &volume.geometry;
    let mut changes = Vec::new();
    for row in &plan.rows {
        for j in 0..g.code.parity_columns() {
            let cell = row.cell(g, Role::Column(g.layout.parity_seat(row.stripe, j)));
            let kind = match () {
                () if cell.adds() => continue,
                () if cell.marks() => ChangeKind::Mark,
                () => ChangeKind::Content,
            };
            let first = number(volume, row.stripe, j, 0);
            let sectors = |s: Span| first + s.lo / SECTOR..first + s.hi / SECTOR;
            let spans = cell.writes().iter().map(sectors);
            changes.extend(spans.map(|sectors| Changed { sectors, kind }));
        }
    }
    changes
}

impl Account {
    fn new(volume: &Arc<Volume>, before: Option<Account>, now: Nanos) -> Account {
        let mut exposure = Exposure::default();
        let id = volume.id;
        if let Some(before) = &before {
            exposure.measured_before(before.exposure.all(now));
        }
        let areas = volume.areas().into_iter().map(|a| a.area).filter(|a| *a != Area::Whole);
        let all: Vec<Area> = [Area::Whole].into_iter().chain(areas).collect();
        exposure.keep(all.into_iter().map(|area| (id, area)), now);
        let known = before.as_ref().and_then(|b| b.target.as_ref());
        Account {
            volume: volume.clone(),
            exposure,
            target: Target::of(volume, 1.0).map(|target| target.or_known(known)),
            has_started: before.is_some_and(|b| b.has_started),
            to_learn: BTreeMap::new(),
            asked: now,
            coming: BTreeMap::new(),
            next_stripe: 0,
            set_aside: BTreeMap::new(),
            wanted: Vec::new(),
        }
    }

    fn changed(&mut self, ts: Timestamp, changed: &Changed, now: Nanos) {
        let volume = &self.volume;
        self.exposure.changed(ts, changed, now, |number| unit_at(volume, number));
    }

    /// See [`Accounts::may_defer`]. `current` is a stripe whose parity is being computed: its marks will be gone.
    fn may_defer(
        &mut self,
        (range, parities): (Range, ColumnSet),
        current: Option<u64>,
        load: &Load,
        now: Nanos,
    ) -> bool {
        let stripes = range.stripes(&self.volume.geometry);
        let bounds = *self.volume.redundancy_at(stripes.start);
        if bounds.timing == Timing::Never {
            return true;
        }
        if !self.to_learn.is_empty() {
            return false;
        }
        let area = self.volume.area_of(stripes.start).unwrap_or(Area::Whole);
        let coming = self.coming_in(area);
        let (new_stripes, new_bytes) = self.added_by(range, parities, current, &coming.1);
        if new_stripes == 0 && new_bytes == 0 {
            return true;
        }
        let meets = |w: &std::ops::Range<u64>| w.start < stripes.end && stripes.start < w.end;
        if self.wanted.iter().any(|w| meets(&w.0)) {
            return false;
        }
        // In a stripe that is exposed anyway more of it costs no time.
        if new_stripes > 0
            && !(self.has_started(load, now) && self.target_allows(load.burst(now), now))
        {
            return false;
        }
        let (stripes, bytes) = self.exposed_in(area);
        let twice = |bound: u64| Part::All.of(bound.saturating_mul(2));
        let all = (stripes + coming.1.len() as u64 + new_stripes, bytes + coming.0 + new_bytes);
        (new_stripes == 0 || all.0 <= twice(bounds.exposed_stripes))
            && (new_bytes == 0 || all.1 <= twice(bounds.exposed_bytes))
    }

    /// The exposure of an area that can be computed.
    fn exposed_in(&self, area: Area) -> Amount {
        self.exposure.in_area(self.volume.id, area).map_or((0, 0), |tally| tally.recoverable())
    }

    fn is_marked(&self, stripe: u64) -> bool {
        let tally = self.exposure.of(self.volume.id);
        tally.is_some_and(|t| t.stripes(stripe).next() == Some(stripe))
    }

    /// The further exposure of an area by attempts in progress: bytes, and stripes.
    fn coming_in(&self, area: Area) -> (u64, BTreeSet<u64>) {
        let (mut bytes, mut stripes) = (0, BTreeSet::new());
        let marks = self.coming.values().flatten().filter(|c| c.kind.is_mark());
        for sectors in marks.map(|c| &c.sectors) {
            let Some(unit) = unit_at(&self.volume, sectors.start) else { continue };
            if area != Area::Whole && unit.area != Some(area) {
                continue;
            }
            let marked = self.exposure.marked_since(sectors.clone()).count() as u64;
            bytes += (sectors.end - sectors.start - marked) * unit.covers.unwrap_or(0) * SECTOR;
            if !self.is_marked(unit.stripe) {
                stripes.insert(unit.stripe);
            }
        }
        (bytes, stripes)
    }

    /// The stripes and bytes that a write to these bytes would expose that are not exposed yet, at most.
    fn added_by(
        &self,
        range: Range,
        parities: ColumnSet,
        current: Option<u64>,
        coming: &BTreeSet<u64>,
    ) -> Amount {
        let g = &self.volume.geometry;
        let (mut stripes, mut bytes) = (0, 0);
        for stripe in range.stripes(g) {
            let first = stripe * g.stripe_bytes();
            let (lo, hi) = (range.offset.max(first), range.end().min(first + g.stripe_bytes()));
            let (from, to) = (lo - first, hi - first);
            let (one, last) = (from / g.unit, (to - 1) / g.unit);
            let sectors = match one == last {
                true => from % g.unit / SECTOR..(to - last * g.unit).div_ceil(SECTOR),
                false => 0..g.unit / SECTOR,
            };
            let reached =
                |j: &usize| g.code.support(*j).iter().any(|i| (one..=last).contains(&(i as u64)));
            let is_new = current == Some(stripe);
            for j in parities.iter().filter(reached) {
                let unit = number(&self.volume, stripe, j, 0);
                let its = unit + sectors.start..unit + sectors.end;
                let marked = match is_new {
                    true => 0,
                    false => self.exposure.marked_since(its.clone()).count() as u64,
                };
                let covers = g.code.support(j).len() as u64;
                bytes += (its.end - its.start - marked) * covers * SECTOR;
            }
            stripes += u64::from(is_new || !(self.is_marked(stripe) || coming.contains(&stripe)));
        }
        (stripes, bytes)
    }

    /// What the computation of all that is exposed, and of one unit more, takes is kept in reserve.
    fn keep_reserve(&mut self, takes: Nanos) {
        let stripes = self.exposure.now(self.volume.id).0 + self.coming.len() as u64 + 1;
        if let Some(target) = &mut self.target {
            target.keep_reserve(takes.saturating_mul(stripes));
        }
    }

    fn target_allows(&mut self, burst: Nanos, now: Nanos) -> bool {
        let so_far = self.exposure.of(self.volume.id).map(|tally| tally.so_far(now));
        let Some(target) = &mut self.target else { return true };
        so_far.is_some_and(|so_far| target.is_open(&so_far, burst))
    }

    /// Whether enough idle time was seen to defer parity. Once it was enough, it stays so.
    fn has_started(&mut self, load: &Load, now: Nanos) -> bool {
        let watched = now.saturating_sub(load.began().unwrap_or(now));
        self.has_started |= self.volume.policy.redundancy.start == Start::Eager
            || Target::has_enough_idle(self.target.as_ref(), watched, load.idle(now));
        self.has_started
    }
}
