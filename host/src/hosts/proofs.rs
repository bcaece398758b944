//! Hosts that prove who they are by CHAP: their claims are judged, some of them later; and the keys for their secrets, which
//! processes ask one another for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_core::cluster::ClusterMap;
use weft_core::units::NodeId;
use weft_front::iscsi::Claim;

use super::Hosts;
use crate::control_protocol::ControlRequest;
use crate::doors::brake::Brake;
use crate::doors::secret::Disbelief;
use crate::doors::vault::Vault;
use crate::doors::who::{Cause, Who};
use crate::engine::Engine;
use crate::log::Log;

/// How long until processes are asked again for a key.
const AGAIN: Duration = Duration::from_secs(1);

/// A claim that is judged later.
struct Waiting {
    conn: usize,
    claim: Claim,
    at: Instant,
}

/// Why a claim is not believed, and whether whoever makes it does not know the secret.
struct Disproof {
    why: String,
    is_guess: bool,
}

/// Claims, and what they are judged by.
#[derive(Default)]
pub(super) struct Proofs {
    /// The keys of secrets; none before it runs.
    vault: Option<Arc<Vault>>,
    brake: Brake,
    waiting: Vec<Waiting>,
    /// Keys that others must give, by the process that was asked and the number of the question.
    missing: BTreeSet<u64>,
    asked: BTreeMap<(NodeId, u64), u64>,
    /// When they are asked again.
    again: Option<Instant>,
}

impl Proofs {
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let claims = self.waiting.iter().map(|waiting| waiting.at);
        let at = claims.chain(self.again).min();
        at.map(|at| at.saturating_duration_since(now))
    }

    pub(super) fn forget(&mut self, conn: usize) {
        self.waiting.retain(|waiting| waiting.conn != conn);
    }

    /// After the map has changed: keys that it needs and that are not here are asked for.
    pub(super) fn follow(&mut self, map: &ClusterMap, now: Instant) {
        self.missing = self.vault.as_ref().map(|v| v.missing(map)).unwrap_or_default();
        self.again = (!self.missing.is_empty()).then_some(now);
    }

    /// A process has answered; perhaps with a key.
    pub(super) fn answered(&mut self, node: NodeId, number: u64, answer: &[u8], log: &Log) {
        let (Some(key), Some(vault)) = (self.asked.remove(&(node, number)), &self.vault) else {
            return;
        };
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let Some(text) = answer["secret_key"].as_str() else { return };
        match vault.keep(key, text) {
            Ok(is_new) => {
                self.missing.remove(&key);
                if is_new {
                    log.info(&format!(
                        "the process of node {} has sent a key for the secrets of hosts",
                        node.0
                    ));
                }
            }
            Err(e) => log.warn(&format!("a key for the secrets of hosts cannot be stored: {e}")),
        }
    }

    /// Says why keys are not in their file.
    pub(super) fn complain(&self, log: &Log) {
        if let Some(e) = self.vault.as_ref().and_then(|vault| vault.take_complaint()) {
            log.warn(&format!("keys for the secrets of hosts cannot be stored: {e}"));
        }
    }

    /// Who claims to be a host, if it is that, and the digest by which the target proves itself.
    fn judge(&self, map: &ClusterMap, claim: &Claim) -> Result<(Who, Option<Vec<u8>>), Disproof> {
        let name = &claim.name;
        let guess = |why: &str| Disproof {
            why: format!("it claims to be host '{name}', and {why}"),
            is_guess: true,
        };
        let unknown = || guess("no host of that name has a secret");
        let host = map.hosts.get(name).ok_or_else(unknown)?;
        let sealed = host.secret.as_ref().ok_or_else(unknown)?;
        let vault = self.vault.as_ref().ok_or_else(unknown)?;
        let secrets = vault
            .open_sealed(name, sealed)
            .map_err(|e| Disproof { why: e.to_string(), is_guess: false })?;
        let proof = secrets.judge(claim).map_err(|why| match why {
            Disbelief::Wrong => guess("its answer does not match the secret"),
            Disbelief::OneWay => {
                let why = format!(
                    "host '{name}' requests mutual authentication, and the target has no secret; \
                     set one (`weft host secret {name} \
                     --mutual-file FILE`)"
                );
                Disproof { why, is_guess: false }
            }
        })?;
        Ok((Who::Chap { name: name.clone(), mark: sealed.mark() }, proof))
    }
}

impl Hosts {
    /// Has the secrets of hosts opened with these keys.
    pub(crate) fn open_secrets_with(&mut self, vault: Arc<Vault>) {
        self.proofs.vault = Some(vault);
    }

    /// A host claims who it is.
    pub(super) fn prove(&mut self, engine: &Engine, id: usize, claim: Claim) {
        let Some(session) = self.connections.get(id) else { return };
        let (now, address) = (Instant::now(), address(session.peer()));
        match self.proofs.brake.when(address, &claim.name, now) {
            Some(at) if at <= now => self.judge(engine, id, &claim),
            Some(at) => {
                self.book.delayed();
                self.proofs.waiting.push(Waiting { conn: id, claim, at });
            }
            None => {
                let name = &claim.name;
                let why = format!(
                    "there were too many wrong answers from its address or for host '{name}', and \
                     other logins are already delayed"
                );
                self.disprove(id, &why, false);
            }
        }
    }

    /// Judges the claims whose time has come.
    pub(crate) fn judge_claims(&mut self, engine: &Engine) {
        let now = Instant::now();
        let due: Vec<Waiting> = self.proofs.waiting.extract_if(.., |w| w.at <= now).collect();
        for Waiting { conn, claim, .. } in due {
            self.judge(engine, conn, &claim);
        }
    }

    fn judge(&mut self, engine: &Engine, id: usize, claim: &Claim) {
        let Some(session) = self.connections.get(id) else { return };
        let (now, address) = (Instant::now(), address(session.peer()));
        match self.proofs.judge(engine.map(), claim) {
            Ok((who, proof)) => {
                self.proofs.brake.right(address, &claim.name, now);
                self.connections.proved(id, who, proof);
            }
            Err(Disproof { why, is_guess }) => {
                if is_guess {
                    let is_host = engine.map().hosts.contains_key(&claim.name);
                    self.proofs.brake.wrong(address, (&claim.name, is_host), now);
                }
                self.disprove(id, &why, true);
            }
        }
    }

    fn disprove(&mut self, id: usize, why: &str, was_judged: bool) {
        self.note_unproved(id, Cause::Chap, why);
        self.connections.disproved(id, was_judged);
    }

    /// Asks other processes for keys that are not here; questions get a number each.
    pub(crate) fn ask_for_keys(&mut self, engine: &Engine, mut number: impl FnMut() -> usize) {
        let now = Instant::now();
        if self.proofs.again.is_none_or(|at| now < at) {
            return;
        }
        self.proofs.again = None;
        self.proofs.asked.clear();
        let Some(together) = engine.rule.together() else { return };
        if !self.proofs.missing.is_empty() {
            self.proofs.again = Some(now + AGAIN);
        }
        for key in &self.proofs.missing {
            let question = ControlRequest::SecretKey { key: *key };
            let question = serde_json::to_vec(&question).expect("a request can be written");
            for process in together.connected() {
                let number = number() as u64;
                if together.ask(process, number, &question).is_ok() {
                    self.proofs.asked.insert((process, number), *key);
                }
            }
        }
    }
}

/// The address of a host, if it comes from another machine or by TCP.
fn address(peer: &str) -> Option<IpAddr> {
    peer.parse().ok().map(|address: SocketAddr| address.ip().to_canonical())
}
