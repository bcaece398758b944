//! The certificates with which hosts are served by TLS.
//!
//! The processes of a cluster have their own, and the cluster's authority makes those of hosts, where its key is. An
//! array in one process gets an authority when one is first needed, in the folder `tls` of its directory.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use weft_net::identity::{
    CertificateAuthority, Clock, ClusterId, HostCertificate, Identity, LIFE, NodeKey, PublicKey,
    is_due,
};

use super::Tls;
use crate::durable::{is_there, make_private_directory};
use crate::error::{Error, Result, at, fail};

/// The folder of an array in one process.
const FOLDER: &str = "tls";

/// The file with the authority's certificate.
const CERTIFICATE: &str = "ca.pem";

/// The name in the certificate of an array in one process.
const NAME: &str = "array";

/// The certificates of a process.
pub(crate) struct Keeper {
    dir: PathBuf,
    /// The cluster's number, for an array in one process.
    alone: Option<u128>,
    inside: Mutex<Inside>,
}

struct Inside {
    tls: Tls,
    identity: Option<Arc<Identity>>,
    config: Option<Arc<ServerConfig>>,
    /// The addresses in the certificate of an array in one process.
    addresses: Vec<IpAddr>,
}

/// A host's certificate, with the files that it needs beside it.
pub(crate) struct Signed {
    pub(crate) certificate: HostCertificate,
    /// The authority's own certificate.
    pub(crate) ca: String,
}

fn said(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

impl Keeper {
    /// For an array in one process.
    pub(crate) fn alone(dir: &Path, cluster: u128) -> Keeper {
        Keeper::new(dir.join(FOLDER), Some(cluster), None)
    }

    /// For a process of a cluster.
    pub(crate) fn together(dir: &Path, identity: Arc<Identity>) -> Keeper {
        Keeper::new(dir.to_path_buf(), None, Some(identity))
    }

    fn new(dir: PathBuf, alone: Option<u128>, identity: Option<Arc<Identity>>) -> Keeper {
        let inside = Inside { tls: Tls::Off, identity, config: None, addresses: Vec::new() };
        Keeper { dir, alone, inside: Mutex::new(inside) }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether hosts are served by TLS, and at which addresses.
    pub(crate) fn serve(&self, tls: Tls, addresses: Vec<IpAddr>) -> Result<()> {
        let mut inside = self.lock();
        (inside.tls, inside.addresses) = (tls, addresses);
        let begun = CertificateAuthority::is_at(&self.dir).map_err(said)?;
        if self.alone.is_some() && tls != Tls::Off && (begun || tls == Tls::Require) {
            self.begin(&mut inside)?;
        }
        Ok(())
    }

    /// The TLS configuration for hosts, if they are served by TLS.
    pub(crate) fn config(&self) -> Result<Option<Arc<ServerConfig>>> {
        let mut inside = self.lock();
        if inside.tls == Tls::Off {
            return Ok(None);
        }
        let old = |id: &Arc<Identity>| is_due(id.until(), id.now());
        if self.alone.is_some() && inside.identity.as_ref().is_some_and(old) {
            let begun = self.begin(&mut inside);
            let lapsed = |id: &Arc<Identity>| id.until() <= id.now();
            // While the certificate is valid, hosts are served with it.
            if inside.identity.as_ref().is_none_or(lapsed) {
                begun?;
            }
        }
        if inside.config.is_none()
            && let Some(identity) = &inside.identity
        {
            inside.config = Some(identity.serving_config().map_err(said)?);
        }
        Ok(inside.config.clone())
    }

    /// Makes a host's certificate for its public key.
    pub(crate) fn certify(&self, name: &str, key: &[u8]) -> Result<Signed> {
        let key = PublicKey::from_bytes(key).map_err(said)?;
        let mut inside = self.lock();
        if self.alone.is_some() && inside.identity.is_none() {
            self.begin(&mut inside)?;
        }
        if !CertificateAuthority::is_at(&self.dir).map_err(said)? {
            return fail(format!(
                "the key of the cluster's authority (`ca-key.pem`) is not in {}; run this command at the process that has it, \
                 usually the first of the cluster",
                self.dir.display()
            ));
        }
        let authority = CertificateAuthority::load(&self.dir).map_err(said)?;
        let now = Clock::system().now();
        let certificate = authority.certify_host(name, &key, now, LIFE).map_err(said)?;
        Ok(Signed { certificate, ca: authority.pem().to_string() })
    }

    /// Makes the authority of an array in one process if it is missing, and a certificate with its addresses. The
    /// certificate has a new key each time.
    fn begin(&self, inside: &mut Inside) -> Result<()> {
        let Some(cluster) = self.alone else { return Ok(()) };
        if !CertificateAuthority::is_at(&self.dir).map_err(said)? {
            // Hosts trust the one that was there.
            let ca = self.dir.join(CERTIFICATE);
            if is_there(&ca)? {
                return fail(format!(
                    "the authority's key (`ca-key.pem`) is not beside {}: put it back, or remove that file to make another authority, which no host \
                     knows yet",
                    ca.display()
                ));
            }
            make_private_directory(&self.dir).map_err(at("create", &self.dir))?;
            let authority = CertificateAuthority::create(ClusterId(cluster)).map_err(said)?;
            authority.save(&self.dir).map_err(said)?;
        }
        let authority = CertificateAuthority::load(&self.dir).map_err(said)?;
        let key = NodeKey::generate().map_err(said)?;
        let name = NAME.parse().map_err(said)?;
        let now = Clock::system().now();
        let certificate =
            authority.admit_at(&name, &key.public(), &inside.addresses, now, LIFE).map_err(said)?;
        let identity = Identity::new(authority.pem(), &certificate, &key).map_err(said)?;
        (inside.identity, inside.config) = (Some(Arc::new(identity)), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_in_one_process_gets_an_authority_when_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::alone(dir.path(), 7);
        keeper.serve(Tls::Allow, Vec::new()).unwrap();
        assert!(keeper.config().unwrap().is_none() && !dir.path().join(FOLDER).exists());
        let key = NodeKey::generate().unwrap();
        let signed = keeper.certify("web", key.public().as_bytes()).unwrap();
        assert_eq!(signed.certificate.key, key.public().digest());
        assert!(keeper.config().unwrap().is_some(), "it is used at once");
        let again = Keeper::alone(dir.path(), 7);
        again.serve(Tls::Allow, Vec::new()).unwrap();
        assert!(again.config().unwrap().is_some());
        assert_eq!(again.certify("web", key.public().as_bytes()).unwrap().ca, signed.ca);
        again.serve(Tls::Off, Vec::new()).unwrap();
        assert!(again.config().unwrap().is_none());
        assert!(keeper.certify("Not a name", key.public().as_bytes()).is_err());
        assert!(keeper.certify("web", &[1, 2]).is_err());

        // Without its key, no other authority takes its place.
        let folder = dir.path().join(FOLDER);
        std::fs::rename(folder.join("ca-key.pem"), folder.join("away")).unwrap();
        let third = Keeper::alone(dir.path(), 7);
        let refused = third.serve(Tls::Require, Vec::new()).unwrap_err();
        assert!(refused.0.contains("is not beside") && refused.0.contains("ca.pem"), "{refused}");
        assert!(third.certify("web", key.public().as_bytes()).is_err());
        std::fs::rename(folder.join("away"), folder.join("ca-key.pem")).unwrap();
        third.serve(Tls::Require, Vec::new()).unwrap();
        assert_eq!(third.certify("web", key.public().as_bytes()).unwrap().ca, signed.ca);
    }
}
