//! What exports and imports go by.

use serde::{Deserialize, Serialize};

/// What exports and imports of a volume or snapshot go by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransferStatus {
    /// What identifies the content of the snapshot in all clusters: it stays when that is imported elsewhere; only if it is
    /// a snapshot, or is being imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The volume for which it is being imported; only while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imports_to: Option<String>,
    /// The identity of the snapshot that the import is based on; only while it is imported, and if it has a base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The offset up to which its content is durable: an interrupted import continues there; only while it is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// When the source of the newest imported snapshot of the volume was taken, in seconds since 1970; only if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_until: Option<u64>,
}
