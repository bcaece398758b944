//! Commands that succeed.

use std::collections::HashMap;

use bytes::Bytes;
use weft_front::nbd::client::{Client, ClientError, ClientRequest, Data, Settings};
use weft_front::nbd::server::{Errno, Export, Exposure, Extent, Reply};
use weft_front::nbd::wire::{command, flag};

use crate::disk::BLOCK;
use crate::loopback::{Loopback, SIZE, client, pattern};
use crate::raw::{code, drain, feed, request, serving};

const SIMPLE: Settings =
    Settings { structured: false, allocation: false, exposed: false, go: true };

#[test]
fn every_command_does_its_work() {
    for (settings, step) in [
        (Settings::default(), usize::MAX),
        (Settings::default(), 1),
        (SIMPLE, usize::MAX),
        (SIMPLE, 1),
        (SIMPLE, 1000),
    ] {
        let stream = Loopback::new(Export::new("disk", SIZE)).stepping(step);
        let mut client = Client::connect_with(stream, "disk", settings).unwrap();
        let data = pattern(150_000, 3);
        client.write_at(1000, &data, false).unwrap();
        client.write_at(0, &data[..10], true).unwrap();
        assert_eq!(client.read_at(1000, 150_000).unwrap(), data);
        assert_eq!(client.read_at(0, 10).unwrap(), data[..10]);
        client.trim(2000, 100).unwrap();
        client.write_zeroes(2100, 100).unwrap();
        assert_eq!(client.read_at(2000, 200).unwrap(), vec![0; 200]);
        assert_eq!(client.read_at(2200, 1).unwrap(), data[1200..1201]);
        let (offset, length) = (0, 4096);
        let cached = client.call(ClientRequest::Cache { offset, length }).unwrap();
        assert_eq!(cached, Data::Done);
        client.flush().unwrap();
        assert_eq!(client.stream().disk.durable, 2);
        let stream = client.disconnect().unwrap();
        assert!(stream.server.closing());
        assert!(stream.server.between_messages());
        assert_eq!(stream.server.in_flight(), 0);
    }
}

#[test]
fn replies_may_come_in_any_order() {
    for (settings, step) in [(Settings::default(), 7), (SIMPLE, usize::MAX)] {
        let mut stream = Loopback::new(Export::new("disk", SIZE)).stepping(step);
        stream.hold = true;
        let mut client = Client::connect_with(stream, "disk", settings).unwrap();
        let mut writes = Vec::new();
        for i in 0..100 {
            let data = Bytes::from(pattern(1 + 37 * i as usize, i));
            let offset = i * 8192;
            let fua = i % 2 == 0;
            writes.push(client.send(ClientRequest::Write { offset, data, fua }));
        }
        let order: Vec<_> = (0..100).map(|_| client.receive().unwrap().cookie).collect();
        writes.reverse();
        assert_eq!(order, writes);

        let mut reads = HashMap::new();
        for i in 0..100 {
            let (offset, length) = (i * 8192, 1 + 37 * i as u32);
            reads.insert(client.send(ClientRequest::Read { offset, length }), i);
        }
        assert_eq!(client.in_flight(), 100);
        for _ in 0..100 {
            let completion = client.receive().unwrap();
            let i = reads.remove(&completion.cookie).unwrap();
            let data = Bytes::from(pattern(1 + 37 * i as usize, i));
            assert_eq!(completion.result, Ok(Data::Read(data)));
        }
        assert!(matches!(client.receive(), Err(ClientError::Idle)));
    }
}

#[test]
fn waiting_for_one_keeps_the_others() {
    let mut client = client();
    let first = client.send(ClientRequest::Flush);
    client.flush().unwrap();
    assert_eq!(client.in_flight(), 1);
    assert_eq!(client.receive().unwrap().cookie, first);
}

