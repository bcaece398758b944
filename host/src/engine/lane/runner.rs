//! The thread of a lane.
//!
//! It sleeps until it is called or an operation of its disks has ended, and runs its lane until nothing is left. Messages go
//! before disk operations, as on the reactor's thread, so what a round puts in a journal is one frame. Between two handfuls
//! it looks for mail, and whether the reactor wants the lane.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use weft_bytes::memory::give_pages_back;

use super::mailbox::{Inbox, Mailbox, Next};
use super::{Disks, HANDFUL, Lane, Mail, Said};
use crate::error::{Error, Result};
use crate::polling::{BusyPolling, LONGEST, Polling};

const CALL: Token = Token(0);
const DISKS: Token = Token(1);

/// What wakes the reactor, if it sleeps at a poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bell(Option<Arc<Waker>>);

impl Bell {
    /// The reactor's.
    pub(crate) fn of(waker: &Arc<Waker>) -> Bell {
        Bell(Some(waker.clone()))
    }

    pub(crate) fn ring(&self) {
        // A reactor that cannot be woken is gone.
        let _ = self.0.as_ref().map(|waker| waker.wake());
    }
}

/// What a lane's thread and the reactor share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) mailbox: Arc<Mailbox<Box<Lane>, Mail>>,
    pub(crate) inbox: Arc<Inbox<Said>>,
    pub(crate) bell: Bell,
    /// What the clocks of the lane's nodes showed last, in microseconds.
    pub(crate) shown: Arc<AtomicU64>,
}

impl Shared {
    /// Says what the clocks of a lane's nodes show.
    pub(crate) fn show(&self, lane: &mut Lane) {
        self.shown.store(lane.reading().unwrap_or(u64::MAX), Ordering::Release);
    }
}

/// A lane that is idle this long gives memory back. The buffer pool is empty by then.
const GIVES_BACK: Duration = Duration::from_secs(5);

/// The thread's side.
pub(crate) struct Runner {
    shared: Shared,
    poll: Poll,
    events: Events,
    disks: Disks,
    busy_polling: BusyPolling,
}

/// Says it if the thread panics.
struct Guard(Shared);

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.mailbox.lose();
            let why = Error("the thread of a lane has panicked".to_string());
            self.0.inbox.put([Said::Fatal(why)]);
            self.0.bell.ring();
        }
    }
}

impl Runner {
    /// One that is not started yet, and what wakes it. It must have a ring if other lanes do: how disks are worked is one choice for
    /// a process.
    ///
    /// # Errors
    /// If the system has no more descriptors or rings.
    pub(crate) fn new(shared: Shared, polling: Polling, ring: bool) -> Result<(Runner, Waker)> {
        let cannot = |e: io::Error| Error(format!("a lane cannot wait for events: {e}"));
        let poll = Poll::new().map_err(cannot)?;
        let waker = Waker::new(poll.registry(), CALL).map_err(cannot)?;
        let (disks, no_ring) = Disks::new()?;
        if let Some(e) = no_ring.filter(|_| ring) {
            return Err(Error(format!(
                "cannot create an io_uring for a lane: {e}; choose fewer lanes"
            )));
        }
        for fd in disks.fds() {
            let registry = poll.registry();
            registry.register(&mut SourceFd(&fd), DISKS, Interest::READABLE).map_err(cannot)?;
        }
        let (events, busy_polling) = (Events::with_capacity(8), BusyPolling::new(polling));
        Ok((Runner { shared, poll, events, disks, busy_polling }, waker))
    }

    /// Runs in a thread of its own until its mailbox is closed.
    ///
    /// # Errors
    /// If there are no more threads.
    pub(crate) fn start(self, number: usize) -> Result<JoinHandle<()>> {
        let thread = thread::Builder::new().name(format!("weft-lane-{number}"));
        let started = thread.spawn(move || self.run());
        started.map_err(|e| Error(format!("cannot start the thread of a lane: {e}")))
    }

