//! What must hold between the fields of a member after every input. Simulated worlds ask then; each sentence here is one
//! invariant, and the text of its assertion says it again.

use super::Member;

impl Member {
    /// Checks what must hold when an input has been handled.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check(&self) {
        self.consensus.check();
        self.holder.check();
        let term = self.consensus.term();
        let leads = self.consensus.leads().then_some(term);
        assert_eq!(
            self.leader.as_ref().map(|l| l.term),
            leads,
            "who leads has a reign of its term"
        );
        if let Some(leader) = &self.leader {
            leader.check();
        }
        assert!(self.begun <= term, "a leader of a later term has committed something");
        assert!(self.own.is_empty(), "messages to itself are read at once");
        let proposes = self.unproposed.is_none() || self.leader.is_some();
        assert!(proposes, "who does not lead has a decision to propose");
    }
}
