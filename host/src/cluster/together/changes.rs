//! Changes of the map that this process is asked for. Before one begins the process looks whether its log can be written:
//! a change that cannot be stored would make hosts wait, since nodes stop for it.

use std::collections::BTreeMap;

use weft_core::cluster::Change;
use weft_core::units::{MILLIS, Nanos};

use crate::error::{Error, Result};

/// How long a change waits for the log before it is refused.
const LONGEST: Nanos = 3_000 * MILLIS;

/// What becomes of a change.
enum Course {
    /// It waits until the log has been looked at.
    Waits(Box<Change>, Nanos),
    /// The member has it, under this ticket.
    Begun(u64),
    /// It was refused.
    Refused(Error),
}

/// The changes that somebody asks about, by their tickets.
#[derive(Default)]
pub(super) struct Changes {
    next: u64,
    courses: BTreeMap<u64, Course>,
}

/// How a change stands, for whoever asks.
pub(super) enum Standing {
    Unknown,
    Waits,
    Begun(u64),
    Refused(Error),
}

impl Changes {
    /// One more. Returns its ticket.
    pub(super) fn add(&mut self, change: Change, now: Nanos) -> u64 {
        self.next += 1;
        self.courses.insert(self.next, Course::Waits(Box::new(change), now));
        self.next
    }

    /// When the first that waits is refused.
    pub(super) fn due(&self) -> Option<Nanos> {
        let since = |course: &Course| match course {
            Course::Waits(_, since) => Some(*since),
            _ => None,
        };
        self.courses.values().filter_map(since).min().map(|since| since + LONGEST)
    }

    /// The log has been looked at, and this came of it: all that wait begin, or are refused. `begin` returns the member's
    /// ticket.
    pub(super) fn judge(&mut self, looked: &Result<()>, mut begin: impl FnMut(Change) -> u64) {
        for course in self.courses.values_mut() {
            if let Course::Waits(change, _) = course {
                *course = match looked {
                    Ok(()) => Course::Begun(begin(Change::clone(change))),
                    Err(Error(why)) => Course::Refused(refusal(why)),
                };
            }
        }
    }

    /// Refuses those that have waited too long.
    pub(super) fn give_up(&mut self, now: Nanos) {
        for course in self.courses.values_mut() {
            if matches!(course, Course::Waits(_, since) if now.saturating_sub(*since) >= LONGEST) {
                *course = Course::Refused(refusal("its file system does not answer"));
            }
        }
    }

    /// How a change stands. Its refusal is told once.
    pub(super) fn standing(&mut self, ticket: u64) -> Standing {
        match self.courses.get(&ticket) {
            None => Standing::Unknown,
            Some(Course::Waits(..)) => Standing::Waits,
            Some(Course::Begun(begun)) => Standing::Begun(*begun),
            Some(Course::Refused(_)) => match self.courses.remove(&ticket) {
                Some(Course::Refused(error)) => Standing::Refused(error),
                _ => unreachable!("just seen"),
            },
        }
    }

    /// The member has told what became of a change.
    pub(super) fn forget(&mut self, ticket: u64) {
        self.courses.remove(&ticket);
    }
}

fn refusal(why: &str) -> Error {
    Error(format!(
        "the map cannot be changed, because the leading process cannot write its log: {why}; nothing was changed"
    ))
}

#[cfg(test)]
mod tests {
    use weft_core::units::NodeId;

    use super::*;

    fn change() -> Change {
        Change::Suspect(NodeId(1), true)
    }

    #[test]
    fn a_change_begins_when_the_log_can_be_written_and_is_refused_otherwise() {
        let mut changes = Changes::default();
        let (a, b) = (changes.add(change(), 10), changes.add(change(), 20));
        assert!(a != b && changes.due() == Some(10 + LONGEST));
        assert!(matches!(changes.standing(a), Standing::Waits));
        changes.give_up(10 + LONGEST);
        let Standing::Refused(why) = changes.standing(a) else { panic!("it waits still") };
        assert!(why.0.contains("does not answer; nothing was changed"), "{why}");
        assert!(matches!(changes.standing(a), Standing::Unknown), "it is told once");
        changes.judge(&Ok(()), |_| 77);
        assert!(matches!(changes.standing(b), Standing::Begun(77)) && changes.due().is_none());
        changes.forget(b);
        assert!(matches!(changes.standing(b), Standing::Unknown));
        let c = changes.add(change(), 30);
        changes.judge(&Err(Error("no space".to_string())), |_| unreachable!("it is refused"));
        assert!(matches!(changes.standing(c), Standing::Refused(e) if e.0.contains("no space")));
    }
}
