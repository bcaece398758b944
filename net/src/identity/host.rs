//! Hosts: by which certificate they prove who they are to the processes that serve them.
//!
//! A host's certificate is of the cluster's authority, too, and its one name is `HOST.host.CLUSTER.weft`, which no
//! process can have. It may be shown by clients alone. So a host's certificate is never taken for a process's, nor a
//! process's for a host's: the name is looked at in every handshake, before the signature.

use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::ServerConnection;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::authority::{CertificateAuthority, PublicKey, certificate};
use super::shown::ToNodes;
use super::tls::{self, PeerError, crypto, signatures};
use super::{ClusterId, Identity, IdentityError, NodeName, lifetime};

/// What stands between a host's name and its cluster's in a certificate.
pub(super) const HOST: &str = "host";

/// Who a host has proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownHost {
    /// Its name.
    pub name: String,
    /// The digest of its public key.
    pub key: u128,
}

/// A certificate that was made for a host.
#[derive(Clone, Debug)]
pub struct HostCertificate {
    /// The certificate in PEM.
    pub pem: String,
    /// The digest of its public key.
    pub key: u128,
    /// Until when it is good, in seconds since 1970.
    pub until: u64,
}

impl CertificateAuthority {
    /// The certificate of a host, that is good for `life` seconds from `now` and at most a day more.
    ///
    /// # Errors
    ///
    /// If that is no name for a host, or signing fails.
    pub fn certify_host(
        &self,
        name: &str,
        key: &PublicKey,
        now: u64,
        life: u64,
    ) -> Result<HostCertificate, IdentityError> {
        // Hosts' names have the form of nodes'.
        let name: NodeName = name.parse()?;
        let dns = format!("{name}.{HOST}.{}.weft", self.cluster());
        let pem = self.sign(
            (dns, format!("weft host {name}")),
            key,
            &[],
            (now, life),
            vec![ExtendedKeyUsagePurpose::ClientAuth],
        )?;
        let until = lifetime::until(&certificate(&pem)?, &certificate(self.pem())?)?;
        Ok(HostCertificate { pem, key: key.digest(), until })
    }
}

/// The cluster and the host that a certificate names. It says nothing about who signed it.
fn host_of(certificate: &CertificateDer<'_>) -> Result<(ClusterId, String), PeerError> {
    let names = tls::names(certificate)?;
    let [name] = names.as_slice() else { return Err(PeerError::NoHost) };
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        [host, HOST, cluster, "weft"] => match (cluster.parse(), host.parse::<NodeName>()) {
            (Ok(cluster), Ok(host)) => Ok((cluster, host.to_string())),
            _ => Err(PeerError::NoHost),
        },
        _ => match tls::peer_of(certificate) {
            Ok((_, name)) => Err(PeerError::Process(name)),
            Err(_) => Err(PeerError::NoHost),
        },
    }
}

/// The host on the other side of a connection whose handshake is done.
pub fn shown_host(tls: &ServerConnection) -> Option<ShownHost> {
    let certificate = tls.peer_certificates().and_then(<[_]>::first)?;
    let (_, name) = host_of(certificate).ok()?;
    let key = PublicKey::of(certificate).ok()?.digest();
    Some(ShownHost { name, key })
}

/// How hosts of the cluster are served by TLS: each must show its certificate.
pub(super) fn serving_config(id: &Identity) -> Result<Arc<ServerConfig>, IdentityError> {
    let verifier = Arc::new(HostVerifier { cluster: id.cluster, checks: tls::client_checks(id)? });
    let mut config = tls::answering(id.clock.clone())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(ToNodes(id.shown.clone())));
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct HostVerifier {
    cluster: ClusterId,
    checks: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for HostVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let (theirs, name) = host_of(end_entity)?;
        if theirs != self.cluster {
            return Err(PeerError::OtherClusterHost { name, theirs, ours: self.cluster }.into());
        }
        self.checks
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(|e| tls::in_words(e, self.cluster, None))
    }

    signatures!();
}
