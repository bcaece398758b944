//! A driver on a thread of its own.

use std::io::ErrorKind;

use mio::{Events, Poll, Token};

use super::driver::Driver;

pub(super) const WAKER: Token = Token(0);

/// The first of the driver's tokens.
pub(super) const FIRST: Token = Token(1);

/// Turns the driver until the transport is dropped.
pub(super) fn run(mut driver: Driver, mut poll: Poll) {
    let mut events = Events::with_capacity(256);
    loop {
        match poll.poll(&mut events, driver.patience()) {
            Err(e) if e.kind() != ErrorKind::Interrupted => return driver.stopped(&e),
            _ => {}
        }
        events.iter().filter(|e| e.token() != WAKER).for_each(|e| driver.ready(e));
        if !driver.turn() {
            return;
        }
    }
}
