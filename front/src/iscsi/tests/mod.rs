//! The machine, driven by an initiator that is made of bytes.

mod chap;
mod initiator;
mod reserving;
mod session;
mod writes;

use initiator::{Initiator, Unit};
