//! What the group agrees on: a cluster map, and which lives of its nodes the map was made for.
//!
//! The lives let a new leader tell a node that ran on through the change of leaders from one that
//! has died and started again meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_bytes::{BytesError, Read, Reader, Writer};
use weft_core::cluster::ClusterMap;
use weft_core::units::{Epoch, NodeId};

use crate::MapCodec;

/// One life of a node, from its start to its death: the number of its process's start, and which
/// of the node's starts in that process it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub start: u64,
    pub number: u64,
}

impl Life {
    pub fn write(self, w: &mut Writer) {
        w.u64(self.start);
        w.u64(self.number);
    }

    pub fn read(r: &mut Reader) -> Read<Life> {
        Ok(Life { start: r.u64()?, number: r.u64()? })
    }
}

/// A map with the lives of the nodes that take part in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    pub map: Arc<ClusterMap>,
    pub lives: BTreeMap<NodeId, Life>,
}

impl Decision {
    pub fn encode(&self, codec: &dyn MapCodec) -> Vec<u8> {
        let mut w = Writer::default();
        w.list(self.lives.iter(), |w, (node, life)| {
            w.u16(node.0);
            life.write(w);
        });
        w.bytes(&codec.encode(&self.map));
        w.finish()
    }

    pub fn decode(bytes: &[u8], codec: &dyn MapCodec) -> Read<Decision> {
        let mut r = Reader::new(bytes);
        let lives = r.list(18, |r| Ok((NodeId(r.u16()?), Life::read(r)?)))?;
        let map = read_map(&mut r, codec)?;
        r.end()?;
        Ok(Decision { map: Arc::new(map), lives: lives.into_iter().collect() })
    }
}

/// A map, as the codec writes it.
pub(crate) fn read_map(r: &mut Reader, codec: &dyn MapCodec) -> Read<ClusterMap> {
    codec.decode(r.bytes()?).ok_or(BytesError::Content("the map in it cannot be read"))
}

const NUMBER_BITS: u32 = 32;

/// The epoch that the maps of a leader of this term begin after. Epochs are (term, number), in
/// this order: no two leaders ever name the same one.
pub(crate) fn epoch_floor(term: u64) -> Epoch {
    debug_assert!(term >> (64 - NUMBER_BITS) == 0, "four billion elections");
    term << NUMBER_BITS
}

/// An epoch in two numbers for people: the term of the leader that made the map, and which of its
/// maps it is.
pub fn epoch_parts(epoch: Epoch) -> (u64, u64) {
    (epoch >> NUMBER_BITS, epoch & ((1 << NUMBER_BITS) - 1))
}
