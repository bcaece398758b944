//! TLS between nodes: both sides show a certificate of the cluster and check the other's.
//!
//! TLS 1.3 only, and no resumed sessions: every connection proves itself anew. Before rustls
//! checks a certificate's signatures, its name is looked at, so that a node of another cluster
//! is refused as such and not as one "of an unknown issuer".

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{
    CertificateDer, DnsName, ServerName, SignatureVerificationAlgorithm, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct,
    DistinguishedName, Error, OtherError, RootCertStore, ServerConfig, SignatureScheme,
    WantsVerifier,
};

use super::authority::fingerprint;
use super::host::HOST;
use super::lifetime::{Clock, date};
use super::shown::{ToJoiners, ToNodes};
use super::{ClusterId, Identity, IdentityError, NodeName};

/// Why a certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Not one of ours.
    #[error("its certificate is not for a node of a weft cluster")]
    NoName,
    /// Of another cluster.
    #[error("its certificate is for node {name} of cluster {theirs}, and this is cluster {ours}")]
    OtherCluster {
        /// The node that it names.
        name: NodeName,
        /// The cluster that it names.
        theirs: ClusterId,
        /// Ours.
        ours: ClusterId,
    },
    /// Forged, or of a cluster that was made anew with the same id.
    #[error("its certificate names cluster {0}, but this cluster's authority did not sign it")]
    NotSigned(ClusterId),
    /// A process's, where hosts are served.
    #[error(
        "its certificate is for the process of node {0}, and hosts need their own (`weft host certify`)"
    )]
    Process(NodeName),
    /// A host's, where processes talk.
    #[error("its certificate is for the host {0}, and processes need their own")]
    Host(NodeName),
    /// Not one of ours, where hosts are served.
    #[error(
        "its certificate is not for a host of a weft cluster; make one with `weft host certify`"
    )]
    NoHost,
    /// A host of another cluster.
    #[error("its certificate is for host {name} of cluster {theirs}, and this is cluster {ours}")]
    OtherClusterHost {
        /// The host that it names.
        name: String,
        /// The cluster that it names.
        theirs: ClusterId,
        /// Ours.
        ours: ClusterId,
    },
    /// Another node answers at this address.
    #[error("node {found} answers at the address of another; correct the addresses of the peers")]
    OtherNode {
        /// Who answers.
        found: NodeName,
    },
    /// The authority is not the one of the token.
    #[error(
        "the certificate there is not of the token's authority: the address belongs to another \
         cluster, or does not admit nodes"
    )]
    Fingerprint,
}

impl From<PeerError> for Error {
    fn from(error: PeerError) -> Error {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }
}

/// What to do about a certificate that has lapsed.
pub const LAPSED: &str = "if one of the two clocks is wrong, correct it; if that node was down \
                          for longer than its certificate is valid, copy its `node.pem` to the \
                          process with the authority's key, run `weft cluster renew node.pem \
                          --out FILE` there, and replace it by FILE";

/// A TLS error in words.
pub fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => other.0.to_string(),
        Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after }) => format!(
            "its certificate expired on {}, and the clock here says {}; {LAPSED}",
            date(not_after.as_secs()),
            date(time.as_secs())
        ),
        Error::InvalidCertificate(other) => format!("its certificate is not valid: {other}"),
        Error::NoCertificatesPresented => "it sent no certificate".to_string(),
        Error::InvalidMessage(_) => {
            "the received data are not TLS; is TLS off on the other side?".to_string()
        }
        Error::AlertReceived(alert) => {
            let why = match alert {
                AlertDescription::CertificateRequired => "it requires a certificate",
                AlertDescription::CertificateExpired => {
                    return format!(
                        "by the other side's clock our certificate has expired; {LAPSED}"
                    );
                }
                AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::BadCertificate => {
                    "it does not accept our certificate; see its log"
                }
                _ => "its log says why",
            };
            format!("the other side ended the TLS handshake ({alert:?}): {why}")
        }
        other => format!("TLS: {other}"),
    }
}

pub(super) fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, PeerError> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| PeerError::NoName)?;
    Ok(parsed.valid_dns_names().map(str::to_string).collect())
}

/// The cluster and the node that a certificate names. It says nothing about who signed it.
///
/// # Errors
///
/// If it names none.
pub fn peer_of(certificate: &CertificateDer<'_>) -> Result<(ClusterId, NodeName), PeerError> {
    let names = names(certificate)?;
    let [name] = names.as_slice() else { return Err(PeerError::NoName) };
    let parts: Vec<&str> = name.split('.').collect();
    if let [host, HOST, _, "weft"] = parts.as_slice()
        && let Ok(host) = host.parse()
    {
        return Err(PeerError::Host(host));
    }
    let [node, cluster, "weft"] = parts.as_slice() else { return Err(PeerError::NoName) };
    match (cluster.parse(), node.parse()) {
        (Ok(cluster), Ok(node)) => Ok((cluster, node)),
        _ => Err(PeerError::NoName),
    }
}

/// The cluster whose authority's certificate this is.
pub(super) fn cluster_of_authority(ca: &CertificateDer<'_>) -> Result<ClusterId, PeerError> {
    let names = names(ca)?;
    let [name] = names.as_slice() else { return Err(PeerError::NoName) };
    let cluster = name.strip_suffix(".weft").ok_or(PeerError::NoName)?;
    cluster.parse().map_err(|_| PeerError::NoName)
}

