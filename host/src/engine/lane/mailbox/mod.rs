//! How a lane is handed over between its own thread and the reactor's.
//!
//! What a lane consists of is moved as a whole, so it belongs to exactly one thread at a time: a node cannot run twice at
//! once. A lane that nobody runs is *home*, in its [`Mailbox`]. Each method is one step under one lock.
//!
//! | who | has | and the lane is | then |
//! |---|---|---|---|
//! | reactor | a little for it | home | takes it and runs it: to wake another core takes longer |
//! | reactor | much for it | home | leaves the mail and *calls* the lane's thread |
//! | reactor | anything for it | out | leaves the mail; who has the lane finds it before it gives the lane back |
//! | reactor | a question or word for a node | out | *wants* it, and waits until it is home; its thread looks often |
//! | its thread | ends of disk operations | home | takes it |
//! | its thread | ends of disk operations | out | leaves them as mail |
//!
//! Whoever takes a lane takes all its mail. What lanes say to the reactor is in its [`Inbox`]. The reactor watches
//! timers of lanes that are home. `model` has all orders of these steps tried out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use weft_core::units::Nanos;

use super::fault::{self, Bug};

/// Where a lane `L` is while nobody runs it, and what has come for it meanwhile.
pub(crate) struct Mailbox<L, M> {
    state: Mutex<State<L, M>>,
    home: Condvar,
    /// The reactor waits. It says the same as [`State::wanted`], without a lock, to a thread that is in the middle of things.
    hurry: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<L, M> {
    /// If it is home.
    lane: Option<L>,
    mail: Vec<M>,
    /// So much mail that its thread is to be woken.
    much: usize,
    /// Its thread is to take the lane, which is home.
    called: bool,
    /// The reactor waits for it.
    wanted: bool,
    /// Its thread sleeps.
    asleep: bool,
    closed: bool,
    /// Its thread has panicked and had the lane.
    lost: bool,
    /// How often its thread was woken.
    wakes: u64,
    bug: Option<Bug>,
}

/// What becomes of mail.
#[derive(Debug)]
pub(crate) enum Sent<L, M> {
    /// Somebody finds it.
    Left,
    /// The lane's thread finds it when it has been woken.
    Wake,
    /// The sender is to run the lane, and this is all its mail.
    Run(L, Vec<M>),
}

/// What the thread of a lane is to do.
#[derive(Debug)]
pub(crate) enum Next<L, M> {
    Run(L, Vec<M>),
    Sleep,
    /// Nothing, ever again.
    End,
}

impl<L, M> State<L, M> {
    fn take(&mut self) -> Option<(L, Vec<M>)> {
        let lane = self.lane.take()?;
        self.called = false;
        Some((lane, std::mem::take(&mut self.mail)))
    }

    /// Says whether its thread must be woken for that.
    fn call(&mut self) -> bool {
        self.called = !fault::forgets_call(self.bug);
        let wakes = std::mem::take(&mut self.asleep);
        self.wakes += u64::from(wakes);
        wakes
    }
}

impl<L, M> Mailbox<L, M> {
    /// One with a lane, whose thread is to be woken for so much mail.
    pub(crate) fn new(lane: L, much: usize) -> Mailbox<L, M> {
        Mailbox::of(State {
            lane: Some(lane),
            mail: Vec::new(),
            much,
            called: false,
            wanted: false,
            asleep: false,
            closed: false,
            lost: false,
            wakes: 0,
            bug: None,
        })
    }

