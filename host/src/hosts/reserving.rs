//! Hosts that register with a volume or reserve it. The leading process makes the change; the host is told when the map
//! here says what became of it, so that what the host asks next is judged by it.
//!
//! A hold ends with its session. A process ends the holds that came through it and have no session any more, also those
//! from before its start. The holds of a process that takes no part are ended by the others.
//!
//! Changes are asked for in rounds: what comes while one is under way waits for the next, and rounds have a [`Pace`]. A map
//! with all changes of a round stops hosts' requests once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_core::cluster::{
    Access, ClusterMap, Hold, Registrant, ReservationAction, ReservationChange, ReservationOutcome,
};
use weft_core::node::HostError;
use weft_core::units::{Epoch, NodeId, VolumeId};

use super::Hosts;
use super::pace::Pace;
use crate::control_protocol::ControlRequest;
use crate::durable::random;
use crate::engine::Engine;
use crate::reserving::Reserving;

/// How long a host waits for a change. One that could not be made is asked for again: the leading process may have changed.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long until then.
const AGAIN: Duration = Duration::from_millis(200);

/// How many changes of a volume are asked for at a time. The map keeps the outcomes of many times as many.
const MOST_OF_A_VOLUME: usize = 16;

/// A question for the leading process, where its answer goes, and who asks.
pub(crate) struct Question {
    pub(crate) question: Vec<u8>,
    pub(crate) answer: Sender<Vec<u8>>,
    pub(crate) peer: String,
}

/// What a host waits for.
struct Waiting {
    /// The connection, and its number for the request; none where a session is over.
    asker: Option<(usize, u64)>,
    peer: String,
    volume: VolumeId,
    /// Whether the host has proved its name, and the name: hosts take turns.
    host: (bool, String),
    stamp: u64,
    /// The question, which is asked again with the same stamp: the change is made once.
    question: Vec<u8>,
    since: Instant,
    state: State,
    /// It has been asked for at least once, so that it may be made whatever was answered.
    was_asked: bool,
    /// Its session is over: if it is not made now, it is not asked for again.
    left: bool,
}

/// How far it is.
enum State {
    /// It is to be asked then.
    ToAsk(Instant),
    /// It has been asked.
    Asked(Receiver<Vec<u8>>),
    /// The map of this epoch, or a later one, has the change.
    Made(Epoch),
}

/// A result, the connection that waits for it, and its number for the request.
type Told = (Result<ReservationOutcome, HostError>, (usize, u64));

/// A host that asks for the registrants.
struct Asking {
    conn: usize,
    number: u64,
    since: Instant,
}

/// Changes of reservations that hosts wait for, and those that wait to be told of the registrants.
#[derive(Default)]
pub(super) struct Reservings {
    changes: Vec<Waiting>,
    askings: Vec<Asking>,
    /// The stamps of the holds that sessions of this process have asked for, each with its connection.
    holds: Vec<(usize, u64)>,
    /// The epoch in which holds were looked at last; none if another look is due.
    looked: Option<Epoch>,
    pace: Pace,
}

impl Reservings {
    /// Puts a change on the list of those to ask for.
    fn ask(&mut self, asker: Option<(usize, u64)>, peer: String, change: &ReservationChange) {
        let (volume, stamp, since) = (change.volume, change.stamp, Instant::now());
        let host = host_of(&change.who.host);
        let host = (host.0, host.1.to_string());
        let Some(change) = Reserving::of(change) else { return };
        let question = ControlRequest::Reserve { change };
        let question = serde_json::to_vec(&question).expect("a question has words for all it says");
        let state = State::ToAsk(since);
        self.pass(since);
        let (left, was_asked) = (false, false);
        self.changes.push(Waiting {
            asker,
            peer,
            volume,
            host,
            stamp,
            question,
            since,
            state,
            was_asked,
            left,
        });
    }

