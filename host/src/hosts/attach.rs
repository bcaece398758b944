//! Hosts that want to use a volume: who may, and who hears why not.

use std::sync::Arc;
use std::time::Instant;

use weft_core::cluster::Volume;
use weft_core::order::HostId;
use weft_core::units::{NodeId, VolumeId};

use super::Hosts;
use super::arrivals::{Applicant, Arrived, Refusal};
use super::rights::entry;
use crate::doors::who::{Cause, Who};
use crate::engine::Engine;
use crate::holder::Holder;
use crate::sessions::link::End;
use crate::sessions::{Attach, Refused, Session};
use crate::volumes::Exports;

impl<'a> Exports<'a> {
    /// The one that a host asks for; the empty name means the first that is no snapshot.
    pub(crate) fn wanted(self, name: &str) -> Option<&'a Arc<Volume>> {
        match name {
            "" => self.all().find(|v| !v.is_snapshot()),
            name => self.named(name),
        }
    }
}

impl Hosts {
    /// Lets a host in, or says why not. One that has been at another process must have left it.
    pub(super) fn greet(&mut self, engine: &mut Engine, id: usize, attach: Attach) {
        // One that may not use the volume asks nothing of other processes.
        let Some(who) = self.connections.get(id).map(|s| s.who().clone()) else { return };
        let exports = engine.exports().only(self.serves.as_ref()).to(&who);
        if let Some(no) = exports.refused(&attach.volume) {
            return self.refuse(id, Refused::NotAllowed, (no.cause, no.text));
        }
        // Nor does one that has learnt another's number.
        let volume = exports.wanted(&attach.volume).map(|v| v.id);
        let asks = attach.host.zip(volume).map(|(host, v)| (host, Holder::new(who.proven(), v)));
        if let Some((host, holder)) = &asks
            && self.numbered.is_anothers(*host, holder, Instant::now())
        {
            return self.turn_away(id, Refusal::Anothers);
        }
        if let Some(together) = engine.rule.together()
            && let Some(asks) = asks.filter(|(host, _)| self.must_ask(*host, &attach))
        {
            let others: Vec<NodeId> = together.others().into_iter().collect();
            return self.arrivals.expect((id, attach), asks, &others, Instant::now());
        }
        self.let_in(engine, id, Applicant { attach, done: Vec::new() });
    }

    /// Whether other processes are asked about a host first: they may have requests of it, or know its number as another's.
    fn must_ask(&self, host: HostId, attach: &Attach) -> bool {
        attach.resumes || !self.numbered.is_here(host)
    }

    /// Goes on with hosts that wait to be let in; questions to other processes get a number each. Says whether
    /// there was any progress.
    pub(crate) fn step_arrivals(
        &mut self,
        engine: &mut Engine,
        mut number: impl FnMut() -> usize,
    ) -> bool {
        if self.arrivals.is_empty() {
            return false;
        }
        let together = engine.rule.together();
        let others = together.map(|t| t.others()).unwrap_or_default();
        let ask = |node, question: &[u8]| {
            let together = together.filter(|t| t.is_connected(node))?;
            let number = number() as u64;
            together.ask(node, number, question).ok().map(|()| number)
        };
        let here = |conn| self.connections.has(conn);
        let arrived = self.arrivals.step(Instant::now(), |p| others.contains(&p), here, ask);
        for (process, question) in self.arrivals.take_unwanted() {
            together.inspect(|t| t.hang_up(process, question));
        }
        let any = !arrived.is_empty();
        for Arrived { conn, applicant, result } in arrived {
            if self.is_given_up(conn) {
                // Nothing was received from it meanwhile.
                self.hang_up(engine, conn, End::Closed);
                continue;
            }
            match result {
                Ok(None) => self.let_in(engine, conn, applicant),
                Ok(Some(volume)) => self.admit(engine, conn, &applicant, volume),
                Err(refusal) => self.turn_away(conn, refusal),
            }
        }
        any
    }

    /// Lets a host in that is at no other process any more, or says why not.
    fn let_in(&mut self, engine: &mut Engine, id: usize, applicant: Applicant) {
        let Some(who) = self.connections.get(id).map(|s| s.who().clone()) else { return };
        let exports = engine.exports().only(self.serves.as_ref()).to(&who);
        let name = &applicant.attach.volume;
        let Some(volume) = exports.wanted(name) else {
            let names: Vec<&str> = exports.all().map(|v| v.name.as_str()).collect();
            let names = names.join(", ");
            let text = format!("there is no volume '{name}'; there are: {names}");
            return self.refuse(id, Refused::NoVolume, (Cause::Unavailable, text));
        };
        let (volume, alone) = (volume.id, volume.takes_one_writer());
        match alone {
            true => self.apply(engine, id, applicant, volume),
            false => self.admit(engine, id, &applicant, volume),
        }
    }

