//! Hosts that may be let in only when every other process of a cluster agrees of which a node takes
//! part.
//!
//! **One that comes from another process** must have left all others: each has ended its connection
//! to it, has nothing of it in work any more, and has said what was done. So nothing that the host asked
//! there can happen after what it asks here, and nothing is done twice.
//!
//! **A new one**, whose number is unknown here, is another process's to refuse if the number is another host's there.
//! It has asked for nothing yet, so it does not wait for a process that is slow.
//!
//! **One that wants a volume for one host at a time** (`ordering=none`) must be the only one. It
//! *applies*: its process marks it, and then asks all others how many use the volume there or apply
//! for it. Of two that apply at the same time the one at the process with the lower number is let in:
//! who is asked by such a process turns its own away, which has not been let in yet, and so can be.
//! Since each marks its own before it asks, of any two at least one process hears of the other's.
//!
//! A process that does not answer is waited for until the map says that its nodes are down: then it
//! has no lease, and what was in work there has been settled before anything later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_core::order::HostId;
use weft_core::units::{NodeId, VolumeId};

use crate::control_protocol::ControlRequest;
use crate::holder::Holder;
use crate::sessions::Attach;

/// How long a host waits to be let in, before it is sent to another process.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a new host waits for processes that may know its number as another's, before it is let in without their answers.
const PATIENCE_FOR_NEW: Duration = Duration::from_secs(1);

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
    /// It has gone back to this process.
    Returned(NodeId),
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
    /// Those of an earlier version among them. They know numbers alone, and are asked without the holder.
    earlier: BTreeSet<NodeId>,
    refusal: Option<Refusal>,
}

impl Arrival {
    fn applies_for(&self, volume: VolumeId) -> bool {
        matches!(self.question, ControlRequest::WriterComes { volume: v, .. } if v == volume.0)
            && self.refusal.is_none()
    }

    /// Whether it is a new host, which has nothing in progress anywhere and applies for nothing.
    fn is_new(&self) -> bool {
        matches!(self.question, ControlRequest::HostLeave { .. }) && !self.applicant.attach.resumes
    }

    fn is_decided(&self, now: Instant) -> bool {
        let patience = if self.is_new() { PATIENCE_FOR_NEW } else { PATIENCE };
        let late = now.duration_since(self.since) >= patience;
        self.refusal.is_some() || self.waits.is_empty() || late
    }

    fn result(&self) -> Result<Option<VolumeId>, Refusal> {
        let missing = self.waits.keys().next().filter(|_| !self.is_new());
        match (&self.refusal, missing, &self.question) {
            (Some(refusal), ..) => Err(refusal.clone()),
            (None, Some(node), _) => Err(Refusal::Unanswered(*node)),
            (None, None, ControlRequest::WriterComes { volume, .. }) => Ok(Some(VolumeId(*volume))),
            (None, None, _) => Ok(None),
        }
    }

    /// The question for a process, in words that it knows.
    fn question_for(&self, node: NodeId) -> Vec<u8> {
        let question = match self.question {
            ControlRequest::HostLeave { host, .. } if self.earlier.contains(&node) => {
                &ControlRequest::HostLeave { host, holder: None }
            }
            _ => &self.question,
        };
        serde_json::to_vec(question).expect("a request can be written")
    }

    /// Asks the processes that have not been asked.
    fn ask(&mut self, mut ask: impl FnMut(NodeId, &[u8]) -> Option<u64>) {
        let unasked = self.waits.iter().filter(|(_, asked)| asked.is_none());
        for node in unasked.map(|(node, _)| *node).collect::<Vec<_>>() {
            let asked = ask(node, &self.question_for(node));
            self.waits.insert(node, asked);
        }
    }

    /// The questions without an answer.
    fn unanswered(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.waits.iter().filter_map(|(node, asked)| asked.map(|number| (*node, number)))
    }

    /// A process has answered with an error.
    fn refused(&mut self, node: NodeId, answer: &Value) {
        self.waits.insert(node, None);
        if answer["returned"] == true {
            self.refusal = Some(Refusal::Returned(node));
        }
        if answer["error"].as_str().is_some_and(|e| e.contains("`holder`")) {
            self.earlier.insert(node);
            if self.is_new() {
                // Without the holder it would send away whoever has the number.
                self.waits.remove(&node);
            }
        }
    }

