//! Persistent reservations: which hosts may read or write a volume while one of them has reserved it.
//!
//! These are the rules of SCSI's persistent reservations (SPC-4, 5.13), without its encodings. A host registers a key
//! through a port, and then may reserve the volume, or take a reservation from others. All of it is part of the map, so
//! that it is the same at all nodes, and changes with an epoch.
//!
//! A write names the [version](Reservations::version) under which it was permitted. No attempt at it begins under a later
//! one, and no attempt outlives the epoch that it began in: so once a change of reservations has been answered, no write
//! takes effect that it forbids.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ClusterMap;
use crate::units::VolumeId;

/// The most registrants of a volume.
pub const MOST_REGISTRANTS: usize = 128;

/// The longest name of a host that registers.
pub const LONGEST_REGISTRANT: usize = 288;

/// Of so many changes of a volume's reservations it is known what became of them.
const OUTCOMES: usize = 2 * MOST_REGISTRANTS;

/// Who registers: a host, and the port that it comes through (SCSI's I_T nexus).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registrant {
    /// The host's name, as its protocol has it.
    pub host: String,
    /// The port: the process that serves the host.
    pub port: u16,
}

/// What a reservation allows others than its holder (SPC-4, table 56).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationKind {
    /// Others may read.
    WriteExclusive,
    /// Others may neither read nor write.
    ExclusiveAccess,
    /// Registrants may read and write, others read.
    WriteExclusiveRegistrants,
    /// Registrants may read and write, others neither.
    ExclusiveAccessRegistrants,
    /// All registrants hold it; others may read.
    WriteExclusiveAllRegistrants,
    /// All registrants hold it; others may neither read nor write.
    ExclusiveAccessAllRegistrants,
}

use ReservationKind::*;

impl ReservationKind {
    /// All kinds.
    pub const ALL: [ReservationKind; 6] = [
        WriteExclusive,
        ExclusiveAccess,
        WriteExclusiveRegistrants,
        ExclusiveAccessRegistrants,
        WriteExclusiveAllRegistrants,
        ExclusiveAccessAllRegistrants,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WriteExclusive => "write-exclusive",
            ExclusiveAccess => "exclusive-access",
            WriteExclusiveRegistrants => "write-exclusive-registrants",
            ExclusiveAccessRegistrants => "exclusive-access-registrants",
            WriteExclusiveAllRegistrants => "write-exclusive-all-registrants",
            ExclusiveAccessAllRegistrants => "exclusive-access-all-registrants",
        }
    }

    /// Whether those that may not write may not read either.
    fn excludes_reads(self) -> bool {
        matches!(self, ExclusiveAccess | ExclusiveAccessRegistrants | ExclusiveAccessAllRegistrants)
    }

    /// Whether every registrant may do what the holder may.
    pub fn serves_registrants(self) -> bool {
        !matches!(self, WriteExclusive | ExclusiveAccess)
    }

    /// Whether every registrant holds it.
    pub fn is_held_by_all(self) -> bool {
        matches!(self, WriteExclusiveAllRegistrants | ExclusiveAccessAllRegistrants)
    }
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// What it allows.
    pub kind: ReservationKind,
    /// Who made it. If all registrants hold it, this one may have left.
    pub holder: Registrant,
}

/// The registrants of a volume, and its reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reservations {
    /// Counts the changes; 0 as long as there was none.
    pub version: u64,
    /// Counts changes of registrants, as hosts are told.
    pub generation: u32,
    /// The registrants and their keys, which are not zero.
    pub registered: BTreeMap<Registrant, u64>,
    /// The reservation, if there is one.
    pub reservation: Option<Reservation>,
    /// What became of the latest changes, by the numbers that those who asked for them gave them.
    pub outcomes: Vec<(u64, ReservationOutcome)>,
}

/// What a registrant, or who wants to be one, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationAction {
    /// Register a key in place of another; zero stands for none.
    Register {
        /// The key that is registered; anything, if `ignores`.
        key: u64,
        /// The new one.
        new: u64,
        /// Whatever is registered.
        ignores: bool,
    },
    /// Reserve the volume.
    Reserve {
        /// The registrant's key.
        key: u64,
        /// How.
        kind: ReservationKind,
    },
    /// Give the reservation up.
    Release {
        /// The registrant's key.
        key: u64,
        /// How it was reserved.
        kind: ReservationKind,
    },
    /// Remove all registrants and the reservation.
    Clear {
        /// The registrant's key.
        key: u64,
    },
    /// Remove the registrants with a key, and take the reservation if it was theirs.
    Preempt {
        /// The registrant's key.
        key: u64,
        /// The key of those that are removed.
        victim: u64,
        /// How the volume is reserved then.
        kind: ReservationKind,
    },
    /// An operator removes all registrants and the reservation.
    ClearByOperator,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationOutcome {
    /// It is done.
    Done,
    /// Who asked is not registered with this key, or the reservation is another's.
    Conflict,
    /// It is reserved in another way than was said.
    WrongRelease,
    /// There must be a key.
    NoKey,
    /// There are too many registrants.
    Full,
}

