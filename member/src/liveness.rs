//! "Are you alive": the leader's record of every process (TickerTAIP 3.3.2), and which leases it
//! may grant.
//!
//! The leader asks all processes in rounds, one each `probe_every`, whoever has answered the last. A
//! round is *confirmed* when a majority of the voters has answered it, or a later one, in the leader's
//! term. Then whatever the leader had heard from a process before it began the round was sent before
//! any later leader was elected, and the leader grants a lease from that moment. So each round brings
//! the processes' stamps and confirms those of the rounds before, of the slow and of the quick.
//!
//! A process is dead when it has been silent for long enough. But one that only the leader does not
//! hear is not gone: the others report it, and then [`misfits`] decides which is evicted, the process or the leader.
//! So it is where two others do not hear each other. An evicted process that still reaches the leader is *shut out*:
//! the leader listens to it no more, as if it were silent, until all hear one another
//! again. It gets no lease, and is dead in its time; all that holds of the silent holds of it.
//!
//! A lease counts from a stamp, the process's clock when it sent [`Alive`]. Three claims make it safe:
//!
//! 1. *A later leader was elected after the stamp was sent.* It had the votes of a majority. One of these voters answered the
//!    confirming round in the earlier term, so before it voted; and the round began after the stamp arrived. (Groups one change
//!    apart have intersecting majorities, and Raft commits between changes.)
//! 2. *No leader declares the process dead while it has a lease.* The lease ends `lease` after the stamp, by the process's
//!    clock. The leader that granted it heard the stamp later, and waits `dead_after` from then. A later leader counts from
//!    its election at the earliest, which by 1 is also later than the stamp. The settings allow for the drift of both clocks.
//! 3. *A process that was declared dead, or left behind by the agreed map, gets no grant until each of its nodes has heard a
//!    command of this leader*: first a freeze. A new leader listens only to processes that have seen its term, and so
//!    obey no earlier one. It grants nothing before its first entry is committed, that is, before it knows every agreed map.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_core::units::Nanos;

use crate::group::majority;
use crate::hearing::Unheard;
use crate::message::{Alive, Message};
use crate::reach::{Link, Pair, Part, misfits, pair};
use crate::{Config, MemberId, fault};

/// Rounds of pings that two processes may miss of each other, of the last 16, without being suspected:
/// a machine that is busy for a moment misses some.
const NOISE: u8 = 2;

/// For a process whose pings come, and whose answers do not, the leader waits this many times `dead_after` while nobody
/// else can lead.
const LATE_AT_MOST: Nanos = 4;

/// A process as its leader sees it.
struct Process {
    /// When it was last heard of; at first, when this member became leader or the process joined.
    heard: Nanos,
    /// Probes in a row that it has not answered.
    missed: u32,
    /// Rounds in a row that a majority has answered and it has not. What the leader does not hear while
    /// it hears nobody does not make anyone dead.
    outvoted: u32,
    dead: bool,
    /// The last that it said in this term and was listened to.
    alive: Option<Alive>,
    /// What it said last of those that it does not hear, and when that came.
    report: Option<(Nanos, Vec<Unheard>)>,
    /// When it came, if it did not run on from before this reign.
    since: Option<Nanos>,
    shut_out: bool,
    granted: Stamp,
}

/// What a lease is counted from: a start of the process, and its clock when it said that it is alive.
type Stamp = (u64, Nanos);

/// A round that is not confirmed.
struct Round {
    number: u64,
    begun: Nanos,
    /// The last that had been heard of each process when it began.
    stamps: BTreeMap<MemberId, Stamp>,
}

impl Process {
    fn is_silent(&self, now: Nanos, config: &Config) -> bool {
        let long = now.saturating_sub(self.heard) >= config.dead_after;
        long && self.missed >= config.missed_probes
    }

    /// Whether it has said lately whom it hears.
    fn speaks(&self, now: Nanos, config: &Config) -> bool {
        self.report.as_ref().is_some_and(|r| now.saturating_sub(r.0) < config.dead_after)
    }

