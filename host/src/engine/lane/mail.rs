//! What comes for a lane from outside.

use weft_core::node::{Body, Envelope, HostOp, Input};
use weft_core::store::DiskResult;

use crate::disk::uring::Tag;

/// The weight of a message.
pub(crate) const MESSAGE: usize = 4;

/// So many bytes are as much work as a message.
const UNIT: u64 = 32 << 10;

/// A read of less is less work than a message that leads to a write: it is begun, answered and forgotten. On another
/// processor what it reads would also be far from the thread that sends it to the host.
const SHORT_READ: u64 = 128 << 10;

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
    /// How much work it is. A message that moves no bytes weighs [`MESSAGE`].
    pub(crate) fn weight(&self) -> usize {
        match self {
            Mail::Input(
                _,
                _,
                Input::Host(.., op) | Input::Ordered(.., op) | Input::Named(.., op),
            ) => match op {
                HostOp::Write(_, data) => moving(data.len() as u64),
                HostOp::Read(range) => reading(range.len),
                _ => MESSAGE,
            },
            Mail::Input(..) => MESSAGE,
            Mail::Letter(letter) => letter.body.as_ref().map_or(MESSAGE, |body| match body {
                Body::Read { range, .. } => reading(range.len),
                body => moving(body.payload()),
            }),
            Mail::Ended(_, result) => {
                moving(result.as_ref().map_or(0, |buffer| buffer.len() as u64))
            }
        }
    }
}

/// A message with so many bytes.
fn moving(bytes: u64) -> usize {
    MESSAGE * (1 + (bytes / UNIT) as usize)
}

/// A message that asks for so many.
fn reading(bytes: u64) -> usize {
    if bytes < SHORT_READ { 1 } else { moving(bytes) }
}

#[cfg(test)]
mod tests {
    use weft_core::plan::Range;
    use weft_core::units::VolumeId;

    use super::*;

    #[test]
    fn a_short_read_weighs_a_quarter_of_a_message_and_bytes_count() {
        let asked = |op| Mail::Input(0, 1, Input::Host(1, VolumeId(0), op)).weight();
        let read = |len| asked(HostOp::Read(Range { offset: 0, len }));
        let write = |len| asked(HostOp::Write(0, vec![1; len].into()));
        assert_eq!((read(4096), read(SHORT_READ - 1)), (1, 1));
        assert_eq!((write(4096), asked(HostOp::Flush)), (MESSAGE, MESSAGE));
        assert_eq!(read(SHORT_READ), write(SHORT_READ as usize), "a long read is worth waking for");
        assert_eq!(write(256 << 10), 9 * MESSAGE);
        assert_eq!(Mail::Input(0, 1, Input::HostGone(5)).weight(), MESSAGE);
    }
}
