//! Nodes that leave again just when they have caught up. Rebuilt content on their disks may then be newer than all that the
//! others know, in two ways:
//!
//! - All power goes, and the node stays away. Nobody remembers the timestamps of rebuilt content, and the others write
//!   the same sectors with earlier ones. No host asks for anything before, and the node's clock is fast.
//! - Writes reach it, and the other victims, late. The victims leave when it has been given older content at a later
//!   timestamp, and those who are left decide that the writes have happened.

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::super::options::{Latest, Options};

/// How long it may take until a node that is back has what it missed; it leaves then in any case.
pub(super) const PATIENT: Nanos = 60 * MILLIS;

/// What a node does that leaves again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Returns,
    Leaves,
}

/// Such nodes, in one of three runs, drawn from a stream of its own.
pub(super) struct Relapses {
    pub rng: Rng,
    pub phase: Option<Relapse>,
    /// Until when no host asks for anything.
    pub silent_until: Nanos,
}

/// How far a node is.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Stage {
    Away,
    Back,
    /// It knows that it missed something.
    Knows,
    Leaves,
}

/// What happens in a phase.
pub(super) struct Relapse {
    pub node: NodeId,
    /// Those that leave with it, if that is not for lack of power.
    pub others: Vec<NodeId>,
    pub power: bool,
    /// How fast its clock is when it is back.
    pub ahead: Nanos,
    pub stage: Stage,
}

impl Relapses {
    pub fn draw(seed: u64, options: &Options, has_processes: bool) -> Option<Relapses> {
        let mut rng = Rng::with_seed(seed ^ 0x0003_e1a9_5e00);
        let may = options.latest >= Latest::Relapses && !has_processes;
        (may && rng.u8(0..3) == 0).then_some(Relapses { rng, phase: None, silent_until: 0 })
    }

    /// In half of these runs there are three copies, so that one is left when two victims leave.
    pub fn layout(&mut self) -> Option<&'static str> {
        self.rng.bool().then_some("rs:1+2")
    }

    /// For how long a host that is about to ask must wait, if it may ask only `left` times more. Half of that is kept
    /// until the node has begun to be given what it missed.
    pub fn wait(&self, now: Nanos, left: u32, operations: u32) -> Option<Nanos> {
        if now < self.silent_until {
            return Some(self.silent_until - now);
        }
        let waits = self.phase.as_ref().is_some_and(|r| r.stage < Stage::Knows);
        (waits && left <= operations / 2).then_some(MILLIS)
    }
}