    fn new(now: Nanos) -> Process {
        Process {
            heard: now,
            missed: 0,
            outvoted: 0,
            dead: false,
            alive: None,
            report: None,
            since: None,
            shut_out: false,
            granted: (0, 0),
        }
    }
}

/// What has become of the processes since the last tick.
#[derive(Default)]
pub(crate) struct Fates {
    /// These are dead from now on.
    pub dead: Vec<MemberId>,
    /// These are listened to no more, because others do not hear them, or they others.
    pub shut_out: Vec<MemberId>,
    /// If another process should lead, and these must be asked (again): who may.
    pub heirs: Option<Vec<MemberId>>,
}

/// What a leader makes of who answers, and of what others say.
struct View {
    /// They may be dead.
    silent: BTreeSet<MemberId>,
    /// Those of them that others hear, and count on.
    seen: BTreeSet<MemberId>,
    /// They have to go, or may not come.
    misfits: BTreeSet<MemberId>,
    /// If the leader is one of them, it continues to lead nevertheless: no other can, or none has.
    stays: bool,
}

/// Who is asked.
pub(crate) struct Circle<'a> {
    /// The leader.
    pub us: MemberId,
    pub voters: &'a [MemberId],
    /// Processes without disks.
    pub hosts: &'a BTreeSet<MemberId>,
}

pub(crate) struct Liveness {
    term: u64,
    processes: BTreeMap<MemberId, Process>,
    round: u64,
    /// Rounds that are not confirmed and younger than a lease, the oldest first.
    open: VecDeque<Round>,
    next_probe: Nanos,
    /// When the last round began that a majority answered.
    stood: Option<Nanos>,
    /// Since when the leader had better be another one.
    had_better_go: Option<Nanos>,
}

impl Liveness {
    pub fn new(term: u64, now: Nanos) -> Liveness {
        Liveness {
            term,
            processes: BTreeMap::new(),
            round: 0,
            open: VecDeque::new(),
            next_probe: now,
            stood: None,
            had_better_go: None,
        }
    }

    /// The group is this now.
    pub fn set_group(&mut self, now: Nanos, group: &[MemberId]) {
        self.processes.retain(|m, _| group.contains(m));
        let first = self.processes.is_empty();
        for m in group {
            let since = (!first).then_some(now);
            let new = || Process { since, ..Process::new(now) };
            self.processes.entry(*m).or_insert_with(new);
        }
    }

    /// A process says whom it did not always hear.
    pub fn reported(&mut self, now: Nanos, from: MemberId, unheard: Vec<Unheard>) {
        if let Some(process) = self.processes.get_mut(&from) {
            process.report = Some((now, unheard));
        }
    }

    /// A process has shown itself. `None` if that is old news or it is not listened to; else whether
    /// it was counted dead. `anew` says that it has started again since the last reign: that others have not
    /// heard it for long says nothing of its links then.
    pub fn heard(&mut self, now: Nanos, from: MemberId, alive: Alive, anew: bool) -> Option<bool> {
        self.reported(now, from, alive.unheard.clone());
        let process = self.processes.get_mut(&from)?;
        let last = process.alive.as_ref().map_or((0, 0), |a| (a.start, a.number));
        if (alive.start, alive.number) <= last {
            return None;
        }
        if process.shut_out {
            return None;
        }
        process.heard = now;
        (process.missed, process.outvoted) = (0, 0);
        let is_first = process.alive.replace(alive).is_none();
        if process.dead || (is_first && anew) {
            process.since = Some(now);
        }
        Some(std::mem::take(&mut process.dead))
    }

    /// Sends probes when it is time, and judges. Nobody is dead while no majority stands behind this
    /// leader: it may be deposed and not know.
    pub fn tick(
        &mut self,
        now: Nanos,
        config: &Config,
        circle: &Circle,
        out: &mut Vec<(MemberId, Message)>,
    ) -> Fates {
        let fates = self.judge(now, config, circle);
        if now >= self.next_probe {
            self.next_probe = now + config.probe_every;
            self.processes.values_mut().for_each(|p| p.missed = p.missed.saturating_add(1));
            self.ask(now, config, out);
        }
        fates
    }