impl ReservationOutcome {
    /// All of them.
    pub const ALL: [ReservationOutcome; 5] = [
        ReservationOutcome::Done,
        ReservationOutcome::Conflict,
        ReservationOutcome::WrongRelease,
        ReservationOutcome::NoKey,
        ReservationOutcome::Full,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ReservationOutcome::Done => "done",
            ReservationOutcome::Conflict => "conflict",
            ReservationOutcome::WrongRelease => "wrong-release",
            ReservationOutcome::NoKey => "no-key",
            ReservationOutcome::Full => "full",
        }
    }
}

/// A change of a volume's reservations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReservationChange {
    /// The volume.
    pub volume: VolumeId,
    /// Who asks.
    pub who: Registrant,
    /// For what.
    pub action: ReservationAction,
    /// A number drawn at random, to know the outcome by.
    pub stamp: u64,
}

impl ReservationChange {
    /// Makes it, as far as it may be made, and notes what became of it.
    pub fn apply(&self, map: &mut ClusterMap) {
        let Some(volume) = map.volumes.get_mut(&self.volume) else { return };
        Arc::make_mut(volume).reservations.take(self);
    }
}

impl Reservations {
    /// Whether a host may read, or write if it `writes`. One without a registrant's name cannot be registered.
    pub fn permit(&self, who: Option<&Registrant>, writes: bool) -> bool {
        let Some(Reservation { kind, holder }) = &self.reservation else { return true };
        let is_registered = who.is_some_and(|who| self.registered.contains_key(who));
        let holds = !kind.is_held_by_all() && who == Some(holder);
        let may_all = (kind.serves_registrants() && is_registered) || holds;
        may_all || !(writes || kind.excludes_reads())
    }

    /// What became of a change, if it is known.
    pub fn outcome(&self, stamp: u64) -> Option<ReservationOutcome> {
        self.outcomes.iter().find(|(s, _)| *s == stamp).map(|(_, outcome)| *outcome)
    }

    /// What becomes of a change, if it changes nothing.
    pub fn changes_nothing(&self, change: &ReservationChange) -> Option<ReservationOutcome> {
        let mut then = self.clone();
        then.take(change);
        then.outcome(change.stamp).filter(|_| then.version == self.version)
    }

    /// One that is asked for twice is made once.
    fn take(&mut self, change: &ReservationChange) {
        if self.outcome(change.stamp).is_some() {
            return;
        }
        let before = (self.generation, self.registered.clone(), self.reservation.clone());
        let outcome =
            self.act(&change.who, change.action).err().unwrap_or(ReservationOutcome::Done);
        debug_assert!(
            outcome == ReservationOutcome::Done || self.is_as(&before),
            "what is refused changes nothing"
        );
        self.version += u64::from(!self.is_as(&before));
        if self.outcomes.len() >= OUTCOMES {
            self.outcomes.remove(0);
        }
        self.outcomes.push((change.stamp, outcome));
    }

    fn is_as(
        &self,
        (generation, registered, reservation): &(
            u32,
            BTreeMap<Registrant, u64>,
            Option<Reservation>,
        ),
    ) -> bool {
        self.generation == *generation
            && self.registered == *registered
            && self.reservation == *reservation
    }

    /// Refuses who is not registered with a key.
    fn require(&self, who: &Registrant, key: u64) -> Result<(), ReservationOutcome> {
        match self.registered.get(who) {
            Some(registered) if *registered == key => Ok(()),
            _ => Err(ReservationOutcome::Conflict),
        }
    }

    /// Whether a registrant holds the reservation.
    pub fn is_holder(&self, who: &Registrant) -> bool {
        let holds = |r: &Reservation| match r.kind.is_held_by_all() {
            true => self.registered.contains_key(who),
            false => r.holder == *who,
        };
        self.reservation.as_ref().is_some_and(holds)
    }

