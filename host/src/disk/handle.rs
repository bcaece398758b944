//! System calls about a disk that may not return for minutes, if its file system or device does not answer: they are made
//! where nothing waits for them.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// An open file that is closed by a thread of its own if its disk hangs.
#[derive(Debug)]
pub(crate) struct Handle {
    file: ManuallyDrop<File>,
    hangs: AtomicBool,
}

impl Handle {
    pub(crate) fn new(file: File) -> Handle {
        Handle { file: ManuallyDrop::new(file), hangs: AtomicBool::new(false) }
    }

    /// Its disk does not answer.
    pub(crate) fn hangs(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }
}

impl Deref for Handle {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody has it after this.
        let file = unsafe { ManuallyDrop::take(&mut self.file) };
        if self.hangs.load(Ordering::Relaxed) {
            // Without a thread it stays open until the process ends: the closure is dropped by whoever could not start one.
            let kept = ManuallyDrop::new(file);
            let close = move || drop(ManuallyDrop::into_inner(kept));
            let _ = thread::Builder::new().name("weft-close".to_string()).spawn(close);
        }
    }
}

/// Something that is done in a thread of its own.
#[derive(Debug)]
pub(crate) struct Aside<T>(Receiver<T>);

impl<T: Send + 'static> Aside<T> {
    /// Begins it. Where there is no thread to be had it is done at once.
    pub(crate) fn begin(what: impl Fn() -> T + Send + Sync + 'static) -> Aside<T> {
        let (tell, result) = channel();
        let what = std::sync::Arc::new(what);
        let (there, teller) = (what.clone(), tell.clone());
        // Whoever asked may have gone meanwhile.
        let run = move || drop(teller.send(there()));
        if thread::Builder::new().name("weft-aside".to_string()).spawn(run).is_err() {
            let _ = tell.send(what());
        }
        Aside(result)
    }

    /// What came of it, if that is known within this time.
    pub(crate) fn within(&self, time: Duration) -> Option<T> {
        match self.0.recv_timeout(time) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the thread tells before it ends"),
        }
    }
}

/// Does something that reads a disk, and gives up waiting for it after this time.
pub(crate) fn within<T: Send + 'static>(
    time: Duration,
    what: impl Fn() -> T + Send + Sync + 'static,
) -> Option<T> {
    Aside::begin(what).within(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_waited_for_no_longer_and_told_later() {
        let (go, wait) = channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let aside = Aside::begin(move || wait.lock().unwrap().recv().is_ok());
        assert_eq!(aside.within(Duration::from_millis(20)), None);
        go.send(()).unwrap();
        assert_eq!(aside.within(Duration::from_secs(20)), Some(true));
        assert_eq!(within(Duration::from_secs(20), || 7), Some(7));
    }

    #[test]
    fn the_file_of_a_disk_that_hangs_is_closed_too() {
        let handle = Handle::new(tempfile::tempfile().unwrap());
        handle.hangs();
        drop(handle);
    }
}
