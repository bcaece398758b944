//! A server spoken to in bytes, for what no decent client says.

use weft_front::nbd::server::{Command, Event, Export, ProtocolError, Server};
use weft_front::nbd::wire::{OptionHeader, RequestHeader, magic, option};

/// Feeds bytes and collects events, with questions answered from one export.
pub fn feed(
    server: &mut Server,
    export: &Export,
    mut bytes: &[u8],
) -> Result<Vec<Command>, ProtocolError> {
    let mut commands = Vec::new();
    loop {
        while let Some(event) = server.poll()? {
            match event {
                Event::List => server.exports(std::slice::from_ref(export)),
                Event::Open { name, .. } => {
                    let known = name.is_empty() || name == export.name;
                    server.export(known.then(|| export.clone()));
                }
                Event::Command(command) => commands.push(command),
            }
        }
        if bytes.is_empty() {
            return Ok(commands);
        }
        let space = server.space();
        let n = bytes.len().min(space.len());
        space[..n].copy_from_slice(&bytes[..n]);
        server.filled(n);
        bytes = &bytes[n..];
    }
}

/// Takes everything the server has to send.
pub fn drain(server: &mut Server) -> Vec<u8> {
    let output: Vec<u8> = server.output().flatten().copied().collect();
    assert_eq!(output.len(), server.output_len());
    server.sent(output.len());
    output
}

pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    [&OptionHeader { option, length }.encode()[..], data].concat()
}

/// A server whose client said hello.
pub fn greeted(export: &Export) -> Server {
    let mut server = Server::new();
    feed(&mut server, export, &3_u32.to_be_bytes()).unwrap();
    drain(&mut server);
    server
}

/// A server with its export opened the old way.
pub fn serving(export: &Export, structured: bool) -> Server {
    let mut server = greeted(export);
    let mut bytes = Vec::new();
    if structured {
        bytes = option(option::STRUCTURED_REPLY, &[]);
    }
    bytes.extend(option(option::EXPORT_NAME, export.name.as_bytes()));
    feed(&mut server, export, &bytes).unwrap();
    assert!(server.opened().is_some());
    drain(&mut server);
    server
}

pub fn request(kind: u16, flags: u16, offset: u64, length: u32) -> RequestHeader {
    RequestHeader { flags, kind, cookie: 0x77, offset, length }
}

/// Answers to options: option, kind and data.
pub fn answers(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[..8], magic::ANSWER.to_be_bytes());
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let end = 20 + word(16) as usize;
        all.push((word(8), word(12), bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    all
}

/// The error of the one reply in `bytes`, zero for none.
pub fn code(bytes: &[u8]) -> u32 {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), magic::SIMPLE_REPLY);
    assert_eq!(bytes[8..16], 0x77_u64.to_be_bytes());
    word(4)
}
