//! The lanes of a process, as the reactor sees them: its own, which it always has, and others that have threads.
//!
//! What is for a node of another lane is collected and left in the lane's mailbox, a handful at a time. The reactor may then
//! have the lane itself for a while: it *holds* it. Whoever asks for a node's seat here holds its lane from then on. A lane that is
//! held and has nothing to do is given back before the reactor sleeps.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use mio::Waker;
use weft_core::store::DiskResult;
use weft_core::units::Nanos;

use super::lane::mailbox::{Inbox, Mailbox, Sent};
use super::lane::{Bell, HANDFUL, Lane, Lease, MESSAGE, Mail, Runner, Said, Seat, Shared};
use crate::clock::Clock;
use crate::disk::queue::DiskQueue;
use crate::disk::uring::Tag;
use crate::error::Result;
use crate::polling::Polling;

/// Mail that weighs as much as eight messages is worth waking another thread for. That takes some forty microseconds on its
/// processor and two on ours, and a message is handled in two to five.
const MUCH: usize = 8 * MESSAGE;

/// All lanes of a process.
pub(super) struct Lanes {
    /// The reactor's own.
    pub(super) own: Lane,
    others: Vec<Other>,
    /// The lane of each node of this process.
    homes: Vec<Option<Home>>,
    inbox: Arc<Inbox<Said>>,
    lease: Lease,
    clock: Clock,
    hurries: bool,
}

/// Where a node of this process is.
#[derive(Clone, Copy)]
struct Home {
    lane: usize,
    /// How its disk's queue is served.
    queue: DiskQueue,
}

/// A lane that has a thread.
struct Other {
    shared: Shared,
    /// If the reactor has it.
    held: OnceCell<Box<Lane>>,
    /// Mail that is still to be left for it.
    mail: Vec<Mail>,
    /// How much that is.
    weight: usize,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What a lane has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) nodes: usize,
    /// Inputs that its nodes have handled.
    pub(crate) inputs: u64,
    /// How many of them were followed by a check of a node's invariants.
    pub(crate) checks: u64,
    /// How many of them on the reactor's thread, which had borrowed it.
    pub(crate) borrowed: u64,
    /// How often its thread was woken.
    pub(crate) wakes: u64,
}

impl Other {
    fn new(shared: Shared, waker: Waker, thread: JoinHandle<()>) -> Other {
        let (held, mail) = (OnceCell::new(), Vec::new());
        Other { shared, held, mail, weight: 0, waker, thread: Some(thread) }
    }

    /// The lane, which is held from now on.
    fn lane(&self) -> &Lane {
        self.held.get_or_init(|| {
            let (mut lane, mail) = self.shared.mailbox.recall();
            lane.receive(mail);
            lane
        })
    }

    fn lane_mut(&mut self) -> &mut Lane {
        self.lane();
        self.held.get_mut().expect("it is held")
    }

    fn hold(&mut self, taken: Option<(Box<Lane>, Vec<Mail>)>) {
        if let Some((mut lane, mail)) = taken {
            lane.receive(mail);
            assert!(self.held.set(lane).is_ok(), "a lane is there once");
        }
    }

    /// Leaves what there is for it. If that is little the reactor holds it afterwards, and is to run it.
    fn send(&mut self, busy: usize) {
        if self.mail.is_empty() {
            return;
        }
        let (mut mail, weight) = (std::mem::take(&mut self.mail), std::mem::take(&mut self.weight));
        match self.held.get_mut() {
            Some(lane) => {
                let waited = lane.waits();
                lane.receive(mail);
                if waited + weight + busy >= MUCH {
                    self.hand_over();
                }
            }
            None => match self.shared.mailbox.send(&mut mail, weight + busy) {
                Sent::Left => {}
                Sent::Wake => self.wake(),
                Sent::Run(lane, mail) => {
                    self.hold(Some((lane, mail)));
                    self.keep_order();
                }
            },
        }
    }

    /// What only its own thread may run goes there at once.
    fn keep_order(&mut self) {
        if self.held.get().is_some_and(|lane| lane.stays() && lane.has_work()) {
            self.hand_over();
        }
    }

    /// Leaves what it still has to do to its thread.
    fn hand_over(&mut self) {
        let Some(mut lane) = self.held.take() else { return };
        self.shared.show(&mut lane);
        if self.shared.mailbox.hand_over(lane) {
            self.wake();
        }
    }

