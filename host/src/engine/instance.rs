//! A node as this process knows it: how far along in its life it is, where its disk is. What runs of it is in its lane
//! (`Seat`).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weft_core::node::BackOff;
use weft_core::units::{Epoch, MILLIS, Nanos, NodeId, SECTOR};

use crate::cluster::Home;
use crate::disk;
use crate::disk::handle::within;
use crate::disk::map_copies::Keeper;
use crate::disk::options::DiskOptions;
use crate::engine::errors::Errors;
use crate::engine::failures::{FailingReads, Failures};
use crate::engine::hung::{DiskFile, OPENS_WITHIN, OpeningDisk, Trouble};
use crate::engine::taking::IsTaken;

/// How far along in its life a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not run.
    Down,
    /// It opens its disk.
    Opening,
    /// It takes part.
    Running,
    /// It takes part, and stops when what it has begun is finished.
    Draining,
    /// It is another process's.
    Elsewhere,
}

/// How far apart the looks are from which one knows how fast a node catches up.
const LOOKS: Duration = Duration::from_secs(1);

/// How fast a node catches up.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When it was looked last, and what was left then.
    last: Option<(Instant, u64)>,
    /// Bytes a second, between the last two looks; none if it did not get less.
    pub(crate) rate: Option<f64>,
}

impl Pace {
    /// Takes note of how many bytes are left, if that is known.
    fn look(&mut self, left: Option<u64>, now: Instant) {
        let Some(left) = left.filter(|left| *left > 0) else {
            *self = Pace::default();
            return;
        };
        let Some((then, before)) = self.last else {
            self.last = Some((now, left));
            return;
        };
        let passed = now.duration_since(then);
        if passed >= LOOKS {
            let done = before.checked_sub(left).filter(|done| *done > 0);
            self.rate = done.map(|done| done as f64 / passed.as_secs_f64());
            self.last = Some((now, left));
        }
    }
}

/// A node in this process, or what is known here of one in another.
pub(crate) struct Instance {
    /// Where the disk is; empty if there is none.
    pub(crate) path: PathBuf,
    /// Bytes of the disk.
    pub(crate) size: u64,
    /// How the disk is worked.
    pub(crate) disk_options: DiskOptions,
    pub(crate) phase: Phase,
    /// In this life its node has been told to enter a map. The map may count it as up before: as in its earlier life.
    pub(super) entered: bool,
    /// The epoch of the latest map that it was told of, which may be still to come.
    pub(super) coming: Epoch,
    /// Counts its lives, so that what was said in an earlier one is not taken for this one's. Its seat has the same.
    pub(crate) life: u64,
    /// To be started as soon as the earlier life's disk operations have ended.
    pub(crate) wanted: bool,
    /// Until when it may finish what it has begun, if it is being stopped.
    pub(crate) patience: Option<Nanos>,
    /// Why it is down.
    pub(crate) why: String,
    /// Keeps copies of the map on the disk.
    pub(crate) keeper: Keeper,
    /// How fast it catches up.
    pub(crate) pace: Pace,
    /// Errors of its disk.
    pub(super) errors: Errors,
    /// Failures of its disk.
    pub(crate) failures: Failures,
    /// Reads of its disk that fail.
    pub(super) failing_reads: FailingReads,
    /// How long it rests when the others have gone on without it.
    pub(super) rest: Rest,
    /// Its disk rotates, as far as the system says.
    pub(super) rotating: bool,
    /// Its disk is being opened, which takes long.
    pub(super) opening: Option<OpeningDisk>,
    /// Whether another disk is being taken for it.
    pub(super) is_taken: IsTaken,
    /// What keeps its disk from working.
    pub(crate) trouble: Option<Trouble>,
    /// What has been found out about the file that its disk is.
    pub(super) file: DiskFile,
    /// When its node was last taken out because the disk did not answer.
    pub(super) taken_out: Option<Nanos>,
    /// When its node was taken out because the disk is slow, and for how long.
    pub(crate) back_off: BackOff,
}

/// When a node may start again that the others have gone on without. The first time it does so at once; one to which it
/// happens again soon rests longer each time, since starting and catching up is work for all.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// When it happened last, and how long it was to rest then.
    last: Option<(Nanos, Nanos)>,
}

impl Rest {
    const SHORTEST: Nanos = 250 * MILLIS;
    const LONGEST: Nanos = 8_000 * MILLIS;
    /// What is longer ago is forgotten.
    const SOON: Nanos = 60_000 * MILLIS;

