//! Join tokens: what an operator carries from the cluster to a new node.
//!
//! ```text
//! weft1-ID-SECRET-FINGERPRINT-CHECK
//! ```
//!
//! in hexadecimal: 8 bytes to find it by, 16 bytes of secret, the SHA-256 of the authority's
//! certificate, and 4 bytes that tell a typing error from a wrong token. The cluster's side keeps
//! a [`TokenBook`], with the secrets as hashes. A token is good for one name and one key, those that
//! it is shown with first: who has seen it cannot have a certificate of its own with it later, and the
//! node that did not hear the answer asks again with the key that it has.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use weft_bytes::checksum;

use super::authority::sha256;
use super::{IdentityError, NodeName, PublicKey, files, random};

const PREFIX: &str = "weft1";

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token.
    #[error(
        "this is not a join token: it should begin with '{PREFIX}-' and have five parts; copy all of it"
    )]
    Form,
    /// Mistyped.
    #[error("this join token has a typing error; copy all of it again")]
    Typing,
    /// Not issued here, or forgotten.
    #[error("this cluster has issued no such join token; ask for a new one")]
    Unknown,
    /// Too late.
    #[error("this join token expired {ago} seconds ago; ask for a new one")]
    Expired {
        /// How long ago.
        ago: u64,
    },
    /// Used.
    #[error("this join token has been used already, by node {by}; ask for a new one")]
    Used {
        /// By whom.
        by: NodeName,
    },
    /// Used for a node of this name, which had another key.
    #[error(
        "this join token has been used already, by a node that calls itself {by} and has another key. \
         A token is for one key: ask for a new one. If you did not use it, remove that node \
         (`weft node list`, `weft node remove`)"
    )]
    OtherKey {
        /// The name.
        by: NodeName,
    },
}

/// A right to join a cluster once.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// To find it in the book.
    pub id: u64,
    /// What only who was given it knows.
    pub secret: [u8; 16],
    /// SHA-256 of the certificate of the cluster's authority.
    pub fingerprint: [u8; 32],
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; N];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secret, fingerprint) = (hex(&self.secret), hex(&self.fingerprint));
        let text = format!("{PREFIX}-{:016x}-{secret}-{fingerprint}", self.id);
        write!(f, "{text}-{:08x}", checksum::crc32c(text.as_bytes()))
    }
}

/// Does not show the secret: tokens must not get into logs.
impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({:016x})", self.id)
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim().to_ascii_lowercase();
        let parts: Vec<&str> = text.split('-').collect();
        let [PREFIX, id, secret, fingerprint, check] = parts.as_slice() else {
            return Err(TokenError::Form);
        };
        let body = text.rsplit_once('-').map(|(body, _)| body).ok_or(TokenError::Form)?;
        let sum = checksum::crc32c(body.as_bytes()).to_be_bytes();
        if unhex::<4>(check) != Some(sum) {
            return Err(TokenError::Typing);
        }
        let id = unhex(id).map(u64::from_be_bytes).ok_or(TokenError::Form)?;
        let secret = unhex(secret).ok_or(TokenError::Form)?;
        let fingerprint = unhex(fingerprint).ok_or(TokenError::Form)?;
        Ok(JoinToken { id, secret, fingerprint })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// SHA-256 of the secret: who reads the book cannot join with it.
    hash: [u8; 32],
    /// Seconds since 1970.
    expires: u64,
    used: Option<Use>,
}

/// What a token has been used for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    by: NodeName,
    /// SHA-256 of the node's public key; not known of what an earlier version wrote.
    key: Option<[u8; 32]>,
}

/// The tokens that a cluster has issued. Whoever keeps it saves it before it acts on a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenBook {
    entries: BTreeMap<u64, Entry>,
}

/// How long an entry is kept after it expired, so that the error can say so.
const KEPT: u64 = 30 * 86_400;