    /// Gives it back, unless there is something to do.
    fn rest(&mut self) {
        self.keep_order();
        if self.held.get().is_none_or(|lane| lane.has_work() || lane.has_said()) {
            return;
        }
        let Some(mut lane) = self.held.take() else { return };
        self.shared.show(&mut lane);
        let again = self.shared.mailbox.give_back(lane);
        self.hold(again);
        self.keep_order();
    }

    fn wake(&self) {
        // Its thread ends only when it is told to, or panics, which is noticed.
        let _ = self.waker.wake();
    }
}

impl Lanes {
    /// One lane, the reactor's, with these nodes.
    pub(super) fn one(lease: Lease, hurries: bool) -> Lanes {
        let mut clock = Clock::default();
        clock.now();
        let own = Lane::new(clock.clone(), lease.clone(), hurries);
        let (others, homes, inbox) = (Vec::new(), Vec::new(), Arc::default());
        Lanes { own, others, homes, inbox, lease, clock, hurries }
    }

    /// Has so many lanes instead of one, before any node runs. The bell wakes the reactor.
    ///
    /// # Errors
    /// If the system has not enough threads or descriptors. The lanes that could be started are there then.
    pub(super) fn start(
        &mut self,
        count: usize,
        bell: &Bell,
        polling: Polling,
        ring: bool,
    ) -> Result<()> {
        let mut numbers = self.others.len() + 1..count;
        let started = numbers.try_for_each(|number| self.start_one(number, bell, polling, ring));
        let homes = std::mem::take(&mut self.homes);
        for (n, queue) in
            homes.into_iter().enumerate().filter_map(|(n, home)| Some((n, home?.queue)))
        {
            let seat = self.own.take_seat(n).unwrap_or_default();
            self.seat_at(n, seat, queue);
        }
        self.rest();
        started
    }

    fn start_one(
        &mut self,
        number: usize,
        bell: &Bell,
        polling: Polling,
        ring: bool,
    ) -> Result<()> {
        let lane = Lane::new(self.clock.clone(), self.lease.clone(), self.hurries);
        let shared = Shared {
            mailbox: Arc::new(Mailbox::new(Box::new(lane), MUCH)),
            inbox: self.inbox.clone(),
            bell: bell.clone(),
            shown: Arc::new(AtomicU64::new(u64::MAX)),
        };
        let (runner, waker) = Runner::new(shared.clone(), polling, ring)?;
        let thread = runner.start(number)?;
        self.others.push(Other::new(shared, waker, thread));
        Ok(())
    }

    fn nodes(&self) -> usize {
        self.homes.iter().flatten().count()
    }

