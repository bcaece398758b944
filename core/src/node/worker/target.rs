//! A target MTTDL (AFRAID 4.1, MTTDL_x), and a start that waits for idle time (AFRAID 5), on this disk.
//!
//! Of a volume with a controller that node keeps the target (`node/account`). Else each disk measures the share of time
//! with deferred parity on it, and keeps it within its part of the volume's allowed share; all disks have equal parts.
//! Data of the volume is exposed for at most the sum of their shares, so the target is met without communication. While a disk's share is used up, its parity takes each write, and marked parity
//! is computed before hosts are served. That takes time, in which the data stays exposed; so a reserve is kept for it.

use std::collections::{BTreeMap, BTreeSet};

use super::Worker;
use crate::cluster::{Stripes, Volume};
use crate::node::Exposed;
use crate::policy::{Redundancy, Refresh, Start, Timing};
use crate::units::{MILLIS, Nanos, VolumeId};

/// Shares are integers in parts of this.
const WHOLE: u128 = 1_000_000_000_000;

/// The minimum and the maximum of the reserve for computing exposed parity.
const LEAST_RESERVE: Nanos = 100 * MILLIS;
const MOST_RESERVE: Nanos = 10_000 * MILLIS;

/// The maximum of the time for which data is expected to be exposed.
const MOST_EXPECTED: Nanos = 600_000 * MILLIS;

/// The allowed exposure by parity on this disk, or on all disks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::node) struct Target {
    /// The share of time, in parts of [`WHOLE`].
    share: u128,
    /// The longest time to compute the exposed parity once the share was used up.
    reserve: Nanos,
    /// Since when the share is used up while data is exposed.
    late_since: Option<Nanos>,
    /// It was used up, and there is not enough for another burst yet: parity that is deferred for a moment costs more
    /// than immediate parity.
    is_closed: bool,
    /// What suffices for that: a burst of hosts' requests, the time that a disk must be idle, which this is, and the
    /// reserve again.
    enough: Nanos,
    /// The usual time for which data is exposed at a time: that suffices, too.
    expected: Nanos,
    /// Since when data is exposed.
    exposed_since: Option<Nanos>,
}

impl Target {
    /// Of a volume with a target, for one of several accounts that share the allowed time.
    pub fn of(volume: &Volume, accounts: f64) -> Option<Target> {
        let mttdl = volume.policy.redundancy.mttdl;
        if volume.redundancies().all(|r| r.timing != Timing::Deferred)
            || mttdl == Redundancy::UNBOUNDED
        {
            return None;
        }
        let of_volume = volume.rates().exposed_share(mttdl as f64).max(0.0);
        let share = of_volume / accounts * WHOLE as f64;
        Some(Target {
            share: share as u128,
            reserve: LEAST_RESERVE,
            late_since: None,
            is_closed: true,
            enough: volume.redundancies().map(|r| r.idle).max().unwrap_or(0),
            expected: 0,
            exposed_since: None,
        })
    }

    /// The known state of the same target, if there is one.
    pub fn or_known(self, known: Option<&Target>) -> Target {
        let same = |t: &&Target| (t.share, t.enough) == (self.share, self.enough);
        known.filter(same).cloned().unwrap_or(self)
    }

    /// Whether the idle time suffices to defer parity: at least half of the time, or as much as the target requires if
    /// the rest were exposed.
    pub fn has_enough_idle(target: Option<&Target>, watched: Nanos, idle: Nanos) -> bool {
        let busy = u128::from(watched.saturating_sub(idle));
        let most = target.map_or(WHOLE / 2, |t| t.share);
        watched >= SEEN && busy * WHOLE <= most * u128::from(watched)
    }

    /// How much longer data may be exposed after this exposure so far; `None` if it was exposed for too long.
    pub fn left(&self, so_far: &Exposed) -> Option<Nanos> {
        let allowed = u128::from(so_far.watched) * self.share / WHOLE;
        let left = allowed.checked_sub(u128::from(so_far.unprotected + self.reserve))?;
        // The allowance grows while that time passes.
        Some((left * WHOLE / (WHOLE - self.share).max(1)).min(u128::from(Nanos::MAX / 4)) as Nanos)
    }

    /// Whether parity that is not deferred yet may be, with bursts of requests of this length.
    pub fn is_open(&mut self, so_far: &Exposed, burst: Nanos) -> bool {
        let enough = burst.saturating_add(self.enough).saturating_add(self.reserve);
        let enough = self.expected.max(enough);
        match self.left(so_far) {
            None => self.is_closed = true,
            Some(left) if left >= enough => self.is_closed = false,
            Some(_) => {}
        }
        !self.is_closed
    }

    /// Whether parity that is not deferred yet may not be, as of the last look.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The computation of the exposed stripes takes this time.
    pub fn keep_reserve(&mut self, takes: Nanos) {
        self.reserve = takes.clamp(LEAST_RESERVE, MOST_RESERVE);
    }

