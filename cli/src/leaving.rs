//! Before a disk leaves on purpose: parity that waits of what is on it is computed, and no more of it waits.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use weft_host::status::{NodeState, Status, VolumeStatus};
use weft_host::{Control, ControlRequest, DiskAction};
use weft_terminal::bytes;

/// Whether a node takes part now. Nothing can be done for one that does not.
fn takes_part(status: &Status, node: usize) -> bool {
    use NodeState::{CatchingUp, Draining, Suspect, Up};
    let of = status.nodes.iter().find(|n| usize::from(n.node) == node);
    of.is_some_and(|n| matches!(n.state, Up | CatchingUp | Draining | Suspect))
}

/// The volumes that have something on a node's disk, and whose parity may wait, or still does.
fn waiting(status: &Status, node: usize) -> impl Iterator<Item = &VolumeStatus> {
    let on_it = move |v: &&VolumeStatus| v.nodes.iter().any(|n| usize::from(*n) == node);
    let waits = |v: &&VolumeStatus| v.choice("redundancy") != "immediate" || exposed(v) > 0;
    status.volumes.iter().filter(on_it).filter(waits)
}

/// Bytes that only parity would protect that waits.
fn exposed(volume: &VolumeStatus) -> u64 {
    volume.exposed.as_ref().map_or(0, |e| e.bytes)
}

/// Says that a node's disk may fail, and waits until what is on it is redundant.
pub fn suspect(control: &mut Control, node: usize) -> Result<Value> {
    let answer = control.request(&ControlRequest::disk(DiskAction::Suspect, node))?;
    let status = control.status()?;
    for volume in waiting(&status, node).filter(|_| takes_part(&status, node)) {
        refresh(control, volume, node)?;
    }
    Ok(answer)
}

fn refresh(control: &mut Control, volume: &VolumeStatus, node: usize) -> Result<()> {
    let name = volume.name.clone();
    let request = ControlRequest::Refresh { volume: name.clone(), offset: 0, length: None };
    let left = control.request(&request)?["sectors_left"].as_u64().unwrap_or(0);
    if left > 0 {
        bail!(
            "{} of parity of volume '{name}' cannot be computed now, because disks are missing or content is lost (see \
             `weft status`); the disk of node {node} is suspect until `weft disk suspect {node} --clear`",
            bytes(left * weft_core::SECTOR)
        );
    }
    Ok(())
}

/// Has parity computed that waits of what is on a node's disk, and says that no more of it is to wait. Returns whether that
/// was not so before: then it is for the caller to take it back.
pub fn make_redundant(control: &mut Control, node: usize) -> Result<bool> {
    let status = control.status()?;
    let any = waiting(&status, node).next().is_some();
    let before = status.nodes.iter().find(|n| usize::from(n.node) == node).map(|n| n.state);
    if !any || !takes_part(&status, node) {
        return Ok(false);
    }
    suspect(control, node)
        .context("not done; add --now to do it, though exposed data may be lost")?;
    Ok(before != Some(NodeState::Suspect))
}

/// Takes back what [`make_redundant`] said.
pub fn trust(control: &mut Control, node: usize) -> Result<()> {
    control.request(&ControlRequest::disk(DiskAction::Trust, node))?;
    Ok(())
}

/// What parity does not protect of the volumes on a node's disk, in words, if there is anything. Not all of it need be on that
/// disk.
pub fn unprotected(status: &Status, node: usize) -> Option<String> {
    let all: Vec<String> = waiting(status, node)
        .filter(|v| takes_part(status, node) && exposed(v) > 0)
        .map(|v| format!("up to {} of volume '{}'", bytes(exposed(v)), v.name))
        .collect();
    (!all.is_empty()).then(|| format!("no parity protects {} yet", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weft_host::status::{ExposedStatus, NodeStatus};

    use super::*;

    fn status(state: NodeState, redundancy: &str, bytes: u64) -> Status {
        let exposed = Some(ExposedStatus { bytes, ..ExposedStatus::default() });
        let policy = BTreeMap::from([("redundancy".to_string(), redundancy.to_string())]);
        let volume = VolumeStatus {
            name: "v".into(),
            nodes: vec![1, 2],
            exposed,
            policy,
            ..VolumeStatus::default()
        };
        let node = NodeStatus { node: 1, state, ..NodeStatus::default() };
        Status { nodes: vec![node], volumes: vec![volume], ..Status::default() }
    }

    #[test]
    fn what_is_not_protected_is_said_of_nodes_that_take_part() {
        let said = "no parity protects up to 8.00 KiB of volume 'v' yet";
        let of = |state, redundancy, bytes| unprotected(&status(state, redundancy, bytes), 1);
        assert_eq!(of(NodeState::Up, "deferred", 8192).as_deref(), Some(said));
        assert_eq!(of(NodeState::Suspect, "never", 8192).as_deref(), Some(said));
        assert_eq!(of(NodeState::Up, "deferred", 0), None);
        assert_eq!(of(NodeState::Up, "immediate", 8192).as_deref(), Some(said), "from before");
        assert_eq!(of(NodeState::Up, "immediate", 0), None);
        assert_eq!(of(NodeState::Down, "deferred", 8192), None);
        assert_eq!(
            unprotected(&status(NodeState::Up, "deferred", 8192), 0),
            None,
            "it holds nothing of it"
        );
    }
}
