//! What goes on when connections change: a session with one life of a peer.
//!
//! A session has one connection or two, direct and by a circuit, and its frames go over either. Each direction
//! counts its frames. A connection over which frames begin to go is told the number of the first (`from`),
//! and who gets them says now and then how many have come (`had`). Frames are kept until then. If the
//! connection changes all that were kept are sent again, and who has had them drops them: nothing is lost
//! and nothing comes twice, whatever was on its way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mio::Token;
use weft_bytes::{Reader, Writer};

use super::Lost;
use super::queues::{Outbox, Outgoing};
use crate::frame::HEADER;

/// The kind of a frame that says how many of the owner's frames have come.
pub(super) const HAD: u8 = 9;

/// The kind of a frame that says the number of the owner's frame that comes next.
pub(super) const FROM: u8 = 10;

/// After so many bytes the other side is told what has come; else at the next tick.
const TELL: usize = 256 << 10;

/// A frame with a count.
pub(super) fn counted(kind: u8, count: u64) -> Outgoing {
    let mut w: Writer = Writer::with_room(8);
    w.u64(count);
    (kind, vec![w.finish().into()])
}

/// The count in a frame.
pub(super) fn count(payload: &[u8]) -> Result<u64, Lost> {
    let mut r: Reader = Reader::new(payload);
    let count = r.u64().ok().filter(|_| r.end().is_ok());
    count.ok_or(Lost::Count)
}

/// What became of a frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It is the next.
    Next,
    /// It has come before.
    Before,
}

/// A session.
pub(super) struct Session {
    /// The two ends call it so.
    pub number: u64,
    /// The peer's.
    pub life: u64,
    pub outbox: Arc<Outbox>,
    /// The connection that our frames go over.
    pub carrier: Token,
    /// Since when there is no connection.
    pub orphaned: Option<Instant>,
    /// It has been told which frame comes next.
    begun: bool,
    /// Frames that have been sent and may not have come, the oldest first, and its number.
    kept: VecDeque<Outgoing>,
    first: u64,
    /// The number of the frame that goes over the carrier next.
    next: u64,
    /// How many have come, how many the other side knows to have come, and the bytes of the rest.
    came: u64,
    told: u64,
    untold: usize,
}

impl Session {
    pub fn new(number: u64, life: u64, outbox: Arc<Outbox>, carrier: Token) -> Session {
        Session {
            number,
            life,
            outbox,
            carrier,
            orphaned: None,
            begun: false,
            kept: VecDeque::new(),
            first: 0,
            next: 0,
            came: 0,
            told: 0,
            untold: 0,
        }
    }

    /// Whether it is the one of this number with this life.
    pub fn is(&self, number: u64, life: u64) -> bool {
        (self.number, self.life) == (number, life)
    }

    /// From now on our frames go over this connection.
    pub fn move_to(&mut self, carrier: Token) {
        (self.carrier, self.begun, self.orphaned) = (carrier, false, None);
    }

    /// The next frame to be written to the carrier.
    pub fn next(&mut self) -> Option<Outgoing> {
        if !self.begun {
            (self.begun, self.next) = (true, self.first);
            return Some(counted(FROM, self.first));
        }
        let place = (self.next - self.first) as usize;
        let frame = match self.kept.get(place) {
            Some(again) => again.clone(),
            None => {
                let frame = self.outbox.take()?;
                self.kept.push_back(frame.clone());
                frame
            }
        };
        self.next += 1;
        Some(frame)
    }

    /// The other side has had so many. Returns whether the owner waits for the room.
    pub fn has_had(&mut self, count: u64) -> Result<bool, Lost> {
        if count > self.first + self.kept.len() as u64 {
            return Err(Lost::Count);
        }
        let mut bytes = 0;
        while self.first < count {
            let payload = |(_, p): Outgoing| p.iter().map(Bytes::len).sum::<usize>();
            bytes += self.kept.pop_front().map_or(0, |frame| HEADER + payload(frame));
            self.first += 1;
        }
        // What was to be sent again has come meanwhile: the connection is told with which it goes on.
        self.begun &= self.next >= self.first;
        Ok(self.outbox.arrived(bytes))
    }

    /// A connection says the number of the frame that comes next over it.
    pub fn begins(&self, from: u64) -> Result<u64, Lost> {
        if from > self.came { Err(Lost::Count) } else { Ok(from) }
    }

    /// The frame of this number has come.
    pub fn came(&mut self, number: u64, bytes: usize) -> Came {
        if number < self.came {
            return Came::Before;
        }
        self.came += 1;
        self.untold += bytes;
        Came::Next
    }

    /// If the other side is to be told how many have come: now, or because much has.
    pub fn tells(&mut self, now: bool) -> Option<Outgoing> {
        if self.told == self.came || !(now || self.untold >= TELL) {
            return None;
        }
        (self.told, self.untold) = (self.came, 0);
        Some(counted(HAD, self.came))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::units::NodeId;

    fn session() -> Session {
        Session::new(1, 2, Arc::new(Outbox::new(NodeId(1), 1000)), Token(1))
    }

    fn push(s: &Session, what: &'static str) {
        s.outbox.push(NodeId(1), (16, vec![what.into()])).unwrap();
    }

    /// The payloads of all that is to be written.
    fn written(s: &mut Session) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| s.next()).map(|(_, payload)| payload[0].to_vec()).collect()
    }

    #[test]
    fn what_may_not_have_come_is_sent_again_and_taken_once() {
        let (mut us, mut them) = (session(), session());
        ["a", "b", "c"].iter().for_each(|p| push(&us, p));
        let mut from = 0u64.to_le_bytes().to_vec();
        assert_eq!(written(&mut us), [from.clone(), b"a".into(), b"b".into(), b"c".into()]);
        // Two have come, and one of them is known to have.
        assert_eq!((them.came(0, 1), them.came(1, 1)), (Came::Next, Came::Next));
        us.has_had(1).unwrap();
        us.move_to(Token(2));
        push(&us, "d");
        from = 1u64.to_le_bytes().to_vec();
        assert_eq!(written(&mut us), [from, b"b".into(), b"c".into(), b"d".into()]);
        assert_eq!(them.begins(1), Ok(1));
        let came: Vec<Came> = (1..4).map(|n| them.came(n, 1)).collect();
        assert_eq!(came, [Came::Before, Came::Next, Came::Next]);
        // The connection before is late with the third.
        assert_eq!(them.came(2, 1), Came::Before);
        assert_eq!(them.tells(true).unwrap().1[0].as_ref(), 4u64.to_le_bytes());
        assert_eq!(them.tells(true), None, "once");
        us.has_had(4).unwrap();
        assert!(us.kept.is_empty());
        assert_eq!(us.has_had(5), Err(Lost::Count), "more than were sent");
        assert_eq!(them.begins(5), Err(Lost::Count), "some would be missing");
    }

    #[test]
    fn there_is_room_when_it_has_come_and_not_when_it_has_been_sent() {
        let mut s = session();
        push(&s, "x");
        s.outbox.push(NodeId(1), (16, vec![vec![0; 900].into()])).unwrap();
        let full = s.outbox.push(NodeId(1), (16, vec![vec![0; 100].into()]));
        assert!(full.is_err());
        assert_eq!(written(&mut s).len(), 3);
        assert!(s.outbox.push(NodeId(1), (16, vec![vec![0; 100].into()])).is_err());
        assert_eq!(s.has_had(2), Ok(true), "the owner waits for it");
    }
}
