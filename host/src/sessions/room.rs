//! Room for requests that have not come whole.
//!
//! A request is received only when there is room for all of it, so that every one that has been begun
//! can be finished, however many hosts send at the same time. Who finds no room waits for its turn and
//! is not read from meanwhile. Short requests need none: those who send them never wait for those who
//! do not finish.

use std::collections::VecDeque;

/// Requests of up to so many bytes need no room.
const SHORT: u64 = 256 << 10;

/// Room for the requests of all hosts.
#[derive(Debug)]
pub(crate) struct Room {
    all: u64,
    taken: u64,
    /// Connections that wait, the first to come first.
    queue: VecDeque<usize>,
    /// Whether the first of them has not been told of room that has become free.
    changed: bool,
}

impl Room {
    /// So many bytes.
    pub(crate) fn new(all: u64) -> Room {
        Room { all, taken: 0, queue: VecDeque::new(), changed: false }
    }

    /// How much room a request of so many bytes needs.
    pub(crate) fn needed(bytes: usize) -> u64 {
        if bytes as u64 <= SHORT { 0 } else { bytes as u64 }
    }

    /// Takes room for a connection, or has it wait.
    pub(crate) fn take(&mut self, conn: usize, bytes: u64) -> bool {
        assert!(bytes <= self.all, "a request of {bytes} bytes would wait forever");
        let place = self.queue.iter().position(|c| *c == conn);
        let turn = self.queue.is_empty() || place == Some(0);
        if !turn || self.taken + bytes > self.all {
            if place.is_none() {
                self.queue.push_back(conn);
            }
            return false;
        }
        if place.is_some() {
            self.queue.pop_front();
            self.changed = true;
        }
        self.taken += bytes;
        true
    }

    /// Room is free again.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        assert!(bytes <= self.taken, "{bytes} of {} bytes", self.taken);
        self.taken -= bytes;
        self.changed |= bytes > 0;
    }

    /// A connection is over that had so much room, or waited for some.
    pub(crate) fn leave(&mut self, conn: usize, bytes: u64) {
        self.give_back(bytes);
        let before = self.queue.len();
        self.queue.retain(|c| *c != conn);
        self.changed |= self.queue.len() < before;
    }

    /// The connection that may try again, told once.
    pub(crate) fn next(&mut self) -> Option<usize> {
        std::mem::take(&mut self.changed).then(|| self.queue.front().copied()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_room_waits_for_its_turn() {
        let mut room = Room::new(100);
        assert!(room.take(1, 60) && room.take(2, 30));
        assert!(!room.take(3, 60) && !room.take(3, 60));
        assert!(!room.take(4, 5), "there is room, but another was there first");
        assert_eq!(room.next(), None);
        room.give_back(30);
        assert_eq!((room.next(), room.next()), (Some(3), None), "told once");
        assert!(!room.take(3, 60), "not enough yet");
        room.leave(1, 60);
        assert_eq!(room.next(), Some(3));
        assert!(room.take(3, 60));
        assert_eq!(room.next(), Some(4), "and then the next");
        assert!(room.take(4, 5) && room.queue.is_empty());
        assert!(!room.take(5, 90) && !room.take(6, 10));
        room.leave(5, 0);
        assert_eq!(room.next(), Some(6), "who was first is gone");
        assert!(room.take(6, 10));
        room.leave(3, 60);
        room.leave(4, 5);
        room.leave(6, 10);
        assert_eq!((room.taken, room.next()), (0, None));
    }

    #[test]
    fn short_requests_need_none() {
        assert_eq!((Room::needed(0), Room::needed(256 << 10)), (0, 0));
        assert_eq!(Room::needed((256 << 10) + 1), (256 << 10) + 1);
    }
}
