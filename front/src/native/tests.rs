//! Both machines against one another, in pieces of any size, and against nonsense.

use bytes::Bytes;
use proptest::prelude::*;

use super::client::{self, Client};
use super::server::{self, ProtocolError, Server};
use super::wire::flag;
use super::*;
use crate::Machine;

const LIMITS: Limits = Limits {
    request_bytes: 1 << 20,
    bytes_in_work: 4 << 20,
    requests_in_work: 64,
    ahead: 1000,
    after: 8,
};

fn hello() -> Hello {
    Hello { from: 1, to: 1, host: 7, oldest: 1, resumes: false, volume: "vol0".into() }
}

fn request(verb: Verb, number: u64) -> NumberedRequest {
    let (offset, length) = if verb == Verb::Flush { (0, 0) } else { (4096 * number, 4096) };
    let data = match verb {
        Verb::Write => Bytes::from(vec![number as u8; length as usize]),
        _ => Bytes::new(),
    };
    let after = Vec::new();
    NumberedRequest { verb, flags: 0, number, oldest: 1, offset, length, after, data }
}

/// Moves what one machine has to say to the other, in steps.
fn carry(from: &mut impl Machine, to: &mut impl Machine, step: usize) {
    while from.output_len() > 0 {
        let piece: Vec<u8> = from.output().flatten().copied().take(step).collect();
        from.sent(piece.len());
        let mut piece = &piece[..];
        while !piece.is_empty() {
            let n = to.space().len().min(piece.len());
            to.space()[..n].copy_from_slice(&piece[..n]);
            to.filled(n);
            piece = &piece[n..];
        }
    }
}

/// A pair that has greeted.
fn pair() -> (Client, Server) {
    let (mut client, mut server) = (Client::new(&hello()), Server::new(LIMITS));
    carry(&mut client, &mut server, 9);
    let Ok(Some(server::Event::Hello(heard))) = server.poll() else { panic!("no hello") };
    assert_eq!(heard, hello());
    server.welcome(1 << 30, true, true, false);
    carry(&mut server, &mut client, 7);
    let Ok(Some(client::Event::Welcome(welcome))) = client.poll() else { panic!("no welcome") };
    assert_eq!((welcome.code, welcome.size, welcome.limits), (Code::Done, 1 << 30, LIMITS));
    assert!(welcome.remembered && welcome.journaled);
    (client, server)
}

fn send_raw(server: &mut Server, bytes: &[u8]) {
    for piece in bytes.chunks(1000) {
        let n = piece.len();
        server.space()[..n].copy_from_slice(piece);
        server.filled(n);
    }
}

fn answers(client: &mut Client) -> Vec<Answer> {
    let mut out = Vec::new();
    while let Some(event) = client.poll().unwrap() {
        let client::Event::Answer(answer) = event else { panic!("{event:?}") };
        out.push(answer);
    }
    out
}

