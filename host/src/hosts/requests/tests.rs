//! The order among requests that touch the same bytes, with nodes that stop under them.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use weft_core::Buffer;
use weft_core::cluster::{
    Access, Change, HostChange, PolicyChange, ReservationAction, ReservationChange,
    ReservationKind, VolumeSize,
};
use weft_core::order::{Ordering, PlaceError};
use weft_core::plan::Range;
use weft_core::policy::Setting;

use super::*;
use crate::engine::Rule;
use crate::spec::Spec;
use crate::state::State;

const VOLUME: VolumeId = VolumeId(0);
/// Several chunks.
const LONG: usize = 9 << 20;

struct World {
    engine: Engine,
    requests: Requests,
    /// Connections in the order in which they were answered.
    answered: Vec<usize>,
    read: Vec<(usize, Vec<u8>)>,
    _dir: TempDir,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { disk_size: Some(32 << 20), ..Spec::default() };
    let mut engine = Engine::new(
        Rule::alone(State::open(dir.path(), &spec).unwrap()),
        crate::log::Log::silent(),
    )
    .unwrap();
    engine.start_all();
    let requests = Requests::default();
    let mut world = World { engine, requests, answered: Vec::new(), read: Vec::new(), _dir: dir };
    world.until(|w| w.engine.is_settled());
    world
}

impl World {
    fn turn(&mut self) {
        self.engine.run();
        for node in std::mem::take(&mut self.engine.stopped) {
            self.requests.move_from(&mut self.engine, node);
        }
        for answer in self.engine.take_answers() {
            let Some(finished) = self.requests.finish(&mut self.engine, answer) else { continue };
            self.answered.push(finished.owner.conn().unwrap());
            if let HostData::Bytes(pieces) = finished.result.unwrap() {
                let bytes = pieces.iter().flat_map(Buffer::to_bytes).collect();
                self.read.push((finished.owner.conn().unwrap(), bytes));
            }
        }
    }

    fn until(&mut self, reached: impl Fn(&World) -> bool) {
        for _ in 0..20_000 {
            self.turn();
            self.engine.fire_due();
            self.engine.fire_soon();
            if reached(self) {
                return;
            }
            sleep(Duration::from_micros(500));
        }
        let nodes = 0..self.engine.instances.len();
        let status = |n: usize| self.engine.status_of(n);
        let waiting: Vec<_> = nodes.map(|n| status(n).map(|s| s.waiting)).collect();
        panic!("it never came about: answered {:?}; {waiting:#?}", self.answered);
    }

    fn submit(&mut self, conn: usize, node: usize, op: HostOp) {
        let owner = Owner::Control { conn };
        self.requests.submit(&mut self.engine, owner, node, Job::new(VOLUME, op, false));
    }

    fn write(&mut self, conn: usize, node: usize, offset: u64, fill: u8, len: usize) {
        self.submit(conn, node, HostOp::Write(offset, Buffer::from(vec![fill; len])));
    }

    fn read(&mut self, conn: usize, node: usize, offset: u64, len: u64) {
        self.submit(conn, node, HostOp::Read(Range { offset, len }));
    }

    /// Makes a change of the volume's reservations.
    fn reserve(&mut self, host: &str, action: ReservationAction) {
        let who = Registrant { host: host.into(), port: 1 };
        let stamp = self.engine.map().epoch;
        let change = ReservationChange { volume: VOLUME, who, action, stamp };
        self.engine.change(Change::Reserve(change));
        let is_made = |w: &World| w.engine.map().volumes[&VOLUME].reservations.outcome(stamp);
        self.until(|w| is_made(w).is_some() && w.engine.is_settled());
    }

    /// Changes hosts and their rights.
    fn change(&mut self, change: HostChange) {
        let epoch = self.engine.map().epoch;
        self.engine.change(Change::Hosts(change));
        self.until(|w| w.engine.map().epoch > epoch && w.engine.is_settled());
    }

