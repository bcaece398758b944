//! How a target ends a session: asynchronous messages (RFC 7143, 11.9), and logins that another portal is to serve.

use super::Server;
use super::pdu::{Head, NO_TAG, at, opcode};
use super::server::Phase;

/// How the target ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// It asks for a logout within this many seconds. Until then commands are carried out.
    Logout(u16),
    /// It closes the connection now. The initiator may come back after this many seconds.
    Drop(u16),
}

impl Server {
    /// Tells the initiator how its session ends. Returns whether it was told: there is a session with a unit that has not
    /// logged out.
    pub fn part(&mut self, how: Parting) -> bool {
        let is_session = matches!(self.phase, Phase::Full) && self.unit.is_some();
        if !is_session || self.leaving.is_some() {
            return false;
        }
        // A session has one connection, so all of them are dropped. No command is kept for another.
        let (event, wait, time) = match how {
            Parting::Logout(within) => (1, 0, within),
            Parting::Drop(wait) => (3, wait, 0),
        };
        let head = Head::new(opcode::ASYNCHRONOUS)
            .answering(NO_TAG)
            .with_byte(at::EVENT, event)
            .with_half(at::SECOND_PARAMETER, wait)
            .with_half(at::THIRD_PARAMETER, time);
        self.send_status(head, &[]);
        true
    }
}
