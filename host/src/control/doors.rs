//! What the status says of hosts: who is connected, who came in, and who may.

use weft_core::cluster::{Access, Registrant, Reservation, Reservations};
use weft_core::units::VolumeId;

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
    let Reservation { kind, holder } = of.reservation.as_ref()?;
    Some(match kind.is_held_by_all() {
        true => format!("{} by all registrants", kind.name()),
        false => format!("{} by {}", kind.name(), registrant(holder)),
    })
}

/// Who came in at this process, and who was refused.
pub(super) fn logins(commands: &Commands<'_>) -> LoginStatus {
    let (accepted, refused) = commands.book.counts();
    LoginStatus { accepted, delayed: commands.book.delays(), refused }
}
