//! Scheduled snapshots: which are due, and which exceed the number that is kept.
//!
//! A snapshot is due while none of its kind lies in the present period. The map alone decides, whichever process leads
//! and however often it looks. If nothing ran in a period, its snapshot is missed. A clock that was set back finds
//! the snapshots of periods that it has seen already, and a clock that was set forward does not stop those that follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ClusterMap, Volume};
use crate::policy::Every;
use crate::units::VolumeId;

/// What the schedules of volumes want done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueSnapshots {
    /// The snapshots to take.
    pub take: Vec<(VolumeId, Every)>,
    /// The snapshots to delete, the oldest first.
    pub delete: Vec<VolumeId>,
}

/// How a kind of scheduled snapshots of a volume stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Which kind.
    pub every: Every,
    /// How many are kept.
    pub keep: usize,
    /// How many there are.
    pub there: usize,
    /// When the one that was taken last was, in seconds since 1970.
    pub newest: Option<u64>,
    /// Since when the next is due, or from when on it will be.
    pub next: u64,
}

impl Scheduled {
    /// Whether the next is due.
    pub fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }
}

/// Scheduled snapshots, by volume and kind, in the order in which they were taken.
type ByKind<'a> = BTreeMap<(VolumeId, Every), Vec<&'a Arc<Volume>>>;

fn stands(every: Every, keep: usize, there: &[&Arc<Volume>], now: u64) -> Scheduled {
    let begin = every.begin(now);
    let mut taken = there.iter().filter_map(|volume| Some(volume.lineage.snapshot?.taken));
    // The name says it, too.
    let is_there = taken.clone().any(|at| every.begin(at) == begin);
    let next = if is_there { every.next(now) } else { begin };
    Scheduled { every, keep, there: there.len(), newest: taken.next_back(), next }
}

