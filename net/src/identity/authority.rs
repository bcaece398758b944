//! The certificate authority of a cluster, and the keys of its nodes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
    SignatureAlgorithm, date_time_ymd,
};
use ring::digest::{SHA256, digest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

use super::{CA_FILE, CA_KEY_FILE, ClusterId, IdentityError, NodeName, files, lifetime, peer_of};

/// Bytes of an uncompressed point on P-256.
const POINT: usize = 65;

/// A node's key, made where it is used. The private half never leaves the node.
#[derive(Debug)]
pub struct NodeKey(KeyPair);

impl NodeKey {
    /// A new one.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn generate() -> Result<NodeKey, IdentityError> {
        Ok(NodeKey(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?))
    }

    /// Loads what [`NodeKey::save`] has written.
    ///
    /// # Errors
    ///
    /// If the file is missing or no key, or others can read it.
    pub fn load(path: &Path) -> Result<NodeKey, IdentityError> {
        let pem = files::read_private(path)?;
        KeyPair::from_pem(&pem).map(NodeKey).map_err(|e| IdentityError::Content {
            path: path.to_path_buf(),
            what: format!("not a private key in PEM: {e}"),
        })
    }

    /// Writes it to a file that only its owner can read, and that is not there yet.
    ///
    /// # Errors
    ///
    /// If there is such a file, or it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), IdentityError> {
        files::create_private(path, &self.to_pem())
    }

    /// Whether a certificate in PEM is for this key.
    ///
    /// # Errors
    ///
    /// If it is no certificate.
    pub fn is_of(&self, certificate_pem: &str) -> Result<bool, IdentityError> {
        Ok(PublicKey::of(&certificate(certificate_pem)?)? == self.public())
    }

    /// Reads a key in PEM.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn from_pem(pem: &str) -> Result<NodeKey, IdentityError> {
        Ok(NodeKey(KeyPair::from_pem(pem)?))
    }

    /// The half that is sent to whoever keeps the authority.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key_raw().to_vec())
    }

    /// The key in PEM: whoever gets it is who the key is of.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }
}

/// The public half of a node's key: a point on P-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// A key as it was sent.
    ///
    /// # Errors
    ///
    /// If it has not the form of one.
    pub fn from_bytes(bytes: &[u8]) -> Result<PublicKey, IdentityError> {
        if bytes.len() != POINT || bytes[0] != 4 {
            return Err(IdentityError::PublicKey(bytes.len()));
        }
        Ok(PublicKey(bytes.to_vec()))
    }

    /// The key that a certificate is for.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<PublicKey, IdentityError> {
        let parsed = webpki::EndEntityCert::try_from(certificate)
            .map_err(|e| IdentityError::Tls(e.to_string()))?;
        // What the certificate says of its key ends with the point itself.
        let info = parsed.subject_public_key_info();
        PublicKey::from_bytes(info.as_ref().last_chunk::<POINT>().map_or(&[][..], |p| p))
    }

    /// SHA-256 of it.
    pub(super) fn hash(&self) -> [u8; 32] {
        sha256(&self.0)
    }

    /// A digest of it, by which the cluster remembers whose it is: the first half of its SHA-256.
    pub fn digest(&self) -> u128 {
        u128::from_be_bytes(*self.hash().first_chunk().expect("it is longer"))
    }

    /// For sending it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// Who says which nodes belong to a cluster.
#[derive(Debug)]
pub struct CertificateAuthority {
    cluster: ClusterId,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl CertificateAuthority {
    /// The authority of a new cluster.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn create(cluster: ClusterId) -> Result<CertificateAuthority, IdentityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let params = authority_params(cluster)?;
        let pem = params.self_signed(&key)?.pem();
        Ok(CertificateAuthority { cluster, issuer: Issuer::new(params, key), pem })
    }

    /// Whether there is an authority's key in `dir`.
    ///
    /// # Errors
    ///
    /// If that cannot be seen.
    pub fn is_at(dir: &Path) -> Result<bool, IdentityError> {
        let path = dir.join(CA_KEY_FILE);
        path.try_exists().map_err(files::file(&path))
    }

