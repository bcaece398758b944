//! A node that is checked after every input.

use weft_core::node::{Input, Node, Output};
use weft_core::units::Nanos;

/// One input in so many is followed by the checks that walk over everything in memory.
const SUMS_EVERY: u64 = 32;

/// Handles an input, then checks what must hold in the node. The time draws when the costly checks are done.
pub fn handle(node: &mut Node, now: Nanos, input: Input, out: &mut Vec<Output>) {
    node.handle(now, input, out);
    node.check();
    if now.is_multiple_of(SUMS_EVERY) {
        node.check_sums();
    }
}

/// The same, with all checks every time: for nodes that have little in memory.
pub fn handle_small(node: &mut Node, now: Nanos, input: Input, out: &mut Vec<Output>) {
    node.handle(now, input, out);
    node.check();
    node.check_sums();
}