    /// A process has answered.
    fn answered(&mut self, node: NodeId, answer: &Value) {
        if answer["ok"] != true {
            return self.refused(node, answer);
        }
        let more = answer["done"].as_array().into_iter().flatten();
        self.applicant.done.extend(more.filter_map(Value::as_u64));
        if answer["writers"].as_u64().is_some_and(|n| n > 0) {
            let why = format!("a host at the process of node {} uses it", node.0);
            self.refusal = Some(Refusal::Taken(why));
        }
        if answer["anothers"] == true {
            self.refusal = Some(Refusal::Anothers);
        }
        self.waits.remove(&node);
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
pub(crate) struct Arrivals {
    all: Vec<Arrival>,
    /// Abandoned questions.
    unwanted: Vec<(NodeId, u64)>,
}

impl Arrivals {
    /// A host has come that must have left these. If it is new, it may be that none of them knows it.
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
        let (earlier, refusal, since) = (BTreeSet::new(), None, now);
        self.all.push(Arrival { conn, applicant, question, since, waits, earlier, refusal });
    }

    /// Whether a host applies here for a volume.
    pub(crate) fn applies_for(&self, volume: VolumeId) -> bool {
        self.all.iter().any(|a| a.applies_for(volume))
    }

    /// How many apply for a volume here, at process `us`, that `asker` must respect: its own host
    /// applies for it, too. Ours are turned away if its is to have it.
    pub(crate) fn writers(&mut self, volume: VolumeId, asker: NodeId, us: NodeId) -> usize {
        let applicants = self.all.iter_mut().filter(|a| a.applies_for(volume));
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
        self.all.is_empty()
    }

    /// When to look again.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        (!self.all.is_empty()).then_some(AGAIN)
    }

    /// A process has answered a question; perhaps one of these.
    pub(crate) fn answered(&mut self, node: NodeId, number: u64, answer: &[u8]) {
        let asked = |a: &&mut Arrival| a.waits.get(&node) == Some(&Some(number));
        for arrival in self.all.iter_mut().filter(asked) {
            arrival.answered(node, &serde_json::from_slice(answer).unwrap_or_default());
        }
    }

