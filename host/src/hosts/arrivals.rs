//! Hosts that may be let in only when every other process of a cluster agrees of which a node takes
//! part.
//!
//! **One that comes from another process** must have left all others: each has ended its connection
//! to it, has nothing of it in work any more, and has said what was done. So nothing that the host asked
//! there can happen after what it asks here, and nothing is done twice.
//!
//! **One that wants a volume for one host at a time** (`ordering=none`) must be the only one. It
//! *applies*: its process marks it, and then asks all others how many use the volume there or apply
//! for it. Of two that apply at the same time the one at the process with the lower number is let in:
//! who is asked by such a process turns its own away, which has not been let in yet, and so can be.
//! Since each marks its own before it asks, of any two at least one process hears of the other's.
//!
//! A process that does not answer is waited for until the map says that its nodes are down: then it
//! has no lease, and what was in work there has been settled before anything later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_core::order::HostId;
use weft_core::units::{NodeId, VolumeId};

use crate::control_protocol::ControlRequest;
use crate::holder::Holder;
use crate::sessions::Attach;

/// How long a host waits to be let in, before it is sent to another process.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long until a process is asked again that could not be.
const AGAIN: Duration = Duration::from_millis(100);

/// Who waits to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applicant {
    pub(crate) attach: Attach,
    /// Which of its requests were done at other processes.
    pub(crate) done: Vec<u64>,
}

/// Why a host is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another uses the volume that it wants for itself.
    Taken(String),
    /// A process has not answered.
    Unanswered(NodeId),
    /// Its number is another's.
    Anothers,
}

/// A host that waits.
struct Arrival {
    conn: usize,
    applicant: Applicant,
    question: ControlRequest,
    since: Instant,
    /// The processes that have not answered, and the number of the question, once it is asked.
    waits: BTreeMap<NodeId, Option<u64>>,
    refusal: Option<Refusal>,
}

impl Arrival {
    fn applies_for(&self, volume: VolumeId) -> bool {
        matches!(self.question, ControlRequest::WriterComes { volume: v, .. } if v == volume.0)
            && self.refusal.is_none()
    }

    fn is_decided(&self, now: Instant) -> bool {
        let late = now.duration_since(self.since) >= PATIENCE;
        self.refusal.is_some() || self.waits.is_empty() || late
    }

    fn result(&self) -> Result<Option<VolumeId>, Refusal> {
        match (&self.refusal, self.waits.keys().next(), &self.question) {
            (Some(refusal), ..) => Err(refusal.clone()),
            (None, Some(node), _) => Err(Refusal::Unanswered(*node)),
            (None, None, ControlRequest::WriterComes { volume, .. }) => Ok(Some(VolumeId(*volume))),
            (None, None, _) => Ok(None),
        }
    }
}

/// What became of a host that waited: its connection, who it is, the volume that it has for itself if
/// it applied for one, or why it is not let in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) conn: usize,
    pub(crate) applicant: Applicant,
    pub(crate) result: Result<Option<VolumeId>, Refusal>,
}

/// The hosts that wait to be let in.
#[derive(Default)]
pub(crate) struct Arrivals(Vec<Arrival>);

impl Arrivals {
    /// A host has come that must have left these.
    pub(crate) fn expect(
        &mut self,
        (conn, attach): (usize, Attach),
        (host, holder): (HostId, Holder),
        others: &[NodeId],
        now: Instant,
    ) {
        let question = ControlRequest::HostLeave { host: host.0, holder: Some(holder) };
        self.add(conn, Applicant { attach, done: Vec::new() }, question, others, now);
    }

    /// A host applies at process `us` for a volume that must be free at these.
    pub(crate) fn apply(
        &mut self,
        (conn, applicant): (usize, Applicant),
        volume: VolumeId,
        us: NodeId,
        others: &[NodeId],
        now: Instant,
    ) {
        let question = ControlRequest::WriterComes { volume: volume.0, process: us.0 };
        self.add(conn, applicant, question, others, now);
    }

