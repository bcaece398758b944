//! What hosts saw in one run.

use super::{Latency, Level, Little, throughput_mb_s};
use crate::{Kind, Nanos};

/// Requests of one kind that were finished.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Bytes they read or wrote.
    pub bytes: u64,
    /// How long each took, from when the host asked to the reply; and so how many they were.
    pub latency: Latency,
}

impl Class {
    /// Takes in what another run saw.
    pub fn merge(&mut self, other: &Class) {
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }
}

/// Follows the requests of a run as hosts see them, and leaves out its beginning.
///
/// Measuring begins with the reply to the last request of the warm-up. What is finished after
/// that counts, also if it was asked before.
#[derive(Clone, Debug)]
pub struct Run {
    warm_up: u64,
    measured: Measured,
    finished: u64,
}

impl Run {
    /// A run that begins `now` and of which the first `warm_up` requests are left out.
    pub fn new(now: Nanos, warm_up: u64) -> Self {
        let measured =
            Measured { began: now, little: Little::new(now), classes: Default::default() };
        Run { warm_up, measured, finished: 0 }
    }

    /// A host asks.
    pub fn ask(&mut self, now: Nanos) {
        self.measured.little.arrive(now);
    }

    /// A host that asked at `asked` has its reply.
    pub fn reply(&mut self, now: Nanos, kind: Kind, bytes: u64, asked: Nanos) {
        self.measured.little.depart(now, asked);
        self.finished += 1;
        if self.finished > self.warm_up {
            let class = &mut self.measured.classes[kind as usize];
            class.bytes += bytes;
            class.latency.add(now - asked);
        } else if self.finished == self.warm_up {
            self.measured.began = now;
            self.measured.little.restart(now);
        }
    }

    /// Replies so far, with those of the warm-up.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Whether the warm-up is over.
    pub fn is_warm(&self) -> bool {
        self.finished >= self.warm_up
    }

    /// What was measured so far; nothing before the warm-up is over.
    pub fn measured(&self) -> Option<&Measured> {
        self.is_warm().then_some(&self.measured)
    }
}

/// What was measured after the warm-up.
#[derive(Clone, Debug)]
pub struct Measured {
    /// When measuring began.
    pub began: Nanos,
    little: Little,
    classes: [Class; 3],
}

impl Measured {
    /// The requests of one kind.
    pub fn class(&self, kind: Kind) -> &Class {
        &self.classes[kind as usize]
    }

    /// Requests of all kinds together.
    pub fn all(&self) -> Class {
        self.classes.iter().fold(Class::default(), |mut all, class| {
            all.merge(class);
            all
        })
    }

    /// Throughput until `now`, in 10^6 bytes a second, of reads and writes together.
    pub fn throughput_mb_s(&self, now: Nanos) -> f64 {
        throughput_mb_s(self.classes.iter().map(|c| c.bytes).sum(), now - self.began)
    }

    /// Requests finished in a second until `now`; 0 if no time passed.
    pub fn requests_s(&self, now: Nanos) -> f64 {
        let count: u64 = self.classes.iter().map(|c| c.latency.count()).sum();
        count as f64 * 1e9 / (now - self.began).max(1) as f64
    }

    /// How many requests were outstanding, over time.
    pub fn outstanding(&self) -> &Level {
        self.little.present()
    }

    /// Checks Little's law over the measured part of the run: see [`Little::check`].
    ///
    /// # Errors
    /// Both sides of it, if they differ.
    pub fn check(&self, now: Nanos, inside: impl IntoIterator<Item = Nanos>) -> Result<(), String> {
        self.little.check(now, inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_left_out() {
        let mut run = Run::new(0, 2);
        for at in [0, 0, 0] {
            run.ask(at);
        }
        run.reply(100, Kind::Write, 4096, 0);
        assert!(run.measured().is_none());
        run.reply(200, Kind::Write, 4096, 0);
        run.ask(250);
        run.reply(300, Kind::Read, 8192, 0);
        run.reply(1200, Kind::Write, 4096, 250);
        let measured = run.measured().unwrap();
        assert_eq!((measured.began, run.finished()), (200, 4));
        assert_eq!(measured.class(Kind::Write).latency.count(), 1);
        assert_eq!(measured.class(Kind::Read).latency.sum(), 300);
        assert_eq!(measured.all().bytes, 12_288);
        assert_eq!(measured.throughput_mb_s(1200), 12_288.0);
        assert_eq!(measured.requests_s(1200), 2e6);
        // 100 ns of the read fall into the window, 950 of the write.
        assert_eq!(measured.outstanding().mean(1200), 1.05);
        assert_eq!(measured.check(1200, []), Ok(()));
    }

    #[test]
    fn without_warm_up_all_counts() {
        let mut run = Run::new(50, 0);
        assert_eq!(run.measured().unwrap().throughput_mb_s(50), 0.0);
        run.ask(60);
        run.reply(70, Kind::Flush, 0, 60);
        assert_eq!(run.measured().unwrap().class(Kind::Flush).latency.count(), 1);
    }
}