#[test]
fn zeroes_known_of_need_not_be_sent() {
    for settings in [Settings::default(), SIMPLE] {
        let mut stream = Loopback::new(Export::new("disk", SIZE));
        stream.disk.pieces = true;
        let mut client = Client::connect_with(stream, "disk", settings).unwrap();
        let data = pattern(3 * BLOCK, 5);
        client.write_at(10 * BLOCK as u64, &data, false).unwrap();
        let all = client.read_at(0, SIZE as u32).unwrap();
        assert_eq!(all[10 * BLOCK..13 * BLOCK], data);
        assert!(all[..10 * BLOCK].iter().all(|byte| *byte == 0));
        assert!(all[13 * BLOCK..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_whole_read_is_not_cut() {
    use weft_front::nbd::server::Piece;
    let export = Export::new("disk", SIZE);
    let read = |flags| {
        let mut server = serving(&export, true);
        let bytes = request(command::READ, flags, 0, 3000).encode();
        let commands = feed(&mut server, &export, &bytes).unwrap();
        let data = Piece::Data(Bytes::from(vec![7; 1000]));
        let pieces = vec![Piece::Zeroes(1000), data, Piece::Zeroes(1000)];
        server.reply(commands[0].cookie, Ok(Reply::Pieces(pieces)));
        drain(&mut server).len()
    };
    assert_eq!(read(0), 20 + 12 + 20 + 8 + 1000 + 20 + 12);
    assert_eq!(read(flag::DF), 20 + 8 + 3000);
}

#[test]
fn extents_are_told() {
    let mut client = client();
    client.write_at(8 * 4096, &pattern(8192, 1), false).unwrap();
    let extents = client.block_status(4096, SIZE as u32 - 4096).unwrap();
    let extent = |length, hole| Extent { length, hole, zero: hole };
    let told = [extent(7 * 4096, true), extent(8192, false), extent(SIZE as u32 - 10 * 4096, true)];
    assert_eq!(extents, told);
    let one = client.call(ClientRequest::BlockStatus {
        offset: 4096,
        length: SIZE as u32 - 4096,
        one: true,
    });
    assert_eq!(one.unwrap(), Data::Extents(vec![told[0]], Vec::new()));
}

/// An export whose driver can tell what is exposed.
fn telling() -> Export {
    Export { exposure: true, ..Export::new("disk", SIZE) }
}

#[test]
fn what_is_exposed_is_told_beside_what_is_allocated_or_alone() {
    for (allocation, hold) in [(true, false), (true, true), (false, false)] {
        let settings = Settings { allocation, exposed: true, ..Settings::default() };
        let mut stream = Loopback::new(telling());
        stream.hold = hold;
        let mut client = Client::connect_with(stream, "disk", settings).unwrap();
        assert_eq!(client.opened().exposed.is_some(), client.opened().structured);
        client.write_at(8 * 4096, &pattern(8192, 1), false).unwrap();
        let length = 4 * 4096;
        let told = client.call(ClientRequest::BlockStatus { offset: 7 * 4096, length, one: false });
        let extent = |length, hole| Extent { length, hole, zero: hole };
        let extents = [extent(4096, true), extent(8192, false), extent(4096, true)];
        let extents = if allocation { extents.to_vec() } else { Vec::new() };
        let exposure = |length, exposed| Exposure { length, exposed };
        let exposed = [exposure(2 * 4096, false), exposure(4096, true), exposure(4096, false)];
        assert_eq!(told.unwrap(), Data::Extents(extents, exposed.to_vec()));
        let one = client.call(ClientRequest::BlockStatus { offset: 9 * 4096, length, one: true });
        let Ok(Data::Extents(_, first)) = one else { panic!("{one:?}") };
        assert_eq!(first, [exposure(4096, true)], "as asked, no more than one");
        assert_eq!(client.exposed(9 * 4096, 4096).unwrap(), first);
    }
}

#[test]
fn where_one_of_two_contexts_cannot_be_told_the_question_fails_once() {
    for failing in [0, 1] {
        let settings = Settings { exposed: true, ..Settings::default() };
        let mut client = Client::connect_with(Loopback::new(telling()), "", settings).unwrap();
        client.stream().hold = true;
        let question = ClientRequest::BlockStatus { offset: 0, length: 4096, one: false };
        let cookie = client.send(question);
        client.push().unwrap();
        // The latest that is held is answered first: what is exposed.
        let exposure = Reply::Exposure(vec![Exposure { length: 4096, exposed: true }]);
        let extents = Reply::Extents(vec![Extent { length: 4096, hole: true, zero: true }]);
        for (n, reply) in [exposure, extents].into_iter().enumerate() {
            let result = if n == failing { Err(Errno::EIO.with("no")) } else { Ok(reply) };
            client.stream().answer(result);
        }
        let completion = client.receive().unwrap();
        assert_eq!((completion.cookie, completion.result), (cookie, Err(Errno::EIO.with("no"))));
        assert_eq!(client.stream().server.in_flight(), 0);
        client.stream().hold = false;
        assert_eq!(client.read_at(0, 512).unwrap(), vec![0; 512], "the stream goes on");
    }
}

#[test]
fn an_answer_in_another_context_does_not_fit() {
    let settings = Settings { exposed: true, allocation: false, ..Settings::default() };
    let mut client = Client::connect_with(Loopback::new(telling()), "", settings).unwrap();
    client.send(ClientRequest::BlockStatus { offset: 0, length: 4096, one: false });
    client.stream().hold = true;
    client.push().unwrap();
    let extents = Reply::Extents(vec![Extent { length: 4096, hole: true, zero: true }]);
    client.stream().answer(Ok(extents));
    let result = client.receive().unwrap().result;
    assert_eq!(result.unwrap_err().code(), Errno::EIO.code());
}

/// Many extents take memory, and a client that wants the first of them has no use for the others.
#[test]
fn questions_look_further_where_there_is_little_to_tell() {
    use crate::raw::{greeted, option as opt};
    use weft_front::nbd::wire::{flag, option};
    let export = Export::new("disk", 1 << 40);
    let mut server = greeted(&export);
    let name = |name: &str| [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
    let meta = [name("disk"), vec![0, 0, 0, 1], name("base:allocation")].concat();
    let talk = [
        opt(option::STRUCTURED_REPLY, &[]),
        opt(option::SET_META_CONTEXT, &meta),
        opt(option::EXPORT_NAME, b"disk"),
    ];
    feed(&mut server, &export, &talk.concat()).unwrap();
    const MOST: u32 = u32::MAX - 4095;
    let mut look = |flags, extent: u32| {
        let asked = request(command::BLOCK_STATUS, flags, 0, MOST).encode();
        let commands = feed(&mut server, &export, &asked).unwrap();
        let [asked] = &commands[..] else { panic!("{commands:?}") };
        let length = asked.length;
        let extents = (0..length.div_ceil(extent)).map(|n| Extent {
            length: extent.min(length - n * extent),
            hole: n % 2 == 0,
            zero: n % 2 == 0,
        });
        server.reply(asked.cookie, Ok(Reply::Extents(extents.collect())));
        length >> 20
    };
    let one = flag::REQ_ONE;
    assert_eq!([0, 0, 0, 0].map(|flags| look(flags, MOST)), [4, 64, 1024, 4095], "a hole");
    assert_eq!([0, 0, 0].map(|flags| look(flags, 65536)), [4095, 1024, 64], "much");
    assert_eq!([0, 0, 0].map(|flags| look(flags, 65536)), [1024, 64, 1024]);
    assert_eq!([one, one, one].map(|flags| look(flags, 65536)), [64, 4, 4]);
    assert_eq!([one, one].map(|flags| look(flags, MOST)), [4, 64]);
}

#[test]
fn an_export_of_another_name_has_no_contexts() {
    use crate::raw::{greeted, option as opt};
    use weft_front::nbd::wire::option;
    let export = Export::new("disk", SIZE);
    let status = |chosen: &str| {
        let mut server = greeted(&export);
        let name = |name: &str| [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
        let meta = [name(chosen), vec![0, 0, 0, 1], name("base:allocation")].concat();
        let talk = [
            opt(option::STRUCTURED_REPLY, &[]),
            opt(option::SET_META_CONTEXT, &meta),
            opt(option::EXPORT_NAME, b"disk"),
            request(command::BLOCK_STATUS, 0, 0, 4096).encode().to_vec(),
        ];
        feed(&mut server, &export, &talk.concat()).unwrap().len()
    };
    assert_eq!(status("disk"), 1);
    assert_eq!(status(""), 1);
    assert_eq!(status("other"), 0);
}

#[test]
fn a_client_may_reuse_its_cookies_at_once() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, false);
    let bytes = request(command::FLUSH, 0, 0, 0).encode().repeat(3);
    let commands = feed(&mut server, &export, &bytes).unwrap();
    assert_eq!(server.in_flight(), 3);
    for (left, command) in commands.into_iter().enumerate().rev() {
        server.reply(command.cookie, Ok(Reply::Done));
        assert_eq!(server.in_flight(), left);
        assert_eq!(code(&drain(&mut server)), 0);
    }
}

#[test]
fn what_is_in_flight_is_finished_after_goodbye() {
    let export = Export::new("disk", SIZE);
    let mut server = serving(&export, false);
    let talk = [
        request(command::FLUSH, 0, 0, 0),
        request(command::DISC, 0, 0, 0),
        request(command::FLUSH, 0, 0, 0),
    ];
    let bytes = talk.map(|request| request.encode()).concat();
    let commands = feed(&mut server, &export, &bytes).unwrap();
    assert_eq!(commands.len(), 1);
    assert!(server.closing());
    assert_eq!(server.in_flight(), 1);
    server.reply(commands[0].cookie, Err(Errno::EIO));
    assert_eq!(code(&drain(&mut server)), Errno::EIO.code());
    assert_eq!(server.in_flight(), 0);
}

#[test]
fn flags_reach_the_driver() {
    use weft_front::nbd::server::Op;
    let mut export = Export::new("disk", SIZE);
    export.fast_zero = true;
    let mut server = serving(&export, true);
    let flags = flag::FUA | flag::NO_HOLE | flag::FAST_ZERO;
    let bytes = request(command::WRITE_ZEROES, flags, 512, 1024).encode();
    let commands = feed(&mut server, &export, &bytes).unwrap();
    let (no_hole, fast) = (true, true);
    assert_eq!(commands[0].op, Op::WriteZeroes { no_hole, fast });
    assert!(commands[0].fua);
    assert_eq!((commands[0].offset, commands[0].length), (512, 1024));
}
