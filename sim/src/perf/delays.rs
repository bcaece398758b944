//! Which requests others delay: those that wait for a lock or for an earlier write, at a device, at
//! a server or at their host, and those that are refused and begun again (shared storage, 4.6).
//!
//! A request is known by the timestamps of its transactions. Its first is in what its originator
//! sends when it is asked; what a node says of a transaction, it says when it is handed a message of
//! it. Transactions that are begun again after a pause are not followed, nor need they be: their
//! request counts as delayed already.

use std::collections::BTreeMap;

use weft_core::node::{Body, Input, Output};
use weft_core::units::Timestamp;

/// Requests in work, and whether others have delayed them.
#[derive(Default)]
pub(super) struct Delays {
    of: BTreeMap<Timestamp, u32>,
    requests: BTreeMap<u32, Known>,
}

#[derive(Default)]
struct Known {
    transactions: Vec<Timestamp>,
    delayed: bool,
}

impl Delays {
    /// The request that an input belongs to, if it is known. A refusal delays it.
    pub fn handed(&mut self, input: &Input) -> Option<u32> {
        match input {
            Input::Host(number, ..) | Input::Ordered(number, ..) => {
                let number = *number as u32;
                self.requests.insert(number, Known::default());
                Some(number)
            }
            Input::Message(m) => {
                let body = m.body.as_ref()?;
                let number = *self.of.get(&body.ts()?)?;
                if is_refusal(body) {
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
                    let ts = m.body.as_ref().and_then(Body::ts);
                    let Some(ts) = ts.filter(|t| !self.of.contains_key(t)) else { continue };
                    // A transaction that another has already begun is not this request's.
                    if let Some(known) = self.requests.get_mut(&number)
                        && ts.originator() == m.from
                    {
                        known.transactions.push(ts);
                        self.of.insert(ts, number);
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
        known.transactions.iter().for_each(|ts| {
            self.of.remove(ts);
        });
        known.delayed
    }
}

/// Whether a message says that a transaction has to begin again.
fn is_refusal(body: &Body) -> bool {
    matches!(
        body,
        Body::ReadReply { result: Err(_), .. }
            | Body::Vote { vote: Err(_), .. }
            | Body::Done { result: Err(_), .. }
    )
}
