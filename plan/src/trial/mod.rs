//! A unit's mission played through, again and again: disks and boxes that fail, and what is on them that is rebuilt.
//!
//! Losses are rare, and so are rare paths to them made frequent (importance sampling by failure biasing; Nicola,
//! Shahabuddin and Nakayama, 2001). Each time something fails in a unit that was whole, the play goes on twice. A
//! branch that ends when the unit is whole again, or has lost something, has all failures come more often, and what it
//! finds counts by how likely it would have been. The play itself goes on without bias. So weights never multiply over
//! a mission, ages are those of disks, and lifetimes may have any hazard.
//!
//! Which sets are recoverable is asked of the layout for the very disks that are lost, extent by extent.

use std::collections::BTreeSet;

use weft_core::units::ColumnSet;

use crate::lifetime::Lifetime;
use crate::markov::Waiting;
use crate::repair::RepairTime;
use crate::unit::Unit;

/// What is played.
#[derive(Clone, Debug)]
pub struct Play<'a> {
    /// What fails.
    pub unit: &'a Unit,
    /// How long disks live, those failures left out that are foreseen.
    pub disk: Lifetime,
    /// Losses of a box with all disks in it, in an hour.
    pub boxes: f64,
    /// Until a disk's content is on another one.
    pub disk_repair: RepairTime,
    /// Until the content of a box's disks is on others.
    pub box_repair: RepairTime,
    /// Whether repairs take these times each, or on the mean, varying exponentially.
    pub fixed_repairs: bool,
    /// How many disks are rebuilt at a time; 0 for all that are lost.
    pub at_once: usize,
    /// Unreadable places that are met for each byte that is read in a rebuild.
    pub unreadable: f64,
    /// Parity that waits.
    pub waiting: Waiting,
    /// Hours of the mission.
    pub mission_h: f64,
}

/// What came out of the trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The chance of a loss in the mission.
    pub chance: f64,
    /// Half of the interval that has it with 95 %.
    pub ci95: f64,
    /// Trials.
    pub trials: u32,
}

impl Estimate {
    /// Whether the interval has this chance.
    pub fn has(&self, chance: f64) -> bool {
        (self.chance - chance).abs() <= self.ci95
    }
}

/// Failures that a branch is made to see in the time of a repair, for each repair that is under way. At 1 and above
/// long repairs would have weights whose variance is infinite.
const PRESSURE: f64 = 0.6;
/// Branches for each play that leaves the state in which all is whole.
const BRANCHES: u32 = 4;

impl Play<'_> {
    /// Plays this many missions, and tells of each that is over.
    pub fn run(&self, trials: u32, seed: u64, told: &mut dyn FnMut()) -> Estimate {
        let mut random = fastrand::Rng::with_seed(seed);
        let lies = Lies::of(self.unit, &mut random);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..trials {
            let found = Run::new(self, &lies, &mut random).mission();
            sum += found;
            squares += found * found;
            told();
        }
        let n = f64::from(trials);
        let mean = sum / n;
        let variance = (squares / n - mean * mean).max(0.0) / (n - 1.0).max(1.0);
        Estimate { chance: mean, ci95: 1.96 * variance.sqrt(), trials }
    }
}

/// Where extents lie.
#[derive(Debug)]
struct Lies {
    /// The disks of each extent, by column.
    disks: Vec<Vec<usize>>,
    /// The extents of each disk, and which column it is.
    extents: Vec<Vec<(usize, usize)>>,
}

impl Lies {
    fn of(unit: &Unit, random: &mut fastrand::Rng) -> Lies {
        let disks: Vec<Vec<usize>> = (0..unit.extents).map(|_| choose(unit, random)).collect();
        let mut extents = vec![Vec::new(); unit.disks];
        for (extent, disks) in disks.iter().enumerate() {
            for (column, disk) in disks.iter().enumerate() {
                extents[*disk].push((extent, column));
            }
        }
        Lies { disks, extents }
    }
}

