//! Calls of the interface from the shell: what an orchestrator asks of the driver, one call at a time.
//!
//! `call SOCKET CALL ARGUMENTS`; without a call it lists them. Volumes are wanted for one node, as `ext4`, `xfs` or `block`.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::path::Path;

use tonic::transport::{Channel, Endpoint};
use weft_csi::proto::controller_client::ControllerClient;
use weft_csi::proto::node_client::NodeClient;
use weft_csi::proto::snapshot_metadata_client::SnapshotMetadataClient;
use weft_csi::proto::volume_capability::access_mode::Mode;
use weft_csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use weft_csi::proto::*;

const USAGE: &str = "call SOCKET create NAME BYTES KIND | delete VOLUME | publish VOLUME NODE KIND | unpublish VOLUME NODE
    | expand VOLUME BYTES | snapshot VOLUME NAME | delta BASE TARGET
    | stage VOLUME PATH KIND [RIGHT] | unstage VOLUME PATH | show VOLUME STAGED PATH KIND | hide VOLUME PATH
    | grow VOLUME PATH BYTES";

fn wanted(kind: &str) -> Option<VolumeCapability> {
    let access_type = match kind {
        "block" => AccessType::Block(BlockVolume {}),
        fs_type => AccessType::Mount(MountVolume {
            fs_type: fs_type.to_string(),
            ..MountVolume::default()
        }),
    };
    let access_mode = Some(AccessMode { mode: Mode::SingleNodeWriter.into() });
    Some(VolumeCapability { access_type: Some(access_type), access_mode })
}

fn bytes(word: &str) -> Result<Option<CapacityRange>, Box<dyn Error>> {
    Ok(Some(CapacityRange { required_bytes: word.parse()?, limit_bytes: 0 }))
}

async fn controller(channel: Channel, words: &[&str]) -> Result<bool, Box<dyn Error>> {
    let mut client = ControllerClient::new(channel.clone());
    match *words {
        ["create", name, size, kind] => {
            let asked = CreateVolumeRequest {
                name: name.to_string(),
                capacity_range: bytes(size)?,
                volume_capabilities: wanted(kind).into_iter().collect(),
                ..CreateVolumeRequest::default()
            };
            let made = client.create_volume(asked).await?.into_inner().volume;
            println!("{}", made.unwrap_or_default().volume_id);
        }
        ["delete", volume] => {
            let (volume_id, secrets) = (volume.to_string(), HashMap::new());
            client.delete_volume(DeleteVolumeRequest { volume_id, secrets }).await?;
        }
        ["publish", volume, node, kind] => {
            let asked = ControllerPublishVolumeRequest {
                volume_id: volume.to_string(),
                node_id: node.to_string(),
                volume_capability: wanted(kind),
                ..ControllerPublishVolumeRequest::default()
            };
            let answer = client.controller_publish_volume(asked).await?.into_inner();
            println!("{}", answer.publish_context.into_values().next().unwrap_or_default());
        }
        ["unpublish", volume, node] => {
            let asked = ControllerUnpublishVolumeRequest {
                volume_id: volume.to_string(),
                node_id: node.to_string(),
                ..ControllerUnpublishVolumeRequest::default()
            };
            client.controller_unpublish_volume(asked).await?;
        }
        ["expand", volume, size] => {
            let asked = ControllerExpandVolumeRequest {
                volume_id: volume.to_string(),
                capacity_range: bytes(size)?,
                ..ControllerExpandVolumeRequest::default()
            };
            client.controller_expand_volume(asked).await?;
        }
        ["snapshot", volume, name] => {
            let asked = CreateSnapshotRequest {
                source_volume_id: volume.to_string(),
                name: name.to_string(),
                ..CreateSnapshotRequest::default()
            };
            let taken = client.create_snapshot(asked).await?.into_inner().snapshot;
            println!("{}", taken.unwrap_or_default().snapshot_id);
        }
        ["delta", base, target] => delta(channel, base, target).await?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Prints the ranges that may differ: offset and length.
async fn delta(channel: Channel, base: &str, target: &str) -> Result<(), Box<dyn Error>> {
    let asked = GetMetadataDeltaRequest {
        base_snapshot_id: base.to_string(),
        target_snapshot_id: target.to_string(),
        ..GetMetadataDeltaRequest::default()
    };
    let mut client = SnapshotMetadataClient::new(channel);
    let mut stream = client.get_metadata_delta(asked).await?.into_inner();
    while let Some(message) = stream.message().await? {
        for range in message.block_metadata {
            println!("{} {}", range.byte_offset, range.size_bytes);
        }
    }
    Ok(())
}

async fn node(channel: Channel, words: &[&str]) -> Result<bool, Box<dyn Error>> {
    let mut client = NodeClient::new(channel);
    let (volume_id, path) = match *words {
        [_, volume, path, ..] => (volume.to_string(), path.to_string()),
        _ => return Ok(false),
    };
    match *words {
        ["stage", _, _, kind, ref right @ ..] => {
            let grant = right.iter().map(|grant| ("grant".to_string(), grant.to_string()));
            let asked = NodeStageVolumeRequest {
                volume_id,
                staging_target_path: path,
                volume_capability: wanted(kind),
                publish_context: grant.collect(),
                ..NodeStageVolumeRequest::default()
            };
            client.node_stage_volume(asked).await?;
        }
        ["unstage", _, _] => {
            let asked = NodeUnstageVolumeRequest { volume_id, staging_target_path: path };
            client.node_unstage_volume(asked).await?;
        }
        ["show", _, _, at, kind] => {
            let asked = NodePublishVolumeRequest {
                volume_id,
                staging_target_path: path,
                target_path: at.to_string(),
                volume_capability: wanted(kind),
                ..NodePublishVolumeRequest::default()
            };
            client.node_publish_volume(asked).await?;
        }
        ["hide", _, _] => {
            let asked = NodeUnpublishVolumeRequest { volume_id, target_path: path };
            client.node_unpublish_volume(asked).await?;
        }
        ["grow", _, _, size] => {
            let asked = NodeExpandVolumeRequest {
                volume_id,
                volume_path: path,
                capacity_range: bytes(size)?,
                ..NodeExpandVolumeRequest::default()
            };
            client.node_expand_volume(asked).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn call(socket: &str, words: &[&str]) -> Result<(), Box<dyn Error>> {
    let path = Path::new(socket).canonicalize()?;
    let channel = Endpoint::from_shared(format!("unix://{}", path.display()))?.connect().await?;
    match controller(channel.clone(), words).await? || node(channel, words).await? {
        true => Ok(()),
        false => Err(USAGE.into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((socket, words)) => call(socket, words).await,
        None => Err(USAGE.into()),
    }
}
