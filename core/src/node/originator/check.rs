//! What must hold between the fields of an originator whenever it is asked.

use super::{Originator, State};

impl Originator {
    /// Checks what can be seen at a glance at each request and each transaction.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check(&self) {
        for (ts, txn) in self.txns.iter() {
            assert!(!self.settling.contains_key(ts), "{ts} is in work, and has happened");
            if let State::Writing(writing) = &txn.state {
                writing.check(*ts);
            }
        }
        for (ts, settling) in self.settling.iter() {
            let all = |node| settling.participants.contains(node);
            assert!(settling.left.iter().all(all), "{ts} waits for one that does not take part");
        }
        self.accounts.check();
        for id in &self.scrubs {
            assert!(self.requests.contains_key(id), "a scrub of no request");
        }
    }
}
