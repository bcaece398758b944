//! What must hold between the fields of a node, which the simulator and the explorer ask after every input.

use super::Node;

impl Node {
    /// Checks what is cheap to see.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check(&self) {
        self.worker.check();
        self.originator.check();
        let seen = self.outbox.counters.controlled_bytes;
        assert_eq!(seen, 0, "bytes of data have passed {} as a controller that sees none", self.id);
    }

    /// Checks what takes a walk over all that the node has in memory.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check_sums(&self) {
        self.worker.check_sums();
    }
}
