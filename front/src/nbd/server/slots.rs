//! Commands in flight.
//!
//! A client may use one cookie for several commands at once, so commands are
//! told apart by the slot they are in.

use crate::nbd::wire::Request;

/// Names a command of one connection until it is replied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie {
    slot: u32,
    /// How often the slot was used before, so that a cookie kept too long
    /// does not name the slot's next command.
    turn: u32,
}

#[derive(Default)]
struct Slot {
    turn: u32,
    request: Option<Request>,
}

#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Keeps a request until its reply.
    pub(super) fn put(&mut self, request: Request) -> Cookie {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.request = Some(request);
        Cookie { slot, turn: place.turn }
    }

    /// The request a cookie stands for, once.
    pub(super) fn take(&mut self, cookie: Cookie) -> Option<Request> {
        let place = self.slots.get_mut(cookie.slot as usize)?;
        if place.turn != cookie.turn {
            return None;
        }
        let request = place.request.take()?;
        place.turn = place.turn.wrapping_add(1);
        self.free.push(cookie.slot);
        Some(request)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_serves_once() {
        let request = Request { flags: 0, kind: 0, cookie: 9, offset: 0, length: 0 };
        let mut slots = Slots::default();
        let first = slots.put(request);
        let second = slots.put(request);
        assert_ne!(first, second);
        assert_eq!(slots.len(), 2);
        assert_eq!(slots.take(first), Some(request));
        assert_eq!(slots.take(first), None);
        let third = slots.put(request);
        assert_eq!(slots.take(first), None);
        assert_eq!(slots.take(third), Some(request));
        assert_eq!(slots.take(second), Some(request));
        assert_eq!(slots.len(), 0);
    }
}
