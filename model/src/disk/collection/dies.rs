//! The channels of a drive that collects garbage: each does one thing at a time, and reads first.
//!
//! Programs, copies and erases are booked one after the other. A read waits for what its channel has begun, or until
//! that can be suspended, and everything that has not ended moves back.

use std::collections::VecDeque;

use weft_core::units::Nanos;

/// A program, copy or erase.
#[derive(Clone, Copy, Debug)]
struct Work {
    begin: Nanos,
    end: Nanos,
}

#[derive(Clone, Debug, Default)]
struct Die {
    /// What has not ended, in order of time.
    booked: VecDeque<Work>,
    /// When the last read, or program, copy or erase, ends.
    reads_end: Nanos,
    work_ends: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
    /// The longest that a read waits for work in progress; `None`: until its end.
    suspend: Option<Nanos>,
    /// The one that is written to next.
    next: usize,
}

impl Dies {
    pub fn new(channels: u32, suspend: Option<Nanos>) -> Dies {
        Dies { dies: vec![Die::default(); channels as usize], suspend, next: 0 }
    }

    /// A read that can begin at `ready`: when it begins and ends.
    pub fn read(&mut self, channel: usize, ready: Nanos, latency: Nanos) -> (Nanos, Nanos) {
        let suspend = self.suspend;
        let die = &mut self.dies[channel];
        die.forget(ready);
        let mut begin = ready.max(die.reads_end);
        if let Some(work) = die.booked.front().filter(|work| work.begin < begin && begin < work.end)
        {
            // Reads that follow each other suspend it once.
            let wait = if ready < die.reads_end { Some(0) } else { suspend };
            begin = wait.map_or(work.end, |wait| work.end.min(begin + wait));
        }
        let end = begin + latency;
        die.reads_end = end;
        die.move_back(begin, end);
        (begin, end)
    }

    /// Books work on the next channel, from `ready` on; answers when it ends. `now` is no later than any read to come.
    pub fn work(&mut self, now: Nanos, ready: Nanos, latency: Nanos) -> Nanos {
        let channel = self.next;
        self.next = (channel + 1) % self.dies.len();
        let die = &mut self.dies[channel];
        die.forget(now);
        let begin = ready.max(die.work_ends).max(die.reads_end);
        let end = begin + latency;
        die.booked.push_back(Work { begin, end });
        die.work_ends = end;
        end
    }
}

impl Die {
    /// What has ended does not matter any more.
    fn forget(&mut self, now: Nanos) {
        while self.booked.front().is_some_and(|work| work.end <= now) {
            self.booked.pop_front();
        }
    }

    /// Makes room for a read.
    fn move_back(&mut self, begin: Nanos, end: Nanos) {
        let mut free = end;
        for work in self.booked.iter_mut().filter(|work| work.end > begin) {
            let left = work.end - work.begin.max(begin);
            if work.begin >= free {
                break;
            }
            if work.begin >= begin {
                work.begin = free;
            }
            work.end = free + left;
            free = work.end;
        }
        self.work_ends = self.work_ends.max(free);
    }
}