    /// Updates whether the share is used up, and for how long data was exposed. Returns whether it is.
    pub fn look(&mut self, so_far: &Exposed, now: Nanos) -> bool {
        let is_exposed = so_far.stripes > 0;
        let used_up = self.left(so_far).is_none();
        self.is_closed |= used_up;
        match is_exposed {
            true => drop(self.exposed_since.get_or_insert(now)),
            false => self.is_redundant(now),
        }
        if used_up && is_exposed {
            self.late_since.get_or_insert(now);
        }
        used_up
    }

    /// Nothing is exposed any more. An exposure that was cut short would have taken longer.
    pub fn is_redundant(&mut self, now: Nanos) {
        let Some(since) = self.exposed_since.take() else { return };
        let length = now.saturating_sub(since);
        self.expected = match self.late_since.take() {
            Some(since) => {
                self.reserve = self.reserve.max(now.saturating_sub(since)).min(MOST_RESERVE);
                self.expected.max(length).saturating_mul(2).min(MOST_EXPECTED)
            }
            None => length.max(self.expected - self.expected / 8),
        };
    }
}

/// The volumes' targets.
#[derive(Clone, Default, Hash)]
pub(super) struct Targets {
    of: BTreeMap<VolumeId, Target>,
    /// The volumes with enough idle time seen.
    started: BTreeSet<VolumeId>,
}

impl Worker {
    /// The map has changed, and with it perhaps the targets.
    pub(super) fn set_targets(&mut self) {
        let before = std::mem::take(&mut self.targets.of);
        let of = |v: &std::sync::Arc<Volume>| {
            let target = Target::of(v, v.disks().count)?;
            Some((v.id, target.or_known(before.get(&v.id))))
        };
        let here = self.map.volumes.values().filter(|v| !v.has_one_account());
        self.targets.of = here.filter_map(of).collect();
    }

    /// Nothing is exposed on this disk.
    pub(super) fn note_redundant(&mut self, now: Nanos) {
        self.targets.of.values_mut().for_each(|target| target.is_redundant(now));
    }

    /// The exposure of a volume here so far.
    fn exposed_so_far(&self, volume: VolumeId, now: Nanos) -> Option<Exposed> {
        self.exposure.of(volume).map(|tally| tally.so_far(now))
    }

    /// Whether the target of a volume allows deferred parity here. Parity that another write has already deferred makes
    /// no difference: it is computed now.
    pub(super) fn target_allows(&mut self, volume: VolumeId, now: Nanos) -> bool {
        let so_far = self.exposed_so_far(volume, now);
        let Some(target) = self.targets.of.get_mut(&volume) else { return true };
        so_far.is_some_and(|so_far| target.is_open(&so_far, self.load.burst(now)))
    }

    /// Whether enough idle time was seen to defer a volume's parity. Once it was enough, it stays so.
    pub(super) fn has_started(&mut self, volume: &Volume, now: Nanos) -> bool {
        if volume.policy.redundancy.start == Start::Eager
            || self.targets.started.contains(&volume.id)
        {
            return true;
        }
        // Only idle time of this life counts.
        let watched = self.exposure.of(volume.id).map_or(0, |tally| tally.watched_now(now));
        let target = self.targets.of.get(&volume.id);
        let enough = Target::has_enough_idle(target, watched, self.load.idle(now));
        if enough {
            self.targets.started.insert(volume.id);
        }
        enough
    }

    /// Whether a volume's marked parity must be computed under any load, because of the target.
    pub(super) fn is_due_for_target(&mut self, volume: &Volume, now: Nanos) -> bool {
        let Some(so_far) = self.exposed_so_far(volume.id, now) else { return false };
        let many = self.share_of(volume, Redundancy::STRIPES_AT_TARGET);
        let Some(target) = self.targets.of.get_mut(&volume.id) else { return false };
        target.look(&so_far, now) || so_far.stripes >= many
    }

    /// When some marked parity becomes due by time alone, if that is later.
    #[inline]
    pub fn next_refresh(&self, now: Nanos) -> Option<Nanos> {
        // Usually nothing is marked, and this is called after every input.
        let marked = if self.exposure.is_empty() { None } else { self.next_refresh_of_marked(now) };
        match self.store.copied_bytes() {
            0 => marked,
            _ => Some(self.folding.next_look().max(now + 1)).into_iter().chain(marked).min(),
        }
    }

    #[inline(never)]
    fn next_refresh_of_marked(&self, now: Nanos) -> Option<Nanos> {
        let of = |(volume, area): (&std::sync::Arc<Volume>, Stripes)| {
            let redundancy = &area.redundancy;
            if redundancy.timing != Timing::Deferred || redundancy.refresh != Refresh::Idle {
                return None;
            }
            let its = self.exposure.in_area(volume.id, area.area).map(|t| t.so_far(now));
            let age = its.filter(|e| e.stripes > 0)?.age;
            let so_far = self.exposed_so_far(volume.id, now)?;
            let idle = self.load.last_part().saturating_add(redundancy.idle);
            let is_central = volume.has_one_account();
            let old_at = redundancy.exposed_for.saturating_mul(if is_central { 2 } else { 1 });
            let old = now.saturating_sub(age).checked_add(old_at);
            if is_central {
                return old.filter(|at| *at > now);
            }
            let left = self.targets.of.get(&volume.id).and_then(|t| t.left(&so_far));
            let used_up = left.map(|left| now.saturating_add(left.max(1)));
            [Some(idle), old, used_up].into_iter().flatten().filter(|at| *at > now).min()
        };
        let others = self.refreshing.looks_after_others().filter(|at| *at > now);
        let areas = |v: &'_ std::sync::Arc<Volume>| v.areas();
        let volumes = self.map.volumes.values();
        let all = volumes.flat_map(|v| areas(v).into_iter().map(move |area| (v, area)));
        all.filter_map(of).chain(others).min()
    }
}

