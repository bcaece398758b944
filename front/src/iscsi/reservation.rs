//! Persistent reservations, in the terms of SCSI initiators (SPC-4, 5.13). The driver applies the rules.

/// The access that a reservation leaves to others than its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Others may read.
    WriteExclusive = 1,
    /// Others may neither read nor write.
    ExclusiveAccess = 3,
    /// Registrants may read and write, others read.
    WriteExclusiveRegistrantsOnly = 5,
    /// Only registrants may read and write.
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

    /// The type with this number (SPC-4, table 56).
    pub(super) fn of(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether every registrant holds it.
    pub(super) fn is_held_by_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants)
    }
}

/// Whether a session has the unit to itself (RESERVE and RELEASE of SPC-2), as another session sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// No session has.
    #[default]
    Nobody,
    /// The session that asks has.
    Itself,
    /// Another has.
    Another,
}

/// A request of an initiator. It registers by its name, its session's number and the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register a key in place of another; zero stands for no key.
    Register {
        /// The registered key; any, with `ignores`.
        key: u64,
        /// The new one.
        new: u64,
        /// Regardless of the registered key.
        ignores: bool,
    },
    /// Reserve the unit.
    Reserve {
        /// The initiator's key.
        key: u64,
        /// The type.
        kind: Kind,
    },
    /// Release the reservation.
    Release {
        /// The initiator's key.
        key: u64,
        /// The type that it was reserved with.
        kind: Kind,
    },
    /// Remove all registrants and the reservation (CLEAR).
    Clear {
        /// The initiator's key.
        key: u64,
    },
    /// Remove the registrants with a key, and take over the reservation if it was theirs. After the answer, none of
    /// their earlier requests takes effect.
    Preempt {
        /// The initiator's key.
        key: u64,
        /// The key of the registrants to remove.
        victim: u64,
        /// The type of the new reservation.
        kind: Kind,
    },
    /// Have the unit to itself until the session ends (RESERVE).
    Hold,
    /// Give that up (RELEASE).
    Unhold,
    /// Reset the unit (LOGICAL UNIT RESET): after the answer no earlier request of initiators takes effect, and a hold
    /// ends. Registrants and the reservation stay.
    Reset,
    /// Register another initiator port, and move the reservation to it (REGISTER AND MOVE).
    Move {
        /// The initiator's key.
        key: u64,
        /// The key of the other.
        new: u64,
        /// Its name and its session's number ([`Nexus::transport_id`](super::Nexus::transport_id)).
        name: String,
        /// The relative identifier of the target port that it comes through.
        port: u16,
        /// The initiator itself is unregistered.
        leaves: bool,
    },
}

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The initiator is not registered with this key, or the reservation is another's.
    Conflict,
    /// It is reserved with another type; or there is no reservation to move.
    WrongRelease,
    /// A key is required.
    NoKey,
    /// There are too many registrants.
    Full,
    /// There is no such target port.
    NoPort,
    /// The reservation cannot be moved to that initiator port: it is the initiator's own, or not known well enough.
    NoInitiator,
}

/// A registrant of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// Its name and its session's number ([`Nexus::transport_id`](super::Nexus::transport_id)).
    pub name: String,
    /// The relative port identifier.
    pub port: u16,
    /// Its key.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holds: bool,
}

/// The registrants of a unit, and its reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The generation: counts changes of the registrants.
    pub generation: u32,
    /// All of them.
    pub registrants: Vec<Registrant>,
    /// The reservation, if there is one.
    pub reservation: Option<Kind>,
}
