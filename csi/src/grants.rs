//! Identifiers of the rights that nodes get. A node that loses its right to a volume and gets another later may not notice:
//! its link may be cut meanwhile. Its old device still holds reads and writes from before another node wrote.
//! So each right has an identifier. The node gets it with the publication, and it is a part of the device's name.
//!
//! The cluster map does not have it. A controller remembers the rights that it has given until it is restarted. Of earlier
//! ones it tells none, and the node keeps the device that it has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use tonic::Status;

use crate::names::hex;

/// The key of the identifier in the context of a publication.
const KEY: &str = "grant";

/// Bytes of an identifier.
const LENGTH: usize = 8;

/// The identifiers of rights, by volume and node.
#[derive(Debug, Default)]
pub struct Grants(Mutex<BTreeMap<(String, String), String>>);

impl Grants {
    /// A new right is going to be given.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn begin(&self, volume: &str, node: &str) -> Result<(), Status> {
        let mut bytes = [0; LENGTH];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| Status::internal("the system has no random numbers"))?;
        self.change(|all| all.insert(key(volume, node), hex(&bytes)));
        Ok(())
    }

    /// A right has ended.
    pub fn end(&self, volume: &str, node: &str) {
        self.change(|all| all.remove(&key(volume, node)));
    }

    /// The context of a publication.
    pub fn context(&self, volume: &str, node: &str) -> HashMap<String, String> {
        let grant = self.change(|all| all.get(&key(volume, node)).cloned());
        grant.map(|grant| (KEY.to_string(), grant)).into_iter().collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<(String, String), String>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn key(volume: &str, node: &str) -> (String, String) {
    (volume.to_string(), node.to_string())
}

/// The identifier in the context of a publication.
///
/// # Errors
/// `InvalidArgument`, for one that no controller gives.
pub fn read(context: &HashMap<String, String>) -> Result<Option<&str>, Status> {
    let grant = context.get(KEY).map(String::as_str);
    match grant {
        Some(text) if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            Err(Status::invalid_argument(format!("'{text}' is not the identifier of a right")))
        }
        grant => Ok(grant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_has_its_own_identifier() {
        let grants = Grants::default();
        assert!(grants.context("v", "a").is_empty(), "of a right from before nothing is known");
        grants.begin("v", "a").unwrap();
        let first = grants.context("v", "a");
        assert!(read(&first).unwrap().is_some());
        assert_eq!(grants.context("v", "a"), first, "it is the same when asked again");
        grants.begin("v", "b").unwrap();
        assert_ne!(grants.context("v", "b"), first);
        grants.end("v", "a");
        assert!(grants.context("v", "a").is_empty());
        grants.begin("v", "a").unwrap();
        assert_ne!(grants.context("v", "a"), first);
        assert!(read(&HashMap::from([(KEY.to_string(), "a#b".to_string())])).is_err());
    }
}
