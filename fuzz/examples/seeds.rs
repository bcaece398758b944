//! Writes the corpus that fuzzing begins with: `cargo run --example seeds` in `fuzz/`. It is made of the images that the
//! tests of each format keep, of commands of each kind, and of what a store and a member have written.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use weft_bytes::{Writer, fixture};
use weft_core::cluster::ClusterMap;
use weft_front::nbd::wire::{OptionHeader, RequestHeader, command, option};
use weft_fuzz::log::{self, Codec};
use weft_member::{MemberId, Stored};
use weft_net::frame;

/// The images of the latest version in a folder of the repository.
fn images(folder: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let latest = files.max_by_key(|path| (path.as_os_str().len(), path.clone()));
    fixture::images(&fs::read_to_string(latest.expect("a file of images")).expect("a text"))
}

fn write(target: &str, name: &str, parts: &[&[u8]]) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), parts.concat()).expect("a file");
}

fn main() {
    nbd();
    native();
    iscsi();
    wire();
    disk_format();
    member_log();
}

/// Flags, then options or an export and commands; the first byte is for the pieces.
fn nbd() {
    let begin: &[u8] = &[40, 0, 0, 0, 3];
    let option = |option, data: &[u8]| {
        [&OptionHeader { option, length: data.len() as u32 }.encode(), data].concat()
    };
    let name: &[u8] = &[0, 0, 0, 4, b'd', b'i', b's', b'k'];
    let context = [name, &[0, 0, 0, 1, 0, 0, 0, 15], b"base:allocation"].concat();
    let go = option(option::GO, &[name, &[0, 3, 0, 1, 0, 2, 0, 3]].concat());
    let structured = option(option::STRUCTURED_REPLY, &[]);
    let set = option(option::SET_META_CONTEXT, &context);
    let list = option(option::LIST, &[]);
    let contexts = option(option::LIST_META_CONTEXT, &context);
    let info = option(option::INFO, &[name, &[0, 0]].concat());
    let abort = option(option::ABORT, &[]);
    write("nbd", "options", &[begin, &list, &structured, &contexts, &info, &abort]);
    let plain = option(option::EXPORT_NAME, b"disk");
    for kind in command::READ..=command::BLOCK_STATUS {
        let length = if kind == command::FLUSH { 0 } else { 512 };
        let header = RequestHeader { flags: 0, kind, cookie: 7, offset: 4096, length }.encode();
        let payload = vec![0x5a; if kind == command::WRITE { 512 } else { 0 }];
        write("nbd", &format!("command-{kind}"), &[begin, &plain, &header, &payload]);
        let twice = [&header[..], &payload, &header, &payload].concat();
        let name = format!("structured-{kind}");
        write("nbd", &name, &[begin, &structured, &set, &go, &twice]);
    }
}

/// A hello and one request of each kind, with the data of a write.
fn native() {
    let images = images("front/src/native/images");
    let hello = &images["Hello"];
    write("native", "hello", &[&[9], hello]);
    for (name, request) in images.iter().filter(|(name, _)| name.starts_with("Request.")) {
        let data = vec![0x5a; if name == "Request.Write" { 8192 } else { 0 }];
        write("native", name, &[&[200], hello, request, &data]);
    }
    let all = images.iter().filter(|(name, _)| *name != "Request.Write" && *name != "Request.Bye");
    let all: Vec<u8> = all
        .filter(|(name, _)| name.starts_with("Request."))
        .flat_map(|(_, bytes)| bytes.clone())
        .collect();
    write("native", "requests", &[&[200], hello, &all]);
}

