//! Lengths of time as people write them, with this crate's error.

use std::time::Duration;

pub(crate) use weft_core::policy::time::{duration_in_words, in_words};

use crate::error::{Error, Result};

/// Reads a length of time such as 100ms, 0.5s or 2s.
pub(crate) fn parse_duration(text: &str) -> Result<Duration> {
    weft_core::policy::time::parse_duration(text).map_err(|e| Error(e.to_string()))
}

/// Reads a length of time such as 30s, 15m, 12h or 7d, in seconds.
pub fn parse_seconds(text: &str) -> Result<u64> {
    weft_core::policy::time::parse_seconds(text).map_err(|e| Error(e.to_string()))
}
