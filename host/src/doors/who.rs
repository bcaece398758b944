//! Identity and rights of a host.

use std::borrow::Cow;

use weft_core::cluster::{Access, ClusterMap, Volume};
use weft_net::identity::ShownHost;

/// The identity of a connection's other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Who {
    /// An unauthenticated host where no authentication is required.
    #[default]
    Stranger,
    /// A host that must authenticate by TLS or CHAP, and has not.
    Unproved,
    /// A client of a process that is a host's own controller: that host, by the process's name.
    Own(String),
    /// An operator, on the control socket.
    Operator,
    /// A host that has shown its certificate.
    Proved(ShownHost),
    /// A host that has authenticated by CHAP.
    Chap {
        /// Its name.
        name: String,
        /// Distinguishes the sealed secret from others.
        mark: u128,
    },
}

/// Why a host is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct No {
    pub(crate) cause: Cause,
    pub(crate) text: String,
}

/// Causes of refusal, as metrics count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The TLS handshake failed: the certificate is missing or invalid.
    Tls,
    /// TLS is required.
    NoTls,
    /// CHAP failed.
    Chap,
    /// The host is no longer known, or has another certificate.
    Revoked,
    /// The host is not on the volume's list.
    NotAllowed,
    /// The volume does not exist, is in use by another host, or the process does not serve.
    Unavailable,
    /// There are too many connections.
    Places,
}

impl Cause {
    /// All of them.
    pub(crate) const ALL: [Cause; 7] = [
        Cause::Tls,
        Cause::NoTls,
        Cause::Chap,
        Cause::Revoked,
        Cause::NotAllowed,
        Cause::Unavailable,
        Cause::Places,
    ];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Cause::Tls => "tls",
            Cause::NoTls => "no-tls",
            Cause::Chap => "chap",
            Cause::Revoked => "revoked",
            Cause::NotAllowed => "not-allowed",
            Cause::Unavailable => "unavailable",
            Cause::Places => "places",
        }
    }
}

