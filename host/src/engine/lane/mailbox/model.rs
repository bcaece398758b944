//! All orders of what the reactor and a lane's thread can do to a mailbox, tried out breadth first on the real methods.
//!
//! The reactor sends four inputs, one or two at a time, and once it wants the lane for a question. The second input sets a
//! timer, and the third begins a disk operation that ends on the ring of the lane's thread. Each thing done is answered. Two
//! inputs are much. Sleeping threads go on only when they are woken or, the reactor, when what it watches is due.
//!
//! What is checked everywhere: an input is done once, in the order of those of its sender, and by the one who has the lane.
//! From every state an end can be reached at which all is done, all has been answered, and no timer is forgotten.

use std::collections::{HashMap, VecDeque};

use super::*;

const INPUTS: u8 = 4;
const SETS_TIMER: u8 = 2;
const BEGINS_OPERATION: u8 = 3;
/// What the disk operation's end and the timer are called among the inputs.
const DISK: u8 = 10;
const TIMER: u8 = 20;

/// When the timer is due.
const DUE: Nanos = 7;

/// A lane: what it is still to do, what it has done, and what it has said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Unit {
    left: VecDeque<u8>,
    /// The inputs up to this one are done, and of the end and the timer those that are.
    done: u8,
    end_done: bool,
    timer_done: bool,
    /// Something was done twice, or out of order.
    wrong: bool,
    /// So much has been said that the reactor has not heard.
    said: u8,
    due: Option<Nanos>,
}

impl Unit {
    /// Does one thing. Says whether a disk operation has begun.
    fn step(&mut self) -> bool {
        let input = self.left.pop_front().expect("something is left");
        self.wrong |= match input {
            DISK => std::mem::replace(&mut self.end_done, true),
            TIMER => std::mem::replace(&mut self.timer_done, true),
            _ => std::mem::replace(&mut self.done, input) + 1 != input,
        };
        self.said += 1;
        if input == SETS_TIMER {
            self.due = Some(DUE);
        }
        input == BEGINS_OPERATION
    }

    fn receive(&mut self, mail: Vec<u8>) {
        self.left.extend(mail);
    }

