//! Whose a host's number is.

use serde::{Deserialize, Serialize};
use weft_core::units::VolumeId;

/// The host that uses a number, by the name that it has proved, and its volume. Numbers are no secret, so a number alone
/// gives nobody a right to what its host has in work.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Holder {
    /// The host's name; none of one that has proved none.
    pub name: Option<String>,
    /// The volume's number.
    pub volume: u32,
}

impl Holder {
    /// One that has proved this name, and uses a volume.
    pub(crate) fn new(name: Option<&str>, volume: VolumeId) -> Holder {
        Holder { name: name.map(str::to_string), volume: volume.0 }
    }
}
