//! The graph of one host's requests, and hosts that come back.

use weft_core::Buffer;
use weft_core::plan::Range;

use super::hearing::ABORTED_KEPT;
use super::*;

const HOST: HostId = HostId(7);
const HOLDER: Holder = Holder { name: None, volume: 0 };

struct World {
    hosts: NumberedHosts,
    now: Instant,
    begun: Vec<u64>,
    /// The names under which they did, and of what they come after.
    names: Vec<(RequestId, Vec<RequestId>)>,
    answered: Vec<(u64, Result<(), String>)>,
    hung_up: usize,
}

fn world() -> World {
    let mut hosts = NumberedHosts::default();
    let now = Instant::now();
    assert!(!hosts.arrive(HOST, 1, HOLDER, now));
    let (begun, names, answered) = (Vec::new(), Vec::new(), Vec::new());
    World { hosts, now, begun, names, answered, hung_up: 0 }
}

fn ask(number: u64, after: &[u64]) -> Ask {
    let name = |n: &u64| RequestId { host: HOST, number: *n };
    Ask {
        number,
        oldest: 1,
        op: HostOp::Write(0, Buffer::from(vec![1; 512])),
        after: after.iter().map(name).collect(),
        again: false,
        then_flush: false,
        first_flush: false,
        sequenced: false,
    }
}

impl World {
    fn note(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Begin(host, name, ask) => {
                    assert_eq!((host, name.number), (HOST, ask.number));
                    self.begun.push(ask.number);
                    self.names.push((name, ask.after));
                }
                Step::Answer(_, number, result) => {
                    let result = result.map(drop).map_err(|e| match e {
                        Failure::Host(e) => e.to_string(),
                        Failure::TooFarAhead { oldest, .. } => format!("ahead of {oldest}"),
                        later => later.to_string(),
                    });
                    self.answered.push((number, result));
                }
                Step::HangUp(_) => self.hung_up += 1,
            }
        }
    }

    fn take(&mut self, ask: Ask) {
        let mut steps = Vec::new();
        self.hosts.take(HOST, ask, self.now, &mut steps);
        self.note(steps);
    }

    fn finish(&mut self, number: u64, result: Result<HostData, HostError>) {
        let mut steps = Vec::new();
        self.hosts.finished(HOST, number, result, self.now, &mut steps);
        self.note(steps);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let mut steps = Vec::new();
        self.hosts.do_due(self.now, &mut steps);
        self.note(steps);
    }

    fn come_back(&mut self, conn: usize) -> bool {
        let before = self.hosts.conn(HOST).unwrap();
        assert!(self.hosts.lose(HOST, before, self.now));
        self.hosts.arrive(HOST, conn, HOLDER, self.now)
    }

    fn error_of(&self, number: u64) -> &str {
        let of = |a: &&(u64, Result<(), String>)| a.0 == number;
        self.answered.iter().rfind(of).unwrap().1.as_ref().unwrap_err()
    }
}

const DONE: Result<HostData, HostError> = Ok(HostData::Done);

#[test]
fn a_request_begins_when_all_that_come_first_are_complete() {
    let mut w = world();
    w.take(ask(3, &[1, 2]));
    w.take(ask(1, &[]));
    w.take(ask(2, &[1]));
    w.take(ask(4, &[]));
    assert_eq!(w.begun, [1, 4]);
    w.finish(1, DONE);
    assert_eq!(w.begun, [1, 4, 2]);
    w.finish(4, DONE);
    w.finish(2, DONE);
    assert_eq!(w.begun, [1, 4, 2, 3]);
    w.finish(3, DONE);
    assert_eq!(w.answered, [(1, Ok(())), (4, Ok(())), (2, Ok(())), (3, Ok(()))]);
    // What the host has heard of is complete, whether or not it is still known.
    w.take(Ask { oldest: 5, ..ask(5, &[1, 4]) });
    assert_eq!(w.begun.last(), Some(&5));
    assert_eq!(w.hosts.hosts[&HOST].requests.len(), 1, "the rest is forgotten");
}

