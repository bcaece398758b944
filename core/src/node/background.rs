//! Work that hosts do not wait for, and who of it may begin what now.
//!
//! Each kind is a loop over plans that some chapter of the node runs: the worker has its disk filled with what it missed
//! (catching up, rebuilding and copying are one loop), the originator has stripes verified by scrubs. What a loop does
//! next is its own matter. How much of it goes on at once and how fast is decided here, for all of them together: a loop
//! asks before it begins a unit and says how many it has in work.

use std::collections::{BTreeMap, BTreeSet};

use super::pace::{FillRates, Pace};
use super::{NodeConfig, UNBOUNDED};
use crate::cluster::Settings;
use crate::units::Nanos;

/// All background work, in parts of it.
pub const ALL: u64 = 1000;

/// A part of a rate without bounds is that part of this one, in bytes a second.
const FASTEST: u64 = 1 << 30;

/// Filling disks goes on at this part of its floor, at least.
const LEAST_OF_FLOOR: u64 = 4;

/// A loop of background work. The earlier in this list, the more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Loop {
    /// Filling the node's disk: until it is whole, another loss may be one too many.
    Fill,
    /// Computing parity that waits: until it is done, a loss is one too many for what is exposed.
    Refresh,
    /// The same where it goes before hosts.
    RefreshFirst,
    /// The scrub with the number of its host's request.
    Scrub(u64),
}

/// All background work of a node.
#[derive(Clone, Hash)]
pub(crate) struct Background {
    loops: BTreeMap<Loop, Share>,
    /// Whether scrubs are among them.
    scrubs: bool,
    hosts_are_busy: bool,
    /// How much of it may go on, in thousandths: less than all while it costs hosts more than a volume promises.
    part: u64,
    /// Most units of one loop in work at once: while no host uses the disk, and while one does.
    most: usize,
    most_busy: usize,
}

/// One loop's share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Share {
    rates: FillRates,
    pace: Pace,
    in_work: usize,
}

impl Background {
    /// Of a node that fills its disk and nothing else as yet.
    pub fn new(config: &NodeConfig) -> Background {
        Background {
            loops: BTreeMap::from([
                (Loop::Fill, Share::new(config.fill)),
                (Loop::Refresh, Share::new(config.fill)),
                (Loop::RefreshFirst, Share::new(FillRates { floor: UNBOUNDED, ..config.fill })),
            ]),
            scrubs: false,
            hosts_are_busy: false,
            part: ALL,
            most: config.rebuilds,
            most_busy: config.rebuilds_busy,
        }
    }

    /// A map is in force: disks are filled at its rates, or at those that the node was told.
    pub fn enter(&mut self, told: FillRates, settings: &Settings) {
        let fill = FillRates::of(told, settings);
        for (which, share) in &mut self.loops {
            match which {
                Loop::Fill | Loop::Refresh => share.rates = fill,
                Loop::RefreshFirst => share.rates.ceiling = fill.ceiling,
                Loop::Scrub(_) => {}
            }
        }
    }

    /// Hosts use the node's disk, or do not.
    pub fn hears_of_hosts(&mut self, are_busy: bool) {
        self.hosts_are_busy = are_busy;
    }

    /// This part of it may go on from now on, in thousandths. Parity that goes before hosts
    /// does not give way: it is computed because too much is exposed.
    pub fn gives_way(&mut self, part: u64) {
        self.part = part.clamp(1, ALL);
    }

    /// The rate at which a loop may go on now.
    fn rate(&self, which: Loop) -> u64 {
        let Some(rates) = self.loops.get(&which).map(|share| share.rates) else { return UNBOUNDED };
        let rate = rates.at(self.hosts_are_busy);
        let part = (rate.min(FASTEST) * self.part / ALL).max(1);
        match which {
            _ if self.part == ALL => rate,
            Loop::RefreshFirst => rate,
            // Until a disk is whole another loss may be one too many.
            Loop::Fill => part.max(rates.floor.min(FASTEST) / LEAST_OF_FLOOR),
            Loop::Refresh | Loop::Scrub(_) => part,
        }
    }

    /// Whether hosts use the node's disk.
    pub fn hosts_are_busy(&self) -> bool {
        self.hosts_are_busy
    }

    /// A scrub begins, at so many bytes of each disk a second.
    pub fn open_scrub(&mut self, id: u64, rate: u64) {
        let rates = FillRates { floor: rate, ceiling: rate };
        self.loops.insert(Loop::Scrub(id), Share::new(rates));
        self.scrubs = true;
    }

