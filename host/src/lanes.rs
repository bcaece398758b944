//! How many lanes a process has, threads that run its nodes: an operator's choice. What a lane is stands in the engine.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::thread::available_parallelism;

use crate::error::{Error, Result, fail};

/// How many lanes a process has: so many, or else as many as the machine has processors, and at most one for each of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes(Option<NonZero<usize>>);

impl Lanes {
    /// One: everything on one thread.
    pub const ONE: Lanes = Lanes(NonZero::new(1));

    /// The most.
    pub const MOST: usize = 64;

    /// So many.
    ///
    /// # Errors
    /// If that is none, or too many.
    pub fn new(count: usize) -> Result<Lanes> {
        match NonZero::new(count).filter(|n| n.get() <= Lanes::MOST) {
            Some(count) => Ok(Lanes(Some(count))),
            None => {
                fail(format!("a process cannot have {count} lanes; choose 1 to {}", Lanes::MOST))
            }
        }
    }

    /// How many a process has that runs so many nodes.
    pub(crate) fn count(self, nodes: usize) -> usize {
        let processors = || available_parallelism().map_or(1, NonZero::get);
        let usual = || processors().min(nodes).clamp(1, Lanes::MOST);
        self.0.map_or_else(usual, NonZero::get)
    }

    /// Whether somebody has chosen how many.
    pub(crate) fn is_chosen(self) -> bool {
        self.0.is_some()
    }

    /// What is to be written down of it, unless it is as always.
    pub(crate) fn words(self) -> Option<usize> {
        self.0.map(NonZero::get)
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => write!(f, "{count}"),
            None => write!(f, "one per processor, at most one per node"),
        }
    }
}

impl FromStr for Lanes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Lanes> {
        match text.parse() {
            Ok(count) => Lanes::new(count),
            Err(_) => fail(format!("'{text}' is not a number of lanes; give 1 to {}", Lanes::MOST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_to_sixty_four() {
        assert_eq!("1".parse(), Ok(Lanes::ONE));
        assert_eq!(Lanes::new(64).unwrap().count(2), 64);
        let usual = |nodes| Lanes::default().count(nodes);
        assert_eq!((usual(0), usual(1)), (1, 1));
        let processors = available_parallelism().map_or(1, NonZero::get);
        assert_eq!((usual(2), usual(1000)), (processors.min(2), processors.min(Lanes::MOST)));
        for wrong in ["0", "65", "-1", "two", ""] {
            assert!(wrong.parse::<Lanes>().unwrap_err().0.contains("1 to 64"), "{wrong}");
        }
    }
}
