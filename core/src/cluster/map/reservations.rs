//! Persistent reservations: which hosts may read or write a volume while one of them has reserved it.
//!
//! These are the rules of SCSI's persistent reservations (SPC-4, 5.13), without its encodings. A host registers a key
//! through a port, and then may reserve the volume, or take a reservation from others. All of it is part of the map, so
//! that it is the same at all nodes, and changes with an epoch.
//!
//! A write names the [version](Reservations::version) under which it was permitted, by reservations and by the volume's
//! list of hosts. No attempt at it begins under a later one, and no attempt outlives the epoch that it began in: so once a
//! change of either has been answered, no write takes effect that it forbids.
//!
//! A [hold](Hold) is the older and simpler kind: a session of a host has the volume to itself until it releases it or ends, or
//! until the volume is reset. A volume has either a hold or registrants.
//!
//! A registrant that is preempted may register again at once, through the same port. So its
//! [removal](Reservations::removed) is kept: by it processes know which requests came before.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ClusterMap;
use crate::units::{NodeId, VolumeId};

/// The most registrants of a volume.
pub const MOST_REGISTRANTS: usize = 128;

/// The longest name of a host that registers.
pub const LONGEST_REGISTRANT: usize = 288;

/// How many removed registrants a volume keeps: as many as one change can remove.
pub const MOST_REMOVED: usize = MOST_REGISTRANTS;

/// How many outcomes of changes a volume keeps.
const OUTCOMES: usize = 2 * MOST_REGISTRANTS;

/// Who registers: a host, and the port that it comes through (SCSI's I_T nexus).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registrant {
    /// The host's name, as its protocol has it.
    pub host: String,
    /// The port: the process that serves the host.
    pub port: u16,
}

impl Registrant {
    /// The port of a process. There is no port 0.
    pub fn port_of(process: NodeId) -> u16 {
        process.0.wrapping_add(1).max(1)
    }

    /// The process of the port, by the node that it is known by.
    pub fn process(&self) -> NodeId {
        NodeId(self.port.saturating_sub(1))
    }
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

/// A registrant that another has removed, by the version of the reservations that removed it last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Removal {
    /// Who was removed.
    pub who: Registrant,
    /// The version that had it no more.
    pub version: u64,
}

/// A session has the volume to itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Whose session it is.
    pub who: Registrant,
    /// The stamp of the change that made it, by which its process knows whether the session is still there.
    pub stamp: u64,
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
    /// Counts the changes, and those of the volume's list of hosts by which a host may do less. 0 as long as there was
    /// none.
    pub version: u64,
    /// Counts changes of registrants, as hosts are told.
    pub generation: u32,
    /// The registrants and their keys, which are not zero.
    pub registered: BTreeMap<Registrant, u64>,
    /// The reservation, if there is one.
    pub reservation: Option<Reservation>,
    /// Outcomes of the latest changes, by their stamps.
    pub outcomes: Vec<(u64, ReservationOutcome)>,
    /// Counts resets: what hosts that can register have asked for before is not begun any more.
    pub resets: u64,
    /// The registrants that were preempted, by version: what each has asked for before is not begun any more. Each is
    /// listed once, and only the latest are.
    pub removed: Vec<Removal>,
    /// The hold, if there is one. Then nobody is registered.
    pub hold: Option<Hold>,
}

/// What a registrant, or who wants to be one, asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Register another, and give it the reservation.
    Move {
        /// The registrant's key.
        key: u64,
        /// Who gets it. It may be registered already, with any key.
        to: Registrant,
        /// The key that it is registered with then.
        new: u64,
        /// The registrant itself is registered no more.
        leaves: bool,
    },
    /// Have the volume to itself, as long as the session lasts.
    Hold,
    /// Give the hold up.
    Unhold,
    /// The session is over: the hold that a change with this stamp made ends.
    EndHold {
        /// The stamp.
        made_by: u64,
    },
    /// Let nothing begin that was asked for before, and end a hold. Registrants and the reservation stay.
    Reset,
    /// An operator removes all registrants, and the reservation or the hold.
    ClearByOperator,
}