    fn judge(&mut self, now: Nanos, config: &Config, circle: &Circle) -> Fates {
        let view = self.look(now, config, circle);
        let heirs = self.heirs(circle, &view.misfits, &view.silent);
        let suffice = heirs.len() >= majority(circle.voters.len());
        let mut fates = self.put_out(now, config, circle.us, &view, suffice);
        let hands_over = view.misfits.contains(&circle.us) && !view.stays;
        if hands_over && (self.had_better_go.is_none() || now >= self.next_probe) {
            fates.heirs = Some(heirs);
        }
        // It counts from when it began, until all is well.
        let since = self.had_better_go.unwrap_or(now);
        let is_not_well = hands_over || (view.stays && !view.silent.is_empty());
        self.had_better_go = is_not_well.then_some(since);
        fates
    }

    /// The silent processes, and those to evict for it.
    fn look(&self, now: Nanos, config: &Config, circle: &Circle) -> View {
        let silent = self.silent(now, config, circle.us);
        let heard_of = silent.iter().copied().filter(|m| self.is_heard_of(*m, &silent, config));
        let seen: BTreeSet<MemberId> = heard_of.collect();
        let misfits = self.misfits(now, config, circle, &silent, &seen);
        let mut follow: BTreeSet<MemberId> =
            seen.union(&self.out(now, config, &silent)).copied().collect();
        follow.retain(|m| !misfits.contains(m));
        let waited = |since: Nanos| now.saturating_sub(since) >= config.dead_after;
        let stays = !self.others_suffice(circle, &misfits, &silent, &follow)
            || self.had_better_go.is_some_and(waited);
        if !(misfits.contains(&circle.us) && stays) {
            return View { silent, seen, misfits, stays };
        }
        // Nobody takes over: hosts must not wait for whom only others hear. A process whose pings come here runs, and its
        // link works one way. The other way may only be slow. Without the process volumes may sleep, so it has longer.
        let speaks =
            |m: &MemberId| self.processes.get(m).is_some_and(|p| self.is_late(p, now, config));
        let seen = seen.into_iter().filter(speaks).collect();
        let misfits = self.misfits(now, config, circle, &silent, &seen);
        View { silent, seen, misfits, stays }
    }

    /// Whether a silent process is perhaps only late: its pings come.
    fn is_late(&self, process: &Process, now: Nanos, config: &Config) -> bool {
        let silent = now.saturating_sub(process.heard);
        process.speaks(now, config) && silent < LATE_AT_MOST * config.dead_after
    }

    /// Declares failed processes dead, and shuts evicted ones out. `suffice` says whether those that remain are a
    /// majority.
    fn put_out(
        &mut self,
        now: Nanos,
        config: &Config,
        us: MemberId,
        view: &View,
        suffice: bool,
    ) -> Fates {
        let stands = self.stood.is_some_and(|at| now.saturating_sub(at) < config.lease);
        let mut fates = Fates::default();
        for (m, p) in &mut self.processes {
            let goes = view.misfits.contains(m) && *m != us;
            let shut_out = goes && (suffice || p.dead);
            if shut_out && !p.shut_out && !p.dead && !view.silent.contains(m) {
                fates.shut_out.push(*m);
            }
            p.shut_out = shut_out;
            let gone = view.silent.contains(m) && (goes || !view.seen.contains(m));
            let gone = gone && p.outvoted >= config.missed_probes;
            if !p.dead && stands && (gone || fault::buries_after_one_probe(config.bug, p.missed)) {
                p.dead = true;
                fates.dead.push(*m);
            }
        }
        fates
    }

