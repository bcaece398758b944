//! What happened, in lines that a reader can follow.

use weft_core::node::{Body, Envelope, HostData, HostError, MapMessage, MemberReport, Notice};

use super::state::Packet;

/// A packet, without its bulk data.
pub(super) fn describe(packet: &Packet) -> String {
    match packet {
        Packet::Message(envelope) => message(envelope),
        Packet::Tell(MapMessage::Freeze { epoch }) => format!("freeze for epoch {epoch}"),
        Packet::Tell(MapMessage::Enter { map, .. }) => {
            let up: Vec<u16> = map.up().map(|n| n.0).collect();
            format!("enter epoch {} with nodes {up:?}", map.epoch)
        }
        Packet::Report(MemberReport::Frozen { epoch, .. }) => format!("frozen for epoch {epoch}"),
        Packet::Report(MemberReport::CaughtUp { .. }) => "caught up".into(),
        Packet::Report(MemberReport::Wake { .. }) => "something to be written".into(),
        Packet::Report(MemberReport::ParityDone { .. }) => {
            "parity that waited is computed".to_string()
        }
        Packet::Report(MemberReport::Merged { merged, flattened, .. }) => {
            format!("deleted snapshots are merged: {merged}; clones are flattened: {flattened}")
        }
        Packet::Ready(_) => "ready".into(),
        Packet::Missed => "is missed".into(),
    }
}

fn message(envelope: &Envelope) -> String {
    let mut parts = Vec::new();
    if let Some(b) = &envelope.body {
        parts.push(body(b));
    }
    parts.extend(envelope.notices.iter().map(notice));
    format!("{} (epoch {})", parts.join(" + "), envelope.epoch)
}

fn body(body: &Body) -> String {
    match body {
        Body::Read { ts, .. } => format!("Read {ts}"),
        Body::ReadReply { ts, result, .. } => match result {
            Ok(_) => format!("ReadReply {ts}"),
            Err(refusal) => format!("ReadReply {ts} {refusal:?}"),
        },
        Body::Show { ts, .. } => format!("Show {ts}"),
        Body::Write { header, .. } => format!("Write {}", header.ts),
        Body::Part { header, .. } => format!("Part {}", header.ts),
        Body::Vote { ts, vote: Ok(()), .. } => format!("Vote {ts} prepared"),
        Body::Vote { ts, vote: Err(refusal), .. } => format!("Vote {ts} {refusal:?}"),
        Body::Answer { ts, standing } => format!("Answer {ts} {standing:?}"),
        Body::DirtyReply { .. } => "DirtyReply".into(),
        other => format!("{other:?}"),
    }
}

fn notice(notice: &Notice) -> String {
    match notice {
        Notice::Commit(ts) => format!("commit {ts}"),
        Notice::Abort(ts) => format!("abort {ts}"),
        Notice::Ack(ts) => format!("ack {ts}"),
        Notice::Release(ts) => format!("release {ts}"),
        Notice::Unlock(ts) => format!("unlock {ts}"),
        Notice::Awaited(ts) => format!("awaited {ts}"),
    }
}

/// An answer to a host.
pub(super) fn answer(result: &Result<HostData, HostError>) -> String {
    match result {
        Ok(HostData::Bytes(_)) => "content".into(),
        Ok(HostData::Scrubbed(progress, _)) => format!("{progress:?}"),
        Ok(_) => "done".into(),
        Err(error) => format!("an error: {error}"),
    }
}