impl ClusterMap {
    /// All scheduled snapshots.
    fn scheduled_snapshots(&self) -> ByKind<'_> {
        let mut all = ByKind::new();
        for volume in self.volumes.values().filter(|volume| !volume.is_deleted()) {
            let kind = volume.lineage.snapshot.and_then(|s| Some((s.of, s.scheduled?)));
            if let Some(kind) = kind {
                all.entry(kind).or_default().push(volume);
            }
        }
        all
    }

    /// How the schedule of a volume stands at a time, in seconds since 1970.
    pub fn schedule_of(&self, volume: &Volume, now: u64) -> Vec<Scheduled> {
        let kinds = volume.policy.snapshots.kinds();
        if volume.policy.snapshots.is_none() {
            return Vec::new();
        }
        let there = self.scheduled_snapshots();
        let of = |every| there.get(&(volume.id, every)).map_or(&[][..], Vec::as_slice);
        kinds.map(|(every, keep)| stands(every, keep, of(every), now)).collect()
    }

    /// What schedules want done at a time, in seconds since 1970. Of a kind that a schedule does not have any more no
    /// snapshots are deleted, and snapshots that operators took do not count.
    pub fn due_snapshots(&self, now: u64) -> DueSnapshots {
        let mut due = DueSnapshots::default();
        let is_seen = |v: &Volume| v.visible > 0 && v.import.is_none();
        let scheduled = |v: &&Arc<Volume>| is_seen(v) && !v.policy.snapshots.is_none();
        let mut volumes = self.volumes.values().filter(scheduled).peekable();
        if volumes.peek().is_none() {
            return due;
        }
        let there = self.scheduled_snapshots();
        for volume in volumes {
            for (every, keep) in volume.policy.snapshots.kinds() {
                let its = there.get(&(volume.id, every)).map_or(&[][..], Vec::as_slice);
                if stands(every, keep, its, now).is_due(now) {
                    due.take.push((volume.id, every));
                }
                // One that hosts do not see is being deleted.
                let over = its[..its.len().saturating_sub(keep)].iter().filter(|s| s.visible > 0);
                due.delete.extend(over.map(|snapshot| snapshot.id));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Change, NodeInfo};
    use crate::layout::{Geometry, LayoutSpec};
    use crate::policy::{Policy, Schedule};
    use crate::units::NodeId;

    /// Saturday, 28 November 2026, 12:00 UTC.
    const NOON: u64 = 1_795_867_200;
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    /// Volumes `a` and `b` with this schedule, by how many of each kind are kept.
    fn map(keep: [u16; 4]) -> ClusterMap {
        let nodes = (1..4).map(|disk| NodeInfo::new(disk, 1000)).collect();
        let mut map = ClusterMap { next_volume: 2, nodes, ..ClusterMap::default() };
        let spec = LayoutSpec::default();
        for (n, name) in ["a", "b"].into_iter().enumerate() {
            let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
            let columns = (0..3).map(|node| (NodeId(node), n as u64 * 8)).collect();
            let extents = vec![super::super::Extent::new(0, columns)];
            let id = VolumeId(n as u32);
            let volume = Volume::new(id, name, 8192, &spec, geometry, extents);
            let snapshots = Schedule::keeping(keep).unwrap();
            let policy = Policy { snapshots, ..volume.policy };
            map.volumes.insert(id, Arc::new(Volume { policy, ..volume }));
        }
        map
    }

    const A: VolumeId = VolumeId(0);

    /// The names of the snapshots of `a`.
    fn names(map: &ClusterMap) -> Vec<&str> {
        map.snapshots_of(A).iter().map(|s| s.name.strip_prefix("a@").unwrap()).collect()
    }

    /// Takes and deletes snapshots as a leader does.
    fn keep_up(map: &mut ClusterMap, now: u64) {
        let due = map.due_snapshots(now);
        *map = Change::TakeScheduled(due.take, now).made_on(map);
        for id in map.due_snapshots(now).delete {
            *map = Change::DeleteVolume(id, now).made_on(map);
            assert!(map.volumes[&id].is_deleted());
        }
        assert_eq!(map.due_snapshots(now), DueSnapshots::default(), "nothing is left to do");
    }

    #[test]
    fn volumes_without_a_schedule_have_nothing_due() {
        assert_eq!(map([0; 4]).due_snapshots(NOON), DueSnapshots::default());
        assert!(map([0; 4]).schedule_of(&map([0; 4]).volumes[&A], NOON).is_empty());
    }

    #[test]
    fn each_period_has_one_snapshot_of_each_volume_and_the_oldest_go() {
        let mut map = map([3, 2, 0, 0]);
        let due = map.due_snapshots(NOON).take;
        let (b, [hour, day, ..]) = (VolumeId(1), Every::ALL);
        assert_eq!(due, [(A, hour), (A, day), (b, hour), (b, day)]);
        keep_up(&mut map, NOON);
        assert_eq!(names(&map), ["hourly-2026-11-28T12", "daily-2026-11-28"]);
        keep_up(&mut map, NOON + HOUR - 1);
        assert_eq!(names(&map).len(), 2, "it is the same hour");
        for hours in 1..30 {
            keep_up(&mut map, NOON + hours * HOUR);
        }
        let left = [
            "daily-2026-11-28",
            "daily-2026-11-29",
            "hourly-2026-11-29T15",
            "hourly-2026-11-29T16",
            "hourly-2026-11-29T17",
        ];
        assert_eq!(names(&map), left);
        let [hourly, daily] = map.schedule_of(&map.volumes[&A], NOON + 29 * HOUR + 5)[..] else {
            panic!("two kinds")
        };
        let next = NOON + 30 * HOUR;
        let newest = Some(NOON + 29 * HOUR);
        assert_eq!(hourly, Scheduled { every: hour, keep: 3, there: 3, newest, next });
        assert_eq!((daily.newest, daily.next), (Some(NOON + 12 * HOUR), NOON + 36 * HOUR));
        let volumes = map.volumes.values();
        assert!(volumes.filter(|v| v.is_snapshot()).all(|v| v.policy.snapshots.is_none()));
    }

    #[test]
    fn both_kinds_of_one_instant_show_the_same() {
        let mut map = map([1, 1, 0, 0]);
        keep_up(&mut map, NOON);
        let both = map.snapshots_of(A);
        assert_eq!(both[1].lineage.below, Some(both[0].id));
        assert_eq!(map.volumes[&A].lineage.below, Some(both[1].id));
        assert_eq!(map.check(), Ok(()));
    }

    #[test]
    fn periods_in_which_nothing_ran_are_missed() {
        let mut map = map([24, 0, 0, 0]);
        keep_up(&mut map, NOON);
        keep_up(&mut map, NOON + 5 * HOUR);
        assert_eq!(names(&map), ["hourly-2026-11-28T12", "hourly-2026-11-28T17"]);
    }

    #[test]
    fn a_clock_that_is_set_takes_none_twice_and_stops_none() {
        let mut map = map([24, 0, 0, 0]);
        keep_up(&mut map, NOON);
        // Forward by years, and back.
        keep_up(&mut map, NOON + 2000 * DAY);
        keep_up(&mut map, NOON + 10);
        assert_eq!(names(&map).len(), 2, "that hour has its snapshot");
        keep_up(&mut map, NOON + HOUR);
        assert_eq!(names(&map)[2..], ["hourly-2026-11-28T13"]);
        // The one that was taken last counts as the newest.
        let newest = map.schedule_of(&map.volumes[&A], NOON + HOUR)[0].newest;
        assert_eq!(newest, Some(NOON + HOUR));
    }

    #[test]
    fn a_clock_that_is_set_back_far_loses_no_new_snapshot() {
        let mut map = map([2, 0, 0, 0]);
        for hours in 0..3 {
            keep_up(&mut map, NOON + hours * HOUR);
        }
        keep_up(&mut map, NOON - DAY);
        assert_eq!(names(&map), ["hourly-2026-11-28T14", "hourly-2026-11-27T12"]);
        keep_up(&mut map, NOON - DAY + 60);
        assert_eq!(names(&map).len(), 2, "the oldest is the one that was taken first");
    }

    #[test]
    fn what_an_operator_took_stays_and_does_not_count() {
        let mut map = map([1, 0, 0, 0]);
        let names_of = |map: &ClusterMap| names(map).into_iter().map(str::to_string).collect();
        for name in ["hourly-2026-11-28T10", "hourly-2026-11-28T11", "own"] {
            map = Change::TakeSnapshots(vec![A], name.to_string(), NOON).made_on(&map);
        }
        keep_up(&mut map, NOON);
        keep_up(&mut map, NOON + HOUR);
        let all: Vec<String> = names_of(&map);
        let left = ["hourly-2026-11-28T10", "hourly-2026-11-28T11", "own", "hourly-2026-11-28T13"];
        assert_eq!(all, left);
        // One has the name that the next should have: that one is due, and cannot be taken.
        let name = "hourly-2026-11-28T14".to_string();
        map = Change::TakeSnapshots(vec![A], name, NOON).made_on(&map);
        let due = map.due_snapshots(NOON + 2 * HOUR).take;
        assert!(due.contains(&(A, Every::Hour)));
        map = Change::TakeScheduled(due, NOON + 2 * HOUR).made_on(&map);
        assert_eq!(names(&map).len(), 5);
    }

    #[test]
    fn a_schedule_that_ends_or_loses_a_kind_deletes_nothing() {
        let mut map = map([5, 0, 0, 0]);
        for hours in 0..5 {
            keep_up(&mut map, NOON + hours * HOUR);
        }
        let with = |map: &ClusterMap, keep| {
            let mut map = map.clone();
            let volume = Arc::make_mut(map.volumes.get_mut(&A).unwrap());
            volume.policy.snapshots = Schedule::keeping(keep).unwrap();
            map
        };
        let now = NOON + 4 * HOUR;
        assert_eq!(with(&map, [0; 4]).due_snapshots(now).delete, []);
        assert_eq!(with(&map, [0, 3, 0, 0]).due_snapshots(now).delete, []);
        let fewer = with(&map, [2, 0, 0, 0]).due_snapshots(now);
        let oldest: Vec<VolumeId> = map.snapshots_of(A)[..3].iter().map(|s| s.id).collect();
        assert_eq!((fewer.take, fewer.delete), (vec![], oldest));
    }

    #[test]
    fn hidden_volumes_wait_and_what_is_being_deleted_is_not_deleted_again() {
        let mut map = map([1, 0, 0, 0]);
        keep_up(&mut map, NOON);
        map = Change::TakeScheduled(map.due_snapshots(NOON + HOUR).take, NOON + HOUR).made_on(&map);
        let over = map.due_snapshots(NOON + HOUR).delete;
        assert_eq!(over.len(), 2);
        Arc::make_mut(map.volumes.get_mut(&over[0]).unwrap()).visible = 0;
        assert_eq!(map.due_snapshots(NOON + HOUR).delete, over[1..]);
        Arc::make_mut(map.volumes.get_mut(&A).unwrap()).visible = 0;
        let due = map.due_snapshots(NOON + 5 * HOUR).take;
        assert_eq!(due, [(VolumeId(1), Every::Hour)]);
    }
}
