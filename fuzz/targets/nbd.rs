//! What an NBD client may send, from its first byte on. The first byte of the input says in what pieces the rest
//! arrives: whatever they are, the same is done and answered.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_front::nbd::server::{
    Change, Command, Context, Event, Export, Exposure, Extent, Op, Reply, Server, Snapshot,
};
use weft_front::nbd::wire::RequestHeader;
use weft_fuzz::Talk;

const SIZE: u64 = 128 << 10;

fn talk(bytes: &[u8], most: usize) -> Talk {
    let snapshots = vec![Snapshot { name: "a".to_string(), number: 7 }];
    let export = Export { exposure: true, snapshots, ..Export::new("disk", SIZE) };
    weft_fuzz::talk(Server::new(), bytes, most, |server| {
        let Some(event) = server.poll().map_err(|e| e.to_string())? else { return Ok(None) };
        Ok(Some(match event {
            Event::List => {
                server.exports(std::slice::from_ref(&export));
                "list".to_string()
            }
            Event::Open { name, .. } => {
                let known = name.is_empty() || name == export.name;
                server.export(known.then(|| export.clone()));
                format!("open {name:?}")
            }
            Event::Command(command) => {
                let reply = carry_out(&command);
                server.reply(command.cookie, Ok(reply));
                format!("{command:?}")
            }
        }))
    })
}

/// The answer of a disk of zeros, half of them holes; a command that it could not carry out is the machine's fault.
fn carry_out(command: &Command) -> Reply {
    let end = command.offset.checked_add(command.length.into());
    assert!(end.is_some_and(|end| end <= SIZE), "{command:?}");
    assert_eq!(command.length == 0, command.op == Op::Flush, "{command:?}");
    match &command.op {
        Op::Read => Reply::Data(vec![Bytes::from(vec![0; command.length as usize])]),
        Op::BlockStatus { context: Context::Exposed, .. } => {
            Reply::Exposure(vec![Exposure { length: command.length.div_ceil(2), exposed: true }])
        }
        Op::BlockStatus { context: Context::Since { snapshot, .. }, .. } => {
            assert_eq!(*snapshot, 7);
            Reply::Changes(vec![Change { length: command.length, changed: true }])
        }
        Op::BlockStatus { .. } => Reply::Extents(vec![
            Extent { length: command.length.div_ceil(2), hole: true, zero: true },
            Extent { length: command.length, hole: false, zero: false },
        ]),
        Op::Write(payload) => {
            assert_eq!(payload.len(), command.length as usize);
            Reply::Done
        }
        _ => Reply::Done,
    }
}

fn headers(bytes: &[u8]) {
    if let Some(bytes) = bytes.first_chunk()
        && let Ok(header) = RequestHeader::decode(bytes)
    {
        assert_eq!(header.encode(), bytes);
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((pieces, bytes)) = input.split_first() else { return };
    headers(bytes);
    assert_eq!(talk(bytes, usize::MAX), talk(bytes, 1 + usize::from(*pieces)));
});