    /// The connection to a process broke: it is to be asked again.
    pub(crate) fn lose(&mut self, node: NodeId) {
        for arrival in &mut self.all {
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
        let Arrivals { all, unwanted } = self;
        for gone in all.extract_if(.., |a| !here(a.conn)) {
            unwanted.extend(gone.unanswered());
        }
        for arrival in all.iter_mut() {
            unwanted.extend(arrival.unanswered().filter(|(node, _)| !is_up(*node)));
            arrival.waits.retain(|node, _| is_up(*node));
            if arrival.refusal.is_none() {
                arrival.ask(&mut ask);
            }
        }
        let mut arrived = Vec::new();
        for a in all.extract_if(.., |a| a.is_decided(now)) {
            unwanted.extend(a.unanswered());
            arrived.push(Arrived { conn: a.conn, result: a.result(), applicant: a.applicant });
        }
        arrived
    }

    /// Takes the questions whose answers nobody waits for any more. Otherwise they could end a later stay of the host.
    pub(crate) fn take_unwanted(&mut self) -> Vec<(NodeId, u64)> {
        std::mem::take(&mut self.unwanted)
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

    /// Hosts that wait, with the questions that they have led to.
    #[derive(Default)]
    struct World {
        arrivals: Arrivals,
        /// The process, the number and the text of each.
        asked: Vec<(u16, u64, String)>,
    }

    impl World {
        /// A host comes from another process, or is new, and must have left these.
        fn expect(&mut self, conn: usize, resumes: bool, others: &[NodeId], now: Instant) {
            let attach = Attach { volume: "v".into(), host: Some(HostId(7)), resumes };
            let holder = Holder { name: Some("web".into()), volume: 4 };
            self.arrivals.expect((conn, attach), (HostId(7), holder), others, now);
        }

        fn step(&mut self, now: Instant, down: Option<NodeId>) -> Vec<Arrived> {
            let World { arrivals, asked } = self;
            let ask = |node: NodeId, question: &[u8]| {
                let number = 100 + asked.len() as u64;
                let text = String::from_utf8_lossy(question).into_owned();
                asked.push((node.0, number, text));
                Some(number)
            };
            arrivals.step(now, |n| Some(n) != down, |conn| conn < 20, ask)
        }

        /// A process answers its latest question.
        fn answer(&mut self, node: u16, answer: &str) {
            let (_, number, _) = self.asked.iter().rfind(|(n, ..)| *n == node).unwrap();
            self.arrivals.answered(NodeId(node), *number, answer.as_bytes());
        }

        /// Whether the holder is named in the latest question for a process.
        fn names_holder(&self, node: u16) -> bool {
            self.asked.iter().rfind(|(n, ..)| *n == node).unwrap().2.contains("holder")
        }
    }

    const EARLIER: &str =
        r#"{"ok":false,"error":"bad request: unknown field `holder`, expected `host`"}"#;

    #[test]
    fn a_process_of_an_earlier_version_is_asked_in_its_words() {
        let (mut w, now) = (World::default(), Instant::now());
        w.expect(10, true, &[NodeId(1), NodeId(2)], now);
        assert!(w.step(now, None).is_empty() && w.names_holder(1) && w.names_holder(2));
        w.answer(1, EARLIER);
        w.arrivals.lose(NodeId(2));
        assert!(w.step(now, None).is_empty());
        assert_eq!(w.asked[2], (1, 102, r#"{"cmd":"host-leave","host":7}"#.to_string()));
        assert!(w.asked.len() == 4 && w.names_holder(2), "the others' check stays");
        w.answer(1, r#"{"ok":true,"done":[]}"#);
        w.answer(2, r#"{"ok":true,"done":[]}"#);
        assert_eq!(w.step(now, None)[0].result, Ok(None));
    }

    #[test]
    fn a_new_host_is_turned_away_if_its_number_is_anothers_elsewhere() {
        let (mut w, now) = (World::default(), Instant::now());
        w.expect(10, false, &[NodeId(1), NodeId(2)], now);
        assert!(w.step(now, None).is_empty() && w.names_holder(1) && w.names_holder(2));
        w.answer(1, r#"{"ok":true,"anothers":true}"#);
        assert_eq!(w.step(now, None)[0].result, Err(Refusal::Anothers));
    }

    #[test]
    fn a_new_host_waits_for_slow_processes_a_second_and_for_earlier_ones_not_at_all() {
        let (mut w, now) = (World::default(), Instant::now());
        w.expect(10, false, &[NodeId(1), NodeId(2), NodeId(3)], now);
        assert!(w.step(now, None).is_empty());
        w.answer(1, EARLIER);
        w.answer(3, r#"{"ok":true,"done":[]}"#);
        assert!(w.step(now + AGAIN, None).is_empty());
        assert_eq!(w.asked.len(), 3, "without the holder it would send another host away");
        assert_eq!(w.step(now + Duration::from_secs(1), None)[0].result, Ok(None));
        assert_eq!(w.arrivals.take_unwanted(), [(NodeId(2), 101)]);
    }

    /// A question that stays could be answered much later, and end a later stay of the host at that process.
    #[test]
    fn questions_end_with_those_who_wait() {
        let (mut w, now) = (World::default(), Instant::now());
        let all = [NodeId(1), NodeId(2), NodeId(3)];
        w.expect(10, true, &all, now);
        assert!(w.step(now, None).is_empty());
        w.answer(1, r#"{"ok":true,"done":[5]}"#);
        assert!(w.step(now, Some(NodeId(2))).is_empty());
        assert_eq!(w.arrivals.take_unwanted(), [(NodeId(2), 101)], "its node is down");
        assert!(matches!(w.step(now + PATIENCE, None)[0].result, Err(Refusal::Unanswered(_))));
        assert_eq!(w.arrivals.take_unwanted(), [(NodeId(3), 102)], "it is late");
        w.expect(10, true, &all[..1], now);
        assert!(w.step(now, None).is_empty() && w.arrivals.take_unwanted().is_empty());
        w.arrivals.all[0].conn = 20;
        assert!(w.step(now, None).is_empty() && w.arrivals.is_empty());
        assert_eq!(w.arrivals.take_unwanted(), [(NodeId(1), 103)], "its host is gone");
    }

    #[test]
    fn a_host_that_has_gone_back_is_not_asked_for_again() {
        let (mut w, now) = (World::default(), Instant::now());
        w.expect(10, true, &[NodeId(1)], now);
        assert!(w.step(now, None).is_empty());
        w.answer(1, r#"{"ok":false,"error":"the host has come back","returned":true}"#);
        assert_eq!(w.step(now, None)[0].result, Err(Refusal::Returned(NodeId(1))));
        assert_eq!(w.asked.len(), 1);
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
