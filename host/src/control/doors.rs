//! What the status says of hosts: who is connected, who came in, and who may.

use weft_core::cluster::{Access, ClusterMap, Registrant, Reservation, Reservations};
use weft_core::units::VolumeId;
use weft_net::identity::date;

use super::commands::Commands;
use crate::sessions::Session;
use crate::status::{HostStatus, LoginStatus};

/// The hosts that are connected to this process.
pub(super) fn hosts(commands: &Commands<'_>) -> Vec<HostStatus> {
    let map = commands.engine.map();
    let name = |id: VolumeId| map.volumes.get(&id).map(|v| v.name.clone());
    let host = |session: &dyn Session| HostStatus {
        address: session.peer().to_string(),
        protocol: session.protocol().to_string(),
        volume: session.volume().and_then(name),
        node: session.node() as u16,
        host: session.who().name().map(str::to_string),
        tls: session.is_secured(),
        read_only: session.access() == Some(Access::ReadOnly),
    };
    commands.hosts.connected().map(host).collect()
}

/// A host of a volume's list, and what it may do.
pub(super) fn access((name, access): (&String, &Access)) -> (String, String) {
    (name.clone(), access.word().to_string())
}

/// A registrant: a host, and the process that it came through.
pub(super) fn registrant(of: &Registrant) -> String {
    match of.port.checked_sub(1) {
        Some(node) => format!("{} through the process of node {node}", of.host),
        None => of.host.clone(),
    }
}

/// How a volume is reserved, and by whom.
pub(super) fn reservation(of: &Reservations) -> Option<String> {
    if let Some(hold) = &of.hold {
        return Some(format!("by a session of {}", registrant(&hold.who)));
    }
    let Reservation { kind, holder } = of.reservation.as_ref()?;
    Some(match kind.is_held_by_all() {
        true => format!("{} by all registrants", kind.name()),
        false => format!("{} by {}", kind.name(), registrant(holder)),
    })
}

/// With less left than this a host's certificate should be renewed, in seconds.
const LITTLE: u64 = 30 * 86_400;

/// The hosts whose newest certificate expires soon, or has expired and is all that they have.
pub(super) fn warnings(map: &ClusterMap, now: u64) -> Vec<String> {
    let of = |(name, host): (&String, &weft_core::cluster::KnownHost)| {
        let until = host.newest()?.until;
        let day = date(until);
        let renew = format!("`weft host certify {name}` makes another");
        if until <= now {
            let text = format!("the certificate of host '{name}' expired on {day}; {renew}");
            return host.secret.is_none().then_some(text);
        }
        (until < now + LITTLE)
            .then(|| format!("the certificate of host '{name}' expires on {day}; {renew}"))
    };
    map.hosts.iter().filter_map(of).collect()
}

/// Who came in at this process, and who was refused.
pub(super) fn logins(commands: &Commands<'_>) -> LoginStatus {
    let (accepted, refused) = commands.book.counts();
    LoginStatus { accepted, delayed: commands.book.delays(), refused }
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::{Certificate, KnownHost, SealedSecret};

    use super::*;

    #[test]
    fn hosts_whose_certificates_expire_are_named() {
        let now = 20_000 * 86_400;
        let host = |ends: &[u64], has_secret: bool| KnownHost {
            certificates: ends.iter().map(|end| Certificate { key: 1, until: *end }).collect(),
            secret: has_secret.then(|| SealedSecret { key: 1, mutual: false, bytes: vec![1; 40] }),
        };
        let hosts = [
            ("fresh", host(&[now + LITTLE], false)),
            ("no-certificate", host(&[], true)),
            ("old", host(&[now], false)),
            ("old-with-secret", host(&[now], true)),
            ("renewed", host(&[now + 1, now + LITTLE + 1], false)),
            ("soon", host(&[now - 1, now + LITTLE - 1], true)),
        ];
        let hosts = hosts.into_iter().map(|(name, host)| (name.to_string(), host)).collect();
        let said = warnings(&ClusterMap { hosts, ..ClusterMap::default() }, now);
        assert_eq!(
            said,
            [
                "the certificate of host 'old' expired on 2024-10-04; `weft host certify old` makes another",
                "the certificate of host 'soon' expires on 2024-11-02; `weft host certify soon` makes another",
            ]
        );
    }
}
