//! The result of `weft volume refresh` in words.

use weft_terminal::bytes;

/// The result, with the sectors of parity that could not be computed.
pub(super) fn refreshed(name: &str, left: u64) -> String {
    match left {
        0 => format!("volume {name}: no parity is deferred"),
        left => format!(
            "volume {name}: {} of parity could not be computed, because disks are missing or content is lost; see `weft status`",
            bytes(left * weft_core::SECTOR)
        ),
    }
}
