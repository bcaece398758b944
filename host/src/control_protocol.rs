//! The control socket's language: one JSON object a line, each way. Whoever waits for an answer for more
//! than a second may be told first what it waits for, in lines with nothing but `waits_for`.
//!
//! Who ends the connection before the answer gives up what has not been begun, and a scrub. What has
//! begun to change something goes on. A question whose asker is gone when it is its turn is not taken
//! up, however long it has lain there. Who only ends its own side still waits for the answer.

mod actions;
mod audit;
mod creation;
mod hosts;
mod imports;
mod named;
mod what_if;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_core::node::UNBOUNDED;

pub use actions::{Believed, DiskAction, NewDiskOf, NodeAction, RebalanceAction};
pub(crate) use audit::change_asked;
pub use creation::VolumeCreation;
pub use hosts::{HostAction, Sealed};
pub use imports::ImportOf;
pub(crate) use named::check_names;

use crate::holder::Holder;
use crate::reserving::Reserving;

/// What can be asked of a running array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// How everything is.
    Status,
    /// Stop or start a node; answered when it is done.
    Node {
        /// What to do.
        action: NodeAction,
        /// To which.
        node: usize,
    },
    /// Declare a disk lost, or have it emptied; answered when the map says so.
    Disk {
        /// What to do.
        action: DiskAction,
        /// The node.
        node: usize,
        /// Volumes that may lose what they have there, if it is declared lost.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        accept_loss: Vec<String>,
    },
    /// Add a node with an empty disk, to an array in one process or to the process that is asked;
    /// answered when it takes part.
    DiskAdd {
        /// In a cluster: the disk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
        /// How large to make it, if it is a file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Also if there is something on it, which is lost then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Admit one more node of a process; answered when the map holds it.
    DiskAdmit {
        /// The process's number.
        process: u16,
    },
    /// Put a disk that is made empty in the place of one whose node is down; answered when it takes
    /// part.
    DiskReplace {
        /// The node.
        node: usize,
        /// In a cluster: the new disk, if it is not where the old one was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
        /// How large to make it, if it is a file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Also if there is something on it, which is lost then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
        /// Volumes that may lose what they had on the old one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        accept_loss: Vec<String>,
    },
    /// Move columns until all disks are equally full.
    Rebalance {
        /// What to do.
        action: RebalanceAction,
    },
    /// What the loss of nodes would mean, if disks were added and volumes had other layouts before.
    WhatIf {
        /// The nodes.
        lost: Vec<u16>,
        /// The disks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<NewDiskOf>,
        /// Layouts that volumes would have, by the volumes' names.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        layouts: BTreeMap<String, String>,
    },
    /// Choose something for the cluster as a whole; answered when the map says so.
    ClusterSet {
        /// What.
        key: String,
        /// Its value, as [`weft_core::cluster::ClusterSetting`] reads it.
        value: String,
    },
    /// The settings of the cluster, and its number.
    ClusterShow,
    /// The nodes, and where they live.
    NodeList,
    /// Admit a node; its number and the others are the answer.
    NodeAdd {
        /// Its name.
        name: String,
        /// Where it lives.
        home: NewHome,
        /// Its public key.
        key: Vec<u8>,
    },
    /// Remove a node from the cluster permanently.
    NodeRemove {
        /// Which.
        node: usize,
    },
    /// Issue a token to join with.
    Token {
        /// How long it is good.
        seconds: u64,
    },
    /// Add a volume.
    VolumeCreate(VolumeCreation),
    /// Change a volume's policy while it is in use.
    VolumeSet {
        /// Its name.
        name: String,
        /// The new values, by the keys of [`weft_core::policy::CHOICES`].
        set: BTreeMap<String, String>,
        /// Also what may corrupt data.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
        /// Offset and length of the bytes to which it applies; all that lie in no such range if open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<(u64, u64)>,
    },
    /// All volumes, or all snapshots of volumes.
    VolumeList {
        /// Whether it is the snapshots.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        snapshots: bool,
    },
    /// One volume.
    VolumeShow {
        /// Its name.
        name: String,
    },
    /// Make a volume larger or smaller.
    VolumeResize {
        /// Its name.
        name: String,
        /// Its new size in bytes; 0 takes all the room that is left.
        size: u64,
        /// Also if that cuts off bytes that are in use.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Remove a volume that no host is connected to; it can be brought back for a while.
    VolumeDelete {
        /// Its name.
        name: String,
        /// Give its room back at once, so that it cannot be brought back; also of one that is deleted already.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
    },
    /// Bring back a deleted volume.
    VolumeUndelete {
        /// Its name; of several the one that was deleted last.
        name: String,
    },
    /// Give a volume that no host is connected to another name.
    VolumeRename {
        /// Its name.
        name: String,
        /// The new one.
        to: String,
    },
    /// Take a snapshot of volumes, all at one instant; answered when the map in force has it.
    VolumeSnapshot {
        /// The names of the volumes.
        volumes: Vec<String>,
        /// The part of the name behind `@`.
        snapshot: String,
    },
    /// Make a volume that begins with the content of a snapshot.
    VolumeClone {
        /// The snapshot's name.
        snapshot: String,
        /// The new volume's name.
        to: String,
    },
    /// Have a clone copy what it shows of the snapshot below it, in the background, until it is independent of it.
    VolumeFlatten {
        /// Its name.
        name: String,
    },
    /// Set a volume that no host is connected to back to a snapshot of it.
    VolumeRollback {
        /// Its name.
        name: String,
        /// The snapshot, with or without the volume's name.
        snapshot: String,
    },
    /// Make a hidden copy of a snapshot of a volume, for the changes up to a later one; the copy is the answer.
    VolumeImport {
        /// The volume's name.
        name: String,
        /// The snapshot that the changes are based on, as a [`weft_core::cluster::Identity`].
        base: String,
        /// The later one.
        import: ImportOf,
    },
    /// Record that an import to a volume is durable up to an offset: after an interruption it continues there.
    VolumeImportedUpTo {
        /// The volume's name.
        name: String,
        /// The snapshot whose content is imported, as a [`weft_core::cluster::Identity`].
        source: String,
        /// The offset.
        done: u64,
    },
    /// The import to a volume is complete: put it in place, and take its snapshot.
    VolumeImported {
        /// The volume's name.
        name: String,
        /// The snapshot whose content was imported, as a [`weft_core::cluster::Identity`].
        source: String,
    },
    /// From now on this connection speaks the native protocol, for an operator, who may use every volume.
    Native,
    /// Read and verify every stripe of a volume; answered when it is done.
    Scrub {
        /// Its name.
        volume: String,
        /// The first stripe.
        #[serde(default, skip_serializing_if = "is_zero")]
        from: u64,
        /// Most bytes a second that are read of each disk; the usual rate if open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<u64>,
        /// Whom to believe where it cannot be told whether data or parity is wrong: it is left as it is if open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trust: Option<Believed>,
        /// With parity believed: the node whose disk is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspect: Option<u16>,
        /// Without the volumes that it shows content of, which follow otherwise.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
    /// Compute parity of a volume that waits; answered when it is done.
    Refresh {
        /// Its name.
        volume: String,
        /// The first byte of the range.
        #[serde(default, skip_serializing_if = "is_zero")]
        offset: u64,
        /// Its length; to the end of the volume if open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
    },
    /// Tell how many bytes of a volume have content.
    VolumeUsage {
        /// Its name.
        name: String,
    },
    /// List what may have changed in a volume since a snapshot.
    VolumeDiff {
        /// Its name.
        volume: String,
        /// The snapshot's: the part after the `@`, or the full name. If open, content is listed that is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// Likewise of a later snapshot; what the volume is now if open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
        /// The first byte that is compared.
        #[serde(default, skip_serializing_if = "is_zero")]
        offset: u64,
    },
    /// Copy a range of a volume to the same place of another that no host uses; answered when it is durable there.
    VolumeCopy {
        /// The volume to read.
        source: String,
        /// The volume to write.
        destination: String,
        /// The first byte of the range.
        offset: u64,
        /// Its length.
        length: u64,
    },
    /// List the permanently lost ranges of a volume.
    Lost {
        /// Its name.
        volume: String,
        /// Make it zeros.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        accept: bool,
    },
    /// End the connections of hosts to this process.
    HostDisconnect {
        /// Those from this address, as the status has it, or without its port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// Those that use this volume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
    },
    /// Ask about hosts that the cluster knows, or change something about them.
    Hosts {
        /// What.
        action: HostAction,
    },
    /// A host registers with a volume, or reserves it; answered when the map says what became of that.
    Reserve {
        /// The change.
        change: Reserving,
    },
    /// Remove all registrants of a volume, and its reservation.
    VolumeUnreserve {
        /// Its name.
        name: String,
    },
    /// A host of the native protocol has come to another process: end its connection here, abandon its requests in
    /// progress, and answer, when none is left, with their outcomes. If the number is another's here, only answer that.
    HostLeave {
        /// The host's number.
        host: u64,
        /// Who claims it. A process of an earlier version does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<Holder>,
    },
    /// A host wants to be the only one of a volume at another process: answer how many use it
    /// here, or are about to.
    WriterComes {
        /// The volume's number.
        volume: u32,
        /// The process's.
        process: u16,
    },
    /// Give another process a key that secrets of hosts are sealed with. Only processes of the cluster are answered.
    SecretKey {
        /// The key's number.
        key: u64,
    },
    /// Answered once nothing is in work and everything is in place.
    Quiesce,
    /// Stop everything in good order; answered when it is done.
    Shutdown,
}

impl ControlRequest {
    /// Puts an empty disk in the place of a node's, where that is.
    pub fn disk_replace(node: usize) -> ControlRequest {
        let accept_loss = Vec::new();
        ControlRequest::DiskReplace { node, path: None, size: None, force: false, accept_loss }
    }

    /// Does something to a node's disk.
    pub fn disk(action: DiskAction, node: usize) -> ControlRequest {
        ControlRequest::Disk { action, node, accept_loss: Vec::new() }
    }

    /// Deletes a volume, so that it can be brought back.
    pub fn volume_delete(name: &str) -> ControlRequest {
        ControlRequest::VolumeDelete { name: name.to_string(), now: false }
    }

    /// A scrub of a whole volume, as fast as it goes.
    pub fn scrub(volume: &str) -> ControlRequest {
        let (volume, rate) = (volume.to_string(), Some(UNBOUNDED));
        ControlRequest::Scrub { volume, from: 0, rate, trust: None, suspect: None, alone: false }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Where a new node lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewHome {
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// The failure domains that it is in.
    pub labels: BTreeMap<String, String>,
    /// Whether it has no disk, and is a host that is its own controller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_host: bool,
    /// Whether it has no disk and serves no host: it is there to be the controller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_controller: bool,
    /// The number of its disks, each with a node.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub disks: usize,
    /// The names of the processes that it dials, if not all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Whether it takes the place of a process of its name that is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// Volumes that may lose what they had on that one's disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_loss: Vec<String>,
}

fn one() -> usize {
    1
}

fn is_one(n: &usize) -> bool {
    *n == 1
}

/// The answer that it is done, with what there is to say.
pub(crate) fn ok(mut more: Value) -> Value {
    more["ok"] = json!(true);
    more
}

/// The answer that it cannot be done.
pub(crate) fn error(why: impl std::fmt::Display) -> Value {
    json!({"ok": false, "error": why.to_string()})
}

/// The answer that nothing has been done, because another process leads now.
pub(crate) fn ask_again() -> Value {
    let mut answer = error("the leader has just changed; try again");
    answer["again"] = json!(true);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_documented() {
        for (text, request) in [
            (r#"{"cmd":"status"}"#, ControlRequest::Status),
            (
                r#"{"cmd":"node","action":"kill","node":2}"#,
                ControlRequest::Node { action: NodeAction::Kill, node: 2 },
            ),
            (
                r#"{"cmd":"volume-create","name":"v","size":4096,"set":{"journal":"off"}}"#,
                ControlRequest::VolumeCreate(VolumeCreation {
                    name: "v".into(),
                    size: 4096,
                    set: [("journal".into(), "off".into())].into(),
                    ..VolumeCreation::default()
                }),
            ),
            (
                r#"{"cmd":"volume-set","name":"v","set":{"ordering":"none"}}"#,
                ControlRequest::VolumeSet {
                    name: "v".into(),
                    set: [("ordering".into(), "none".into())].into(),
                    force: false,
                    range: None,
                },
            ),
            (
                r#"{"cmd":"volume-set","name":"v","set":{"redundancy":"never"},"range":[0,9]}"#,
                ControlRequest::VolumeSet {
                    name: "v".into(),
                    set: [("redundancy".into(), "never".into())].into(),
                    force: false,
                    range: Some((0, 9)),
                },
            ),
            (
                r#"{"cmd":"scrub","volume":"v","from":7,"rate":1000}"#,
                ControlRequest::Scrub {
                    volume: "v".into(),
                    from: 7,
                    rate: Some(1000),
                    trust: None,
                    suspect: None,
                    alone: false,
                },
            ),
            (
                r#"{"cmd":"scrub","volume":"v","trust":"parity","suspect":2}"#,
                ControlRequest::Scrub {
                    volume: "v".into(),
                    from: 0,
                    rate: None,
                    trust: Some(Believed::Parity),
                    suspect: Some(2),
                    alone: false,
                },
            ),
        ] {
            assert_eq!(serde_json::from_str::<ControlRequest>(text).unwrap(), request);
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
        }
    }
}
