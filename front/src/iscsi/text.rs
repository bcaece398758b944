//! Text requests within a session: the list of targets, and renegotiation (RFC 7143, 11.10 and appendix C).

use super::keys;
use super::pdu::{CONTINUE, FINAL, Head, NO_TAG, Pdu, Reason, at, opcode};
use super::{Event, Server, Target};

/// The tag of an answer with more parts.
const GOES_ON: u32 = 1;

/// Incomplete texts.
#[derive(Default)]
pub(super) struct Texts {
    /// The parts received so far, if more follow.
    heard: Vec<u8>,
    /// The rest of the answer, still to be sent.
    answer: Vec<u8>,
    /// The request that the driver is asked about, and the targets that it names.
    asking: Option<(Head, String)>,
}

impl Texts {
    /// Whether the driver owes an answer.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }
}

impl Server {
    pub(super) fn take_text(&mut self, pdu: &Pdu) {
        let head = pdu.head;
        let (tag, is_final) = (head.word(at::TRANSFER_TAG), head.flags() & FINAL != 0);
        if tag == NO_TAG {
            // A new request discards the rest of an answer.
            self.texts.answer.clear();
        } else if tag != GOES_ON {
            return self.reject(&head, Reason::Protocol);
        } else if !self.texts.answer.is_empty() {
            return self.send_text(&head);
        }
        if self.texts.heard.len() + pdu.data.len() > keys::MOST_TEXT {
            self.texts.heard.clear();
            return self.reject(&head, Reason::Protocol);
        }
        self.texts.heard.extend_from_slice(&pdu.data);
        if head.flags() & CONTINUE != 0 || !is_final {
            // The rest of the text follows.
            let answer = Head::new(opcode::TEXT_RESPONSE).answering(head.tag());
            let answer = answer.with_byte(1, 0).with_word(at::TRANSFER_TAG, GOES_ON);
            return self.send_status(answer, &[]);
        }
        let Ok(pairs) = keys::parse(&std::mem::take(&mut self.texts.heard)) else {
            return self.reject(&head, Reason::Protocol);
        };
        for (key, value) in pairs {
            match key.as_str() {
                "SendTargets" => self.texts.asking = Some((head, value)),
                "MaxRecvDataSegmentLength" => {
                    let answer = self.parameters.answer(&key, &value);
                    if let Some(answer) = answer.value() {
                        keys::append(&mut self.texts.answer, &key, answer);
                    }
                }
                // All other keys belong to the login.
                _ => keys::append(&mut self.texts.answer, &key, "Reject"),
            }
        }
        match &self.texts.asking {
            Some(_) => self.events.push_back(Event::List),
            None => self.send_text(&head),
        }
    }

    /// Answers [`Event::List`].
    pub fn targets(&mut self, all: &[Target]) {
        let Some((head, wanted)) = self.texts.asking.take() else { return };
        // In a session with a target, that target is meant if none is named.
        let ours = self.unit.as_ref().map(|unit| unit.target.as_str());
        let wanted = match (wanted.as_str(), ours) {
            ("All", None) => None,
            ("", Some(ours)) => Some(ours),
            ("All" | "", _) => {
                return self.reject(&head, Reason::Protocol);
            }
            (name, _) => Some(name),
        };
        for target in all.iter().filter(|t| wanted.is_none_or(|name| t.name == name)) {
            keys::append(&mut self.texts.answer, "TargetName", &target.name);
            for (address, group) in &target.portals {
                let value = format!("{address},{group}");
                keys::append(&mut self.texts.answer, "TargetAddress", &value);
            }
        }
        self.send_text(&head);
    }

    /// Sends as much of an answer as fits in one unit.
    fn send_text(&mut self, head: &Head) {
        let most = self.parameters.segment as usize;
        let rest = self.texts.answer.split_off(self.texts.answer.len().min(most));
        let part = std::mem::replace(&mut self.texts.answer, rest);
        let (flags, tag) = match self.texts.answer.is_empty() {
            true => (FINAL, NO_TAG),
            false => (CONTINUE, GOES_ON),
        };
        let answer = Head::new(opcode::TEXT_RESPONSE).answering(head.tag()).with_byte(1, flags);
        self.send_status(answer.with_word(at::TRANSFER_TAG, tag), &[part.into()]);
    }
}
