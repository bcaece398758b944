//! The last lines of the process's log, for the page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use weft_host::{About, Level, Log, stamp};

/// The most lines that are kept, and of those about slow requests.
const MOST: usize = 50;
const MOST_SLOW: usize = 100;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The date and the time of day, UTC.
    pub(crate) when: String,
    pub(crate) level: Level,
    pub(crate) line: String,
}

/// Something that took long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slow {
    pub(crate) event: Event,
    pub(crate) milliseconds: f64,
    pub(crate) volume: Option<String>,
    pub(crate) node: Option<u16>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    slow: VecDeque<Slow>,
}

/// The last events.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Kept>>);

fn keep<T>(kept: &mut VecDeque<T>, one: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(one);
}

impl Events {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log whose lines are also kept here.
    pub(crate) fn heard(&self, log: Log) -> Log {
        let events = self.clone();
        log.also(move |level, about, line| events.keep(level, about, line))
    }

    fn keep(&self, level: Level, about: &About, line: &str) {
        let event = Event { when: stamp(SystemTime::now()), level, line: line.to_string() };
        let mut kept = self.kept();
        match about.milliseconds {
            Some(milliseconds) => {
                let (volume, node) = (about.volume.clone(), about.node);
                keep(&mut kept.slow, Slow { event, milliseconds, volume, node }, MOST_SLOW);
            }
            None => keep(&mut kept.events, event, MOST),
        }
    }

    /// The last, the newest first.
    pub(crate) fn all(&self) -> Vec<Event> {
        self.kept().events.iter().rev().cloned().collect()
    }

    /// The last that took long, the newest first.
    pub(crate) fn slow(&self) -> Vec<Slow> {
        self.kept().slow.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let events = Events::default();
        let log = events.heard(Log::silent());
        (0..MOST + 3).for_each(|n| log.say(Level::Info, &About::default(), &format!("line {n}")));
        let slow = About { milliseconds: Some(1500.0), node: Some(3), ..About::default() };
        log.say(Level::Warning, &slow, "slow: <b>");
        let all = events.all();
        assert_eq!((all.len(), all[0].line.as_str()), (MOST, "line 52"));
        assert_eq!(all[MOST - 1].line, "line 3");
        let slow = events.slow();
        assert_eq!(
            (slow.len(), slow[0].node, slow[0].event.line.as_str()),
            (1, Some(3), "slow: <b>")
        );
    }
}