    /// Those whose silence is long enough that they may be dead. While others are late, too, it is
    /// perhaps they that are going, or it is the leader that hears badly: it waits for them, but not for
    /// ever.
    fn silent(&self, now: Nanos, config: &Config, us: MemberId) -> BTreeSet<MemberId> {
        let silent = self.processes.iter().filter(|(_, p)| !p.dead && p.is_silent(now, config));
        let silent: BTreeMap<MemberId, Nanos> = silent.map(|(m, p)| (*m, p.heard)).collect();
        let late = 2 * config.probe_every + config.ping_every;
        let is_late = |(m, p): (&MemberId, &Process)| {
            let counts = !p.dead && !p.shut_out && p.alive.is_some();
            let others = *m != us && !silent.contains_key(m);
            counts && others && now.saturating_sub(p.heard) >= late
        };
        let least = match self.processes.iter().any(is_late) {
            true => 2 * config.dead_after,
            false => config.dead_after,
        };
        let long = |heard: &Nanos| now.saturating_sub(*heard) >= least;
        silent.into_iter().filter(|(_, heard)| long(heard)).map(|(m, _)| m).collect()
    }

    /// The voters that remain and are heard here.
    fn heirs(
        &self,
        circle: &Circle,
        misfits: &BTreeSet<MemberId>,
        silent: &BTreeSet<MemberId>,
    ) -> Vec<MemberId> {
        let answers = |p: &Process| !p.dead && p.alive.is_some();
        let answers = |m: &&MemberId| self.processes.get(m).is_some_and(answers);
        let remains = |m: &&MemberId| !misfits.contains(m) && !silent.contains(m);
        circle.voters.iter().filter(remains).filter(answers).copied().collect()
    }

    /// Whether the others are a majority without this leader, and one of them can be asked to lead.
    /// `follow` are those that cannot be asked, and can give their vote: others hear them.
    fn others_suffice(
        &self,
        circle: &Circle,
        misfits: &BTreeSet<MemberId>,
        silent: &BTreeSet<MemberId>,
        follow: &BTreeSet<MemberId>,
    ) -> bool {
        let mut heirs = self.heirs(circle, misfits, silent);
        heirs.retain(|m| *m != circle.us);
        let counts = |m: &&MemberId| follow.contains(m) && !heirs.contains(m);
        let more = circle.voters.iter().filter(counts).count();
        !heirs.is_empty() && heirs.len() + more >= majority(circle.voters.len())
    }

    /// Those that are counted dead, and run: they speak to the leader or others hear them.
    fn out(&self, now: Nanos, config: &Config, silent: &BTreeSet<MemberId>) -> BTreeSet<MemberId> {
        let dead = self.processes.iter().filter(|(_, p)| p.dead);
        let runs = |(m, p): &(&MemberId, &Process)| {
            p.speaks(now, config) || self.is_heard_of(**m, silent, config)
        };
        dead.filter(runs).map(|(m, _)| *m).collect()
    }

    /// Whether somebody has heard a process that does not answer this leader, later than could be if
    /// it had died: one of the next two probes after its last answer it would have answered.
    fn is_heard_of(&self, m: MemberId, silent: &BTreeSet<MemberId>, config: &Config) -> bool {
        let every = config.ping_every;
        let Some(answered) = self.processes.get(&m).map(|p| p.heard) else { return false };
        self.processes.iter().any(|(other, p)| {
            if *other == m || p.dead || silent.contains(other) {
                return false;
            }
            let Some((said, unheard)) = &p.report else { return false };
            let age = unheard.iter().find(|u| u.member == m).map_or(every, |u| u.age);
            said.saturating_sub(age) > answered + 2 * config.probe_every + every / 2
        })
    }

