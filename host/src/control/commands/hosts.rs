//! Hosts that the cluster knows, what proves who they are, and which volumes they may use.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_core::cluster::{
    Access, Certificate, ClusterMap, HostChange, MOST_HOSTS, MOST_SEALED, SealedSecret, Volume,
    is_host_name,
};
use weft_core::units::{NodeId, VolumeId};

use super::{Commands, Outcome, Wait, overtaken};
use crate::control_protocol::{HostAction, Sealed, ok};
use crate::doors::secret::Secrets;
use crate::doors::vault::SealingKey;
use crate::error::{Error, Result, fail};
use crate::hex::{hex, unhex};
use crate::sessions::Session;

impl Commands<'_> {
    /// Ends the connections of hosts, by address or volume or both.
    pub(super) fn disconnect(
        &mut self,
        address: Option<&str>,
        volume: Option<&str>,
    ) -> Result<Value> {
        if address.is_none() && volume.is_none() {
            return fail("give an address or a volume of hosts, as in `weft host list`");
        }
        let volume = volume.map(|name| self.volume(name)).transpose()?.map(|v| v.id);
        let from = |peer: &str| {
            address
                .is_none_or(|a| peer == a || peer.rsplit_once(':').is_some_and(|(ip, _)| ip == a))
        };
        let such = |s: &dyn Session| from(s.peer()) && volume.is_none_or(|v| s.volume() == Some(v));
        match self.hosts.disconnect(self.engine, such) {
            0 => fail(
                "no such host is connected to this process; see `weft host list` with the same --dir",
            ),
            count => Ok(ok(json!({ "disconnected": count }))),
        }
    }

    /// How many hosts stand in the way of one that wants a volume for itself at another process.
    pub(super) fn writers(&mut self, volume: VolumeId, process: NodeId) -> usize {
        let Some(us) = self.engine.rule.together().map(|t| t.us()) else { return 0 };
        self.hosts.writers(volume, process, us)
    }

    /// Commands about known hosts.
    pub(super) fn known_hosts(&mut self, action: &HostAction) -> Result<Outcome> {
        let map = self.engine.map();
        let change = match action {
            HostAction::List => return Ok(Outcome::Answer(ok(json!({ "known": known(map) })))),
            HostAction::Sign { name, key } => {
                require_host(map, name)?;
                let signed = self.keeper.certify(name, key)?;
                return Ok(Outcome::Answer(ok(json!({
                    "ca": signed.ca,
                    "certificate": signed.certificate.pem,
                    "key": format!("{:032x}", signed.certificate.key),
                    "until": signed.certificate.until,
                }))));
            }
            HostAction::Create { name } => {
                if !is_host_name(name) {
                    return fail(format!(
                        "'{name}' cannot be a host's name; use 1 to 32 of a-z, 0-9 and '-', not beginning or ending with '-'"
                    ));
                }
                if map.hosts.contains_key(name) {
                    return fail(format!(
                        "there is already a host '{name}'; choose another name, or make it another certificate \
                         (`weft host certify {name}`)"
                    ));
                }
                if map.hosts.len() >= MOST_HOSTS {
                    return fail(format!("there are {MOST_HOSTS} hosts already; delete one first"));
                }
                HostChange::Create(name.clone())
            }
            HostAction::Delete { name } => {
                require_host(map, name)?;
                HostChange::Delete(name.clone())
            }
            HostAction::Certify { name, key, until, revoke_others } => {
                require_host(map, name)?;
                let key = u128::from_str_radix(key, 16)
                    .map_err(|_| Error(format!("'{key}' is not the digest of a key")))?;
                let certificate = Certificate { key, until: *until };
                match revoke_others {
                    true => HostChange::CertifyAlone(name.clone(), certificate),
                    false => HostChange::Certify(name.clone(), certificate),
                }
            }
            HostAction::Seal { name, secret, mutual } => {
                require_host(map, name)?;
                let secrets = Secrets::parse(secret, mutual.as_deref())?;
                let key = self.vault.prepare(map)?;
                return self.seal(name.clone(), Box::new(secrets), key);
            }
            HostAction::Secret { name, sealed: None } => {
                require_host(map, name)?;
                if map.hosts.get(name).is_some_and(|host| host.secret.is_none()) {
                    return fail(format!("host '{name}' has no secret"));
                }
                HostChange::Secret(name.clone(), None)
            }
            HostAction::Secret { name, sealed: Some(sealed) } => {
                require_host(map, name)?;
                let Some(bytes) = unhex(&sealed.bytes) else {
                    return fail("the sealed secret is not in hexadecimal");
                };
                let sealed = SealedSecret { key: sealed.key, mutual: sealed.mutual, bytes };
                refuse_too_many(map, name, &sealed)?;
                HostChange::Secret(name.clone(), Some(sealed))
            }
            HostAction::Allow { volume, host: Some(host), read_only } => {
                require_host(map, host)?;
                let access = if *read_only { Access::ReadOnly } else { Access::Full };
                let volume = self.volume(volume)?;
                if access > volume.most_access() {
                    let name = &volume.name;
                    return fail(format!(
                        "hosts can only read snapshot '{name}'; `weft volume allow {name} {host} --read-only` lets it do that"
                    ));
                }
                HostChange::Allow(volume.id, host.clone(), access)
            }
            HostAction::Allow { volume, host: None, .. } => {
                HostChange::AllowAll(self.volume(volume)?.id)
            }
            HostAction::Deny { volume, host } => {
                let volume = self.volume(volume)?;
                refuse_unlisted(&volume, &self.engine.map().snapshots_of(volume.id), host)?;
                HostChange::Deny(volume.id, host.clone())
            }
        };
        let ticket = self.engine.change(weft_core::cluster::Change::Hosts(change.clone()));
        Ok(Outcome::Wait(Wait::Hosts(change, ticket)))
    }

    /// Seals secrets, if the key for that is there.
    fn seal(&self, name: String, secrets: Box<Secrets>, key: SealingKey) -> Result<Outcome> {
        let SealingKey::Ready(key) = key else {
            return Ok(Outcome::Wait(Wait::Sealing(name, secrets)));
        };
        let sealed = self.vault.seal(key, &name, &secrets)?;
        refuse_too_many(self.engine.map(), &name, &sealed)?;
        let SealedSecret { key, mutual, bytes } = sealed;
        let sealed = Sealed { key, mutual, bytes: hex(&bytes) };
        Ok(Outcome::Answer(ok(json!({ "sealed": sealed }))))
    }

    /// Seals secrets that waited for their key.
    pub(super) fn check_sealing(&self, name: String, secrets: Box<Secrets>) -> Result<Outcome> {
        let key = self.vault.prepared(self.engine.map())?;
        self.seal(name, secrets, key)
    }

    /// Whether the map says what was asked.
    pub(super) fn check_hosts(&mut self, mut wait: Wait) -> Result<Outcome> {
        let Wait::Hosts(change, ticket) = &mut wait else { return Ok(Outcome::Wait(wait)) };
        if !self.is_made(ticket)? {
            return Ok(Outcome::Wait(wait));
        }
        let mut again = self.engine.map().clone();
        change.apply(&mut again);
        match again == *self.engine.map() {
            true => {
                let (epoch, known) = (again.epoch, known(&again));
                Ok(Outcome::Answer(ok(json!({ "epoch": epoch, "known": known }))))
            }
            false => Err(overtaken()),
        }
    }
}

