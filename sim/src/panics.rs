//! Panics of checked nodes: their assertions noticed a fault.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The beginning of a reason that is a panic's text.
pub(crate) const PANICKED: &str = "panicked: ";

/// Does something; a panic is a failure, too, with its text as the reason. State that it leaves half changed is read for
/// the trace alone.
pub(crate) fn caught<T>(what: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|said| Err(said_by(&*said)))
}

fn said_by(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("{PANICKED}{}", text.unwrap_or("no reason given"))
}