    fn fire(&mut self) {
        if self.due.take().is_some() {
            self.left.push_back(TIMER);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reactor {
    Awake,
    /// It has taken its mail, and is about to look at timers.
    Took,
    /// It has looked at timers, and is about to sleep until then.
    Looked(Nanos),
    Asleep(Nanos),
    /// It waits for the lane.
    Wants,
    Has(Unit),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Awake,
    Asleep,
    Has(Unit),
    /// It has found nothing more to do, and is about to give the lane back.
    Rests(Unit),
    /// It has given a lane back with a timer that is due then, and is about to tell of it.
    Tells(Nanos),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    mailbox: State<Unit, u8>,
    inbox: Incoming<()>,
    reactor: Reactor,
    thread: Thread,
    sent: u8,
    asked: bool,
    heard: u8,
    /// Somebody has been woken, and has not noticed.
    reactor_woken: bool,
    thread_woken: bool,
    /// A disk operation is in work on the ring of the lane's thread.
    operation: bool,
}

impl World {
    fn new(bug: Option<Bug>) -> World {
        let mailbox = Mailbox::new(Unit::default(), 2).state.into_inner().unwrap();
        let inbox: Inbox<()> = Inbox::default();
        World {
            mailbox: State { bug, ..mailbox },
            inbox: Incoming { bug, ..inbox.0.into_inner().unwrap() },
            reactor: Reactor::Awake,
            thread: Thread::Awake,
            sent: 0,
            asked: false,
            heard: 0,
            reactor_woken: false,
            thread_woken: false,
            operation: false,
        }
    }

    /// The world after a method of the real mailbox.
    fn at<T>(&self, method: impl FnOnce(&Mailbox<Unit, u8>) -> T) -> (World, T) {
        // How often it was woken is counted, and changes nothing.
        let mailbox = Mailbox::of(State { wakes: 0, ..self.mailbox.clone() });
        let result = method(&mailbox);
        (World { mailbox: mailbox.state.into_inner().unwrap(), ..self.clone() }, result)
    }

    fn at_inbox<T>(&self, method: impl FnOnce(&Inbox<()>) -> T) -> (World, T) {
        let inbox = Inbox(Mutex::new(self.inbox.clone()));
        let result = method(&inbox);
        (World { inbox: inbox.0.into_inner().unwrap(), ..self.clone() }, result)
    }

    fn with_reactor(self, reactor: Reactor) -> World {
        World { reactor, ..self }
    }

    fn with_thread(self, thread: Thread) -> World {
        World { thread, ..self }
    }

    fn reactor_has(self, taken: Option<(Unit, Vec<u8>)>, otherwise: Reactor) -> World {
        let has = taken.map_or(otherwise, |(mut unit, mail)| {
            unit.receive(mail);
            Reactor::Has(unit)
        });
        self.with_reactor(has)
    }

    fn thread_has(self, taken: Option<(Unit, Vec<u8>)>, otherwise: Thread) -> World {
        let has = taken.map_or(otherwise, |(mut unit, mail)| {
            unit.receive(mail);
            Thread::Has(unit)
        });
        self.with_thread(has)
    }

    /// What the reactor can do next.
    fn of_reactor(&self, next: &mut Vec<World>) {
        match &self.reactor {
            Reactor::Awake => self.of_awake_reactor(next),
            Reactor::Took => self.of_reactor_at_timers(next),
            Reactor::Looked(until) => {
                let (world, may) = self.at_inbox(|i| i.sleep(*until));
                next.push(world.with_reactor(match may {
                    true => Reactor::Asleep(*until),
                    false => Reactor::Awake,
                }));
            }
            Reactor::Asleep(until) => {
                let hosts_come = self.sent < INPUTS || !self.asked;
                if self.reactor_woken || *until != Nanos::MAX || hosts_come {
                    let world = World { reactor_woken: false, ..self.clone() };
                    next.push(world.with_reactor(Reactor::Awake));
                }
            }
            Reactor::Wants => {
                let (world, taken) = self.at(|m| Mailbox::want(&mut m.lock()));
                next.push(world.reactor_has(taken, Reactor::Wants));
            }
            Reactor::Has(unit) => self.of_reactor_with(unit, next),
        }
    }

    fn of_awake_reactor(&self, next: &mut Vec<World>) {
        for count in 1..=(INPUTS - self.sent).min(2) {
            let mut mail: Vec<u8> = (self.sent + 1..=self.sent + count).collect();
            let (world, sent) = self.at(|m| m.send(&mut mail, usize::from(count)));
            let world = World { sent: self.sent + count, ..world };
            next.push(match sent {
                Sent::Left => world,
                Sent::Wake => World { thread_woken: true, ..world },
                Sent::Run(unit, mail) => world.reactor_has(Some((unit, mail)), Reactor::Awake),
            });
        }
        if !self.asked {
            next.push(World { asked: true, reactor: Reactor::Wants, ..self.clone() });
        }
        let (mut world, mail) = self.at_inbox(Inbox::take);
        world.heard += mail.len() as u8;
        next.push(world.with_reactor(Reactor::Took));
    }

    /// A timer that is set is due, or it is not yet.
    fn of_reactor_at_timers(&self, next: &mut Vec<World>) {
        let (world, due) = self.at(|m| m.take_if(|unit| unit.due.is_some()));
        if let Some((mut unit, mail)) = due {
            unit.fire();
            next.push(world.reactor_has(Some((unit, mail)), Reactor::Awake));
        }
        let (world, due) = self.at(|m| m.look(|unit| unit.due));
        let until = due.flatten().unwrap_or(Nanos::MAX);
        next.push(world.with_reactor(Reactor::Looked(until)));
    }

    fn of_reactor_with(&self, unit: &Unit, next: &mut Vec<World>) {
        let mut unit = unit.clone();
        if !unit.left.is_empty() {
            // It may leave the rest to the lane's thread.
            let (world, wakes) = self.at(|m| m.hand_over(unit.clone()));
            let thread_woken = self.thread_woken || wakes;
            next.push(World { thread_woken, reactor: Reactor::Awake, ..world });
            // An operation that the reactor begins ends on its own ring, and is mail for the lane.
            let began = unit.step();
            if began {
                unit.left.push_back(DISK);
            }
            let mut world = self.clone();
            world.heard += std::mem::take(&mut unit.said);
            return next.push(world.with_reactor(Reactor::Has(unit)));
        }
        let (world, taken) = self.at(|m| m.give_back(unit));
        next.push(world.reactor_has(taken, Reactor::Awake));
    }

    /// What the lane's thread can do next.
    fn of_thread(&self, next: &mut Vec<World>) {
        if self.operation && matches!(self.thread, Thread::Awake | Thread::Asleep) {
            let (world, taken) = self.at(|m| m.ended(&mut vec![DISK]));
            let world = World { operation: false, ..world };
            next.push(world.thread_has(taken, Thread::Awake));
        }
        match &self.thread {
            Thread::Awake => {
                let (world, taken) = self.at(Mailbox::next);
                next.push(match taken {
                    Next::Run(unit, mail) => world.thread_has(Some((unit, mail)), Thread::Awake),
                    Next::Sleep => world.with_thread(Thread::Asleep),
                    Next::End => unreachable!("nobody closes it"),
                });
            }
            Thread::Asleep if self.thread_woken => {
                next.push(World { thread_woken: false, thread: Thread::Awake, ..self.clone() });
            }
            Thread::Asleep => {}
            Thread::Tells(due) => {
                let (world, wakes) = self.at_inbox(|i| i.watch(*due));
                let reactor_woken = self.reactor_woken || wakes;
                next.push(World { reactor_woken, thread: Thread::Awake, ..world });
            }
            Thread::Has(unit) => self.of_thread_with(unit, next),
            Thread::Rests(unit) => self.of_resting_thread(unit, next),
        }
    }

    fn of_thread_with(&self, unit: &Unit, next: &mut Vec<World>) {
        let mut unit = unit.clone();
        if unit.said > 0 {
            let said = std::mem::take(&mut unit.said);
            let (world, wakes) = self.at_inbox(|i| i.put((0..said).map(drop)));
            let reactor_woken = self.reactor_woken || wakes;
            return next.push(World { reactor_woken, thread: Thread::Has(unit), ..world });
        }
        if self.operation {
            let mut unit = unit.clone();
            unit.left.push_back(DISK);
            next.push(World { operation: false, thread: Thread::Has(unit), ..self.clone() });
        }
        let (world, (mail, wanted)) = self.at(Mailbox::more);
        unit.receive(mail);
        if wanted || unit.left.is_empty() {
            return next.push(world.with_thread(Thread::Rests(unit)));
        }
        let began = unit.step();
        let operation = world.operation || began;
        next.push(World { operation, thread: Thread::Has(unit), ..world });
    }

    fn of_resting_thread(&self, unit: &Unit, next: &mut Vec<World>) {
        let (world, taken) = self.at(|m| m.rest(unit.clone()));
        let otherwise = unit.due.map_or(Thread::Awake, Thread::Tells);
        next.push(world.thread_has(taken, otherwise));
    }

    /// What must hold everywhere.
    fn check(&self) -> Result<(), String> {
        let has = [&self.mailbox.lane, &self.of_reactor_unit(), &self.of_thread_unit()];
        let units: Vec<&Unit> = has.into_iter().flatten().collect();
        let [unit] = units[..] else { return Err(format!("{} lanes", units.len())) };
        match unit.wrong {
            false => Ok(()),
            true => Err(format!("done twice or out of order: {unit:?}")),
        }
    }

    fn of_reactor_unit(&self) -> Option<Unit> {
        if let Reactor::Has(unit) = &self.reactor { Some(unit.clone()) } else { None }
    }

    fn of_thread_unit(&self) -> Option<Unit> {
        match &self.thread {
            Thread::Has(unit) | Thread::Rests(unit) => Some(unit.clone()),
            _ => None,
        }
    }

    /// Whether all is done and has been answered.
    fn is_over(&self) -> bool {
        let done = |u: &Unit| u.done == INPUTS && u.end_done && u.timer_done && u.left.is_empty();
        let all_done = self.mailbox.lane.as_ref().is_some_and(done);
        all_done && self.heard == INPUTS + 2 && self.mailbox.mail.is_empty() && self.asked
    }

    fn next(&self) -> Vec<World> {
        let mut next = Vec::new();
        self.of_reactor(&mut next);
        self.of_thread(&mut next);
        next.retain(|world| world != self);
        next
    }
}

/// Tries all orders. The number of states, or what is wrong with one.
fn explore(bug: Option<Bug>) -> Result<usize, String> {
    let first = World::new(bug);
    let mut numbers = HashMap::from([(first.clone(), 0)]);
    let (mut before, mut over) = (vec![Vec::new()], Vec::new());
    let mut queue = VecDeque::from([first]);
    while let Some(world) = queue.pop_front() {
        world.check()?;
        let number = numbers[&world];
        if world.is_over() {
            over.push(number);
        }
        for next in world.next() {
            let new = numbers.len();
            let known = *numbers.entry(next.clone()).or_insert(new);
            if known == new {
                before.push(Vec::new());
                queue.push_back(next);
            }
            before[known].push(number);
        }
    }
    let mut ends = vec![false; numbers.len()];
    while let Some(number) = over.pop() {
        if !std::mem::replace(&mut ends[number], true) {
            over.extend(&before[number]);
        }
    }
    match numbers.iter().find(|(_, number)| !ends[**number]) {
        Some((world, _)) => Err(format!("nothing leads to the end from {world:?}")),
        None => Ok(numbers.len()),
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_done_twice() {
    let states = explore(None).unwrap();
    assert!(states > 5_000, "only {states} states were tried");
}

#[test]
fn deliberate_bugs_are_found() {
    for bug in [Bug::LosesLastInput, Bug::SleepsUnlooked, Bug::ForgetsCall] {
        let found = explore(Some(bug)).expect_err("it is found");
        assert!(found.contains("nothing leads to the end"), "{bug:?}: {found}");
    }
}