/// The disks of an extent. Disk n is in box n modulo their number, and so is the column that lies on it.
fn choose(unit: &Unit, random: &mut fastrand::Rng) -> Vec<usize> {
    if unit.disks == unit.width() {
        return (0..unit.disks).collect();
    }
    let mut disks: Vec<usize> = (0..unit.disks).collect();
    random.shuffle(&mut disks);
    if unit.boxes == 0 {
        disks.truncate(unit.width());
        return disks;
    }
    let mut boxes: Vec<usize> = (0..unit.boxes).collect();
    random.shuffle(&mut boxes);
    let mut free = |column: usize| {
        let own = boxes[column % unit.slots()];
        let at = disks.iter().position(|d| d % unit.boxes == own);
        disks.swap_remove(at.expect("a box has a disk for each of its columns"))
    };
    (0..unit.width()).map(&mut free).collect()
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    Disk(usize),
    Box(usize),
    Whole(usize),
}

/// A disk's content on its way to another one.
#[derive(Clone, Copy, Debug)]
struct Repair {
    /// When it is there: never, while the rebuild waits for its turn.
    at: f64,
    /// How long it takes on the mean, as long as as many are under way.
    hours: f64,
    /// Whether it is that of a box, with all its disks.
    of_box: bool,
}

/// One play.
struct Run<'a, 'r> {
    play: &'a Play<'a>,
    lies: &'a Lies,
    random: &'r mut fastrand::Rng,
    now: f64,
    /// When each disk was new.
    born: Vec<f64>,
    /// What is left of each disk's and then each box's life: cumulated hazard, of mean 1.
    budgets: Vec<f64>,
    /// What is done about each disk that is lost.
    repairs: Vec<Option<Repair>>,
    lost: usize,
    /// How many times more often all fails than it would.
    bias: f64,
    /// How likely what happened is, over how likely it was made.
    weight: f64,
}

impl<'a, 'r> Run<'a, 'r> {
    fn new(play: &'a Play<'a>, lies: &'a Lies, random: &'r mut fastrand::Rng) -> Self {
        let (disks, boxes) = (play.unit.disks, if play.boxes > 0.0 { play.unit.boxes } else { 0 });
        let budgets = (0..disks + boxes).map(|_| exponential(random)).collect();
        let (born, repairs) = (vec![0.0; disks], vec![None; disks]);
        Run {
            play,
            lies,
            random,
            now: 0.0,
            born,
            budgets,
            repairs,
            lost: 0,
            bias: 1.0,
            weight: 1.0,
        }
    }

    /// The whole mission: an estimate of the chance that it loses something.
    fn mission(mut self) -> f64 {
        let (mut found, mut safe) = (0.0, 1.0);
        while let Some((at, event)) = self.next() {
            let begins = self.lost == 0;
            self.advance(at);
            if begins {
                let all: f64 = (0..BRANCHES).map(|_| self.branch().until_whole(event)).sum();
                found += safe * all / f64::from(BRANCHES);
            }
            let (survived, at_once) = self.happen(event);
            safe *= 1.0 - at_once;
            if !survived {
                break;
            }
        }
        found
    }

    /// The same unit with failures that come more often, and other luck.
    fn branch(&mut self) -> Run<'a, '_> {
        let count = self.budgets.len();
        Run {
            play: self.play,
            lies: self.lies,
            now: self.now,
            born: self.born.clone(),
            budgets: (0..count).map(|_| exponential(self.random)).collect(),
            repairs: self.repairs.clone(),
            lost: self.lost,
            bias: 1.0,
            weight: 1.0,
            random: self.random,
        }
    }

    /// How much more often things are to fail now.
    fn pressure(&self) -> f64 {
        let mut repairs: Vec<Repair> =
            self.repairs.iter().flatten().copied().filter(|r| r.at.is_finite()).collect();
        // What ends together is one repair.
        repairs.sort_by(|a, b| a.at.total_cmp(&b.at));
        repairs.dedup_by_key(|r| r.at);
        let per_h: f64 = repairs.iter().map(|r| 1.0 / r.hours).sum();
        let hours = self.play.disk_repair.hours(1);
        (PRESSURE * per_h * hours / (self.hazard_within(hours) + f64::MIN_POSITIVE)).max(1.0)
    }

