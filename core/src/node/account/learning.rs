//! The account learns in each epoch which parity is marked, from the disks. It may count more than is marked, if a
//! write that was about to mark something does not happen: that is computed in vain once. It never counts less.

use std::collections::BTreeMap;

use super::{Account, Accounts, number};
use crate::cluster::{ClusterMap, Volume};
use crate::node::Body;
use crate::node::outbox::Outbox;
use crate::plan::Range;
use crate::store::{ChangeKind, Changed};
use crate::units::{Nanos, NodeId, SECTOR, Timestamp, VolumeId};

/// Set in the numbers of questions for an account; the rest is the volume's number.
pub(in crate::node) const LEARNS: u64 = 1 << 63;

/// The disks that may have marks of a volume, each to be asked from the first byte on.
pub(super) fn whom(volume: &Volume, map: &ClusterMap) -> BTreeMap<NodeId, u64> {
    let on = volume.nodes();
    map.with_disks().filter(|node| on.contains(node)).map(|node| (node, 0)).collect()
}

impl Accounts {
    /// Whether a disk has yet to answer.
    pub fn is_learning(&self) -> bool {
        self.of.values().any(|account| !account.to_learn.is_empty())
    }

    /// Asks disks again that have not answered.
    pub fn tick(&mut self, outbox: &mut Outbox) {
        let (now, patience) = (outbox.now, self.config.patience);
        let late = self.of.values_mut().filter(|a| now.saturating_sub(a.asked) >= patience);
        late.for_each(|account| account.ask(outbox));
    }

    /// A disk has listed what its marked parity exposes, up to an offset.
    pub fn hears(
        &mut self,
        from: NodeId,
        id: u64,
        (until, found): (u64, Vec<Range>),
        outbox: &mut Outbox,
    ) {
        let volume = u32::try_from(id & !LEARNS).map(VolumeId);
        let Some(account) = volume.ok().and_then(|id| self.of.get_mut(&id)) else { return };
        let size = account.volume.size;
        let Some(at) = account.to_learn.get_mut(&from).filter(|at| until > **at) else { return };
        *at = until;
        account.learn(from, &found, outbox.now);
        match until < size {
            true => account.ask_one(from, until, outbox),
            false => drop(account.to_learn.remove(&from)),
        }
    }
}

impl Account {
    /// Asks all disks that have not answered.
    pub(super) fn ask(&mut self, outbox: &mut Outbox) {
        self.asked = outbox.now;
        self.to_learn.iter().for_each(|(node, from)| self.ask_one(*node, *from, outbox));
    }

    fn ask_one(&self, node: NodeId, from: u64, outbox: &mut Outbox) {
        let volume = self.volume.id;
        let range = Range { offset: from, len: self.volume.size - from };
        outbox.send(node, Body::Exposed { id: LEARNS | u64::from(volume.0), volume, range });
    }

    /// The parity on a disk that covers these bytes is marked.
    fn learn(&mut self, from: NodeId, found: &[Range], now: Nanos) {
        let volume = self.volume.clone();
        let g = &volume.geometry;
        let sectors = found.iter().flat_map(|r| r.offset / SECTOR..r.end().div_ceil(SECTOR));
        for byte in sectors.map(|sector| sector * SECTOR) {
            let stripe = byte / g.stripe_bytes();
            if stripe >= volume.stripes() {
                break;
            }
            let i = (byte % g.stripe_bytes() / g.unit) as usize;
            for j in g.code.parities_of(i).iter() {
                let seat = g.layout.parity_seat(stripe, j);
                if volume.seats_on(from, stripe).any(|s| s == seat) {
                    let at = number(&volume, stripe, j, byte % g.unit / SECTOR);
                    let marked = Changed { sectors: at..at + 1, kind: ChangeKind::Mark };
                    self.changed(Timestamp::default(), &marked, now);
                }
            }
        }
    }
}