    /// The holds in a map whose sessions are over. This process knows its own sessions, and of others whether they are up.
    fn ended_holds<'a>(
        &mut self,
        map: &'a ClusterMap,
        us: NodeId,
        is_up: impl Fn(NodeId) -> bool,
    ) -> Vec<(&'a VolumeId, &'a Hold)> {
        let all =
            || map.volumes.iter().filter_map(|(id, v)| Some((id, v.reservations.hold.as_ref()?)));
        let Reservings { changes, holds, .. } = self;
        // What has neither been made nor is in progress is over.
        holds.retain(|(_, stamp)| {
            all().any(|(_, hold)| hold.stamp == *stamp) || changes.iter().any(|c| c.stamp == *stamp)
        });
        let is_over = |hold: &Hold| match hold.who.process() == us {
            true => !holds.iter().any(|(_, stamp)| *stamp == hold.stamp),
            false => !is_up(hold.who.process()),
        };
        let ends = |c: &Waiting| c.asker.is_none() && !c.left;
        let is_asked = |id: VolumeId| changes.iter().any(|c| ends(c) && c.volume == id);
        all().filter(|(id, hold)| is_over(hold) && !is_asked(**id)).collect()
    }

    /// A session is over. What it has asked for takes its time whether its host waits or not.
    fn leave(&mut self, conn: usize) {
        self.pass(Instant::now());
        let is_of = |w: &&mut Waiting| w.asker.is_some_and(|(of, _)| of == conn);
        for waiting in self.changes.iter_mut().filter(is_of) {
            (waiting.asker, waiting.left) = (None, true);
        }
        self.changes.retain(|waiting| !waiting.is_given_up());
    }

    /// Whether a change has been asked for that the map does not show yet.
    fn is_under_way(&self) -> bool {
        self.changes.iter().any(|c| !matches!(c.state, State::ToAsk(_)))
    }

    /// Counts how long changes take; before any begins or is over.
    fn pass(&mut self, now: Instant) {
        let under_way = self.is_under_way();
        self.pace.pass(now, under_way);
    }

    /// How long until changes may be asked for.
    fn wait(&self, now: Instant) -> Duration {
        match self.is_under_way() {
            true => self.pace.patience(now).max(self.pace.wait()),
            false => self.pace.wait(),
        }
    }

    /// Questions for the leading process: those of the next round, if it is time.
    fn take_questions(&mut self, now: Instant) -> Vec<Question> {
        if self.changes.is_empty() {
            return Vec::new();
        }
        self.pass(now);
        if !self.wait(now).is_zero() {
            return Vec::new();
        }
        let next = self.next_round(now);
        let ask = |(n, waiting): (usize, &mut Waiting)| {
            if !next.contains(&n) {
                return None;
            }
            let (answer, answers) = channel();
            (waiting.state, waiting.was_asked) = (State::Asked(answers), true);
            let (question, peer) = (waiting.question.clone(), waiting.peer.clone());
            Some(Question { question, answer, peer })
        };
        let changes = self.changes.iter_mut().enumerate();
        let questions: Vec<Question> = changes.filter_map(ask).collect();
        if !questions.is_empty() {
            self.pace.begin(now);
        }
        questions
    }

    /// The changes to ask for now. Of a volume hosts take turns: none can hold off its own preemption with changes.
    fn next_round(&self, now: Instant) -> BTreeSet<usize> {
        let mut turns = BTreeMap::new();
        let mut asked = BTreeMap::new();
        let mut waiting = Vec::new();
        for (n, change) in self.changes.iter().enumerate() {
            let turn = turns.entry((change.volume, &change.host)).or_insert(0);
            match change.state {
                State::ToAsk(at) if at > now => continue,
                State::ToAsk(_) => waiting.push((*turn, n)),
                State::Asked(_) | State::Made(_) => *asked.entry(change.volume).or_insert(0) += 1,
            }
            *turn += 1;
        }
        waiting.sort_unstable();
        let has_place = |n: &usize| {
            let asked = asked.entry(self.changes[*n].volume).or_insert(0);
            *asked += 1;
            *asked <= MOST_OF_A_VOLUME
        };
        waiting.into_iter().map(|(_, n)| n).filter(has_place).collect()
    }

    /// The results that are known by now, for those who wait for them.
    fn step(&mut self, map: &ClusterMap, now: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        let Reservings { changes, holds, looked, .. } = self;
        changes.retain_mut(|waiting| {
            let result = waiting.step(map, now);
            let is_over = result.is_some() || waiting.is_given_up();
            if matches!(result, Some(Err(_))) {
                give_up_hold(holds, waiting, map);
            }
            told.extend(result.zip(waiting.asker));
            // If the hold has not ended, another question follows.
            if is_over && waiting.asker.is_none() {
                *looked = None;
            }
            !is_over
        });
        told
    }

    /// When the next is asked for, perhaps again.
    pub(super) fn due(&self) -> Option<Duration> {
        let now = Instant::now();
        // The end of those under way is noticed; if it does not come, more may be asked for, unless there are too many.
        let least = if self.is_under_way() { AGAIN } else { Duration::ZERO };
        let wait = self.wait(now).max(least);
        let due = self.changes.iter().filter_map(|waiting| match waiting.state {
            State::ToAsk(at) => Some(at.saturating_duration_since(now).max(wait)),
            State::Asked(_) => Some((waiting.since + PATIENCE).saturating_duration_since(now)),
            State::Made(_) => None,
        });
        due.chain(self.askings.first().map(|_| AGAIN)).min()
    }
}

