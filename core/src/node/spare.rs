//! Room for messages: that of those which have come is used for those which are sent.

use std::hash::{Hash, Hasher};

use super::Envelope;
use crate::store::Reached;
use crate::units::NodeId;

/// So many envelopes are kept at most.
const MOST: usize = 32;

/// Envelopes whose messages have been taken out. It makes no difference to a node which there are.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
pub(crate) struct Spare(Vec<Box<Envelope>>);

impl Spare {
    /// Keeps one.
    pub fn keep(&mut self, envelope: Box<Envelope>) {
        debug_assert!(envelope.body.is_none(), "what it said is still in it");
        if self.0.len() < MOST {
            self.0.push(envelope);
        }
    }

    /// Finds room. It has no body, and all else in it is to be said anew.
    pub fn take(&mut self) -> Box<Envelope> {
        self.0.pop().unwrap_or_else(|| {
            Box::new(Envelope {
                from: NodeId(0),
                to: NodeId(0),
                epoch: 0,
                hops: 0,
                notices: Vec::new(),
                reached: Reached::default(),
                heard: Vec::new(),
                body: None,
            })
        })
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
