//! Disks that lie: what happens to a victim's disk that it never tells. After it the victim's node starts again,
//! since much of what a disk holds is read only then.

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Run;
use super::faults::Fault;
use crate::damage::{HARMS, Harm, REGIONS, Region, UNSLOTTED_REGIONS, harm as harm_sectors};
use crate::disk::{Astray, Harmed};

/// What happens to a disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Damage {
    /// To some sectors that follow one another.
    Sectors(Harm, Region),
    /// The next write does not come to the disk, or comes to where it does not belong.
    NextWrite(Lie),
    /// Somebody makes a copy of it.
    Copy,
    /// The copy comes in its place.
    OldCopy,
}

/// What becomes of a write that ends well.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lie {
    Lost,
    Misdirected,
}

/// What happens to a victim's disk, and when, in half of the cases. It may have `slots`.
pub(super) fn draw(rng: &mut Rng, slots: bool, victim: NodeId, span: Nanos) -> Vec<(Nanos, Fault)> {
    if rng.bool() {
        return Vec::new();
    }
    let (at, stays) = (rng.u64(0..span), rng.u64(MILLIS..30 * MILLIS));
    let before = rng.u64(0..20 * MILLIS).min(at);
    let damage = |at, damage| (at, Fault::Damage(victim, damage));
    let mut plan = match rng.u8(0..8) {
        0 => {
            let copied = rng.u64(0..at + 1);
            vec![damage(copied, Damage::Copy), damage(at + stays / 2, Damage::OldCopy)]
        }
        1 => vec![damage(at - before, Damage::NextWrite(Lie::Lost))],
        2 => vec![damage(at - before, Damage::NextWrite(Lie::Misdirected))],
        3 => {
            // Where nothing has been written since the superblock was, little of a journal is needed.
            vec![damage(at + stays / 2, Damage::Sectors(Harm::Zeroed, Region::Journal))]
        }
        _ => {
            // At most one superblock: without both a disk is none, and the operator replaces it.
            let all = if slots { &REGIONS[..] } else { &REGIONS[..UNSLOTTED_REGIONS] };
            let mut regions = &all[usize::from(rng.bool())..];
            let when = [at - before, at + stays / 2][rng.usize(0..2)];
            let mut harms = Vec::new();
            for _ in 0..rng.usize(1..=3) {
                let region = regions[rng.usize(0..regions.len())];
                let harm = HARMS[rng.usize(0..HARMS.len())];
                harms.push(damage(when, Damage::Sectors(harm, region)));
                regions = &all[1..];
            }
            harms
        }
    };
    plan.push((at, Fault::Kill(victim, rng.bool())));
    plan.push((at + stays, Fault::Return(victim)));
    plan
}

impl Run {
    /// A disk is damaged.
    pub(super) fn damage(&mut self, node: NodeId, damage: Damage) {
        self.world.tell(|| format!("the disk of {node}: {damage:?}"));
        let Some(divided) = self.world.superblock(node).cloned() else { return };
        self.world.disk(node).harmed = Harmed::Since;
        let rng = &mut self.damage_rng;
        match damage {
            Damage::Copy => self.world.disk(node).copy(divided.incarnation),
            // The disk that was copied may have been replaced since, and one that is in use is not swapped.
            Damage::OldCopy if self.world.runs(node) => {}
            Damage::OldCopy => self.world.disk(node).put_copy_back(divided.incarnation),
            Damage::NextWrite(Lie::Lost) => self.world.disk(node).astray = Some(Astray::Lost),
            Damage::NextWrite(Lie::Misdirected) => {
                // Not to a superblock: the other may be the older one.
                let to = rng.u64(2..divided.sectors());
                self.world.disk(node).astray = Some(Astray::To(to));
            }
            Damage::Sectors(harm, region) => {
                let disk = self.world.disk(node);
                harm_sectors(disk, &divided, harm, region, &mut self.damage_rng);
            }
        }
    }
}
