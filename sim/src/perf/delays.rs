//! Which requests others delay: those that wait for a lock or for an earlier write, at a device, at
//! a server or at their host, and those that are refused and begun again (shared storage, 4.6).
//!
//! A request is known by the timestamps of its transactions, and by the number under which its
//! originator asks the lock server. Its first name is in what its originator sends when it is asked;
//! what a node says of a transaction, it says when it is handed a message of it. Transactions that
//! are begun again after a pause are not followed, nor need they be: their request counts as delayed
//! already.

use rustc_hash::FxHashMap;
use weft_core::node::{Body, Envelope, Input, LockMessage, Output};
use weft_core::units::{NodeId, Timestamp};

/// What messages call a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// It is never gone through, so that the order does not matter.
    of: FxHashMap<Name, u32>,
    /// By number: numbers of requests that are over are used again.
    requests: Vec<Known>,
}

#[derive(Default)]
struct Known {
    is_in_work: bool,
    names: Vec<Name>,
    delayed: bool,
}

impl Delays {
    /// The request that an input belongs to, if it is known. A refusal delays it.
    pub fn handed(&mut self, input: &Input) -> Option<u32> {
        match input {
            Input::Host(number, ..) | Input::Ordered(number, ..) | Input::Named(number, ..) => {
                let number = *number as u32;
                self.begins(number);
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
                    if let Some(known) = in_work(&mut self.requests, number) {
                        known.names.push(name);
                        self.of.insert(name, number);
                    }
                }
                _ => {}
            }
        }
    }

    /// A request is in work. One that is asked once more begins with nothing known of it.
    fn begins(&mut self, number: u32) {
        let place = number as usize;
        if place >= self.requests.len() {
            self.requests.resize_with(place + 1, Known::default);
        }
        let known = &mut self.requests[place];
        (known.is_in_work, known.delayed) = (true, false);
        known.names.clear();
    }

    fn delayed(&mut self, number: u32) {
        if let Some(known) = in_work(&mut self.requests, number) {
            known.delayed = true;
        }
    }

    /// A request has its reply: says whether others delayed it.
    pub fn done(&mut self, number: u32) -> bool {
        let Some(known) = in_work(&mut self.requests, number) else { return false };
        known.is_in_work = false;
        for name in known.names.drain(..) {
            self.of.remove(&name);
        }
        known.delayed
    }
}

fn in_work(requests: &mut [Known], number: u32) -> Option<&mut Known> {
    requests.get_mut(number as usize).filter(|known| known.is_in_work)
}

/// Whether a message says that a transaction has to begin again.
fn is_refusal(body: &Body) -> bool {
    matches!(body, Body::ReadReply { result: Err(_), .. } | Body::Vote { vote: Err(_), .. })
}
