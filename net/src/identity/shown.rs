//! The certificate that a node shows. A renewed one takes its place while connections stand: they
//! keep what they were begun with, and the next ones show the new one.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{IdentityError, lifetime, tls};

/// A certificate with its key, ready to be shown.
#[derive(Clone, Debug)]
struct Ready {
    key: Arc<CertifiedKey>,
    /// The same, followed by the authority's certificate.
    with_authority: Arc<CertifiedKey>,
    /// Until when it is good, in seconds since 1970.
    until: u64,
}

/// What a node shows now.
#[derive(Debug)]
pub(super) struct Shown(RwLock<Ready>);

impl Ready {
    fn new(
        ca: &CertificateDer<'static>,
        certificate: CertificateDer<'static>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Ready, IdentityError> {
        let until = lifetime::until(&certificate, ca)?;
        let one =
            CertifiedKey::from_der(vec![certificate.clone()], key.clone_key(), &tls::crypto())
                .map_err(|e| IdentityError::Tls(e.to_string()))?;
        let both = CertifiedKey::new(vec![certificate, ca.clone()], one.key.clone());
        Ok(Ready { key: Arc::new(one), with_authority: Arc::new(both), until })
    }
}

impl Shown {
    pub(super) fn new(
        ca: &CertificateDer<'static>,
        certificate: CertificateDer<'static>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Shown, IdentityError> {
        Ready::new(ca, certificate, key).map(|ready| Shown(RwLock::new(ready)))
    }

    fn now(&self) -> Ready {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.now().key.cert[0].clone()
    }

    pub(super) fn until(&self) -> u64 {
        self.now().until
    }

    /// A certificate that could take the place of this one: until when it is good, and what puts
    /// it there.
    pub(super) fn successor(
        &self,
        ca: &CertificateDer<'static>,
        certificate: CertificateDer<'static>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<(u64, impl FnOnce() + use<'_>), IdentityError> {
        let ready = Ready::new(ca, certificate, key)?;
        let until = ready.until;
        let put = move || *self.0.write().unwrap_or_else(PoisonError::into_inner) = ready;
        Ok((until, put))
    }
}

/// Shows it to nodes of the cluster.
#[derive(Debug)]
pub(super) struct ToNodes(pub(super) Arc<Shown>);

/// Shows it, with the authority's, to who wants to join.
#[derive(Debug)]
pub(super) struct ToJoiners(pub(super) Arc<Shown>);

impl ResolvesClientCert for ToNodes {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now().key)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for ToNodes {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now().key)
    }
}

impl ResolvesServerCert for ToJoiners {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.now().with_authority)
    }
}
