//! Commands on the content of volumes that take many requests of nodes: copying, measuring usage, and scrubs of
//! a volume and those below it.

use weft_core::node::{HostOp, ScrubFindings, ScrubProgress};
use weft_core::plan::Range;
use weft_core::units::VolumeId;

use super::{Commands, Outcome, Wait};
use crate::control::copying::Copying;
use crate::control::diff::Diff;
use crate::control::scrub::{self, Scrubbing, Wish};
use crate::control::usage::Usage;
use crate::control_protocol::ok;
use crate::error::{Result, fail};
use crate::hosts::requests::Job;
use crate::size::exactly;
use crate::volumes::SNAPSHOT_MARK;

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

    /// The comparison of a volume, or of a snapshot of it, with an earlier snapshot.
    pub(super) fn diff(
        &self,
        name: &str,
        since: Option<&str>,
        until: Option<&str>,
        from: u64,
    ) -> Result<Diff> {
        let volume = self.volume(name)?;
        let since = since.map(|name| self.snapshot_for(&volume, name)).transpose()?;
        let until =
            until.map_or_else(|| Ok(volume.clone()), |name| self.snapshot_for(&volume, name))?;
        if from > until.visible {
            return fail(format!("'{}' ends at {}", until.name, exactly(until.visible)));
        }
        let Some(since) = since else { return Ok(Diff::of(until, None, from)) };
        if self.engine.map().between(since.id, until.id).is_none() {
            return fail(format!(
                "'{}' and '{}' share no content; give snapshots of volume '{name}', or of the \
                 volume that it was cloned from",
                since.name, until.name
            ));
        }
        // Numbers are given in the order in which snapshots are taken.
        if until.is_snapshot() && until.id <= since.id {
            let (until, since) = (&until.name, &since.name);
            return fail(
                match (until.split_once(SNAPSHOT_MARK), since.split_once(SNAPSHOT_MARK)) {
                    // The first name was meant as that of the earlier snapshot.
                    (Some((of, first)), Some((_, second))) if *until == name => {
                        format!("give the volume first: `weft volume diff {of} {first} {second}`")
                    }
                    _ => format!(
                        "snapshot '{until}' is not later than '{since}'; give the earlier one first"
                    ),
                },
            );
        }
        Ok(Diff::of(until, Some(since), from))
    }

    /// Submits the next query of a comparison, or answers with the ranges found.
    pub(super) fn diff_on(&mut self, conn: usize, diff: Box<Diff>) -> Outcome {
        match diff.request() {
            Some(op) => {
                self.ask_nodes(conn, diff.volume.id, op);
                Outcome::Wait(Wait::Differing(diff))
            }
            None => Outcome::Answer(ok(diff.answer(self.engine.exports().at().cluster))),
        }
    }

    /// Checks that a range can be copied from one volume to another.
    pub(super) fn copy(&mut self, names: (&str, &str), range: Range) -> Result<Copying> {
        let (source, destination) = (self.volume(names.0)?, self.volume(names.1)?);
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
    pub(super) fn ask_nodes(&mut self, conn: usize, volume: VolumeId, op: HostOp) {
        self.hosts.command(self.engine, conn, Job::new(volume, op, false));
    }

    /// Scrubs a volume; `alone` without those below it.
    pub(super) fn scrub(
        &mut self,
        conn: usize,
        name: &str,
        wish: Wish,
        alone: bool,
    ) -> Result<Wait> {
        let volume = self.volume(name)?;
        let op = scrub::operation(&volume, wish)?;
        // Content of those that are merged into others is verified there.
        let map = self.engine.map();
        let below = map.all_below(volume.id).filter(|v| !alone && map.shown_in(v.id) == v.id);
        let scrubbing = Scrubbing::of(&volume, wish, below.map(|v| &**v));
        self.submit(conn, volume.id, op);
        Ok(Wait::Scrub(Box::new(scrubbing)))
    }

    /// The scrub of a volume is done.
    pub(super) fn scrubbed(
        &self,
        scrubbing: Scrubbing,
        progress: &ScrubProgress,
        findings: &ScrubFindings,
    ) -> Wait {
        let volume = self.engine.map().volumes.get(&scrubbing.volume()).cloned();
        Wait::ScrubOn(Box::new(scrubbing.with(volume.as_deref(), progress, findings)))
    }

    /// Scrubs the next volume, or answers that all is done.
    pub(super) fn scrub_on(&mut self, conn: usize, scrubbing: Scrubbing) -> Outcome {
        match scrubbing.next(self.engine.map()) {
            (scrubbing, Some((volume, op))) => {
                self.submit(conn, volume, op);
                Outcome::Wait(Wait::Scrub(Box::new(scrubbing)))
            }
            (scrubbing, None) => Outcome::Answer(ok(scrubbing.answer())),
        }
    }
}
