//! Converts reservations between iSCSI and the map.

use std::collections::BTreeSet;

use weft_core::cluster::{
    Registrant, ReservationAction, ReservationKind, ReservationOutcome, Reservations,
};
use weft_front::iscsi::Attention;
use weft_front::iscsi::reservation::{self, Action, Kind, State};

/// The types on both sides.
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

/// The map's change for an initiator's request. `moves_to` says by which name the initiator port of a session has
/// registered, or registers, that comes through another port.
pub(super) fn action(
    asked: Action,
    moves_to: impl FnOnce(&str, u16) -> Result<Registrant, reservation::Outcome>,
) -> Result<ReservationAction, reservation::Outcome> {
    Ok(match asked {
        Action::Register { key, new, ignores } => ReservationAction::Register { key, new, ignores },
        Action::Reserve { key, kind: k } => ReservationAction::Reserve { key, kind: kind(k) },
        Action::Release { key, kind: k } => ReservationAction::Release { key, kind: kind(k) },
        Action::Clear { key } => ReservationAction::Clear { key },
        Action::Reset => ReservationAction::Reset,
        Action::Preempt { key, victim, kind: k } => {
            ReservationAction::Preempt { key, victim, kind: kind(k) }
        }
        Action::Move { key, new, name, port, leaves } => {
            ReservationAction::Move { key, to: moves_to(&name, port)?, new, leaves }
        }
    })
}

/// Whom a session moves a reservation to, by the name of the initiator port: a registrant, or another port of itself. Of
/// another initiator that is not registered nobody knows by which host it is authenticated.
pub(super) fn destination(
    now: &Reservations,
    us: &Registrant,
    our_host: Option<&str>,
    (name, port): (&str, u16),
) -> Result<Registrant, reservation::Outcome> {
    let ours = transport_id(&us.host);
    if ours.eq_ignore_ascii_case(name) {
        return Err(reservation::Outcome::NoInitiator);
    }
    let is_meant =
        |who: &&Registrant| who.port == port && transport_id(&who.host).eq_ignore_ascii_case(name);
    let mut known = now.registered.keys().filter(is_meant);
    match (known.next(), known.next()) {
        (Some(one), None) => return Ok(one.clone()),
        (Some(_), Some(_)) => return Err(reservation::Outcome::NoInitiator),
        (None, _) => {}
    }
    let is_ours = initiator(ours).eq_ignore_ascii_case(initiator(name));
    match our_host {
        Some(_) if !is_ours => Err(reservation::Outcome::NoInitiator),
        host => Ok(Registrant { host: registrant(name, host), port }),
    }
}

/// The initiator's name in the name of its port.
fn initiator(port: &str) -> &str {
    port.rsplit_once(",i,0x").map_or(port, |(initiator, _)| initiator)
}

/// The outcome for the initiator.
pub(super) fn outcome(outcome: ReservationOutcome) -> reservation::Outcome {
    match outcome {
        ReservationOutcome::Done => reservation::Outcome::Done,
        ReservationOutcome::Conflict => reservation::Outcome::Conflict,
        ReservationOutcome::WrongRelease => reservation::Outcome::WrongRelease,
        ReservationOutcome::NoKey => reservation::Outcome::NoKey,
        ReservationOutcome::Full => reservation::Outcome::Full,
    }
}

/// The name by which a session registers: the initiator's port, and the authenticated host if there is one. So no host
/// can register, or act, as another.
pub(super) fn registrant(transport_id: &str, host: Option<&str>) -> String {
    match host {
        None => transport_id.to_string(),
        Some(host) => format!("{transport_id} {host}"),
    }
}

/// The initiator port in the name that it registered by. Its session's number is the last part, and hosts' names have
/// no comma.
fn transport_id(name: &str) -> &str {
    let last = name.rfind(',').unwrap_or(0);
    let end = name[last..].find(' ').map_or(name.len(), |space| last + space);
    &name[..end]
}