impl Hosts {
    /// A host asks for a change.
    pub(super) fn reserve(&mut self, id: usize, number: u64, action: ReservationAction) {
        let Some(session) = self.connections.get(id) else { return };
        let (Some(volume), Some(who)) = (session.volume(), session.registrant()) else { return };
        if session.access() != Some(Access::Full) {
            return self.connections.reserved(id, number, of_reader(&action));
        }
        let peer = session.peer().to_string();
        let (who, stamp) = (Registrant::clone(&who), random() as u64);
        if action == ReservationAction::Hold {
            self.reservings.holds.push((id, stamp));
        }
        let change = ReservationChange { volume, who, action, stamp };
        self.reservings.ask(Some((id, number)), peer, &change);
    }

    /// Ends the holds of sessions that are over.
    fn end_holds(&mut self, engine: &Engine) {
        let (map, exports) = (engine.map(), engine.exports());
        if self.reservings.looked.replace(map.epoch) == Some(map.epoch) {
            return;
        }
        let us = NodeId(exports.at().process);
        for (volume, hold) in self.reservings.ended_holds(map, us, |process| exports.is_up(process))
        {
            let action = ReservationAction::EndHold { made_by: hold.stamp };
            let (volume, stamp) = (*volume, random() as u64);
            let change = ReservationChange { volume, who: hold.who.clone(), action, stamp };
            self.reservings.ask(None, "the end of a session".to_string(), &change);
        }
    }

    /// A host asks for the registrants.
    pub(super) fn ask_for_registrants(&mut self, conn: usize, number: u64) {
        self.reservings.askings.push(Asking { conn, number, since: Instant::now() });
    }

    /// Tells hosts of the registrants, if the map is one in which nodes of this process may answer reads: otherwise others
    /// may have a later one. Until then they wait for a while.
    fn tell_registrants(&mut self, engine: &Engine) {
        let knows = !self.reservings.askings.is_empty() && engine.knows_map();
        let is_over = |asking: &mut Asking| knows || asking.since.elapsed() >= PATIENCE;
        for Asking { conn, number, .. } in self.reservings.askings.extract_if(.., is_over) {
            let volume = self.connections.get(conn).and_then(|session| session.volume());
            let volume = volume.and_then(|volume| engine.map().volumes.get(&volume));
            let volume = match knows {
                true => volume.map(|v| &**v).ok_or(HostError::NoVolume),
                false => Err(HostError::NotServing),
            };
            self.connections.registrants(conn, number, volume);
        }
    }

    /// Questions for the leading process.
    pub(crate) fn take_questions(&mut self) -> Vec<Question> {
        self.reservings.take_questions(Instant::now())
    }

    /// Tells hosts what has become of what they asked for. Says whether there was anything to tell.
    pub(crate) fn step_reservings(&mut self, engine: &Engine) -> bool {
        self.tell_registrants(engine);
        self.end_holds(engine);
        if self.reservings.changes.is_empty() {
            return false;
        }
        let others = engine.rule.together().map_or(0, |t| t.others().len());
        self.reservings.pace.divide(1 + others);
        self.reservings.pass(Instant::now());
        let map = engine.map();
        let told = self.reservings.step(map, Instant::now());
        let any = !told.is_empty();
        if any {
            // What they know is as new as what they are told.
            self.connections.look_at(map);
        }
        for (result, (conn, number)) in told {
            self.connections.reserved(conn, number, result);
        }
        any
    }

