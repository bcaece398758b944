//! What is sent when, and what a broken connection leaves.

use weft_front::Machine;
use weft_front::native::client::Event;
use weft_front::native::server::{self, Server};
use weft_front::native::{Hello, wire};

use super::*;

const LIMITS: Limits = Limits {
    request_bytes: 1 << 20,
    bytes_in_work: 1 << 20,
    requests_in_work: 8,
    ahead: 10,
    after: 4,
};

/// A host, and the node's side of its connection.
struct World {
    state: State,
    link: Client,
    node: Server,
    heard: Vec<NumberedRequest>,
}

fn carry(from: &mut impl Machine, to: &mut impl Machine) {
    let bytes: Vec<u8> = from.output().flatten().copied().collect();
    from.sent(bytes.len());
    for piece in bytes.chunks(1000) {
        to.space()[..piece.len()].copy_from_slice(piece);
        to.filled(piece.len());
    }
}

fn connect(state: &mut State) -> (Client, Server) {
    let (from, to, volume) = (wire::VERSION, wire::VERSION, "v".to_string());
    let hello =
        Hello { from, to, host: state.host, oldest: state.oldest(), resumes: false, volume };
    let (mut link, mut node) = (Client::new(&hello), Server::new(LIMITS));
    carry(&mut link, &mut node);
    assert!(matches!(node.poll(), Ok(Some(server::Event::Hello(_)))));
    node.welcome(1 << 30, false, true, false);
    carry(&mut node, &mut link);
    let Ok(Some(Event::Welcome(welcome))) = link.poll() else { panic!("no welcome") };
    state.welcome = Some(welcome);
    (link, node)
}

fn world() -> World {
    let mut state = State::new(7);
    let (link, node) = connect(&mut state);
    World { state, link, node, heard: Vec::new() }
}

impl World {
    fn write(&mut self, offset: u64, after: &[u64]) -> Completion {
        let data = Bytes::from(vec![1; 512]);
        let (verb, length) = (Verb::Write, 512);
        let request = NumberedRequest {
            verb,
            flags: 0,
            number: 0,
            oldest: 0,
            offset,
            length,
            after: vec![],
            data,
        };
        let after: Vec<Id> = after.iter().map(|n| Id { host: 7, number: *n }).collect();
        self.state.take(request, &after).unwrap()
    }

    /// The numbers of what the node hears now.
    fn sent(&mut self) -> Vec<u64> {
        self.state.send(&mut self.link);
        carry(&mut self.link, &mut self.node);
        let mut numbers = Vec::new();
        while let Some(server::Event::Request(request)) = self.node.poll().unwrap() {
            numbers.push(request.number);
            self.heard.push(request);
        }
        numbers
    }

    fn answer(&mut self, number: u64, code: Code) {
        let (because, text, data) = (None, String::new(), Vec::new());
        self.state.ended(Answer { number, code, because, text, data });
    }

    fn reconnect(&mut self) {
        self.state.unsend();
        (self.link, self.node) = connect(&mut self.state);
    }

    fn last(&self) -> &NumberedRequest {
        self.heard.last().unwrap()
    }
}

#[test]
fn changes_of_the_same_bytes_and_what_follows_them_wait_here() {
    let mut w = world();
    drop(w.write(0, &[]));
    drop(w.write(100, &[]));
    drop(w.write(600, &[]));
    drop(w.write(4096, &[2]));
    drop(w.write(8192, &[1]));
    assert_eq!(w.sent(), [1, 5]);
    assert_eq!(w.last().after, [Name { host: 7, number: 1 }]);
    w.answer(1, Code::Done);
    assert_eq!(w.sent(), [2, 4], "3 touches what 2 changes");
    assert_eq!(w.last().after, [Name { host: 7, number: 2 }]);
    assert_eq!(w.last().oldest, 2);
    w.answer(2, Code::Done);
    assert_eq!(w.sent(), [3]);
    for n in [3, 4, 5] {
        w.answer(n, Code::Done);
    }
    assert!(w.state.is_idle());
    assert_eq!((w.state.oldest(), w.state.weight), (6, 0));
    assert!(w.state.busy.is_free(0, u64::MAX));
}

#[test]
fn what_is_complete_is_not_named_and_what_failed_takes_others_with_it() {
    let mut w = world();
    let (first, second) = (w.write(0, &[]), w.write(4096, &[]));
    assert_eq!(w.sent(), [1, 2]);
    w.answer(1, Code::Done);
    assert_eq!(first.get().unwrap(), Ok(Bytes::new()));
    drop(w.write(8192, &[1]));
    assert_eq!(w.sent(), [3]);
    assert_eq!((&w.last().after[..], w.last().flags), (&[][..], flag::AFTER_COMPLETED));
    let behind = w.write(4096, &[]);
    let follows = w.write(0, &[behind.id().number]);
    assert_eq!(w.sent(), [] as [u64; 0], "4 waits for 2, and 5 for 4");
    w.answer(2, Code::Lost);
    assert_eq!(second.get().unwrap().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(w.sent(), [4, 5], "they do not come after 2, only later");
    w.answer(4, Code::Lost);
    assert_eq!(follows.get(), None, "the node says what becomes of it");
    let late = w.write(0, &[4, 1]);
    let error = late.get().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.because()), (ErrorKind::Aborted, Some(behind.id())));
    let later = w.write(0, &[late.id().number]);
    assert_eq!(later.get().unwrap().unwrap_err().because(), Some(behind.id()), "the root");
    let impossible = w.write(0, &[100]);
    assert_eq!(impossible.get().unwrap().unwrap_err().kind(), ErrorKind::Place);
}

