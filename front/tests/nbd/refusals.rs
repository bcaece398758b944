//! Commands that are refused, and answers that do not fit.

use bytes::Bytes;
use weft_front::nbd::client::{Client, ClientError, ClientRequest};
use weft_front::nbd::server::{Errno, Export, Extent, Op, Piece, ProtocolError, Reply};
use weft_front::nbd::wire::{RequestHeader as Header, command, error, flag};

use crate::loopback::{Loopback, SIZE};
use crate::raw::{code, drain, feed, request, serving};

/// The error a request meets before the driver hears of it. A write's payload
/// is sent along, and afterwards the connection must still be in step.
fn refused(export: &Export, structured: bool, header: Header) -> u32 {
    let mut server = serving(export, structured);
    let mut bytes = header.encode().to_vec();
    if header.kind == command::WRITE {
        bytes.resize(bytes.len() + header.length as usize, 0x55);
    }
    assert!(feed(&mut server, export, &bytes).unwrap().is_empty());
    assert_eq!(server.in_flight(), 0);
    let reply = drain(&mut server);
    let next = request(command::FLUSH, 0, 0, 0).encode();
    assert_eq!(feed(&mut server, export, &next).unwrap().len(), 1);
    if !structured {
        return code(&reply);
    }
    let length = u16::from_be_bytes([reply[24], reply[25]]);
    assert!(length > 0, "no message");
    assert_eq!(reply.len(), 26 + usize::from(length));
    u32::from_be_bytes(reply[20..24].try_into().unwrap())
}

#[test]
fn senseless_requests_are_refused() {
    use command::*;
    let export = Export { min_block: 512, max_payload: 1 << 16, ..Export::new("disk", SIZE) };
    let (inval, nospc, notsup) = (error::EINVAL, error::ENOSPC, error::ENOTSUP);
    let cases = [
        // Past the end.
        (READ, 0, SIZE, 512, inval),
        (READ, 0, SIZE - 512, 1024, inval),
        (READ, 0, u64::MAX - 511, 512, inval),
        (READ, 0, u64::MAX - 511, 1024, inval),
        (TRIM, 0, SIZE - 512, 1024, inval),
        (CACHE, 0, SIZE - 512, 1024, inval),
        (WRITE, 0, SIZE - 512, 1024, nospc),
        (WRITE, 0, u64::MAX - 511, 1024, nospc),
        (WRITE_ZEROES, 0, SIZE, 512, nospc),
        // Too long.
        (READ, 0, 0, (1 << 16) + 512, inval),
        (WRITE, 0, 0, (1 << 16) + 512, inval),
        (WRITE, 0, 0, 3 << 20, inval),
        // Empty.
        (READ, 0, 0, 0, inval),
        (WRITE, 0, 0, 0, inval),
        (TRIM, 0, 0, 0, inval),
        (WRITE_ZEROES, 0, 0, 0, inval),
        (CACHE, 0, 0, 0, inval),
        // Blocks cut in two.
        (READ, 0, 1, 512, inval),
        (READ, 0, 0, 513, inval),
        (WRITE, 0, 256, 512, inval),
        (TRIM, 0, 512, 256, inval),
        // Flags that are unknown, or do not belong.
        (READ, 1 << 5, 0, 512, inval),
        (READ, 1 << 15, 0, 512, inval),
        (READ, flag::NO_HOLE, 0, 512, inval),
        (READ, flag::REQ_ONE, 0, 512, inval),
        (WRITE, flag::DF, 0, 512, inval),
        (WRITE, flag::NO_HOLE, 0, 512, inval),
        (TRIM, flag::FAST_ZERO, 0, 512, inval),
        (FLUSH, flag::DF, 0, 0, inval),
        // A flush takes no range.
        (FLUSH, 0, 512, 0, inval),
        (FLUSH, 0, 0, 512, inval),
        // Not offered, not negotiated, or not known.
        (WRITE_ZEROES, flag::FAST_ZERO, 0, 512, notsup),
        (BLOCK_STATUS, 0, 0, 512, inval),
        (RESIZE, 0, 4096, 0, notsup),
        (9, 0, 0, 512, inval),
        (u16::MAX, 0, 0, 512, inval),
    ];
    for (kind, flags, offset, length, expected) in cases {
        let header = request(kind, flags, offset, length);
        for structured in [false, true] {
            assert_eq!(refused(&export, structured, header), expected, "{header:?}");
        }
    }
    // What is valid with structured replies only.
    let whole = request(READ, flag::DF, 0, 512);
    assert_eq!(refused(&export, false, whole), inval);
}

#[test]
fn the_last_byte_is_the_last() {
    let export = Export::new("disk", SIZE);
    for (kind, past) in [
        (command::READ, error::EINVAL),
        (command::TRIM, error::EINVAL),
        (command::WRITE_ZEROES, error::ENOSPC),
    ] {
        let mut server = serving(&export, true);
        let last = request(kind, 0, SIZE - 1, 1);
        let commands = feed(&mut server, &export, &last.encode()).unwrap();
        assert_eq!(commands.len(), 1);
        for (offset, length) in [(SIZE - 1, 2), (SIZE, 1), (u64::MAX, 1)] {
            let header = request(kind, 0, offset, length);
            assert_eq!(refused(&export, true, header), past, "{header:?}");
        }
    }
}