impl Who {
    /// The name that the host claims.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Who::Stranger | Who::Unproved | Who::Operator => None,
            Who::Own(name) => Some(name),
            Who::Proved(shown) => Some(&shown.name),
            Who::Chap { name, .. } => Some(name),
        }
    }

    /// The name that a number of the native protocol belongs to: the host's, or one that no host has for operators.
    pub(crate) fn proven(&self) -> Option<&str> {
        match self {
            Who::Operator => Some("@operator"),
            who => who.name(),
        }
    }

    /// The host's name if the map in force has it.
    pub(crate) fn known(&self, map: &ClusterMap) -> Result<Option<&str>, No> {
        match self {
            Who::Stranger | Who::Operator => Ok(None),
            Who::Own(name) => Ok(map.hosts.contains_key(name).then_some(name.as_str())),
            Who::Unproved => Err(No {
                cause: Cause::NoTls,
                text: "this process serves hosts of other machines by TLS only; give the directory with the host's \
                       certificate (`weft host certify`)"
                    .to_string(),
            }),
            Who::Proved(shown) => {
                let host = map.hosts.get(&shown.name);
                if host.is_some_and(|host| host.certificate_of(shown.key).is_some()) {
                    return Ok(Some(&shown.name));
                }
                let name = &shown.name;
                let text = format!(
                    "the certificate of host '{name}' has been revoked; make another one with `weft host certify {name}`"
                );
                Err(No { cause: Cause::Revoked, text })
            }
            Who::Chap { name, mark } => {
                let secret = map.hosts.get(name).and_then(|host| host.secret.as_ref());
                if secret.is_some_and(|secret| secret.mark() == *mark) {
                    return Ok(Some(name));
                }
                let text = format!(
                    "the secret of host '{name}' has been changed or removed; it must log in with its new one (`weft host secret {name}`)"
                );
                Err(No { cause: Cause::Revoked, text })
            }
        }
    }

    /// Its rights to a volume.
    pub(crate) fn access(&self, map: &ClusterMap, volume: &Volume) -> Result<Access, No> {
        if *self == Who::Operator {
            return Ok(volume.most_access());
        }
        let host = self.known(map)?;
        if volume.import.is_some() {
            let text =
                format!("volume '{}' is being imported, and is hidden from hosts", volume.name);
            return Err(No { cause: Cause::Unavailable, text });
        }
        volume.access_of(host).ok_or_else(|| {
            let volume = &volume.name;
            let text = match host {
                Some(host) => format!(
                    "host '{host}' is not on the list of volume '{volume}'; `weft volume allow {volume} {host}` adds it"
                ),
                None => format!(
                    "volume '{volume}' serves the hosts on its list only; a host authenticates by \
                     TLS, with its certificate \
                     (`weft host certify`), or over iSCSI by CHAP (`weft host secret`)"
                ),
            };
            No { cause: Cause::NotAllowed, text }
        })
    }

    /// For the log.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self.name() {
            Some(name) => Cow::Owned(format!("host '{name}'")),
            None if *self == Who::Operator => Cow::Borrowed("an operator"),
            None => Cow::Borrowed("an unknown host"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_core::cluster::{Certificate, KnownHost, SealedSecret};
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_core::units::VolumeId;

    use super::*;

    fn secret(tag: u8) -> Option<SealedSecret> {
        Some(SealedSecret { key: 1, mutual: false, bytes: vec![tag; 40] })
    }

    fn scene() -> (ClusterMap, Arc<Volume>, Arc<Volume>) {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let open = Volume::new(VolumeId(0), "open", 0, &spec, geometry, Vec::new());
        let list = [("web".to_string(), Access::ReadOnly)].into();
        let listed = Volume { name: "listed".into(), hosts: Some(list), ..open.clone() };
        let certificates = [6, 7].map(|n| Certificate { key: n.into(), until: n }).to_vec();
        let hosts = [
            ("web".to_string(), KnownHost { certificates, secret: secret(3) }),
            ("new".to_string(), KnownHost::default()),
        ];
        (ClusterMap { hosts: hosts.into(), ..ClusterMap::default() }, open.into(), listed.into())
    }

    #[test]
    fn who_may_use_what() {
        let (map, open, listed) = scene();
        let proved = |name: &str, key| Who::Proved(ShownHost { name: name.into(), key });
        let cause = |who: &Who, volume| who.access(&map, volume).unwrap_err().cause;
        let (stranger, own) = (Who::Stranger, |name: &str| Who::Own(name.into()));
        assert_eq!(stranger.access(&map, &open), Ok(Access::Full));
        assert_eq!(cause(&stranger, &listed), Cause::NotAllowed);
        assert_eq!(cause(&Who::Unproved, &open), Cause::NoTls);
        assert_eq!(proved("web", 7).access(&map, &listed), Ok(Access::ReadOnly));
        assert_eq!(proved("web", 7).access(&map, &open), Ok(Access::Full));
        assert_eq!(proved("web", 6).access(&map, &open), Ok(Access::Full), "an earlier one");
        for revoked in [proved("web", 8), proved("new", 7), proved("gone", 7)] {
            assert_eq!(cause(&revoked, &open), Cause::Revoked, "{revoked:?}");
            assert_eq!(cause(&revoked, &listed), Cause::Revoked);
        }
        let knows = |name: &str, tag| {
            let mark = secret(tag).unwrap().mark();
            Who::Chap { name: name.into(), mark }
        };
        assert_eq!(knows("web", 3).access(&map, &listed), Ok(Access::ReadOnly));
        for revoked in [knows("web", 4), knows("new", 3), knows("gone", 3)] {
            assert_eq!(cause(&revoked, &open), Cause::Revoked, "{revoked:?}");
        }
        assert_eq!(own("web").access(&map, &listed), Ok(Access::ReadOnly));
        assert_eq!(cause(&own("gone"), &listed), Cause::NotAllowed);
        assert_eq!(own("gone").access(&map, &open), Ok(Access::Full));
    }
}