#[test]
fn an_abort_reaches_all_that_come_after_and_says_because_of_which() {
    let mut w = world();
    w.take(ask(1, &[]));
    w.take(ask(2, &[1]));
    w.take(ask(4, &[2, 3]));
    w.take(ask(5, &[]));
    w.finish(1, Err(HostError::TooManyLost));
    assert_eq!(w.begun, [1, 5]);
    assert!(w.error_of(1).contains("more columns are lost"));
    assert!(w.error_of(2).starts_with("request 1 of host"), "{}", w.error_of(2));
    assert!(w.error_of(4).starts_with("request 1 of host"), "the root: {}", w.error_of(4));
    assert!(w.hosts.hosts[&HOST].unissued.is_empty(), "nobody waits for 3 any more");
    // Also of those that come later, for a while even if the host has heard.
    w.take(Ask { oldest: 5, ..ask(6, &[4]) });
    assert!(w.error_of(6).starts_with("request 1"));
    w.pass(ABORTED_KEPT);
    w.take(Ask { oldest: 7, ..ask(7, &[4]) });
    assert_eq!(w.begun.last(), Some(&7));
    let known = w.hosts.hosts[&HOST].requests.keys().copied().collect::<Vec<_>>();
    assert_eq!(known, [5, 7], "5 is in work");
    w.finish(5, DONE);
    assert!(!w.hosts.hosts[&HOST].requests.contains_key(&5), "its host has heard, as it says");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut w = world();
    w.take(ask(1, &[1]));
    assert!(w.error_of(1).contains("follow itself"));
    w.take(ask(3, &[2]));
    w.take(ask(2, &[4]));
    assert!(w.error_of(2).contains("cannot follow 4, which comes later"), "{}", w.error_of(2));
    assert!(w.error_of(3).starts_with("request 2"), "and what waited for it is aborted");
    w.take(ask(5, &[]));
    w.take(ask(5, &[]));
    assert!(w.error_of(5).contains("issued before"));
    w.take(ask(3, &[]));
    assert!(w.error_of(3).contains("issued before"));
    w.take(Ask { after: vec![RequestId { host: HostId(8), number: 1 }], ..ask(6, &[]) });
    assert!(w.error_of(6).contains("to another host"));
    w.take(ask(1 + AHEAD, &[]));
    assert_eq!(w.error_of(1 + AHEAD), "ahead of 1");
    w.take(Ask { oldest: 9, ..ask(9, &[]) });
    w.take(ask(8, &[]));
    assert!(w.error_of(8).contains("issued before"), "the host said that it had heard of it");
}

/// Hosts choose numbers freely.
#[test]
fn the_largest_numbers_do_no_harm() {
    let mut w = world();
    let most = u64::MAX;
    w.take(ask(1, &[]));
    w.finish(1, Err(HostError::NoSpace));
    let last = |after: &[u64]| Ask { oldest: most, ..ask(most, after) };
    w.take(last(&[most]));
    assert!(w.error_of(most).contains("itself"), "{}", w.error_of(most));
    w.take(Ask { oldest: most, ..ask(2, &[]) });
    assert!(w.error_of(2).contains("issued before"));
    let mut w = world();
    w.take(Ask { oldest: most - 1, ..ask(most, &[most - 1]) });
    assert!(w.begun.is_empty(), "it waits for the other");
    w.take(Ask { oldest: most - 1, ..ask(most - 1, &[]) });
    w.finish(most - 1, Ok(HostData::Done));
    assert_eq!(w.begun, [most - 1, most]);
    let mut w = world();
    w.take(ask(most, &[]));
    assert_eq!(w.error_of(most), "ahead of 1");
}

#[test]
fn only_so_many_may_be_awaited_that_are_not_sent_and_only_so_long() {
    let mut w = world();
    let many: Vec<u64> = (100..100 + MOST_UNISSUED as u64).collect();
    w.take(ask(200, &many));
    w.take(ask(201, &[100]));
    w.take(ask(202, &[99]));
    assert!(w.error_of(202).contains("no more are accepted"));
    assert_eq!(w.hosts.next_due(), Some(w.now + NEVER_ISSUED));
    w.pass(NEVER_ISSUED / 2);
    w.take(ask(100, &[]));
    w.pass(NEVER_ISSUED / 2);
    assert!(w.error_of(200).contains("not issued in time"), "{}", w.error_of(200));
    assert_eq!(w.hosts.next_due(), None);
    assert_eq!(w.begun, [100]);
    w.take(ask(101, &[]));
    assert!(w.error_of(101).contains("too late"), "{}", w.error_of(101));
    w.take(ask(203, &[101]));
    assert!(w.error_of(203).starts_with("request 101"), "{}", w.error_of(203));
    w.finish(100, DONE);
    assert_eq!(w.begun, [100, 201]);
    assert_eq!(w.answered.last(), Some(&(100, Ok(()))));
}