    fn act(
        &mut self,
        who: &Registrant,
        action: ReservationAction,
    ) -> Result<(), ReservationOutcome> {
        match action {
            ReservationAction::Register { key, new, ignores } => {
                if !ignores && self.registered.get(who).copied().unwrap_or(0) != key {
                    return Err(ReservationOutcome::Conflict);
                }
                self.register(who, new)
            }
            ReservationAction::Reserve { key, kind } => {
                self.require(who, key)?;
                let holds = self.is_holder(who);
                match &self.reservation {
                    Some(r) if holds && r.kind == kind => {}
                    Some(_) => return Err(ReservationOutcome::Conflict),
                    None => self.reservation = Some(Reservation { kind, holder: who.clone() }),
                }
                Ok(())
            }
            ReservationAction::Release { key, kind } => {
                self.require(who, key)?;
                if !self.is_holder(who) {
                    return Ok(());
                }
                if self.reservation.as_ref().is_some_and(|r| r.kind != kind) {
                    return Err(ReservationOutcome::WrongRelease);
                }
                self.reservation = None;
                Ok(())
            }
            ReservationAction::Clear { key } => {
                self.require(who, key)?;
                self.clear();
                Ok(())
            }
            ReservationAction::ClearByOperator => {
                self.clear();
                Ok(())
            }
            ReservationAction::Preempt { key, victim, kind } => {
                self.require(who, key)?;
                self.preempt(who, victim, kind)
            }
        }
    }

    fn clear(&mut self) {
        self.registered.clear();
        self.reservation = None;
        self.generation = self.generation.wrapping_add(1);
    }