    /// The answer to a request of a host, which is at once an error, or nothing yet.
    fn refused(&mut self, job: Job) -> Option<HostError> {
        let owner = Owner::Session { conn: 1, number: 1 };
        self.requests.submit(&mut self.engine, owner, 0, job);
        let answer = self.engine.take_answers().pop()?;
        self.requests.finish(&mut self.engine, answer)?.result.err()
    }
}

/// However late a write is given to a node: one that waited for limits or for memory, a later step of a command, what a
/// copy has read.
#[test]
fn a_write_that_came_before_a_reset_is_not_begun_after_it() {
    let mut w = world();
    let job = |came, op| Job { came: Some(came), ..Job::new(VOLUME, op, false) };
    let write = || HostOp::Write(0, Buffer::from(vec![1; 4096]));
    w.requests.look_at(w.engine.map());
    let before = w.engine.map().epoch;
    w.reserve("a", ReservationAction::Reset);
    let now = w.engine.map().epoch;
    assert!(now > before);
    assert_eq!(w.refused(job(before, write())), Some(HostError::Gone));
    let read = HostOp::Read(Range { offset: 0, len: 4096 });
    assert_eq!(w.refused(job(before, read)), None, "a read changes nothing");
    assert_eq!(w.refused(job(now, write())), None);
    w.until(|w| w.answered.len() == 2);
    // Other changes of reservations are no resets.
    let register = ReservationAction::Register { key: 0, new: 5, ignores: false };
    w.reserve("a", register);
    assert_eq!(w.refused(job(now, write())), None);
}

/// PREEMPT AND ABORT, after which the loser registers again through the same session: what it sent before is over, also if
/// this process has seen only the map that comes last. So it is if the reservation is gone since.
#[test]
fn what_a_preempted_host_asked_before_is_not_begun_once_it_has_registered_again() {
    let kind = ReservationKind::WriteExclusiveRegistrants;
    let register = |new| ReservationAction::Register { key: 0, new, ignores: false };
    let write = || HostOp::Write(0, Buffer::from(vec![1; 4096]));
    for (registers, looks) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut w = world();
        let job = |host: &str, came, op| {
            let registrant = Some(Arc::new(Registrant { host: host.into(), port: 1 }));
            Job { registrant, came: Some(came), ..Job::new(VOLUME, op, false) }
        };
        w.reserve("loser", register(7));
        w.reserve("other", register(8));
        w.reserve("winner", register(9));
        w.reserve("winner", ReservationAction::Reserve { key: 9, kind });
        w.requests.look_at(w.engine.map());
        let before = w.engine.map().epoch;
        w.reserve("winner", ReservationAction::Preempt { key: 9, victim: 7, kind });
        if looks {
            w.requests.look_at(w.engine.map());
        }
        match registers {
            true => w.reserve("loser", register(7)),
            false => w.reserve("winner", ReservationAction::Release { key: 9, kind }),
        }
        let now = w.engine.map().epoch;
        assert_eq!(w.refused(job("loser", before, write())), Some(HostError::Reserved));
        let read = HostOp::Read(Range { offset: 0, len: 4096 });
        assert_eq!(w.refused(job("loser", before, read)), None, "a read changes nothing");
        assert_eq!(w.refused(job("other", before, write())), None, "it was not preempted");
        assert_eq!(w.refused(job("loser", now, write())), None, "it came later");
        w.until(|w| w.answered.len() == 3);
    }
}

