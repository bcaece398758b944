//! Lists, a page at a time.

use tonic::Status;
use weft_host::status::VolumeStatus;

use super::{snapshots, volumes};
use crate::cluster::{Cluster, published};
use crate::names;
use crate::proto::{
    ControllerGetVolumeResponse, ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest,
    ListVolumesResponse, controller_get_volume_response, list_snapshots_response,
    list_volumes_response,
};

/// What a token begins with; the name at which the page begins comes then.
const FROM: &str = "from:";

/// A page of what has names, in their order, and the token of the next one.
///
/// # Errors
/// `InvalidArgument` or `Aborted`, if the number or the token is invalid.
pub fn page(
    mut all: Vec<VolumeStatus>,
    most: i32,
    token: &str,
) -> Result<(Vec<VolumeStatus>, String), Status> {
    let most = usize::try_from(most)
        .map_err(|_| Status::invalid_argument("the number of entries is negative"))?;
    if !token.is_empty() {
        let from = token.strip_prefix(FROM).ok_or_else(|| {
            Status::aborted(format!("'{token}' is not a token of this driver; begin again"))
        })?;
        all.retain(|volume| volume.name.as_str() >= from);
    }
    let next = match all.get(most) {
        Some(next) if most > 0 => format!("{FROM}{}", next.name),
        _ => String::new(),
    };
    if most > 0 {
        all.truncate(most);
    }
    Ok((all, next))
}

/// A page of volumes.
///
/// # Errors
/// As [`page`], or if the cluster cannot be asked.
pub fn of_volumes(
    cluster: &Cluster,
    asked: &ListVolumesRequest,
) -> Result<ListVolumesResponse, Status> {
    let (volumes, next_token) = page(cluster.volumes()?, asked.max_entries, &asked.starting_token)?;
    let entry = |volume: &VolumeStatus| list_volumes_response::Entry {
        volume: Some(volumes::described(volume, None)),
        status: Some(list_volumes_response::VolumeStatus {
            published_node_ids: published(volume).into_keys().collect(),
        }),
    };
    Ok(ListVolumesResponse { entries: volumes.iter().map(entry).collect(), next_token })
}

/// One volume, and where it is published.
///
/// # Errors
/// If there is no such volume.
pub fn one_volume(cluster: &Cluster, name: &str) -> Result<ControllerGetVolumeResponse, Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("the volume's identifier is missing"));
    }
    let volume = cluster.require_volume(name)?;
    Ok(ControllerGetVolumeResponse {
        volume: Some(volumes::described(&volume, None)),
        status: Some(controller_get_volume_response::VolumeStatus {
            published_node_ids: published(&volume).into_keys().collect(),
        }),
    })
}

/// A page of snapshots: of all, of one volume, or the one that is named.
///
/// # Errors
/// As [`page`], or if the cluster cannot be asked.
pub fn of_snapshots(
    cluster: &Cluster,
    asked: &ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, Status> {
    let (of, named) = (&asked.source_volume_id, &asked.snapshot_id);
    let mut all = cluster.snapshots()?;
    all.retain(|snapshot| {
        let its_volume = names::parts(&snapshot.name).map(|(volume, _)| volume);
        snapshots::is_listed(snapshot)
            && (named.is_empty() || snapshot.name == *named)
            && (of.is_empty() || its_volume == Some(of))
    });
    let (all, next_token) = page(all, asked.max_entries, &asked.starting_token)?;
    let entry = |snapshot: &VolumeStatus| list_snapshots_response::Entry {
        snapshot: Some(snapshots::described(snapshot)),
    };
    Ok(ListSnapshotsResponse { entries: all.iter().map(entry).collect(), next_token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(names: &[&str]) -> Vec<VolumeStatus> {
        let named =
            |name: &&str| VolumeStatus { name: name.to_string(), ..VolumeStatus::default() };
        names.iter().map(named).collect()
    }

    #[test]
    fn pages_follow_one_another_though_entries_come_and_go() {
        let names = |page: &[VolumeStatus]| page.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
        let (first, token) = page(all(&["a", "b", "c"]), 2, "").unwrap();
        assert_eq!((names(&first), token.as_str()), (vec!["a".into(), "b".into()], "from:c"));
        let (rest, end) = page(all(&["a", "d"]), 2, &token).unwrap();
        assert_eq!((names(&rest), end.as_str()), (vec!["d".to_string()], ""));
        let (whole, end) = page(all(&["a", "b"]), 0, "").unwrap();
        assert_eq!((whole.len(), end.as_str()), (2, ""));
        assert_eq!(page(all(&[]), 0, "5").unwrap_err().code(), tonic::Code::Aborted);
        assert_eq!(page(all(&[]), -1, "").unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
