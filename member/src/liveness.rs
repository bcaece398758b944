//! "Are you alive": the leader's record of every process (TickerTAIP 3.3.2), and which leases it
//! may grant.
//!
//! The leader asks all processes in rounds. A round is *confirmed* when a majority of the voters
//! has answered it in the leader's term. Then whatever the leader had heard from a process before
//! it began the round was sent before any later leader was elected, and the leader grants a lease
//! from that moment. Rounds come in pairs, the second as soon as the first is confirmed: the
//! first brings the processes' stamps, the second confirms them.

use std::collections::BTreeMap;

use weft_core::units::Nanos;

use crate::group::majority;
use crate::message::{Alive, Message};
use crate::{Bug, Config, MemberId};

/// A process as its leader sees it.
struct Process {
    /// When it was last heard of; at first, when this member became leader or the process joined.
    heard: Nanos,
    /// Probes in a row that it has not answered.
    missed: u32,
    dead: bool,
    /// The last that it said in this term.
    alive: Option<Alive>,
    /// Its start and stamp as known when the current round began.
    asked_after: (u64, Nanos),
    granted: (u64, Nanos),
}

impl Process {
    fn new(now: Nanos) -> Process {
        Process {
            heard: now,
            missed: 0,
            dead: false,
            alive: None,
            asked_after: (0, 0),
            granted: (0, 0),
        }
    }
}

pub(crate) struct Liveness {
    term: u64,
    processes: BTreeMap<MemberId, Process>,
    round: u64,
    confirmed: bool,
    /// The current round is the second of its pair.
    second: bool,
    next_probe: Nanos,
    asked_at: Nanos,
    /// When the last round began that a majority answered.
    stood: Option<Nanos>,
}

impl Liveness {
    pub fn new(term: u64, now: Nanos) -> Liveness {
        Liveness {
            term,
            processes: BTreeMap::new(),
            round: 0,
            confirmed: true,
            second: true,
            next_probe: now,
            asked_at: now,
            stood: None,
        }
    }

    /// The group is this now.
    pub fn set_group(&mut self, now: Nanos, group: &[MemberId]) {
        self.processes.retain(|m, _| group.contains(m));
        for m in group {
            self.processes.entry(*m).or_insert_with(|| Process::new(now));
        }
    }

    /// A process has shown itself. `None` if that is old news; else whether it was counted dead.
    pub fn heard(&mut self, now: Nanos, from: MemberId, alive: Alive) -> Option<bool> {
        let process = self.processes.get_mut(&from)?;
        let last = process.alive.as_ref().map_or((0, 0), |a| (a.start, a.number));
        if (alive.start, alive.number) <= last {
            return None;
        }
        process.heard = now;
        process.missed = 0;
        process.alive = Some(alive);
        Some(std::mem::take(&mut process.dead))
    }

    /// Sends probes when it is time, and returns those that are dead from now on. Nobody is while
    /// no majority stands behind this leader: it may be deposed and not know.
    pub fn tick(
        &mut self,
        now: Nanos,
        config: &Config,
        out: &mut Vec<(MemberId, Message)>,
    ) -> Vec<MemberId> {
        let hasty = config.bug == Some(Bug::NoLeaseWait);
        let stands = self.stood.is_some_and(|at| now.saturating_sub(at) < config.lease);
        let mut died = Vec::new();
        for (id, p) in &mut self.processes {
            let silent = now.saturating_sub(p.heard) >= config.dead_after;
            let gone = p.missed >= config.missed_probes && silent;
            if !p.dead && stands && (gone || (hasty && p.missed > 1)) {
                p.dead = true;
                died.push(*id);
            }
        }
        if now >= self.next_probe {
            self.next_probe = now + config.probe_every;
            self.processes.values_mut().for_each(|p| p.missed = p.missed.saturating_add(1));
            self.second = false;
            self.ask(now, out);
        }
        died
    }

    /// Begins a round.
    fn ask(&mut self, now: Nanos, out: &mut Vec<(MemberId, Message)>) {
        self.round += 1;
        self.asked_at = now;
        self.confirmed = false;
        for (id, p) in &mut self.processes {
            p.asked_after = p.alive.as_ref().map_or((0, 0), |a| (a.start, a.stamp));
            out.push((*id, Message::Probe { term: self.term, round: self.round }));
        }
    }

    /// Grants what the current round confirms, once a majority has answered it, to those that may
    /// have a lease.
    pub fn confirm(
        &mut self,
        now: Nanos,
        voters: &[MemberId],
        trusted: &[MemberId],
        out: &mut Vec<(MemberId, Message)>,
    ) {
        let (term, round) = (self.term, self.round);
        let answered = |m: &&MemberId| {
            let alive = self.processes.get(m).and_then(|p| p.alive.as_ref());
            alive.is_some_and(|a| a.term == term && a.round == round)
        };
        if self.confirmed || voters.iter().filter(answered).count() < majority(voters.len()) {
            return;
        }
        self.confirmed = true;
        self.stood = Some(self.asked_at);
        for (id, p) in &mut self.processes {
            if p.asked_after > p.granted && trusted.contains(id) {
                p.granted = p.asked_after;
                let (start, stamp) = p.granted;
                out.push((*id, Message::Grant { start, stamp }));
            }
        }
        if !self.second {
            self.second = true;
            self.ask(now, out);
        }
    }

    /// Those that have shown themselves in this term and are not counted dead, with what they
    /// said last.
    pub fn alive(&self) -> impl Iterator<Item = (MemberId, &Alive)> {
        self.processes
            .iter()
            .filter(|p| !p.1.dead)
            .filter_map(|(m, p)| Some((*m, p.alive.as_ref()?)))
    }

    /// Whether every process has shown itself or is dead: nobody may be alive unseen.
    pub fn all_known(&self) -> bool {
        self.processes.values().all(|p| p.dead || p.alive.is_some())
    }

    pub fn dead(&self) -> Vec<MemberId> {
        self.processes.iter().filter(|p| p.1.dead).map(|p| *p.0).collect()
    }
}
