//! Reservations of volumes: asked for by hosts, at whichever process, and taken away by operators.

use serde_json::json;
use weft_core::cluster::{
    Change, LONGEST_REGISTRANT, Registrant, ReservationAction, ReservationChange,
};

use super::{Commands, Outcome, Wait, overtaken};
use crate::control_protocol::ok;
use crate::durable::random;
use crate::error::{Result, fail};
use crate::reserving::Reserving;

impl Commands<'_> {
    /// A host registers with a volume, or reserves it.
    pub(super) fn reserve(&mut self, asked: &Reserving) -> Result<Outcome> {
        let change = asked.change()?;
        let moved = match &change.action {
            ReservationAction::Move { to, .. } => to.host.len(),
            _ => 0,
        };
        if change.who.host.len().max(moved) > LONGEST_REGISTRANT {
            return fail(format!("a host's name has at most {LONGEST_REGISTRANT} bytes"));
        }
        if !self.engine.map().volumes.contains_key(&change.volume) {
            return fail("the volume no longer exists");
        }
        // What changes nothing takes no change of the map, if nothing else is on its way.
        let now = &self.engine.map().volumes[&change.volume].reservations;
        let unchanged = now.changes_nothing(&change).filter(|_| self.engine.is_settled());
        match unchanged {
            Some(outcome) => Ok(Outcome::Answer(ok(json!({
                "epoch": self.engine.map().epoch,
                "unchanged": outcome.name(),
            })))),
            None => Ok(self.change_reservations(change)),
        }
    }

    /// An operator removes all registrants of a volume, and its reservation.
    pub(super) fn unreserve(&mut self, name: &str) -> Result<Outcome> {
        let volume = self.volume(name)?.id;
        let who = Registrant { host: String::new(), port: 0 };
        let action = ReservationAction::ClearByOperator;
        let change = ReservationChange { volume, who, action, stamp: random() as u64 };
        Ok(self.change_reservations(change))
    }

    fn change_reservations(&mut self, change: ReservationChange) -> Outcome {
        let ticket = self.engine.change(Change::Reserve(change.clone()));
        Outcome::Wait(Wait::Reserved(change, ticket))
    }

    /// Whether the map says what became of a change.
    pub(super) fn check_reserved(&mut self, mut wait: Wait) -> Result<Outcome> {
        let Wait::Reserved(change, ticket) = &mut wait else { return Ok(Outcome::Wait(wait)) };
        if !self.is_made(ticket)? {
            return Ok(Outcome::Wait(wait));
        }
        let map = self.engine.map();
        let volume = map.volumes.get(&change.volume);
        match volume.and_then(|v| v.reservations.outcome(change.stamp)) {
            Some(_) => Ok(Outcome::Answer(ok(json!({ "epoch": map.epoch })))),
            None => Err(overtaken()),
        }
    }
}
