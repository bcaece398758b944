//! Requests that were taken, and their ends.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;

use crate::error::Error;
use crate::id::Id;

/// A value that is still to come.
pub(crate) struct Promise<T> {
    inside: Mutex<Inside<T>>,
    arrived: Condvar,
}

struct Inside<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl<T: Clone> Promise<T> {
    pub(crate) fn new() -> Arc<Promise<T>> {
        let inside = Mutex::new(Inside { value: None, waker: None });
        Arc::new(Promise { inside, arrived: Condvar::new() })
    }

    /// Gives the value to whoever waits for it.
    pub(crate) fn fill(&self, value: T) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.value = Some(value);
        let waker = inside.waker.take();
        drop(inside);
        self.arrived.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    pub(crate) fn wait(&self) -> T {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &inside.value {
                Some(value) => return value.clone(),
                None => {
                    inside = self.arrived.wait(inside).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// The value, if it comes in time.
    pub(crate) fn wait_for(&self, time: Duration) -> Option<T> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let (inside, _) = self
            .arrived
            .wait_timeout_while(inside, time, |inside| inside.value.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        inside.value.clone()
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        match &inside.value {
            Some(value) => Poll::Ready(value.clone()),
            None => {
                inside.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A request that was taken. It is done whether or not anyone waits for it.
///
/// [`Completion::wait`] blocks until it has ended; as a future it can be awaited, on any runtime.
/// Either gives what was read; of what is not a read, no bytes.
#[must_use = "only the completion reports whether it was done; keep its id if that is enough"]
pub struct Completion {
    pub(crate) id: Id,
    pub(crate) promise: Arc<Promise<Result<Bytes, Error>>>,
}

impl Completion {
    /// The request's name, for others to come after it.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Why it was not done.
    pub fn wait(self) -> Result<Bytes, Error> {
        self.promise.wait()
    }

    /// Waits for its end, but not for longer than this: `None` if it has not ended by then. It goes on all the
    /// same, and can be waited for again.
    pub fn wait_for(&self, time: Duration) -> Option<Result<Bytes, Error>> {
        self.promise.wait_for(time)
    }

    /// Its end, if it has ended.
    pub fn get(&self) -> Option<Result<Bytes, Error>> {
        self.promise.get()
    }
}

impl Future for Completion {
    type Output = Result<Bytes, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.promise.poll(context)
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("id", &self.id).finish_non_exhaustive()
    }
}
