//! The operations on a machine.

use std::path::{Path, PathBuf};

use tonic::Status;

/// A mount at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Whether it is mounted read-only.
    pub reads_only: bool,
}

/// A machine: its block devices, file systems and mounts.
pub trait Machine: Send + Sync + 'static {
    /// The device of a volume, if it is attached.
    ///
    /// # Errors
    /// If that cannot be told.
    fn attached(&self, volume: &str) -> Result<Option<PathBuf>, Status>;

    /// Whether the device of a volume was attached by the right of this identifier, and was not abandoned. Of an unknown
    /// right it is believed.
    ///
    /// # Errors
    /// If that cannot be told.
    fn serves(&self, volume: &str, grant: Option<&str>) -> Result<bool, Status>;

    /// Attaches a volume that is not attached, by the right of this identifier.
    ///
    /// # Errors
    /// If it cannot be reached, or no device is free.
    fn attach(&self, volume: &str, grant: Option<&str>) -> Result<PathBuf, Status>;

    /// Has all requests to the device of a volume fail from now on, also those that wait. It may be in use, and stays until
    /// it is not.
    ///
    /// # Errors
    /// If it cannot.
    fn abandon(&self, volume: &str) -> Result<(), Status>;

    /// Detaches the device of a volume.
    ///
    /// # Errors
    /// If it is in use.
    fn detach(&self, volume: &str, device: &Path) -> Result<(), Status>;

    /// Has the device of a volume show that it has grown to this many bytes.
    ///
    /// # Errors
    /// If it cannot.
    fn set_size(&self, volume: &str, device: &Path, bytes: u64) -> Result<(), Status>;

    /// The bytes of a device.
    ///
    /// # Errors
    /// If it cannot be read.
    fn size(&self, device: &Path) -> Result<u64, Status>;

    /// How many volumes can be attached.
    fn most_volumes(&self) -> usize;

    /// The file system on a device, if there is anything on it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn file_system(&self, device: &Path) -> Result<Option<String>, Status>;

    /// Makes a file system.
    ///
    /// # Errors
    /// If it cannot.
    fn format(&self, device: &Path, file_system: &str) -> Result<(), Status>;

    /// Has a mounted file system take all of its device.
    ///
    /// # Errors
    /// If it cannot.
    fn grow(&self, device: &Path, mounted_at: &Path, file_system: &str) -> Result<(), Status>;

    /// A mount at a path.
    ///
    /// # Errors
    /// If that cannot be told.
    fn mounted(&self, at: &Path) -> Result<Option<Mount>, Status>;

    /// All paths at which the file system of a device is mounted, or the device itself is shown.
    ///
    /// # Errors
    /// If that cannot be told.
    fn shown_at(&self, device: &Path) -> Result<Vec<PathBuf>, Status>;

    /// Mounts a file system.
    ///
    /// # Errors
    /// If it cannot.
    fn mount(
        &self,
        device: &Path,
        at: &Path,
        file_system: &str,
        options: &[String],
    ) -> Result<(), Status>;

    /// Has a path show another one.
    ///
    /// # Errors
    /// If it cannot.
    fn bind(&self, from: &Path, at: &Path, reads_only: bool) -> Result<(), Status>;

    /// Unmounts the last mount at a path.
    ///
    /// # Errors
    /// If it is in use.
    fn unmount(&self, at: &Path) -> Result<(), Status>;
}