/// The name that a node of a cluster has in its certificate.
pub(crate) fn server_name(cluster: ClusterId, node: &NodeName) -> ServerName<'static> {
    let name = format!("{node}.{cluster}.weft");
    DnsName::try_from(name).map(ServerName::DnsName).expect("both parts are checked labels")
}

pub(super) fn signature_algorithms() -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    provider::default_provider().signature_verification_algorithms.all
}

pub(super) fn crypto() -> Arc<CryptoProvider> {
    use provider::cipher_suite as suites;
    // The shorter key first: it is a third faster, and strong enough.
    let cipher_suites = vec![
        suites::TLS13_AES_128_GCM_SHA256,
        suites::TLS13_AES_256_GCM_SHA384,
        suites::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites, ..provider::default_provider() })
}

fn unusable(error: impl std::fmt::Display) -> IdentityError {
    IdentityError::Tls(error.to_string())
}

fn roots(ca: &CertificateDer<'_>) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone().into_owned()).map_err(unusable)?;
    Ok(Arc::new(roots))
}

/// What all who dial have in common.
fn dialling(clock: Clock) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, IdentityError> {
    ClientConfig::builder_with_details(crypto(), Arc::new(clock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)
}

/// What all who are dialled have in common.
pub(super) fn answering(
    clock: Clock,
) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, IdentityError> {
    ServerConfig::builder_with_details(crypto(), Arc::new(clock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)
}

pub(super) fn client_config(id: &Identity) -> Result<Arc<ClientConfig>, IdentityError> {
    let checks = WebPkiServerVerifier::builder_with_provider(roots(&id.ca)?, crypto())
        .build()
        .map_err(unusable)?;
    let verifier = Arc::new(ServerVerifier { cluster: id.cluster, checks });
    let mut config = dialling(id.clock.clone())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(ToNodes(id.shown.clone())));
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// The checks that who dials has a certificate of the cluster's authority.
pub(super) fn client_checks(id: &Identity) -> Result<Arc<dyn ClientCertVerifier>, IdentityError> {
    WebPkiClientVerifier::builder_with_provider(roots(&id.ca)?, crypto()).build().map_err(unusable)
}

pub(super) fn server_config(id: &Identity) -> Result<Arc<ServerConfig>, IdentityError> {
    let verifier = Arc::new(ClientVerifier { cluster: id.cluster, checks: client_checks(id)? });
    let mut config = answering(id.clock.clone())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(ToNodes(id.shown.clone())));
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

pub(super) fn admitting_config(id: &Identity) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = answering(id.clock.clone())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ToJoiners(id.shown.clone())));
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// How a node that wants to join dials: it trusts whom the authority with this fingerprint
/// has signed, and has no certificate to show yet.
///
/// # Errors
///
/// If TLS cannot be set up.
pub fn joining_config(fingerprint: [u8; 32]) -> Result<Arc<ClientConfig>, IdentityError> {
    let mut config = dialling(Clock::system())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(JoinVerifier { fingerprint }))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Refuses a certificate that names another cluster.
fn same_cluster(ours: ClusterId, certificate: &CertificateDer<'_>) -> Result<NodeName, Error> {
    let (theirs, name) = peer_of(certificate)?;
    if theirs != ours {
        return Err(PeerError::OtherCluster { name, theirs, ours }.into());
    }
    Ok(name)
}

/// Says in our words what the checks of a certificate of our cluster found.
pub(super) fn in_words(error: Error, cluster: ClusterId, found: Option<NodeName>) -> Error {
    match error {
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => PeerError::NotSigned(cluster).into(),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => match found {
            Some(found) => PeerError::OtherNode { found }.into(),
            None => PeerError::NoHost.into(),
        },
        other => other,
    }
}

/// The checks of signatures in the handshake, which are nobody's but rustls's.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let schemes = &crypto().signature_verification_algorithms;
            rustls::crypto::verify_tls12_signature(message, cert, dss, schemes)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let schemes = &crypto().signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, cert, dss, schemes)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            crypto().signature_verification_algorithms.supported_schemes()
        }
    };
}
pub(super) use signatures;

#[derive(Debug)]
struct ServerVerifier {
    cluster: ClusterId,
    checks: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = same_cluster(self.cluster, end_entity)?;
        self.checks
            .verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
            .map_err(|e| in_words(e, self.cluster, Some(found)))
    }

    signatures!();
}

#[derive(Debug)]
struct ClientVerifier {
    cluster: ClusterId,
    checks: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hints: a node of another cluster shall show what it has, so that we can say it.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let found = same_cluster(self.cluster, end_entity)?;
        self.checks
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(|e| in_words(e, self.cluster, Some(found)))
    }

    signatures!();
}

/// Trusts whom the authority of a join token has signed.
#[derive(Debug)]
struct JoinVerifier {
    fingerprint: [u8; 32],
}

impl ServerCertVerifier for JoinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let of_token = |c: &&CertificateDer<'_>| fingerprint(c) == self.fingerprint;
        let ca = intermediates.iter().find(of_token).ok_or(PeerError::Fingerprint)?;
        let cluster = cluster_of_authority(ca)?;
        let name = same_cluster(cluster, end_entity)?;
        let other = |e: IdentityError| Error::General(e.to_string());
        let checks = roots(ca).map_err(other).and_then(|roots| {
            WebPkiServerVerifier::builder_with_provider(roots, crypto())
                .build()
                .map_err(|e| Error::General(e.to_string()))
        })?;
        // Any node of the cluster will do.
        checks
            .verify_server_cert(end_entity, &[], &server_name(cluster, &name), ocsp, now)
            .map_err(|e| in_words(e, cluster, Some(name)))
    }

    signatures!();
}