proptest! {
    #[test]
    fn what_is_asked_arrives_and_so_does_what_is_answered(
        verbs in prop::collection::vec(0..5_usize, 1..20),
        names in prop::collection::vec((1..u64::MAX, 1..100_u64), 0..8),
        step in 1..5000_usize,
    ) {
        use Verb::*;
        let (mut client, mut server) = pair();
        let after: Vec<Name> = names.iter().map(|&(host, number)| Name { host, number }).collect();
        for (n, verb) in verbs.iter().enumerate() {
            let verb = [Read, Write, Flush, Trim, WriteZeroes][*verb];
            let flags = [0, flag::DURABLE, flag::AGAIN | flag::AFTER_COMPLETED][n % 3];
            let sent = NumberedRequest { flags, after: after.clone(), ..request(verb, n as u64 + 1) };
            client.request(&sent);
            carry(&mut client, &mut server, step);
            let Ok(Some(server::Event::Request(heard))) = server.poll() else { panic!("nothing") };
            prop_assert_eq!(&heard, &sent);
            let data = match verb {
                Read => vec![Bytes::from(vec![1; 4000]), Bytes::from(vec![2; 96])],
                _ => Vec::new(),
            };
            let because = after.first().copied();
            let code = if because.is_some() { Code::Aborted } else { Code::Done };
            let text = "because".to_string();
            server.answer(Answer { number: heard.number, code, because, text, data: data.clone() });
            carry(&mut server, &mut client, step);
            let told = answers(&mut client);
            prop_assert_eq!(told.len(), 1);
            prop_assert_eq!((told[0].number, told[0].code), (heard.number, code));
            prop_assert_eq!(&told[0].because, &because);
            prop_assert_eq!(told[0].data.concat(), data.concat());
        }
        prop_assert!(server.poll().unwrap().is_none());
    }

    #[test]
    fn nonsense_ends_a_connection_or_waits_for_more(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let mut server = Server::new(LIMITS);
        send_raw(&mut server, &bytes);
        prop_assert!(!matches!(server.poll(), Ok(Some(_))));
        let (_, mut server) = pair();
        send_raw(&mut server, &bytes);
        while let Ok(Some(_)) = server.poll() {}
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_next_is_heard() {
    let name = Name { host: 7, number: 1 };
    for (bad, code) in [
        (NumberedRequest { flags: 128, ..request(Verb::Write, 3) }, Code::Malformed),
        (NumberedRequest { number: 0, oldest: 0, ..request(Verb::Read, 3) }, Code::Malformed),
        (NumberedRequest { oldest: 4, ..request(Verb::Write, 3) }, Code::Malformed),
        (NumberedRequest { length: 0, ..request(Verb::Read, 3) }, Code::Malformed),
        (NumberedRequest { length: 1, ..request(Verb::Flush, 3) }, Code::Malformed),
        (NumberedRequest { length: (1 << 20) + 1, ..request(Verb::Read, 3) }, Code::TooLong),
        (NumberedRequest { after: vec![name; 9], ..request(Verb::Write, 3) }, Code::TooManyAfter),
    ] {
        let (mut client, mut server) = pair();
        client.request(&bad);
        client.request(&request(Verb::Write, 4));
        carry(&mut client, &mut server, 333);
        let Ok(Some(server::Event::Request(heard))) = server.poll() else { panic!("{code:?}") };
        assert_eq!(heard, request(Verb::Write, 4));
        carry(&mut server, &mut client, 333);
        let told = answers(&mut client);
        assert_eq!((told.len(), told[0].number, told[0].code), (1, bad.number, code));
    }
    let (mut client, mut server) = pair();
    let mut head = NumberedRequest { length: 1 << 40, ..request(Verb::Write, 1) };
    head.data = Bytes::new();
    client.request(&head);
    carry(&mut client, &mut server, 333);
    assert_eq!(server.poll().unwrap_err(), ProtocolError::Length(1 << 40));
    assert!(server.poll().is_err(), "it stays so");
}

#[test]
fn hosts_of_other_versions_and_strangers_are_turned_away() {
    for (hello, code) in [
        (Hello { from: 2, to: 9, ..hello() }, Code::Version),
        (Hello { host: 0, ..hello() }, Code::Malformed),
    ] {
        let (mut client, mut server) = (Client::new(&hello), Server::new(LIMITS));
        carry(&mut client, &mut server, 5);
        assert!(server.poll().unwrap().is_none() && server.closing());
        carry(&mut server, &mut client, 5);
        let Ok(Some(client::Event::Welcome(welcome))) = client.poll() else { panic!("nothing") };
        assert_eq!(welcome.code, code);
        assert!(!welcome.text.is_empty());
    }
    let mut server = Server::new(LIMITS);
    send_raw(&mut server, &[b'x'; 64]);
    assert!(matches!(server.poll(), Err(ProtocolError::Hello(_))));
    // NBD's greeting is no welcome.
    let mut client = Client::new(&hello());
    let mut nbd = crate::nbd::server::Server::new();
    carry(&mut nbd, &mut client, 4);
    let said = client.poll().unwrap_err();
    assert_eq!(said, client::ProtocolError::Nbd, "though it is shorter");
    assert!(said.to_string().contains("the other end uses NBD"));
    let mut client = Client::new(&hello());
    client.space()[..8].fill(0);
    client.filled(8);
    assert!(matches!(client.poll(), Err(client::ProtocolError::Welcome(0))));
}

#[test]
fn good_bye_is_the_last_word() {
    let (mut client, mut server) = pair();
    client.request(&NumberedRequest {
        length: 0,
        offset: 0,
        number: 0,
        oldest: 0,
        ..request(Verb::Bye, 0)
    });
    client.request(&request(Verb::Write, 4));
    carry(&mut client, &mut server, 100_000);
    assert!(matches!(server.poll(), Ok(Some(server::Event::Bye))));
    assert!(server.closing() && server.poll().unwrap().is_none());
}

#[test]
fn codes_have_numbers_of_their_own() {
    for (n, code) in Code::ALL.into_iter().enumerate() {
        assert_eq!(Code::of(code as u16), code);
        assert!(Code::ALL[..n].iter().all(|c| *c as u16 != code as u16));
    }
    assert_eq!(Code::of(9999), Code::Failed);
}