    /// All failures that are expected in so many hours.
    fn hazard_within(&self, hours: f64) -> f64 {
        (0..self.budgets.len()).map(|n| self.hazard(n, self.now + hours)).sum()
    }

    /// The hazard of disk or box `n` from now until `then`; none of a disk that is lost.
    fn hazard(&self, n: usize, then: f64) -> f64 {
        match self.born.get(n) {
            None => (then - self.now) * self.play.boxes,
            Some(_) if self.repairs[n].is_some() => 0.0,
            Some(born) => self.play.disk.hazard(self.now - born, then - born),
        }
    }

    /// Plays until all is whole: the chance, by weight, that something is lost before.
    fn until_whole(&mut self, first: Event) -> f64 {
        let mut found = 0.0;
        let mut event = first;
        loop {
            let (survived, at_once) = self.happen(event);
            found += self.weight * at_once;
            self.weight *= 1.0 - at_once;
            if !survived {
                return found + self.weight;
            }
            if self.lost == 0 {
                return found;
            }
            self.bias = self.pressure();
            let Some((at, next)) = self.next() else { return found };
            self.advance(at);
            if !matches!(next, Event::Whole(_)) {
                self.weight /= self.bias;
            }
            event = next;
        }
    }

    /// What happens next within the mission, and when.
    fn next(&self) -> Option<(f64, Event)> {
        let mut first = (self.play.mission_h, None);
        let mut consider = |at: f64, event: Event| {
            if at < first.0 {
                first = (at, Some(event));
            }
        };
        for disk in 0..self.born.len() {
            match self.repairs[disk] {
                Some(repair) => consider(repair.at, Event::Whole(disk)),
                None => {
                    let age = self.now - self.born[disk];
                    let then = self.play.disk.age_after(age, self.budgets[disk] / self.bias);
                    consider(self.born[disk] + then, Event::Disk(disk));
                }
            }
        }
        for (n, budget) in self.budgets[self.born.len()..].iter().enumerate() {
            consider(self.now + budget / self.bias / self.play.boxes, Event::Box(n));
        }
        let (at, event) = first;
        Some((at, event?))
    }

    /// Lets time pass, in which nothing happens but at its end.
    fn advance(&mut self, to: f64) {
        for n in 0..self.budgets.len() {
            let hazard = self.hazard(n, to);
            self.budgets[n] = (self.budgets[n] - hazard * self.bias).max(0.0);
            self.weight *= libm::exp(hazard * (self.bias - 1.0));
        }
        self.now = to;
    }

    /// Has it happen: whether the layout bears it, and the chance that something is lost all the same, since it
    /// cannot be read or its parity waits.
    fn happen(&mut self, event: Event) -> (bool, f64) {
        let before = self.lost;
        let out = match event {
            Event::Disk(disk) => {
                self.lose(disk);
                self.queue();
                (self.survives(&[disk]), self.exposed(before))
            }
            Event::Box(n) => {
                let gone = self.lose_box(n);
                (self.survives(&gone), self.exposed(before))
            }
            Event::Whole(disk) => {
                let unreadable = -libm::expm1(-self.critical(disk) * self.play.unreadable);
                self.repairs[disk] = None;
                self.lost -= 1;
                self.born[disk] = self.now;
                self.budgets[disk] = exponential(self.random);
                self.queue();
                (true, unreadable)
            }
        };
        self.share();
        out
    }

    /// A box is lost: its disks that were not. What it held is whole again at once.
    fn lose_box(&mut self, n: usize) -> Vec<usize> {
        let boxes = self.play.unit.boxes;
        let all: Vec<usize> = (0..self.born.len()).filter(|d| d % boxes == n).collect();
        let gone: Vec<usize> = all.iter().copied().filter(|d| self.repairs[*d].is_none()).collect();
        let hours = self.play.box_repair.hours(1);
        let repair = Repair { at: self.now + self.takes(hours), hours, of_box: true };
        all.into_iter().for_each(|disk| self.repairs[disk] = Some(repair));
        self.lost += gone.len();
        let index = self.born.len() + n;
        self.budgets[index] = exponential(self.random);
        gone
    }

