//! A cell of a write: what one column does for one stripe.

use smallvec::SmallVec;

use super::{Span, Spans};
use crate::layout::ColumnRole;
use crate::units::ColumnSet;

/// What a cell sends of its old or new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sends {
    /// Its old content.
    Old,
    /// Its old content xor its new content.
    Delta,
    /// Its new content, with the old where nothing is new.
    Content,
}

/// Where a cell sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To the columns of these parities, counted from 0.
    Parities(ColumnSet),
    /// To the originator.
    Originator,
}

/// Something that a cell sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Send {
    /// What.
    pub what: Sends,
    /// Which bytes.
    pub spans: Spans,
    /// Where to.
    pub to: Destination,
}

impl Send {
    pub(super) fn new(what: Sends, spans: impl Into<Spans>, to: Destination) -> Send {
        Send { what, spans: spans.into(), to }
    }
}

/// The contributions that a cell waits for before it can write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Awaits {
    /// From the columns of these data units (or, at the originator, these columns of the
    /// code).
    pub data: ColumnSet,
    /// From the originator, on behalf of these data units.
    pub originator: ColumnSet,
    /// The finished parity (or rebuilt content) from the originator.
    pub result: bool,
}

/// One column's part in one stripe of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteCell {
    /// What the column holds.
    pub role: ColumnRole,
    /// New data that the originator sends to it.
    pub new: Span,
    /// Old content to read: whole sectors.
    pub read: Spans,
    /// What to send: at most one thing to each column, or to the originator.
    pub sends: SmallVec<[Send; 1]>,
    /// What to wait for.
    pub awaits: Awaits,
    /// What to prepare and write: whole sectors.
    pub write: Spans,
    /// Whether what is written is a change to be added, not content.
    pub delta: bool,
}

impl WriteCell {
    /// Whether the column has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }

    /// What it sends to the originator.
    pub fn shows(&self) -> Option<&Send> {
        self.sends.iter().find(|s| s.to == Destination::Originator)
    }

    /// What it sends to the column of parity `j`.
    pub fn contributes(&self, j: usize) -> Option<&Send> {
        let goes = |s: &&Send| matches!(s.to, Destination::Parities(p) if p.contains(j));
        self.sends.iter().find(goes)
    }
}
