//! Whether a process may look for input again for a while before it sleeps: an operator's choice, and what is
//! made of it.

mod busy;

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, fail};

pub(crate) use busy::{BusyPolling, LONGEST};

/// Whether a process looks for input again for a while before it sleeps. It does so only where that pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Small requests are answered sooner, and take more of an otherwise idle processor.
    #[default]
    On,
    /// It sleeps whenever there is nothing to do.
    Off,
}

impl fmt::Display for Polling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Polling::On => "on",
            Polling::Off => "off",
        })
    }
}

impl FromStr for Polling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Polling> {
        match text {
            "on" => Ok(Polling::On),
            "off" => Ok(Polling::Off),
            _ => fail(format!("'{text}' is not a value of polling; give on or off")),
        }
    }
}
