//! Who belongs to a cluster.
//!
//! A cluster has a number, its id, and a certificate authority of its own. Every node has a
//! certificate from it whose one name is `NODE.CLUSTER.weft`: the node's name and the cluster's
//! id in hexadecimal. Two nodes that meet show each other their certificates; who has none of
//! this cluster's authority is refused, with an error that says what was shown instead.
//!
//! A new node makes a key of its own ([`NodeKey`]), and whoever keeps the authority signs it
//! ([`CertificateAuthority::admit`]). So that both know whom they deal with, an operator carries a
//! [`JoinToken`] from one to the other: a secret that is good once and for a while, and the
//! fingerprint of the authority ([`joining_config`], [`Identity::admitting_config`]).
//!
//! Certificates are good for a year and renewed each month while a node runs ([`Identity::renew`]); those
//! who have the authority's key make them. A node is expelled by taking it off the list of peers,
//! and its certificate is not renewed any more.
//!
//! Everything is kept in PEM files; those with private keys can be read by their owner alone.

mod authority;
mod files;
mod host;
mod lifetime;
mod shown;
#[cfg(test)]
mod tests;
mod tls;
mod token;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ServerConfig};

use authority::LOOPBACK;
pub use authority::{CertificateAuthority, NodeKey, PublicKey};
pub use host::{HostCertificate, ShownHost, shown_host};
pub use lifetime::{Clock, LIFE, date, is_due};
use shown::Shown;
pub(crate) use tls::server_name;
pub use tls::{LAPSED, PeerError, describe, joining_config, peer_of};
pub use token::{JoinToken, TokenBook, TokenError};

const CA_FILE: &str = "ca.pem";
const CA_KEY_FILE: &str = "ca-key.pem";
const NODE_FILE: &str = "node.pem";
const NODE_KEY_FILE: &str = "node-key.pem";

/// What went wrong with keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A private key that others can read.
    #[error(
        "{0}: users other than its owner can read this private key; run 'chmod 600' on it, and \
         replace the key if it may have been read"
    )]
    Exposed(PathBuf),
    /// A file without what it should hold.
    #[error("{path}: {what}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A name that no node can have.
    #[error(
        "'{0}' is not a valid name for a node; use 1 to 32 of a-z, 0-9 and '-', not beginning or ending with '-'"
    )]
    Name(String),
    /// A text that is no cluster id.
    #[error("'{0}' is not a cluster id, which has 32 hexadecimal digits")]
    Cluster(String),
    /// A public key of the wrong form.
    #[error("this is not a public key: it has {0} bytes instead of 65")]
    PublicKey(usize),
    /// Making keys or certificates failed.
    #[error("cannot make a key or certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// A renewed certificate that is no better than the one that there is.
    #[error(
        "the new certificate is valid until {}, the present one until {}, and the clock here says \
         {}: check the clocks of both machines", date(*new), date(*old), date(*now)
    )]
    NoBetter {
        /// Until when the new one is good, in seconds since 1970.
        new: u64,
        /// Until when the old one is.
        old: u64,
        /// The time here.
        now: u64,
    },
    /// Keys and certificates do not fit together.
    #[error("these keys and certificates cannot be used for TLS: {0}")]
    Tls(String),
    /// The system has no random numbers.
    #[error("the system provides no random numbers")]
    Random,
}

impl From<ring::error::Unspecified> for IdentityError {
    fn from(_: ring::error::Unspecified) -> Self {
        IdentityError::Random
    }
}

/// Fills an array with random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], IdentityError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes)
}

/// The number of a cluster; printed in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// A new one, at random.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn generate() -> Result<ClusterId, IdentityError> {
        random().map(|b| ClusterId(u128::from_le_bytes(b)))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The cluster and the node that a certificate in PEM is of.
///
/// # Errors
///
/// If it is not a node's certificate.
pub fn cluster_of(certificate_pem: &str) -> Result<(ClusterId, NodeName), IdentityError> {
    let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
        .map_err(|e| IdentityError::Tls(e.to_string()))?;
    peer_of(&certificate).map_err(|e| IdentityError::Tls(e.to_string()))
}

/// A certificate in PEM as the bytes that it stands for.
///
/// # Errors
///
/// If it is none.
pub fn der_of(certificate_pem: &str) -> Result<Vec<u8>, IdentityError> {
    authority::certificate(certificate_pem).map(|c| c.to_vec())
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClusterId {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if digits => Ok(ClusterId(id)),
            _ => Err(IdentityError::Cluster(text.to_string())),
        }
    }
}

/// The name of a node: 1 to 32 lower-case letters, digits and hyphens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NodeName {
    type Err = IdentityError;

    fn from_str(name: &str) -> Result<Self, IdentityError> {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good = (1..=32).contains(&name.len())
            && name.bytes().all(known)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if good {
            Ok(NodeName(name.to_string()))
        } else {
            Err(IdentityError::Name(name.to_string()))
        }
    }
}

/// What a node shows and what it asks for: its certificate, its key, its cluster's authority.
#[derive(Debug)]
pub struct Identity {
    cluster: ClusterId,
    name: NodeName,
    ca: CertificateDer<'static>,
    ca_pem: String,
    key: PrivateKeyDer<'static>,
    shown: Arc<Shown>,
    clock: Clock,
}

impl Identity {
    /// Puts together what a node got when it was admitted.
    ///
    /// # Errors
    ///
    /// If the certificate is not of the authority's cluster, or not in PEM.
    pub fn new(ca_pem: &str, certificate_pem: &str, key: &NodeKey) -> Result<Self, IdentityError> {
        Identity::from_pem(Path::new("."), ca_pem, certificate_pem, &key.to_pem())
    }

