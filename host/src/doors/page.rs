//! Where the page for operators is served, and when that may be.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{How, is_loopback};
use crate::error::{Error, Result, fail};

/// Where a process serves its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDoor {
    /// The address.
    pub address: SocketAddr,
    /// The files of the certificate, with those that sign it, and of its key; without them it is plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl PageDoor {
    /// What an operator has given, if that is a page.
    ///
    /// # Errors
    /// If other machines could reach the page without TLS, or if something is missing.
    pub fn given(
        address: Option<SocketAddr>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        how: How,
    ) -> Result<Option<PageDoor>> {
        let [page, certificates, keys] = match how {
            How::Options => ["--page", "--page-certificate", "--page-key"],
            How::File => ["page", "page_certificate", "page_key"],
        };
        let tls = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return fail(format!("give both {certificates} and {keys}, or neither")),
        };
        let Some(address) = address else {
            return match tls {
                None => Ok(None),
                Some(_) => fail(format!("{certificates} and {keys} need {page}, an address")),
            };
        };
        if tls.is_none() && !is_loopback(&address.to_string()) {
            return fail(format!(
                "{page}: other machines can reach {address}, and passwords would go there unencrypted; also give {certificates} \
                 and {keys}, two PEM files, or an address such as 127.0.0.1:{}",
                address.port()
            ));
        }
        Ok(Some(PageDoor { address, tls }))
    }

    /// The page of a configuration.
    pub(crate) fn of_file(
        text: Option<&str>,
        certificate: Option<&Path>,
        key: Option<&Path>,
        base: &Path,
    ) -> Result<Option<PageDoor>> {
        let address = text.map(|text| {
            let address: Option<SocketAddr> = text.parse().ok();
            address.filter(|a| a.port() != 0).ok_or_else(|| {
                Error(format!("page: '{text}' is not an address; write it like 127.0.0.1:10800"))
            })
        });
        let at = |path: &Path| base.join(path);
        PageDoor::given(address.transpose()?, certificate.map(at), key.map(at), How::File)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_there_is_no_page_without_tls() {
        let pem = || Some(PathBuf::from("x.pem"));
        let given = |address: &str, certificate, key, how| {
            let address = (!address.is_empty()).then(|| address.parse().unwrap());
            PageDoor::given(address, certificate, key, how).map_err(|e| e.0)
        };
        assert_eq!(given("", None, None, How::File), Ok(None));
        for near in ["127.0.0.1:1", "[::1]:1", "127.8.0.1:1"] {
            assert!(given(near, None, None, How::File).unwrap().unwrap().tls.is_none());
        }
        for far in ["10.0.0.1:10800", "0.0.0.0:10800", "[::]:10800"] {
            let said = given(far, None, None, How::File).unwrap_err();
            assert!(said.contains("give page_certificate and page_key"), "{said}");
            assert!(said.ends_with("an address such as 127.0.0.1:10800"), "{said}");
            let said = given(far, None, None, How::Options).unwrap_err();
            assert!(said.starts_with("--page: ") && said.contains("--page-key"), "{said}");
            assert!(given(far, pem(), pem(), How::File).unwrap().unwrap().tls.is_some());
        }
        assert!(given("127.0.0.1:1", pem(), None, How::File).unwrap_err().contains("or neither"));
        assert!(given("", pem(), pem(), How::Options).unwrap_err().contains("need --page"));
    }

    #[test]
    fn a_configuration_says_where() {
        let base = Path::new("/etc/weft");
        let of = |text, file: Option<&str>| {
            let file = file.map(Path::new);
            PageDoor::of_file(text, file, file, base).map_err(|e| e.0)
        };
        let page = of(Some("10.0.0.1:443"), Some("p.pem")).unwrap().unwrap();
        assert_eq!(page.tls.unwrap().0, Path::new("/etc/weft/p.pem"));
        for bad in ["10800", "localhost:10800", "127.0.0.1:0", ""] {
            assert!(of(Some(bad), None).unwrap_err().contains("write it like"), "{bad}");
        }
        assert_eq!(of(None, None), Ok(None));
    }
}
