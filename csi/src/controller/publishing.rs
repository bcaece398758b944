//! Which nodes may use a volume: the list of hosts in the cluster map. Of a node that loses its place there no
//! earlier write takes effect once the answer is given. Each process ends the node's connections when it has the map.

use std::collections::HashMap;

use tonic::Status;

use crate::capability::Wanted;
use crate::cluster::{Cluster, KEEPER, published};
use crate::proto::{
    ControllerPublishVolumeRequest, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, validate_volume_capabilities_response::Confirmed,
};

/// Lets a node use a volume. The answer identifies the right (see [`crate::grants`]).
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
        Some(has) if *has == read_only => return Ok(cluster.grants.context(name, node)),
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
    // The right may be given though the answer is lost.
    cluster.grants.begin(name, node)?;
    cluster.allow(name, node, read_only)?;
    Ok(cluster.grants.context(name, node))
}

/// Ends a node's right to use a volume; that of all nodes, if none is named. Whether a named node has one says the leading
/// process: what another knows may be older.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn unpublish(cluster: &Cluster, name: &str, node: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    let there = cluster.volume(name)?;
    match (node, there) {
        (KEEPER, _) | ("", None) => Ok(()),
        ("", Some(volume)) => published(&volume).keys().try_for_each(|n| end(cluster, name, n)),
        (node, _) => end(cluster, name, node),
    }
}

fn end(cluster: &Cluster, name: &str, node: &str) -> Result<(), Status> {
    cluster.deny(name, node)?;
    cluster.grants.end(name, node);
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tonic::Code;
    use weft_host::{ControlRequest, HostAction};

    use super::*;
    use crate::cluster::Ask;

    /// A process whose map is older than that of the leading one.
    #[derive(Clone, Default)]
    struct Old {
        is_cut_off: bool,
        /// Why the leading process refuses to end a right, if it does.
        refusal: Option<&'static str>,
        denied: Arc<Mutex<Vec<String>>>,
    }

    impl Ask for Old {
        fn ask(&self, request: &ControlRequest) -> Result<Value, Status> {
            match request {
                ControlRequest::VolumeList { .. } => {
                    let mut answer = json!({ "volumes": [] });
                    if self.is_cut_off {
                        answer["cut_off"] = json!("it reaches no majority");
                    }
                    Ok(answer)
                }
                ControlRequest::Hosts { action: HostAction::Deny { host, .. } } => {
                    self.denied.lock().unwrap().push(host.clone());
                    match self.refusal {
                        Some(why) => Err(Status::failed_precondition(why)),
                        None => Ok(json!({})),
                    }
                }
                other => panic!("nobody asks {other:?}"),
            }
        }
    }

    fn unpublished(old: &Old) -> (Code, Vec<String>) {
        let ended = unpublish(&Cluster::new(old.clone()), "v", "one");
        let code = ended.err().map_or(Code::Ok, |e| e.code());
        (code, std::mem::take(&mut old.denied.lock().unwrap()))
    }

    #[test]
    fn a_right_that_only_the_leading_process_knows_of_ends() {
        assert_eq!(unpublished(&Old::default()), (Code::Ok, vec!["one".to_string()]));
    }

    #[test]
    fn a_right_that_has_ended_is_no_error_and_another_refusal_is() {
        for (refusal, code) in [
            ("host 'one' is not on the list of volume 'v', which has weft-csi", Code::Ok),
            ("volume 'v' has no list, and serves all hosts", Code::Ok),
            ("there is no volume 'v'; there are: w", Code::Ok),
            ("there are no volumes; create one first", Code::Ok),
            ("the cluster has no leader now", Code::FailedPrecondition),
        ] {
            let old = Old { refusal: Some(refusal), ..Old::default() };
            assert_eq!(unpublished(&old).0, code, "{refusal}");
        }
    }

    #[test]
    fn a_process_that_is_cut_off_is_not_believed() {
        let old = Old { is_cut_off: true, ..Old::default() };
        assert_eq!(unpublished(&old), (Code::Unavailable, Vec::new()));
        let all = unpublish(&Cluster::new(old), "v", "");
        assert_eq!(all.unwrap_err().code(), Code::Unavailable);
    }
}
