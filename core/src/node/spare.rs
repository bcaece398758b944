//! Room for messages: that of those which have come is used for those which are sent.

use std::hash::{Hash, Hasher};

use super::Envelope;

/// So many envelopes are kept at most.
const MOST: usize = 32;

/// Envelopes whose messages have been taken out. It makes no difference to a node which there are.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is used again")]
pub(crate) struct Spare(Vec<Box<Envelope>>);

impl Spare {
    /// Keeps one.
    pub fn keep(&mut self, envelope: Box<Envelope>) {
        if self.0.len() < MOST {
            self.0.push(envelope);
        }
    }

    /// Finds room.
    pub fn put(&mut self, envelope: Envelope) -> Box<Envelope> {
        match self.0.pop() {
            Some(mut room) => {
                *room = envelope;
                room
            }
            None => Box::new(envelope),
        }
    }
}

impl Clone for Spare {
    fn clone(&self) -> Spare {
        Spare::default()
    }
}

impl Hash for Spare {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