/// The least observation time before idle time can be judged.
const SEEN: Nanos = 10_000 * MILLIS;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(parts_of_a_thousand: u128) -> Target {
        Target {
            share: parts_of_a_thousand * WHOLE / 1000,
            reserve: LEAST_RESERVE,
            late_since: None,
            is_closed: true,
            enough: 100 * MILLIS,
            expected: 0,
            exposed_since: None,
        }
    }

    fn so_far(watched: Nanos, unprotected: Nanos, stripes: u64) -> Exposed {
        let (watched, unprotected) = (watched * MILLIS, unprotected * MILLIS);
        Exposed { watched, unprotected, stripes, ..Exposed::default() }
    }

    #[test]
    fn what_is_left_is_used_up_when_it_has_passed() {
        let of_ten = target(10);
        assert_eq!(of_ten.left(&so_far(0, 0, 0)), None, "the reserve is not there yet");
        assert_eq!(of_ten.left(&so_far(9_000, 0, 0)), None);
        let left = of_ten.left(&so_far(100_000, 200, 1)).unwrap();
        // 1 % of 100 s, less 200 ms and the reserve; and 1 % of that again.
        assert!((707 * MILLIS..708 * MILLIS).contains(&left), "{left}");
        let ms = left / MILLIS;
        assert!(of_ten.left(&so_far(100_000 + ms, 200 + ms, 1)).is_some());
        assert_eq!(of_ten.left(&so_far(100_000 + ms + 2, 200 + ms + 2, 1)), None);
        assert_eq!(target(0).left(&so_far(1 << 40, 0, 0)), None);
    }

    #[test]
    fn parity_waits_again_when_there_is_enough_for_a_burst() {
        let mut target = target(10);
        assert!(!target.is_open(&so_far(15_000, 0, 0), 0), "there is something, and not enough");
        assert!(!target.is_open(&so_far(40_000, 0, 0), 150 * MILLIS), "bursts are long");
        assert!(target.is_open(&so_far(40_000, 0, 0), 50 * MILLIS));
        assert!(target.is_open(&so_far(40_000, 250, 1), MILLIS), "as long as there is anything");
        assert!(!target.is_open(&so_far(40_000, 350, 1), 0));
        assert!(!target.is_open(&so_far(50_000, 350, 0), 0));
    }

    /// To compute parity in the middle of a burst costs more than not to defer it.
    #[test]
    fn parity_waits_again_when_there_is_enough_for_what_was_cut_short() {
        let mut target = target(10);
        target.look(&so_far(100_000, 0, 1), 0);
        target.is_redundant(3_000 * MILLIS);
        assert!(target.is_open(&so_far(400_000, 900, 0), 0), "3 s and the reserve");
        target.is_closed = true;
        assert!(!target.is_open(&so_far(400_000, 1_000, 0), 0));
        // The next one was longer than the time left: nobody knows its length.
        target.look(&so_far(400_000, 1_000, 1), 0);
        assert!(target.look(&so_far(400_000, 4_000, 1), 3_000 * MILLIS), "it is used up");
        target.is_redundant(3_500 * MILLIS);
        assert!(!target.is_open(&so_far(800_000, 4_000, 0), 0));
        assert!(target.is_open(&so_far(1_200_000, 4_000, 0), 0));
        // They become shorter.
        for _ in 0..20 {
            target.look(&so_far(1_200_000, 4_000, 1), 0);
            target.is_redundant(200 * MILLIS);
        }
        target.is_closed = true;
        assert!(target.is_open(&so_far(600_000, 4_000, 0), 0));
    }

    #[test]
    fn what_computing_takes_is_kept_in_reserve() {
        let mut target = target(10);
        assert!(!target.look(&so_far(100_000, 0, 1), 0));
        assert!(target.look(&so_far(100_000, 950, 1), 1_000 * MILLIS), "it is used up");
        assert!(target.look(&so_far(100_300, 1_250, 1), 1_300 * MILLIS));
        assert!(target.look(&so_far(100_400, 1_350, 0), 1_400 * MILLIS), "it is still");
        assert_eq!(target.reserve, 400 * MILLIS);
        assert!(target.look(&so_far(150_000, 1_350, 0), 50_000 * MILLIS));
        assert_eq!(target.reserve, 400 * MILLIS, "that was counted");
        assert!(!target.look(&so_far(180_000, 1_350, 0), 80_000 * MILLIS));
    }
}
