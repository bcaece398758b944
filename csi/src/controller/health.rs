//! How volumes are, as the cluster knows it.

use tonic::Status;
use weft_host::status::{VolumeMode, VolumeStatus};

use super::pages::page;
use crate::cluster::Cluster;
use crate::proto::volume_health::VolumeHealthEntry;
use crate::proto::{
    ControllerListVolumeHealthRequest, ControllerListVolumeHealthResponse, VolumeHealth,
    VolumeHealthErrorType,
};

/// How one volume is.
///
/// # Errors
/// If there is no such volume.
pub fn of(cluster: &Cluster, name: &str) -> Result<VolumeHealth, Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    let there = cluster.last_known_volumes()?.into_iter().find(|volume| volume.name == name);
    let none = || Status::not_found(format!("there is no volume '{name}'"));
    Ok(described(&there.ok_or_else(none)?))
}

/// How the volumes of a page are.
///
/// # Errors
/// If the token is invalid, or the cluster cannot be asked.
pub fn list(
    cluster: &Cluster,
    asked: &ControllerListVolumeHealthRequest,
) -> Result<ControllerListVolumeHealthResponse, Status> {
    let (volumes, next_token) =
        page(cluster.last_known_volumes()?, asked.max_entries, &asked.starting_token)?;
    Ok(ControllerListVolumeHealthResponse {
        entries: volumes.iter().map(described).collect(),
        next_token,
    })
}

/// The troubles of a volume.
pub fn described(volume: &VolumeStatus) -> VolumeHealth {
    let entry = |status: VolumeHealthErrorType, reason: &str, message: String| VolumeHealthEntry {
        status: status.into(),
        reason: reason.to_string(),
        message,
    };
    let mut health_statuses = Vec::new();
    match volume.mode {
        VolumeMode::Failed => {
            let missing: Vec<String> =
                volume.missing.iter().map(|missing| missing.node.to_string()).collect();
            health_statuses.push(entry(
                VolumeHealthErrorType::Inaccessible,
                "NodesMissing",
                format!("more nodes are down than the layout tolerates: {}", missing.join(", ")),
            ));
        }
        VolumeMode::NotServed => health_statuses.push(entry(
            VolumeHealthErrorType::Inaccessible,
            "CutOff",
            "the driver's process is not connected to a majority".to_string(),
        )),
        VolumeMode::Degraded | VolumeMode::Reconstructing => health_statuses.push(entry(
            VolumeHealthErrorType::Degraded,
            "Degraded",
            format!("{} of {} extents have a missing column", lacking(volume), volume.extents),
        )),
        _ => {}
    }
    if !volume.forgot.is_empty() {
        let nodes: Vec<String> = volume.forgot.iter().map(u16::to_string).collect();
        health_statuses.push(entry(
            VolumeHealthErrorType::DataLoss,
            "WritesForgotten",
            format!("disks have lost acknowledged writes, of nodes {}", nodes.join(", ")),
        ));
    }
    VolumeHealth { volume_id: volume.name.clone(), health_statuses }
}

fn lacking(volume: &VolumeStatus) -> usize {
    volume.extents_degraded.max(volume.extents_reconstructing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_is_told_as_what_it_means_for_the_volume() {
        let said = |mode, forgot: &[u16]| {
            let volume = VolumeStatus { mode, forgot: forgot.to_vec(), ..VolumeStatus::default() };
            let entries = described(&volume).health_statuses;
            entries.iter().map(|entry| entry.status()).collect::<Vec<_>>()
        };
        use VolumeHealthErrorType::{DataLoss, Degraded, Inaccessible};
        assert!(said(VolumeMode::FaultFree, &[]).is_empty());
        assert!(said(VolumeMode::Migrating, &[]).is_empty());
        assert_eq!(said(VolumeMode::Degraded, &[]), [Degraded]);
        assert_eq!(said(VolumeMode::Reconstructing, &[2]), [Degraded, DataLoss]);
        assert_eq!(said(VolumeMode::Failed, &[]), [Inaccessible]);
        assert_eq!(said(VolumeMode::NotServed, &[]), [Inaccessible]);
    }
}
