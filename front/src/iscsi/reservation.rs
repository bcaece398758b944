//! Persistent reservations, as SCSI's initiators ask for them and are told of them (SPC-4, 5.13). The driver knows the
//! rules.

/// What a reservation allows others than its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Others may read.
    WriteExclusive = 1,
    /// Others may neither read nor write.
    ExclusiveAccess = 3,
    /// Registrants may read and write, others read.
    WriteExclusiveRegistrantsOnly = 5,
    /// Registrants may read and write, others neither.
    ExclusiveAccessRegistrantsOnly = 6,
    /// All registrants hold it; others may read.
    WriteExclusiveAllRegistrants = 7,
    /// All registrants hold it; others may neither read nor write.
    ExclusiveAccessAllRegistrants = 8,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [
        Kind::WriteExclusive,
        Kind::ExclusiveAccess,
        Kind::WriteExclusiveRegistrantsOnly,
        Kind::ExclusiveAccessRegistrantsOnly,
        Kind::WriteExclusiveAllRegistrants,
        Kind::ExclusiveAccessAllRegistrants,
    ];

    /// The one with this number (SPC-4, table 56).
    pub(super) fn of(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether every registrant holds it.
    pub(super) fn is_held_by_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants)
    }
}

/// What an initiator asks for. It registers by its name and its session's number, and by the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register a key in place of another; zero stands for none.
    Register {
        /// The key that is registered; anything, if `ignores`.
        key: u64,
        /// The new one.
        new: u64,
        /// Whatever is registered.
        ignores: bool,
    },
    /// Reserve the unit.
    Reserve {
        /// The initiator's key.
        key: u64,
        /// How.
        kind: Kind,
    },
    /// Give the reservation up.
    Release {
        /// The initiator's key.
        key: u64,
        /// How it was reserved.
        kind: Kind,
    },
    /// Remove all registrants and the reservation.
    Clear {
        /// The initiator's key.
        key: u64,
    },
    /// Remove the registrants with a key, and take the reservation if it was theirs. Once it is answered nothing takes
    /// effect that those have asked for.
    Preempt {
        /// The initiator's key.
        key: u64,
        /// The key of those that are removed.
        victim: u64,
        /// How the unit is reserved then.
        kind: Kind,
    },
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The initiator is not registered with this key, or the reservation is another's.
    Conflict,
    /// It is reserved in another way than was said.
    WrongRelease,
    /// There must be a key.
    NoKey,
    /// There are too many registrants.
    Full,
}

/// A registrant of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// Its name and its session's number ([`Nexus::transport_id`](super::Nexus::transport_id)).
    pub name: String,
    /// The relative number of the port.
    pub port: u16,
    /// Its key.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holds: bool,
}

/// The registrants of a unit, and its reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Counts changes of the registrants.
    pub generation: u32,
    /// All of them.
    pub registrants: Vec<Registrant>,
    /// The reservation, if there is one.
    pub reservation: Option<Kind>,
}
