//! A member of a cluster with its log and its witness, started from bytes.

use std::sync::Arc;

use bytes::Bytes;
use weft_bytes::checksum;
use weft_bytes::{BytesError, Writer};
use weft_core::cluster::ClusterMap;
use weft_core::node::MapMessage;
use weft_core::units::{MILLIS, NodeId, Timestamp};
use weft_member::{
    Config, Effect, Input, LogError, MapCodec, Persist, Process, Stored, Witness, member_of,
    node_of,
};
use weft_net::wire::Message;

/// Cluster maps as processes write them to one another.
pub struct Codec;

impl MapCodec for Codec {
    fn encode(&self, map: &ClusterMap) -> Vec<u8> {
        let enter = MapMessage::Enter { map: Arc::new(map.clone()), floor: Timestamp::ZERO };
        Message::Map(enter).encode().concat()
    }

    fn decode(&self, bytes: &[u8]) -> Option<ClusterMap> {
        match Message::decode(&Bytes::copy_from_slice(bytes)).ok()? {
            Message::Map(MapMessage::Enter { map, .. }) => {
                map.check().is_ok().then(|| Arc::unwrap_or_clone(map))
            }
            _ => None,
        }
    }
}

/// A log of frames with these bodies, numbered from 1 on: docs/internals/membership.md has the format.
pub fn framed(bodies: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut log: Writer = Writer::default();
    for (n, body) in bodies.enumerate() {
        let mut numbers: Writer = Writer::default();
        numbers.u32(body.len() as u32);
        numbers.u64(n as u64 + 1);
        let crc = checksum::crc32c_append(checksum::crc32c(numbers.written()), &body);
        log.raw(b"WMb\x02");
        log.raw(numbers.written());
        log.u32(crc);
        log.raw(&body);
    }
    log.finish()
}

/// Opens a log.
///
/// # Errors
///
/// If it is refused.
fn open(log: &[u8]) -> Result<Stored, LogError> {
    let salvaged = Stored::salvage(log);
    let member = salvaged.and_then(|stored| stored.member()).unwrap_or(member_of(NodeId(0)));
    let beside = Witness::new(member, 0).bytes();
    Stored::open(log, Some(&beside)).map(|(stored, _)| stored)
}

/// Starts a member with this log and has it tick a few times. The log as it is then; `None` if it is refused.
pub fn run(log: Vec<u8>, times: u64) -> Option<Vec<u8>> {
    start(open(&log).ok()?, log, times)
}

/// The same with a log that a member has written.
///
/// # Panics
///
/// If the member does not start, unless it has counted to the very end of what is read.
pub fn run_again(log: Vec<u8>, times: u64) {
    match open(&log) {
        Ok(stored) => assert!(start(stored, log, times).is_some(), "it started before"),
        Err(LogError::Damaged { why: BytesError::Bounds { .. }, .. }) => {}
        Err(why) => panic!("a member wrote it: {why}"),
    }
}

/// Starts a member with what its log says, and has it tick a few times. The log as it is then.
pub fn start(stored: Stored, mut log: Vec<u8>, times: u64) -> Option<Vec<u8>> {
    let node = node_of(stored.member()?);
    let config = Config::default();
    let mut process = Process::new(node, &[node], stored, config, Arc::new(Codec)).ok()?;
    let mut now = 0;
    for _ in 0..times {
        process.handle(now, Input::Tick);
        while let Some(effect) = process.next_effect() {
            if let Effect::Persist(number, persist) = effect {
                match persist {
                    Persist::Append(frame) => log.extend(frame),
                    Persist::Replace(all) => log = all,
                }
                process.handle(now, Input::Persisted(number));
            }
        }
        now = process.wake().max(now + MILLIS);
    }
    Some(log)
}
