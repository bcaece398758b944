//! How a process works its disks, as its operator chooses. Nothing on the disks depends on it.

use crate::disk::queue::DiskQueue;
use crate::error::Result;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskOptions {
    /// How their queues are served.
    pub queue: DiskQueue,
    /// Whether their files are allocated whole.
    pub preallocate: bool,
}

impl DiskOptions {
    /// Reads the keys of a file.
    ///
    /// # Errors
    /// As [`DiskQueue::new`].
    pub(crate) fn read(
        queue: &Option<String>,
        queue_depth: Option<u32>,
        preallocate: Option<bool>,
    ) -> Result<DiskOptions> {
        let queue = DiskQueue::new(queue.as_deref(), queue_depth)?;
        Ok(DiskOptions { queue, preallocate: preallocate.unwrap_or_default() })
    }
}
