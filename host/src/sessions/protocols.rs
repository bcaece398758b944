//! The protocols that hosts can speak, for flags and their help.

use super::FRONT_ENDS;

/// A protocol that hosts can speak, for flags and their help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProtocol {
    /// What configurations have its addresses under, and flags are called.
    pub key: &'static str,
    /// What its hosts are called.
    pub spoken_by: &'static str,
    /// The name of its socket in a directory where nothing else is said, if it is spoken there then.
    pub socket: Option<&'static str>,
    /// The form of its addresses.
    pub form: &'static str,
}

impl HostProtocol {
    /// All of them.
    pub fn all() -> impl Iterator<Item = HostProtocol> {
        FRONT_ENDS.iter().map(|f| HostProtocol {
            key: f.key,
            spoken_by: f.spoken_by,
            socket: f.socket,
            form: if f.names_volume { "PATH.sock[=VOLUME]" } else { "PATH.sock|HOST:PORT" },
        })
    }
}