    /// A host wants to use a volume that nobody orders the requests of, so that there is room for
    /// one. In a cluster the other processes are asked whether it has one.
    fn apply(&mut self, engine: &mut Engine, id: usize, applicant: Applicant, volume: VolumeId) {
        let host = applicant.attach.host;
        let itself = |s: &dyn Session| host.is_some() && s.host() == host;
        let others = self.connections.such(|s| s.volume() == Some(volume) && !itself(s));
        if !others.is_empty() || self.arrivals.applies_for(volume) {
            let why = "another host uses it at this process".to_string();
            return self.turn_away(id, Refusal::Taken(why));
        }
        match engine.rule.together().map(|t| (t.us(), t.others())) {
            Some((us, others)) if !others.is_empty() => {
                let others: Vec<NodeId> = others.into_iter().collect();
                self.arrivals.apply((id, applicant), volume, us, &others, Instant::now());
            }
            _ => self.admit(engine, id, &applicant, volume),
        }
    }

    /// A host is not let in.
    fn turn_away(&mut self, id: usize, refusal: Refusal) {
        match refusal {
            Refusal::Unanswered(node) => {
                let text = format!("node {} has not answered about this host", node.0);
                self.refuse(id, Refused::NotServing, (Cause::Unavailable, text));
            }
            Refusal::Returned(node) => {
                let text =
                    format!("this host has connected to the process of node {} again", node.0);
                self.refuse(id, Refused::NotServing, (Cause::Unavailable, text));
            }
            Refusal::Taken(why) => {
                let text = format!(
                    "nothing orders the requests to the volume (ordering=none), and {why}; disconnect that one, choose another ordering, \
                 or set ordering=none with --force"
                );
                self.refuse(id, Refused::SecondWriter, (Cause::Unavailable, text));
            }
            Refusal::Anothers => {
                let text = "a host's number is for that host and one volume; another host has this one, or it is \
                            in use with another volume; choose another number";
                self.refuse(id, Refused::OtherVolume, (Cause::Unavailable, text.to_string()));
            }
        }
    }

    /// Tells a host why it is not let in.
    fn refuse(&mut self, id: usize, why: Refused, (cause, text): (Cause, String)) {
        if self.connections.turn_away(id, why, text.clone())
            && let Some(session) = self.connections.get(id)
        {
            self.book.refusal(&entry(session, None), cause, &text);
        }
    }

    /// A host may use a volume, if that is still there and the node takes part.
    fn admit(&mut self, engine: &mut Engine, id: usize, applicant: &Applicant, volume: VolumeId) {
        if engine.originator(0).is_none() {
            let text = "this process does not serve the cluster now".to_string();
            return self.refuse(id, Refused::NotServing, (Cause::Unavailable, text));
        }
        let Some(who) = self.connections.get(id).map(|s| s.who().clone()) else { return };
        let exports = engine.exports().only(self.serves.as_ref()).to(&who);
        let Some(volume) = exports.all().find(|v| v.id == volume).cloned() else {
            let text = "the volume has just been deleted".to_string();
            return self.refuse(id, Refused::NoVolume, (Cause::Unavailable, text));
        };
        let Some(access) = exports.access(volume.id) else { return };
        let remembered = match applicant.attach.host {
            Some(host) => match self.remember(engine, (id, &who), host, &applicant.done, &volume) {
                Some(remembered) => remembered,
                None => return,
            },
            None => false,
        };
        self.connections.let_in(id, &volume, remembered, access);
        self.note_login(engine, id);
    }

    /// Takes note of a host that numbers its requests. Says whether it is known from before; nothing if it
    /// cannot be let in.
    fn remember(
        &mut self,
        engine: &mut Engine,
        (id, who): (usize, &Who),
        host: HostId,
        done: &[u64],
        volume: &Volume,
    ) -> Option<bool> {
        let (holder, now) = (Holder::new(who.proven(), volume.id), Instant::now());
        if self.numbered.is_anothers(host, &holder, now) {
            self.turn_away(id, Refusal::Anothers);
            return None;
        }
        if let Some(before) = self.numbered.conn(host) {
            // The host knows before we do that it is gone.
            self.hang_up(engine, before, End::Closed);
        }
        let remembered = self.numbered.arrive(host, id, holder, now);
        self.numbered.adopt(host, done);
        Some(remembered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doors::book::Book;
    use crate::log::{Log, Sparing};

    #[test]
    fn others_are_asked_about_a_host_that_is_not_known_here() {
        let log = Log::silent();
        let complaints = Arc::new(Sparing::new(log.clone(), "hosts"));
        let mut hosts = Hosts::new(complaints, Book::new(log.clone()), log);
        let (host, now) = (HostId(7), Instant::now());
        let hello = |resumes| Attach { volume: String::new(), host: Some(host), resumes };
        assert!(hosts.must_ask(host, &hello(false)), "it may be another's there");
        hosts.numbered.arrive(host, 1, Holder::new(None, VolumeId(0)), now);
        assert!(!hosts.must_ask(host, &hello(false)));
        assert!(hosts.must_ask(host, &hello(true)), "others may have its requests in progress");
        hosts.numbered.lose(host, 1, now);
        hosts.numbered.take_leave(host, hosts.numbered.stay(host));
        assert!(hosts.must_ask(host, &hello(false)), "it has been elsewhere since");
    }
}
