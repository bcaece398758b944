//! What can be said of any message.

use super::{Body, Header, LockMessage};
use crate::plan::Role;
use crate::units::Timestamp;

impl Body {
    /// Bytes of data and parity in it.
    pub fn payload(&self) -> u64 {
        match self {
            Body::ReadReply { result: Ok(pieces), .. } => {
                pieces.iter().map(|p| p.1.len() as u64).sum()
            }
            Body::Write { items, .. } | Body::Part { items, .. } | Body::Show { items, .. } => {
                items.iter().map(|i| i.data.len() as u64).sum()
            }
            Body::Request(ask) => ask.wish.payload(),
            Body::Place { pieces, .. } => pieces.iter().map(|p| p.1.len() as u64).sum(),
            Body::Done { result: Ok(pieces), .. } => pieces.iter().map(|p| p.len() as u64).sum(),
            _ => 0,
        }
    }

    /// The transaction that it belongs to, if it does to one.
    pub fn ts(&self) -> Option<Timestamp> {
        match self {
            Body::Read { ts, .. }
            | Body::ReadReply { ts, .. }
            | Body::Show { ts, .. }
            | Body::Vote { ts, .. }
            | Body::Ask { ts }
            | Body::Answer { ts, .. }
            | Body::Query { ts }
            | Body::Place { ts, .. }
            | Body::QueryReply { ts, .. } => Some(*ts),
            Body::Fetch { header, .. } | Body::Write { header, .. } | Body::Part { header, .. } => {
                Some(header.ts)
            }
            Body::Flush { .. } | Body::Flushed { .. } => None,
            Body::Refresh { .. } | Body::Refreshed { .. } => None,
            Body::Lost { .. } | Body::LostHere { .. } => None,
            Body::Exposed { .. } | Body::ExposedHere { .. } => None,
            Body::Recall { .. } | Body::Recalled { .. } => None,
            Body::Dirty { .. } | Body::DirtyReply { .. } | Body::PutBack { .. } => None,
            Body::Lock(_) | Body::Sequence(_) => None,
            Body::Request(_) | Body::Done { .. } | Body::Resend { .. } => None,
        }
    }

    /// The message's name, as in docs/internals/messages.md.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Read { .. } => "Read",
            Body::ReadReply { .. } => "ReadReply",
            Body::Show { .. } => "Show",
            Body::Write { .. } => "Write",
            Body::Part { .. } => "Part",
            Body::Vote { .. } => "Vote",
            Body::Ask { .. } => "Ask",
            Body::Answer { .. } => "Answer",
            Body::PutBack { .. } => "PutBack",
            Body::Query { .. } => "Query",
            Body::QueryReply { .. } => "QueryReply",
            Body::Flush { .. } => "Flush",
            Body::Flushed { .. } => "Flushed",
            Body::Refresh { .. } => "Refresh",
            Body::Refreshed { .. } => "Refreshed",
            Body::Lost { .. } => "Lost",
            Body::LostHere { .. } => "LostHere",
            Body::Exposed { .. } => "Exposed",
            Body::ExposedHere { .. } => "ExposedHere",
            Body::Recall { .. } => "Recall",
            Body::Recalled { .. } => "Recalled",
            Body::Lock(message) => message.name(),
            Body::Dirty { .. } => "Dirty",
            Body::DirtyReply { .. } => "DirtyReply",
            Body::Sequence(message) => message.name(),
            Body::Request(_) => "Request",
            Body::Done { .. } => "Done",
            Body::Resend { .. } => "Resend",
            Body::Fetch { .. } => "Fetch",
            Body::Place { .. } => "Place",
        }
    }

    /// Whether it is to or from a role that orders requests.
    pub fn keeps_order(&self) -> bool {
        matches!(self, Body::Lock(_) | Body::Sequence(_))
    }

    /// Whether it counts among a request's messages (see [`crate::plan::Totals`]).
    pub fn counts(&self) -> bool {
        if let Body::Sequence(message) = self {
            return message.counts();
        }
        matches!(
            self,
            Body::Read { .. }
                | Body::ReadReply { .. }
                | Body::Show { .. }
                | Body::Write { .. }
                | Body::Part { .. }
                | Body::Vote { .. }
                | Body::Request(_)
                | Body::Done { .. }
                | Body::Resend { .. }
                | Body::Fetch { .. }
                | Body::Place { .. }
                | Body::Lock(LockMessage::Ask { .. } | LockMessage::Grant { .. })
        )
    }
}

impl Header {
    /// Whether a cell of this role is a column's: calculators are, where the plan assigns that to columns.
    pub(crate) fn is_for_column(&self, role: Role) -> bool {
        match role {
            Role::Column(_) | Role::Source(_) => true,
            Role::Calculator => !self.calculators.is_empty(),
            Role::Endpoint | Role::Coordinator => false,
        }
    }
}
