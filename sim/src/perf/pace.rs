//! How many events there were, and whether time goes on: a run in which nothing takes a nanosecond would never end.

use weft_core::units::Nanos;

/// More events than this at one time are no crowd but a circle.
const MOST: u64 = 10_000_000;

/// Events so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    events: u64,
    now: Nanos,
    /// Events at this time.
    at_once: u64,
}

impl Pace {
    /// All events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Another event happens.
    ///
    /// # Errors
    /// If too many have since time went on.
    pub fn happens(&mut self, now: Nanos) -> Result<(), String> {
        if now != self.now {
            (self.now, self.at_once) = (now, 0);
        }
        (self.events, self.at_once) = (self.events + 1, self.at_once + 1);
        match self.at_once > MOST {
            true => Err(format!(
                "after {MOST} events at {now} ns no time has passed: everything takes less than a nanosecond; give disks, \
                 links, processors or hosts that take longer"
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_stands_still_ends() {
        let mut pace = Pace::default();
        (0..MOST).for_each(|_| pace.happens(7).unwrap());
        let said = pace.happens(7).unwrap_err();
        assert!(said.contains("after 10000000 events at 7 ns no time has passed"), "{said}");
        assert_eq!((pace.happens(8), pace.events()), (Ok(()), MOST + 2));
    }
}