/// Refuses a secret that there is no room for.
fn refuse_too_many(map: &ClusterMap, name: &str, sealed: &SealedSecret) -> Result<()> {
    match map.has_room_for(name, Some(sealed)) {
        true => Ok(()),
        false => fail(format!(
            "the sealed secrets of all hosts would have more than {MOST_SEALED} bytes, more than \
             the disks can store; remove others              (`weft host secret NAME --remove`), or choose shorter ones"
        )),
    }
}

/// Refuses the name of a host that is not known.
pub(super) fn require_host(map: &ClusterMap, name: &str) -> Result<()> {
    if map.hosts.contains_key(name) {
        return Ok(());
    }
    let there: Vec<&str> = map.hosts.keys().map(String::as_str).collect();
    let there = if there.is_empty() { "none".to_string() } else { there.join(", ") };
    fail(format!(
        "there is no host '{name}' (`weft host create {name}` makes one); there are: {there}"
    ))
}

fn refuse_unlisted(volume: &Volume, snapshots: &[&Arc<Volume>], host: &str) -> Result<()> {
    let lists = |v: &Volume| v.hosts.as_ref().is_some_and(|list| list.contains_key(host));
    if snapshots.iter().any(|snapshot| lists(snapshot)) {
        return Ok(());
    }
    let name = &volume.name;
    match &volume.hosts {
        None => fail(format!(
            "volume '{name}' has no list, and serves all hosts; `weft volume allow {name} HOST` \
             begins a list of hosts that may use it"
        )),
        Some(list) if !list.contains_key(host) => {
            let there: Vec<&str> = list.keys().map(String::as_str).collect();
            let there = if there.is_empty() { "no host".to_string() } else { there.join(", ") };
            fail(format!("host '{host}' is not on the list of volume '{name}', which has {there}"))
        }
        Some(_) => Ok(()),
    }
}

/// Known hosts as JSON.
fn known(map: &ClusterMap) -> Value {
    let one = |(name, host): (&String, &weft_core::cluster::KnownHost)| {
        let volumes = map.volumes.values().filter(|v| v.hosts.is_some());
        let rights = volumes.filter_map(|v| {
            Some(json!({ "volume": v.name, "access": v.access_of(Some(name))?.word() }))
        });
        let one = |c: &Certificate| json!({ "key": format!("{:032x}", c.key), "until": c.until });
        json!({
            "name": name,
            "key": host.newest().map(|c| format!("{:032x}", c.key)),
            "until": host.newest().map(|c| c.until),
            "certificates": host.certificates.iter().map(one).collect::<Vec<_>>(),
            "secret": host.secret.is_some(),
            "mutual": host.secret.as_ref().is_some_and(|secret| secret.mutual),
            "volumes": rights.collect::<Vec<_>>(),
        })
    };
    map.hosts.iter().map(one).collect()
}
