//! Disks that an operator expects to fail, where parity may wait: at rest none does any more of what is on them, also
//! where it is never computed otherwise.

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::faults::Fault;
use super::{Run, VOLUME};

/// When one is suspected in a phase, and when that is over. It is drawn from a stream of its own, in some of the runs in
/// which parity waits, so that older seeds stay what they were.
pub(super) fn rng(seed: u64, exposes: bool) -> Option<Rng> {
    let mut rng = Rng::with_seed(seed ^ 0x5057_ec75);
    (exposes && rng.u8(0..3) == 0).then_some(rng)
}

impl Run {
    pub(super) fn draw_suspects(&mut self) {
        let span: Nanos = MILLIS * u64::from(self.options.operations) / 2;
        let nodes = self.world.size() as u16;
        let Some(rng) = self.suspect_rng.as_mut() else { return };
        let (node, at, ends) = (NodeId(rng.u16(0..nodes)), rng.u64(0..span), rng.bool());
        let end = at + rng.u64(0..span);
        self.plan(at, Fault::Suspect(node, true));
        if ends {
            self.plan(end, Fault::Suspect(node, false));
        }
    }

    /// What must be so at rest, unless something was lost for good: that is not computed any more.
    pub(super) fn check_suspects(&self) -> Result<(), String> {
        let map = self.world.map();
        let Some(volume) = map.volumes.get(&VOLUME).filter(|_| self.exposes && !self.may_lose())
        else {
            return Ok(());
        };
        let moves = map.moving().contains(&VOLUME);
        let needed = |stripe: u64| moves || map.has_suspect(volume, stripe..stripe + 1);
        let extents = volume.extents.iter().filter(|e| needed(e.first));
        for node in extents.flat_map(|e| &e.columns).map(|c| c.0) {
            let exposed = self.world.status(node).map(|s| s.exposed).unwrap_or_default();
            if let Some((_, exposed)) = exposed.iter().find(|(id, e)| *id == VOLUME && e.bytes > 0)
            {
                return Err(format!(
                    "parity waits on {node} beside a suspect disk, or while columns are to move: {exposed:?}"
                ));
            }
        }
        Ok(())
    }
}