#[test]
fn a_host_that_comes_back_hears_the_end_of_what_it_began() {
    let mut w = world();
    for n in 1..=4 {
        w.take(ask(n, &[]));
    }
    w.take(ask(5, &[1]));
    w.finish(2, DONE);
    w.answered.clear();
    assert!(w.come_back(2), "it is remembered");
    w.finish(3, DONE);
    w.finish(4, Err(HostError::TooManyLost));
    assert_eq!(w.answered, [], "nobody listened");
    for n in 1..=4 {
        w.take(Ask { again: true, ..ask(n, &[]) });
    }
    assert_eq!(w.begun, [1, 2, 3, 4], "none is done twice");
    assert_eq!(w.answered[..2], [(2, Ok(())), (3, Ok(()))]);
    assert!(w.error_of(4).contains("more columns are lost"));
    w.take(Ask { again: true, ..ask(5, &[1]) });
    w.finish(1, DONE);
    assert_eq!(w.begun, [1, 2, 3, 4, 5], "what was held was given up, and is new");
    assert_eq!(w.answered.last(), Some(&(1, Ok(()))));
}

#[test]
fn what_was_sent_before_may_have_happened_though_it_is_refused_now() {
    let unknown = || Err(HostError::OutcomeUnknown.to_string());
    let mut w = world();
    w.take(Ask { again: true, ..ask(1, &[]) });
    w.take(Ask { again: true, ..ask(2, &[1]) });
    w.take(ask(3, &[2]));
    w.finish(1, Err(HostError::OutcomeUnknown));
    let aborted = |of| PlaceError::Aborted(RequestId { host: HOST, number: of }).to_string();
    assert_eq!(w.answered, [(1, unknown()), (2, unknown()), (3, Err(aborted(1)))]);
    w.answered.clear();
    w.take(Ask { again: true, ..ask(4, &[1]) });
    w.take(ask(5, &[1]));
    assert_eq!(w.answered, [(4, unknown()), (5, Err(aborted(1)))]);
    w.answered.clear();
    w.take(Ask { again: true, sequenced: true, ..ask(6, &[1]) });
    w.finish(6, Err(PlaceError::NotOrdered(RequestId { host: HOST, number: 1 }).into()));
    assert_eq!(w.answered, [(6, unknown())]);
    let read = HostOp::Read(Range { offset: 0, len: 512 });
    w.take(Ask { op: read, again: true, ..ask(7, &[1]) });
    assert_eq!(w.answered[1], (7, Err(aborted(1))), "a read has no outcome");
}

#[test]
fn what_was_given_up_is_done_again_if_its_host_still_wants_it() {
    let mut w = world();
    w.take(ask(1, &[]));
    w.take(ask(2, &[]));
    w.come_back(2);
    w.take(Ask { again: true, ..ask(1, &[]) });
    w.take(ask(3, &[2]));
    w.finish(1, Err(HostError::Gone));
    w.finish(2, Err(HostError::Gone));
    assert_eq!((&w.begun[..], w.answered.len()), (&[1, 2, 1][..], 0));
    w.take(Ask { again: true, ..ask(2, &[]) });
    w.finish(2, DONE);
    assert_eq!(w.begun, [1, 2, 1, 2, 3]);
}

#[test]
fn reads_are_done_again_and_no_node_means_another_process() {
    let mut w = world();
    let read = HostOp::Read(Range { offset: 0, len: 512 });
    w.take(Ask { op: read.clone(), ..ask(1, &[]) });
    w.finish(1, DONE);
    w.come_back(2);
    w.take(Ask { op: read, again: true, ..ask(1, &[]) });
    assert_eq!(w.begun, [1, 1]);
    w.take(ask(2, &[]));
    w.finish(2, Err(HostError::NotServing));
    assert_eq!(w.hung_up, 1);
    assert_eq!(w.answered.len(), 1, "it is not refused: it may be done elsewhere");
}

