//! One operation at a time for each volume.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::{Response, Status};

/// The names of volumes that are worked on.
#[derive(Clone, Debug, Default)]
pub struct Busy(Arc<Mutex<BTreeSet<String>>>);

/// Holds a name until it is dropped.
#[derive(Debug)]
pub struct Held {
    of: Busy,
    name: String,
}

impl Busy {
    /// Takes a name.
    ///
    /// # Errors
    /// `Aborted`, while somebody else has it.
    pub fn hold(&self, name: &str) -> Result<Held, Status> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match names.insert(name.to_string()) {
            true => Ok(Held { of: self.clone(), name: name.to_string() }),
            false => Err(Status::aborted(format!(
                "an operation on '{name}' is in progress; try again when it is done"
            ))),
        }
    }

    /// Does work that blocks, on a thread of its own, while the name is held.
    ///
    /// # Errors
    /// `Aborted`, while somebody else has the name, or what the work fails with.
    pub async fn run<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let held = self.hold(name)?;
        apart(move || {
            let _held = held;
            work()
        })
        .await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut names = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.name);
    }
}

/// Does work that blocks, on a thread of its own. It goes on if the asker leaves.
///
/// # Errors
/// What the work fails with.
pub async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<Response<T>, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(Status::internal(e.to_string()))).map(Response::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_once_at_a_time() {
        let busy = Busy::default();
        let held = busy.hold("a").unwrap();
        assert_eq!(busy.hold("a").unwrap_err().code(), tonic::Code::Aborted);
        let other = busy.hold("b").unwrap();
        drop(held);
        assert!(busy.hold("a").is_ok());
        drop(other);
    }
}