impl ReservationAction {
    /// Whether it is about registrants and their reservation, which a hold excludes.
    fn is_of_registrants(&self) -> bool {
        use ReservationAction::*;
        !matches!(self, Hold | Unhold | EndHold { .. } | Reset | ClearByOperator)
    }
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationOutcome {
    /// It is done.
    Done,
    /// Who asked is not registered with this key, or the reservation is another's.
    Conflict,
    /// It is reserved in another way than was said, or there is no reservation to move.
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
    /// Makes the change if it is allowed, and records the outcome.
    pub fn apply(&self, map: &mut ClusterMap) {
        let Some(volume) = map.volumes.get_mut(&self.volume) else { return };
        Arc::make_mut(volume).reservations.take(self);
    }
}

impl Reservations {
    /// Whether a host may read, or write if it `writes`. One without a registrant's name cannot be registered.
    pub fn permit(&self, who: Option<&Registrant>, writes: bool) -> bool {
        if self.hold.as_ref().is_some_and(|hold| who != Some(&hold.who)) {
            return false;
        }
        let Some(Reservation { kind, holder }) = &self.reservation else { return true };
        let is_registered = who.is_some_and(|who| self.registered.contains_key(who));
        let holds = !kind.is_held_by_all() && who == Some(holder);
        let may_all = (kind.serves_registrants() && is_registered) || holds;
        may_all || !(writes || kind.excludes_reads())
    }

    /// The outcome of a change, if it is known.
    pub fn outcome(&self, stamp: u64) -> Option<ReservationOutcome> {
        self.outcomes.iter().find(|(s, _)| *s == stamp).map(|(_, outcome)| *outcome)
    }

    /// The outcome of a change that would change nothing.
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
        let before = self.clone();
        let outcome = self.act(change).err().unwrap_or(ReservationOutcome::Done);
        debug_assert!(
            outcome == ReservationOutcome::Done || self.is_as(&before),
            "a refused command changes nothing"
        );
        self.version += u64::from(!self.is_as(&before));
        if self.outcomes.len() >= OUTCOMES {
            self.outcomes.remove(0);
        }
        self.outcomes.push((change.stamp, outcome));
    }

    /// Whether nothing differs but the count and the outcomes of changes.
    fn is_as(&self, before: &Reservations) -> bool {
        (self.generation, self.resets) == (before.generation, before.resets)
            && self.registered == before.registered
            && self.reservation == before.reservation
            && self.hold == before.hold
    }

    /// Requires that a registrant has this key.
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

    fn act(&mut self, change: &ReservationChange) -> Result<(), ReservationOutcome> {
        let ReservationChange { who, action, stamp, .. } = change;
        if self.hold.is_some() && action.is_of_registrants() {
            return Err(ReservationOutcome::Conflict);
        }
        match *action {
            ReservationAction::Hold => self.make_hold(who, *stamp),
            ReservationAction::Unhold => {
                self.check_registrants(who)?;
                self.end_hold(|hold| hold.who == *who)
            }
            ReservationAction::EndHold { made_by } => self.end_hold(|hold| hold.stamp == made_by),
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
            ReservationAction::Reset => {
                self.resets += 1;
                self.hold = None;
                Ok(())
            }
            ReservationAction::Preempt { key, victim, kind } => {
                self.require(who, key)?;
                self.preempt(who, victim, kind)
            }
            ReservationAction::Move { key, ref to, new, leaves } => {
                self.require(who, key)?;
                self.give(who, to, new)?;
                if leaves {
                    self.registered.remove(who);
                }
                Ok(())
            }
        }
    }

    /// A session that has one gets the next, whose stamp is that of the session as it is now.
    fn make_hold(&mut self, who: &Registrant, stamp: u64) -> Result<(), ReservationOutcome> {
        self.check_registrants(who)?;
        if self.registered.is_empty() {
            if self.hold.as_ref().is_some_and(|hold| hold.who != *who) {
                return Err(ReservationOutcome::Conflict);
            }
            self.hold = Some(Hold { who: who.clone(), stamp });
        }
        Ok(())
    }

