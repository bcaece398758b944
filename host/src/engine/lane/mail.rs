//! What comes for a lane from outside.

use weft_core::node::{Body, Envelope, HostOp, Input};
use weft_core::store::DiskResult;

use crate::disk::uring::Tag;

/// So many bytes are as much work as a message.
const UNIT: u64 = 32 << 10;

/// Something for a node of a lane.
#[derive(Debug)]
pub(crate) enum Mail {
    /// What a host asks a node in this life, or that it is gone.
    Input(usize, u64, Input),
    /// A message. It waits until nodes may serve.
    Letter(Box<Envelope>),
    /// A disk operation has ended that another thread began.
    Ended(Tag, DiskResult),
}

impl Mail {
    /// How much work it is, in messages.
    pub(crate) fn weight(&self) -> usize {
        let bytes = match self {
            Mail::Input(
                _,
                _,
                Input::Host(.., op) | Input::Ordered(.., op) | Input::Named(.., op),
            ) => bytes_of(op),
            Mail::Input(..) => 0,
            Mail::Letter(letter) => letter.body.as_ref().map_or(0, |body| match body {
                Body::Read { range, .. } => range.len,
                body => body.payload(),
            }),
            Mail::Ended(_, result) => result.as_ref().map_or(0, |buffer| buffer.len() as u64),
        };
        1 + (bytes / UNIT) as usize
    }
}

fn bytes_of(op: &HostOp) -> u64 {
    match op {
        HostOp::Write(_, data) => data.len() as u64,
        HostOp::Read(range) => range.len,
        _ => 0,
    }
}
