//! Which parity is computed next. It is one unit at a time, or the units of a stripe that are computed together: hosts
//! that come back wait for no more than that.

use std::ops::Range;

use super::{Account, Accounts, Part, Place, number};
use crate::cluster::{ClusterMap, Stripes};
use crate::node::NodeConfig;
use crate::node::background::{Background, Loop};
use crate::plan::{self, Span};
use crate::policy::{Redundancy, Refresh, Timing};
use crate::units::{MILLIS, Nanos, SECTOR, VolumeId};

/// Time until the next look whether the rate of background work allows more.
const PAUSE: Nanos = 10 * MILLIS;

/// A unit to compute: its volume, stripe and seat, and the bytes of it.
pub(in crate::node) type ToCompute = (VolumeId, u64, usize, Span);

/// What of a volume's parity is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    All(Loop),
    /// Parity marked by then.
    MarkedBy(Nanos),
}

impl Accounts {
    /// The parity to compute next, if some is due and none is being computed. `is_busy` says whether hosts' requests are
    /// in progress, and `is_in_work` whether a unit is being computed.
    pub fn next(
        &mut self,
        map: &ClusterMap,
        is_busy: bool,
        is_in_work: impl Fn(Place) -> bool,
        background: &mut Background,
        now: Nanos,
    ) -> Option<ToCompute> {
        if let Some((place, since)) = self.current {
            if is_in_work(place) && now.saturating_sub(since) < self.config.patience {
                return None;
            }
            self.ended(place, false, now);
        }
        if now < self.paused_until {
            return None;
        }
        let (config, load, takes) = (self.config, &self.load, self.takes);
        let moving = &self.moving;
        let quiet = if is_busy { 0 } else { load.quiet_since(now) };
        let mut accounts = self.of.values_mut().filter(|a| !map.is_asleep(&a.volume));
        let (which, unit) = accounts.find_map(|a| {
            let all = 0..a.volume.stripes();
            let suspects = || config.heeds_suspects() && map.has_suspect(&a.volume, all);
            let is_needed = moving.contains(&a.volume.id) || suspects();
            a.next(&config, is_needed, (quiet, takes), now)
        })?;
        if !background.begin(which, unit.3.len(), now) {
            self.paused_until = now + PAUSE;
            return None;
        }
        let (id, stripe, seat, _) = unit;
        self.current = Some(((id, stripe, seat), now));
        if let Some(account) = self.of.get_mut(&id) {
            account.next_stripe = stripe + 1;
        }
        Some(unit)
    }

    /// When some parity becomes due by time alone, if that is later.
    pub fn next_look(&self, is_busy: bool, now: Nanos) -> Option<Nanos> {
        if self.current.is_some() {
            return None;
        }
        let quiet_since = (!is_busy).then(|| self.load.last_part());
        let patience = self.config.patience;
        let of = |a: &Account| a.next_look(quiet_since, patience, now);
        let paused = Some(self.paused_until);
        self.of.values().filter_map(of).chain(paused).filter(|at| *at > now).min()
    }
}

impl Account {
    fn next(
        &mut self,
        config: &NodeConfig,
        is_needed: bool,
        (quiet, takes): (Nanos, Nanos),
        now: Nanos,
    ) -> Option<(Loop, ToCompute)> {
        self.forget_wanted();
        self.keep_reserve(takes);
        let is_for_target = self.is_due_for_target(now);
        if !self.to_learn.is_empty() || self.exposure.is_empty() {
            return None;
        }
        let patience = config.patience;
        self.set_aside.retain(|_, since| now.saturating_sub(*since) < patience);
        for (stripes, by) in self.wanted.clone() {
            if let Some(unit) = self.first(&stripes, by) {
                return Some((Loop::RefreshFirst, unit));
            }
        }
        for area in self.volume.areas() {
            let due = match is_needed {
                true => Due::All(Loop::RefreshFirst),
                false => self.due(&area, is_for_target, quiet, now),
            };
            let (which, by) = match due {
                Due::Nothing => continue,
                Due::All(which) => (which, now),
                Due::MarkedBy(by) => (Loop::RefreshFirst, by),
            };
            if due != Due::All(which) && !self.has_old(&area, by) {
                continue;
            }
            if let Some(unit) = area.runs.iter().find_map(|run| self.first(run, by)) {
                return Some((which, unit));
            }
            if let Due::MarkedBy(_) = due {
                self.oldest_is_later(&area, now);
            }
        }
        None
    }

    /// What of an area is due.
    fn due(&self, area: &Stripes, is_for_target: bool, quiet: Nanos, now: Nanos) -> Due {
        let redundancy: &Redundancy = &area.redundancy;
        match (redundancy.timing, redundancy.refresh) {
            (Timing::Never, _) => return Due::Nothing,
            (Timing::Immediate | Timing::Copied, _) | (_, Refresh::Busy) => {
                return Due::All(Loop::Refresh);
            }
            (_, Refresh::First) => return Due::All(Loop::RefreshFirst),
            (Timing::Deferred, Refresh::Idle) => {}
        }
        if is_for_target || Part::All.is_used_up(self.exposed_in(area.area), redundancy, 1) {
            return Due::All(Loop::RefreshFirst);
        }
        if quiet >= redundancy.idle {
            return Due::All(Loop::Refresh);
        }
        match now.checked_sub(redundancy.exposed_for) {
            Some(by) => Due::MarkedBy(by),
            None => Due::Nothing,
        }
    }