    /// Those that have to go or may not come, so that all that remain hear one another. `silent` are
    /// those that are not heard here, `seen` those of them that others hear.
    fn misfits(
        &self,
        now: Nanos,
        config: &Config,
        circle: &Circle,
        silent: &BTreeSet<MemberId>,
        seen: &BTreeSet<MemberId>,
    ) -> BTreeSet<MemberId> {
        let out = self.out(now, config, silent);
        let mut parts = BTreeMap::new();
        for (m, p) in &self.processes {
            let part = match () {
                () if out.contains(m) => Part::Out,
                () if p.dead || (silent.contains(m) && !seen.contains(m) && !p.shut_out) => {
                    continue;
                }
                () if p.alive.is_none() && !seen.contains(m) => continue,
                () if circle.hosts.contains(m) => Part::Host,
                () if p.shut_out => Part::Going,
                () => Part::In,
            };
            parts.insert(*m, part);
        }
        let every = config.ping_every;
        let settled = |m: &MemberId| {
            let since = self.processes.get(m).and_then(|p| p.since);
            since.is_none_or(|at| now.saturating_sub(at) >= config.dead_after + 2 * every)
        };
        let mut links: BTreeMap<Pair, Link> = BTreeMap::new();
        for (m, p) in
            self.processes.iter().filter(|(m, p)| parts.contains_key(m) && p.speaks(now, config))
        {
            let Some((_, unheard)) = &p.report else { continue };
            for u in unheard.iter().filter(|u| parts.contains_key(&u.member)) {
                let link = links.entry(pair(*m, u.member)).or_default();
                link.late += u32::from(u.late.saturating_sub(NOISE));
                link.broken |= u.age >= config.dead_after && settled(m) && settled(&u.member);
            }
        }
        for m in seen.iter().filter(|m| **m != circle.us) {
            links.entry(pair(circle.us, *m)).or_default().broken = true;
        }
        misfits(circle.us, &parts, &links)
    }

    /// Checks what must hold when an input has been handled.
    pub fn check(&self, term: u64) {
        assert_eq!(self.term, term, "processes are asked in the term of the reign");
        let ascend = self.open.iter().zip(self.open.iter().skip(1));
        assert!(ascend.into_iter().all(|(a, b)| a.number < b.number), "rounds are in their order");
        let last = self.open.back().map_or(0, |round| round.number);
        assert!(last <= self.round, "a round is open that has not begun");
        for alive in self.processes.values().filter_map(|p| p.alive.as_ref()) {
            assert!(alive.term == term && alive.round <= self.round, "an answer to no round");
        }
    }

    /// Begins a round.
    fn ask(&mut self, now: Nanos, config: &Config, out: &mut Vec<(MemberId, Message)>) {
        self.round += 1;
        let stamp =
            |(m, p): (&MemberId, &Process)| p.alive.as_ref().map(|a| (*m, (a.start, a.stamp)));
        let stamps = self.processes.iter().filter_map(stamp).collect();
        // An answer that is a lease old no longer counts for a lease.
        self.open.retain(|r| now.saturating_sub(r.begun) < config.lease);
        self.open.push_back(Round { number: self.round, begun: now, stamps });
        let probe = |m: &MemberId| (*m, Message::Probe { term: self.term, round: self.round });
        out.extend(self.processes.keys().map(probe));
    }

    /// Grants what the last round confirms that a majority has answered, to those that may have a
    /// lease.
    pub fn confirm(
        &mut self,
        voters: &[MemberId],
        trusted: &[MemberId],
        out: &mut Vec<(MemberId, Message)>,
    ) {
        let Some(answered) = self.answered(voters) else { return };
        let mut last = None;
        while self.open.front().is_some_and(|r| r.number <= answered) {
            last = self.open.pop_front();
        }
        let Some(confirmed) = last else { return };
        self.stood = Some(confirmed.begun);
        for (id, p) in &mut self.processes {
            p.outvoted = p.outvoted.saturating_add(u32::from(p.heard < confirmed.begun));
            let stamp = confirmed.stamps.get(id).copied().unwrap_or_default();
            if stamp > p.granted && trusted.contains(id) {
                p.granted = stamp;
                out.push((*id, Message::Grant { start: stamp.0, stamp: stamp.1 }));
            }
        }
    }

    /// The last round that a majority of the voters has answered, itself or by a later one.
    fn answered(&self, voters: &[MemberId]) -> Option<u64> {
        let round = |m: &MemberId| {
            let alive = self.processes.get(m).and_then(|p| p.alive.as_ref());
            alive.filter(|a| a.term == self.term).map_or(0, |a| a.round)
        };
        let mut rounds: Vec<u64> = voters.iter().map(round).collect();
        rounds.sort_unstable_by(|a, b| b.cmp(a));
        rounds.get(majority(voters.len()) - 1).copied()
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