    fn end_hold(&mut self, is: impl Fn(&Hold) -> bool) -> Result<(), ReservationOutcome> {
        self.hold.take_if(|hold| is(hold));
        Ok(())
    }

    /// While hosts are registered, a hold is neither made nor released. A registrant whose reservation lets it write needs
    /// none (SPC-4, 5.13.3); of others it is a conflict.
    fn check_registrants(&self, who: &Registrant) -> Result<(), ReservationOutcome> {
        let serves = self.reservation.as_ref().is_some_and(|r| r.kind.serves_registrants());
        let needs_none = self.is_holder(who) || (serves && self.registered.contains_key(who));
        match self.registered.is_empty() || needs_none {
            true => Ok(()),
            false => Err(ReservationOutcome::Conflict),
        }
    }

    /// Registers another and gives it the reservation (SPC-4, 5.13.8). One that all registrants hold cannot be given.
    fn give(
        &mut self,
        who: &Registrant,
        to: &Registrant,
        new: u64,
    ) -> Result<(), ReservationOutcome> {
        let Some(held) = &mut self.reservation else {
            return Err(ReservationOutcome::WrongRelease);
        };
        if held.kind.is_held_by_all() || held.holder != *who || to == who {
            return Err(ReservationOutcome::Conflict);
        }
        if new == 0 {
            return Err(ReservationOutcome::NoKey);
        }
        if !self.registered.contains_key(to) && self.registered.len() >= MOST_REGISTRANTS {
            return Err(ReservationOutcome::Full);
        }
        held.holder = to.clone();
        self.registered.insert(to.clone(), new);
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    fn clear(&mut self) {
        self.registered.clear();
        (self.reservation, self.hold) = (None, None);
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
        // Who takes the reservation keeps its registration. Who removes registrations only may lose its own.
        let goes = |other: &Registrant, key: &mut u64| !(takes && other == who) && removes(*key);
        let gone: Vec<_> = self.registered.extract_if(.., goes).map(|(other, _)| other).collect();
        self.note_removal(gone);
        match takes {
            true => self.reservation = Some(Reservation { kind, holder: who.clone() }),
            // Only one that all held can have lost its last holder.
            false if self.registered.is_empty() => self.reservation = None,
            false => {}
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// Keeps who was removed by the change that is being made.
    fn note_removal(&mut self, gone: Vec<Registrant>) {
        let version = self.version + 1;
        self.removed.retain(|removal| !gone.contains(&removal.who));
        self.removed.extend(gone.into_iter().map(|who| Removal { who, version }));
        let surplus = self.removed.len().saturating_sub(MOST_REMOVED);
        self.removed.drain(..surplus);
    }

    /// The first fault found in them, if any.
    pub(super) fn wrong(&self) -> Option<String> {
        if self.registered.len() > MOST_REGISTRANTS || self.outcomes.len() > OUTCOMES {
            return Some("a volume has more registrants, or outcomes, than there can be".into());
        }
        let is_in_order = self.removed.is_sorted_by_key(|removal| removal.version)
            && self.removed.last().is_none_or(|last| last.version <= self.version);
        if self.removed.len() > MOST_REMOVED || !is_in_order {
            return Some("a volume's removed registrants are too many or not in order".into());
        }
        let too_long = |r: &&Registrant| r.host.len() > LONGEST_REGISTRANT;
        let removed = self.removed.iter().map(|removal| &removal.who);
        let holds = self.hold.iter().map(|hold| &hold.who);
        if let Some(long) = self.registered.keys().chain(removed).chain(holds).find(too_long) {
            return Some(format!("a registrant's name has {} bytes", long.host.len()));
        }
        if self.hold.is_some() && !self.registered.is_empty() {
            return Some("a volume has both registrants and a hold".into());
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
mod tests;
