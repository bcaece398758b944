//! Questions that other processes hand on: each is offered first, and asked when this process has said that it
//! is ready. A process that was held up finds questions whose askers have given up long ago; it must not do then what
//! they asked for. So what is asked counts only for a short while after it said so.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_core::units::NodeId;

/// The question that offers another.
pub(crate) const OFFER: &[u8] = b"?";

/// How long a process is ready for a question: shorter than anybody waits for an answer.
const READY: Duration = Duration::from_millis(500);

/// What this process has been offered, by the process that asks and the number of its question; and when it said
/// that it was ready.
#[derive(Default)]
pub(crate) struct Offers(BTreeMap<(NodeId, u64), Instant>);

/// What is to be done with a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It is taken up.
    Now,
    /// The process that asks is told that this one is ready, and asks if somebody waits still.
    Offered,
}

impl Offers {
    /// Another process asks.
    pub(crate) fn ask(
        &mut self,
        peer: NodeId,
        number: u64,
        question: &[u8],
        now: Instant,
    ) -> Asked {
        if question == OFFER {
            self.0.insert((peer, number), now);
            return Asked::Offered;
        }
        match self.0.get_mut(&(peer, number)) {
            Some(since) if now.duration_since(*since) > READY => {
                *since = now;
                Asked::Offered
            }
            _ => {
                self.0.remove(&(peer, number));
                Asked::Now
            }
        }
    }

    /// Nobody waits for an answer to this one any more.
    pub(crate) fn hung_up(&mut self, peer: NodeId, number: u64) {
        self.0.remove(&(peer, number));
    }

    /// A process is gone.
    pub(crate) fn lose(&mut self, peer: NodeId) {
        self.0.retain(|(asker, _), _| *asker != peer);
    }
}

/// The answer to an offer.
pub(crate) fn ready() -> Vec<u8> {
    json!({ "ready": true }).to_string().into_bytes()
}

/// Whether an answer is that the process is ready for what it was offered.
pub(crate) fn is_ready(answer: &[u8]) -> bool {
    serde_json::from_slice(answer).is_ok_and(|said: Value| said["ready"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_offered_long_ago_is_offered_again() {
        let mut offers = Offers::default();
        let (peer, begun) = (NodeId(2), Instant::now());
        let later = begun + READY + Duration::from_millis(1);
        assert_eq!(offers.ask(peer, 7, b"{}", begun), Asked::Now, "never offered");
        assert_eq!(offers.ask(peer, 7, OFFER, begun), Asked::Offered);
        assert_eq!(offers.ask(peer, 7, b"{}", later), Asked::Offered);
        assert_eq!(offers.ask(peer, 7, b"{}", later), Asked::Now);
        assert!(is_ready(&ready()) && !is_ready(b"{\"ok\":true}"));
        offers.ask(peer, 8, OFFER, begun);
        offers.hung_up(peer, 8);
        offers.ask(peer, 9, OFFER, begun);
        offers.lose(peer);
        assert!(offers.0.is_empty());
    }
}