/// While a volume grows its new part has what another volume left there. The node would show it.
#[test]
fn a_host_sees_nothing_beyond_what_its_volume_shows() {
    let mut w = world();
    let size = w.engine.map().volumes[&VOLUME].size;
    let visible = size - 8192;
    let shrunk = VolumeSize { size, visible, more: Vec::new() };
    w.engine.change(Change::SizeVolume(VOLUME, shrunk));
    w.until(|w| w.engine.map().volumes[&VOLUME].visible == visible && w.engine.is_settled());
    let read = |offset, len| HostOp::Read(Range { offset, len });
    let write = |offset| HostOp::Write(offset, Buffer::from(vec![1; 4096]));
    let job = |op| Job::new(VOLUME, op, false);
    let beyond = |offset, len| Some(HostError::OutOfRange { offset, len, size: visible });
    for (offset, len) in [(visible, 4096), (visible - 4096, 8192), (u64::MAX - 4095, 4096)] {
        assert_eq!(w.refused(job(read(offset, len))), beyond(offset, len));
    }
    assert_eq!(w.refused(job(write(visible))), beyond(visible, 4096));
    let again = Job { again: true, ..job(write(visible)) };
    assert_eq!(w.refused(again), Some(HostError::OutcomeUnknown), "it may have been larger");
    assert_eq!(w.refused(job(read(visible - 4096, 4096))), None);
    // The zeros are written there by the control.
    w.submit(2, 0, write(visible));
    w.until(|w| w.answered.len() == 2);
}

/// It takes its place among the others nevertheless.
#[test]
fn what_comes_after_a_refused_request_is_not_done() {
    let mut w = world();
    let sequenced = PolicyChange::to([Setting::Ordering(Ordering::Sequencer)]);
    w.engine.change(Change::SetPolicy(VOLUME, sequenced));
    w.until(|w| w.engine.map().volumes[&VOLUME].is_sequenced() && w.engine.is_settled());
    let size = w.engine.map().volumes[&VOLUME].visible;
    let name = |number| RequestId { host: HostId(7), number };
    let mut submit = |number, offset, after| {
        let place = Some(Place { id: name(number), after, oldest: 1 });
        let op = HostOp::Write(offset, Buffer::from(vec![1; 4096]));
        let owner = Owner::Session { conn: 1, number };
        let job = Job { place, ..Job::new(VOLUME, op, false) };
        w.requests.submit(&mut w.engine, owner, 0, job);
    };
    submit(1, size, Vec::new());
    submit(2, 0, vec![name(1)]);
    let mut errors = BTreeMap::new();
    while errors.len() < 2 {
        w.engine.run();
        w.engine.fire_soon();
        for answer in w.engine.take_answers() {
            let Some(end) = w.requests.finish(&mut w.engine, answer) else { continue };
            let Owner::Session { number, .. } = end.owner else { unreachable!("both are") };
            errors.insert(number, end.result.err());
        }
        sleep(Duration::from_micros(500));
    }
    assert_eq!(errors[&1], Some(HostError::OutOfRange { offset: size, len: 4096, size }));
    assert_eq!(errors[&2], Some(PlaceError::Aborted(name(1)).into()));
}

/// Also one that was begun while its host had the right, and whose node has stopped.
#[test]
fn what_a_host_may_not_do_any_more_is_not_begun_nor_begun_again() {
    let mut w = world();
    let web = || "web".to_string();
    w.change(HostChange::Create(web()));
    w.change(HostChange::Allow(VOLUME, web(), Access::Full));
    let who = Some(Arc::new(Who::Own(web())));
    let job = |op| Job { who: who.clone(), ..Job::new(VOLUME, op, false) };
    let write = || HostOp::Write(0, Buffer::from(vec![1; LONG]));
    let read = || HostOp::Read(Range { offset: 20 << 20, len: 4096 });
    assert_eq!(w.refused(job(write())), None, "it is begun");
    w.engine.kill_node(0, "the test kills it").unwrap();
    let stopped = std::mem::take(&mut w.engine.stopped);
    w.change(HostChange::Allow(VOLUME, web(), Access::ReadOnly));
    stopped.into_iter().for_each(|node| w.requests.move_from(&mut w.engine, node));
    let answers = w.engine.take_answers();
    let ends = answers.into_iter().filter_map(|a| w.requests.finish(&mut w.engine, a));
    let errors: Vec<_> = ends.map(|end| end.result.err()).collect();
    assert_eq!(errors, [Some(HostError::Gone)]);
    assert_eq!(w.refused(job(write())), Some(HostError::Gone));
    assert_eq!(w.refused(job(read())), None, "it may still read");
    w.change(HostChange::Deny(VOLUME, web()));
    assert_eq!(w.refused(job(read())), Some(HostError::Gone));
}

