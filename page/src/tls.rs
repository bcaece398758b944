//! TLS, by a certificate of the operator's: browsers know its authority. Its files are looked at now and then, so
//! that a renewed certificate is used without a restart.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use weft_host::{About, Error, Level, Log, Result};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(60);

/// The certificate that is shown.
pub(crate) struct Shown {
    certificate: PathBuf,
    key: PathBuf,
    inside: Mutex<Inside>,
}

struct Inside {
    config: Arc<ServerConfig>,
    changed: Changed,
    looked: Instant,
}

/// When the two files were changed.
type Changed = [Option<SystemTime>; 2];

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

impl Shown {
    /// Reads the files.
    pub(crate) fn load((certificate, key): &(PathBuf, PathBuf)) -> Result<Shown> {
        let changed = [changed(certificate), changed(key)];
        let inside = Inside { config: config(certificate, key)?, changed, looked: Instant::now() };
        let (certificate, key) = (certificate.clone(), key.clone());
        Ok(Shown { certificate, key, inside: Mutex::new(inside) })
    }

    /// What to begin TLS with. If new files are wrong the old certificate stays.
    pub(crate) fn config(&self, now: Instant, log: &Log) -> Arc<ServerConfig> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if now < inside.looked + EVERY {
            return inside.config.clone();
        }
        inside.looked = now;
        let changed = [changed(&self.certificate), changed(&self.key)];
        if changed != inside.changed {
            inside.changed = changed;
            match config(&self.certificate, &self.key) {
                Ok(config) => inside.config = config,
                Err(e) => {
                    let line = format!("page: the old certificate stays in use: {e}");
                    log.say(Level::Warning, &About::default(), &line);
                }
            }
        }
        inside.config.clone()
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let wrong =
        |path: &Path, e: &dyn std::fmt::Display| Error(format!("page: {}: {e}", path.display()));
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|e| wrong(certificate, &e))?;
    let chain: Vec<CertificateDer> =
        chain.collect::<std::result::Result<_, _>>().map_err(|e| wrong(certificate, &e))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"there is no certificate in it; give one in PEM"));
    }
    let mode = fs::metadata(key).map_err(|e| wrong(key, &e))?.mode();
    if mode & 0o007 != 0 {
        return Err(wrong(
            key,
            &"all users of this machine can read this key; run `chmod 600` on it",
        ));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, &e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(certificate, &e))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| wrong(certificate, &e))?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use weft_net::identity::{CertificateAuthority, ClusterId, NodeKey};

    use super::*;

    #[test]
    fn files_are_checked_and_read_again_when_they_change() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        let both = (certificate.clone(), key.clone());
        let said = || Shown::load(&both).err().unwrap().0;
        assert!(said().contains("c.pem"), "{}", said());
        fs::write(&certificate, "no PEM").unwrap();
        assert!(said().contains("there is no certificate in it"), "{}", said());
        let write = |cluster| {
            let authority = CertificateAuthority::create(ClusterId(cluster)).unwrap();
            let node = NodeKey::generate().unwrap();
            let (name, life) = ("n0".parse().unwrap(), 1_000_000);
            let pem = authority.admit(&name, &node.public(), 1_700_000_000, life).unwrap();
            fs::write(&certificate, pem).unwrap();
            fs::write(&key, node.to_pem()).unwrap();
        };
        write(1);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(said().contains("chmod 600"), "{}", said());
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let shown = Shown::load(&both).unwrap();
        let (log, now) = (Log::silent(), Instant::now());
        let first = shown.config(now, &log);
        let later = |n: u32| now + EVERY * n + Duration::from_secs(1);
        write(2);
        assert!(Arc::ptr_eq(&first, &shown.config(now, &log)), "it is not time");
        let second = shown.config(later(1), &log);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &shown.config(later(2), &log)), "nothing has changed");
        fs::write(&certificate, "no PEM").unwrap();
        assert!(Arc::ptr_eq(&second, &shown.config(later(3), &log)), "the old one stays");
    }
}
