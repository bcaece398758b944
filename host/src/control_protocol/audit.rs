//! Requests that change the cluster, for the audit log.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ControlRequest, HostAction, RebalanceAction};

/// What a question asks to change.
pub(crate) struct ChangeAsked {
    /// In words for the log.
    pub(crate) words: String,
    /// Whether a host asks for it, which may do so as often as it likes.
    pub(crate) is_by_host: bool,
}

/// What a question asks to change; nothing if it changes nothing.
pub(crate) fn change_asked(question: &[u8]) -> Option<ChangeAsked> {
    let question: Value = serde_json::from_slice(question).ok()?;
    let request = ControlRequest::deserialize(&question).ok()?;
    if !is_change(&request) {
        return None;
    }
    let is_by_host = matches!(request, ControlRequest::Reserve { .. });
    let Value::Object(mut question) = question else { return None };
    let command = question.remove("cmd")?.as_str()?.to_string();
    // The bytes of keys say nothing to people.
    question.retain(|_, value| !value.is_array() || value[0].is_string());
    if let Some(secret) = question.get_mut("action").and_then(|action| action.get_mut("secret")) {
        let verb = if secret["sealed"].is_null() { "removed" } else { "set" };
        *secret = json!({ "name": secret["name"], "secret": verb });
    }
    let words = format!("{command} {}", Value::Object(question));
    Some(ChangeAsked { words, is_by_host })
}

/// Whether a request changes the map, starts or ends something, or decides about content.
fn is_change(request: &ControlRequest) -> bool {
    match request {
        ControlRequest::Node { .. }
        | ControlRequest::Disk { .. }
        | ControlRequest::DiskAdd { .. }
        | ControlRequest::DiskAdmit { .. }
        | ControlRequest::DiskReplace { .. }
        | ControlRequest::ClusterSet { .. }
        | ControlRequest::NodeAdd { .. }
        | ControlRequest::NodeRemove { .. }
        | ControlRequest::Token { .. }
        | ControlRequest::VolumeCreate(_)
        | ControlRequest::VolumeSet { .. }
        | ControlRequest::VolumeResize { .. }
        | ControlRequest::VolumeDelete { .. }
        | ControlRequest::VolumeUndelete { .. }
        | ControlRequest::VolumeRename { .. }
        | ControlRequest::VolumeSnapshot { .. }
        | ControlRequest::VolumeClone { .. }
        | ControlRequest::VolumeFlatten { .. }
        | ControlRequest::VolumeRollback { .. }
        | ControlRequest::VolumeImport { .. }
        | ControlRequest::VolumeImported { .. }
        | ControlRequest::VolumeUnreserve { .. }
        | ControlRequest::Reserve { .. }
        | ControlRequest::HostDisconnect { .. }
        | ControlRequest::Shutdown => true,
        ControlRequest::Lost { accept, .. } => *accept,
        ControlRequest::Scrub { trust, suspect, .. } => trust.is_some() || suspect.is_some(),
        ControlRequest::Rebalance { action } => *action != RebalanceAction::Plan,
        ControlRequest::Hosts { action } => !matches!(
            action,
            HostAction::List | HostAction::Sign { .. } | HostAction::Seal { .. }
        ),
        ControlRequest::Status
        | ControlRequest::WhatIf { .. }
        | ControlRequest::ClusterShow
        | ControlRequest::NodeList
        | ControlRequest::VolumeList { .. }
        | ControlRequest::VolumeShow { .. }
        | ControlRequest::VolumeUsage { .. }
        | ControlRequest::VolumeDiff { .. }
        // Those that are asked again for each piece of one command.
        | ControlRequest::VolumeImportedUpTo { .. }
        | ControlRequest::VolumeCopy { .. }
        | ControlRequest::Refresh { .. }
        | ControlRequest::Native
        // Between processes.
        | ControlRequest::HostLeave { .. }
        | ControlRequest::WriterComes { .. }
        | ControlRequest::SecretKey { .. }
        | ControlRequest::Quiesce => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_protocol::{NodeAction, Sealed};

    #[test]
    fn requests_that_change_something_are_in_the_log() {
        let words = |request: &ControlRequest| {
            Some(change_asked(&serde_json::to_vec(request).unwrap())?.words)
        };
        let name = || "web".to_string();
        let hosts = |action| ControlRequest::Hosts { action };
        let create = words(&hosts(HostAction::Create { name: name() })).unwrap();
        assert_eq!(create, r#"hosts {"action":{"create":{"name":"web"}}}"#);
        assert_eq!(
            words(&ControlRequest::volume_delete("v")).unwrap(),
            r#"volume-delete {"name":"v"}"#
        );
        let kill = ControlRequest::Node { action: NodeAction::Kill, node: 2 };
        assert_eq!(words(&kill).unwrap(), r#"node {"action":"kill","node":2}"#);
        let (volumes, snapshot) = (vec![name()], "a".to_string());
        let snapshot = ControlRequest::VolumeSnapshot { volumes, snapshot };
        assert_eq!(
            words(&snapshot).unwrap(),
            r#"volume-snapshot {"snapshot":"a","volumes":["web"]}"#
        );
        assert_eq!(words(&ControlRequest::Lost { volume: name(), accept: false }), None);
        assert!(words(&ControlRequest::Lost { volume: name(), accept: true }).is_some());
        assert_eq!(words(&ControlRequest::Rebalance { action: RebalanceAction::Plan }), None);
        assert_eq!(words(&ControlRequest::Status), None);
        assert_eq!(words(&hosts(HostAction::List)), None);
        assert_eq!(words(&hosts(HostAction::Sign { name: name(), key: vec![4] })), None);
        let (secret, mutual) = ("twelve bytes".to_string(), None);
        assert_eq!(words(&hosts(HostAction::Seal { name: name(), secret, mutual })), None);
        let sealed = Sealed { key: 1, mutual: false, bytes: "00ff".into() };
        for (sealed, verb) in [(Some(sealed), "set"), (None, "removed")] {
            let said = words(&hosts(HostAction::Secret { name: name(), sealed })).unwrap();
            let expected =
                format!(r#"hosts {{"action":{{"secret":{{"name":"web","secret":"{verb}"}}}}}}"#);
            assert_eq!(said, expected);
        }
        assert!(change_asked(b"nonsense").is_none());
    }
}
