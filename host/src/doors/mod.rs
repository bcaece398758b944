//! Authentication of hosts, and where it is required.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | the operator's settings |
//! | [`keeper`] | the certificates by which hosts are served with TLS |
//! | [`who`] | a host's identity and rights |
//! | [`secret`] | CHAP secrets, and checks of proofs |
//! | [`vault`] | the keys that seal the secrets |
//! | [`brake`] | delays after wrong proofs |
//! | [`book`] | counters and log lines of logins and refusals |
//! | [`page`] | the page for operators |

pub(crate) mod book;
pub(crate) mod brake;
pub(crate) mod keeper;
mod page;
pub(crate) mod secret;
pub(crate) mod vault;
pub(crate) mod who;

use std::fmt;
use std::str::FromStr;

pub use page::PageDoor;

use crate::error::{Error, Result, fail};

/// Whether hosts are served by TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// No.
    Off,
    /// Those that ask for it.
    #[default]
    Allow,
    /// All that come by TCP.
    Require,
}

impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tls::Off => "off",
            Tls::Allow => "allow",
            Tls::Require => "require",
        })
    }
}

impl FromStr for Tls {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tls> {
        match text {
            "off" => Ok(Tls::Off),
            "allow" => Ok(Tls::Allow),
            "require" => Ok(Tls::Require),
            _ => fail(format!("'{text}' is not one of require, allow and off")),
        }
    }
}

/// Requirements for hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doors {
    /// Whether hosts are served by TLS.
    pub tls: Tls,
    /// Hosts of other machines need no authentication.
    pub no_auth: bool,
    /// The group that may use the Unix sockets for hosts, by name or number; the process's own if not set.
    pub socket_group: Option<String>,
}

impl Doors {
    /// Refuses an address beyond this machine where no authentication is required. `key` is the setting that gave the
    /// address, and `how` the form of the advice.
    pub(crate) fn check(&self, key: &str, place: &str, how: How) -> Result<()> {
        if self.no_auth || self.tls == Tls::Require || is_loopback(place) {
            return Ok(());
        }
        let (require, no_auth) = match how {
            How::Options => ("--tls require", "--no-auth"),
            How::File => ("tls = \"require\"", "no_auth = true"),
        };
        fail(format!(
            "{key}: other machines can reach {place}, and their hosts would not be authenticated; \
             give `{require}`, and each \
             host a certificate (`weft host certify`), or `{no_auth}` if all hosts of that \
             network may use every volume without a list"
        ))
    }

    /// Refuses a group that does not exist.
    ///
    /// # Errors
    ///
    /// If there is none of the name that is set.
    pub fn check_group(&self) -> Result<()> {
        self.group().map(drop)
    }

    /// The number of the group of the Unix sockets, if one is set.
    pub(crate) fn group(&self) -> Result<Option<u32>> {
        let Some(name) = &self.socket_group else { return Ok(None) };
        if let Ok(number) = name.parse() {
            return Ok(Some(number));
        }
        let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
        let of = |line: &str| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
        };
        match groups.lines().find_map(of) {
            Some(number) => Ok(Some(number)),
            None => fail(format!(
                "there is no group '{name}' in /etc/group; give the name or the number of another"
            )),
        }
    }
}

/// The form in which an operator gives these settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By options of a command.
    Options,
    /// In a configuration.
    File,
}

/// Whether only programs of this machine can reach a TCP address. False for an unresolved name.
pub(crate) fn is_loopback(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_nothing_is_served_to_strangers_unless_the_operator_says_so() {
        let open = Doors::default();
        for near in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"]
        {
            assert_eq!(open.check("nbd", near, How::File), Ok(()), "{near}");
        }
        for far in ["10.0.0.1:1", "0.0.0.0:1", "[::]:1", "db.example:1", "localhost.evil:1"] {
            let refused = open.check("nbd", far, How::File).unwrap_err().0;
            assert!(refused.contains("tls = \"require\"") && refused.contains("no_auth = true"));
            let refused = open.check("--listen", far, How::Options).unwrap_err().0;
            assert!(
                refused.contains("--tls require") && refused.contains("--no-auth"),
                "{refused}"
            );
            let off = Doors { tls: Tls::Off, ..Doors::default() };
            assert!(off.check("nbd", far, How::File).is_err());
            let closed = Doors { tls: Tls::Require, ..Doors::default() };
            assert_eq!(closed.check("nbd", far, How::File), Ok(()));
            let no_auth = Doors { no_auth: true, ..Doors::default() };
            assert_eq!(no_auth.check("nbd", far, How::File), Ok(()));
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for tls in [Tls::Off, Tls::Allow, Tls::Require] {
            assert_eq!(tls.to_string().parse(), Ok(tls));
        }
        assert!("on".parse::<Tls>().unwrap_err().0.contains("require, allow and off"));
    }

    #[test]
    fn a_group_has_a_name_or_a_number() {
        let of =
            |name: &str| Doors { socket_group: Some(name.to_string()), ..Doors::default() }.group();
        assert_eq!((of("root"), of("17")), (Ok(Some(0)), Ok(Some(17))));
        assert!(of("no such group").unwrap_err().0.contains("there is no group"));
        assert_eq!(Doors::default().group(), Ok(None));
    }
}
