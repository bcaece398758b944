//! What can be asked about hosts that the cluster knows.

use serde::{Deserialize, Serialize};

/// What can be asked about known hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum HostAction {
    /// All of them, and what they may use.
    List,
    /// Make a host.
    Create {
        /// Its name.
        name: String,
    },
    /// Forget a host: its connections end.
    Delete {
        /// Its name.
        name: String,
    },
    /// Make a certificate for a host; nothing changes yet. The process that is asked must have the authority's key.
    Sign {
        /// The host's name.
        name: String,
        /// The public half of its key.
        key: Vec<u8>,
    },
    /// Know a host by one more certificate.
    Certify {
        /// The host's name.
        name: String,
        /// The digest of the certificate's key, in hexadecimal.
        key: String,
        /// Until when it is good, in seconds since 1970.
        until: u64,
        /// Know it by no other from then on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        revoke_others: bool,
    },
    /// Seal CHAP secrets for a host; nothing changes yet.
    Seal {
        /// The host's name.
        name: String,
        /// By this the host proves who it is.
        secret: String,
        /// By this the target does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mutual: Option<String>,
    },
    /// Know a host by a sealed CHAP secret, and by no other; or by none.
    Secret {
        /// The host's name.
        name: String,
        /// The secret, if it is to have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Sealed>,
    },
    /// Put a host on the list of a volume.
    Allow {
        /// The volume's name.
        volume: String,
        /// The host's; if open the volume has no list any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// It may only read.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        read_only: bool,
    },
    /// Take a host off the list of a volume.
    Deny {
        /// The volume's name.
        volume: String,
        /// The host's.
        host: String,
    },
}

/// A CHAP secret that is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// The number of the key.
    pub key: u64,
    /// There is a second one, by which the target proves itself.
    pub mutual: bool,
    /// The sealed bytes, in hexadecimal.
    pub bytes: String,
}

impl HostAction {
    /// Whether the process that is asked answers by itself.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, HostAction::List | HostAction::Sign { .. } | HostAction::Seal { .. })
    }
}