/// The registrants.
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

/// A session's last view of its volume's reservations.
#[derive(Default)]
pub(super) struct Seen {
    version: u64,
    is_registered: bool,
    /// A reservation lets it access the volume because it is registered.
    is_served: bool,
    /// The number of its own changes whose outcome it does not know yet.
    pub(super) acts: usize,
    /// How often the volume had been reset.
    resets: u64,
    /// The requests by which it resets the volume itself, until they are answered.
    pub(super) own_resets: BTreeSet<u64>,
}

impl Seen {
    /// Whether the volume has been reset since the last look, and if so, whether by this session.
    pub(super) fn look_for_reset(&mut self, now: &Reservations) -> Option<bool> {
        let is_new = self.resets != now.resets;
        self.resets = now.resets;
        is_new.then_some(!self.own_resets.is_empty())
    }

    /// Compares with the present state. Returns the unit attention, if others have changed something that it had.
    pub(super) fn look(&mut self, now: &Reservations, us: &Registrant) -> Option<Attention> {
        if self.version == now.version {
            return None;
        }
        let is_registered = now.registered.contains_key(us);
        let serves = now.reservation.as_ref().is_some_and(|r| r.kind.serves_registrants());
        let (acts, resets) = (self.acts, self.resets);
        let own_resets = std::mem::take(&mut self.own_resets);
        let is_served = is_registered && serves;
        let now_seen =
            Seen { version: now.version, is_registered, is_served, acts, resets, own_resets };
        let before = std::mem::replace(self, now_seen);
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
        // A reset is told of by itself, and says whose it is.
        now.resets = 1;
        assert_eq!((seen.look_for_reset(&now), seen.look_for_reset(&now)), (Some(false), None));
        now.resets = 2;
        seen.own_resets.insert(7);
        assert_eq!((seen.look_for_reset(&now), seen.look_for_reset(&now)), (Some(true), None));
        // It knows of its own changes.
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
    fn a_reservation_moves_to_a_name_that_its_owner_has() {
        let of =
            |port: &str, host: Option<&str>| Registrant { host: registrant(port, host), port: 2 };
        let us = Registrant { host: registrant("iqn.a,i,0x01", Some("web")), port: 1 };
        let mut now = Reservations::default();
        let to =
            |now: &Reservations, us: &Registrant, host, name| destination(now, us, host, (name, 2));
        let refused = Err(reservation::Outcome::NoInitiator);
        // Another session of its own, also through the port that it comes through.
        let ours = Ok(of("iqn.a,i,0x02", Some("web")));
        assert_eq!(to(&now, &us, Some("web"), "iqn.a,i,0x02"), ours);
        assert_eq!(to(&now, &us, Some("web"), "IQN.a,i,0x01"), refused, "itself");
        assert_eq!(to(&now, &us, Some("web"), "iqn.b,i,0x01"), refused, "nobody knows whose it is");
        now.registered.insert(of("iqn.b,i,0x01", Some("db")), 7);
        assert_eq!(to(&now, &us, Some("web"), "iqn.b,i,0x01"), Ok(of("iqn.b,i,0x01", Some("db"))));
        assert_eq!(to(&now, &us, Some("web"), "iqn.b,i,0x02"), refused, "another session");
        now.registered.insert(of("iqn.b,i,0x01", Some("web")), 7);
        assert_eq!(to(&now, &us, Some("web"), "iqn.b,i,0x01"), refused, "there are two");
        // Where nobody proves anything, names are enough.
        let us = Registrant { host: registrant("iqn.a,i,0x01", None), port: 1 };
        let now = Reservations::default();
        assert_eq!(to(&now, &us, None, "iqn.b,i,0x01"), Ok(of("iqn.b,i,0x01", None)));
    }

    #[test]
    fn kinds_are_the_same_in_the_words_of_both() {
        for (a, b) in KINDS {
            assert_eq!((kind(a), told(b)), (b, a));
        }
    }
}
