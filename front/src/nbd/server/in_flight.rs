//! Commands in flight.
//!
//! A client may use one cookie for several commands at once, so commands are
//! told apart by the place that they are kept in.

use crate::nbd::wire::RequestHeader;

/// Names a command of one connection until it is replied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie {
    place: u32,
    /// How often the place was used before, so that a cookie kept too long
    /// does not name the place's next command.
    turn: u32,
}

impl Cookie {
    /// As one number, for who keeps requests of several protocols by numbers.
    pub fn number(self) -> u64 {
        u64::from(self.place) << 32 | u64::from(self.turn)
    }

    /// The cookie of a [`Cookie::number`].
    pub fn of_number(number: u64) -> Cookie {
        Cookie { place: (number >> 32) as u32, turn: number as u32 }
    }
}

#[derive(Default)]
struct Place {
    turn: u32,
    request: Option<RequestHeader>,
}

#[derive(Default)]
pub(super) struct InFlight {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl InFlight {
    /// Keeps a request until its reply.
    pub(super) fn put(&mut self, request: RequestHeader) -> Cookie {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.request = Some(request);
        Cookie { place: index, turn: place.turn }
    }

    /// The request a cookie stands for, once.
    pub(super) fn take(&mut self, cookie: Cookie) -> Option<RequestHeader> {
        let place = self.places.get_mut(cookie.place as usize)?;
        if place.turn != cookie.turn {
            return None;
        }
        let request = place.request.take()?;
        place.turn = place.turn.wrapping_add(1);
        self.free.push(cookie.place);
        Some(request)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_serves_once() {
        let request = RequestHeader { flags: 0, kind: 0, cookie: 9, offset: 0, length: 0 };
        let mut commands = InFlight::default();
        let first = commands.put(request);
        assert_eq!(Cookie::of_number(first.number()), first);
        let second = commands.put(request);
        assert_ne!(first, second);
        assert_eq!(commands.len(), 2);
        assert_eq!(commands.take(first), Some(request));
        assert_eq!(commands.take(first), None);
        let third = commands.put(request);
        assert_eq!(Cookie::of_number(third.number()), third);
        assert_eq!(commands.take(first), None);
        assert_eq!(commands.take(third), Some(request));
        assert_eq!(commands.take(second), Some(request));
        assert_eq!(commands.len(), 0);
    }
}
