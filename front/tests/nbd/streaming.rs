//! How bytes get in: batches, and payloads received where they stay.

use weft_front::nbd::server::{Event, Export, Op, Server};
use weft_front::nbd::wire::command;

use crate::loopback::{SIZE, pattern};
use crate::raw::{feed, request, serving};

fn receive(server: &mut Server, bytes: &[u8]) -> usize {
    let space = server.space();
    let n = space.len().min(bytes.len());
    space[..n].copy_from_slice(&bytes[..n]);
    server.filled(n);
    n
}

#[test]
fn small_commands_come_in_batches() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, true);
    let write = [&request(command::WRITE, 0, 0, 4096).encode()[..], &pattern(4096, 1)].concat();
    let batch = write.repeat(15);
    assert_eq!(receive(&mut server, &batch), batch.len());
    let mut payloads = Vec::new();
    while let Some(Event::Command(command)) = server.poll().unwrap() {
        let Op::Write(payload) = command.op else {
            panic!("{command:?}");
        };
        payloads.push(payload);
    }
    assert_eq!(payloads.len(), 15);
    // Each owns its bytes alone, so none keeps the others' alive.
    for payload in payloads {
        assert_eq!(payload, pattern(4096, 1));
        assert!(payload.is_unique());
    }
}

#[test]
fn a_large_payload_stays_where_it_was_received() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, true);
    let data = pattern(600_000, 1);
    let header = request(command::WRITE, 0, 0, 600_000).encode();
    let next = request(command::FLUSH, 0, 0, 0).encode();
    receive(&mut server, &[&header[..], &data[..100]].concat());
    assert!(server.poll().unwrap().is_none());

    let mut rest = &[&data[100..], &next].concat()[..];
    let start = server.space().as_ptr() as usize - 100;
    let mut largest = 0;
    let command = loop {
        let n = receive(&mut server, rest);
        largest = largest.max(n);
        rest = &rest[n..];
        if let Some(Event::Command(command)) = server.poll().unwrap() {
            break command;
        }
    };
    let Op::Write(payload) = command.op else {
        panic!("{command:?}");
    };
    assert_eq!(payload, data);
    assert_eq!(payload.as_ptr() as usize, start);
    assert!(largest >= 128 << 10);
    assert_eq!(feed(&mut server, &export, rest).unwrap().len(), 1);
}

#[test]
fn a_driver_that_forgets_to_poll_loses_nothing() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, true);
    let mut bytes = &request(command::FLUSH, 0, 0, 0).encode().repeat(10_000)[..];
    while !bytes.is_empty() {
        bytes = &bytes[receive(&mut server, bytes)..];
    }
    assert_eq!(feed(&mut server, &export, &[]).unwrap().len(), 10_000);
}

#[test]
fn a_question_open_holds_back_what_follows() {
    use crate::raw::{greeted, option as opt};
    use weft_front::nbd::wire::option;
    let export = Export::new("disk", SIZE);
    let mut server = greeted(&export);
    let flush = request(command::FLUSH, 0, 0, 0).encode().to_vec();
    receive(&mut server, &[opt(option::EXPORT_NAME, b""), flush].concat());
    assert!(matches!(server.poll(), Ok(Some(Event::Open { .. }))));
    assert!(matches!(server.poll(), Ok(None)));
    // An answer to a question not asked changes nothing.
    server.exports(&[]);
    assert!(matches!(server.poll(), Ok(None)));
    server.export(Some(export));
    assert!(matches!(server.poll(), Ok(Some(Event::Command(_)))));
}
