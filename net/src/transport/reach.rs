//! How the other processes are reached, for who looks after them.

use weft_core::units::NodeId;

use super::driver::Driver;

/// What a connection goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A Unix socket.
    Unix,
    /// TCP with TLS.
    Tls,
    /// TCP alone.
    Tcp,
}

/// How frames go to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Over a connection of its own.
    Direct(Over),
    /// Through these, the nearest first.
    Through(Vec<NodeId>),
}

/// A peer that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Which.
    pub peer: NodeId,
    /// How.
    pub by: Reached,
    /// There should be a good connection of its own, and there is none.
    pub is_bad: bool,
}

impl Driver {
    /// How the peers are reached that are up.
    pub fn reach(&self) -> Vec<Reach> {
        let us = self.us.node;
        let reach = |(peer, known): (&NodeId, &super::driver::Known)| {
            let session = known.session.as_ref()?;
            let link = self.links.get(&session.carrier)?;
            let over = match (link.is_near(), &self.tls) {
                (true, _) => Over::Unix,
                (false, Some(_)) => Over::Tls,
                (false, None) => Over::Tcp,
            };
            let mut path = link.path.clone();
            if path.first() != Some(&us) {
                path.reverse();
            }
            let relays: Vec<NodeId> = path.into_iter().filter(|p| *p != us && p != peer).collect();
            let by =
                if relays.is_empty() { Reached::Direct(over) } else { Reached::Through(relays) };
            let good = self.router.is_good(*peer);
            let is_bad = self.router.is_bad(*peer) || (self.is_to_dial(&known.peer) && !good);
            Some(Reach { peer: *peer, by, is_bad })
        };
        self.peers.iter().filter_map(reach).collect()
    }
}