/// A login of each kind, and commands of each, with what they bring along.
fn iscsi() {
    let unit = |kind: u8, flags: u8, number: u32, rest: &[u8], data: &[u8]| {
        let mut bytes = vec![0; 48];
        (bytes[0], bytes[1], bytes[7], bytes[19]) =
            (kind, flags, data.len() as u8, number as u8 + 1);
        bytes[6] = (data.len() >> 8) as u8;
        bytes[24..28].copy_from_slice(&number.to_be_bytes());
        bytes[32..32 + rest.len()].copy_from_slice(rest);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let text = b"InitiatorName=iqn.b\0SessionType=Discovery\0HeaderDigest=CRC32C,None\0AuthMethod=CHAP,None\0";
    let login = unit(0x43, 0x81, 0, &[], text);
    let second = unit(0x43, 0x87, 0, &[], b"MaxBurstLength=16776192\0FirstBurstLength=65536\0");
    let mut list = unit(0x44, 0x80, 0, &[], b"SendTargets=All\0");
    list[20..24].fill(0xff);
    let logout = unit(0x46, 0x80, 0, &[], &[]);
    write("iscsi", "discovery", &[&[9], &login, &second, &list, &logout]);
    let names = "InitiatorName=iqn.b\0TargetName=iqn.a:disk\0AuthMethod=CHAP,None\0";
    let first = unit(0x43, 0x81, 0, &[], names.as_bytes());
    let digests = unit(0x43, 0, 0, &[], b"CHAP_A=5,6,7,8\0");
    let answer = format!("CHAP_N=web\0CHAP_R=0x{}\0CHAP_I=7\0CHAP_C=0bAQIDBA==\0", "12".repeat(32));
    let proof = unit(0x43, 0x83, 0, &[], answer.as_bytes());
    let ready = unit(1, 0x80, 0, &[0; 6], &[]);
    write("iscsi", "chap", &[&[0x49], &first, &digests, &proof, &ready]);
    // Commands that read say how much they take, in the field behind the tag.
    let reading = |cdb: &[u8], number| {
        let mut bytes = unit(1, 0xc0, number, cdb, &[]);
        bytes[22] = 4;
        bytes
    };
    let writing = |cdb: &[u8], number, data: &[u8], all: u16| {
        let mut bytes = unit(1, 0xa0, number, cdb, data);
        bytes[22..24].copy_from_slice(&all.to_be_bytes());
        bytes
    };
    let reads: [&[u8]; 15] = [
        &[0x00],
        &[0x03, 0, 0, 0, 252],
        &[0x08, 0, 0, 1, 1],
        &[0x12, 0, 0, 0, 255],
        &[0x12, 1, 0x83, 0, 255],
        &[0x12, 1, 0xb0, 0, 255],
        &[0x1a, 0, 0x3f, 0, 255],
        &[0x25],
        &[0x28, 0, 0, 0, 0, 8, 0, 0, 4],
        &[0x5a, 0x10, 0x3f, 0, 0, 0, 0, 1, 0],
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32],
        &[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 64],
        &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64],
        &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 4, 0],
        &[0xa3, 0x0c, 2, 0x9e, 0, 0x10, 0, 0, 4, 0],
    ];
    for (cdb, n) in reads.into_iter().zip(0..) {
        write("iscsi", &format!("read-{n}"), &[&[0xa0], &reading(cdb, 0), &reading(cdb, 1)]);
    }
    let unmap = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 7], &[1, 0, 0, 0, 2], &[0; 4]].concat();
    let modes = [0, 0, 0, 0, 10, 10, 0x22, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
    let writes: [(&[u8], &[u8]); 8] = [
        (&[0x2a, 0, 0, 0, 0, 8, 0, 0, 1], &[0x5a; 512]),
        (&[0x2e, 2, 0, 0, 0, 8, 0, 0, 1], &[0; 512]),
        (&[0x2f, 2, 0, 0, 0, 8, 0, 0, 1], &[0; 512]),
        (&[0x41, 0, 0, 0, 0, 8, 0, 0, 9], &[0x5a; 512]),
        (&[0x93, 8, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 9], &[0; 512]),
        (&[0x42, 0, 0, 0, 0, 0, 0, 0, 24], &unmap),
        (&[0x15, 0x10, 0, 0, 16], &modes),
        (&[0x35], &[]),
    ];
    for ((cdb, data), n) in writes.into_iter().zip(0..) {
        let command = writing(cdb, 0, data, data.len() as u16);
        let reset = unit(0x42, 0x85, 1, &[], &[]);
        write("iscsi", &format!("write-{n}"), &[&[0xbf], &command, &reset]);
    }
    // Data that are asked for.
    let begin = writing(&[0x2a, 0, 0, 0, 0, 8, 0, 0, 4], 0, &[], 2048);
    let mut parts = vec![vec![0xff], begin];
    for (number, at, last) in [(0, 0, 0), (1, 2, 0x80), (0, 4, 0x80)] {
        let mut data = unit(5, last, 0, &[], &[0x5a; 512]);
        (data[39], data[42]) = (number, at);
        parts.push(data);
    }
    write("iscsi", "asked-for", &parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

/// Each message, a hello, and a stream of frames.
fn wire() {
    let mut stream = Vec::new();
    for (name, message) in images("net/src/wire/images") {
        write("wire", &name, &[&[0], &message]);
        if message.len() < 100 {
            stream.extend(frame::header(
                frame::FIRST_KIND,
                &[message.clone().into()],
                frame::Way::Bare,
            ));
            stream.extend(message);
        }
    }
    stream.truncate(2000);
    write("wire", "frames", &[&[31], &stream]);
    let mut hello: Writer = Writer::default();
    hello.u128(7);
    hello.u64(8);
    hello.u16(2);
    hello.u8(5);
    hello.raw(b"box-2");
    write("wire", "hello", &[&[2], hello.written()]);
}

/// Each disk as it is, and with changes of a field of a superblock, of a frame, and of a page.
fn disk_format() {
    for disk in 0..4 {
        write("disk_format", &format!("disk-{disk}"), &[&[disk]]);
        let mended = &[disk | 4];
        for (part, at, field) in [
            (0, 32, "incarnation"),
            (0, 40, "journal"),
            (0, 56, "sequence"),
            (0, 72, "tail-frame"),
            (0, 104, "index-sum"),
            (1, 16, "frame-number"),
            (1, 40, "entries"),
            (1, 48, "entry"),
            (1, 57, "timestamp"),
            (2, 0, "page"),
            (2, 12, "state"),
            (2, 4080, "page-number"),
        ] {
            let change = [part, 0, at as u8, (at >> 8) as u8, 4, 2, 0, 0, 0];
            write("disk_format", &format!("disk-{disk}-{field}"), &[mended, &change]);
        }
    }
}

/// The log of one that founds a cluster, as it is; and bodies of frames, each behind its length.
fn member_log() {
    let stored = Stored::founded(MemberId(1), &ClusterMap::default(), &Codec);
    let founded = log::start(stored, Vec::new(), 40).expect("a founder starts");
    write("member_log", "founded", &[&[0], &founded]);
    let mut bodies: Writer = Writer::default();
    let mut rest = &founded[..];
    while let Some((header, body)) = rest.split_first_chunk::<20>() {
        let len = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes")) as usize;
        bodies.u16(len as u16);
        bodies.raw(&body[..len]);
        rest = &body[len..];
    }
    write("member_log", "bodies", &[&[1], bodies.written()]);
}