    fn register(&mut self, who: &Registrant, new: u64) -> Result<(), ReservationOutcome> {
        let is_known = self.registered.contains_key(who);
        match new {
            0 if !is_known => return Ok(()),
            0 => self.unregister(who),
            _ if !is_known && self.registered.len() >= MOST_REGISTRANTS => {
                return Err(ReservationOutcome::Full);
            }
            _ => drop(self.registered.insert(who.clone(), new)),
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// A registrant goes, and its reservation with it; one that all hold goes with the last of them.
    fn unregister(&mut self, who: &Registrant) {
        let held = self.is_holder(who);
        self.registered.remove(who);
        let is_over = |r: &mut Reservation| match r.kind.is_held_by_all() {
            true => self.registered.is_empty(),
            false => held,
        };
        self.reservation.take_if(is_over);
    }

    /// SPC-4, 5.13.11.4 and 5.13.11.5.
    fn preempt(
        &mut self,
        who: &Registrant,
        victim: u64,
        kind: ReservationKind,
    ) -> Result<(), ReservationOutcome> {
        let takes = match &self.reservation {
            None => false,
            Some(r) if r.kind.is_held_by_all() => victim == 0,
            Some(r) => self.registered.get(&r.holder) == Some(&victim),
        };
        let removes = |key: u64| (takes && victim == 0) || key == victim;
        if victim == 0 && !takes {
            return Err(ReservationOutcome::NoKey);
        }
        if !takes && !self.registered.values().any(|key| removes(*key)) {
            return Err(ReservationOutcome::Conflict);
        }
        let left = |other: &Registrant, key: &mut u64| other == who || !removes(*key);
        self.registered.retain(left);
        if takes {
            self.reservation = Some(Reservation { kind, holder: who.clone() });
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// The first fault found in them, if any.
    pub(super) fn wrong(&self) -> Option<String> {
        if self.registered.len() > MOST_REGISTRANTS || self.outcomes.len() > OUTCOMES {
            return Some("a volume has more registrants, or outcomes, than there can be".into());
        }
        let too_long = |r: &&Registrant| r.host.len() > LONGEST_REGISTRANT;
        if let Some(long) = self.registered.keys().find(too_long) {
            return Some(format!("a registrant's name has {} bytes", long.host.len()));
        }
        if self.registered.values().any(|key| *key == 0) {
            return Some("a registrant has no key".into());
        }
        let held = self.reservation.as_ref().map(|r| match r.kind.is_held_by_all() {
            true => !self.registered.is_empty(),
            false => self.registered.contains_key(&r.holder),
        });
        (held == Some(false)).then(|| "a reservation has no holder that is registered".into())
    }
}

#[cfg(test)]
mod tests {
    use super::ReservationAction::*;
    use super::*;

    fn name(host: &str) -> Registrant {
        Registrant { host: host.into(), port: 1 }
    }

    /// Makes a change and says what became of it.
    fn ask(r: &mut Reservations, who: &str, action: ReservationAction) -> ReservationOutcome {
        let stamp = r.outcomes.last().map_or(1, |(stamp, _)| stamp + 1);
        let version = r.version;
        r.take(&ReservationChange { volume: VolumeId(0), who: name(who), action, stamp });
        assert_eq!(r.wrong(), None);
        let outcome = r.outcome(stamp).expect("the latest is known");
        assert!(
            outcome == ReservationOutcome::Done || r.version == version,
            "what is refused changes nothing"
        );
        outcome
    }

    fn register(r: &mut Reservations, who: &str, key: u64) {
        assert_eq!(
            ask(r, who, Register { key: 0, new: key, ignores: false }),
            ReservationOutcome::Done
        );
    }

    /// A, B and C are registered with keys 1, 2, 3; A has reserved it.
    fn reserved(kind: ReservationKind) -> Reservations {
        let mut r = Reservations::default();
        for (who, key) in [("a", 1), ("b", 2), ("c", 3)] {
            register(&mut r, who, key);
        }
        assert_eq!(ask(&mut r, "a", Reserve { key: 1, kind }), ReservationOutcome::Done);
        r
    }

    #[test]
    fn a_registrant_gives_its_key_to_change_it() {
        let mut r = Reservations::default();
        let to = |key, new| Register { key, new, ignores: false };
        assert_eq!(ask(&mut r, "a", to(5, 6)), ReservationOutcome::Conflict, "it has none");
        assert_eq!(ask(&mut r, "a", to(0, 0)), ReservationOutcome::Done);
        assert_eq!((r.version, r.generation), (0, 0), "nothing has changed");
        assert_eq!(ask(&mut r, "a", to(0, 5)), ReservationOutcome::Done);
        assert_eq!(ask(&mut r, "a", to(0, 6)), ReservationOutcome::Conflict);
        assert_eq!(ask(&mut r, "a", to(5, 6)), ReservationOutcome::Done);
        assert_eq!(
            ask(&mut r, "a", Register { key: 9, new: 7, ignores: true }),
            ReservationOutcome::Done
        );
        assert_eq!((r.registered[&name("a")], r.generation), (7, 3));
        assert_eq!(ask(&mut r, "a", to(7, 0)), ReservationOutcome::Done);
        assert!(r.registered.is_empty());
        assert!((0..MOST_REGISTRANTS).all(|n| {
            let first = Register { key: 0, new: 1, ignores: false };
            ask(&mut r, &n.to_string(), first) == ReservationOutcome::Done
        }));
        assert_eq!(ask(&mut r, "one more", to(0, 5)), ReservationOutcome::Full);
        let more = |r: &mut Reservations| ask(r, "7", to(1, 1));
        for _ in 0..OUTCOMES {
            more(&mut r);
        }
        assert_eq!(r.outcomes.len(), OUTCOMES, "the oldest are forgotten");
    }

    /// SPC-4, table 56, and whom each kind serves.
    #[test]
    fn who_may_read_and_write_under_each_kind() {
        for kind in ReservationKind::ALL {
            let r = reserved(kind);
            let may = |who: Option<&str>| {
                let who = who.map(name);
                (r.permit(who.as_ref(), false), r.permit(who.as_ref(), true))
            };
            let excluded = (!kind.excludes_reads(), false);
            let registrant = if kind.serves_registrants() { (true, true) } else { excluded };
            assert_eq!(may(Some("a")), (true, true), "{kind:?}");
            assert_eq!(may(Some("b")), registrant, "{kind:?}");
            assert_eq!((may(Some("x")), may(None)), (excluded, excluded), "{kind:?}");
        }
        assert!(Reservations::default().permit(None, true));
    }

    #[test]
    fn a_reservation_is_its_holders() {
        for kind in ReservationKind::ALL {
            let mut r = reserved(kind);
            let all = kind.is_held_by_all();
            let by_b = if all { ReservationOutcome::Done } else { ReservationOutcome::Conflict };
            assert_eq!(
                ask(&mut r, "a", Reserve { key: 1, kind }),
                ReservationOutcome::Done,
                "again"
            );
            assert_eq!(ask(&mut r, "b", Reserve { key: 2, kind }), by_b);
            assert_eq!(ask(&mut r, "b", Reserve { key: 1, kind }), ReservationOutcome::Conflict);
            let other = ReservationKind::ALL.into_iter().find(|k| *k != kind).unwrap();
            assert_eq!(
                ask(&mut r, "a", Reserve { key: 1, kind: other }),
                ReservationOutcome::Conflict
            );
            assert_eq!(
                ask(&mut r, "a", Release { key: 1, kind: other }),
                ReservationOutcome::WrongRelease
            );
            if !all {
                assert_eq!(ask(&mut r, "b", Release { key: 2, kind }), ReservationOutcome::Done);
                assert!(r.reservation.is_some(), "it was not b's");
            }
            assert_eq!(ask(&mut r, "a", Release { key: 1, kind }), ReservationOutcome::Done);
            assert!(r.reservation.is_none() && r.registered.len() == 3);
        }
    }

    #[test]
    fn a_reservation_goes_with_its_holder_or_with_the_last_registrant() {
        for kind in ReservationKind::ALL {
            let mut r = reserved(kind);
            let leave = |key| Register { key, new: 0, ignores: false };
            assert_eq!(ask(&mut r, "a", leave(1)), ReservationOutcome::Done);
            assert_eq!(r.reservation.is_some(), kind.is_held_by_all(), "{kind:?}");
            assert_eq!(ask(&mut r, "b", leave(2)), ReservationOutcome::Done);
            assert_eq!(ask(&mut r, "c", leave(3)), ReservationOutcome::Done);
            assert!(r.reservation.is_none());
        }
    }

    #[test]
    fn preempting_removes_registrants_and_takes_their_reservation() {
        for kind in ReservationKind::ALL {
            let taken = WriteExclusive;
            let preempt = |victim| Preempt { key: 2, victim, kind: taken };
            let mut r = reserved(kind);
            assert_eq!(
                ask(&mut r, "b", preempt(9)),
                ReservationOutcome::Conflict,
                "nobody has that key"
            );
            assert_eq!(
                ask(&mut r, "x", preempt(1)),
                ReservationOutcome::Conflict,
                "it is not registered"
            );
            assert_eq!(ask(&mut r, "b", preempt(3)), ReservationOutcome::Done);
            assert!(!r.registered.contains_key(&name("c")));
            assert_eq!(r.reservation.as_ref().map(|r| r.kind), Some(kind), "it was not c's");
            if kind.is_held_by_all() {
                assert_eq!(ask(&mut r, "b", preempt(0)), ReservationOutcome::Done);
            } else {
                assert_eq!(ask(&mut r, "b", preempt(0)), ReservationOutcome::NoKey);
                assert_eq!(ask(&mut r, "b", preempt(1)), ReservationOutcome::Done);
            }
            assert_eq!(r.registered.keys().collect::<Vec<_>>(), [&name("b")]);
            let reservation = Some(Reservation { kind: taken, holder: name("b") });
            assert_eq!(r.reservation, reservation);
            assert_eq!(ask(&mut r, "b", preempt(2)), ReservationOutcome::Done, "of itself");
            assert_eq!(r.reservation, reservation);
        }
    }

    /// Of a reservation that all registrants hold nobody has a part who is not registered, also not who made it.
    #[test]
    fn who_made_a_reservation_and_is_registered_no_more_is_excluded() {
        for kind in ReservationKind::ALL {
            let leaves = Register { key: 1, new: 0, ignores: false };
            let removes = Preempt { key: 2, victim: 1, kind };
            for (who, action) in [("a", leaves), ("b", removes)] {
                let mut r = reserved(kind);
                assert_eq!(ask(&mut r, who, action), ReservationOutcome::Done);
                let excluded = r.reservation.is_some();
                assert_eq!(r.permit(Some(&name("a")), true), !excluded, "{kind:?} {action:?}");
            }
        }
    }

    #[test]
    fn a_change_that_is_asked_for_twice_is_made_once() {
        let mut r = Reservations::default();
        let action = Register { key: 0, new: 5, ignores: false };
        let change = ReservationChange { volume: VolumeId(0), who: name("a"), action, stamp: 77 };
        assert_eq!(r.changes_nothing(&change), None);
        r.take(&change);
        r.take(&change);
        assert_eq!((r.outcome(77), r.version), (Some(ReservationOutcome::Done), 1));
        let again = ReservationChange { stamp: 78, ..change };
        assert_eq!(r.changes_nothing(&again), Some(ReservationOutcome::Conflict));
        assert_eq!(r.outcome(78), None, "it was not made");
    }

    #[test]
    fn clearing_leaves_nothing() {
        let mut r = reserved(ExclusiveAccess);
        assert_eq!(ask(&mut r, "b", Clear { key: 1 }), ReservationOutcome::Conflict);
        assert_eq!(ask(&mut r, "b", Clear { key: 2 }), ReservationOutcome::Done);
        assert!(r.registered.is_empty() && r.reservation.is_none());
        let mut r = reserved(ExclusiveAccess);
        assert_eq!(ask(&mut r, "", ClearByOperator), ReservationOutcome::Done);
        assert!(r.registered.is_empty() && r.permit(None, true));
    }
}
