//! Commands in flight.
//!
//! A client may use one cookie for several commands at once, so commands are
//! told apart by the place that they are kept in.

use super::Context;
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

/// A request that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub request: RequestHeader,
    /// The context in which the state of a range is asked for.
    pub context: Option<Context>,
    /// The same request in other contexts.
    others: Vec<Cookie>,
}

#[derive(Default)]
struct Place {
    turn: u32,
    kept: Option<Kept>,
}

#[derive(Default)]
pub(super) struct InFlight {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl InFlight {
    /// Keeps a request until its reply.
    pub(super) fn put(&mut self, request: RequestHeader) -> Cookie {
        self.keep(Kept { request, context: None, others: Vec::new() })
    }

    /// Keeps a question for the state of a range, once for each context.
    pub(super) fn put_questions(
        &mut self,
        request: RequestHeader,
        contexts: &[Context],
    ) -> Vec<Cookie> {
        let mut cookies: Vec<Cookie> = Vec::new();
        for context in contexts {
            let kept = Kept { request, context: Some(*context), others: Vec::new() };
            cookies.push(self.keep(kept));
        }
        for cookie in &cookies {
            let kept = self.places[cookie.place as usize].kept.as_mut().expect("just kept");
            kept.others = cookies.iter().copied().filter(|other| other != cookie).collect();
        }
        cookies
    }

    fn keep(&mut self, kept: Kept) -> Cookie {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.kept = Some(kept);
        Cookie { place: index, turn: place.turn }
    }

    /// The request a cookie stands for, once; and whether nothing of it is in flight any more.
    pub(super) fn take(&mut self, cookie: Cookie) -> Option<(Kept, bool)> {
        let place = self.places.get_mut(cookie.place as usize)?;
        if place.turn != cookie.turn {
            return None;
        }
        let kept = place.kept.take()?;
        place.turn = place.turn.wrapping_add(1);
        self.free.push(cookie.place);
        let is_last = !kept.others.iter().any(|other| self.has(*other));
        Some((kept, is_last))
    }

    fn has(&self, cookie: Cookie) -> bool {
        let place = &self.places[cookie.place as usize];
        place.turn == cookie.turn && place.kept.is_some()
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
        let take = |commands: &mut InFlight, cookie| {
            commands.take(cookie).map(|(kept, is_last)| (kept.request, is_last))
        };
        assert_eq!(take(&mut commands, first), Some((request, true)));
        assert_eq!(take(&mut commands, first), None);
        let third = commands.put(request);
        assert_eq!(Cookie::of_number(third.number()), third);
        assert_eq!(take(&mut commands, first), None);
        assert_eq!(take(&mut commands, third), Some((request, true)));
        assert_eq!(take(&mut commands, second), Some((request, true)));
        assert_eq!(commands.len(), 0);
    }

    #[test]
    fn a_question_in_two_contexts_is_over_with_the_second_answer() {
        let request = RequestHeader { flags: 0, kind: 7, cookie: 9, offset: 0, length: 4096 };
        for first in [0, 1] {
            let mut commands = InFlight::default();
            let contexts = [Context::Allocation, Context::Exposed];
            let both = commands.put_questions(request, &contexts);
            assert_eq!(commands.len(), 2);
            let (kept, is_last) = commands.take(both[first]).unwrap();
            assert_eq!((kept.context, is_last), (Some(contexts[first]), false));
            // Its place is used again, which is not it.
            commands.put(request);
            assert!(commands.take(both[1 - first]).unwrap().1);
            assert_eq!(commands.len(), 1);
        }
    }
}
