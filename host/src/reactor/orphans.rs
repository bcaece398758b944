//! Volumes that nobody finishes: hosts do not see them, because they were being made or deleted, or see only a part, because
//! they were being resized; and whoever did that is gone, or leads no more.
//!
//! The process that leads gives their room back, as `weft volume delete` does, or that of the part that hosts do not see.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_core::cluster::{Absence, Hindrance, Prospect, Volume, deleted_in_the_way};
use weft_core::units::{NodeId, VolumeId};

use super::Reactor;
use super::upkeep::Turn;
use crate::control::commands::{Outcome, Wait, forgettable, is_half_sized};
use crate::log::About;

/// For how long nobody may have a volume in hand before it is taken for one that nobody finishes. What is
/// done about a volume is a step at a time, and others hear of it with the next status.
const LEFT_AFTER: Duration = Duration::from_secs(5);

/// Volumes that are unfinished and that nobody has in hand, since when.
#[derive(Debug, Default)]
pub(super) struct Orphans(BTreeMap<VolumeId, Instant>);

impl Orphans {
    /// Takes note of which there are now. Those that have been there for long enough are to be deleted;
    /// they are told of once, and again if they are still there after as long.
    fn look(&mut self, there: &[VolumeId], now: Instant) -> Vec<VolumeId> {
        self.0.retain(|id, _| there.contains(id));
        for id in there {
            self.0.entry(*id).or_insert(now);
        }
        let over = |since: &Instant| now.duration_since(*since) >= LEFT_AFTER;
        self.0.extract_if(.., |_, since| over(since)).map(|(id, _)| id).collect()
    }
}

/// What becomes of a volume that nobody finishes, and why.
fn becomes(volume: &Volume, has_snapshots: bool) -> &'static str {
    match (volume.is_deleted(), has_snapshots) {
        _ if is_half_sized(volume) => "keeps the size that hosts see: its resize was interrupted",
        (true, _) => "is not deleted: a host uses it, and the deletion was interrupted",
        (false, false) => "is removed: its creation or deletion was interrupted",
        (false, true) => "is unchanged: its rollback was interrupted",
    }
}

impl Reactor {
    /// Ends what was begun about volumes that nobody finishes, if this process leads.
    pub(super) fn finish_orphans(&mut self, now: Instant) {
        let there = self.unfinished_in_nobodys_hand();
        for id in self.housekeeping.orphans().look(&there, now) {
            let Some(volume) = self.engine.map().volumes.get(&id) else { continue };
            let name = volume.name.clone();
            let becomes = becomes(volume, self.engine.map().has_any_snapshot(id));
            self.engine.log.on(About::volume(&name)).warn(&format!("volume '{name}' {becomes}"));
            match self.with_commands(|commands| commands.finish_orphan(id)) {
                Ok(wait) => self.have_done(wait),
                Err(e) => self.engine.log.on(About::volume(&name)).error(&format!(
                    "the interrupted command for volume '{name}' cannot be ended: {e}"
                )),
            }
        }
    }

    /// Unfinished volumes that nobody does anything about, in any process, if this one leads.
    fn unfinished_in_nobodys_hand(&mut self) -> Vec<VolumeId> {
        if !self.engine.rule.together().is_none_or(|t| t.is_in_charge())
            || !self.engine.is_settled()
        {
            return Vec::new();
        }
        let unfinished = self.with_commands(|commands| {
            let all = commands.engine.map().volumes.values();
            all.filter(|v| commands.is_unfinished(v)).map(|v| v.id).collect::<Vec<_>>()
        });
        let (ours, others) = (self.controls.volumes_in_hand(), &self.peer_status);
        unfinished.into_iter().filter(|id| !ours.contains(id) && !others.has_in_hand(*id)).collect()
    }

