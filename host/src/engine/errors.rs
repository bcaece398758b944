//! Errors of the disks of this process, over the lives of their nodes: counted, said in the log, and cleared.

use weft_core::node::NodeCounters;
use weft_core::units::{MILLIS, Nanos};

use super::Engine;
use crate::error::Result;
use crate::log::About;
use crate::status::DiskErrors;

/// How often it is looked whether there is something to be said.
const EVERY: Nanos = 5_000 * MILLIS;

/// Errors of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    /// Those of earlier lives of its node.
    before: DiskErrors,
    /// Those of this life that were cleared.
    cleared: DiskErrors,
    /// What the log has.
    said: DiskErrors,
}

impl Errors {
    /// All of them, with those of this life.
    fn all(&self, life: DiskErrors) -> DiskErrors {
        self.before.and(life.since(self.cleared))
    }

    /// A life of its node ends.
    fn end_life(&mut self, life: DiskErrors) {
        (self.before, self.cleared) = (self.all(life), DiskErrors::default());
    }

    /// They count from 0 again.
    fn clear(&mut self, life: DiskErrors) {
        *self = Errors { cleared: life, ..Errors::default() };
    }

    /// What is to be said, if it has not been.
    fn take_news(&mut self, life: DiskErrors) -> Option<DiskErrors> {
        let all = self.all(life);
        (std::mem::replace(&mut self.said, all) != all).then_some(all)
    }
}

fn of_life(counters: &NodeCounters, passed: u64) -> DiskErrors {
    let store = &counters.store;
    DiskErrors {
        read: store.read_errors,
        write: store.write_errors,
        checksum: store.checksum_errors + store.damaged,
        mended_sectors: counters.mended_sectors,
        passed,
    }
}

impl Engine {
    fn errors_of_life(&self, n: usize) -> DiskErrors {
        let disk = self.seat(n).and_then(|seat| seat.disk.as_ref());
        let passed = disk.map_or(0, |disk| disk.passed.so_far());
        self.status_of(n).map_or(DiskErrors::default(), |life| of_life(&life.counters, passed))
    }

    /// Errors of the disk of a node of this process.
    pub(crate) fn errors_of(&self, n: usize) -> DiskErrors {
        self.instances[n].errors.all(self.errors_of_life(n))
    }

    /// Has the errors of a disk count from 0 again. Returns those that there were.
    pub(crate) fn clear_errors(&mut self, n: usize) -> Result<DiskErrors> {
        self.known(n)?;
        let (were, life) = (self.errors_of(n), self.errors_of_life(n));
        self.instances[n].errors.clear(life);
        self.log
            .on(About::node(n))
            .info(&format!("the error counts of node {n}'s disk are reset: {were}"));
        Ok(were)
    }

    /// The life of a node ends.
    pub(super) fn keep_errors(&mut self, n: usize) {
        self.say_errors(n);
        let life = self.errors_of_life(n);
        self.instances[n].errors.end_life(life);
    }

    /// Says in the log which disks had errors, now and then.
    pub(super) fn follow_errors(&mut self) {
        let now = self.clock.now();
        if now < self.next_errors {
            return;
        }
        self.next_errors = now + EVERY;
        (0..self.instances.len()).for_each(|n| self.say_errors(n));
        self.stop_where_reads_fail();
    }

    fn say_errors(&mut self, n: usize) {
        let life = self.errors_of_life(n);
        if let Some(all) = self.instances[n].errors.take_news(life) {
            let disk = self.instances[n].path.display();
            let text = format!("errors of the disk of node {n} ({disk}): {all}");
            self.log.on(About::node(n)).warn(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_last_over_lives_until_they_are_cleared_and_are_said_once() {
        let of = |checksum| DiskErrors { checksum, ..DiskErrors::default() };
        let mut errors = Errors::default();
        assert_eq!(errors.take_news(of(0)), None);
        assert_eq!(errors.take_news(of(3)), Some(of(3)));
        assert_eq!(errors.take_news(of(3)), None);
        errors.end_life(of(4));
        assert_eq!(errors.take_news(of(0)), Some(of(4)));
        assert_eq!(errors.all(of(2)), of(6));
        errors.clear(of(2));
        assert_eq!((errors.all(of(2)), errors.take_news(of(2))), (of(0), None));
        assert_eq!(errors.take_news(of(5)), Some(of(3)));
        errors.end_life(of(5));
        assert_eq!(errors.all(of(0)), of(3));
    }
}
