//! Hosts as threads: what a host does for its requests it does one after the other, and it takes a
//! while to wake up when it had nothing to do. (If hosts are no threads, each request has a driver's
//! time of its own, at whatever time others have theirs.)

use std::collections::VecDeque;

use weft_core::units::Nanos;
use weft_load::Kind;

use super::simulation::{Event, Simulation, micros};

/// What a host does for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Asks.
    Ask(u32),
    /// Takes the reply.
    Reply(u32),
}

/// A host's thread.
#[derive(Default)]
pub(super) struct Thread {
    /// Requests to ask: that comes first.
    asks: VecDeque<u32>,
    replies: VecDeque<u32>,
    in_hand: Option<Job>,
    awake: bool,
}

impl Thread {
    /// Takes in a job; says whether it has to be woken.
    pub fn take(&mut self, job: Job) -> bool {
        match job {
            Job::Ask(request) => self.asks.push_back(request),
            Job::Reply(request) => self.replies.push_back(request),
        }
        !std::mem::replace(&mut self.awake, true)
    }

    /// The job that is done, if there was one.
    pub fn done(&mut self) -> Option<Job> {
        self.in_hand.take()
    }

    /// The next, if there is one; else it sleeps.
    pub fn next(&mut self) -> Option<Job> {
        let ask = self.asks.pop_front().map(Job::Ask);
        self.in_hand = ask.or_else(|| self.replies.pop_front().map(Job::Reply));
        self.awake = self.in_hand.is_some();
        self.in_hand
    }
}

impl Simulation {
    /// Something for a host's thread to do.
    pub(super) fn host_works(&mut self, host: u32, job: Job) {
        if self.threads[host as usize].take(job) {
            let delay = micros(self.system.hosts.wake_us);
            self.queue.push(delay, Event::Host { host });
        }
    }

    /// A host's thread wakes up, or is done with what it had in hand.
    pub(super) fn host_is_done(&mut self, host: u32) -> Result<(), String> {
        match self.threads[host as usize].done() {
            Some(Job::Ask(request)) => self.happens(Event::Request { request })?,
            Some(Job::Reply(request)) => {
                self.reply(request)?;
                // It asks next what this reply has it ask, if that is at once.
                self.queue.push(0, Event::Host { host });
                return Ok(());
            }
            None => {}
        }
        let Some(job) = self.threads[host as usize].next() else {
            self.work.host_sleeps += 1;
            return Ok(());
        };
        let time = self.host_time(job);
        self.queue.push(time, Event::Host { host });
        Ok(())
    }

    /// How long a host works on a job.
    fn host_time(&self, job: Job) -> Nanos {
        let hosts = &self.system.hosts;
        let (request, us, carries, byte_ns) = match job {
            Job::Ask(request) => (request, hosts.ask_us, Kind::Write, hosts.ask_byte_ns),
            Job::Reply(request) => (request, hosts.reply_us, Kind::Read, hosts.reply_byte_ns),
        };
        let ask = &self.requests[request as usize].as_ref().expect("a request in work").ask;
        let bytes = if ask.kind == carries { ask.len } else { 0 };
        (us * 1e3 + bytes as f64 * byte_ns).round() as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_before_it_takes_replies_and_sleeps_when_nothing_is_left() {
        let mut thread = Thread::default();
        assert!(thread.take(Job::Reply(1)), "it slept");
        assert!(!thread.take(Job::Ask(2)));
        assert_eq!(thread.next(), Some(Job::Ask(2)));
        assert_eq!(thread.done(), Some(Job::Ask(2)));
        assert_eq!(thread.next(), Some(Job::Reply(1)));
        assert_eq!(thread.done(), Some(Job::Reply(1)));
        assert_eq!((thread.next(), thread.done()), (None, None));
        assert!(thread.take(Job::Ask(3)), "it sleeps again");
    }
}