    /// Whether marked parity must be computed under any load, because of the target (AFRAID 4.1): "when more than 20
    /// stripes are unprotected".
    fn is_due_for_target(&mut self, now: Nanos) -> bool {
        let so_far = self.exposure.of(self.volume.id).map(|tally| tally.so_far(now));
        let (Some(target), Some(so_far)) = (&mut self.target, so_far) else { return false };
        target.look(&so_far, now) || so_far.stripes > Redundancy::STRIPES_AT_TARGET
    }

    fn has_old(&self, area: &Stripes, by: Nanos) -> bool {
        let tally = self.exposure.in_area(self.volume.id, area.area);
        tally.and_then(|t| t.oldest()).is_some_and(|oldest| oldest <= by)
    }

    /// None of an area's marks is old, though one was thought to be.
    fn oldest_is_later(&mut self, area: &Stripes, now: Nanos) {
        let marked = area.runs.iter().flat_map(|run| self.units(run.clone()));
        let oldest = marked.map(|(_, since)| since).min().unwrap_or(now);
        self.exposure.oldest_is((self.volume.id, area.area), oldest);
    }

    /// Requests whose stripes are redundant no longer wait.
    fn forget_wanted(&mut self) {
        if self.wanted.is_empty() || !self.to_learn.is_empty() {
            return;
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.retain(|(stripes, by)| self.first(stripes, *by).is_some());
        self.wanted = wanted;
    }

    /// The first marked unit of some stripes, beginning behind the one computed last, with a mark of that time or before.
    fn first(&self, stripes: &Range<u64>, by: Nanos) -> Option<ToCompute> {
        let from = self.next_stripe.clamp(stripes.start, stripes.end);
        let in_turn = self.units(from..stripes.end).chain(self.units(stripes.start..from));
        let mut due = in_turn.filter(|(_, since)| *since <= by).map(|(unit, _)| unit);
        due.find(|unit| !self.set_aside.contains_key(&(unit.1, unit.2)))
    }

    /// The marked units of some stripes that can be computed, and the times of their oldest marks. Of parities that are
    /// computed together it is the unit of the first, if that is marked: where it was computed alone, since they could not
    /// be computed together, the others are, too.
    fn units(&self, stripes: Range<u64>) -> impl Iterator<Item = (ToCompute, Nanos)> + '_ {
        let tally = self.exposure.of(self.volume.id);
        let exposed = tally.into_iter().flat_map(move |t| t.stripes(stripes.start));
        exposed.take_while(move |s| *s < stripes.end).flat_map(|stripe| self.units_of(stripe))
    }

    pub(super) fn units_of(&self, stripe: u64) -> Vec<(ToCompute, Nanos)> {
        let volume = &self.volume;
        let g = &volume.geometry;
        let together = plan::refreshed_together(g, &volume.policy_at(stripe));
        let mut units: Vec<(ToCompute, Nanos)> = Vec::new();
        for j in 0..g.code.parity_columns() {
            let first = number(volume, stripe, j, 0);
            let its = self.exposure.recoverable(first..first + volume.unit_sectors());
            let Some((lo, hi, since)) = its else { continue };
            let part = Span::new((lo - first) * SECTOR, (hi + 1 - first) * SECTOR);
            let leader = together.iter().next().filter(|_| together.contains(j));
            let leads = leader.map(|leader| g.layout.parity_seat(stripe, leader));
            match units.iter_mut().find(|u| Some(u.0.2) == leads) {
                // It is the first's part: of a part that cannot be computed as a whole the first half is computed, and
                // then less of it is left.
                Some((_, oldest)) => *oldest = since.min(*oldest),
                None => {
                    let seat = g.layout.parity_seat(stripe, j);
                    units.push(((volume.id, stripe, seat, part), since));
                }
            }
        }
        units
    }

    fn next_look(&self, quiet_since: Option<Nanos>, patience: Nanos, now: Nanos) -> Option<Nanos> {
        if self.exposure.is_empty() {
            return None;
        }
        let of = |area: &Stripes| {
            let redundancy = &area.redundancy;
            if redundancy.timing != Timing::Deferred || redundancy.refresh != Refresh::Idle {
                return None;
            }
            let its = self.exposure.in_area(self.volume.id, area.area);
            let oldest = its.and_then(|t| t.oldest())?;
            let so_far = self.exposure.of(self.volume.id).map(|t| t.so_far(now))?;
            let idle = quiet_since.map(|since| since.saturating_add(redundancy.idle));
            let old = oldest.checked_add(redundancy.exposed_for);
            let left = self.target.as_ref().and_then(|t| t.left(&so_far));
            let used_up = left.map(|left| now.saturating_add(left.max(1)));
            [idle, old, used_up].into_iter().flatten().filter(|at| *at > now).min()
        };
        let again = self.set_aside.values().map(|since| since.saturating_add(patience));
        self.volume.areas().iter().filter_map(of).chain(again).filter(|at| *at > now).min()
    }
}
