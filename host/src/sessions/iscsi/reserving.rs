//! Converts reservations between iSCSI and the map.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::cluster::{
    Registrant, ReservationAction, ReservationKind, ReservationOutcome, Reservations,
};
use weft_front::iscsi::Attention;
use weft_front::iscsi::reservation::{self, Action, Held, Kind, State};

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
        Action::Hold => ReservationAction::Hold,
        Action::Unhold => ReservationAction::Unhold,
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

/// Whether a session, and which, has the unit to itself, as a session sees it.
pub(super) fn held(of: &Reservations, us: Option<&Registrant>) -> Held {
    match &of.hold {
        None => Held::Nobody,
        Some(hold) if us == Some(&hold.who) => Held::Itself,
        Some(_) => Held::Another,
    }
}

/// A session's part in its volume's reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    is_registered: bool,
    holds: bool,
    /// Nobody is registered.
    is_empty: bool,
    /// The stamp of its hold.
    hold: Option<u64>,
    resets: u64,
    kind: Option<ReservationKind>,
}

impl Part {
    /// Also of one that takes the place of another, whose hold, made `before`, is about to end.
    fn of(now: &Reservations, us: &Registrant, before: Option<u64>) -> Part {
        let hold = now.hold.as_ref().filter(|hold| hold.who == *us).map(|hold| hold.stamp);
        Part {
            is_registered: now.registered.contains_key(us),
            holds: now.is_holder(us),
            is_empty: now.registered.is_empty(),
            hold: hold.filter(|stamp| Some(*stamp) != before),
            resets: now.resets,
            kind: now.reservation.as_ref().map(|r| r.kind),
        }
    }

    /// The unit attention for what others have changed since, next to what the session has `done` itself (SPC-4, 5.13.11).
    fn attention(self, now: Part, done: &[ReservationAction]) -> Option<Attention> {
        // Of a reset it is told anyway.
        let unholds = done.contains(&ReservationAction::Unhold);
        let has_ended = self.hold.is_some() && now.hold.is_none();
        if has_ended && self.resets == now.resets && !unholds {
            return Some(Attention::ReservationsReleased);
        }
        if !self.is_registered {
            return None;
        }
        if !now.is_registered {
            return match done.iter().any(unregisters) {
                true => None,
                false if now.is_empty => Some(Attention::ReservationsPreempted),
                false => Some(Attention::RegistrationsPreempted),
            };
        }
        let was = self.kind?;
        let is_over = match now.kind {
            // Others of that kind serve nobody but their holder.
            None => was.serves_registrants() && !done.iter().any(|own| self.ends(own)),
            // Somebody has taken it, and changed its kind.
            Some(kind) => kind != was && !done.iter().any(|own| makes(own, kind)),
        };
        is_over.then_some(Attention::ReservationsReleased)
    }

    /// Whether the session ends the reservation by this.
    fn ends(self, own: &ReservationAction) -> bool {
        let releases = matches!(own, ReservationAction::Release { .. });
        unregisters(own) || (releases && self.holds)
    }
}

/// Whether a session that does this is registered no more.
fn unregisters(own: &ReservationAction) -> bool {
    match own {
        ReservationAction::Register { new, .. } => *new == 0,
        ReservationAction::Preempt { key, victim, .. } => key == victim,
        ReservationAction::Move { leaves, .. } => *leaves,
        ReservationAction::Clear { .. } => true,
        _ => false,
    }
}

/// Whether a session that does this makes a reservation of this kind.
fn makes(own: &ReservationAction, made: ReservationKind) -> bool {
    match own {
        ReservationAction::Reserve { kind, .. } | ReservationAction::Preempt { kind, .. } => {
            *kind == made
        }
        _ => false,
    }
}

/// A session's last view of its volume's reservations. While it changes them itself, it is not known whose a change is:
/// what it has seen then is looked at when its own changes are answered.
#[derive(Default)]
pub(super) struct Seen {
    version: u64,
    /// As it was looked at, and as it was seen since.
    part: Part,
    latest: Part,
    /// Its own changes in progress, by the numbers of their requests, and those that may have been made since.
    acts: BTreeMap<u64, ReservationAction>,
    done: Vec<ReservationAction>,
    /// How often the volume had been reset.
    resets: u64,
    /// The requests by which it resets the volume itself, until they are answered.
    own_resets: BTreeSet<u64>,
    /// The stamp of the hold that there was when the session began.
    hold_before: Option<u64>,
}

impl Seen {
    /// The session begins, and knows what there is.
    pub(super) fn begin(&mut self, now: &Reservations, us: Option<&Registrant>) {
        self.hold_before = now.hold.as_ref().map(|hold| hold.stamp);
        self.look_for_reset(now);
        if let Some(us) = us {
            self.look(now, us);
        }
    }

    /// Whether the volume has been reset since the last look, and if so, whether by this session.
    pub(super) fn look_for_reset(&mut self, now: &Reservations) -> Option<bool> {
        let is_new = self.resets != now.resets;
        self.resets = now.resets;
        is_new.then_some(!self.own_resets.is_empty())
    }

    /// Takes note of the present state. Returns the unit attention, if others have changed something that it had.
    pub(super) fn look(&mut self, now: &Reservations, us: &Registrant) -> Option<Attention> {
        if self.version == now.version {
            return None;
        }
        self.version = now.version;
        self.latest = Part::of(now, us, self.hold_before);
        self.compare()
    }

    /// The session asks for a change.
    pub(super) fn acts(&mut self, number: u64, action: &ReservationAction) {
        match action {
            ReservationAction::Reset => drop(self.own_resets.insert(number)),
            _ => drop(self.acts.insert(number, action.clone())),
        }
    }

