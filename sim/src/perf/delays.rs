//! Which requests others delay: those that wait for a lock or for an earlier write, at a device, at
//! a server or at their host, and those that are refused and begun again (shared storage, 4.6).
//!
//! A request is known by the timestamps of its transactions, and by the number under which its
//! originator asks the lock server. Its first name is in what its originator sends when it is asked;
//! what a node says of a transaction, it says when it is handed a message of it. Transactions that
//! are begun again after a pause are not followed, nor need they be: their request counts as delayed
//! already.

use std::collections::BTreeMap;

use weft_core::node::{Body, Envelope, Input, LockMessage, Output};
use weft_core::units::{NodeId, Timestamp};

/// What messages call a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    /// A transaction of it.
    Transaction(Timestamp),
    /// What this originator asks the lock server under this number.
    Locks(NodeId, u64),
}

impl Name {
    /// Of the request that a message belongs to, if it is a request's.
    fn of(message: &Envelope) -> Option<Name> {
        match message.body.as_ref()? {
            Body::Lock(LockMessage::Ask { id, .. }) => Some(Name::Locks(message.from, *id)),
            Body::Lock(LockMessage::Grant { id, .. }) => Some(Name::Locks(message.to, *id)),
            body => body.ts().map(Name::Transaction),
        }
    }

    /// Who begins what is called so.
    fn originator(self) -> NodeId {
        match self {
            Name::Transaction(ts) => ts.originator(),
            Name::Locks(node, _) => node,
        }
    }
}

/// Requests in work, and whether others have delayed them.
#[derive(Default)]
pub(super) struct Delays {
    of: BTreeMap<Name, u32>,
    requests: BTreeMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    names: Vec<Name>,
    delayed: bool,
}

impl Delays {
    /// The request that an input belongs to, if it is known. A refusal delays it.
    pub fn handed(&mut self, input: &Input) -> Option<u32> {
        match input {
            Input::Host(number, ..) | Input::Ordered(number, ..) | Input::Named(number, ..) => {
                let number = *number as u32;
                self.requests.insert(number, Known::default());
                Some(number)
            }
            Input::Message(m) => {
                let number = *self.of.get(&Name::of(m)?)?;
                if m.body.as_ref().is_some_and(is_refusal) {
                    self.delayed(number);
                }
                Some(number)
            }
            _ => None,
        }
    }

    /// What a node answered to an input of a request.
    pub fn answered(&mut self, number: u32, outputs: &[Output]) {
        for output in outputs {
            match output {
                Output::Delayed(_) => self.delayed(number),
                Output::Send(m) => {
                    let name = Name::of(m).filter(|n| !self.of.contains_key(n));
                    let Some(name) = name.filter(|n| n.originator() == m.from) else { continue };
                    if let Some(known) = self.requests.get_mut(&number) {
                        known.names.push(name);
                        self.of.insert(name, number);
                    }
                }
                _ => {}
            }
        }
    }

    fn delayed(&mut self, number: u32) {
        if let Some(known) = self.requests.get_mut(&number) {
            known.delayed = true;
        }
    }

    /// A request has its reply: says whether others delayed it.
    pub fn done(&mut self, number: u32) -> bool {
        let known = self.requests.remove(&number).unwrap_or_default();
        known.names.iter().for_each(|name| {
            self.of.remove(name);
        });
        known.delayed
    }
}

/// Whether a message says that a transaction has to begin again.
fn is_refusal(body: &Body) -> bool {
    matches!(body, Body::ReadReply { result: Err(_), .. } | Body::Vote { vote: Err(_), .. })
}
