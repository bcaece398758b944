//! Lengths of time as people write them, with this crate's error.

pub(crate) use weft_core::policy::time::in_words;

use crate::error::{Error, Result};

/// Reads a length of time such as 30s, 15m, 12h or 7d, in seconds.
pub fn parse_seconds(text: &str) -> Result<u64> {
    weft_core::policy::time::parse_seconds(text).map_err(|e| Error(e.to_string()))
}
