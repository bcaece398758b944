//! The thread that writes the member's log, so that a file system that is slow, hangs, fails or is full does not keep the
//! process from serving.
//!
//! Until a record is durable the member promises nothing that depends on it: to the others this process has not answered
//! yet. It goes on serving by what it promised before, while its lease is renewed. A write that fails is retried until it
//! succeeds.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use weft_core::units::{MILLIS, Nanos};
use weft_member::{Note, Persist};

use super::memory::Memory;
use crate::error::{Error, Result};

/// How often one looks whether the log can be written, and how often while it cannot.
const LOOK: Nanos = 60_000 * MILLIS;
const LOOK_IN_TROUBLE: Nanos = 5_000 * MILLIS;

/// How long the thread waits before it retries a write that failed.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How long a write takes before the operator is told.
const LONG: Nanos = 5_000 * MILLIS;

/// What goes on meanwhile.
const MEANWHILE: &str =
    "hosts are still served, and changes of the map depend on the other processes' logs";

/// What wakes whoever takes results.
type Wake = Box<dyn Fn() + Send + Sync>;

/// What the thread is to do.
enum Work {
    /// Make a record with this number durable.
    Write(u64, Persist),
    /// Look whether the log could be written.
    Look,
}

/// What it has done.
enum Done {
    Written(Result<u64>),
    Looked(Result<()>),
}

/// The log of a member and the thread that writes it.
pub(super) struct LogWriter {
    work: Sender<Work>,
    results: Receiver<Done>,
    wake: Arc<OnceLock<Wake>>,
    /// When the record was given to the thread that is not durable yet.
    since: Option<Nanos>,
    /// The operator has been told that this record has to wait.
    told: bool,
    /// The thread has been asked to look whether the log can be written.
    looks: bool,
    /// What came of that.
    looked: Option<Result<()>>,
    /// Why the log could not be written when that was tried last, if so.
    trouble: Option<String>,
    /// When to look without being asked.
    next_look: Nanos,
}

impl LogWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread to spare.
    pub(super) fn start(memory: Memory) -> Result<LogWriter> {
        let (work, to_do) = channel();
        let (to_tell, results) = channel();
        let wake = Arc::new(OnceLock::new());
        let woken = wake.clone();
        let thread = thread::Builder::new().name("weft-log".to_string());
        let started = thread.spawn(move || run(memory, &to_do, &to_tell, &woken));
        started.map_err(|e| Error(format!("cannot start a thread for the member's log: {e}")))?;
        Ok(LogWriter {
            work,
            results,
            wake,
            since: None,
            told: false,
            looks: false,
            looked: None,
            trouble: None,
            next_look: 0,
        })
    }

    /// Has `wake` called from now on when there is a result.
    pub(super) fn wakes(&self, wake: Wake) {
        // There is one reactor, so the first one stays.
        let _ = self.wake.set(wake);
    }

    /// Has a record written. There is one at a time.
    pub(super) fn write(&mut self, number: u64, persist: Persist, now: Nanos) {
        assert!(self.since.is_none(), "the member waits for one record before the next");
        self.since = Some(now);
        self.give(Work::Write(number, persist));
    }

    /// Has the thread look whether the log can be written. Behind a record that cannot, it does not come to that.
    /// One look is enough for all who ask meanwhile: while the log does not answer none pile up.
    pub(super) fn look(&mut self) {
        if !std::mem::replace(&mut self.looks, true) {
            self.give(Work::Look);
        }
    }

    /// Has it look from time to time: nothing else may be written for long.
    pub(super) fn look_sometimes(&mut self, now: Nanos) {
        if now < self.next_look {
            return;
        }
        if self.next_look > 0 {
            self.look();
        }
        self.next_look = now + LOOK;
    }

    /// Why the log could not be written when that was tried last, if so.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn give(&self, work: Work) {
        self.work.send(work).expect("the thread runs as long as its owner exists");
    }

    /// What came of it, if that is known.
    pub(super) fn looked(&mut self) -> Option<Result<()>> {
        self.looked.take()
    }

    /// Whether a record is not durable yet.
    pub(super) fn is_busy(&self) -> bool {
        self.since.is_some()
    }

    /// The number of the record, if it is durable now, and a note for the operator.
    pub(super) fn take(&mut self, now: Nanos) -> (Option<u64>, Option<Note>) {
        loop {
            match self.results.try_recv() {
                Ok(Done::Looked(result)) => {
                    self.trouble = result.as_ref().err().map(|Error(why)| why.clone());
                    if self.trouble.is_some() {
                        self.next_look = now + LOOK_IN_TROUBLE;
                    }
                    (self.looks, self.looked) = (false, Some(result));
                }
                Ok(Done::Written(Ok(number))) => {
                    (self.since, self.trouble) = (None, None);
                    let told = std::mem::take(&mut self.told);
                    let note = told.then(|| Note::info("the member's log is written again"));
                    return (Some(number), note);
                }
                Ok(Done::Written(Err(Error(why)))) => return (None, self.tell(&why)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    unreachable!("the thread runs as long as its owner exists")
                }
            }
        }
        let waits = self.since.is_some_and(|since| now.saturating_sub(since) >= LONG);
        let note = if waits { self.tell("its file system does not answer") } else { None };
        (None, note)
    }

    fn tell(&mut self, why: &str) -> Option<Note> {
        self.trouble = Some(why.to_string());
        let first = !std::mem::replace(&mut self.told, true);
        let text = || format!("the member's log cannot be written: {why}; {MEANWHILE}");
        first.then(|| Note::warning(text()))
    }
}