#[test]
fn a_change_has_its_bytes_to_itself() {
    let mut w = world();
    w.write(1, 0, 0, 1, LONG);
    w.read(2, 1, LONG as u64 - 1, 2);
    w.write(3, 2, 100, 3, 10);
    w.read(4, 3, 0, 200);
    w.write(5, 4, LONG as u64, 5, 4096);
    assert_eq!(w.requests.waiting.len(), 4, "5 touches what the read 2 waits for");
    w.write(6, 4, 20 << 20, 6, 4096);
    assert_eq!(w.requests.waiting.len(), 4, "other bytes are free");
    w.until(|w| w.answered.len() == 6);
    let place = |c| w.answered.iter().position(|a| *a == c).unwrap();
    assert!(place(1) < place(2) && place(1) < place(3) && place(3) < place(4));
    let read = |c| &w.read.iter().find(|r| r.0 == c).unwrap().1;
    let mut expected = vec![1; 200];
    expected[100..110].fill(3);
    assert_eq!(read(4), &expected);
    assert_eq!(read(2), &[1, 0], "5 came later");
    assert!(w.requests.claims.is_free(&Claim::of(VOLUME, &everything()).unwrap()));
}

fn everything() -> HostOp {
    HostOp::Trim(Range { offset: 0, len: u64::MAX })
}

/// Nodes forget what they know of older ones.
#[test]
fn nodes_are_told_of_no_later_request_than_the_oldest_as_the_oldest() {
    let mut w = world();
    for n in 0..100 {
        w.write(n, 0, n as u64, n as u8, 2);
        w.read(1000 + n, 1, n as u64, 2);
    }
    while w.answered.len() < 200 {
        let before = w.answered.len();
        w.until(|w| w.answered.len() > before);
        let name = RequestId { host: w.requests.us, number: w.requests.named + 1 };
        let oldest = w.requests.find_oldest(name);
        assert!(w.requests.oldest(name) <= oldest);
    }
    let after = RequestId { host: w.requests.us, number: w.requests.named + 1 };
    assert_eq!(w.requests.oldest(after), after.number, "nothing is left");
}

#[test]
fn a_change_begun_again_comes_before_what_was_asked_after_it() {
    let mut w = world();
    w.write(1, 1, 0, 1, LONG);
    // Far enough that some of its chunks have happened and others have not.
    for _ in 0..20 {
        w.engine.run();
    }
    w.write(2, 0, 5000, 2, 5000);
    w.read(3, 2, 0, 20_000);
    w.engine.kill_node(1, "the test kills it").unwrap();
    w.turn();
    w.write(4, 3, 7000, 4, 10);
    w.until(|w| w.answered.len() == 4);
    assert_eq!(w.answered, [1, 2, 3, 4]);
    let mut expected = vec![1; 20_000];
    expected[5000..10_000].fill(2);
    assert_eq!(w.read.pop().unwrap().1, expected);
    w.read(5, 4, 0, 20_000);
    w.until(|w| w.answered.len() == 5);
    expected[7000..7010].fill(4);
    assert_eq!(w.read.pop().unwrap().1, expected);
}

#[test]
fn what_nobody_waits_for_keeps_its_bytes_and_is_not_begun_again() {
    let mut w = world();
    w.write(1, 1, 0, 1, LONG);
    w.write(7, 1, 0, 7, LONG);
    w.write(2, 0, 0, 2, 5000);
    w.requests.forget(&mut w.engine, 1);
    w.requests.forget(&mut w.engine, 7);
    assert_eq!((w.requests.pending.len(), w.requests.waiting.len()), (1, 1));
    w.engine.kill_node(1, "the test kills it").unwrap();
    w.turn();
    assert_eq!(w.requests.waiting.len(), 0, "its node is gone, and nobody asks for it again");
    w.until(|w| w.answered.len() == 1);
    w.read(3, 0, 0, 5000);
    w.until(|w| w.answered.len() == 2);
    assert_eq!(w.read.pop().unwrap().1, vec![2; 5000]);
    w.until(|w| w.engine.is_quiet());
}