    fn add(
        &mut self,
        conn: usize,
        applicant: Applicant,
        question: ControlRequest,
        others: &[NodeId],
        now: Instant,
    ) {
        let waits = others.iter().map(|n| (*n, None)).collect();
        self.0.push(Arrival { conn, applicant, question, since: now, waits, refusal: None });
    }

    /// Whether a host applies here for a volume.
    pub(crate) fn applies_for(&self, volume: VolumeId) -> bool {
        self.0.iter().any(|a| a.applies_for(volume))
    }

    /// How many apply for a volume here, at process `us`, that `asker` must respect: its own host
    /// applies for it, too. Ours are turned away if its is to have it.
    pub(crate) fn writers(&mut self, volume: VolumeId, asker: NodeId, us: NodeId) -> usize {
        let applicants = self.0.iter_mut().filter(|a| a.applies_for(volume));
        if us < asker {
            return applicants.count();
        }
        for arrival in applicants {
            let why = format!("a host has just connected to the process of node {}", asker.0);
            arrival.refusal = Some(Refusal::Taken(why));
        }
        0
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
            if answer["ok"] != true {
                // A process of an earlier version knows numbers alone.
                if let ControlRequest::HostLeave { holder, .. } = &mut arrival.question
                    && answer["error"].as_str().is_some_and(|e| e.contains("`holder`"))
                {
                    *holder = None;
                }
                arrival.waits.insert(node, None);
                continue;
            }
            let more = answer["done"].as_array().into_iter().flatten();
            arrival.applicant.done.extend(more.filter_map(Value::as_u64));
            if answer["writers"].as_u64().is_some_and(|n| n > 0) {
                let why = format!("a host at the process of node {} uses it", node.0);
                arrival.refusal = Some(Refusal::Taken(why));
            }
            if answer["anothers"] == true {
                arrival.refusal = Some(Refusal::Anothers);
            }
            arrival.waits.remove(&node);
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

    /// Asks whom it must, and says who can be let in now, or not at all. Who can be asked now is asked by
    /// `ask`, which says the number of the question. Hosts that are not `here` any more are forgotten.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        is_up: impl Fn(NodeId) -> bool,
        here: impl Fn(usize) -> bool,
        mut ask: impl FnMut(NodeId, &[u8]) -> Option<u64>,
    ) -> Vec<Arrived> {
        self.0.retain(|a| here(a.conn));
        for arrival in &mut self.0 {
            arrival.waits.retain(|node, _| is_up(*node));
            for (node, asked) in arrival.waits.iter_mut().filter(|(_, asked)| asked.is_none()) {
                let question =
                    serde_json::to_vec(&arrival.question).expect("a request can be written");
                *asked = ask(*node, &question);
            }
        }
        let decided = self.0.extract_if(.., |a| a.is_decided(now));
        decided
            .map(|a| Arrived { conn: a.conn, result: a.result(), applicant: a.applicant })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_host_is_let_in_when_all_others_have_answered_or_are_down() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        let attach = Attach { volume: "v".into(), host: Some(HostId(7)), resumes: true };
        let asks = || (HostId(7), Holder { name: Some("web".into()), volume: 4 });
        let all = [NodeId(1), NodeId(2), NodeId(3)];
        arrivals.expect((10, attach.clone()), asks(), &all, now);
        arrivals.expect((11, attach.clone()), asks(), &[NodeId(1)], now);
        let asked = RefCell::new(Vec::new());
        let reachable = |n: NodeId| n != NodeId(2);
        let step = |arrivals: &mut Arrivals, later: Duration, down: Option<NodeId>| {
            let ask = |node: NodeId, question: &[u8]| {
                let said = String::from_utf8_lossy(question);
                assert!(said.contains(r#""host":7,"holder":{"name":"web","volume":4}"#), "{said}");
                let number = 100 + asked.borrow().len() as u64;
                reachable(node).then(|| asked.borrow_mut().push((node.0, number))).map(|()| number)
            };
            let up = |n| Some(n) != down;
            arrivals.step(now + later, up, |conn| conn == 10, ask)
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
        let applicant = Applicant { attach: attach.clone(), done: vec![3, 5, 4] };
        assert_eq!(arrived, [Arrived { conn: 10, applicant, result: Ok(None) }]);
        assert!(arrivals.is_empty());
        arrivals.expect((10, attach.clone()), asks(), &[NodeId(2)], now);
        let arrived = step(&mut arrivals, PATIENCE, None);
        assert_eq!(arrived[0].result, Err(Refusal::Unanswered(NodeId(2))));
        arrivals.expect((10, attach.clone()), asks(), &[NodeId(1), NodeId(2)], now);
        assert!(step(&mut arrivals, Duration::ZERO, None).is_empty());
        let number = asked.borrow().last().unwrap().1;
        arrivals.answered(NodeId(1), number, br#"{"ok":true,"anothers":true}"#);
        let arrived = step(&mut arrivals, Duration::ZERO, None);
        assert_eq!(arrived[0].result, Err(Refusal::Anothers), "whatever others say");
    }

    #[test]
    fn a_process_of_an_earlier_version_is_asked_in_its_words() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        let attach = Attach { volume: "v".into(), host: Some(HostId(7)), resumes: true };
        let holder = Holder { name: Some("web".into()), volume: 4 };
        arrivals.expect((10, attach), (HostId(7), holder), &[NodeId(1)], now);
        let asked = RefCell::new(String::new());
        let step = |arrivals: &mut Arrivals| {
            let ask = |_, question: &[u8]| {
                *asked.borrow_mut() = String::from_utf8_lossy(question).into_owned();
                Some(5)
            };
            arrivals.step(now, |_| true, |_| true, ask)
        };
        assert!(step(&mut arrivals).is_empty() && asked.borrow().contains("holder"));
        let no = br#"{"ok":false,"error":"bad request: unknown field `holder`, expected `host`"}"#;
        arrivals.answered(NodeId(1), 5, no);
        assert!(step(&mut arrivals).is_empty());
        assert_eq!(*asked.borrow(), r#"{"cmd":"host-leave","host":7}"#);
        arrivals.answered(NodeId(1), 5, br#"{"ok":true,"done":[]}"#);
        assert_eq!(step(&mut arrivals)[0].result, Ok(None));
    }

    /// Two processes, each with a host that applies for the same volume: what is asked of one is
    /// answered as the other process does.
    #[test]
    fn of_two_that_apply_at_the_same_time_one_is_let_in() {
        let (volume, low, high) = (VolumeId(4), NodeId(1), NodeId(2));
        let now = Instant::now();
        let attach = Attach { volume: "v".into(), host: None, resumes: false };
        let someone = || Applicant { attach: attach.clone(), done: Vec::new() };
        let mut low_s = Arrivals::default();
        let mut high_s = Arrivals::default();
        low_s.apply((10, someone()), volume, low, &[high], now);
        high_s.apply((20, someone()), volume, high, &[low], now);
        let step =
            |arrivals: &mut Arrivals| arrivals.step(now, |_| true, |_| true, |_, _| Some(100));
        assert!(step(&mut low_s).is_empty() && step(&mut high_s).is_empty());
        let writers = |arrivals: &mut Arrivals, asker, us| {
            let n = arrivals.writers(volume, asker, us);
            format!(r#"{{"ok":true,"writers":{n}}}"#).into_bytes()
        };
        let answer = writers(&mut high_s, low, high);
        low_s.answered(high, 100, &answer);
        assert_eq!(step(&mut low_s)[0].result, Ok(Some(volume)));
        // Its question is still on its way.
        assert!(matches!(step(&mut high_s)[0].result, Err(Refusal::Taken(_))));
        // The other way round: the lower one is asked while it applies.
        low_s.apply((11, someone()), volume, low, &[high], now);
        assert!(step(&mut low_s).is_empty());
        assert_eq!(low_s.writers(volume, high, low), 1);
        assert!(low_s.applies_for(volume));
        assert_eq!(high_s.writers(volume, low, high), 0, "nobody applies there");
    }
}