    /// A connection is over.
    pub(super) fn forget_reservings(&mut self, conn: usize) {
        self.reservings.leave(conn);
        let before = self.reservings.holds.len();
        self.reservings.holds.retain(|(of, _)| *of != conn);
        if self.reservings.holds.len() < before {
            self.reservings.looked = None;
        }
        self.reservings.askings.retain(|asking| asking.conn != conn);
    }
}

/// The result for a host that may only read. A reset is one of its session alone, whose commands are aborted already.
fn of_reader(action: &ReservationAction) -> Result<ReservationOutcome, HostError> {
    match action {
        ReservationAction::Reset | ReservationAction::Unhold => Ok(ReservationOutcome::Done),
        _ => Err(HostError::ReadOnly),
    }
}

impl Waiting {
    /// Whether its host has left before it was asked for, or before it could be made.
    fn is_given_up(&self) -> bool {
        self.left && matches!(self.state, State::ToAsk(_))
    }

    /// The result, if it is known, or if the host has waited for long enough.
    fn step(
        &mut self,
        map: &ClusterMap,
        now: Instant,
    ) -> Option<Result<ReservationOutcome, HostError>> {
        let Some(volume) = map.volumes.get(&self.volume) else {
            return Some(Err(HostError::NoVolume));
        };
        if let Some(outcome) = self.take_answer(now) {
            return Some(Ok(outcome));
        }
        match (volume.reservations.outcome(self.stamp), &self.state) {
            (Some(outcome), _) => Some(Ok(outcome)),
            // The map here is older.
            (None, State::Made(epoch)) if *epoch > map.epoch => None,
            // Later changes have displaced its outcome.
            (None, State::Made(_)) => Some(Err(HostError::OutcomeUnknown)),
            (None, _) if now.duration_since(self.since) < PATIENCE => None,
            // It may have been made, or may be yet.
            (None, _) if self.was_asked => Some(Err(HostError::OutcomeUnknown)),
            (None, _) => Some(Err(HostError::NotServing)),
        }
    }

    /// Takes an answer of the leading process, if it has come. Returns the outcome, if the answer says that.
    fn take_answer(&mut self, now: Instant) -> Option<ReservationOutcome> {
        let State::Asked(answers) = &self.state else { return None };
        let answer = match next_answer(answers) {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return None,
            // Whoever was to answer is gone.
            Err(TryRecvError::Disconnected) => Value::Null,
        };
        match (answer["ok"].as_bool(), answer["epoch"].as_u64()) {
            (Some(true), Some(epoch)) => match unchanged(&answer) {
                Some(outcome) => return Some(outcome),
                None => self.state = State::Made(epoch),
            },
            _ => self.state = State::ToAsk(now + AGAIN),
        }
        None
    }
}

/// A session has been told that a change of it failed. If that is a hold, and it is made after all, it is nobody's and ends;
/// unless the session has the volume already and has only asked again.
fn give_up_hold(holds: &mut Vec<(usize, u64)>, waiting: &Waiting, map: &ClusterMap) {
    let volume = map.volumes.get(&waiting.volume);
    let made = volume.and_then(|v| v.reservations.hold.as_ref()).map(|hold| hold.stamp);
    let conn = waiting.asker.map(|(conn, _)| conn);
    let has_one = holds.iter().any(|(of, stamp)| Some(*of) == conn && Some(*stamp) == made);
    if !has_one {
        holds.retain(|(_, stamp)| *stamp != waiting.stamp);
    }
}

/// The outcome that the leading process reports without a change of the map.
fn unchanged(answer: &Value) -> Option<ReservationOutcome> {
    let word = answer["unchanged"].as_str()?;
    ReservationOutcome::ALL.into_iter().find(|outcome| outcome.name() == word)
}

/// The answer, if it has come. Progress messages are skipped.
fn next_answer(answers: &Receiver<Vec<u8>>) -> Result<Value, TryRecvError> {
    loop {
        let answer = serde_json::from_slice(&answers.try_recv()?).unwrap_or(Value::Null);
        if answer.get("waits_for").is_none() {
            return Ok(answer);
        }
    }
}

/// The host in a registrant's name, and whether it has proved its name: that stands at the end. Others have that of their
/// initiator.
fn host_of(name: &str) -> (bool, &str) {
    let last = name.rfind(',').unwrap_or(0);
    match name[last..].split_once(' ') {
        Some((_, proved)) => (true, proved),
        None => (false, name.split(',').next().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