    /// Its ring ends with it, and waits for what is in work there.
    fn run(mut self) {
        let _guard = Guard(self.shared.clone());
        loop {
            let taken = match self.shared.mailbox.next() {
                Next::Run(lane, mail) => Some((lane, mail)),
                Next::Sleep => self.sleep(),
                Next::End => return,
            };
            if let Some((lane, mail)) = taken {
                self.run_lane(lane, mail);
            }
        }
    }

    /// Sleeps until there is something to do. Takes the lane if operations have ended.
    fn sleep(&mut self) -> Option<(Box<Lane>, Vec<Mail>)> {
        if let Err(e) = self.wait() {
            self.fail(Error(format!("a lane cannot wait for events: {e}")));
        }
        let mut ended = Vec::new();
        if let Err(e) = self.disks.collect(&mut ended) {
            self.fail(e);
        }
        let mut mail: Vec<Mail> =
            ended.into_iter().map(|(tag, end)| Mail::Ended(tag, end)).collect();
        if mail.is_empty() { None } else { self.shared.mailbox.ended(&mut mail) }
    }

    fn wait(&mut self) -> io::Result<()> {
        let (began, mut came) = (Instant::now(), false);
        if self.busy_polling.pays(began) {
            while !came && began.elapsed() < LONGEST {
                self.poll_for(Some(Duration::ZERO))?;
                came = !self.events.is_empty() || self.shared.mailbox.calls();
            }
        }
        if !came {
            self.wait_long()?;
        }
        self.busy_polling.waited(began.elapsed(), !came);
        Ok(())
    }

    /// Sleeps until something comes. If that takes long, memory that this thread has no more use for goes back to the
    /// system: no other thread can see to that.
    fn wait_long(&mut self) -> io::Result<()> {
        self.poll_for(Some(GIVES_BACK))?;
        if self.events.is_empty() {
            give_pages_back();
            self.poll_for(None)?;
        }
        Ok(())
    }

    fn poll_for(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            _ => Ok(()),
        }
    }

    fn fail(&self, error: Error) {
        if self.shared.inbox.put([Said::Fatal(error)]) {
            self.shared.bell.ring();
        }
    }

    /// Runs the lane until it has nothing more to do, or the reactor wants it.
    fn run_lane(&mut self, mut lane: Box<Lane>, mut mail: Vec<Mail>) {
        loop {
            lane.receive(mail);
            self.shared.show(&mut lane);
            let before = lane.handled;
            while self.round(&mut lane) {}
            lane.at_home += lane.handled - before;
            match self.rest(lane) {
                Some(taken) => (lane, mail) = taken,
                None => return,
            }
        }
    }

    /// Delivers a handful, or begins disk operations if there is nothing to deliver. Says whether to go on.
    fn round(&mut self, lane: &mut Lane) -> bool {
        let mailbox = &self.shared.mailbox;
        let goes_on = |lane: &mut Lane| !mailbox.hurries() && lane.deliver_by_lease();
        let delivered = (0..HANDFUL).take_while(|_| goes_on(lane)).count();
        self.hand_out(lane);
        let (mail, wanted) = self.shared.mailbox.more();
        let more = delivered == HANDFUL || !mail.is_empty();
        lane.receive(mail);
        if wanted || more {
            return !wanted;
        }
        lane.fire_due();
        if let Err(e) = lane.start_disk_operations(&mut self.disks) {
            self.fail(e);
        }
        for (tag, result) in lane.take_ended() {
            lane.feed_ended(tag, result);
        }
        self.hand_out(lane);
        lane.note_queued(&self.disks);
        lane.has_work() || lane.fire_soon()
    }

    /// Hands the reactor what the lane's nodes have said.
    fn hand_out(&self, lane: &mut Lane) {
        self.shared.show(lane);
        if lane.has_said() && self.shared.inbox.put(lane.drain_said()) {
            self.shared.bell.ring();
        }
    }

    /// Gives the lane back. Has it again if there is mail.
    fn rest(&self, mut lane: Box<Lane>) -> Option<(Box<Lane>, Vec<Mail>)> {
        self.hand_out(&mut lane);
        let due = lane.deadline();
        let again = self.shared.mailbox.rest(lane);
        if let Some(due) = due
            && again.is_none()
            && self.shared.inbox.watch(due)
        {
            self.shared.bell.ring();
        }
        again
    }
}
