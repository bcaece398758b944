//! Reservations, from iSCSI's words to the map's and back.

use weft_core::cluster::{
    Registrant, ReservationAction, ReservationKind, ReservationOutcome, Reservations,
};
use weft_front::iscsi::Attention;
use weft_front::iscsi::reservation::{self, Action, Kind, State};

/// The kinds, in the words of both.
const KINDS: [(Kind, ReservationKind); 6] = [
    (Kind::WriteExclusive, ReservationKind::WriteExclusive),
    (Kind::ExclusiveAccess, ReservationKind::ExclusiveAccess),
    (Kind::WriteExclusiveRegistrantsOnly, ReservationKind::WriteExclusiveRegistrants),
    (Kind::ExclusiveAccessRegistrantsOnly, ReservationKind::ExclusiveAccessRegistrants),
    (Kind::WriteExclusiveAllRegistrants, ReservationKind::WriteExclusiveAllRegistrants),
    (Kind::ExclusiveAccessAllRegistrants, ReservationKind::ExclusiveAccessAllRegistrants),
];

fn kind(of: Kind) -> ReservationKind {
    KINDS.iter().find(|(kind, _)| *kind == of).expect("all are listed").1
}

fn told(of: ReservationKind) -> Kind {
    KINDS.iter().find(|(_, kind)| *kind == of).expect("all are listed").0
}

/// What an initiator asks for.
pub(super) fn action(asked: Action) -> ReservationAction {
    match asked {
        Action::Register { key, new, ignores } => ReservationAction::Register { key, new, ignores },
        Action::Reserve { key, kind: k } => ReservationAction::Reserve { key, kind: kind(k) },
        Action::Release { key, kind: k } => ReservationAction::Release { key, kind: kind(k) },
        Action::Clear { key } => ReservationAction::Clear { key },
        Action::Preempt { key, victim, kind: k } => {
            ReservationAction::Preempt { key, victim, kind: kind(k) }
        }
    }
}

/// What became of it.
pub(super) fn outcome(outcome: ReservationOutcome) -> reservation::Outcome {
    match outcome {
        ReservationOutcome::Done => reservation::Outcome::Done,
        ReservationOutcome::Conflict => reservation::Outcome::Conflict,
        ReservationOutcome::WrongRelease => reservation::Outcome::WrongRelease,
        ReservationOutcome::NoKey => reservation::Outcome::NoKey,
        ReservationOutcome::Full => reservation::Outcome::Full,
    }
}

/// By what name a session registers: as the port of an initiator, and if it has proved to be a host, as that one. So no host
/// can register, or act, as another.
pub(super) fn registrant(transport_id: &str, host: Option<&str>) -> String {
    match host {
        None => transport_id.to_string(),
        Some(host) => format!("{transport_id} {host}"),
    }
}

/// The port of an initiator, of the name that it has registered by. Its session's number is the last part, and hosts' names
/// have no comma.
fn transport_id(name: &str) -> &str {
    let last = name.rfind(',').unwrap_or(0);
    let end = name[last..].find(' ').map_or(name.len(), |space| last + space);
    &name[..end]
}

/// Who has registered.
pub(super) fn state(of: &Reservations) -> State {
    let one = |(who, key): (&Registrant, &u64)| reservation::Registrant {
        name: transport_id(&who.host).to_string(),
        port: who.port,
        key: *key,
        holds: of.is_holder(who),
    };
    State {
        generation: of.generation,
        registrants: of.registered.iter().map(one).collect(),
        reservation: of.reservation.as_ref().map(|r| told(r.kind)),
    }
}

/// What a session has seen of its volume's reservations.
#[derive(Default)]
pub(super) struct Seen {
    version: u64,
    is_registered: bool,
    /// There is a reservation that serves it because it is registered.
    is_served: bool,
    /// Changes that it has asked for itself, of which it does not know the outcome yet.
    pub(super) acts: usize,
}

impl Seen {
    /// Looks at what there is now. Says what to tell the host, if others have changed something that it had.
    pub(super) fn look(&mut self, now: &Reservations, us: &Registrant) -> Option<Attention> {
        if self.version == now.version {
            return None;
        }
        let is_registered = now.registered.contains_key(us);
        let serves = now.reservation.as_ref().is_some_and(|r| r.kind.serves_registrants());
        let before = std::mem::replace(
            self,
            Seen {
                version: now.version,
                is_registered,
                is_served: is_registered && serves,
                acts: self.acts,
            },
        );
        if self.acts > 0 {
            return None;
        }
        match (before.is_registered, is_registered) {
            (true, false) if now.registered.is_empty() => Some(Attention::ReservationsPreempted),
            (true, false) => Some(Attention::RegistrationsPreempted),
            (true, true) if before.is_served && now.reservation.is_none() => {
                Some(Attention::ReservationsReleased)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::Reservation;

    use super::*;

    #[test]
    fn a_host_is_told_of_what_others_took_from_it() {
        let us = Registrant { host: "a".into(), port: 1 };
        let kind = ReservationKind::WriteExclusiveRegistrants;
        let mut now = Reservations { version: 1, ..Reservations::default() };
        now.registered.insert(us.clone(), 5);
        now.reservation = Some(Reservation { kind, holder: us.clone() });
        let mut seen = Seen::default();
        assert_eq!(seen.look(&now, &us), None);
        now.version = 2;
        now.reservation = None;
        assert_eq!(seen.look(&now, &us), Some(Attention::ReservationsReleased));
        assert_eq!(seen.look(&now, &us), None, "once");
        now.version = 3;
        now.registered = [(Registrant { host: "b".into(), port: 1 }, 7)].into();
        assert_eq!(seen.look(&now, &us), Some(Attention::RegistrationsPreempted));
        now.version = 4;
        now.registered.insert(us.clone(), 5);
        assert_eq!(seen.look(&now, &us), None);
        // What it did itself it knows.
        seen.acts = 1;
        now.version = 5;
        now.registered.clear();
        assert_eq!(seen.look(&now, &us), None);
    }

    #[test]
    fn a_host_that_has_proved_who_it_is_registers_as_that() {
        let port = "iqn.a b,i,0x800000000001";
        for host in [None, Some("web")] {
            assert_eq!(transport_id(&registrant(port, host)), port);
        }
        assert_ne!(registrant(port, Some("web")), registrant(port, Some("db")));
    }

    #[test]
    fn kinds_are_the_same_in_the_words_of_both() {
        for (a, b) in KINDS {
            assert_eq!((kind(a), told(b)), (b, a));
        }
    }
}
