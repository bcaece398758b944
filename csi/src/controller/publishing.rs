//! Which nodes may use a volume: the list of hosts in the cluster map. Of a node that loses its place there no
//! earlier write takes effect once the answer is given. Each process ends the node's connections when it has the map.

use std::collections::HashMap;

use tonic::Status;

use crate::capability::Wanted;
use crate::cluster::{Cluster, published};
use crate::proto::{
    ControllerPublishVolumeRequest, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, validate_volume_capabilities_response::Confirmed,
};

/// Lets a node use a volume.
///
/// # Errors
/// If another node has it and it is not to be shared, or the node is not known.
pub fn publish(
    cluster: &Cluster,
    asked: &ControllerPublishVolumeRequest,
) -> Result<HashMap<String, String>, Status> {
    let (name, node) = (&asked.volume_id, &asked.node_id);
    if name.is_empty() || node.is_empty() {
        return Err(Status::invalid_argument("the volume's or the node's identifier is missing"));
    }
    let wanted = Wanted::read(asked.volume_capability.as_ref())?;
    let volume = cluster.require_volume(name)?;
    if !cluster.hosts()?.contains(node) {
        return Err(Status::not_found(format!(
            "the cluster has no host '{node}'; `weft host create {node}` adds it"
        )));
    }
    let read_only = asked.readonly || wanted.reads_only;
    let published = published(&volume);
    match published.get(node) {
        Some(has) if *has == read_only => return Ok(HashMap::new()),
        Some(_) => {
            return Err(Status::already_exists(format!(
                "volume '{name}' is published to node '{node}' with another right to write"
            )));
        }
        None => {}
    }
    let other =
        published.iter().find(|(_, reads)| !wanted.is_shared || (wanted.reads_only && !**reads));
    if let Some((other, _)) = other {
        return Err(Status::failed_precondition(format!(
            "volume '{name}' is published to node '{other}'"
        )));
    }
    cluster.allow(name, node, read_only)?;
    Ok(HashMap::new())
}

/// Ends a node's right to use a volume; that of all nodes, if none is named.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn unpublish(cluster: &Cluster, name: &str, node: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    let Some(volume) = cluster.volume(name)? else { return Ok(()) };
    let mut nodes = published(&volume);
    nodes.retain(|host, _| node.is_empty() || host == node);
    nodes.keys().try_for_each(|host| cluster.deny(name, host))
}

/// Whether a volume can be used as asked.
///
/// # Errors
/// If there is no such volume, or something is missing.
pub fn validate(
    cluster: &Cluster,
    asked: &ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    if asked.volume_id.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    if asked.volume_capabilities.is_empty() {
        return Err(Status::invalid_argument("the volume capabilities are missing"));
    }
    cluster.require_volume(&asked.volume_id)?;
    Ok(match Wanted::read_all(&asked.volume_capabilities) {
        Err(refused) => ValidateVolumeCapabilitiesResponse {
            message: refused.message().to_string(),
            confirmed: None,
        },
        Ok(_) => ValidateVolumeCapabilitiesResponse {
            confirmed: Some(Confirmed {
                volume_context: asked.volume_context.clone(),
                volume_capabilities: asked.volume_capabilities.clone(),
                parameters: asked.parameters.clone(),
                mutable_parameters: asked.mutable_parameters.clone(),
            }),
            message: String::new(),
        },
    })
}
