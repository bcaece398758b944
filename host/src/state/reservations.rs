//! Reservations in the file of an array's state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_core::cluster::{Registrant, Reservation, ReservationKind, Reservations};

use crate::error::{Error, Result};

/// A volume's reservations. What became of earlier changes, who was removed, and the hold of a session are not kept:
/// no request and no session of before is left.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReservationsEntry {
    version: u64,
    generation: u32,
    /// Hosts, their ports, and their keys in hexadecimal.
    #[serde(default)]
    registered: Vec<(String, u16, String)>,
    /// The kind, and who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<(String, String, u16)>,
}

/// What there is to write of them, if there was ever one.
pub(super) fn entry(of: &Reservations) -> Option<ReservationsEntry> {
    let name = |r: &Registrant| (r.host.clone(), r.port);
    let registered = |(who, key): (&Registrant, &u64)| {
        let (host, port) = name(who);
        (host, port, format!("{key:016x}"))
    };
    let reservation = |r: &Reservation| {
        let (host, port) = name(&r.holder);
        (r.kind.name().to_string(), host, port)
    };
    (of.version > 0).then(|| ReservationsEntry {
        version: of.version,
        generation: of.generation,
        registered: of.registered.iter().map(registered).collect(),
        reservation: of.reservation.as_ref().map(reservation),
    })
}

/// The reservations that were written.
pub(super) fn reservations(entry: Option<ReservationsEntry>) -> Result<Reservations> {
    let Some(entry) = entry else { return Ok(Reservations::default()) };
    let registrant = |host, port| Registrant { host, port };
    let registered = entry.registered.into_iter().map(|(host, port, key)| {
        let key = u64::from_str_radix(&key, 16)
            .map_err(|_| Error(format!("'{key}' is not a registrant's key")))?;
        Ok((registrant(host, port), key))
    });
    let registered: BTreeMap<Registrant, u64> = registered.collect::<Result<_>>()?;
    let reservation = match entry.reservation {
        None => None,
        Some((kind, host, port)) => {
            let known = ReservationKind::ALL.into_iter().find(|k| k.name() == kind);
            let kind =
                known.ok_or_else(|| Error(format!("'{kind}' is not a kind of reservation")))?;
            Some(Reservation { kind, holder: registrant(host, port) })
        }
    };
    let (version, generation) = (entry.version, entry.generation);
    let kept = Reservations { version, generation, registered, ..Reservations::default() };
    Ok(Reservations { reservation, ..kept })
}
