//! What must hold between the fields of a member's part in the agreement after every input. Simulated worlds ask then; each sentence here is one
//! invariant, and the text of its assertion says it again.

use super::Consensus;
use crate::frame::LogSpan;

impl Consensus {
    /// Checks what must hold when an input has been handled.
    pub fn check(&self) {
        let log = self.raft.store();
        log.check();
        let state = &self.raft.raft.raft_log;
        assert!(state.applied <= state.committed, "applied entries are committed");
        assert!(state.committed <= state.last_index(), "committed entries are in the log");
        let restores = self.restoring.is_some();
        assert!(restores || log.base() <= state.applied, "a snapshot holds applied entries only");
        let ascends = self.held.iter().zip(self.held.iter().skip(1)).all(|(a, b)| a.0 < b.0);
        assert!(ascends, "messages are held in their order");
        let writes = self.writing.is_some();
        let rests = self.held.is_empty() && !self.gathers && !self.replace;
        assert!(writes || rests, "entries to write are being written");
        assert!(writes || !restores, "a snapshot that is taken up is being written");
        if !self.gathers && !self.replace {
            let held = LogSpan { base: log.base(), last: log.last() };
            assert_eq!(self.span, held, "the log holds what memory does");
        }
    }
}
