//! From the greeting to the open export, and the ways not to get there.

use weft_front::nbd::client::{self, Client, ClientError, Settings};
use weft_front::nbd::server::{Event, Export, ProtocolError, Server, Snapshot};
use weft_front::nbd::wire::{answer, handshake, option, transmission};

use crate::loopback::Loopback;
use crate::raw::{answers, drain, feed, greeted, option as opt};

fn export() -> Export {
    Export {
        description: "a disk of rust".into(),
        preferred_block: 65536,
        min_block: 512,
        ..Export::new("disk", 1 << 20)
    }
}

/// The kinds of answer to one option.
fn kinds(option: u32, data: &[u8]) -> Vec<u32> {
    let export = export();
    let mut server = greeted(&export);
    feed(&mut server, &export, &opt(option, data)).unwrap();
    let all = answers(&drain(&mut server));
    assert!(all.iter().all(|(to, ..)| *to == option));
    all.iter().map(|(_, kind, _)| *kind).collect()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

#[test]
fn a_client_learns_all_about_the_export() {
    for step in [1, usize::MAX] {
        let client = Client::connect(Loopback::new(export()).stepping(step), "disk").unwrap();
        let opened = client.opened();
        assert_eq!(opened.name, "disk");
        assert_eq!(opened.description, "a disk of rust");
        assert_eq!(client.size(), 1 << 20);
        assert_eq!(client.min_block(), 512);
        assert_eq!(opened.preferred_block, 65536);
        assert_eq!(opened.max_payload, 32 << 20);
        assert!(opened.structured);
        assert!(opened.allocation.is_some());
    }
}

#[test]
fn the_empty_name_stands_for_the_default() {
    let client = Client::connect(Loopback::new(export()), "").unwrap();
    assert_eq!(client.opened().name, "disk");
    assert!(client.opened().allocation.is_some());
}

#[test]
fn exports_are_listed() {
    for step in [1, usize::MAX] {
        let mut stream = Loopback::new(export()).stepping(step);
        stream.exports.push(Export::new("another", 5));
        stream.exports.push(Export::new("", 5));
        assert_eq!(client::list(stream).unwrap(), ["disk", "another", ""]);
    }
}

#[test]
fn an_unknown_export_is_refused_with_a_reason() {
    let error = Client::connect(Loopback::new(export()), "nothing").err();
    match error {
        Some(ClientError::Refused { kind, message, .. }) => {
            assert_eq!(kind, answer::ERR_UNKNOWN);
            assert_eq!(message, "no such export");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_old_way_in_works_and_refuses_by_hanging_up() {
    let settings = Settings { go: false, ..Settings::default() };
    let client = Client::connect_with(Loopback::new(export()), "disk", settings).unwrap();
    assert_eq!(client.size(), 1 << 20);
    let error = Client::connect_with(Loopback::new(export()), "nothing", settings).err();
    assert!(matches!(error, Some(ClientError::Io(_))), "{error:?}");
}

#[test]
fn padding_comes_unless_waived() {
    for (flags, length) in [(1_u32, 8 + 2 + 124), (3, 8 + 2)] {
        let mut server = Server::new();
        drain(&mut server);
        let hello = [flags.to_be_bytes().to_vec(), opt(option::EXPORT_NAME, b"disk")];
        feed(&mut server, &export(), &hello.concat()).unwrap();
        assert_eq!(drain(&mut server).len(), length);
        assert_eq!(server.opened().map(|export| export.size), Some(1 << 20));
    }
}

#[test]
fn flags_tell_what_the_export_can_do() {
    use transmission::*;
    let flags = |change: fn(&mut Export)| {
        let mut export = export();
        change(&mut export);
        let client = Client::connect(Loopback::new(export), "").unwrap();
        client.opened().flags
    };
    let common = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_CACHE | SEND_DF;
    let writable = common | SEND_TRIM | SEND_WRITE_ZEROES;
    assert_eq!(flags(|_| {}), writable);
    assert_eq!(flags(|e| e.read_only = true), common | READ_ONLY);
    assert_eq!(flags(|e| e.multi_conn = true), writable | CAN_MULTI_CONN);
    assert_eq!(flags(|e| e.rotational = true), writable | ROTATIONAL);
    assert_eq!(flags(|e| e.fast_zero = true), writable | SEND_FAST_ZERO);
}

#[test]
fn sizes_a_client_would_choke_on_are_mended() {
    let odd = Export {
        min_block: 3000,
        preferred_block: 0,
        max_payload: 1,
        ..Export::new("odd", 10_000)
    };
    let client = Client::connect(Loopback::new(odd), "").unwrap();
    assert_eq!(client.min_block(), 4096);
    assert_eq!(client.size(), 8192);
    assert_eq!(client.opened().preferred_block, 4096);
    assert_eq!(client.opened().max_payload, 4096);
}

#[test]
fn what_is_not_spoken_is_refused_and_talk_goes_on() {
    for option in [option::STARTTLS, option::EXTENDED_HEADERS, 4, 99, u32::MAX] {
        assert_eq!(kinds(option, b"some data"), [answer::ERR_UNSUP]);
    }
    let export = export();
    let mut server = greeted(&export);
    let talk = [opt(option::STARTTLS, &[]), opt(option::EXPORT_NAME, b"")].concat();
    feed(&mut server, &export, &talk).unwrap();
    assert!(server.opened().is_some());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let invalid = [answer::ERR_INVALID];
    assert_eq!(kinds(option::LIST, b"x"), invalid);
    assert_eq!(kinds(option::STRUCTURED_REPLY, b"x"), invalid);
    for option in [option::INFO, option::GO] {
        assert_eq!(kinds(option, b""), invalid);
        assert_eq!(kinds(option, &[0, 0, 0, 9, b'd', 0, 0]), invalid);
        assert_eq!(kinds(option, &[&string("disk")[..], &[0]].concat()), invalid);
        assert_eq!(kinds(option, &[&string("disk")[..], &[0, 1]].concat()), invalid);
        assert_eq!(kinds(option, &[0, 0, 0, 1, 0xff, 0, 0]), invalid);
        let long = [&string(&"n".repeat(4097))[..], &[0, 0]].concat();
        assert_eq!(kinds(option, &long), invalid);
    }
}

#[test]
fn info_tells_and_opens_nothing() {
    let export = export();
    let mut server = greeted(&export);
    let data = [&string("disk")[..], &[0, 0]].concat();
    feed(&mut server, &export, &opt(option::INFO, &data)).unwrap();
    let kinds: Vec<_> = answers(&drain(&mut server)).iter().map(|(_, kind, _)| *kind).collect();
    assert_eq!(kinds, [answer::INFO, answer::INFO, answer::ACK]);
    assert!(server.opened().is_none());
}

#[test]
fn who_may_not_have_an_export_is_told_why_and_may_ask_for_another() {
    let export = export();
    let mut server = greeted(&export);
    let data = [&string("disk")[..], &[0, 0]].concat();
    type Refuse = fn(&mut Server, String);
    let ways: [(Refuse, u32); 3] = [
        (Server::forbid_without_tls, answer::ERR_POLICY),
        (Server::puts_off, answer::ERR_SHUTDOWN),
        (Server::lacks, answer::ERR_UNKNOWN),
    ];
    for ((kind, settling), (refuse, code)) in [(option::INFO, false), (option::GO, true)]
        .into_iter()
        .flat_map(|asked| ways.map(|way| (asked, way)))
    {
        let asked = opt(kind, &data);
        server.space()[..asked.len()].copy_from_slice(&asked);
        server.filled(asked.len());
        let event = server.poll().unwrap();
        assert!(matches!(event, Some(Event::Open { settles, .. }) if settles == settling));
        refuse(&mut server, "it is taken".into());
        let told = answers(&drain(&mut server));
        assert_eq!(told, [(kind, code, b"it is taken".to_vec())]);
    }
    feed(&mut server, &export, &opt(option::GO, &data)).unwrap();
    assert!(server.opened().is_some());
}

#[test]
fn contexts_follow_the_rules() {
    let export = export();
    let query = |name: &str, queries: &[&str]| {
        let count = (queries.len() as u32).to_be_bytes().to_vec();
        let queries = queries.iter().map(|query| string(query)).collect::<Vec<_>>();
        [string(name), count, queries.concat()].concat()
    };
    let list = option::LIST_META_CONTEXT;
    let set = option::SET_META_CONTEXT;
    let base = ["base:allocation"];
    assert_eq!(kinds(set, &query("disk", &base)), [answer::ERR_INVALID]);
    let told = |option: u32, data: &[u8]| {
        let mut server = greeted(&export);
        feed(&mut server, &export, &opt(option::STRUCTURED_REPLY, &[])).unwrap();
        drain(&mut server);
        feed(&mut server, &export, &opt(option, data)).unwrap();
        let all = answers(&drain(&mut server));
        all.iter().map(|(_, kind, _)| *kind).collect::<Vec<_>>()
    };
    let found = [answer::META_CONTEXT, answer::ACK];
    assert_eq!(told(list, &query("disk", &[])), found);
    assert_eq!(told(list, &query("disk", &["base:"])), found);
    assert_eq!(told(list, &query("disk", &["x:y", "base:allocation"])), found);
    assert_eq!(told(set, &query("disk", &base)), found);
    assert_eq!(told(set, &query("", &base)), found);
    assert_eq!(told(list, &query("disk", &["other:"])), [answer::ACK]);
    assert_eq!(told(set, &query("disk", &[])), [answer::ACK]);
    assert_eq!(told(set, &query("disk", &["base:"])), [answer::ACK]);
    assert_eq!(told(set, &query("none", &base)), [answer::ERR_UNKNOWN]);
    assert_eq!(told(set, b"\0\0\0\x01d\0\0\0\x01"), [answer::ERR_INVALID]);
    let weft = ["weft:exposed"];
    assert_eq!(told(set, &query("disk", &weft)), [answer::ACK], "nobody can tell it");
    assert_eq!(told(list, &query("disk", &["weft:"])), [answer::ACK]);
    let trailing = [query("disk", &base), vec![0]].concat();
    assert_eq!(told(set, &trailing), [answer::ERR_INVALID]);
}

/// The numbers and names of the contexts that an option is answered with.
fn contexts_of(export: &Export, option: u32, queries: &[&str]) -> Vec<(u32, String)> {
    let mut server = greeted(export);
    feed(&mut server, export, &opt(option::STRUCTURED_REPLY, &[])).unwrap();
    drain(&mut server);
    let count = (queries.len() as u32).to_be_bytes().to_vec();
    let queries = queries.iter().map(|query| string(query)).collect::<Vec<_>>().concat();
    let data = [string("disk"), count, queries].concat();
    feed(&mut server, export, &opt(option, &data)).unwrap();
    let all = answers(&drain(&mut server));
    let named = all.iter().filter(|(_, kind, _)| *kind == answer::META_CONTEXT);
    named
        .map(|(_, _, data)| {
            let (id, name) = data.split_first_chunk::<4>().unwrap();
            (u32::from_be_bytes(*id), String::from_utf8(name.to_vec()).unwrap())
        })
        .collect()
}

#[test]
fn contexts_of_changes_are_offered_for_each_snapshot() {
    let snapshot = |name: &str, number| Snapshot { name: name.to_string(), number };
    let snapshots = vec![snapshot("mon", 5), snapshot("tue:x", Snapshot::MOST)];
    let export = Export { snapshots, ..export() };
    let names = |option, queries: &[&str]| {
        let all = contexts_of(&export, option, queries);
        all.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    let (list, set) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    let since = ["weft:since=mon", "weft:since=tue:x"];
    let bitmaps = ["qemu:dirty-bitmap:mon", "qemu:dirty-bitmap:tue:x"];
    assert_eq!(names(list, &[]), [&["base:allocation"][..], &since, &bitmaps].concat());
    assert_eq!(names(list, &["weft:"]), since);
    assert_eq!(names(list, &["weft:since="]), since);
    assert_eq!(names(list, &["qemu:"]), bitmaps);
    assert_eq!(names(list, &["qemu:dirty-bitmap:"]), bitmaps);
    assert_eq!(names(set, &["qemu:dirty-bitmap:tue:x"]), bitmaps[1..]);
    assert!(names(set, &["qemu:dirty-bitmap:wed", "weft:since=", "qemu:"]).is_empty());
    let numbers = contexts_of(&export, set, &[&since[..], &bitmaps].concat());
    let numbers: Vec<u32> = numbers.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [13, u32::MAX - 2, 14, u32::MAX - 1]);
    // Each is asked for with every question.
    let many = (0..100).map(|n| snapshot(&n.to_string(), n)).collect();
    let export = Export { snapshots: many, ..export };
    let all: Vec<String> = (0..100).map(|n| format!("weft:since={n}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(contexts_of(&export, set, &all).len(), 16);
    assert_eq!(contexts_of(&export, list, &all).len(), 100);
}

#[test]
fn the_context_of_what_is_exposed_is_offered_where_the_driver_can_tell_it() {
    let export = Export { exposure: true, ..export() };
    let told = |option: u32, queries: &[&str]| contexts_of(&export, option, queries);
    let (base, weft) = ("base:allocation", "weft:exposed");
    let (list, set) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    let both = |ids: [u32; 2]| [(ids[0], base.to_string()), (ids[1], weft.to_string())];
    assert_eq!(told(list, &[]), both([0, 0]));
    assert_eq!(told(list, &["weft:"]), both([0, 0])[1..]);
    assert_eq!(told(set, &[weft, base]), both([1, 2]));
    assert_eq!(told(set, &[weft]), both([1, 2])[1..]);
    assert!(told(set, &["weft:", "weft", ":", ""]).is_empty());
    assert!(told(list, &["weft", ":", ""]).is_empty());
}

#[test]
fn long_options_are_skipped_and_refused() {
    let export = export();
    let mut server = greeted(&export);
    let talk = [
        opt(option::INFO, &vec![7; 8193]),
        opt(option::LIST, &vec![7; 1 << 20]),
        opt(option::LIST, &[]),
    ];
    feed(&mut server, &export, &talk.concat()).unwrap();
    let kinds: Vec<_> = answers(&drain(&mut server)).iter().map(|(_, kind, _)| *kind).collect();
    let big = answer::ERR_TOO_BIG;
    assert_eq!(kinds, [big, big, answer::SERVER, answer::ACK]);
}

#[test]
fn an_export_name_that_cannot_be_is_hung_up_on() {
    for name in [&b"nothing"[..], &[0xff], &[b'n'; 5000], &[b'n'; 9000]] {
        let export = export();
        let mut server = greeted(&export);
        feed(&mut server, &export, &opt(option::EXPORT_NAME, name)).unwrap();
        assert!(server.closing());
        assert_eq!(server.output_len(), 0);
    }
}

#[test]
fn abort_is_acknowledged() {
    let export = export();
    let mut server = greeted(&export);
    let talk = [opt(option::ABORT, &[]), b"trailing nonsense".to_vec()].concat();
    feed(&mut server, &export, &talk).unwrap();
    let all = answers(&drain(&mut server));
    assert_eq!(all, [(option::ABORT, answer::ACK, vec![])]);
    assert!(server.closing());
}

#[test]
fn garbage_is_named() {
    let export = export();
    let error = |hello: u32, rest: &[u8]| {
        let mut server = Server::new();
        let bytes = [&hello.to_be_bytes(), rest].concat();
        let error = feed(&mut server, &export, &bytes).unwrap_err();
        assert_eq!(server.poll().unwrap_err(), error);
        error
    };
    let http = u32::from_be_bytes(*b"GET ");
    assert_eq!(error(http, b""), ProtocolError::HandshakeFlags(http));
    assert_eq!(error(0, b""), ProtocolError::NotFixedNewstyle);
    let fixed = u32::from(handshake::FIXED_NEWSTYLE);
    let magic = u64::from_be_bytes(*b"nonsense");
    assert_eq!(error(fixed, b"nonsenseoptionx."), ProtocolError::OptionMagic(magic));
    let endless = opt(option::INFO, &[]).into_iter().take(12).chain([255; 4]).collect::<Vec<_>>();
    let option = option::INFO;
    let length = u32::MAX;
    assert_eq!(error(fixed, &endless), ProtocolError::OptionLength { option, length });
    let many = opt(option::STRUCTURED_REPLY, &[]).repeat(1001);
    assert_eq!(error(fixed, &many), ProtocolError::TooManyOptions);
}
