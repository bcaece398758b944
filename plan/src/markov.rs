//! A unit as a Markov chain: states by how many boxes and other disks are lost, whichever they are.
//!
//! For an MDS code the chain is exact. Of other codes a state is several sets of disks, and a set that was survived is
//! taken to be any of them; what comes of that is of second order in failure rate over repair rate. Repairs take
//! times that vary exponentially; as long as they are short against lifetimes, their mean alone matters.

use crate::chain::Chain;
use crate::losses::{Losses, State};
use crate::repair::RepairTime;
use crate::unit::Unit;

/// What the first loss was, in the order of [`Expected::shares`](crate::chain::Expected::shares).
pub const KINDS: [&str; 4] = ["disks", "boxes", "unreadable sectors", "deferred parity"];
const DISKS: usize = 0;
const BOXES: usize = 1;
const SECTORS: usize = 2;
const WAITING: usize = 3;

/// States with less chance to survive than this are not told apart from a loss.
const LEAST: f64 = 1e-9;
/// Disks lost together, beside boxes, beyond which all counts as lost.
const MOST_DISKS: usize = 24;

/// How often things fail, and how long they are repaired.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Failures of a disk that nobody foresaw, in an hour.
    pub disk: f64,
    /// Losses of a box with all disks in it, in an hour.
    pub boxes: f64,
    /// Until a disk's content is on another one.
    pub disk_repair: RepairTime,
    /// Until the content of a box's disks is on others.
    pub box_repair: RepairTime,
    /// How many disks are rebuilt at a time; 0 for all that are lost.
    pub at_once: usize,
    /// Unreadable places that are met for each byte that is read in a rebuild.
    pub unreadable: f64,
}

/// Parity that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// The share of time in which any does.
    pub unprotected: f64,
    /// Columns that may be lost even of stripes whose parity waits.
    pub bears: usize,
    /// Bytes lost with a column while any waits.
    pub bytes: f64,
}

/// The chain of a unit.
pub fn chain(losses: &Losses<'_>, unit: &Unit, rates: &Rates, waiting: Waiting) -> Chain {
    let states = states(losses, unit, rates);
    let mut chain = Chain::new(states.len(), KINDS.len());
    for (n, place) in states.iter().enumerate() {
        Building { losses, unit, rates, waiting, states: &states, chain: &mut chain }
            .state(n, place);
    }
    chain
}

/// Somewhere in a chain: boxes and other disks that are lost, and what is so then.
#[derive(Clone, Debug)]
struct Place {
    boxes: usize,
    disks: usize,
    state: State,
}

/// The states in which something may have survived, the first with nothing lost.
fn states(losses: &Losses<'_>, unit: &Unit, rates: &Rates) -> Vec<Place> {
    let most_boxes = if rates.boxes > 0.0 { unit.boxes } else { 0 };
    let mut out = Vec::new();
    for boxes in 0..=most_boxes {
        let left = unit.disks as f64 - boxes as f64 * unit.disks_in_box();
        let place = |disks| Place { boxes, disks, state: losses.state(boxes, disks) };
        let all = (0..=MOST_DISKS.min(left as usize)).map(place);
        let before = out.len();
        out.extend(all.take_while(|p| p.state.survived > LEAST));
        if out.len() == before {
            break;
        }
    }
    out
}

struct Building<'a> {
    losses: &'a Losses<'a>,
    unit: &'a Unit,
    rates: &'a Rates,
    waiting: Waiting,
    states: &'a [Place],
    chain: &'a mut Chain,
}

