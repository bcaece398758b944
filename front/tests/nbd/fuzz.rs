//! Random bytes, and random commands against an array.

use bytes::Bytes;
use proptest::prelude::*;
use weft_front::Tls;
use weft_front::nbd::client::{Client, ClientRequest, Data, Settings};
use weft_front::nbd::server::{Export, Server};
use weft_front::nbd::wire::{RequestHeader as Header, command, option};

use crate::loopback::{Loopback, pattern};
use crate::raw::{drain, feed, option as opt, serving};

const SIZE: u64 = 128 << 10;

/// Something an option or a command might be.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let data = || prop::collection::vec(any::<u8>(), 0..40);
    let header = (0..12_u16, 0..33_u16, any::<u64>(), any::<u32>());
    let near = (0..9_u16, 0..2_u16, 0..SIZE, 0..9000_u32);
    let command = prop_oneof![header, near].prop_map(|(kind, flags, offset, length)| {
        let cookie = offset;
        let header = Header { flags, kind, cookie, offset, length };
        header.encode().to_vec()
    });
    prop_oneof![
        data(),
        (0..13_u32, data()).prop_map(|(option, data)| opt(option, &data)),
        command,
        Just(opt(option::EXPORT_NAME, b"disk")),
        Just(opt(option::STRUCTURED_REPLY, &[])),
        Just(3_u32.to_be_bytes().to_vec()),
    ]
}

/// A command near what is valid, with its payload.
fn command() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![Just(0_u16), 0..33_u16];
    let offset = prop_oneof![0..SIZE, SIZE - 10_000..SIZE + 2];
    (0..10_u16, flags, offset, 0..9000_u32).prop_map(|(kind, flags, offset, length)| {
        let header = Header {
            flags,
            kind: if kind == command::DISC { 0 } else { kind },
            cookie: offset,
            offset,
            length,
        };
        let mut bytes = header.encode().to_vec();
        if kind == command::WRITE {
            bytes.resize(bytes.len() + length as usize, 0x33);
        }
        bytes
    })
}

/// Feeds messages until the server fails or is closing; it must never panic,
/// hand out what the driver could not do, or get stuck.
fn survive(mut server: Server, messages: &[Vec<u8>]) {
    let export = Export::new("disk", SIZE);
    let mut driver = Loopback::new(export.clone());
    for message in messages {
        assert!(!server.space().is_empty());
        let Ok(commands) = feed(&mut server, &export, message) else {
            assert!(server.poll().is_err());
            return;
        };
        for command in commands {
            let result = driver.disk.carry_out(&command);
            server.reply(command.cookie, result);
        }
        assert_eq!(server.in_flight(), 0);
        drain(&mut server);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write(u64, usize),
    Read(u64, usize),
    Zero(u64, usize),
    Trim(u64, usize),
    Flush,
}

fn act() -> impl Strategy<Value = Act> {
    let range = (0..SIZE).prop_flat_map(|offset| {
        let most = (SIZE - offset).min(50_000) as usize;
        (Just(offset), 1..=most)
    });
    (0..5, range).prop_map(|(kind, (offset, length))| match kind {
        0 => Act::Write(offset, length),
        1 => Act::Read(offset, length),
        2 => Act::Zero(offset, length),
        3 => Act::Trim(offset, length),
        _ => Act::Flush,
    })
}

/// Sends an act and applies it to the shadow; what a read must return.
fn send(client: &mut Client<Loopback>, shadow: &mut [u8], act: &Act, seed: u64) -> Data {
    let shadow_at = |offset: u64, length: usize| {
        let start = offset as usize;
        shadow[start..start + length].to_vec()
    };
    let (offset, new) = match *act {
        Act::Read(offset, length) => {
            let expected = shadow_at(offset, length);
            let length = length as u32;
            client.send(ClientRequest::Read { offset, length });
            return Data::Read(expected.into());
        }
        Act::Flush => {
            client.send(ClientRequest::Flush);
            return Data::Done;
        }
        Act::Write(offset, length) => {
            let new = pattern(length, seed);
            let data = Bytes::from(new.clone());
            let fua = false;
            client.send(ClientRequest::Write { offset, data, fua });
            (offset, new)
        }
        Act::Zero(offset, length) => {
            client.send(ClientRequest::WriteZeroes {
                offset,
                length: length as u32,
                no_hole: seed.is_multiple_of(2),
                fast: false,
                fua: false,
            });
            (offset, vec![0; length])
        }
        Act::Trim(offset, length) => {
            let fua = true;
            let length = length as u32;
            client.send(ClientRequest::Trim { offset, length, fua });
            (offset, vec![0; length as usize])
        }
    };
    shadow[offset as usize..][..new.len()].copy_from_slice(&new);
    Data::Done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_a_client_sends_hurts(
        hello in any::<bool>(),
        tls in prop::sample::select(vec![Tls::Off, Tls::Offered, Tls::Required]),
        messages in prop::collection::vec(message(), 1..40),
    ) {
        let mut server = Server::with_tls(tls);
        if hello {
            let export = Export::new("disk", SIZE);
            feed(&mut server, &export, &3_u32.to_be_bytes()).unwrap();
        }
        survive(server, &messages);
    }

    #[test]
    fn no_command_hurts(
        structured in any::<bool>(),
        messages in prop::collection::vec(message(), 1..40),
    ) {
        survive(serving(&Export::new("disk", SIZE), structured), &messages);
    }

    #[test]
    fn commands_refused_leave_the_stream_in_step(
        structured in any::<bool>(),
        commands in prop::collection::vec(command(), 1..60),
    ) {
        let export = Export::new("disk", SIZE);
        let mut driver = Loopback::new(export.clone());
        let mut server = serving(&export, structured);
        for bytes in commands {
            for command in feed(&mut server, &export, &bytes).unwrap() {
                let result = driver.disk.carry_out(&command);
                server.reply(command.cookie, result);
            }
            prop_assert!(server.between_messages());
            prop_assert!(!drain(&mut server).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn commands_match_an_array(
        acts in prop::collection::vec(act(), 1..40),
        step in prop_oneof![1..100_usize, 1000..100_000_usize, Just(usize::MAX)],
        structured in any::<bool>(),
        pieces in any::<bool>(),
    ) {
        let mut stream = Loopback::new(Export::new("disk", SIZE)).stepping(step);
        stream.disk.pieces = pieces;
        let settings = Settings { structured, ..Settings::default() };
        let mut client = Client::connect_with(stream, "disk", settings).unwrap();
        let mut shadow = vec![0; SIZE as usize];
        let mut expected = Vec::new();
        for (seed, act) in acts.iter().enumerate() {
            expected.push(send(&mut client, &mut shadow, act, seed as u64));
        }
        for data in expected {
            prop_assert_eq!(client.receive().unwrap().result, Ok(data));
        }
        let stream = client.disconnect().unwrap();
        prop_assert!(stream.disk.data == shadow);
    }
}

#[test]
fn a_disconnect_amid_commands_is_no_surprise() {
    let mut goodbye =
        Header { flags: 0, kind: command::DISC, cookie: 0, offset: 0, length: 0 }.encode().to_vec();
    goodbye.extend([0x5a; 5000]);
    let export = Export::new("disk", SIZE);
    survive(serving(&export, true), &[goodbye, vec![0xa5; 100_000]]);
}