    /// Permanently removes volumes that were deleted a day ago. One goes also if the content of
    /// drained or lost disks finds room without it, and none with it.
    pub(super) fn forget_what_was_deleted(&mut self, now: Instant) {
        self.housekeeping.witness(self.engine.map(), now);
        let leads = self.engine.rule.together().is_none_or(|t| t.is_in_charge());
        if !leads || !self.engine.is_settled() {
            return;
        }
        let engine = &mut self.engine;
        match self.housekeeping.removal().turn(now, |ticket| engine.outcome(ticket)) {
            Turn::Now => {}
            Turn::Later => return,
            Turn::Refused(why) => {
                let text = format!("a deleted volume cannot be permanently removed yet: {why}");
                return self.engine.log.warn(&text);
            }
        }
        let (deleted, over) = self.with_commands(|commands| {
            let all = forgettable(commands.engine.map()).into_iter();
            let deleted: Vec<Arc<Volume>> =
                all.filter(|v| commands.is_let_go(v)).cloned().collect();
            let over = deleted.iter().find(|v| commands.is_over(v)).map(|v| v.id);
            (deleted, over)
        });
        let unneeded = deleted.iter().find(|v| v.is_snapshot()).map(|v| v.id);
        let in_the_way = (!deleted.is_empty()).then(|| self.in_the_way(&deleted)).flatten();
        let stuck: Vec<VolumeId> = in_the_way.into_iter().collect();
        let crowding = self.housekeeping.crowding().look(&stuck, now).pop();
        let (id, why) = match (unneeded, over, crowding) {
            (Some(id), ..) => (id, "no volume is based on it"),
            (_, Some(id), _) => (id, "a day has passed"),
            (_, _, Some(id)) => (id, "its space is needed to rebuild other disks"),
            _ => return,
        };
        let ticket = self.with_commands(|commands| commands.forget(id, why));
        self.housekeeping.removal().has_asked(ticket);
    }

    /// One of these deleted volumes, without which there is room for what must leave disks.
    fn in_the_way(&self, deleted: &[Arc<Volume>]) -> Option<VolumeId> {
        let no_room = |a: &&Absence| a.prospect == Prospect::Hindered(Hindrance::NoRoom);
        let absences = self.engine.rule.absences();
        let absent: Vec<NodeId> = absences.iter().filter(no_room).map(|a| a.node).collect();
        let ids: Vec<VolumeId> = deleted.iter().map(|v| v.id).collect();
        deleted_in_the_way(self.engine.map(), &absent, &ids)
    }

    /// Has something done that nobody outside waits for.
    pub(super) fn have_done(&mut self, wait: Wait) {
        self.controls.have_done(self.poller.number(), wait);
    }

    /// Says what became of something that nobody outside waits for, if that failed.
    pub(super) fn log_failure_for_nobody(&self, id: usize, outcome: &Outcome) {
        if let (true, Outcome::Answer(answer)) = (self.controls.is_for_nobody(id), outcome)
            && let Some(error) = answer["error"].as_str()
        {
            self.engine.log.error(&format!("a volume was not deleted: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::layout::{Geometry, LayoutSpec};

    use super::*;

    #[test]
    fn what_nobody_has_in_hand_for_a_while_is_told_of_and_not_at_once_again() {
        let (a, b) = (VolumeId(1), VolumeId(2));
        let begun = Instant::now();
        let after = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut left = Orphans::default();
        assert_eq!(left.look(&[a], after(0)), []);
        assert_eq!(left.look(&[a, b], after(4)), []);
        assert_eq!(left.look(&[a, b], after(5)), [a]);
        assert_eq!(left.look(&[a, b], after(6)), [], "it was told of just now");
        assert_eq!(left.look(&[a], after(8)), [], "somebody has the other in hand");
        assert_eq!(left.look(&[a, b], after(9)), [], "and no more");
        assert_eq!(left.look(&[a, b], after(11)), [a]);
        assert_eq!(left.look(&[b], after(14)), [b]);
    }

    #[test]
    fn what_becomes_of_an_unfinished_volume_depends_on_what_hosts_see() {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let mut volume = Volume::new(VolumeId(0), "v", 1 << 20, &spec, geometry, Vec::new());
        assert!(!is_half_sized(&volume));
        volume.visible = 1 << 19;
        assert!(is_half_sized(&volume) && becomes(&volume, true).contains("keeps the size"));
        volume.visible = 0;
        assert!(!is_half_sized(&volume) && becomes(&volume, false).contains("is removed"));
        assert!(becomes(&volume, true).contains("is unchanged"));
    }
}
