//! Hosts that come from another process of a cluster: before one is let in, every other process
//! of which a node takes part has ended its connection to it, has nothing of it in work any more, and
//! has said what was done. So nothing that the host asked there can happen after what it asks here,
//! and nothing is done twice.
//!
//! A process that does not answer is waited for until the map says that its nodes are down: then it
//! has no lease, and what was in work there has been settled before anything later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_core::units::NodeId;
use weft_front::native::Hello;

use crate::control::Request;

/// How long a host waits to be let in, before it is sent to another process.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long until a process is asked again that could not be.
const AGAIN: Duration = Duration::from_millis(100);

/// A host at the door.
struct Arrival {
    conn: usize,
    hello: Hello,
    since: Instant,
    /// The processes that have not answered, and the number of the question, once it is asked.
    waits: BTreeMap<NodeId, Option<u64>>,
    done: Vec<u64>,
}

/// What became of a host at the door: its connection, its hello, and what it has done elsewhere,
/// or why it is not let in.
pub(crate) type Arrived = (usize, Hello, Result<Vec<u64>, String>);

/// The hosts at the door.
#[derive(Default)]
pub(crate) struct Arrivals(Vec<Arrival>);

impl Arrivals {
    /// A host has come that must have left these.
    pub(crate) fn expect(&mut self, conn: usize, hello: Hello, others: Vec<NodeId>, now: Instant) {
        let waits = others.into_iter().map(|n| (n, None)).collect();
        self.0.push(Arrival { conn, hello, since: now, waits, done: Vec::new() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When to look again.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        (!self.0.is_empty()).then_some(AGAIN)
    }

    /// A process has answered a question; perhaps one of these.
    pub(crate) fn answered(&mut self, node: NodeId, number: u64, answer: &[u8]) {
        for arrival in &mut self.0 {
            if arrival.waits.get(&node) != Some(&Some(number)) {
                continue;
            }
            let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
            if answer["ok"] == true {
                let done = answer["done"].as_array().into_iter().flatten();
                arrival.done.extend(done.filter_map(Value::as_u64));
                arrival.waits.remove(&node);
            } else {
                arrival.waits.insert(node, None);
            }
        }
    }

    /// The connection to a process broke: it is to be asked again.
    pub(crate) fn lose(&mut self, node: NodeId) {
        for arrival in &mut self.0 {
            if let Some(asked) = arrival.waits.get_mut(&node) {
                *asked = None;
            }
        }
    }

    /// Asks whom it must, with numbers from `next` on, and says who can be let in now, or not at
    /// all. Hosts that are not `here` any more are forgotten.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        is_up: impl Fn(NodeId) -> bool,
        here: impl Fn(usize) -> bool,
        next: &mut usize,
        ask: impl Fn(NodeId, u64, &[u8]) -> bool,
    ) -> Vec<Arrived> {
        self.0.retain(|a| here(a.conn));
        let mut arrived = Vec::new();
        for arrival in &mut self.0 {
            arrival.waits.retain(|node, _| is_up(*node));
            for (node, asked) in arrival.waits.iter_mut().filter(|(_, asked)| asked.is_none()) {
                let question = Request::HostLeave { host: arrival.hello.host };
                let question = serde_json::to_vec(&question).expect("a request can be written");
                if ask(*node, *next as u64, &question) {
                    *asked = Some(*next as u64);
                    *next += 1;
                }
            }
            let result = match arrival.waits.keys().next() {
                None => Ok(std::mem::take(&mut arrival.done)),
                Some(node) if now.duration_since(arrival.since) >= PATIENCE => {
                    Err(format!("node {} has not said what it did for this host", node.0))
                }
                Some(_) => continue,
            };
            arrived.push((arrival.conn, arrival.hello.clone(), result));
        }
        self.0.retain(|a| !arrived.iter().any(|(conn, ..)| *conn == a.conn));
        arrived
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_host_is_let_in_when_all_others_have_answered_or_are_down() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        let hello = Hello { from: 1, to: 1, host: 7, oldest: 3, resumes: true, volume: "v".into() };
        arrivals.expect(10, hello.clone(), vec![NodeId(1), NodeId(2), NodeId(3)], now);
        arrivals.expect(11, hello.clone(), vec![NodeId(1)], now);
        let (asked, mut next) = (RefCell::new(Vec::new()), 100);
        let reachable = |n: NodeId| n != NodeId(2);
        let mut step = |arrivals: &mut Arrivals, later: Duration, down: Option<NodeId>| {
            let ask = |node: NodeId, number, question: &[u8]| {
                assert!(String::from_utf8_lossy(question).contains(r#""host":7"#));
                reachable(node) && {
                    asked.borrow_mut().push((node.0, number));
                    true
                }
            };
            let up = |n| Some(n) != down;
            arrivals.step(now + later, up, |conn| conn == 10, &mut next, ask)
        };
        assert!(step(&mut arrivals, Duration::ZERO, None).is_empty());
        assert_eq!(*asked.borrow(), [(1, 100), (3, 101)], "the other host is gone");
        arrivals.answered(NodeId(1), 100, br#"{"ok":true,"done":[3,5]}"#);
        arrivals.answered(NodeId(3), 100, br#"{"ok":true,"done":[9]}"#);
        arrivals.lose(NodeId(3));
        assert!(step(&mut arrivals, AGAIN, None).is_empty());
        assert_eq!(asked.borrow().last(), Some(&(3, 102)), "it is asked again");
        arrivals.answered(NodeId(3), 102, br#"{"ok":true,"done":[4]}"#);
        assert!(step(&mut arrivals, AGAIN, None).is_empty(), "2 may still do something");
        let arrived = step(&mut arrivals, AGAIN, Some(NodeId(2)));
        assert_eq!(arrived, [(10, hello.clone(), Ok(vec![3, 5, 4]))]);
        assert!(arrivals.is_empty());
        arrivals.expect(10, hello, vec![NodeId(2)], now);
        let arrived = step(&mut arrivals, PATIENCE, None);
        assert!(arrived[0].2.as_ref().unwrap_err().contains("node 2"));
    }
}
