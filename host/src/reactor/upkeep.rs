//! A change of the map that periodic work asks for. The next one is asked for when this one has ended, and after a refusal
//! only after a while: where the map cannot be changed, nothing piles up.

use std::time::{Duration, Instant};

use crate::engine::Ticket;
use crate::error::{Error, Result};

/// How long after a refusal the next change is asked for.
const PAUSE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    asked: Option<Ticket>,
    not_before: Option<Instant>,
}

/// Whether a change may be asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It may.
    Now,
    /// Not yet.
    Later,
    /// The last one has just been refused.
    Refused(Error),
}

impl Upkeep {
    /// A change has been asked for.
    pub(super) fn has_asked(&mut self, ticket: Ticket) {
        self.asked = Some(ticket);
    }

    /// Looks what became of the change that was asked for.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        outcome: impl FnOnce(Ticket) -> Option<Result<()>>,
    ) -> Turn {
        if let Some(ticket) = self.asked {
            match outcome(ticket) {
                None => return Turn::Later,
                Some(Ok(())) => self.asked = None,
                Some(Err(why)) => {
                    (self.asked, self.not_before) = (None, Some(now + PAUSE));
                    return Turn::Refused(why);
                }
            }
        }
        match self.not_before {
            Some(at) if now < at => Turn::Later,
            _ => Turn::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_is_asked_for_at_a_time_and_none_for_a_while_after_a_refusal() {
        let (mut upkeep, now) = (Upkeep::default(), Instant::now());
        let nothing = |_| panic!("nothing was asked for");
        assert_eq!(upkeep.turn(now, nothing), Turn::Now);
        upkeep.has_asked(Ticket(7));
        assert_eq!(upkeep.turn(now, |_| None), Turn::Later);
        assert_eq!(upkeep.turn(now, |ticket| (ticket == Ticket(7)).then_some(Ok(()))), Turn::Now);
        upkeep.has_asked(Ticket(8));
        let full = || Error("the file system is full".to_string());
        assert_eq!(upkeep.turn(now, |_| Some(Err(full()))), Turn::Refused(full()));
        assert_eq!(upkeep.turn(now + PAUSE / 2, nothing), Turn::Later);
        assert_eq!(upkeep.turn(now + PAUSE, nothing), Turn::Now);
    }
}
