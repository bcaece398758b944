//! How a new node comes in by files that its operator carries, where it cannot reach the node that
//! lets others in, or shall be set up before it has a network.
//!
//! The new node writes a [`JoinRequest`] with the public half of its key. Where the authority's key
//! is, [`certify`] asks the cluster for a number and answers with an [`Invitation`], which is what a
//! node with a token gets over the network. With it [`join_certified`] makes the node's directory
//! and disk. The private half of the key stays in the new node's directory all the time.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_member::Stored;
use weft_net::identity::{
    CertificateAuthority, Clock, LIFE, NodeKey, NodeName, PublicKey, cluster_of, der_of,
};

use super::config::Configuration;
use super::found::Invitation;
use super::home::Known;
use super::new_process::NewProcess;
use crate::control_client::Control;
use crate::control_protocol::{ControlRequest, NewHome};
use crate::durable;
use crate::error::{Error, Result, fail};

/// The key of a node that has asked for a certificate and has none yet.
pub(super) const KEY: &str = "joining-key.pem";

/// What a new node asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    name: String,
    /// The public half of its key.
    key: Vec<u8>,
    home: NewHome,
}

fn said(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

fn key_path(config: &Configuration) -> PathBuf {
    config.dir.join(KEY)
}

/// Whether a directory has a key that waits for its certificate.
pub(super) fn is_waiting(dir: &Path) -> Result<bool> {
    durable::is_there(&dir.join(KEY))
}

/// The key of a process that is not admitted yet. It is made, unless it was asked for before: who asks
/// again must show the same.
pub(super) fn waiting_key(config: &Configuration) -> Result<NodeKey> {
    let path = key_path(config);
    if durable::is_there(&path)? {
        return NodeKey::load(&path).map_err(said);
    }
    let key = NodeKey::generate().map_err(said)?;
    key.save(&path).map_err(said)?;
    Ok(key)
}

/// The key waits no more.
pub(super) fn forget_waiting_key(config: &Configuration) -> Result<()> {
    durable::remove(&key_path(config))
}

/// What the node of this configuration asks for. Its key is made, unless it has asked before.
pub fn join_request(config: &Configuration, force: bool) -> Result<JoinRequest> {
    let process = NewProcess::prepare(config, force)?;
    let key = waiting_key(config)?;
    process.keep();
    let (name, key) = (config.name.to_string(), key.public().as_bytes().to_vec());
    Ok(JoinRequest { name, key, home: config.new_home() })
}

/// Admits the node that asks, at the node in `dir`, which runs and has the authority's key.
pub fn certify(dir: &Path, request: JoinRequest) -> Result<Invitation> {
    let authority = CertificateAuthority::load(dir)
        .map_err(|e| Error(format!("{e}; run this where the authority's key is (`ca-key.pem`)")))?;
    let name: NodeName = request.name.parse().map_err(said)?;
    let key = PublicKey::from_bytes(&request.key).map_err(said)?;
    let ip = request.home.address.ip();
    let (named, shown) = (name.to_string(), key.as_bytes().to_vec());
    let add = ControlRequest::NodeAdd { name: named, home: request.home, key: shown };
    let answer = Control::connect(dir)?.request(&add)?;
    let peers: Vec<Known> = serde_json::from_value(answer["peers"].clone()).map_err(said)?;
    let node: u16 = serde_json::from_value(answer["node"].clone()).map_err(said)?;
    let disks = serde_json::from_value(answer["disks"].clone()).map_err(said)?;
    let certificate =
        authority.admit_at(&name, &key, &[ip], Clock::system().now(), LIFE).map_err(said)?;
    Ok(Invitation { ca: authority.pem().to_string(), certificate, node, disks, peers })
}

/// A new certificate in place of one that may have lapsed, made with the authority's key in `dir`. Good
/// for so many seconds, and at most a year. Returns whose it is, too.
pub fn renewed(dir: &Path, certificate_pem: &str, seconds: u64) -> Result<(NodeName, String)> {
    if seconds == 0 || seconds > LIFE {
        return fail(format!("a certificate can be valid for {} days at most", LIFE / 86_400));
    }
    let authority = CertificateAuthority::load(dir)
        .map_err(|e| Error(format!("{e}; run this where the authority's key is (`ca-key.pem`)")))?;
    let old = der_of(certificate_pem).map_err(said)?;
    authority.renew(&old, None, Clock::system().now(), seconds).map_err(said)
}

/// Makes the directory and the disks of a process that has got its certificate. Returns the numbers
/// of its nodes.
pub fn join_certified(
    config: &Configuration,
    invitation: &Invitation,
    force: bool,
) -> Result<Vec<u16>> {
    config.check_here()?;
    let mut process = NewProcess::prepare(config, force)?;
    let path = key_path(config);
    if !durable::is_there(&path)? {
        return fail(format!(
            "{} does not exist; a certificate needs the directory of its request (`weft cluster request`)",
            path.display()
        ));
    }
    let key = NodeKey::load(&path).map_err(said)?;
    let (cluster, name) = cluster_of(&invitation.certificate).map_err(said)?;
    if name != config.name {
        return fail(format!("the certificate is for {name}, and the node is {}", config.name));
    }
    if !key.is_of(&invitation.certificate).map_err(said)? {
        return fail(format!(
            "the certificate does not match the key in {}; use one made from the node's last request",
            path.display()
        ));
    }
    process.settle(invitation, Stored::empty(), &key, cluster.0)?;
    process.keep();
    forget_waiting_key(config)?;
    Ok(invitation.nodes())
}
