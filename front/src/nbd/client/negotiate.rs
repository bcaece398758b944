//! From the greeting to the open export.

use std::io::{Read, Write};

use weft_bytes::{Big, BytesError, Reader, Writer};

use super::link::Link;
use super::{ClientError, Opened, Result, Settings};
use crate::nbd::wire::{self, OptionHeader, answer, handshake, info, magic, option};

/// Answers longer than this are not believed.
const MAX_ANSWER: u32 = 1 << 20;

/// The payload every server takes if it tells no other limit.
const COMMON_PAYLOAD: u32 = 32 << 20;

/// Exchanges greetings; whether padding is left out.
pub(super) fn greet<S: Read + Write>(link: &mut Link<S>) -> Result<bool> {
    if link.u64()? != magic::GREETING || link.u64()? != magic::OPTION {
        return Err(ClientError::Protocol("not a newstyle greeting"));
    }
    let offered = link.u16()?;
    if offered & handshake::FIXED_NEWSTYLE == 0 {
        return Err(ClientError::Protocol("server is not fixed newstyle"));
    }
    let flags = offered & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    link.fields(|w| w.u32(flags.into()));
    Ok(flags & handshake::NO_ZEROES != 0)
}

pub(super) fn open<S: Read + Write>(
    link: &mut Link<S>,
    export: &str,
    settings: Settings,
    no_zeroes: bool,
) -> Result<Opened> {
    let mut opened = Opened {
        name: String::new(),
        description: String::new(),
        size: 0,
        flags: 0,
        min_block: 1,
        preferred_block: 4096,
        max_payload: COMMON_PAYLOAD,
        structured: false,
        allocation: None,
        exposed: None,
    };
    opened.structured = settings.structured && structured(link)?;
    let wanted = [(settings.allocation, wire::ALLOCATION), (settings.exposed, wire::EXPOSED)];
    let wanted: Vec<&str> = wanted.iter().filter(|w| w.0).map(|w| w.1).collect();
    if opened.structured && !wanted.is_empty() {
        for (name, id) in contexts(link, export, &wanted)? {
            match name.as_str() {
                wire::ALLOCATION => opened.allocation = Some(id),
                wire::EXPOSED => opened.exposed = Some(id),
                _ => {}
            }
        }
    }
    if settings.go {
        go(link, export, &mut opened)?;
    } else {
        export_name(link, export, no_zeroes, &mut opened)?;
    }
    Ok(opened)
}

pub(super) fn list<S: Read + Write>(link: &mut Link<S>) -> Result<Vec<String>> {
    ask(link, option::LIST, &[]);
    let mut names = Vec::new();
    while let Some((kind, data)) = answered(link, option::LIST)? {
        if kind == answer::SERVER {
            let name = Reader::<Big>::new(&data).bytes().map_err(short)?;
            names.push(text(name));
        }
    }
    ask(link, option::ABORT, &[]);
    link.flush()?;
    Ok(names)
}

fn structured<S: Read + Write>(link: &mut Link<S>) -> Result<bool> {
    ask(link, option::STRUCTURED_REPLY, &[]);
    match answered(link, option::STRUCTURED_REPLY) {
        Ok(_) => Ok(true),
        Err(ClientError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Asks for contexts; the names and numbers of those that are granted.
fn contexts<S: Read + Write>(
    link: &mut Link<S>,
    export: &str,
    wanted: &[&str],
) -> Result<Vec<(String, u32)>> {
    let mut w = Writer::<Big>::default();
    w.bytes(export.as_bytes());
    w.u32(wanted.len() as u32);
    for name in wanted {
        w.bytes(name.as_bytes());
    }
    ask(link, option::SET_META_CONTEXT, w.written());
    let mut granted = Vec::new();
    loop {
        match answered(link, option::SET_META_CONTEXT) {
            Ok(Some((answer::META_CONTEXT, data))) => {
                let mut r = Reader::<Big>::new(&data);
                let id = r.u32().map_err(short)?;
                granted.push((text(r.rest()), id));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(granted),
            Err(ClientError::Refused { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
    }
}

fn go<S: Read + Write>(link: &mut Link<S>, export: &str, opened: &mut Opened) -> Result<()> {
    let wanted = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE];
    let mut w = Writer::<Big>::default();
    w.bytes(export.as_bytes());
    w.u16(wanted.len() as u16);
    for kind in wanted {
        w.u16(kind);
    }
    ask(link, option::GO, w.written());
    let mut sized = false;
    while let Some((kind, data)) = answered(link, option::GO)? {
        if kind == answer::INFO {
            sized |= note(opened, &data).map_err(short)? == info::EXPORT;
        }
    }
    if sized {
        return Ok(());
    }
    Err(ClientError::Protocol("server did not send the size"))
}

/// Notes a piece of information, and returns of which kind it was.
fn note(opened: &mut Opened, data: &[u8]) -> weft_bytes::Read<u16> {
    let mut r = Reader::<Big>::new(data);
    let kind = r.u16()?;
    match kind {
        info::EXPORT => (opened.size, opened.flags) = (r.u64()?, r.u16()?),
        info::NAME => opened.name = text(r.rest()),
        info::DESCRIPTION => opened.description = text(r.rest()),
        info::BLOCK_SIZE => {
            opened.min_block = r.u32()?;
            opened.preferred_block = r.u32()?;
            opened.max_payload = r.u32()?;
        }
        _ => {}
    }
    Ok(kind)
}

fn export_name<S: Read + Write>(
    link: &mut Link<S>,
    export: &str,
    no_zeroes: bool,
    opened: &mut Opened,
) -> Result<()> {
    ask(link, option::EXPORT_NAME, export.as_bytes());
    opened.size = link.u64()?;
    opened.flags = link.u16()?;
    if !no_zeroes {
        link.array::<{ wire::PADDING }>()?;
    }
    Ok(())
}

fn ask<S: Read + Write>(link: &mut Link<S>, option: u32, data: &[u8]) {
    let length = data.len() as u32;
    link.put(&OptionHeader { option, length }.encode());
    link.put(data);
}

/// The next answer to an option, or `None` if that was the last.
fn answered<S: Read + Write>(link: &mut Link<S>, asked: u32) -> Result<Option<(u32, Vec<u8>)>> {
    if link.u64()? != magic::ANSWER || link.u32()? != asked {
        return Err(ClientError::Protocol("not an answer to the option sent"));
    }
    let kind = link.u32()?;
    let length = link.u32()?;
    if length > MAX_ANSWER {
        return Err(ClientError::Protocol("answer too long"));
    }
    let data = link.bytes(length as usize)?;
    if kind == answer::ACK {
        return Ok(None);
    }
    if kind & answer::REFUSAL == 0 {
        return Ok(Some((kind, data)));
    }
    Err(ClientError::Refused { option: asked, kind, message: text(&data) })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn short(_: BytesError) -> ClientError {
    ClientError::Protocol("answer cut short")
}