    /// How many nodes have a seat whose disks are served in any order. The lane of others is always woken for what comes to
    /// them.
    pub(super) fn in_any_order(&self) -> usize {
        let in_any_order = |home: &&Home| home.queue == DiskQueue::default();
        self.homes.iter().flatten().filter(in_any_order).count()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Gives a node a seat, in its lane if it has one. Otherwise lanes have their turns, the reactor's last: it has sockets, too.
    pub(super) fn seat_at(&mut self, n: usize, seat: Seat, queue: DiskQueue) {
        let turn = (self.nodes() + 1) % self.count();
        if self.homes.len() <= n {
            self.homes.resize(n + 1, None);
        }
        let home = self.homes[n].map_or(turn, |home| home.lane);
        self.homes[n] = Some(Home { lane: home, queue });
        let lane = self.lane_mut(home);
        lane.serve_queue(queue);
        lane.seat_at(n, seat);
    }

    /// A node has no place in the process any more.
    pub(super) fn unseat(&mut self, n: usize) {
        if let Some(home) = self.homes.get(n).copied().flatten() {
            self.lane_mut(home.lane).unseat(n);
            self.homes[n] = None;
        }
    }

    /// The lane of a node; the reactor's if it is not of this process.
    pub(super) fn home(&self, n: usize) -> usize {
        self.homes.get(n).copied().flatten().map_or(0, |home| home.lane)
    }

    fn lane(&self, number: usize) -> &Lane {
        if number == 0 { &self.own } else { self.others[number - 1].lane() }
    }

    fn lane_mut(&mut self, number: usize) -> &mut Lane {
        if number == 0 { &mut self.own } else { self.others[number - 1].lane_mut() }
    }

    /// The lane of a node, which the reactor has from now on.
    pub(super) fn lane_of(&mut self, n: usize) -> &mut Lane {
        self.lane_mut(self.home(n))
    }

    /// The seat of a node of this process.
    pub(super) fn seat(&self, n: usize) -> Option<&Seat> {
        self.lane(self.home(n)).seat(n)
    }

    /// As [`Lanes::seat`].
    pub(super) fn seat_mut(&mut self, n: usize) -> Option<&mut Seat> {
        self.lane_of(n).seat_mut(n)
    }

    /// Something for a node of another lane than the reactor's.
    pub(super) fn send(&mut self, n: usize, mail: Mail) {
        let (home, busy) = (self.home(n), self.own.waits());
        let other = &mut self.others[home - 1];
        other.weight += mail.weight();
        other.mail.push(mail);
        if other.mail.len() >= HANDFUL || other.weight >= MUCH {
            other.send(busy);
        }
    }

    /// Leaves for the lanes what there is for them.
    pub(super) fn send_all(&mut self) {
        let busy = self.own.waits();
        self.others.iter_mut().for_each(|other| other.send(busy));
    }

    /// What has ended on the reactor's ring: hands the other lanes theirs, and leaves its own.
    pub(super) fn sort(&mut self, ended: Vec<(Tag, DiskResult)>) -> Vec<(Tag, DiskResult)> {
        if self.others.is_empty() {
            return ended;
        }
        let mut own = Vec::new();
        for (tag, result) in ended {
            match self.home(tag.node) {
                0 => own.push((tag, result)),
                _ => self.send(tag.node, Mail::Ended(tag, result)),
            }
        }
        own
    }

    /// What has ended on the reactor's ring where a lane that is held began something: hands each lane its own.
    pub(super) fn feed_ended(&mut self, ended: Vec<(Tag, DiskResult)>) {
        for (tag, result) in ended {
            let home = self.home(tag.node);
            let held = home.checked_sub(1).and_then(|other| self.others[other].held.get_mut());
            match held {
                Some(lane) => lane.feed_ended(tag, result),
                None if home == 0 => self.own.receive(vec![Mail::Ended(tag, result)]),
                None => self.send(tag.node, Mail::Ended(tag, result)),
            }
        }
    }

    /// The lanes with threads, by number.
    pub(super) fn others(&self) -> std::ops::Range<usize> {
        0..self.others.len()
    }

    /// A lane with a thread that the reactor holds, and that has something to do.
    pub(super) fn held(&mut self, other: usize) -> Option<&mut Lane> {
        let held = self.others[other].held.get_mut().map(|lane| &mut **lane);
        held.filter(|lane| lane.has_work() && !lane.stays())
    }

    /// Leaves what the lanes that are held have to do to their threads.
    pub(super) fn hand_over(&mut self) {
        for other in &mut self.others {
            if other.held.get().is_some_and(|lane| lane.has_work()) {
                other.hand_over();
            }
        }
    }

    /// Gives back the lanes that are held and have nothing to do.
    pub(super) fn rest(&mut self) {
        self.others.iter_mut().for_each(Other::rest);
    }

    /// The next thing that lanes which are held have said. What they said before that they were held comes first, so that is
    /// to be taken from the inbox before.
    pub(super) fn take_said(&mut self) -> Option<Said> {
        let held = self.others.iter_mut().filter_map(|other| other.held.get_mut());
        self.own.take_said().or_else(|| held.filter_map(|lane| lane.take_said()).next())
    }

    /// What lanes have said on their threads.
    pub(super) fn take_inbox(&mut self) -> Vec<Said> {
        if self.others.is_empty() { Vec::new() } else { self.inbox.take() }
    }

    /// Whether lanes have said something, or are held with something to do.
    pub(super) fn have_work(&self) -> bool {
        let works = |other: &Other| {
            let held = other.held.get().is_some_and(|lane| lane.has_work() || lane.has_said());
            held || !other.mail.is_empty()
        };
        self.others.iter().any(works) || self.has_mail()
    }

    /// Whether lanes have said something on their threads.
    pub(super) fn has_mail(&self) -> bool {
        !self.others.is_empty() && self.inbox.has_mail()
    }

    /// Whether the reactor may sleep for so long: nothing has come, and nothing is due that it watches.
    pub(super) fn may_sleep(&mut self, longest: Option<Nanos>) -> bool {
        let until = longest.map_or(Nanos::MAX, |longest| self.clock.now().saturating_add(longest));
        self.others.is_empty() || self.inbox.sleep(until)
    }

    /// Whether nothing is under way between lanes or in them, but what nodes know of.
    pub(super) fn are_empty(&self) -> bool {
        let empty = |other: &Other| other.mail.is_empty() && other.lane().is_empty();
        self.own.begins_nothing() && self.others.iter().all(empty) && !self.has_mail()
    }

    /// Nothing that was said to the nodes so far is to reach them.
    pub(super) fn forget(&mut self) {
        self.own.forget();
        for other in &mut self.others {
            other.mail.retain(|mail| !matches!(mail, Mail::Letter(_)));
            other.lane_mut().forget();
        }
    }

    /// The lease is known to last until then. What has waited for it goes on.
    pub(super) fn renew(&mut self, end: Nanos) {
        if !self.others.is_empty() && self.lease.renew(end) {
            for other in &self.others {
                other.lane();
            }
        }
    }

    /// Fires the timers of lanes that are home or held and whose time has come.
    pub(super) fn fire_due(&mut self) {
        let now = self.clock.now();
        self.fire(|lane| lane.deadline().is_some_and(|due| due <= now), Lane::fire_due);
    }

    /// Fires what nodes of lanes that are home or held have put off until there is nothing better to do.
    pub(super) fn fire_soon(&mut self) {
        self.fire(Lane::has_soon, |lane| {
            lane.fire_soon();
        });
    }

    fn fire(&mut self, such: impl Fn(&Lane) -> bool, fire: impl Fn(&mut Lane)) {
        for other in &mut self.others {
            if other.held.get().is_none() {
                let taken = other.shared.mailbox.take_if(|lane| such(lane));
                other.hold(taken);
            }
            if let Some(lane) = other.held.get_mut().filter(|lane| such(lane)) {
                fire(lane);
                other.keep_order();
            }
        }
    }

    fn look<T>(&self, at: impl Fn(&Lane) -> Option<T>) -> impl Iterator<Item = T> {
        let seen = move |other: &Other| match other.held.get() {
            Some(lane) => at(lane),
            None => other.shared.mailbox.look(|lane| at(lane)).flatten(),
        };
        self.others.iter().filter_map(seen)
    }

    /// Whether nodes have put something off until there is nothing better to do.
    pub(super) fn have_soon(&self) -> bool {
        self.own.has_soon() || self.look(|lane| lane.has_soon().then_some(())).next().is_some()
    }

    /// When the first timer is due of those that the reactor watches.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.own.deadline().into_iter().chain(self.look(Lane::deadline)).min()
    }