    /// Loads what [`Identity::save`] has written to `dir`.
    ///
    /// # Errors
    ///
    /// If a file is missing or not what it should be, or others can read the key.
    pub fn load(dir: &Path) -> Result<Identity, IdentityError> {
        let ca = files::read(&dir.join(CA_FILE))?;
        let certificate = files::read(&dir.join(NODE_FILE))?;
        let key = files::read_private(&dir.join(NODE_KEY_FILE))?;
        Identity::from_pem(dir, &ca, &certificate, &key)
    }

    /// Writes the files of a node to `dir`.
    ///
    /// # Errors
    ///
    /// If there is an identity already, or the files cannot be written.
    pub fn save(
        dir: &Path,
        ca_pem: &str,
        certificate_pem: &str,
        key: &NodeKey,
    ) -> Result<(), IdentityError> {
        files::create_private(&dir.join(NODE_KEY_FILE), &key.to_pem())?;
        files::replace(&dir.join(NODE_FILE), certificate_pem)?;
        files::replace(&dir.join(CA_FILE), ca_pem)
    }

    fn from_pem(dir: &Path, ca: &str, node: &str, key: &str) -> Result<Self, IdentityError> {
        let content =
            |file: &str, what: String| IdentityError::Content { path: dir.join(file), what };
        let certificate = |file: &str, pem: &str| {
            CertificateDer::from_pem_slice(pem.as_bytes())
                .map_err(|e| content(file, format!("not a certificate in PEM: {e}")))
        };
        let ca_pem = ca.to_string();
        let ca = certificate(CA_FILE, ca)?;
        let certificate = certificate(NODE_FILE, node)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|e| content(NODE_KEY_FILE, format!("not a private key in PEM: {e}")))?;
        let cluster =
            tls::cluster_of_authority(&ca).map_err(|e| content(CA_FILE, e.to_string()))?;
        let (theirs, name) =
            peer_of(&certificate).map_err(|e| content(NODE_FILE, e.to_string()))?;
        if theirs != cluster {
            let what = format!("a certificate of cluster {theirs}, but {CA_FILE} is of {cluster}");
            return Err(content(NODE_FILE, what));
        }
        let shown =
            Shown::new(&ca, certificate, &key).map_err(|e| content(NODE_FILE, e.to_string()))?;
        let (shown, clock) = (Arc::new(shown), Clock::system());
        Ok(Identity { cluster, name, ca, ca_pem, key, shown, clock })
    }

    /// The same, going by another clock than the machine's.
    pub fn with_clock(self, clock: Clock) -> Identity {
        Identity { clock, ..self }
    }

    /// The time that it goes by, in seconds since 1970.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Until when its certificate is good, in seconds since 1970.
    pub fn until(&self) -> u64 {
        self.shown.until()
    }

    /// Its certificate, for who renews it.
    pub fn certificate(&self) -> Vec<u8> {
        self.shown.certificate().to_vec()
    }

    /// Shows another certificate for its name and key from now on, and keeps it in `dir`. Connections
    /// that stand are not touched. Returns until when it is good.
    ///
    /// # Errors
    ///
    /// If it is not that, or no better than the one that there is, or the file cannot be written.
    /// Then nothing has changed.
    pub fn renew(&self, dir: &Path, certificate_pem: &str) -> Result<u64, IdentityError> {
        let certificate = authority::certificate(certificate_pem)?;
        let (cluster, name) =
            peer_of(&certificate).map_err(|e| IdentityError::Tls(e.to_string()))?;
        if (cluster, &name) != (self.cluster, &self.name) {
            let text = format!("the new certificate is of {name} of cluster {cluster}");
            return Err(IdentityError::Tls(text));
        }
        lifetime::check_signed(&certificate, &self.ca)?;
        let (new, put) = self.shown.successor(&self.ca, certificate, &self.key)?;
        let (old, now) = (self.until(), self.now());
        // One of before there were addresses in them is worth replacing on the same day.
        let gains = self.lacks_addresses()
            && authority::names_address(&authority::certificate(certificate_pem)?, LOOPBACK[0]);
        let better = lifetime::is_better(new, old, now) || (gains && new >= old);
        if !better {
            return Err(IdentityError::NoBetter { new, old, now });
        }
        files::replace(&dir.join(NODE_FILE), certificate_pem)?;
        put();
        Ok(new)
    }

    /// Whether its certificate was made before processes' had addresses in them, by which hosts know them.
    pub fn lacks_addresses(&self) -> bool {
        !authority::names_address(&self.shown.certificate(), LOOPBACK[0])
    }

    /// The authority's certificate in PEM, for hosts.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The node's name.
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// How this node dials others of its cluster.
    ///
    /// # Errors
    ///
    /// If key and certificate do not fit together.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        tls::client_config(self)
    }

    /// How others of its cluster are let in.
    ///
    /// # Errors
    ///
    /// As [`Identity::client_config`].
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        tls::server_config(self)
    }

    /// How hosts of its cluster are served: each must show its certificate.
    ///
    /// # Errors
    ///
    /// As [`Identity::client_config`].
    pub fn serving_config(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        host::serving_config(self)
    }

    /// How one that wants to join is let in: it has no certificate yet, and must show a token.
    /// It gets to see the authority's certificate, to hold against the token.
    ///
    /// # Errors
    ///
    /// As [`Identity::client_config`].
    pub fn admitting_config(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        tls::admitting_config(self)
    }
}