    /// Whether it knows of scrubs in work.
    pub fn has_scrubs(&self) -> bool {
        self.scrubs
    }

    /// These scrubs are in work; others are over.
    pub fn keep_scrubs(&mut self, scrubs: &BTreeSet<u64>) {
        self.scrubs = !scrubs.is_empty();
        self.loops.retain(|which, _| match which {
            Loop::Fill | Loop::Refresh | Loop::RefreshFirst => true,
            Loop::Scrub(id) => scrubs.contains(id),
        });
    }

    /// A loop has so many units in work.
    pub fn has_in_work(&mut self, which: Loop, units: usize) {
        self.share(which).in_work = units;
    }

    /// How many units the loop may have in work. Filling takes few while hosts use the disk, unless it falls short of
    /// its rate. Computing parity that waits takes few in idle time, too: hosts that come back wait for what is in work, and it can
    /// wait longer. A scrub takes few always, and one while filling is in work: that goes first, but does not stop it.
    pub fn most(&mut self, which: Loop, now: Nanos) -> usize {
        let fills = self.share(Loop::Fill).in_work > 0;
        let (hosts_are_busy, most, most_busy) = (self.hosts_are_busy, self.most, self.most_busy);
        let (rate, part) = (self.rate(which), self.part);
        let share = self.share(which);
        share.pace.may(now, rate);
        match which {
            Loop::Fill if part < ALL && share.pace.lags(rate) => most_busy,
            Loop::Fill | Loop::Refresh | Loop::Scrub(_) if part < ALL / 4 => 1,
            Loop::Fill | Loop::Refresh if part < ALL => most_busy,
            Loop::Fill | Loop::Refresh if hosts_are_busy && share.pace.lags(rate) => most,
            Loop::Fill if !hosts_are_busy => most,
            Loop::Fill | Loop::Refresh => most_busy,
            Loop::RefreshFirst => most,
            Loop::Scrub(_) if fills => 1,
            Loop::Scrub(_) => most_busy,
        }
    }

    /// Whether a loop may begin a unit of so many bytes now. If so, it counts as begun.
    pub fn begin(&mut self, which: Loop, bytes: u64, now: Nanos) -> bool {
        let rate = self.rate(which);
        let share = self.share(which);
        let may = share.pace.may(now, rate);
        if may {
            share.pace.take(bytes, rate);
        }
        may
    }

    /// A loop begins so many bytes together with what it has begun just now: they count as well.
    pub fn begin_with_another(&mut self, which: Loop, bytes: u64) {
        let rate = self.rate(which);
        self.share(which).pace.take(bytes, rate);
    }

    fn share(&mut self, which: Loop) -> &mut Share {
        self.loops.get_mut(&which).expect("a loop asks while it is open")
    }
}

