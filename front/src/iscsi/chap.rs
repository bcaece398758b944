//! CHAP: an initiator proves that it knows a secret, and so does the target if asked (RFC 1994; RFC 7143, 12.1.3).
//!
//! This module knows no secrets. The driver supplies random bytes for the challenge, and judges the resulting
//! [`Claim`].

use super::keys;

/// The longest challenge of an initiator (RFC 7143, 12.1.3).
const LONGEST_CHALLENGE: usize = 1024;

/// The longest name that an initiator can have here.
const LONGEST_NAME: usize = 255;

/// Whether initiators authenticate by CHAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chap {
    /// Nobody does.
    #[default]
    Off,
    /// Initiators that offer it before `None` do.
    Offered,
    /// All initiators must.
    Required,
}

/// The target's challenge to an initiator that authenticates: fresh random bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The identifier of the challenge.
    pub identifier: u8,
    /// Its bytes.
    pub bytes: [u8; 32],
}

/// A CHAP digest, by IANA's registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5.
    Md5 = 5,
    /// SHA-256.
    Sha256 = 7,
    /// SHA3-256.
    Sha3 = 8,
}

impl Algorithm {
    /// All of them, the strongest first.
    pub const ALL: [Algorithm; 3] = [Algorithm::Sha3, Algorithm::Sha256, Algorithm::Md5];

    /// The length of its digests in bytes.
    pub fn digest_len(self) -> usize {
        if self == Algorithm::Md5 { 16 } else { 32 }
    }
}

/// An initiator's claim to be a certain host, with its answer to the target's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claimed name.
    pub name: String,
    /// The digest.
    pub algorithm: Algorithm,
    /// The challenge that it answers.
    pub challenge: Challenge,
    /// Its answer, as long as the digest.
    pub response: Vec<u8>,
    /// The identifier and bytes of the initiator's own challenge, if the target must authenticate too.
    pub asks: Option<(u8, Vec<u8>)>,
}

/// Why an initiator has not been authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// It must offer CHAP and does not.
    #[error("the initiator does not offer CHAP, which is required at this address")]
    NotOffered,
    /// It offers no known method.
    #[error("the initiator offers no authentication method that this target supports")]
    NoMethod,
    /// It supports none of our digests.
    #[error("the initiator offers none of the digests MD5, SHA-256 and SHA3-256")]
    NoAlgorithm,
    /// A CHAP key out of sequence, or a missing one.
    #[error("the initiator sends the keys of CHAP out of order")]
    Order,
    /// A CHAP key with an invalid value.
    #[error("a key of CHAP has a malformed value")]
    Malformed,
    /// It sends our own challenge back.
    #[error("the initiator sends the target's own challenge back")]
    Reflected,
}

/// The state of the authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No method has been chosen.
    #[default]
    Open,
    /// Nothing has to be proved.
    Unneeded,
    /// CHAP was chosen; the initiator names its digests next.
    Chosen,
    /// The initiator has a challenge to answer.
    Challenged(Algorithm),
    /// The driver judges the answer.
    Claimed,
    /// The answer was right.
    Proved,
}

/// The authentication of one login.
#[derive(Debug, Default)]
pub(super) struct Authentication {
    stage: Stage,
    /// Keys of the request in progress.
    algorithms: Option<String>,
    name: Option<String>,
    response: Option<Vec<u8>>,
    identifier: Option<u8>,
    challenge: Option<Vec<u8>>,
}

