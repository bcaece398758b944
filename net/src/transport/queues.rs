//! What the owner and the transport's thread share: a queue of events one way, a queue of frames
//! for each connection the other way, all bounded by bytes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mio::Waker;
use weft_core::units::NodeId;

use super::{Event, Peer, SendError};
use crate::frame::HEADER;

/// A panic of the other side leaves these plain queues as they are.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A frame that waits to be sent.
pub(super) type Outgoing = (u8, Vec<Bytes>);

/// The frames that wait for one session with a peer. Each session has one of its own, so that what was
/// meant for one life of a peer never reaches the next.
#[derive(Debug)]
pub(super) struct Outbox {
    pub peer: NodeId,
    limit: usize,
    inner: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Outgoing>,
    /// Of these frames, and of those taken that have not been acknowledged.
    bytes: usize,
    closed: bool,
    /// The driver has been told that there is something.
    told: bool,
    /// A frame was refused since there was room.
    refused: bool,
}

impl Outbox {
    pub fn new(peer: NodeId, limit: usize) -> Outbox {
        Outbox { peer, limit, inner: Mutex::default() }
    }

    /// Appends a frame. Returns whether the driver has to be told.
    pub fn push(&self, peer: NodeId, frame: Outgoing) -> Result<bool, SendError> {
        let len = HEADER + frame.1.iter().map(Bytes::len).sum::<usize>();
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Err(SendError::Down { peer });
        }
        if inner.bytes > 0 && inner.bytes + len > self.limit {
            inner.refused = true;
            return Err(SendError::Full { peer, waiting: inner.bytes });
        }
        inner.bytes += len;
        inner.frames.push_back(frame);
        Ok(!std::mem::replace(&mut inner.told, true))
    }

    /// The next frame. If there is none, the next one pushed has to be told of.
    pub fn take(&self) -> Option<Outgoing> {
        let mut inner = lock(&self.inner);
        let frame = inner.frames.pop_front();
        inner.told = frame.is_some();
        frame
    }

    /// So many bytes of frames have arrived. Returns whether the owner waits for the room.
    pub fn arrived(&self, bytes: usize) -> bool {
        let mut inner = lock(&self.inner);
        inner.bytes = inner.bytes.saturating_sub(bytes);
        inner.bytes <= self.limit / 2 && std::mem::take(&mut inner.refused)
    }

    pub fn close(&self) {
        *lock(&self.inner) = Waiting { closed: true, ..Waiting::default() };
    }
}

/// An event, and with `Up` the way to send.
pub(super) type Delivery = (Event, Option<Arc<Outbox>>);

#[derive(Debug, Default)]
struct Inbox {
    events: VecDeque<Delivery>,
    /// Of the frames among them.
    bytes: usize,
    /// Nothing is read until the owner has taken some.
    paused: bool,
}

#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Peers that there is something to send to.
    pub told: Vec<NodeId>,
    pub peers: Vec<PeerOrder>,
    /// Reading may go on.
    pub resume: bool,
    pub stop: bool,
}

#[derive(Debug)]
pub(super) enum PeerOrder {
    Add(Peer),
    Retire(NodeId),
    Remove(NodeId),
}

/// How two threads wake one another. One that is both owner and driver needs it not.
pub(super) struct Rouse {
    /// Wakes the driver.
    pub driver: Waker,
    /// Called when events have come and none waited before.
    pub owner: Box<dyn Fn() + Send + Sync>,
}

/// What is shared.
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    came: Condvar,
    undelivered_limit: usize,
    orders: Mutex<Orders>,
    rouse: Option<Rouse>,
    /// The driver has been woken and not yet looked.
    woken: AtomicBool,
}

impl Shared {
    pub fn new(limit: usize, rouse: Option<Rouse>) -> Shared {
        Shared {
            inbox: Mutex::default(),
            came: Condvar::new(),
            undelivered_limit: limit,
            orders: Mutex::default(),
            rouse,
            woken: AtomicBool::new(false),
        }
    }

    /// Hands an event to the owner.
    pub fn deliver(&self, event: Event, outbox: Option<Arc<Outbox>>) {
        let mut inbox = lock(&self.inbox);
        inbox.bytes += event.bytes();
        inbox.paused |= inbox.bytes > self.undelivered_limit;
        let first = inbox.events.is_empty();
        inbox.events.push_back((event, outbox));
        drop(inbox);
        let Some(rouse) = &self.rouse else { return };
        self.came.notify_one();
        if first {
            (rouse.owner)();
        }
    }

    /// Whether the owner has so much to take that nothing should be read.
    pub fn is_paused(&self) -> bool {
        lock(&self.inbox).paused
    }

    /// The next event, if there is one within `patience`.
    pub fn next(&self, patience: Duration) -> Option<Delivery> {
        let mut inbox = lock(&self.inbox);
        if inbox.events.is_empty() && !patience.is_zero() {
            let waited = self.came.wait_timeout_while(inbox, patience, |i| i.events.is_empty());
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let delivery = inbox.events.pop_front()?;
        inbox.bytes -= delivery.0.bytes();
        let resume = inbox.paused && inbox.bytes <= self.undelivered_limit / 2;
        if resume {
            inbox.paused = false;
        }
        drop(inbox);
        if resume {
            self.order(|orders| orders.resume = true);
        }
        Some(delivery)
    }

    /// Leaves an order for the driver and wakes it.
    pub fn order(&self, leave: impl FnOnce(&mut Orders)) {
        leave(&mut lock(&self.orders));
        if let Some(rouse) = &self.rouse
            && !self.woken.swap(true, Ordering::AcqRel)
        {
            // It fails only if the thread is gone, and then nobody is to be woken.
            let _ = rouse.driver.wake();
        }
    }

    /// Takes the orders.
    pub fn take_orders(&self) -> Orders {
        self.woken.store(false, Ordering::Release);
        std::mem::take(&mut lock(&self.orders))
    }
}
