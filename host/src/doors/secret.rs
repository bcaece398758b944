//! CHAP secrets: their form, and the digests that prove knowledge of one (RFC 1994, RFC 7143 12.1.3).

use md5::Digest;
use subtle::ConstantTimeEq;
use weft_front::iscsi::{Algorithm, Claim};

use crate::error::{Result, fail};
use crate::hex::unhex;

/// The length of a secret in bytes.
const LEAST: usize = 12;
const MOST: usize = 255;

/// The secrets of a host: its own, and the one by which the target authenticates itself to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secrets {
    host: Vec<u8>,
    target: Option<Vec<u8>>,
}

/// Why a well-formed claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disbelief {
    /// The answer to the challenge is wrong.
    Wrong,
    /// The target must authenticate itself, and has no secret for that.
    OneWay,
}

impl Secrets {
    /// Parses secrets as an operator writes them.
    pub(crate) fn parse(host: &str, target: Option<&str>) -> Result<Secrets> {
        let host = parse("the secret", host)?;
        let target = target.map(|text| parse("the target's secret", text)).transpose()?;
        if target.as_ref() == Some(&host) {
            return fail(
                "the secrets of the host and of the target are equal, so each could answer for \
                 the other; change one of them",
            );
        }
        Ok(Secrets { host, target })
    }

    /// Whether the target can authenticate itself, too.
    pub(crate) fn is_mutual(&self) -> bool {
        self.target.is_some()
    }

    /// The form that is sealed.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let target = self.target.as_deref().unwrap_or_default();
        [&[self.host.len() as u8], &self.host[..], target].concat()
    }

    /// Parses the sealed form.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Secrets> {
        let (len, rest) = bytes.split_first()?;
        let (host, target) = rest.split_at_checked(usize::from(*len))?;
        let target = (!target.is_empty()).then(|| target.to_vec());
        Some(Secrets { host: host.to_vec(), target })
    }

    /// Judges a claim. Returns the digest that authenticates the target, if it was asked.
    pub(crate) fn judge(&self, claim: &Claim) -> std::result::Result<Option<Vec<u8>>, Disbelief> {
        let Claim { algorithm, challenge, response, asks, .. } = claim;
        let expected = digest(*algorithm, challenge.identifier, &self.host, &challenge.bytes);
        if !bool::from(expected.ct_eq(response)) {
            return Err(Disbelief::Wrong);
        }
        match (asks, &self.target) {
            (None, _) => Ok(None),
            (Some((identifier, bytes)), Some(secret)) => {
                Ok(Some(digest(*algorithm, *identifier, secret, bytes)))
            }
            (Some(_), None) => Err(Disbelief::OneWay),
        }
    }
}

/// The digest of an identifier, a secret and a challenge.
fn digest(algorithm: Algorithm, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
    let all = [&[identifier], secret, challenge].concat();
    match algorithm {
        Algorithm::Md5 => md5::Md5::digest(&all).to_vec(),
        Algorithm::Sha256 => ring::digest::digest(&ring::digest::SHA256, &all).as_ref().to_vec(),
        Algorithm::Sha3 => sha3::Sha3_256::digest(&all).to_vec(),
    }
}

fn parse(what: &str, text: &str) -> Result<Vec<u8>> {
    let bytes = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => match unhex(digits) {
            Some(bytes) => bytes,
            None => {
                return fail(format!(
                    "{what} begins with 0x, but pairs of hexadecimal digits do not follow"
                ));
            }
        },
        None if text.bytes().all(|b| (b' '..=b'~').contains(&b)) => text.as_bytes().to_vec(),
        None => {
            return fail(format!(
                "{what} has characters that are not printable ASCII; give its bytes in hexadecimal, after 0x"
            ));
        }
    };
    match bytes.len() {
        LEAST..=MOST => Ok(bytes),
        n if n < LEAST => fail(format!(
            "{what} has {n} bytes, and must have {LEAST} at least (RFC 7143, 9.2.1): shorter ones \
             can be guessed from an observed login \
             one by one"
        )),
        n => fail(format!("{what} has {n} bytes, and can have {MOST} at most")),
    }
}