impl Share {
    fn new(rates: FillRates) -> Share {
        Share { rates, pace: Pace::default(), in_work: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::UNBOUNDED;
    use crate::units::MILLIS;

    const UNIT: u64 = 64 << 10;

    fn background() -> Background {
        let fill = FillRates { floor: UNIT, ceiling: UNBOUNDED };
        Background::new(&NodeConfig {
            rebuilds: 64,
            rebuilds_busy: 8,
            fill,
            ..NodeConfig::default()
        })
    }

    #[test]
    fn filling_gives_way_to_hosts_unless_it_lags() {
        let mut background = background();
        assert_eq!(background.most(Loop::Fill, 0), 64);
        background.hears_of_hosts(true);
        assert_eq!(background.most(Loop::Fill, MILLIS), 8);
        // Nothing of a quarter of a second's rate was used.
        assert_eq!(background.most(Loop::Fill, 2000 * MILLIS), 64);
        assert!(background.begin(Loop::Fill, UNIT, 2000 * MILLIS));
        assert_eq!(background.most(Loop::Fill, 2000 * MILLIS), 8);
        assert!(!background.begin(Loop::Fill, UNIT, 2000 * MILLIS), "the floor is a bound as well");
        background.hears_of_hosts(false);
        assert!(
            background.begin(Loop::Fill, UNIT, 2000 * MILLIS),
            "without hosts the ceiling counts"
        );
    }

    #[test]
    fn computing_parity_in_idle_time_leaves_little_to_wait_for() {
        let mut background = background();
        assert_eq!(background.most(Loop::Refresh, 0), 8);
        assert_eq!(background.most(Loop::RefreshFirst, 0), 64);
        background.hears_of_hosts(true);
        assert_eq!(background.most(Loop::Refresh, MILLIS), 8);
        assert_eq!(background.most(Loop::Refresh, 2000 * MILLIS), 64, "it falls short of its rate");
    }

    #[test]
    fn the_clusters_rates_go_before_the_nodes() {
        let told = FillRates { floor: 8 * UNIT, ceiling: 32 * UNIT };
        let of = |rebuild_floor, rebuild_ceiling| {
            let mut background = background();
            background.open_scrub(1, UNIT);
            background
                .enter(told, &Settings { rebuild_floor, rebuild_ceiling, ..Settings::default() });
            assert_eq!(background.share(Loop::Scrub(1)).rates.floor, UNIT);
            assert_eq!(background.share(Loop::RefreshFirst).rates.floor, UNBOUNDED);
            let rates = background.share(Loop::Refresh).rates;
            assert_eq!(background.share(Loop::Fill).rates, rates);
            (rates.floor / UNIT, rates.ceiling / UNIT)
        };
        assert_eq!(of(None, None), (8, 32));
        assert_eq!(of(Some(2 * UNIT), None), (2, 32));
        assert_eq!(of(Some(64 * UNIT), None), (64, 64), "a floor above what the node was told");
        assert_eq!(of(None, Some(4 * UNIT)), (4, 4), "a ceiling below it");
        assert_eq!(of(Some(2 * UNIT), Some(UNBOUNDED)), (2, UNBOUNDED / UNIT));
    }

    #[test]
    fn a_scrub_goes_on_with_one_unit_while_the_disk_is_filled() {
        let mut background = background();
        background.open_scrub(7, UNBOUNDED);
        assert_eq!(background.most(Loop::Scrub(7), 0), 8);
        background.has_in_work(Loop::Fill, 3);
        assert_eq!(background.most(Loop::Scrub(7), 0), 1);
        background.has_in_work(Loop::Fill, 0);
        assert_eq!(background.most(Loop::Scrub(7), 0), 8);
        background.keep_scrubs(&BTreeSet::new());
        assert_eq!(background.loops.len(), 3);
    }

    #[test]
    fn background_work_gives_way_to_what_a_volume_promises() {
        let mut background = background();
        background.open_scrub(1, UNBOUNDED);
        background.gives_way(ALL / 2);
        assert_eq!(background.most(Loop::Fill, 0), 8, "as if hosts used the disk");
        background.gives_way(1);
        let all = [Loop::Fill, Loop::Refresh, Loop::Scrub(1)];
        let begun = |which, background: &mut Background| {
            let (mut bytes, mut now) = (0, 2000 * MILLIS);
            while now < 12_000 * MILLIS {
                now += MILLIS;
                while background.begin(which, UNIT, now) {
                    bytes += UNIT;
                }
            }
            assert_eq!(background.most(which, now), 1, "{which:?}");
            bytes / 10
        };
        let floor = 8 << 20;
        let told = FillRates { floor, ceiling: UNBOUNDED };
        background.enter(told, &Settings::default());
        let least = FASTEST / ALL;
        for which in &all[1..] {
            let rate = begun(*which, &mut background);
            assert!((least / 2..=2 * least).contains(&rate), "{which:?}: {rate}");
        }
        let rate = begun(Loop::Fill, &mut background);
        assert!((floor / 5..=floor / 3).contains(&rate), "a quarter of the floor: {rate}");
        assert_eq!(background.most(Loop::RefreshFirst, 2000 * MILLIS), 64);
        assert!(background.begin(Loop::RefreshFirst, 1 << 40, 2000 * MILLIS));
        background.gives_way(ALL);
        assert_eq!(background.most(Loop::Fill, 2000 * MILLIS), 64);
        assert!(all.into_iter().all(|which| background.begin(which, 1 << 40, 2000 * MILLIS)));
    }

    #[test]
    fn each_scrub_keeps_to_a_rate_of_its_own() {
        let mut background = background();
        background.open_scrub(1, UNIT);
        background.open_scrub(2, UNBOUNDED);
        assert!(background.begin(Loop::Scrub(1), UNIT, 1000 * MILLIS));
        assert!(!background.begin(Loop::Scrub(1), UNIT, 1000 * MILLIS));
        assert!(background.begin(Loop::Scrub(2), UNIT, 1000 * MILLIS));
        assert!(background.begin(Loop::Scrub(1), UNIT, 2000 * MILLIS));
    }
}