impl Building<'_> {
    fn state(&mut self, n: usize, place: &Place) {
        let left = self.unit.disks as f64 - place.boxes as f64 * self.unit.disks_in_box();
        let disks = (left - place.disks as f64).max(0.0);
        self.fail(n, place, (place.boxes, place.disks + 1), disks * self.rates.disk, DISKS);
        if self.rates.boxes > 0.0 {
            self.lose_a_box(n, place, left);
        }
        self.repair(n, place);
    }

    fn find(&self, boxes: usize, disks: usize) -> Option<usize> {
        self.states.iter().position(|p| (p.boxes, p.disks) == (boxes, disks))
    }

    /// A box goes, and with it some of the disks that were lost before.
    fn lose_a_box(&mut self, n: usize, place: &Place, left: f64) {
        let boxes = (self.unit.boxes - place.boxes) as f64;
        let inside = self.unit.disks_in_box().min(left);
        // The chance that none of the lost disks was in it; else one was: more hardly ever were.
        let apart = (0..place.disks)
            .map(|i| ((left - inside - i as f64) / (left - i as f64)).max(0.0))
            .product::<f64>();
        let rate = boxes * self.rates.boxes;
        self.fail(n, place, (place.boxes + 1, place.disks), rate * apart, BOXES);
        if place.disks > 0 {
            let to = (place.boxes + 1, place.disks - 1);
            self.fail(n, place, to, rate * (1.0 - apart), BOXES);
        }
    }

    /// Something fails: all is survived as far as the layout bears it.
    fn fail(&mut self, n: usize, from: &Place, to: (usize, usize), rate: f64, kind: usize) {
        let exposed = if self.exposes(from, to) { self.waiting.unprotected } else { 0.0 };
        self.chain.lose(n, WAITING, rate * exposed, self.waiting.bytes);
        let rate = rate * (1.0 - exposed);
        let found = self.find(to.0, to.1);
        let then = match found {
            Some(s) => self.states[s].state,
            None => State { survived: 0.0, ..self.losses.state(to.0, to.1) },
        };
        let survived = (then.survived / from.state.survived).min(1.0);
        if let Some(s) = found {
            self.chain.go(n, s, rate * survived);
        }
        let bytes = then.bytes / (1.0 - then.survived).max(f64::MIN_POSITIVE);
        self.chain.lose(n, kind, rate * (1.0 - survived), bytes.min(self.unit.data_bytes()));
    }

    /// Whether this is the loss that stripes whose parity waits do not bear.
    fn exposes(&self, from: &Place, to: (usize, usize)) -> bool {
        let in_box = self.unit.width().div_ceil(self.unit.slots().max(1));
        let columns = |boxes: usize, disks: usize| boxes * in_box + disks;
        let bears = self.waiting.bears;
        columns(from.boxes, from.disks) <= bears && columns(to.0, to.1) > bears
    }

    /// A disk or a box is rebuilt, if all can be read that must be.
    fn repair(&mut self, n: usize, place: &Place) {
        let (at_once, rates) = (self.rates.at_once, self.rates);
        let disks = if at_once == 0 { place.disks } else { place.disks.min(at_once) };
        if disks > 0 {
            let rate = disks as f64 / rates.disk_repair.hours(disks);
            self.rebuilt(
                n,
                (place.boxes, place.disks - 1),
                rate,
                place.state.critical_of_disk,
                place,
            );
        }
        if place.boxes > 0 {
            let rate = place.boxes as f64 / rates.box_repair.hours(place.boxes);
            self.rebuilt(
                n,
                (place.boxes - 1, place.disks),
                rate,
                place.state.critical_of_box,
                place,
            );
        }
    }

    fn rebuilt(&mut self, n: usize, to: (usize, usize), rate: f64, critical: f64, place: &Place) {
        let survived = place.state.survived.max(LEAST);
        let unreadable = -libm::expm1(-critical * self.rates.unreadable / survived);
        let to = self.find(to.0, to.1).expect("a state with fewer losses survives, too");
        self.chain.go(n, to, rate * (1.0 - unreadable));
        // What a sector is in: its place in each column that is lost.
        let columns =
            (place.disks + place.boxes * self.unit.width().div_ceil(self.unit.slots().max(1)) + 1)
                .min(self.unit.width()) as f64;
        let bytes = weft_core::SECTOR as f64 * columns * self.unit.data_share();
        self.chain.lose(n, SECTORS, rate * unreadable, bytes);
    }
}

#[cfg(test)]
mod tests {
    use weft_core::exposure::{Disks, Rates as Exposure};

    use super::*;
    use crate::chain::Expected;
    use crate::unit::group;

    const RATES: Rates = Rates {
        disk: 0.5e-6,
        boxes: 0.0,
        disk_repair: RepairTime { before_h: 48.0, alone_h: 0.0, shared_h: 0.0 },
        box_repair: RepairTime { before_h: 96.0, alone_h: 0.0, shared_h: 0.0 },
        at_once: 0,
        unreadable: 0.0,
    };

    fn solve(unit: &Unit, rates: &Rates, waiting: Waiting) -> Expected {
        chain(&Losses::of(unit), unit, rates, waiting).solve()
    }

    fn near(is: f64, should: f64, within: f64) {
        assert!((is / should - 1.0).abs() < within, "{is}, not {should}");
    }

    /// AFRAID's (1) and (3), where (1) leaves out what is small.
    #[test]
    fn raid_5_is_as_the_paper_says() {
        let unit = Unit { column_bytes: 2e9, ..group("rs:4+1", 0) };
        let expected = solve(&unit, &RATES, Waiting::default());
        let disks = Disks::new(5, 2e6);
        near(expected.mttdl_h, disks.mttdl_of_losses(2), 1e-3);
        let mdlr = disks.mdlr_catastrophic(2, 2e9, 0.8);
        near(expected.bytes / expected.mttdl_h, mdlr, 1e-3);
        assert_eq!(expected.shares, [1.0, 0.0, 0.0, 0.0]);
    }