#[test]
fn without_nodes_those_that_wait_are_answered_too() {
    let mut w = world();
    w.write(1, 0, 0, 1, LONG);
    w.write(2, 0, 0, 2, LONG);
    w.read(3, 0, 0, 4096);
    for n in 0..5 {
        w.engine.kill_node(n, "the test kills it").unwrap();
    }
    for node in std::mem::take(&mut w.engine.stopped) {
        w.requests.move_from(&mut w.engine, node);
    }
    let mut errors = 0;
    // One that is answered lets another have its turn.
    while w.engine.has_answers() {
        for answer in w.engine.take_answers() {
            let finished = w.requests.finish(&mut w.engine, answer).unwrap();
            errors += usize::from(finished.result.unwrap_err() == HostError::NotServing);
        }
    }
    assert_eq!(errors, 3);
}

/// What a host asked that may ask again in another process is not begun again here: it could
/// happen after what it asks there. What one asked that is still connected is.
#[test]
fn what_a_host_has_left_behind_is_given_to_no_other_node() {
    for left in [false, true] {
        let mut w = world();
        let owner = Owner::Host { host: HostId(7), number: 1 };
        let op = HostOp::Write(0, Buffer::from(vec![1; 4096]));
        w.requests.submit(&mut w.engine, owner, 1, Job::new(VOLUME, op, false));
        w.requests.pending.values_mut().for_each(|p| p.left = left);
        w.engine.kill_node(1, "a test").unwrap();
        for node in std::mem::take(&mut w.engine.stopped) {
            w.requests.move_from(&mut w.engine, node);
        }
        let answers = w.engine.take_answers();
        assert_eq!(answers.len(), usize::from(left));
        for answer in answers {
            let finished = w.requests.finish(&mut w.engine, answer).unwrap();
            assert!(matches!(finished.result, Err(HostError::Gone)));
        }
        let nodes: Vec<usize> = w.requests.pending.values().map(|p| p.node).collect();
        assert_eq!(nodes, if left { vec![] } else { vec![2] });
    }
}

/// A write of a host that numbers its requests, which has left since it began.
fn left_behind(w: &mut World, first_flush: bool) -> u64 {
    let owner = Owner::Host { host: HostId(7), number: 1 };
    let op = HostOp::Write(0, Buffer::from(vec![1; 4096]));
    let job = Job { first_flush, ..Job::new(VOLUME, op, false) };
    w.requests.submit(&mut w.engine, owner, 1, job);
    w.requests.leave(&mut w.engine, HostId(7), Leave::ForGood);
    w.requests.next - 1
}

/// It is asked for again, with the outcome of the first attempt, if its host comes back.
#[test]
fn what_a_host_has_left_behind_does_not_fail_because_reservations_changed() {
    let mut w = world();
    let number = left_behind(&mut w, false);
    let answer = (number, Err(HostError::Outdated));
    let finished = w.requests.finish(&mut w.engine, answer).unwrap();
    assert_eq!(finished.result.err(), Some(HostError::Gone));
}

#[test]
fn what_a_host_has_left_behind_is_not_begun_after_its_flush() {
    let mut w = world();
    let number = left_behind(&mut w, true);
    let answer = (number, Ok(HostData::Done));
    let finished = w.requests.finish(&mut w.engine, answer);
    assert!(w.requests.pending.is_empty(), "the write has not begun");
    assert_eq!(finished.unwrap().result.err(), Some(HostError::Gone));
    assert!(w.requests.claims.is_free(&Claim::of(VOLUME, &everything()).unwrap()));
}
