//! A node that forges what is said of requests between workers and endpoints: it asks for bytes that it is not to have,
//! and places and sends what nobody wrote. It is no better informed than a stranger: keys it guesses, or takes from
//! requests that are over or of others.

use fastrand::Rng;
use weft_core::Buffer;
use weft_core::node::{Body, Envelope, Holder, Item, Key};
use weft_core::plan::Part;
use weft_core::store::Reached;
use weft_core::units::{Nanos, NodeId};

use super::{Event, World};

/// See the module.
pub struct Forger {
    rng: Rng,
    /// A key that was seen earlier.
    seen: Option<Key>,
    /// How much it has forged.
    pub forged: u64,
}

impl Forger {
    fn new(seed: u64) -> Forger {
        Forger { rng: Rng::with_seed(seed), seen: None, forged: 0 }
    }

    /// The same with another key.
    fn disguise(&mut self, holder: &mut Holder) {
        let own = std::mem::replace(&mut holder.key, Key(self.rng.u128(..)));
        if let Some(seen) = self.seen.filter(|seen| *seen != own && self.rng.bool()) {
            holder.key = seen;
        }
        self.seen = Some(own);
    }

    fn nonsense(&mut self, data: &mut Buffer) {
        let mut bytes = vec![0; data.len()];
        self.rng.fill(&mut bytes);
        *data = bytes.into();
    }

    /// A forgery of a message by a node, if it is of a kind that is forged.
    fn forge(&mut self, from: NodeId, body: &Body) -> Option<Body> {
        let mut body = body.clone();
        match &mut body {
            Body::Fetch { header, .. } => self.disguise(header.holder.as_mut()?),
            Body::Part { header, items, .. } => {
                let is_sum = |i: &Item| matches!(i.part, Part::Sum { .. });
                match header.holder.as_mut() {
                    Some(holder) if holder.node == from => return None,
                    Some(holder) if !items.iter().all(is_sum) || self.rng.bool() => {
                        self.disguise(holder);
                        if self.rng.bool() {
                            // It says that it is the endpoint.
                            holder.node = from;
                        }
                    }
                    // A sum of a column that it has not: all else is as it should be.
                    _ if items.iter().all(is_sum) => {}
                    _ => return None,
                }
                items.iter_mut().for_each(|Item { data, .. }| self.nonsense(data));
            }
            // Of a column that it has not.
            Body::Show { items, .. } => {
                items.iter_mut().for_each(|Item { data, .. }| self.nonsense(data));
            }
            Body::Place { holder, pieces, .. } => {
                self.disguise(holder);
                pieces.iter_mut().for_each(|(_, data)| self.nonsense(data));
            }
            _ => return None,
        }
        Some(body)
    }
}

impl World {
    /// From now on a node forges what it can.
    pub fn let_a_node_forge(&mut self, seed: u64) {
        self.forger = Some(Forger::new(seed));
    }

    /// How much was forged.
    pub fn forged(&self) -> u64 {
        self.forger.as_ref().map_or(0, |f| f.forged)
    }

    /// A message goes out: now and then a forgery of it comes, too, and perhaps before it.
    pub(super) fn forge(&mut self, envelope: &Envelope, life: u64, delay: Nanos) {
        let (nodes, server) = (self.places.len() as u16, self.map().server());
        let (Some(forger), Some(body)) = (&mut self.forger, &envelope.body) else { return };
        if forger.rng.u8(0..12) > 0 {
            return;
        }
        let from = NodeId(forger.rng.u16(0..nodes));
        // Who coordinates is believed.
        if from == envelope.from || server == Some(from) {
            return;
        }
        let Some(body) = forger.forge(from, body) else { return };
        forger.forged += 1;
        let delay = forger.rng.u64(0..=delay * 2);
        let (notices, heard, reached) = (Vec::new(), Vec::new(), Reached::default());
        let (to, epoch, hops) = (envelope.to, envelope.epoch, envelope.hops);
        let body = Some(body);
        let forged = Envelope { from, to, epoch, hops, notices, reached, heard, body };
        self.queue.push(delay, Event::Deliver(forged, life));
    }
}
