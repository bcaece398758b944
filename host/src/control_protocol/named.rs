//! The volumes that requests name. No command means a volume that is not named: hosts alone may leave the choice to us.

use super::{ControlRequest, HostAction};
use crate::error::{Result, fail};

/// Refuses a request that names a volume by nothing.
pub(crate) fn check_names(request: &ControlRequest) -> Result<()> {
    match volumes_of(request).contains(&"") {
        true => fail("give the name of the volume; `weft volume list` shows them"),
        false => Ok(()),
    }
}

/// The names of existing volumes and snapshots in a request.
fn volumes_of(request: &ControlRequest) -> Vec<&str> {
    match request {
        ControlRequest::VolumeSet { name, .. }
        | ControlRequest::VolumeShow { name }
        | ControlRequest::VolumeResize { name, .. }
        | ControlRequest::VolumeDelete { name, .. }
        | ControlRequest::VolumeUndelete { name }
        | ControlRequest::VolumeRename { name, .. }
        | ControlRequest::VolumeFlatten { name }
        | ControlRequest::VolumeImport { name, .. }
        | ControlRequest::VolumeImportedUpTo { name, .. }
        | ControlRequest::VolumeImported { name, .. }
        | ControlRequest::VolumeUsage { name }
        | ControlRequest::VolumeUnreserve { name } => vec![name],
        ControlRequest::Scrub { volume, .. }
        | ControlRequest::Refresh { volume, .. }
        | ControlRequest::Lost { volume, .. } => vec![volume],
        ControlRequest::VolumeSnapshot { volumes, .. } => {
            volumes.iter().map(String::as_str).collect()
        }
        ControlRequest::VolumeClone { snapshot, .. } => vec![snapshot],
        ControlRequest::VolumeRollback { name, snapshot } => vec![name, snapshot],
        ControlRequest::VolumeDiff { volume, since, until, .. } => {
            let snapshots = since.iter().chain(until).map(String::as_str);
            [volume.as_str()].into_iter().chain(snapshots).collect()
        }
        ControlRequest::VolumeCopy { source, destination, .. } => vec![source, destination],
        ControlRequest::HostDisconnect { volume, .. } => {
            volume.iter().map(String::as_str).collect()
        }
        ControlRequest::Hosts { action } => match action {
            HostAction::Allow { volume, .. } | HostAction::Deny { volume, .. } => vec![volume],
            HostAction::List
            | HostAction::Create { .. }
            | HostAction::Delete { .. }
            | HostAction::Sign { .. }
            | HostAction::Certify { .. }
            | HostAction::Seal { .. }
            | HostAction::Secret { .. } => Vec::new(),
        },
        // A new volume's name is checked where it is made.
        ControlRequest::VolumeCreate(_)
        | ControlRequest::Status
        | ControlRequest::Node { .. }
        | ControlRequest::Disk { .. }
        | ControlRequest::DiskAdd { .. }
        | ControlRequest::DiskAdmit { .. }
        | ControlRequest::DiskReplace { .. }
        | ControlRequest::Rebalance { .. }
        | ControlRequest::WhatIf { .. }
        | ControlRequest::ClusterSet { .. }
        | ControlRequest::ClusterShow
        | ControlRequest::NodeList
        | ControlRequest::NodeAdd { .. }
        | ControlRequest::NodeRemove { .. }
        | ControlRequest::Token { .. }
        | ControlRequest::VolumeList { .. }
        | ControlRequest::Native
        | ControlRequest::Reserve { .. }
        | ControlRequest::HostLeave { .. }
        | ControlRequest::WriterComes { .. }
        | ControlRequest::SecretKey { .. }
        | ControlRequest::Quiesce
        | ControlRequest::Shutdown => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_that_names_a_volume_is_refused_without_its_name() {
        let requests = [
            r#"{"cmd":"volume-set","name":"NAME","set":{}}"#,
            r#"{"cmd":"volume-show","name":"NAME"}"#,
            r#"{"cmd":"volume-resize","name":"NAME","size":1}"#,
            r#"{"cmd":"volume-delete","name":"NAME"}"#,
            r#"{"cmd":"volume-undelete","name":"NAME"}"#,
            r#"{"cmd":"volume-rename","name":"NAME","to":"b"}"#,
            r#"{"cmd":"volume-snapshot","volumes":["a","NAME"],"snapshot":"s"}"#,
            r#"{"cmd":"volume-clone","snapshot":"NAME","to":"b"}"#,
            r#"{"cmd":"volume-flatten","name":"NAME"}"#,
            r#"{"cmd":"volume-rollback","name":"NAME","snapshot":"s"}"#,
            r#"{"cmd":"volume-rollback","name":"a","snapshot":"NAME"}"#,
            r#"{"cmd":"volume-import","name":"NAME","base":"b",
                "import":{"snapshot":"s","taken":0,"source":"x"}}"#,
            r#"{"cmd":"volume-imported-up-to","name":"NAME","source":"x","done":0}"#,
            r#"{"cmd":"volume-imported","name":"NAME","source":"x"}"#,
            r#"{"cmd":"volume-usage","name":"NAME"}"#,
            r#"{"cmd":"volume-diff","volume":"NAME"}"#,
            r#"{"cmd":"volume-diff","volume":"a","since":"NAME"}"#,
            r#"{"cmd":"volume-diff","volume":"a","since":"s","until":"NAME"}"#,
            r#"{"cmd":"volume-copy","source":"NAME","destination":"b","offset":0,"length":1}"#,
            r#"{"cmd":"volume-copy","source":"a","destination":"NAME","offset":0,"length":1}"#,
            r#"{"cmd":"volume-unreserve","name":"NAME"}"#,
            r#"{"cmd":"scrub","volume":"NAME"}"#,
            r#"{"cmd":"refresh","volume":"NAME"}"#,
            r#"{"cmd":"lost","volume":"NAME","accept":true}"#,
            r#"{"cmd":"host-disconnect","volume":"NAME"}"#,
            r#"{"cmd":"hosts","action":{"allow":{"volume":"NAME"}}}"#,
            r#"{"cmd":"hosts","action":{"deny":{"volume":"NAME","host":"h"}}}"#,
        ];
        for request in requests {
            let named = |name: &str| -> ControlRequest {
                serde_json::from_str(&request.replace("NAME", name)).expect(request)
            };
            let refused = check_names(&named("")).expect_err(request);
            assert!(refused.0.starts_with("give the name of the volume"), "{request}: {refused}");
            check_names(&named("v")).expect(request);
        }
        check_names(&serde_json::from_str(r#"{"cmd":"host-disconnect"}"#).unwrap()).unwrap();
    }
}