#[test]
fn the_nodes_see_to_the_order_where_there_is_a_sequencer() {
    let mut w = world();
    let after = vec![RequestId { host: HostId(8), number: 1 }];
    w.take(Ask { sequenced: true, after, ..ask(1, &[]) });
    w.take(Ask { sequenced: true, ..ask(2, &[1, 2, 3]) });
    assert_eq!(w.begun, [1, 2]);
    w.take(Ask { sequenced: true, ..ask(2, &[]) });
    assert!(w.error_of(2).contains("issued before"));
}

#[test]
fn a_sequencer_is_given_no_name_twice() {
    let mut w = world();
    let sequenced = |number, after: &[u64]| Ask { sequenced: true, ..ask(number, after) };
    (1..=2).for_each(|n| w.take(sequenced(n, &[n - 1])));
    // Their node stops.
    (1..=2).for_each(|n| w.finish(n, Err(HostError::Gone)));
    assert_eq!(w.begun, [1, 2, 1, 2]);
    let name = |n: usize| w.names[n].0;
    assert!(name(2).host != HOST && name(3).host == name(2).host);
    assert_eq!(w.names[3].1, [name(2)], "it comes after the other under its new name");
    w.take(sequenced(3, &[2]));
    assert_eq!((w.names[4].0.host, &w.names[4].1), (HOST, &vec![w.names[3].0]));
    let aborted = w.names[2].0;
    w.finish(2, Err(PlaceError::Aborted(aborted).into()));
    assert_eq!(w.error_of(2), HostError::OutcomeUnknown.to_string(), "it was begun before");
    w.finish(1, DONE);
    w.take(sequenced(4, &[1, 3]));
    let three = RequestId { host: HOST, number: 3 };
    assert_eq!(w.names[5].1, [three], "what is done need not be named");
    w.take(Ask { again: true, ..sequenced(5, &[]) });
    assert!(w.names[6].0.host != HOST, "the nodes may know it");
    assert_eq!(w.names[6].0.host, w.names[3].0.host);
    w.take(sequenced(6, &[5]));
    w.finish(6, Err(PlaceError::Aborted(w.names[6].0).into()));
    assert_eq!(w.error_of(6), PlaceError::Aborted(RequestId { host: HOST, number: 5 }).to_string());
}

#[test]
fn hosts_are_forgotten_in_the_end() {
    let mut w = world();
    w.take(ask(1, &[]));
    assert!(!w.hosts.lose(HOST, 5, w.now), "another connection's end");
    w.come_back(2);
    w.hosts.bye(HOST, 2, w.now);
    w.now += 2 * REMEMBERED;
    let other = |n: u64| HostId(100 + n);
    for n in 0..2 * MOST_REMEMBERED as u64 {
        assert!(!w.hosts.arrive(other(n), 10, HOLDER, w.now));
        w.hosts.lose(other(n), 10, w.now);
    }
    assert!(w.hosts.hosts.contains_key(&HOST), "something of it is in work");
    assert!(w.hosts.hosts.len() <= MOST_REMEMBERED + 1);
    w.finish(1, Err(HostError::Gone));
    assert!(!w.hosts.hosts.contains_key(&HOST), "it said good-bye, and nothing is left of it");
    w.hosts.arrive(other(0), 11, HOLDER, w.now);
    w.hosts.bye(other(0), 11, w.now);
    assert!(!w.hosts.hosts.contains_key(&other(0)));
}