    /// The chance that what waits for its parity is lost, now that more are than were before.
    fn exposed(&self, before: usize) -> f64 {
        let Waiting { unprotected, bears, .. } = self.play.waiting;
        if before <= bears && self.lost > bears { unprotected } else { 0.0 }
    }

    /// A disk is lost, and rebuilt at once or when it has its turn.
    fn lose(&mut self, disk: usize) {
        self.lost += 1;
        let hours = self.play.disk_repair.hours(1);
        let takes = if self.play.at_once > 0 { f64::INFINITY } else { self.takes(hours) };
        self.repairs[disk] = Some(Repair { at: self.now + takes, hours, of_box: false });
    }

    /// Begins the rebuilds that have their turn.
    fn queue(&mut self) {
        let at_once = self.play.at_once;
        let busy = self.repairs.iter().flatten().filter(|r| r.at.is_finite()).count();
        for _ in busy..at_once {
            let waits = |r: &Option<Repair>| r.is_some_and(|r| r.at.is_infinite());
            let Some(next) = self.repairs.iter().position(waits) else { return };
            let hours = self.play.disk_repair.hours(1);
            let at = self.now + self.takes(hours);
            self.repairs[next] = Some(Repair { at, hours, of_box: false });
        }
    }

    /// Repairs go on at the pace of as many as are under way now: the rest of each takes longer or shorter in proportion.
    fn share(&mut self) {
        let boxes = self.play.unit.boxes.max(1);
        let (mut disks, mut in_boxes) = (0, BTreeSet::new());
        for (disk, repair) in self.repairs.iter().enumerate() {
            match repair {
                Some(repair) if repair.of_box => drop(in_boxes.insert(disk % boxes)),
                Some(repair) if repair.at.is_finite() => disks += 1,
                _ => (),
            }
        }
        let of_disk = self.play.disk_repair.hours(disks);
        let of_box = self.play.box_repair.hours(in_boxes.len());
        for repair in self.repairs.iter_mut().flatten().filter(|r| r.at.is_finite()) {
            let hours = if repair.of_box { of_box } else { of_disk };
            // An unchanged time stays the same to the last digit: a box's disks end together.
            if hours != repair.hours {
                repair.at = self.now + (repair.at - self.now) * hours / repair.hours;
                repair.hours = hours;
            }
        }
    }

    /// How long this repair takes.
    fn takes(&mut self, mean: f64) -> f64 {
        match self.play.fixed_repairs {
            true => mean,
            false => mean * exponential(self.random),
        }
    }

    /// The columns of an extent that are lost.
    fn lost_of(&self, extent: usize) -> ColumnSet {
        let disks = self.lies.disks[extent].iter().enumerate();
        disks.filter(|(_, d)| self.repairs[**d].is_some()).map(|(c, _)| c).collect()
    }

    /// Whether all extents of these disks can be recovered.
    fn survives(&self, disks: &[usize]) -> bool {
        let extents = disks.iter().flat_map(|d| &self.lies.extents[*d]);
        let geometry = &self.play.unit.geometry;
        extents.into_iter().all(|(e, _)| geometry.is_always_recoverable(self.lost_of(*e)))
    }

    /// Bytes that must be readable to rebuild a disk, and cannot be computed.
    fn critical(&self, disk: usize) -> f64 {
        if self.play.unreadable == 0.0 {
            return 0.0;
        }
        let unit = self.play.unit;
        let of = |extent: usize| {
            let lost = self.lost_of(extent);
            let fatal =
                |c: &usize| !unit.geometry.is_always_recoverable(lost.union(ColumnSet::of(*c)));
            ColumnSet::first(unit.width()).minus(lost).iter().filter(fatal).count()
        };
        let columns: usize = self.lies.extents[disk].iter().map(|(e, _)| of(*e)).sum();
        columns as f64 * unit.column_bytes
    }
}

/// A number of mean 1, exponentially distributed.
fn exponential(random: &mut fastrand::Rng) -> f64 {
    -libm::log1p(-random.f64())
}

#[cfg(test)]
mod tests;