#[test]
fn a_read_only_export_stays_as_it_is() {
    let export = Export { read_only: true, ..Export::new("disk", SIZE) };
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let header = request(kind, 0, 0, 512);
        assert_eq!(refused(&export, true, header), error::EPERM);
    }
    let mut client = Client::connect(Loopback::new(export), "").unwrap();
    assert_eq!(client.read_at(0, 3).unwrap(), [0; 3][..]);
    match client.write_at(0, &[1; 100_000], false) {
        Err(ClientError::Failed(errno)) => {
            assert_eq!(errno.code(), error::EPERM);
            assert_eq!(errno.message(), "export is read-only");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.read_at(0, 3).unwrap(), [0; 3][..]);
}

#[test]
fn errors_of_the_driver_reach_the_client() {
    let export = Export { fast_zero: true, ..Export::new("disk", SIZE) };
    let mut client = Client::connect(Loopback::new(export), "").unwrap();
    let zero = ClientRequest::WriteZeroes {
        offset: 0,
        length: 512,
        no_hole: false,
        fast: true,
        fua: false,
    };
    match client.call(zero) {
        Err(ClientError::Failed(errno)) => {
            assert_eq!(errno, Errno::ENOTSUP.with("zeroing is slow"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, true);
    let bytes = request(command::FLUSH, 0, 0, 0).encode();
    let commands = feed(&mut server, &export, &bytes).unwrap();
    let message = "x".to_owned() + &"é".repeat(3000);
    server.reply(commands[0].cookie, Err(Errno::EIO.with(message)));
    let reply = drain(&mut server);
    assert_eq!(std::str::from_utf8(&reply[26..]).unwrap().len(), 4095);
}

#[test]
fn answers_that_do_not_fit_become_errors() {
    let export = Export::new("disk", SIZE);
    let data = |n: usize| Reply::Data(vec![Bytes::from(vec![0; n])]);
    let extents = Reply::Extents(vec![]);
    let cases = [
        (command::READ, 512, Reply::Done),
        (command::READ, 512, data(511)),
        (command::READ, 512, data(513)),
        (command::READ, 512, Reply::Data(vec![])),
        (command::READ, 512, Reply::Pieces(vec![Piece::Zeroes(513)])),
        (command::READ, 512, extents.clone()),
        (command::TRIM, 512, data(512)),
        (command::FLUSH, 0, extents),
    ];
    for (kind, length, reply) in cases {
        let mut server = serving(&export, false);
        let bytes = request(kind, 0, 0, length).encode();
        let commands = feed(&mut server, &export, &bytes).unwrap();
        server.reply(commands[0].cookie, Ok(reply));
        let sent = drain(&mut server);
        assert_eq!((code(&sent), sent.len()), (error::EIO, 16));
    }
}

#[test]
fn extents_are_tidied() {
    let mut client = Client::connect(Loopback::new(Export::new("disk", SIZE)), "").unwrap();
    let cookie = client.send(ClientRequest::BlockStatus { offset: 0, length: 10, one: false });
    client.stream().hold = true;
    client.push().unwrap();
    let extent = |length, zero| Extent { length, hole: false, zero };
    let untidy = [(3, true), (0, false), (3, true), (2, false), (90, true)];
    let untidy = untidy.map(|(length, zero)| extent(length, zero));
    let loopback = client.stream();
    loopback.answer(Ok(Reply::Extents(untidy.to_vec())));
    let completion = client.receive().unwrap();
    assert_eq!(completion.cookie, cookie);
    let tidy = [extent(6, true), extent(2, false), extent(2, true)];
    let told = weft_front::nbd::client::Data::Extents(tidy.to_vec(), Vec::new());
    assert_eq!(completion.result, Ok(told));
}

#[test]
fn garbage_and_monstrous_writes_are_fatal() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, true);
    let error = feed(&mut server, &export, &[0x41; 28]).unwrap_err();
    assert_eq!(error, ProtocolError::RequestMagic(0x4141_4141));
    assert_eq!(error.to_string(), "command begins with 0x41414141");

    let monster = (64 << 20) + 1;
    let mut server = serving(&export, true);
    let bytes = request(command::WRITE, 0, 0, monster).encode();
    let error = feed(&mut server, &export, &bytes).unwrap_err();
    assert_eq!(error, ProtocolError::PayloadLength(monster));
    assert!(feed(&mut server, &export, &[1; 100_000]).is_err());
}

#[test]
fn a_write_cut_short_never_happens() {
    let export = Export::new("disk", SIZE);
    for sent in [0, 10, 4095, 100_000, 199_999] {
        let mut server = serving(&export, true);
        let mut bytes = request(command::WRITE, 0, 0, 200_000).encode().to_vec();
        bytes.resize(bytes.len() + sent, 1);
        assert!(feed(&mut server, &export, &bytes).unwrap().is_empty());
        assert!(!server.between_messages());
        assert_eq!(server.in_flight(), 0);
        let rest = vec![1; 200_000 - sent];
        let commands = feed(&mut server, &export, &rest).unwrap();
        assert_eq!(commands[0].op, Op::Write(vec![1; 200_000].into()));
        assert!(server.between_messages());
    }
}
