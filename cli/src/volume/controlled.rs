//! What is chosen for a controller.

use weft_host::status::VolumeStatus;

/// What is chosen for a controller that no data passes, if there is one.
pub(super) fn in_words(volume: &VolumeStatus) -> String {
    match volume.choice("roles") {
        "controller" => {
            let [commands, inline] = ["commands", "inline"].map(|key| volume.choice(key));
            format!(", commands: {commands}, inline: {inline}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_controller_goes_by_is_shown_where_there_is_one() {
        let volume = |roles: &str| VolumeStatus {
            policy: [("roles", roles), ("commands", "block"), ("inline", "0")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
            ..VolumeStatus::default()
        };
        assert_eq!(in_words(&volume("controller")), ", commands: block, inline: 0");
        assert_eq!(in_words(&volume("node")), "");
    }
}