impl World {
    /// Whether the last that the node heard is the notice that a request was refused here.
    fn heard_notice(&self, number: u64) -> bool {
        let r = self.last();
        let names_itself = r.after == [Name { host: 7, number }];
        (r.verb, r.number, r.flags, names_itself) == (Verb::Flush, number, 0, true)
    }
}

/// Other hosts may name them.
#[test]
fn the_node_is_told_of_what_is_refused_here() {
    let mut w = world();
    drop(w.write(0, &[]));
    assert_eq!(w.sent(), [1]);
    w.answer(1, Code::Lost);
    let refused = w.write(4096, &[1]);
    assert_eq!(refused.get().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(w.sent(), [2]);
    assert!(w.heard_notice(2));
    assert_eq!(w.last().oldest, 2, "it is not past before the node has answered");
    assert!(!w.state.is_idle());
    w.reconnect();
    assert_eq!(w.sent(), [2]);
    assert!(w.heard_notice(2), "and not as one that may have been done");
    w.answer(2, Code::AfterItself);
    assert!(w.state.is_idle());
    assert_eq!((w.state.oldest(), w.state.weight), (3, 0));
    drop(w.write(0, &[2]));
    assert_eq!(w.sent(), [3]);
    assert!(w.heard_notice(3), "it stays refused");
}

#[test]
fn the_node_is_told_of_what_ends_before_it_is_sent_and_after_a_connection_broke() {
    let mut w = world();
    drop((w.write(0, &[]), w.write(100, &[])));
    let all = [w.write(8192, &[2]), w.write(12288, &[2, 3])];
    assert_eq!(w.sent(), [1], "2 changes the same bytes");
    w.answer(1, Code::Done);
    assert_eq!(w.sent(), [2, 3, 4]);
    w.answer(2, Code::Lost);
    w.reconnect();
    for ended in &all {
        assert_eq!(ended.get().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    }
    assert_eq!(w.sent(), [3, 4]);
    assert!(w.heard_notice(4));
    w.answer(3, Code::Reused);
    w.answer(4, Code::Aborted);
    assert!(w.state.is_idle());
    let held = [w.write(0, &[]), w.write(0, &[]), w.write(4096, &[6]), w.write(8192, &[7, 6])];
    assert_eq!(w.sent(), [5]);
    w.state.unsend();
    w.state.refuse(6, Error::new(ErrorKind::Failed, "to see what follows"));
    for ended in &held[1..] {
        assert!(ended.get().unwrap().is_err());
    }
    assert_eq!(w.state.weight, 512);
    w.state.die(Error::new(ErrorKind::Unreachable, "gone"));
    assert!(w.state.is_idle() && w.state.unsent.is_empty());
}

#[test]
fn what_was_not_answered_is_sent_again_with_what_it_still_comes_after() {
    let mut w = world();
    for after in [&[][..], &[1], &[1, 2], &[]] {
        drop(w.write(4096 * w.state.next, after));
    }
    let last = w.write(0, &[4]);
    assert_eq!(w.sent(), [1, 2, 3, 4, 5]);
    w.answer(1, Code::Done);
    w.answer(4, Code::Lost);
    assert_eq!(last.get(), None, "the connection breaks before the node says so");
    w.reconnect();
    assert_eq!(last.get().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(w.sent(), [2, 3, 5]);
    assert!(w.heard_notice(5));
    let again = &w.heard[5..];
    assert_eq!(again[0].flags, flag::AGAIN | flag::AFTER_COMPLETED);
    assert_eq!((again[0].number, &again[0].after[..], again[0].oldest), (2, &[][..], 2));
    assert_eq!(again[1].after, [Name { host: 7, number: 2 }]);
    w.answer(4, Code::Done);
    w.answer(99, Code::Done);
    w.state.die(Error::new(ErrorKind::Unreachable, "gone"));
    assert!(w.state.is_idle() && w.state.dead.is_some());
}

#[test]
fn what_was_sent_over_an_earlier_connection_may_have_happened() {
    let mut w = world();
    drop(w.write(0, &[]));
    let follower = w.write(4096, &[1]);
    assert_eq!(w.sent(), [1, 2]);
    w.reconnect();
    let new = w.write(8192, &[1]);
    assert_eq!(w.sent(), [1, 2, 3]);
    w.answer(1, Code::Unknown);
    w.reconnect();
    // The node before the last may have done it, and the first, too.
    let why = follower.get().unwrap().unwrap_err();
    assert_eq!((why.kind(), why.because().map(|id| id.number)), (ErrorKind::Failed, Some(1)));
    assert!(why.to_string().contains("is unknown"), "{why}");
    assert_eq!(new.get().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
}

#[test]
fn there_is_room_for_so_many_so_much_and_so_far() {
    let mut w = world();
    for n in 0..8 {
        assert!(!w.state.is_full(), "{n}");
        drop(w.write(4096 * n, &[]));
    }
    assert!(w.state.is_full(), "so many");
    w.sent();
    (2..=8).for_each(|n| w.answer(n, Code::Done));
    drop(w.write(1 << 20, &[]));
    assert!(!w.state.is_full());
    drop(w.write(2 << 20, &[]));
    assert!(w.state.is_full(), "so far: 11 is 10 ahead of 1");
    w.sent();
    w.answer(1, Code::Done);
    let read = NumberedRequest {
        verb: Verb::Read,
        length: 1 << 20,
        data: Bytes::new(),
        ..w.last().clone()
    };
    assert!(!w.state.is_full());
    drop(w.state.take(NumberedRequest { after: vec![], ..read.clone() }, &[]).unwrap());
    assert!(w.state.is_full(), "so much");
    let long =
        w.state.take(NumberedRequest { length: (1 << 20) + 1, ..read.clone() }, &[]).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
    let none = w.state.take(NumberedRequest { length: 0, ..read }, &[]).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Invalid);
}

impl World {
    fn after_all(&mut self) -> Completion {
        let flush = Outstanding::notice(7, 0).request;
        self.state.take_after_all(NumberedRequest { after: vec![], ..flush }).unwrap()
    }
}

#[test]
fn a_barrier_comes_after_all_that_have_not_ended() {
    let mut w = world();
    drop(w.after_all());
    assert_eq!(w.sent(), [1]);
    assert_eq!((&w.last().after[..], w.last().flags), (&[][..], 0), "there is nothing to wait for");
    w.answer(1, Code::Done);
    drop((w.write(0, &[]), w.write(4096, &[2]), w.write(8192, &[])));
    let all = w.after_all();
    assert_eq!(w.sent(), [2, 3, 4, 5], "it is not held back");
    let named: Vec<u64> = w.last().after.iter().map(|n| n.number).collect();
    assert_eq!(named, [3, 4], "2 is named by 3");
    w.answer(4, Code::Lost);
    w.reconnect();
    assert_eq!(all.get().unwrap().unwrap_err().because(), Some(Id { host: 7, number: 4 }));
}

/// Four may be named.
#[test]
fn a_barrier_waits_for_what_it_cannot_name() {
    for code in [Code::Done, Code::Lost] {
        let mut w = world();
        for n in 0..6 {
            drop(w.write(4096 * n, &[]));
        }
        let all = w.after_all();
        assert_eq!(w.sent(), [1, 2, 3, 4, 5, 6]);
        w.answer(5, Code::Done);
        w.reconnect();
        assert_eq!(w.sent(), [1, 2, 3, 4, 6], "not 7");
        w.answer(6, code);
        assert_eq!(w.sent(), [7]);
        match code {
            Code::Done => {
                let named: Vec<u64> = w.last().after.iter().map(|n| n.number).collect();
                assert_eq!((named, w.last().flags), (vec![1, 2, 3, 4], flag::AFTER_COMPLETED));
            }
            _ => {
                let error = all.get().unwrap().unwrap_err();
                assert_eq!(error.because(), Some(Id { host: 7, number: 6 }));
                assert!(w.heard_notice(7));
            }
        }
    }
}

#[test]
fn who_asks_is_told_of_each_end_once() {
    let mut w = world();
    drop(w.write(0, &[]));
    assert_eq!(w.sent(), [1]);
    w.answer(1, Code::Done);
    w.state.told = Some(VecDeque::new());
    drop((w.write(0, &[]), w.write(4096, &[2]), w.write(8192, &[99])));
    assert_eq!(w.sent(), [2, 3, 4]);
    w.answer(4, Code::AfterItself);
    w.answer(3, Code::Done);
    w.state.die(Error::new(ErrorKind::Unreachable, "gone"));
    let told: Vec<u64> = w.state.told.take().unwrap().iter().map(|id| id.number).collect();
    assert_eq!(told, [4, 3, 2], "4 when it was refused here, and its notice not at all");
}

#[test]
fn an_abort_says_the_first_that_was_not_done() {
    let mut w = world();
    drop((w.write(0, &[]), w.write(4096, &[1])));
    let (third, first) = (w.write(8192, &[2]), Id { host: 7, number: 1 });
    assert_eq!(w.sent(), [1, 2, 3]);
    w.answer(1, Code::Lost);
    for number in [2, 3] {
        let because = Some(Name { host: 7, number: number - 1 });
        let text = "as a node says it that names the nearest".to_string();
        w.state.ended(Answer { number, code: Code::Aborted, because, text, data: vec![] });
    }
    let error = third.get().unwrap().unwrap_err();
    assert_eq!(error.because(), Some(first));
    assert_eq!(error.to_string(), format!("{first}, which must come first, was not done"));
    assert_eq!(format!("{first:?}"), "request 1 of host 0000000000000007");
}