    /// Loads what [`CertificateAuthority::save`] has written to `dir`.
    ///
    /// # Errors
    ///
    /// If a file is missing or not what it should be, or others can read the key.
    pub fn load(dir: &Path) -> Result<CertificateAuthority, IdentityError> {
        let content = |file, what| IdentityError::Content { path: dir.join(file), what };
        let pem = files::read(&dir.join(CA_FILE))?;
        let key = files::read_private(&dir.join(CA_KEY_FILE))?;
        let key = KeyPair::from_pem(&key)
            .map_err(|e| content(CA_KEY_FILE, format!("not a private key in PEM: {e}")))?;
        let cluster = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| content(CA_FILE, format!("not a certificate in PEM: {e}")))
            .and_then(|c| {
                super::tls::cluster_of_authority(&c).map_err(|e| content(CA_FILE, e.to_string()))
            })?;
        // The subject follows from the cluster's id, and with it what it issues.
        let issuer = Issuer::new(authority_params(cluster)?, key);
        Ok(CertificateAuthority { cluster, issuer, pem })
    }

    /// Writes the authority's certificate and key to `dir`.
    ///
    /// # Errors
    ///
    /// If there is a key already, or the files cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), IdentityError> {
        files::create_private(&dir.join(CA_KEY_FILE), &self.issuer.key().serialize_pem())?;
        files::replace(&dir.join(CA_FILE), &self.pem)
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its own certificate, which every node gets.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// SHA-256 of its certificate.
    ///
    /// # Errors
    ///
    /// If the certificate is not in PEM.
    pub fn fingerprint(&self) -> Result<[u8; 32], IdentityError> {
        let der = CertificateDer::from_pem_slice(self.pem.as_bytes())
            .map_err(|e| IdentityError::Tls(e.to_string()))?;
        Ok(fingerprint(&der))
    }

    /// The certificate of a node, in PEM, that is good for `life` seconds from `now` and at most a
    /// day more; usually [`LIFE`](super::LIFE).
    ///
    /// # Errors
    ///
    /// If signing fails.
    pub fn admit(
        &self,
        name: &NodeName,
        key: &PublicKey,
        now: u64,
        life: u64,
    ) -> Result<String, IdentityError> {
        self.admit_at(name, key, &[], now, life)
    }

    /// The same for a node that hosts reach at these addresses, besides those of its own machine.
    ///
    /// # Errors
    ///
    /// If signing fails.
    pub fn admit_at(
        &self,
        name: &NodeName,
        key: &PublicKey,
        addresses: &[IpAddr],
        now: u64,
        life: u64,
    ) -> Result<String, IdentityError> {
        let dns = format!("{name}.{}.weft", self.cluster);
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let addresses: BTreeSet<IpAddr> = addresses.iter().copied().chain(LOOPBACK).collect();
        let addresses: Vec<IpAddr> =
            addresses.into_iter().filter(|a| !a.is_unspecified()).collect();
        self.sign((dns, format!("weft node {name}")), key, &addresses, (now, life), usages)
    }

    /// A certificate for a key, with a name for programs and one for people.
    pub(super) fn sign(
        &self,
        (dns, common): (String, String),
        key: &PublicKey,
        addresses: &[IpAddr],
        (now, life): (u64, u64),
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<String, IdentityError> {
        let (year, month, day) = lifetime::end(now, life);
        let mut params = CertificateParams::new(vec![dns])?;
        params.subject_alt_names.extend(addresses.iter().map(|a| SanType::IpAddress(*a)));
        params.distinguished_name = common_name(common);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, month, day);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }

    /// A new certificate, for the name, the key and the addresses of one that this authority has made and that may
    /// have lapsed, and perhaps for one more address. Returns the name, too.
    ///
    /// # Errors
    ///
    /// If this authority has not made it.
    pub fn renew(
        &self,
        certificate_der: &[u8],
        more: Option<&IpAddr>,
        now: u64,
        life: u64,
    ) -> Result<(NodeName, String), IdentityError> {
        let old = CertificateDer::from(certificate_der);
        let (cluster, name) = peer_of(&old).map_err(|e| IdentityError::Tls(e.to_string()))?;
        if cluster != self.cluster {
            let ours = self.cluster;
            let text =
                format!("this is a certificate of cluster {cluster}, and this cluster is {ours}");
            return Err(IdentityError::Tls(text));
        }
        lifetime::check_signed(&old, &certificate(&self.pem)?)?;
        let addresses: Vec<IpAddr> = addresses_of(&old).into_iter().chain(more.copied()).collect();
        let new = self.admit_at(&name, &PublicKey::of(&old)?, &addresses, now, life)?;
        Ok((name, new))
    }
}

/// Where every process is reached on its own machine.
pub(super) const LOOPBACK: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Whether a certificate is good for an address.
pub(super) fn names_address(certificate: &CertificateDer<'_>, address: IpAddr) -> bool {
    let name = ServerName::IpAddress(address.into());
    webpki::EndEntityCert::try_from(certificate)
        .is_ok_and(|c| c.verify_is_valid_for_subject_name(&name).is_ok())
}

/// The addresses that a certificate is good for. Whatever in it has the form of one (as a `GeneralName`, RFC 5280) is
/// tried.
pub(super) fn addresses_of(certificate: &CertificateDer<'_>) -> Vec<IpAddr> {
    const TAG: u8 = 0x87;
    let mut found = BTreeSet::new();
    for at in (0..certificate.len()).filter(|at| certificate[*at] == TAG) {
        let rest = &certificate[at + 1..];
        let address = match rest.first() {
            Some(4) => rest[1..].first_chunk::<4>().map(|b| IpAddr::from(*b)),
            Some(16) => rest[1..].first_chunk::<16>().map(|b| IpAddr::from(*b)),
            _ => None,
        };
        found.extend(address.filter(|a| names_address(certificate, *a)));
    }
    found.into_iter().collect()
}

/// A certificate in PEM.
pub(super) fn certificate(pem: &str) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|e| IdentityError::Tls(format!("not a certificate in PEM: {e}")))
}

pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    sha256(certificate)
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

fn common_name(name: String) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn authority_params(cluster: ClusterId) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::new(vec![format!("{cluster}.weft")])?;
    params.distinguished_name = common_name(format!("weft cluster {cluster}"));
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2220, 1, 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}