    /// It is answered. The map has been looked at that shows it, if it may have been `made`. Returns the unit attention
    /// for what others have changed meanwhile.
    pub(super) fn acted(&mut self, number: u64, made: bool) -> Option<Attention> {
        self.own_resets.remove(&number);
        let action = self.acts.remove(&number)?;
        self.done.extend(Some(action).filter(|_| made));
        self.compare()
    }

    fn compare(&mut self) -> Option<Attention> {
        if !self.acts.is_empty() {
            return None;
        }
        let done = std::mem::take(&mut self.done);
        std::mem::replace(&mut self.part, self.latest).attention(self.latest, &done)
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
        seen.acts(7, &ReservationAction::Reset);
        assert_eq!((seen.look_for_reset(&now), seen.look_for_reset(&now)), (Some(true), None));
        // One that failed has not made the next.
        assert_eq!(seen.acted(7, true), None);
        now.resets = 3;
        assert_eq!(seen.look_for_reset(&now), Some(false));
    }

    #[test]
    fn a_host_is_told_that_its_hold_has_ended() {
        let us = Registrant { host: "a".into(), port: 1 };
        let released = Some(Attention::ReservationsReleased);
        for (own, resets, told) in
            [(None, 0, released), (Some(ReservationAction::Unhold), 0, None), (None, 1, None)]
        {
            let hold = Some(weft_core::cluster::Hold { who: us.clone(), stamp: 9 });
            let mut now = Reservations { version: 1, hold, ..Reservations::default() };
            assert_eq!(held(&now, Some(&us)), Held::Itself);
            assert_eq!(held(&now, None), Held::Another);
            let mut seen = Seen::default();
            assert_eq!(seen.look(&now, &us), None);
            own.iter().for_each(|own| seen.acts(3, own));
            (now.version, now.hold, now.resets) = (2, None, resets);
            assert_eq!(held(&now, Some(&us)), Held::Nobody);
            assert_eq!(seen.look(&now, &us).or(seen.acted(3, true)), told);
        }
        // One that takes the place of another, whose hold ends.
        let hold = |stamp| Some(weft_core::cluster::Hold { who: us.clone(), stamp });
        let mut now = Reservations { version: 1, hold: hold(9), ..Reservations::default() };
        let mut seen = Seen::default();
        seen.begin(&now, Some(&us));
        for (version, hold, told) in [(2, None, None), (3, hold(10), None), (4, None, released)] {
            (now.version, now.hold) = (version, hold);
            assert_eq!(seen.look(&now, &us), told);
        }
    }

    /// A session that is registered, next to another that holds a reservation of this kind.
    fn registered(kind: ReservationKind) -> (Seen, Reservations, Registrant) {
        let us = Registrant { host: "a".into(), port: 1 };
        let other = Registrant { host: "b".into(), port: 1 };
        let mut now = Reservations { version: 1, ..Reservations::default() };
        now.registered = [(us.clone(), 5), (other.clone(), 6)].into();
        now.reservation = Some(Reservation { kind, holder: other });
        let mut seen = Seen::default();
        assert_eq!(seen.look(&now, &us), None);
        (seen, now, us)
    }

    #[test]
    fn a_host_is_told_of_what_others_did_while_it_changed_something_itself() {
        let kind = ReservationKind::WriteExclusiveRegistrants;
        let again = ReservationAction::Register { key: 5, new: 7, ignores: false };
        let release = ReservationAction::Release { key: 5, kind };
        let clear = ReservationAction::Clear { key: 5 };
        let preempt = ReservationAction::Preempt { key: 5, victim: 5, kind };
        // Its registration was removed, or its reservation released: by others, unless it did so itself.
        for (own, made, removed, released) in [
            (&again, true, true, true),
            (&release, true, true, true),
            (&clear, true, false, false),
            (&clear, false, true, true),
            (&preempt, true, false, false),
            (&ReservationAction::Reset, true, true, true),
        ] {
            for removes in [true, false] {
                let (mut seen, mut now, us) = registered(kind);
                seen.acts(3, own);
                now.version = 2;
                now.reservation = None;
                if removes {
                    now.registered.remove(&us);
                }
                let told = seen.look(&now, &us).or(seen.acted(3, made));
                let (attention, expected) = match removes {
                    true => (Attention::RegistrationsPreempted, removed),
                    false => (Attention::ReservationsReleased, released),
                };
                assert_eq!(told, expected.then_some(attention), "{own:?} {removes}");
                assert_eq!(seen.look(&now, &us), None, "once");
            }
        }
        // The holder releases it itself.
        let (mut seen, mut now, us) = registered(kind);
        now.reservation = Some(Reservation { kind, holder: us.clone() });
        now.version = 2;
        assert_eq!(seen.look(&now, &us), None);
        seen.acts(3, &release);
        (now.version, now.reservation) = (3, None);
        assert_eq!((seen.look(&now, &us), seen.acted(3, true)), (None, None));
    }

    /// SPC-4, 5.13.11.4: PREEMPT with another type.
    #[test]
    fn a_registrant_is_told_that_the_reservation_has_another_kind() {
        for kind in ReservationKind::ALL {
            for taken in ReservationKind::ALL {
                let preempt = ReservationAction::Preempt { key: 5, victim: 6, kind: taken };
                for own in [None, Some(preempt)] {
                    let (mut seen, mut now, us) = registered(kind);
                    own.iter().for_each(|own| seen.acts(3, own));
                    now.version = 2;
                    let holder = Registrant { host: "c".into(), port: 1 };
                    now.reservation = Some(Reservation { kind: taken, holder });
                    let told = seen.look(&now, &us).or(seen.acted(3, true));
                    let is_told = kind != taken && own.is_none();
                    assert_eq!(told, is_told.then_some(Attention::ReservationsReleased));
                }
            }
        }
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