#[cfg(test)]
mod tests {
    use weft_front::iscsi::Challenge;

    use super::*;
    use crate::hex::hex;

    fn why(host: &str, target: Option<&str>) -> String {
        Secrets::parse(host, target).err().expect("it is refused").0
    }

    #[test]
    fn short_equal_and_unprintable_secrets_are_refused() {
        assert!(why("elevenbytes", None).contains("11 bytes, and must have 12"));
        assert!(why("0x0102030405060708090a0b", None).contains("11 bytes"));
        assert!(why(&"x".repeat(256), None).contains("255 at most"));
        assert!(why("0x0102030405060708090a0b0", None).contains("pairs of hexadecimal digits"));
        assert!(why("twelve bytes\n", None).contains("printable"));
        assert!(why("passwörter sind lang", None).contains("printable"));
        assert!(why("twelve bytes", Some("twelve bytes")).contains("are equal"));
        assert!(why("twelve bytes", Some("0x7477656c7665206279746573")).contains("are equal"));
        assert!(why("twelve bytes", Some("short")).contains("the target's secret has 5"));
        for (host, target) in
            [("twelve bytes", None), ("0X0102030405060708090a0b0c", Some("another secret"))]
        {
            let secrets = Secrets::parse(host, target).unwrap();
            assert_eq!(secrets.is_mutual(), target.is_some());
            assert!(Secrets::from_bytes(&secrets.to_bytes()) == Some(secrets));
        }
        assert!(Secrets::from_bytes(&[]).is_none() && Secrets::from_bytes(&[3, 1, 2]).is_none());
    }

    /// The digests by other programs: `printf '\x07twelve bytes0123456789' | openssl dgst -md5`, and so on.
    #[test]
    fn digests_are_those_of_the_standards() {
        let of = |algorithm| hex(&digest(algorithm, 7, b"twelve bytes", b"0123456789"));
        assert_eq!(of(Algorithm::Md5), "7cd4a21678d69a8bf1770df33b76dfcd");
        assert_eq!(
            of(Algorithm::Sha256),
            "50b2f0a30316219b34fb514351191a83ba18e4558bdadf3778fb00c41e8a63bd"
        );
        assert_eq!(
            of(Algorithm::Sha3),
            "ee39533dbf34de52942e74c5a01a219f3dde174e6902697e9db4137b6de1e5d3"
        );
    }

    #[test]
    fn claims_are_believed_whose_answer_is_right() {
        let (one_way, mutual) = (None, Some("another secret"));
        let challenge = Challenge { identifier: 9, bytes: [3; 32] };
        for algorithm in Algorithm::ALL {
            let claim = |secret: &str, asks| Claim {
                name: "web".into(),
                algorithm,
                challenge: challenge.clone(),
                response: digest(algorithm, 9, secret.as_bytes(), &[3; 32]),
                asks,
            };
            let of = |target| Secrets::parse("twelve bytes", target).unwrap();
            assert_eq!(of(mutual).judge(&claim("twelve bytes", None)), Ok(None));
            assert_eq!(of(mutual).judge(&claim("twelve bytez", None)), Err(Disbelief::Wrong));
            assert_eq!(of(mutual).judge(&claim("another secret", None)), Err(Disbelief::Wrong));
            let asks = Some((1, vec![8; 16]));
            let proof = digest(algorithm, 1, b"another secret", &[8; 16]);
            assert_eq!(of(mutual).judge(&claim("twelve bytes", asks.clone())), Ok(Some(proof)));
            let refused = of(one_way).judge(&claim("twelve bytes", asks));
            assert_eq!(refused, Err(Disbelief::OneWay));
            let short = Claim { response: Vec::new(), ..claim("twelve bytes", None) };
            assert_eq!(of(one_way).judge(&short), Err(Disbelief::Wrong));
        }
    }
}
