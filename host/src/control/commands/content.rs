//! Commands on the content of volumes that take many requests of nodes: copying, and measuring usage.

use weft_core::node::HostOp;
use weft_core::plan::Range;
use weft_core::units::VolumeId;

use super::{Commands, Outcome, Wait};
use crate::control::copying::Copying;
use crate::control::usage::Usage;
use crate::control_protocol::ok;
use crate::error::{Result, fail};
use crate::hosts::requests::Job;

impl Commands<'_> {
    /// Submits the next query of a volume's holes, or answers with its usage.
    pub(super) fn look_at_content(&mut self, conn: usize, usage: Box<Usage>) -> Outcome {
        match usage.request() {
            Some(op) => {
                self.ask_nodes(conn, usage.volume.id, op);
                Outcome::Wait(Wait::LookingAt(usage))
            }
            None => Outcome::Answer(ok(usage.answer())),
        }
    }

    /// Checks that a range can be copied from one volume to another.
    pub(super) fn copy(&mut self, names: (&str, &str), range: Range) -> Result<Copying> {
        let named = |name: &str| match name {
            "" => fail("give the names of both volumes"),
            name => self.volume(name),
        };
        let (source, destination) = (named(names.0)?, named(names.1)?);
        self.refuse_while_used(&destination, "which the copy would overwrite")?;
        Copying::of(&source, &destination, range)
    }

    /// Submits the next step of a copy, or answers that it is complete.
    pub(super) fn copy_on(&mut self, conn: usize, copying: Box<Copying>) -> Outcome {
        match copying.request() {
            Some((volume, op)) => {
                self.ask_nodes(conn, volume, op);
                Outcome::Wait(Wait::Copying(copying))
            }
            None => Outcome::Answer(ok(copying.answer())),
        }
    }

    /// Submits a request whose effect a later flush makes durable.
    fn ask_nodes(&mut self, conn: usize, volume: VolumeId, op: HostOp) {
        self.hosts.command(self.engine, conn, Job::new(volume, op, false));
    }
}
