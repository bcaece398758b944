//! A target MTTDL (AFRAID 4.1, MTTDL_x), and a start that waits for idle time (AFRAID 5), on this disk.
//!
//! Each disk measures the share of time with deferred parity on it, and keeps it within its part of the volume's
//! allowed share; all disks have equal parts. Data of the volume is exposed for at most the sum of their shares, so the
//! target is met without communication. While a disk's share is used up, its parity takes each write, and marked parity
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

/// The allowed exposure by parity on this disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    /// The share of time, in parts of [`WHOLE`].
    share: u128,
    /// The longest time to compute the exposed parity once the share was used up.
    reserve: Nanos,
    /// Since when the share is used up while data is exposed.
    late_since: Option<Nanos>,
    /// It was used up, and there is not enough for another burst yet: parity that is deferred for a moment costs more
    /// than immediate parity.
    is_closed: bool,
    /// What suffices for that: the time that a disk must be idle, and the reserve again.
    enough: Nanos,
}

impl Target {
    /// Of a volume with a target.
    fn of(volume: &Volume) -> Option<Target> {
        let mttdl = volume.policy.redundancy.mttdl;
        if volume.redundancies().all(|r| r.timing != Timing::Deferred)
            || mttdl == Redundancy::UNBOUNDED
        {
            return None;
        }
        let of_volume = volume.rates().exposed_share(mttdl as f64).max(0.0);
        let share = of_volume / volume.disks().count * WHOLE as f64;
        Some(Target {
            share: share as u128,
            reserve: LEAST_RESERVE,
            late_since: None,
            is_closed: true,
            enough: volume.redundancies().map(|r| r.idle).max().unwrap_or(0),
        })
    }

    /// How much longer data may be exposed after this exposure so far; `None` if it was exposed for too long.
    fn left(&self, so_far: &Exposed) -> Option<Nanos> {
        let allowed = u128::from(so_far.watched) * self.share / WHOLE;
        let left = allowed.checked_sub(u128::from(so_far.unprotected + self.reserve))?;
        // The allowance grows while that time passes.
        Some((left * WHOLE / (WHOLE - self.share).max(1)).min(u128::from(Nanos::MAX / 4)) as Nanos)
    }

    /// Whether parity that is not deferred yet may be.
    fn is_open(&mut self, so_far: &Exposed) -> bool {
        match self.left(so_far) {
            None => self.is_closed = true,
            Some(left) if left >= self.enough + self.reserve => self.is_closed = false,
            Some(_) => {}
        }
        !self.is_closed
    }

    /// Updates whether the share is used up, and for how long it was. Returns whether it is.
    fn look(&mut self, so_far: &Exposed, now: Nanos) -> bool {
        let is_exposed = so_far.stripes > 0;
        let used_up = self.left(so_far).is_none();
        self.is_closed |= used_up;
        if let Some(since) = self.late_since.filter(|_| !is_exposed) {
            self.reserve = self.reserve.max(now.saturating_sub(since)).min(MOST_RESERVE);
            self.late_since = None;
        }
        if used_up && is_exposed {
            self.late_since.get_or_insert(now);
        }
        used_up
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
            let target = Target::of(v)?;
            let known =
                before.get(&v.id).filter(|t| (t.share, t.enough) == (target.share, target.enough));
            Some((v.id, known.cloned().unwrap_or(target)))
        };
        self.targets.of = self.map.volumes.values().filter_map(of).collect();
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
        so_far.is_some_and(|so_far| target.is_open(&so_far))
    }

    /// Whether enough idle time was seen to defer a volume's parity: at least half of the time, or as much as the
    /// target requires if the rest were exposed. Once it was enough, it stays so.
    pub(super) fn has_started(&mut self, volume: &Volume, now: Nanos) -> bool {
        if volume.policy.redundancy.start == Start::Eager
            || self.targets.started.contains(&volume.id)
        {
            return true;
        }
        // Only idle time of this life counts.
        let watched = self.exposure.of(volume.id).map_or(0, |tally| tally.watched_now(now));
        let busy = u128::from(watched.saturating_sub(self.load.idle(now)));
        let most = self.targets.of.get(&volume.id).map_or(WHOLE / 2, |t| t.share);
        let enough = watched >= SEEN && busy * WHOLE <= most * u128::from(watched);
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
        if self.exposure.is_empty() { None } else { self.next_refresh_of_marked(now) }
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
            let old = now.saturating_sub(age).checked_add(redundancy.exposed_for);
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
        assert!(!target.is_open(&so_far(15_000, 0, 0)), "there is something, and not enough");
        assert!(target.is_open(&so_far(40_000, 0, 0)));
        assert!(target.is_open(&so_far(40_000, 250, 1)), "as long as there is anything");
        assert!(!target.is_open(&so_far(40_000, 350, 1)));
        assert!(!target.is_open(&so_far(50_000, 350, 0)));
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
