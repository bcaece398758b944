//! What `weft status --json` says, for monitoring systems that fetch it: a page in the OpenMetrics format, at an
//! address of its own.
//!
//! The page is made of a [`Status`] for each who asks ([`page`]), so it says what the status says. A thread serves it
//! ([`Metrics`]) and asks for the status as any command does. What it costs hosts is one `weft status` each time.

mod page;
mod serve;

pub(crate) use page::page;
pub use serve::Metrics;