/// The thread: writes records until its owner is gone.
fn run(mut memory: Memory, work: &Receiver<Work>, results: &Sender<Done>, wake: &OnceLock<Wake>) {
    // Says whether there is an owner.
    let tell = |done| {
        let told = results.send(done).is_ok();
        wake.get().inspect(|wake| wake());
        told
    };
    while let Ok(work) = work.recv() {
        match work {
            Work::Look => drop(tell(Done::Looked(memory.try_to_write()))),
            Work::Write(number, persist) => loop {
                let result = memory.write(&persist).map(|()| number);
                let is_durable = result.is_ok();
                if !tell(Done::Written(result)) || is_durable {
                    break;
                }
                thread::sleep(RETRY_AFTER);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use weft_member::MemberId;

    use super::*;

    /// Takes results until a record is durable. Returns its number, and what the operator was told.
    fn durable(writer: &mut LogWriter, mut told: impl FnMut(&Note)) -> (u64, Vec<Note>) {
        let (begun, mut notes) = (Instant::now(), Vec::new());
        loop {
            let (number, note) = writer.take(0);
            notes.extend(note.inspect(&mut told));
            if let Some(number) = number {
                return (number, notes);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "never durable: {notes:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Bytes that are as long as a record is at least.
    fn record(byte: u8) -> Vec<u8> {
        vec![byte; 64]
    }

    fn log(dir: &Path) -> Vec<u8> {
        fs::read(dir.join("member.log")).unwrap()
    }

    #[test]
    fn a_record_is_retried_until_it_is_durable_and_the_operator_is_told_once() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, away) = (parent.path().join("state"), parent.path().join("away"));
        fs::create_dir(&dir).unwrap();
        let memory = Memory::new(&dir, MemberId(1)).unwrap();
        let mut writer = LogWriter::start(memory).unwrap();
        let (calls, called) = channel();
        writer.wakes(Box::new(move || calls.send(()).unwrap_or_default()));
        writer.write(1, Persist::Replace(record(b'a')), 0);
        assert!(writer.is_busy());
        assert_eq!(durable(&mut writer, |_| ()), (1, vec![]));
        assert!(!writer.is_busy() && called.recv_timeout(RETRY_AFTER).is_ok());

        // The directory is gone for a while, as that of a file system that is not there.
        fs::rename(&dir, &away).unwrap();
        writer.write(2, Persist::Replace(record(b'b')), 0);
        let back = |note: &Note| {
            if note.is_warning {
                fs::rename(&away, &dir).unwrap();
            }
        };
        let (number, notes) = durable(&mut writer, back);
        let [fails, over] = &notes[..] else { panic!("{notes:?}") };
        assert!(number == 2 && fails.is_warning && !over.is_warning);
        assert!(fails.text.contains("cannot be written: cannot"), "{fails}");
        assert_eq!(log(&dir), record(b'b'));
        writer.write(3, Persist::Append(record(b'c')), 0);
        assert_eq!(durable(&mut writer, |_| ()), (3, vec![]));
        writer.write(4, Persist::Append(record(b'd')), 0);
        assert_eq!(durable(&mut writer, |_| ()), (4, vec![]));
        writer.look();
        assert_eq!(looked(&mut writer), Ok(()));
        assert_eq!(log(&dir), [record(b'b'), record(b'c'), record(b'd')].concat());
    }

    /// What a look at the log finds.
    fn looked(writer: &mut LogWriter) -> Result<()> {
        let begun = Instant::now();
        loop {
            assert_eq!(writer.take(0), (None, None));
            if let Some(looked) = writer.looked() {
                return looked;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the thread does not look");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_found_though_nobody_writes() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, away) = (parent.path().join("state"), parent.path().join("away"));
        fs::create_dir(&dir).unwrap();
        let memory = Memory::new(&dir, MemberId(1)).unwrap();
        let mut writer = LogWriter::start(memory).unwrap();
        writer.write(1, Persist::Replace(record(b'a')), 0);
        assert_eq!(durable(&mut writer, |_| ()), (1, vec![]));
        writer.look_sometimes(1);
        assert!(!writer.looks, "it was written when the process started");
        fs::rename(&dir, &away).unwrap();
        writer.look_sometimes(LOOK);
        assert!(!writer.looks);
        writer.look_sometimes(LOOK + 1);
        let why = looked(&mut writer).unwrap_err().0;
        assert_eq!(writer.trouble(), Some(&why[..]));
        fs::rename(&away, &dir).unwrap();
        writer.look_sometimes(LOOK_IN_TROUBLE);
        assert_eq!((looked(&mut writer), writer.trouble()), (Ok(()), None));
    }

    #[test]
    fn a_write_that_takes_long_is_told_of_once() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path(), MemberId(1)).unwrap();
        let mut writer = LogWriter::start(memory).unwrap();
        assert_eq!(writer.take(LONG), (None, None));
        // As if the thread had it and did not answer.
        writer.since = Some(7);
        assert_eq!(writer.take(7 + LONG - 1), (None, None));
        let (number, note) = writer.take(7 + LONG);
        assert!(number.is_none() && note.unwrap().text.contains("does not answer"));
        assert_eq!(writer.take(8 + LONG), (None, None));
    }
}