    /// What the nodes' clocks show, in microseconds. That of a lane that is out was shown a moment ago, and clocks do not go
    /// back while nobody brings a node into another epoch, which the reactor does.
    pub(super) fn reading(&mut self) -> Option<u64> {
        let mut first = self.own.reading();
        for other in &mut self.others {
            let shown = match other.held.get_mut() {
                Some(lane) => lane.reading(),
                None => match other.shared.mailbox.look(|lane| lane.reading()) {
                    Some(reading) => reading,
                    None => {
                        Some(other.shared.shown.load(Ordering::Acquire)).filter(|m| *m != u64::MAX)
                    }
                },
            };
            first = first.into_iter().chain(shown).min();
        }
        first
    }

    /// What each lane has done.
    pub(super) fn tallies(&self) -> Vec<Tally> {
        let nodes =
            |number: usize| self.homes.iter().flatten().filter(|home| home.lane == number).count();
        let (inputs, checks) = (self.own.handled, self.own.checks);
        let mut tallies = vec![Tally { nodes: nodes(0), inputs, checks, ..Tally::default() }];
        for (n, other) in self.others.iter().enumerate() {
            let (lane, wakes) = (other.lane(), other.shared.mailbox.wakes());
            let (inputs, checks) = (lane.handled, lane.checks);
            let borrowed = inputs - lane.at_home;
            tallies.push(Tally { nodes: nodes(n + 1), inputs, checks, borrowed, wakes });
        }
        tallies
    }
}

impl Drop for Lanes {
    /// Ends the threads. Each waits for what is in work on its ring: its end would break that off.
    fn drop(&mut self) {
        for other in &mut self.others {
            other.shared.mailbox.close();
            other.wake();
        }
        for thread in self.others.iter_mut().filter_map(|other| other.thread.take()) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