    fn of(state: State<L, M>) -> Mailbox<L, M> {
        Mailbox { state: Mutex::new(state), home: Condvar::new(), hurry: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State<L, M>> {
        // Nothing panics while it has the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reactor leaves mail of such a weight for the lane, all that is there.
    pub(crate) fn send(&self, mail: &mut Vec<M>, weight: usize) -> Sent<L, M> {
        let mut state = self.lock();
        state.mail.append(mail);
        if state.lane.is_none() || state.called {
            return Sent::Left;
        }
        if weight >= state.much {
            return if state.call() { Sent::Wake } else { Sent::Left };
        }
        state.take().map_or(Sent::Left, |(lane, mail)| Sent::Run(lane, mail))
    }

    /// The reactor takes the lane if it is home, and such.
    pub(crate) fn take_if(&self, is: impl FnOnce(&mut L) -> bool) -> Option<(L, Vec<M>)> {
        let mut state = self.lock();
        let such = state.lane.as_mut().is_some_and(is);
        if such { state.take() } else { None }
    }

    /// What the reactor sees of the lane if it is home.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&mut L) -> T) -> Option<T> {
        self.lock().lane.as_mut().map(at)
    }

    /// The reactor wants the lane, which it does not have, and takes it if it is home.
    fn want(state: &mut State<L, M>) -> Option<(L, Vec<M>)> {
        assert!(!state.lost, "the thread of a lane has panicked");
        let taken = state.take();
        state.wanted = taken.is_none();
        taken
    }

    /// The reactor waits for the lane, which it does not have, and takes it.
    ///
    /// # Panics
    /// If the lane's thread has.
    pub(crate) fn recall(&self) -> (L, Vec<M>) {
        let mut state = self.lock();
        loop {
            let taken = Mailbox::want(&mut state);
            self.hurry.store(taken.is_none(), Ordering::Relaxed);
            if let Some(taken) = taken {
                return taken;
            }
            state = self.home.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The reactor is done with the lane, but for mail that has come meanwhile.
    pub(crate) fn give_back(&self, lane: L) -> Option<(L, Vec<M>)> {
        let mut state = self.lock();
        state.lane = Some(lane);
        match state.mail.is_empty() {
            true => None,
            false => state.take(),
        }
    }

    /// The reactor leaves the lane's work to the lane's thread. Says whether that must be woken.
    pub(crate) fn hand_over(&self, lane: L) -> bool {
        let mut state = self.lock();
        state.lane = Some(lane);
        state.call()
    }

    /// What the lane's thread, which does not have the lane, is to do.
    pub(crate) fn next(&self) -> Next<L, M> {
        let mut state = self.lock();
        state.asleep = false;
        if state.closed {
            return Next::End;
        }
        let taken = if state.called { state.take() } else { None };
        state.asleep = taken.is_none();
        taken.map_or(Next::Sleep, |(lane, mail)| Next::Run(lane, mail))
    }

    /// Whether the lane's thread, which sleeps, has something to do.
    pub(crate) fn calls(&self) -> bool {
        let state = self.lock();
        state.called || state.closed
    }

    /// Disk operations that the lane's thread began have ended. It takes the lane if it is home.
    pub(crate) fn ended(&self, mail: &mut Vec<M>) -> Option<(L, Vec<M>)> {
        let mut state = self.lock();
        state.mail.append(mail);
        state.take()
    }

    /// The lane's thread, which has the lane, takes its mail. Says whether the reactor wants the lane.
    pub(crate) fn more(&self) -> (Vec<M>, bool) {
        let mut state = self.lock();
        (std::mem::take(&mut state.mail), state.wanted || state.closed)
    }

    /// Whether the lane's thread, which has the lane, is to look for mail before it goes on.
    pub(crate) fn hurries(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// The lane's thread gives the lane back. It has it again if there is mail, unless the reactor wants it.
    pub(crate) fn rest(&self, lane: L) -> Option<(L, Vec<M>)> {
        let mut state = self.lock();
        state.lane = Some(lane);
        if state.wanted || state.closed {
            self.home.notify_all();
            return None;
        }
        match state.mail.is_empty() || fault::loses_last_input(state.bug) {
            true => None,
            false => state.take(),
        }
    }

    /// The lane's thread is to end.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    /// The lane's thread has panicked.
    pub(crate) fn lose(&self) {
        self.lock().lost = true;
        self.home.notify_all();
    }

    /// Whether the lane is home and its thread sleeps, which nobody has called: only the reactor or the end of a disk operation
    /// changes anything now.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        let state = self.lock();
        state.lane.is_some() && state.mail.is_empty() && state.asleep && !state.called
    }

    /// How often the lane's thread was woken.
    pub(crate) fn wakes(&self) -> u64 {
        self.lock().wakes
    }
}

/// What the lanes say to the reactor, and when it is to look after those that are home.
pub(crate) struct Inbox<M>(Mutex<Incoming<M>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incoming<M> {
    mail: Vec<M>,
    /// Until when the reactor sleeps, if it does.
    asleep: Option<Nanos>,
    /// When the first timer is due of lanes that came home since the reactor last took its mail.
    due: Nanos,
    bug: Option<Bug>,
}

impl<M> Default for Inbox<M> {
    fn default() -> Inbox<M> {
        let incoming = Incoming { mail: Vec::new(), asleep: None, due: Nanos::MAX, bug: None };
        Inbox(Mutex::new(incoming))
    }
}

impl<M> Inbox<M> {
    fn lock(&self) -> MutexGuard<'_, Incoming<M>> {
        // Nothing panics while it has the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane has said this. Says whether the reactor must be woken.
    pub(crate) fn put(&self, mail: impl IntoIterator<Item = M>) -> bool {
        let mut incoming = self.lock();
        incoming.mail.extend(mail);
        incoming.asleep.take().is_some()
    }

    /// A lane is home whose first timer is due then. Says whether the reactor must be woken.
    pub(crate) fn watch(&self, due: Nanos) -> bool {
        let mut incoming = self.lock();
        incoming.due = incoming.due.min(due);
        incoming.asleep.take_if(|until| due < *until).is_some()
    }

    /// The reactor, which is awake, takes what there is. It looks at the lanes' timers after that.
    pub(crate) fn take(&self) -> Vec<M> {
        let mut incoming = self.lock();
        (incoming.asleep, incoming.due) = (None, Nanos::MAX);
        std::mem::take(&mut incoming.mail)
    }

    /// Whether the reactor may sleep until then. If it may, what comes from now on wakes it.
    pub(crate) fn sleep(&self, until: Nanos) -> bool {
        let mut incoming = self.lock();
        let unlooked = fault::sleeps_unlooked(incoming.bug);
        let may = unlooked || (incoming.mail.is_empty() && until <= incoming.due);
        incoming.asleep = may.then_some(until);
        may
    }

    /// Whether there is something, for a reactor that looks again for a while before it sleeps.
    pub(crate) fn has_mail(&self) -> bool {
        !self.lock().mail.is_empty()
    }
}

#[cfg(test)]
mod model;
