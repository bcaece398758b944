//! Cluster maps as bytes: as the processes write them to one another, and as disks keep copies of them.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use weft_core::cluster::ClusterMap;
use weft_core::node::MapMessage;
use weft_core::units::Timestamp;
use weft_member::MapCodec;
use weft_net::wire::Message;

/// What a copy of a map begins with that several processes have agreed on; one of a single process begins with the
/// first line of its file.
pub(super) const AGREED: u8 = 1;

/// Cluster maps as the processes write them to one another.
pub(super) struct Codec;

impl MapCodec for Codec {
    fn encode(&self, map: &ClusterMap) -> Vec<u8> {
        let enter = MapMessage::Enter { map: Arc::new(map.clone()), floor: Timestamp::ZERO };
        let mut bytes = BytesMut::new();
        Message::Map(enter).encode().into_iter().for_each(|chunk| bytes.put(chunk));
        bytes.to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ClusterMap> {
        match Message::decode_kept(&Bytes::copy_from_slice(bytes)).ok()? {
            Message::Map(MapMessage::Enter { map, .. }) => {
                map.check().is_ok().then(|| Arc::unwrap_or_clone(map))
            }
            _ => None,
        }
    }
}