impl Authentication {
    /// No method has been chosen.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether the login may continue: no authentication is needed, or it has succeeded.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Unneeded | Stage::Proved)
    }

    /// Whether CHAP has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::Chosen | Stage::Challenged(_) | Stage::Claimed)
    }

    /// Chooses the first offered method that is supported.
    pub(super) fn choose(&mut self, offered: &str, chap: Chap) -> Result<&'static str, Unproved> {
        for method in offered.split(',') {
            match method {
                "CHAP" if chap != Chap::Off => {
                    self.stage = Stage::Chosen;
                    return Ok("CHAP");
                }
                "None" if chap != Chap::Required => {
                    self.stage = Stage::Unneeded;
                    return Ok("None");
                }
                _ => {}
            }
        }
        Err(if chap == Chap::Required { Unproved::NotOffered } else { Unproved::NoMethod })
    }

    /// Takes a key if it is one of CHAP's, and returns whether it is.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, Unproved> {
        let binary = |longest| {
            let bytes = keys::binary(value).filter(|b| !b.is_empty() && b.len() <= longest);
            bytes.ok_or(Unproved::Malformed)
        };
        match key {
            "CHAP_A" => self.algorithms = Some(value.to_string()),
            "CHAP_N" if value.len() <= LONGEST_NAME => self.name = Some(value.to_string()),
            "CHAP_N" => return Err(Unproved::Malformed),
            "CHAP_R" => self.response = Some(binary(Algorithm::Sha3.digest_len())?),
            "CHAP_I" => {
                let number = keys::number(value).and_then(|n| u8::try_from(n).ok());
                self.identifier = Some(number.ok_or(Unproved::Malformed)?);
            }
            "CHAP_C" => self.challenge = Some(binary(LONGEST_CHALLENGE)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Continues with the keys of a complete request. Keys for the initiator are appended to `answer`.
    pub(super) fn step(
        &mut self,
        challenge: &Challenge,
        answer: &mut Vec<u8>,
    ) -> Result<Option<Claim>, Unproved> {
        if self.stage == Stage::Chosen
            && let Some(offered) = self.algorithms.take()
        {
            let offers =
                |a: &Algorithm| offered.split(',').any(|one| keys::number(one) == Some(*a as u32));
            let chosen = Algorithm::ALL.into_iter().find(offers).ok_or(Unproved::NoAlgorithm)?;
            keys::append(answer, "CHAP_A", &(chosen as u8).to_string());
            keys::append(answer, "CHAP_I", &challenge.identifier.to_string());
            keys::append(answer, "CHAP_C", &keys::hexadecimal(&challenge.bytes));
            self.stage = Stage::Challenged(chosen);
            // An answer in the same request cannot have seen the challenge.
            return if self.is_any_given() { Err(Unproved::Order) } else { Ok(None) };
        }
        if !self.is_any_given() {
            return Ok(None);
        }
        let given = (self.name.take(), self.response.take(), self.identifier.take());
        let asked = self.challenge.take();
        let Stage::Challenged(algorithm) = self.stage else { return Err(Unproved::Order) };
        let (Some(name), Some(response), identifier) = given else { return Err(Unproved::Order) };
        let asks = match (identifier, asked) {
            (None, None) => None,
            (Some(identifier), Some(bytes)) => Some((identifier, bytes)),
            _ => return Err(Unproved::Order),
        };
        if self.algorithms.is_some() {
            return Err(Unproved::Order);
        }
        if response.len() != algorithm.digest_len() {
            return Err(Unproved::Malformed);
        }
        if asks.as_ref().is_some_and(|(_, bytes)| bytes[..] == challenge.bytes) {
            return Err(Unproved::Reflected);
        }
        self.stage = Stage::Claimed;
        Ok(Some(Claim { name, algorithm, challenge: challenge.clone(), response, asks }))
    }

    fn is_any_given(&self) -> bool {
        self.name.is_some()
            || self.response.is_some()
            || self.identifier.is_some()
            || self.challenge.is_some()
            || self.algorithms.is_some()
    }

    /// The answer was right. With `proof`, a name and a digest, the target authenticates itself.
    pub(super) fn proved(&mut self, proof: Option<(&str, &[u8])>, answer: &mut Vec<u8>) {
        self.stage = Stage::Proved;
        if let Some((name, digest)) = proof {
            keys::append(answer, "CHAP_N", name);
            keys::append(answer, "CHAP_R", &keys::hexadecimal(digest));
        }
    }
}
