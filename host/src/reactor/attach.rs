//! Hosts that want to use a volume: who may, and who hears why not.

use std::sync::Arc;
use std::time::Instant;

use weft_core::cluster::Volume;
use weft_core::units::{NodeId, VolumeId};
use weft_front::native::{Code, Hello};

use super::Reactor;
use crate::hosts::arrivals::{Applicant, Arrived, Refusal};
use crate::sessions::Host;
use crate::sessions::link::End;
use crate::sessions::native;

impl Reactor {
    /// Lets a host in, or says why not. One that has been at another process must have left it.
    pub(super) fn greet(&mut self, id: usize, hello: Hello) {
        if let Some(together) = self.engine.rule.together()
            && hello.resumes
        {
            let others: Vec<NodeId> = together.others().into_iter().collect();
            return self.arrivals.expect(id, hello, &others, Instant::now());
        }
        self.let_in(id, hello, Vec::new());
    }

    /// Goes on with hosts that wait to be let in. Says whether there was any progress.
    pub(super) fn step_arrivals(&mut self) -> bool {
        if self.arrivals.is_empty() {
            return false;
        }
        let together = self.engine.rule.together();
        let others = together.map(|t| t.others()).unwrap_or_default();
        let ask = |node, number, question: &[u8]| {
            together.is_some_and(|t| t.is_connected(node) && t.ask(node, number, question).is_ok())
        };
        let here = |conn| self.hosts.contains_key(&conn);
        let next = &mut self.next_connection;
        let arrived = self.arrivals.step(Instant::now(), |p| others.contains(&p), here, next, ask);
        let any = !arrived.is_empty();
        for Arrived { conn, applicant, result } in arrived {
            match (applicant, result) {
                (Applicant::Native(hello, done), Ok(None)) => self.let_in(conn, hello, done),
                (applicant, Ok(volume)) => self.admit(conn, applicant, volume),
                (applicant, Err(refusal)) => self.turn_away(conn, &applicant, refusal),
            }
            self.to_receive.insert(conn);
            self.to_send.insert(conn);
        }
        any
    }

    /// Lets a host in that has done these at another process, or says why not.
    fn let_in(&mut self, id: usize, hello: Hello, done: Vec<u64>) {
        let exports = self.engine.exports().only(self.serves.as_ref());
        let Some(volume) = exports.named(&hello.volume) else {
            let names: Vec<&str> = exports.all().map(|v| v.name.as_str()).collect();
            let names = names.join(", ");
            let text = format!("there is no volume '{}'; there are: {names}", hello.volume);
            return self.refuse(id, Code::NoVolume, text);
        };
        let (volume, alone) = (volume.id, volume.takes_one_writer());
        let applicant = Applicant::Native(hello, done);
        match alone {
            true => self.apply(id, applicant, volume),
            false => self.admit(id, applicant, Some(volume)),
        }
    }

    /// A host wants to use a volume that nobody orders the requests of, so that there is room for
    /// one. In a cluster the other processes are asked whether it has one.
    pub(super) fn apply(&mut self, id: usize, applicant: Applicant, volume: VolumeId) {
        let itself = |c: &Host| match (c, &applicant) {
            (Host::Native(c), Applicant::Native(hello, _)) => c.host == Some(native::host(hello)),
            _ => false,
        };
        let other = |c: &&Host| c.volume() == Some(volume) && !itself(c);
        if self.hosts.values().any(|c| other(&c)) || self.arrivals.applies_for(volume) {
            let why = "another host uses it at this process".to_string();
            return self.turn_away(id, &applicant, Refusal::Taken(why));
        }
        match self.engine.rule.together().map(|t| (t.us(), t.others())) {
            Some((us, others)) if !others.is_empty() => {
                let others: Vec<NodeId> = others.into_iter().collect();
                self.arrivals.apply((id, applicant), volume, us, &others, Instant::now());
            }
            _ => self.admit(id, applicant, Some(volume)),
        }
    }

    /// A host is not let in.
    fn turn_away(&mut self, id: usize, applicant: &Applicant, refusal: Refusal) {
        let (code, text) = match refusal {
            Refusal::Unanswered(node) => {
                let text = format!("node {} has not said what it knows of this host", node.0);
                (Code::NotServing, text)
            }
            Refusal::Taken(why) => {
                let text = format!(
                    "nothing orders the requests to the volume (ordering=none), and {why}; \
                     disconnect that one, choose another ordering, or set ordering=none with --force"
                );
                (Code::SecondWriter, text)
            }
        };
        match applicant {
            Applicant::Native(..) => self.refuse(id, code, text),
            Applicant::Nbd => self.decide(id, None, text),
        }
    }

    /// Tells a host that names its requests why it is not let in.
    fn refuse(&mut self, id: usize, code: Code, text: String) {
        if let Some(Host::Native(connection)) = self.hosts.get_mut(&id) {
            if code == Code::SecondWriter {
                let why = format!("{} is not let in: {text}", connection.link.peer);
                self.complaints.say(Instant::now(), &why);
            }
            connection.link.machine.turn_away(code, text);
        }
    }

    /// A host may use a volume, if that is still there and the node takes part.
    fn admit(&mut self, id: usize, applicant: Applicant, volume: Option<VolumeId>) {
        let exports = self.engine.exports().only(self.serves.as_ref());
        let volume = exports.all().find(|v| Some(v.id) == volume).cloned();
        let serves = self.engine.originator(0).is_some();
        let text = match serves {
            true => "the volume has just been deleted",
            false => "this node does not take part in the cluster now",
        };
        match (applicant, volume) {
            (Applicant::Native(hello, done), Some(volume)) if serves => {
                self.welcome_native(id, &hello, &done, &volume);
            }
            (Applicant::Native(..), _) if serves => self.refuse(id, Code::NoVolume, text.into()),
            (Applicant::Native(..), _) => self.refuse(id, Code::NotServing, text.into()),
            (Applicant::Nbd, volume) => self.decide(id, volume.filter(|_| serves), text.into()),
        }
    }

    /// Whether a host gets the volume that it applies for, or why not.
    fn decide(&mut self, id: usize, volume: Option<Arc<Volume>>, why: String) {
        let Some(Host::Nbd(connection)) = self.hosts.get_mut(&id) else { return };
        if volume.is_none() {
            let why = format!("{} is not let in: {why}", connection.link.peer);
            self.complaints.say(Instant::now(), &why);
        }
        connection.decide(volume.as_deref().ok_or(why));
        self.to_receive.insert(id);
        self.to_send.insert(id);
    }

    fn welcome_native(&mut self, id: usize, hello: &Hello, done: &[u64], volume: &Volume) {
        let host = native::host(hello);
        if let Some(before) = self.sessions.conn(host) {
            // The host knows before we do that it is gone.
            self.hang_up(before, End::Closed);
        }
        let Ok(remembered) = self.sessions.arrive(host, id, volume.id, Instant::now()) else {
            let text = "a host's number is for one volume; draw another for this one".to_string();
            return self.refuse(id, Code::OtherVolume, text);
        };
        self.sessions.adopt(host, done);
        if let Some(Host::Native(connection)) = self.hosts.get_mut(&id) {
            (connection.host, connection.volume) = (Some(host), Some(volume.id));
            let journaled = volume.policy.is_journaled();
            connection.link.machine.welcome(volume.visible, remembered, journaled);
        }
    }
}
