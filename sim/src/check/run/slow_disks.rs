//! A slow disk whose node is taken out when that has lasted for a while, and comes back, as hosts do it
//! (`host/src/engine/slow.rs`), by what the originators measure.

use fastrand::Rng;
use weft_core::node::BackOff;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Run;
use super::faults::Fault;
use super::members::MemberFault;

/// How often it is looked.
const LOOK: Nanos = MILLIS;

/// How much slower such a disk is.
const TIMES: u64 = 40;

/// Slow disks: drawn from a stream of their own, and their state.
pub(super) struct SlowDisks {
    rng: Rng,
    /// How long a disk may be slow in this phase.
    after: Nanos,
    back_off: BackOff,
    /// Until when it is looked in this phase.
    until: Nanos,
    /// Since when no disk has been out or behind.
    whole_since: Option<Nanos>,
    /// How often a node was taken out, and how often one came back before the faults stopped.
    pub counts: (u64, u64),
}

impl SlowDisks {
    pub fn draw(seed: u64) -> SlowDisks {
        let rng = Rng::with_seed(seed ^ 0x0051_0bd1_5c00);
        let back_off = BackOff::new(MILLIS, MILLIS);
        SlowDisks { rng, after: 0, back_off, until: 0, whole_since: None, counts: (0, 0) }
    }

    fn whole_for(&mut self, is_whole: bool, now: Nanos) -> Nanos {
        self.whole_since = self.whole_since.filter(|_| is_whole).or(is_whole.then_some(now));
        self.whole_since.map_or(0, |since| now - since)
    }
}

impl Run {
    /// In half of the phases the disk of a node that may die is slow for all of it.
    pub(super) fn draw_slow_disk(&mut self, victim: Option<NodeId>, span: Nanos) {
        let f = self.options.faults;
        let Some(slow) = self.slow_disks.as_mut().filter(|_| f.slow && f.crashes) else { return };
        let drawn = slow.rng.bool();
        let Some(victim) = victim.filter(|_| drawn) else { return };
        slow.after = slow.rng.u64(MILLIS..5 * MILLIS);
        let shortest = slow.rng.u64(MILLIS..15 * MILLIS);
        slow.back_off = BackOff::new(shortest, 4 * shortest);
        slow.until = self.world.now() + 2 * span;
        self.world.conditions.slow = Some((victim, TIMES));
        let look = LOOK.max(span / 200);
        (0..2 * span / look).for_each(|n| self.plan(n * look, Fault::Watch(victim)));
    }

    /// Looks whether a node is slow, and takes it out, or whether it may come back.
    pub(super) fn watch(&mut self, node: NodeId) {
        let (now, runs) = (self.world.now(), self.world.runs(node));
        let map = self.world.map();
        let others = (0..map.nodes.len() as u16).map(NodeId).filter(|n| *n != node);
        let (is_whole, is_alone) = (map.is_whole(), !others.into_iter().any(|n| map.is_out(n)));
        let has_processes = self.members.is_some();
        let Some(slow) = self.slow_disks.as_mut() else { return };
        let whole = slow.whole_for(is_whole, now);
        if slow.back_off.is_away() {
            // A process starts it by itself.
            let is_due = !has_processes && (slow.back_off.left(now).is_none() || !is_alone);
            if runs || is_due {
                slow.back_off.is_back(now);
                slow.counts.1 += 1;
                if !has_processes {
                    self.fault(Fault::Return(node));
                }
            }
            return;
        }
        let after = slow.after;
        // Where there are so few answers others look slow as well, but not for as long.
        let longest = self.world.slow_nodes().into_iter().max_by_key(|s| s.seen_for);
        let lasts = longest.is_some_and(|s| s.node == node && s.seen_for >= after);
        if runs && whole >= after && lasts {
            self.world.tell(|| format!("the disk of {node} has been slow for long"));
            let Some(slow) = self.slow_disks.as_mut() else { return };
            slow.back_off.goes(now);
            slow.counts.0 += 1;
            // Hosts may wait for it: what it has may be exposed.
            let left = slow.back_off.left(now).unwrap_or(0);
            if now + left >= slow.until {
                self.plan(left, Fault::Watch(node));
            }
            self.fault(match has_processes {
                true => Fault::Member(MemberFault::DieAlone(node, left)),
                false => Fault::Kill(node, false),
            });
        }
    }

    /// The faults stop.
    pub(super) fn mend_slow_disks(&mut self) {
        let now = self.world.now();
        if let Some(slow) = self.slow_disks.as_mut() {
            slow.back_off.is_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Options;

    #[test]
    fn nodes_of_slow_disks_are_taken_out_and_come_back_by_themselves() {
        for members in [false, true] {
            let options = Options { members: Some(members), ..Options::DEFAULT };
            let counts = (0..40).map(|seed| super::super::run(seed, options, 0).unwrap().taken_out);
            let (gone, back) = counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            assert!(gone >= back && back > 0, "{gone} were taken out, and {back} came back");
        }
    }
}
