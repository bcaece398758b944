//! What the tests have in common: an array in this process, and requests to the driver.

#![allow(dead_code, reason = "each test uses some of it")]

use std::path::Path;

use tempfile::TempDir;
use weft_csi::cluster::{Cluster, Socket};
use weft_csi::proto::volume_capability::access_mode::Mode;
use weft_csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use weft_csi::proto::{
    CapacityRange, CreateVolumeRequest, VolumeCapability, VolumeContentSource,
    volume_content_source,
};
use weft_host::{Array, ControlRequest, Handle, HostAction, Listen, Log, Spec};

pub mod machine;

/// A size that volumes have in tests.
pub const SIZE: i64 = 1 << 20;

/// An array of three nodes, which knows the hosts `one` and `two`.
pub struct Running {
    pub dir: TempDir,
    pub array: Handle,
}

impl Running {
    pub fn start() -> Running {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec {
            disk_size: Some(64 << 20),
            volumes: vec![("theirs".into(), 1 << 20)],
            ..Spec::default()
        };
        let listens = [Listen::tcp("127.0.0.1:0")];
        let array = Array::start(dir.path(), &spec, &listens, Log::silent()).unwrap();
        let running = Running { array: array.spawn().unwrap(), dir };
        for name in ["one", "two"] {
            let action = HostAction::Create { name: name.to_string() };
            running.cluster().ask(&ControlRequest::Hosts { action }).unwrap();
        }
        running
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn cluster(&self) -> Cluster {
        Cluster::new(Socket(self.path().to_path_buf()))
    }

    /// Where NBD is served.
    pub fn nbd(&self) -> String {
        let uri = &self.array.listens()[0];
        uri.trim_start_matches("nbd://").trim_end_matches('/').to_string()
    }
}

pub fn block(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

pub fn mount(fs_type: &str) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: fs_type.to_string(),
            ..MountVolume::default()
        })),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
    }
}

pub fn new_volume(name: &str, size: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_string(),
        capacity_range: Some(CapacityRange { required_bytes: size, limit_bytes: 0 }),
        volume_capabilities: vec![block(Mode::SingleNodeWriter)],
        ..CreateVolumeRequest::default()
    }
}

pub fn from_volume(id: &str) -> Option<VolumeContentSource> {
    let volume_id = id.to_string();
    let source = volume_content_source::VolumeSource { volume_id };
    Some(VolumeContentSource { r#type: Some(volume_content_source::Type::Volume(source)) })
}

pub fn from_snapshot(id: &str) -> Option<VolumeContentSource> {
    let snapshot_id = id.to_string();
    let source = volume_content_source::SnapshotSource { snapshot_id };
    Some(VolumeContentSource { r#type: Some(volume_content_source::Type::Snapshot(source)) })
}
