//! What hosts may do: kept while they are connected, whatever changes meanwhile.

use std::time::Instant;

use weft_core::cluster::{Access, ClusterMap};
use weft_core::node::{HostError, HostOp};
use weft_core::units::VolumeId;

use super::Hosts;
use crate::doors::book::Entry;
use crate::doors::who::Cause;
use crate::engine::Engine;
use crate::sessions::Session;

/// What there is to say of a session.
pub(super) fn entry<'a>(session: &'a dyn Session, volume: Option<&'a str>) -> Entry<'a> {
    let (who, from, protocol) = (session.who(), session.peer(), session.protocol());
    Entry { who, from, protocol, volume, user: session.user() }
}

impl Hosts {
    /// A host may have begun to use a volume: that is said once.
    pub(super) fn note_login(&mut self, engine: &Engine, id: usize) {
        let Some(volume) = self.connections.take_login(id) else { return };
        let Some(session) = self.connections.get(id) else { return };
        let name = engine.map().volumes.get(&volume).map(|v| v.name.as_str());
        let access = match session.access() {
            Some(Access::ReadOnly) => "read-only",
            _ => "read and write",
        };
        let tls = if session.is_secured() { ", with TLS" } else { "" };
        self.book.login(&entry(session, name), &format!("{access}{tls}"));
    }

    /// The error for a request on another volume than the session's, if the host may not make it. The session has found
    /// the volume among those that it may use.
    pub(super) fn forbidden_elsewhere(
        session: &dyn Session,
        map: &ClusterMap,
        volume: VolumeId,
        op: &HostOp,
    ) -> Option<HostError> {
        let volume = map.volumes.get(&volume)?;
        let access = session.who().access(map, volume);
        match matches!(op, HostOp::Read(_)) || matches!(access, Ok(Access::Full)) {
            false => Some(HostError::ReadOnly),
            // Another host may have it for itself.
            true if volume.takes_one_writer() => Some(HostError::NotOffered),
            true => None,
        }
    }

    /// Whether a host asks for something that it may not do.
    pub(super) fn is_forbidden(session: &dyn Session, op: &HostOp) -> bool {
        let only_looks = matches!(
            op,
            HostOp::Read(_)
                | HostOp::Flush
                | HostOp::Holes(_)
                | HostOp::Changed(..)
                | HostOp::Exposed(_)
        );
        !only_looks && session.access() != Some(Access::Full)
    }

    /// After the map has changed: the connections of hosts end that have lost their certificate, secret or right, or may
    /// do less than they were told.
    pub(crate) fn keep_rights(&mut self, engine: &mut Engine) {
        let epoch = engine.map().epoch;
        if self.rights_of == epoch {
            return;
        }
        self.rights_of = epoch;
        let map = engine.map().clone();
        self.connections.look_at(&map);
        self.requests.look_at(&map);
        // What a node refused because it has a later map than this process had is given to it again. While hosts wait for
        // their node, that is done when it takes part.
        if !self.away {
            self.requests.resume(engine);
        }
        self.proofs.follow(&map, Instant::now());
        let lost = |session: &dyn Session| -> Option<String> {
            let volume = session.volume().and_then(|v| map.volumes.get(&v));
            let now = match volume {
                // A connection that has not proved anything yet has nothing to lose.
                None if session.access().is_none() => return None,
                None => session.who().known(&map).err(),
                Some(volume) => match session.who().access(&map, volume) {
                    Ok(now) if Some(now) < session.access() => {
                        return Some("it may only read the volume from now on".to_string());
                    }
                    now => now.err(),
                },
            };
            now.map(|no| no.text)
        };
        for id in self.connections.such(|session| lost(session).is_some()) {
            if let Some(session) = self.connections.get(id) {
                let volume = session.volume().and_then(|v| map.volumes.get(&v));
                let name = volume.map(|v| v.name.as_str());
                self.book.ended(&entry(session, name), &lost(session).unwrap_or_default());
            }
            self.let_go(engine, id);
        }
    }

    /// A host has not proved who it is.
    pub(super) fn note_unproved(&mut self, id: usize, cause: Cause, why: &str) {
        if let Some(session) = self.connections.get(id) {
            self.book.refusal(&entry(session, None), cause, why);
        }
    }
}
