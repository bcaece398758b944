//! TLS with a node: the host shows its certificate, and the node one of the same cluster's authority.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{Error, ErrorKind};

/// The certificate of a host, its key, and the certificate of the cluster's authority: what `weft host certify` writes
/// to a directory.
#[derive(Clone)]
pub struct Certificates {
    dir: PathBuf,
    config: Arc<ClientConfig>,
}

impl Certificates {
    /// Reads `ca-cert.pem`, `client-cert.pem` and `client-key.pem` in a directory.
    ///
    /// # Errors
    ///
    /// If one of them is missing, or not what it should be.
    pub fn load(dir: impl AsRef<Path>) -> Result<Certificates, Error> {
        let dir = dir.as_ref();
        let bad = |file: &str, why: &dyn fmt::Display| {
            let text = format!(
                "{}: {why}; give the directory that `weft host certify` has written",
                dir.join(file).display()
            );
            Error::new(ErrorKind::Certificates, text)
        };
        let read = |file: &str| fs::read(dir.join(file)).map_err(|e| bad(file, &e));
        let certificate =
            |file: &str| CertificateDer::from_pem_slice(&read(file)?).map_err(|e| bad(file, &e));
        let (ca, own) = (certificate("ca-cert.pem")?, certificate("client-cert.pem")?);
        let key = PrivateKeyDer::from_pem_slice(&read("client-key.pem")?)
            .map_err(|e| bad("client-key.pem", &e))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca).map_err(|e| bad("ca-cert.pem", &e))?;
        let provider = Arc::new(ring::default_provider());
        let nodes = Arc::new(Nodes { roots, provider: provider.clone() });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| bad("", &e))?
            .dangerous()
            .with_custom_certificate_verifier(nodes)
            .with_client_auth_cert(vec![own], key)
            .map_err(|e| bad("client-cert.pem", &e))?;
        (config.resumption, config.enable_sni) = (Resumption::disabled(), false);
        Ok(Certificates { dir: dir.to_path_buf(), config: Arc::new(config) })
    }

    /// How they are shown to a node: for programs that speak another of its protocols over TLS.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificates({})", self.dir.display())
    }
}

impl PartialEq for Certificates {
    fn eq(&self, other: &Certificates) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for Certificates {}

/// Trusts any node of the cluster: any server certificate by its authority. Hosts have none.
#[derive(Debug)]
struct Nodes {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Nodes {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )
        .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