impl TokenBook {
    /// Issues a token that is good for `lifetime` seconds from `now` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn issue(
        &mut self,
        fingerprint: [u8; 32],
        now: u64,
        lifetime: u64,
    ) -> Result<JoinToken, IdentityError> {
        self.entries.retain(|_, e| e.expires.saturating_add(KEPT) > now);
        let id = u64::from_le_bytes(random()?);
        let token = JoinToken { id, secret: random()?, fingerprint };
        let expires = now.saturating_add(lifetime);
        self.entries.insert(id, Entry { hash: sha256(&token.secret), expires, used: None });
        Ok(token)
    }

    /// Uses a token up for node `by` and its key. The same node may come again with it and the same key
    /// (its first attempt may have broken off), nobody else. Says whether it had not been used
    /// before.
    ///
    /// # Errors
    ///
    /// If it is unknown, expired or used.
    pub fn redeem(
        &mut self,
        id: u64,
        secret: &[u8; 16],
        by: &NodeName,
        key: &PublicKey,
        now: u64,
    ) -> Result<bool, TokenError> {
        let entry = self.entries.get_mut(&id).ok_or(TokenError::Unknown)?;
        // Hashes are compared, so the time that it takes tells nothing of the secret.
        if entry.hash != sha256(secret) {
            return Err(TokenError::Unknown);
        }
        if entry.expires <= now {
            return Err(TokenError::Expired { ago: now - entry.expires });
        }
        match &entry.used {
            Some(other) if other.by != *by => Err(TokenError::Used { by: other.by.clone() }),
            Some(same) if same.key != Some(key.hash()) => {
                Err(TokenError::OtherKey { by: by.clone() })
            }
            Some(_) => Ok(false),
            None => {
                entry.used = Some(Use { by: by.clone(), key: Some(key.hash()) });
                Ok(true)
            }
        }
    }

    /// Who used a token with this key was refused for another reason: it is good again.
    pub fn give_back(&mut self, id: u64, key: &PublicKey) {
        let of_it = |u: &Use| u.key == Some(key.hash());
        let entry = self.entries.get_mut(&id);
        if let Some(entry) = entry.filter(|e| e.used.as_ref().is_some_and(of_it)) {
            entry.used = None;
        }
    }

    /// Writes the book to a private file, a line for each token.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), IdentityError> {
        let mut text = String::new();
        for (id, e) in &self.entries {
            let by = e.used.as_ref().map_or("", |u| u.by.as_str());
            let key = e.used.as_ref().and_then(|u| u.key).map_or(String::new(), |k| hex(&k));
            text += format!("{id:016x} {} {} {by} {key}", hex(&e.hash), e.expires).trim_end();
            text += "\n";
        }
        files::replace_private(path, &text)
    }

    /// Reads what [`TokenBook::save`] has written; no file is an empty book.
    ///
    /// # Errors
    ///
    /// If it is not one, or others can read it.
    pub fn load(path: &Path) -> Result<TokenBook, IdentityError> {
        let text = match files::read_private(path) {
            Err(IdentityError::File { error, .. })
                if error.kind() == std::io::ErrorKind::NotFound =>
            {
                String::new()
            }
            other => other?,
        };
        let mut book = TokenBook::default();
        for (n, line) in text.lines().enumerate() {
            let (id, entry) = parse_entry(line).ok_or_else(|| IdentityError::Content {
                path: path.to_path_buf(),
                what: format!("line {} is not an entry for a join token", n + 1),
            })?;
            book.entries.insert(id, entry);
        }
        Ok(book)
    }
}

fn parse_entry(line: &str) -> Option<(u64, Entry)> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let (id, hash, expires, used) = match parts.as_slice() {
        [id, hash, expires] => (id, hash, expires, None),
        [id, hash, expires, by] => {
            (id, hash, expires, Some(Use { by: by.parse().ok()?, key: None }))
        }
        [id, hash, expires, by, key] => {
            (id, hash, expires, Some(Use { by: by.parse().ok()?, key: Some(unhex(key)?) }))
        }
        _ => return None,
    };
    let entry = Entry { hash: unhex(hash)?, expires: expires.parse().ok()?, used };
    Some((u64::from_be_bytes(unhex(id)?), entry))
}
