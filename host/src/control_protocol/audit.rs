//! Requests that change the map, for the audit log.

use serde_json::{Value, json};

/// What a question asks to change of the map, in words for the log; nothing if it changes nothing.
pub(crate) fn change_in_words(question: &[u8]) -> Option<String> {
    const CHANGES: [&str; 21] = [
        "node-add",
        "node-remove",
        "disk",
        "disk-add",
        "disk-admit",
        "disk-replace",
        "cluster-set",
        "rebalance",
        "volume-create",
        "volume-set",
        "volume-resize",
        "volume-delete",
        "volume-undelete",
        "volume-rename",
        "volume-snapshot",
        "volume-clone",
        "volume-rollback",
        "volume-import",
        "volume-imported",
        "volume-unreserve",
        "reserve",
    ];
    let Value::Object(mut question) = serde_json::from_slice(question).ok()? else { return None };
    let command = question.remove("cmd")?.as_str()?.to_string();
    let action = question.get("action").cloned().unwrap_or_default();
    let hosts = command == "hosts" && action != "list" && !asks_only(&action);
    let planned = command == "rebalance" && action == "plan";
    if (!CHANGES.contains(&command.as_str()) && !hosts) || planned {
        return None;
    }
    // The bytes of keys say nothing to people.
    question.retain(|_, value| !value.is_array());
    if let Some(secret) = question.get_mut("action").and_then(|action| action.get_mut("secret")) {
        let verb = if secret["sealed"].is_null() { "removed" } else { "set" };
        *secret = json!({ "name": secret["name"], "secret": verb });
    }
    Some(format!("{command} {}", Value::Object(question)))
}

/// Whether an action about hosts changes nothing.
fn asks_only(action: &Value) -> bool {
    action.get("sign").is_some() || action.get("seal").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_protocol::{ControlRequest, HostAction, Sealed};

    #[test]
    fn requests_that_change_the_map_are_in_the_log() {
        let words =
            |request: &ControlRequest| change_in_words(&serde_json::to_vec(request).unwrap());
        let name = || "web".to_string();
        let hosts = |action| ControlRequest::Hosts { action };
        let create = words(&hosts(HostAction::Create { name: name() })).unwrap();
        assert_eq!(create, r#"hosts {"action":{"create":{"name":"web"}}}"#);
        assert_eq!(
            words(&ControlRequest::volume_delete("v")).unwrap(),
            r#"volume-delete {"name":"v"}"#
        );
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
        assert_eq!(change_in_words(b"nonsense"), None);
    }
}