#[test]
fn a_host_takes_with_it_what_was_done() {
    let mut w = world();
    (1..=3).for_each(|n| w.take(ask(n, &[])));
    w.finish(1, DONE);
    w.finish(2, Err(HostError::TooManyLost));
    let stay = w.hosts.stay(HOST);
    assert_eq!(w.hosts.take_leave(HOST, stay), Departure::InProgress, "it is connected");
    w.hosts.lose(HOST, 1, w.now);
    assert_eq!(w.hosts.take_leave(HOST, stay), Departure::InProgress, "3 is in work");
    w.finish(3, Err(HostError::Gone));
    let Departure::Left(done) = w.hosts.take_leave(HOST, stay) else { panic!("it has left") };
    assert_eq!(done, [1]);

    let mut there = world();
    there.hosts.adopt(HOST, &done);
    for n in 1..=3 {
        there.take(Ask { again: true, ..ask(n, &[]) });
    }
    assert_eq!((&there.begun[..], &there.answered[..]), (&[2, 3][..], &[(1, Ok(()))][..]));
}

/// The process that asked first may not let the host in, so that another asks, or the host comes back.
#[test]
fn what_was_done_is_known_here_after_its_host_has_left() {
    let mut w = world();
    w.take(ask(1, &[]));
    w.take(ask(2, &[]));
    w.finish(1, DONE);
    w.finish(2, Err(HostError::TooManyLost));
    w.hosts.lose(HOST, 1, w.now);
    let stay = w.hosts.stay(HOST);
    for _ in 0..2 {
        assert_eq!(w.hosts.take_leave(HOST, stay), Departure::Left(vec![1]));
    }
    let web = Holder { name: Some("web".into()), volume: 0 };
    assert!(w.hosts.is_anothers(HOST, &web, w.now), "its number stays its own");
    assert!(!w.hosts.is_here(HOST) && !w.hosts.arrive(HOST, 2, HOLDER, w.now));
    assert!(w.hosts.is_here(HOST));
    w.take(Ask { again: true, ..ask(1, &[]) });
    w.take(Ask { again: true, ..ask(2, &[]) });
    assert_eq!(w.answered.last(), Some(&(1, Ok(()))));
    assert_eq!(w.begun, [1, 2, 2], "what failed here may be done elsewhere");
    w.finish(2, DONE);
    w.hosts.lose(HOST, 2, w.now);
    w.now += 2 * REMEMBERED;
    assert!(!w.hosts.is_anothers(HOST, &web, w.now), "not for ever");
}

#[test]
fn a_host_that_has_come_back_is_not_let_go_for_an_earlier_question() {
    let mut w = world();
    w.take(ask(1, &[]));
    w.finish(1, Err(HostError::TooManyLost));
    let stay = w.hosts.stay(HOST);
    assert!(w.come_back(2));
    assert_eq!(w.hosts.take_leave(HOST, stay), Departure::Returned);
    w.hosts.lose(HOST, 2, w.now);
    assert_eq!(w.hosts.take_leave(HOST, stay), Departure::Returned);
    assert!(w.hosts.arrive(HOST, 3, HOLDER, w.now), "it is remembered");
    w.take(Ask { again: true, ..ask(1, &[]) });
    assert_eq!(w.begun, [1], "what failed is known");
}

/// Numbers are no secret.
#[test]
fn a_number_is_of_one_host_with_one_volume_until_it_is_forgotten() {
    let mut w = world();
    let holder = |name: Option<&str>, volume| Holder { name: name.map(str::to_string), volume };
    let web = || holder(Some("web"), 0);
    w.hosts.arrive(HostId(8), 2, web(), w.now);
    w.take(ask(1, &[]));
    for (host, anothers) in [(HOST, web()), (HOST, holder(None, 1)), (HostId(8), HOLDER)] {
        assert!(w.hosts.is_anothers(host, &anothers, w.now), "{anothers:?}");
    }
    for other in [holder(Some("db"), 0), holder(Some("web"), 1)] {
        assert!(w.hosts.is_anothers(HostId(8), &other, w.now), "{other:?}");
    }
    assert!(!w.hosts.is_anothers(HOST, &HOLDER, w.now));
    assert!(!w.hosts.is_anothers(HostId(8), &web(), w.now));
    assert!(!w.hosts.is_anothers(HostId(9), &web(), w.now), "nobody has it");
    w.hosts.lose(HostId(8), 2, w.now);
    assert!(w.hosts.is_anothers(HostId(8), &HOLDER, w.now), "it may come back");
    assert!(!w.hosts.is_anothers(HostId(8), &HOLDER, w.now + 2 * REMEMBERED));
}