    /// AFRAID's (2) and (5).
    #[test]
    fn parity_that_waits_is_as_the_paper_says() {
        let unit = Unit { column_bytes: 2e9, ..group("rs:4+1", 0) };
        let lag = 1e6;
        for unprotected in [0.001, 0.1, 1.0] {
            let waiting = Waiting { unprotected, bears: 0, bytes: lag / 4.0 / unprotected };
            let expected = solve(&unit, &RATES, waiting);
            let disks = Disks::new(5, 2e6);
            near(expected.mttdl_h, Exposure::new(&disks, 1, 0).mttdl(unprotected), 1e-3);
            let mdlr = disks.mdlr_catastrophic(2, 2e9, 0.8) * (1.0 - unprotected)
                + disks.mdlr_unprotected(1, lag);
            near(expected.bytes / expected.mttdl_h, mdlr, 2e-3);
        }
    }

    /// RAID 6 of which one parity waits bears one disk whatever waits.
    #[test]
    fn parity_that_does_not_wait_protects_what_does() {
        let unit = group("rs:4+2", 0);
        let none = solve(&unit, &RATES, Waiting::default()).mttdl_h;
        let waits =
            |bears| solve(&unit, &RATES, Waiting { unprotected: 0.1, bears, bytes: 1.0 }).mttdl_h;
        assert!(waits(0) < waits(1) && waits(1) < none);
        near(waits(0), 2e6 / 6.0 / 0.1, 1e-3);
        // One disk more in 48 hours, and then the chance that something waits.
        near(waits(1), 2e6 * 2e6 / (6.0 * 5.0 * 48.0) / 0.1, 1e-2);
    }

    /// More than four columns of sixteen are too many for LRC, and of four some sets: 252 of 1,820.
    #[test]
    fn other_codes_by_their_shares() {
        let unit = group("lrc:12+2+2", 0);
        let mttdl = solve(&unit, &RATES, Waiting::default()).mttdl_h;
        let (fails, hours) = (RATES.disk, RATES.disk_repair.hours(1));
        let ways = 16.0 * 15.0 * 14.0 * 13.0 / 6.0;
        let rate = ways * fails.powi(4) * hours.powi(3) * 252.0 / 1820.0;
        near(mttdl, 1.0 / rate, 1e-2);
    }

    /// A rebuild of RAID 5 reads four disks; 1e-14 for each bit of 4 TB is a chance of 27 %.
    #[test]
    fn unreadable_sectors_end_a_rebuild() {
        let unit = group("rs:4+1", 0);
        let rates = Rates { unreadable: 8e-14, ..RATES };
        let expected = solve(&unit, &rates, Waiting::default());
        let chance = 1.0 - (-0.32f64).exp();
        near(expected.mttdl_h, 2e6 / 5.0 / chance, 1e-2);
        assert!(expected.shares[SECTORS] > 0.99);
        // A second parity reads them again.
        let two = solve(&group("rs:4+2", 0), &rates, Waiting::default());
        assert!(two.mttdl_h > 1e3 * expected.mttdl_h);
    }

    /// Two boxes of RAID 5's disks are one too many: the array lasts as long as they.
    #[test]
    fn boxes_are_lost_whole() {
        let rates = Rates { boxes: 1e-5, ..RATES };
        let expected = solve(&group("rs:4+1", 2), &rates, Waiting::default());
        near(expected.mttdl_h, 1e5 / 2.0, 1e-2);
        assert!(expected.shares[BOXES] > 0.99);
        // A box for each column: two of them, or a disk and a box, in the time of a repair.
        let apart = solve(&group("rs:4+1", 5), &rates, Waiting::default());
        let (boxes, disks) = (5.0 * rates.boxes, 5.0 * rates.disk);
        let two = boxes * 96.0 * (boxes + disks) * 0.8 + disks * 48.0 * (boxes + disks) * 0.8;
        near(apart.mttdl_h, 1.0 / two, 1e-2);
    }

    /// One rebuild at a time takes as long for three as three do.
    #[test]
    fn rebuilds_side_by_side_are_sooner_done() {
        let unit = group("rs:4+3", 0);
        let all = solve(&unit, &RATES, Waiting::default()).mttdl_h;
        let one = solve(&unit, &Rates { at_once: 1, ..RATES }, Waiting::default()).mttdl_h;
        near(all / one, 6.0, 1e-2);
    }

    /// What all rebuilds share gives each a part of it: together they are no sooner done than one by one.
    #[test]
    fn rebuilds_that_share_all_are_no_sooner_done() {
        let unit = group("rs:4+3", 0);
        let shared = RepairTime { before_h: 0.0, alone_h: 0.0, shared_h: 48.0 };
        let of = |at_once| {
            let rates = Rates { disk_repair: shared, at_once, ..RATES };
            solve(&unit, &rates, Waiting::default()).mttdl_h
        };
        near(of(0) / of(1), 1.0, 1e-9);
    }
}