    /// It happens now. How long the node is to rest.
    pub(super) fn begin(&mut self, now: Nanos) -> Nanos {
        let again = self.last.filter(|(at, _)| now.saturating_sub(*at) < Rest::SOON);
        let rest = again.map_or(0, |(_, rest)| (2 * rest).clamp(Rest::SHORTEST, Rest::LONGEST));
        self.last = Some((now, rest));
        rest
    }

    /// Whether it rests.
    pub(super) fn is_on(&self, now: Nanos) -> bool {
        self.last.is_some_and(|(at, rest)| now < at.saturating_add(rest))
    }
}

/// How long the node of a slow disk stays away.
pub(super) fn back_off() -> BackOff {
    BackOff::new(60_000 * MILLIS, 3_600_000 * MILLIS)
}

impl Instance {
    /// One that does not run.
    pub(crate) fn new(path: PathBuf, size: u64) -> Instance {
        Instance {
            path,
            size,
            disk_options: DiskOptions::default(),
            phase: Phase::Down,
            entered: false,
            coming: 0,
            life: 0,
            wanted: false,
            patience: None,
            why: "it has not been started".to_string(),
            keeper: Keeper::default(),
            pace: Pace::default(),
            errors: Errors::default(),
            failures: Failures::default(),
            failing_reads: FailingReads::default(),
            rest: Rest::default(),
            rotating: false,
            opening: None,
            is_taken: IsTaken::default(),
            trouble: None,
            file: DiskFile::default(),
            taken_out: None,
            back_off: back_off(),
        }
    }

    /// A node of a process of a cluster, which does not run.
    pub(crate) fn at_home(home: &Home, node: NodeId) -> Instance {
        let Some(path) = home.path(node) else { return Instance::new(PathBuf::new(), 0) };
        // A disk that is gone, or does not answer, is told of when the node is to open it.
        let its = path.to_path_buf();
        let size = within(OPENS_WITHIN, move || disk::size(&its)).and_then(Result::ok).unwrap_or(0);
        Instance::new(path.to_path_buf(), size).with(home.config().disk_options)
    }

    /// With its disk worked like this.
    pub(crate) fn with(self, disk_options: DiskOptions) -> Instance {
        Instance { disk_options, ..self }
    }

    /// A node of another process.
    pub(crate) fn elsewhere() -> Instance {
        Instance { phase: Phase::Elsewhere, ..Instance::new(PathBuf::new(), 0) }
    }

    /// Its node is dropped.
    pub(super) fn is_dropped(&mut self, why: &str) {
        self.keeper = Keeper::default();
        (self.phase, self.entered, self.coming) = (Phase::Down, false, 0);
        self.life += 1;
        self.wanted = false;
        self.patience = None;
        self.file.is_closed();
        (self.trouble, self.opening) = (None, None);
        self.why = why.to_string();
    }

    /// Whether its node has a disk, and has it open.
    pub(super) fn has_disk(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Elsewhere) && !self.path.as_os_str().is_empty()
    }

    /// Whether its node is out because the disk is slow, and comes back by itself.
    pub(crate) fn is_out_as_slow(&self) -> bool {
        self.phase == Phase::Down && self.wanted && self.back_off.is_away()
    }

    /// Whether it takes part in the cluster, as far as is known here.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Draining)
    }

    /// Looks how fast its node catches up, which has so many stale sectors.
    pub(super) fn look_at_pace(&mut self, stale: Option<u64>, now: Instant) {
        self.pace.look(stale.map(|sectors| sectors * SECTOR), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_look_says_how_fast_a_node_catches_up() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        pace.look(Some(3000), at(0));
        pace.look(Some(2900), begun + LOOKS / 2);
        assert_eq!(pace.rate, None, "it is too early to say");
        pace.look(Some(2000), at(2));
        assert_eq!(pace.rate, Some(500.0));
        pace.look(Some(4000), at(3));
        assert_eq!(pace.rate, None, "it has got more");
        pace.look(Some(0), at(4));
        pace.look(Some(10), at(5));
        assert_eq!(pace.rate, None);
    }

    #[test]
    fn a_node_rests_longer_each_time_that_it_is_left_behind() {
        let (mut rest, second) = (Rest::default(), 1_000 * MILLIS);
        let rests: Vec<Nanos> = (1..=8).map(|n| rest.begin(n * 10 * second) / MILLIS).collect();
        assert_eq!(rests, [0, 250, 500, 1000, 2000, 4000, 8000, 8000]);
        assert!(rest.is_on(87 * second) && !rest.is_on(88 * second));
        assert_eq!(rest.begin(200 * second), 0, "that was long ago");
    }
}
