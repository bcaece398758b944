//! Negotiated parameters (RFC 7143, 13): the answer to each key, and its effect.

use super::keys::{boolean, number};

/// The longest data segment that initiators are told to send.
pub(super) const SEGMENT: u32 = 256 << 10;
/// The longest data segment without negotiation.
pub(super) const FIRST_SEGMENT: u32 = 8192;
/// The most unsolicited data of a command.
const FIRST_BURST: u32 = 64 << 10;
/// The most data of a sequence.
const MAX_BURST: u32 = 1 << 20;
/// The bounds of lengths.
const LENGTHS: std::ops::RangeInclusive<u32> = 512..=(1 << 24) - 1;

/// The negotiated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    /// The longest data segment that the initiator takes.
    pub(super) segment: u32,
    pub(super) max_burst: u32,
    pub(super) first_burst: u32,
    pub(super) initial_r2t: bool,
    pub(super) immediate_data: bool,
}

impl Default for Parameters {
    /// The values without negotiation.
    fn default() -> Parameters {
        Parameters {
            header_digest: false,
            data_digest: false,
            segment: FIRST_SEGMENT,
            max_burst: 256 << 10,
            first_burst: 64 << 10,
            initial_r2t: true,
            immediate_data: true,
        }
    }
}

/// The answer to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This value.
    Value(String),
    /// None: the initiator only declares it.
    Nothing,
    /// The value is not one of the key's.
    Reject,
    /// There is no such key.
    NotUnderstood,
}

impl Answer {
    /// The value to be sent, if any is.
    pub(super) fn value(&self) -> Option<&str> {
        match self {
            Answer::Value(value) => Some(value),
            Answer::Nothing => None,
            Answer::Reject => Some("Reject"),
            Answer::NotUnderstood => Some("NotUnderstood"),
        }
    }
}

impl Parameters {
    /// Takes the initiator's value of a key that concerns the session's operation.
    pub(super) fn answer(&mut self, key: &str, value: &str) -> Answer {
        let answer = match key {
            "HeaderDigest" => digest(value).map(|on| named_digest(&mut self.header_digest, on)),
            "DataDigest" => digest(value).map(|on| named_digest(&mut self.data_digest, on)),
            "MaxRecvDataSegmentLength" => {
                return match length(value) {
                    Some(segment) => {
                        self.segment = segment;
                        Answer::Nothing
                    }
                    None => Answer::Reject,
                };
            }
            "MaxBurstLength" => length(value).map(|n| {
                self.max_burst = n.min(MAX_BURST);
                self.max_burst.to_string()
            }),
            "FirstBurstLength" => length(value).map(|n| {
                self.first_burst = n.min(FIRST_BURST);
                self.first_burst.to_string()
            }),
            "InitialR2T" => boolean(value).map(|on| {
                self.initial_r2t = on;
                word(on)
            }),
            "ImmediateData" => boolean(value).map(|on| {
                self.immediate_data = on;
                word(on)
            }),
            // A session has one of each of these, and data arrive in order.
            "MaxConnections" | "MaxOutstandingR2T" => {
                number(value).filter(|n| (1..=65535).contains(n)).map(|_| "1".to_string())
            }
            "DataPDUInOrder" | "DataSequenceInOrder" => boolean(value).map(|_| word(true)),
            "ErrorRecoveryLevel" => number(value).filter(|n| *n <= 2).map(|_| "0".to_string()),
            // Nothing is kept of a session that has ended, so there is no wait.
            "DefaultTime2Wait" => number(value).filter(|n| *n <= 3600).map(|n| n.to_string()),
            "DefaultTime2Retain" => number(value).filter(|n| *n <= 3600).map(|_| "0".to_string()),
            "TaskReporting" => {
                let has = value.split(',').any(|one| one == "RFC3720");
                has.then(|| "RFC3720".to_string())
            }
            "iSCSIProtocolLevel" => {
                number(value).filter(|n| *n <= 31).map(|n| n.min(1).to_string())
            }
            // Markers have been removed (RFC 7143, 13.25).
            "IFMarker" | "OFMarker" => boolean(value).map(|_| word(false)),
            "IFMarkInt" | "OFMarkInt" => None,
            _ => return Answer::NotUnderstood,
        };
        answer.map_or(Answer::Reject, Answer::Value)
    }

    /// Ends the negotiation: the first burst is at most the longest burst.
    pub(super) fn settle(&mut self) {
        self.first_burst = self.first_burst.min(self.max_burst);
    }
}

fn length(value: &str) -> Option<u32> {
    number(value).filter(|n| LENGTHS.contains(n))
}

/// The first supported one of the offered digests, and whether it is one.
fn digest(value: &str) -> Option<bool> {
    value.split(',').find_map(|one| match one {
        "CRC32C" => Some(true),
        "None" => Some(false),
        _ => None,
    })
}

fn named_digest(digest: &mut bool, on: bool) -> String {
    *digest = on;
    if on { "CRC32C" } else { "None" }.to_string()
}

fn word(on: bool) -> String {
    if on { "Yes" } else { "No" }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_answer() {
        for (key, value, answer) in [
            ("HeaderDigest", "CRC32C,None", "CRC32C"),
            ("HeaderDigest", "None,CRC32C", "None"),
            ("DataDigest", "X-new,CRC32C", "CRC32C"),
            ("DataDigest", "X-new", "Reject"),
            ("MaxConnections", "8", "1"),
            ("MaxConnections", "0", "Reject"),
            ("InitialR2T", "No", "No"),
            ("InitialR2T", "Yes", "Yes"),
            ("InitialR2T", "yes", "Reject"),
            ("ImmediateData", "Yes", "Yes"),
            ("ImmediateData", "No", "No"),
            ("MaxRecvDataSegmentLength", "511", "Reject"),
            ("MaxBurstLength", "16776192", "1048576"),
            ("MaxBurstLength", "512", "512"),
            ("FirstBurstLength", "262144", "65536"),
            ("FirstBurstLength", "0x1000", "4096"),
            ("DefaultTime2Wait", "2", "2"),
            ("DefaultTime2Retain", "20", "0"),
            ("MaxOutstandingR2T", "16", "1"),
            ("DataPDUInOrder", "No", "Yes"),
            ("DataSequenceInOrder", "Yes", "Yes"),
            ("ErrorRecoveryLevel", "2", "0"),
            ("ErrorRecoveryLevel", "3", "Reject"),
            ("IFMarker", "No", "No"),
            ("OFMarkInt", "2048~8192", "Reject"),
            ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
            ("TaskReporting", "FastAbort", "Reject"),
            ("iSCSIProtocolLevel", "2", "1"),
            ("X-com.example", "1", "NotUnderstood"),
        ] {
            let mut parameters = Parameters::default();
            assert_eq!(parameters.answer(key, value).value(), Some(answer), "{key}={value}");
        }
        let mut parameters = Parameters::default();
        assert_eq!(parameters.answer("MaxRecvDataSegmentLength", "65536"), Answer::Nothing);
        assert_eq!(parameters.segment, 65536);
    }

    #[test]
    fn a_first_burst_is_no_longer_than_a_burst() {
        let mut parameters = Parameters::default();
        parameters.answer("FirstBurstLength", "65536");
        parameters.answer("MaxBurstLength", "8192");
        parameters.settle();
        assert_eq!((parameters.first_burst, parameters.max_burst), (8192, 8192));
    }
}
