//! Volumes that begin with the content of a snapshot, or of another volume.
//!
//! A copy of a volume is a clone of a snapshot that is taken for it. Clones share content with what they were cloned
//! from until that is deleted: then they copy what they share, in the background, and the orchestrator asks again.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use tonic::Status;
use weft_core::policy::Every;
use weft_host::ControlRequest;
use weft_host::status::{VolumeMode, VolumeStatus};

use crate::cluster::Cluster;
use crate::names::{self, Use};
use crate::parameters::Parameters;
use crate::proto::VolumeContentSource;
use crate::proto::volume_content_source::Type;

/// How long a deletion waits for clones to become independent, before the orchestrator is told to ask again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// What a new volume's content comes from.
#[derive(Debug)]
pub struct Origin {
    /// The volume or snapshot that is copied.
    pub volume: VolumeStatus,
    /// The snapshot to clone. For a copy of a volume it may not be there yet.
    pub snapshot: String,
    /// The part behind the `@` of a snapshot that is taken for the clone alone.
    taken: Option<String>,
}

impl Origin {
    /// Finds the source of the volume `copy`.
    ///
    /// # Errors
    /// `NotFound`, if it is not there.
    pub fn find(
        cluster: &Cluster,
        source: &VolumeContentSource,
        copy: &str,
    ) -> Result<Origin, Status> {
        match &source.r#type {
            None => Err(Status::invalid_argument("the content source is missing")),
            Some(Type::Snapshot(of)) => {
                let volume = cluster.require_snapshot(&of.snapshot_id)?;
                Ok(Origin { volume, snapshot: of.snapshot_id.clone(), taken: None })
            }
            Some(Type::Volume(of)) => {
                let volume = cluster.require_volume(&of.volume_id)?;
                let taken = Use::Clone.name(copy);
                let snapshot = names::snapshot(&volume.name, &taken);
                Ok(Origin { volume, snapshot, taken: Some(taken) })
            }
        }
    }
}

/// Makes a clone.
///
/// # Errors
/// If the source is kept in another way than is asked, or cannot be cloned.
pub fn make(
    cluster: &Cluster,
    origin: &Origin,
    kind: &Parameters,
    name: &str,
) -> Result<VolumeStatus, Status> {
    check_kind(&origin.volume, kind)?;
    if let Some(taken) = &origin.taken
        && cluster.snapshot(&origin.snapshot)?.is_none()
    {
        let (volumes, snapshot) = (vec![origin.volume.name.clone()], taken.clone());
        let request = ControlRequest::VolumeSnapshot { volumes, snapshot };
        cluster.change(&request, |cluster| cluster.has(&origin.snapshot))?;
    }
    let (snapshot, to) = (origin.snapshot.clone(), name.to_string());
    cluster.change(&ControlRequest::VolumeClone { snapshot, to }, |cluster| cluster.has(name))?;
    cluster.require_volume(name)
}

/// Refuses what a clone has from its source, if it is asked otherwise.
fn check_kind(source: &VolumeStatus, kind: &Parameters) -> Result<(), Status> {
    let differs = |key: &str, asked: Option<String>, has: &str| match asked {
        Some(asked) if asked != has => Err(Status::invalid_argument(format!(
            "a copy has the {key} of its source, {has}, and {asked} was requested; use a class with the same value"
        ))),
        _ => Ok(()),
    };
    differs("layout", kind.layout.map(|layout| layout.to_string()), &source.layout)?;
    let (asked, has) = (kind.stripe_unit.map(|unit| unit.to_string()), source.stripe_unit);
    differs("stripe-unit", asked, &has.to_string())?;
    differs("apart", kind.apart.clone(), &source.apart)
}

/// Deletes the snapshots of a volume that nobody asked for: those that were taken for its clones, and those of its
/// schedule, which ends.
///
/// # Errors
/// If it has others, or a clone is not independent yet.
pub fn release_all(cluster: &Cluster, volume: &VolumeStatus) -> Result<(), Status> {
    let name = &volume.name;
    let is_released = |part: &str| Use::Clone.is_of(part) || is_scheduled(part);
    if let Some(other) = parts_of(cluster, name)?.iter().find(|part| !is_released(part)) {
        return Err(Status::failed_precondition(format!(
            "volume '{name}' has the snapshot '{}'; delete it first",
            names::snapshot(name, other)
        )));
    }
    end_schedule(cluster, volume)?;
    // The schedule may just have taken another.
    let parts = parts_of(cluster, name)?;
    parts.iter().try_for_each(|part| release(cluster, &names::snapshot(name, part)))
}

/// The names of a volume's snapshots, behind the `@`.
fn parts_of(cluster: &Cluster, volume: &str) -> Result<Vec<String>, Status> {
    let snapshots = cluster.snapshots()?;
    let parts = snapshots.iter().filter_map(|snapshot| names::parts(&snapshot.name));
    Ok(parts.filter(|(of, _)| *of == volume).map(|(_, part)| part.to_string()).collect())
}

/// Whether a snapshot has the name of a scheduled one: `daily-2026-11-28`, say. The status does not tell them apart
/// otherwise.
fn is_scheduled(part: &str) -> bool {
    let form = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "0");
    Every::ALL.into_iter().any(|every| form(&every.name(0)) == form(part))
}

/// Has a volume take no more scheduled snapshots.
fn end_schedule(cluster: &Cluster, volume: &VolumeStatus) -> Result<(), Status> {
    if volume.schedule.is_empty() {
        return Ok(());
    }
    let name = volume.name.clone();
    let set = [("snapshots".to_string(), "none".to_string())].into();
    let request = ControlRequest::VolumeSet { name, set, force: false, range: None };
    cluster.change(&request, |cluster| {
        Ok(cluster.volume(&volume.name)?.is_none_or(|volume| volume.schedule.is_empty()))
    })
}

/// Deletes a snapshot, once its clones are independent of it.
///
/// # Errors
/// `Aborted`, if they are not yet: that goes on meanwhile.
pub fn release(cluster: &Cluster, snapshot: &str) -> Result<(), Status> {
    let end = Instant::now() + PATIENCE;
    loop {
        let clones = clones_of(cluster, snapshot)?;
        if clones.is_empty() {
            break;
        }
        if let Some(deleted) = clones.iter().find(|clone| clone.mode == VolumeMode::Deleted) {
            let name = &deleted.name;
            return Err(Status::failed_precondition(format!(
                "snapshot '{snapshot}' has the clone '{name}', which was deleted and can be \
                 restored for a day; `weft volume delete {name} --now` deletes it permanently"
            )));
        }
        for clone in clones.iter().filter(|clone| clone.flattening.is_none()) {
            cluster.ask(&ControlRequest::VolumeFlatten { name: clone.name.clone() })?;
        }
        if Instant::now() >= end {
            let names: Vec<&str> = clones.iter().map(|clone| clone.name.as_str()).collect();
            return Err(Status::aborted(format!(
                "snapshot '{snapshot}' has clones that are being made independent of it: {}; try again later",
                names.join(", ")
            )));
        }
        thread::sleep(PAUSE);
    }
    cluster.change(&ControlRequest::volume_delete(snapshot), |cluster| Ok(!cluster.has(snapshot)?))
}

/// The volumes that show content of a snapshot, by themselves or through snapshots of theirs; also those that can be brought
/// back.
fn clones_of(cluster: &Cluster, snapshot: &str) -> Result<Vec<VolumeStatus>, Status> {
    let own = names::parts(snapshot).map(|(volume, _)| volume);
    let mut volumes = cluster.all_volumes()?;
    let snapshots = cluster.snapshots()?;
    let above = volumes.iter().chain(&snapshots).filter(|v| v.below.as_deref() == Some(snapshot));
    let origin = |volume: &VolumeStatus| match names::parts(&volume.name) {
        Some((origin, _)) => origin.to_string(),
        None => volume.name.clone(),
    };
    let clones: BTreeSet<String> =
        above.map(origin).filter(|name| Some(name.as_str()) != own).collect();
    volumes.retain(|volume| clones.contains(&volume.name));
    Ok(volumes)
}

/// Whether a volume still shows content of another one.
pub fn is_clone(volume: &VolumeStatus) -> bool {
    let below = volume.below.as_deref().and_then(names::parts);
    below.is_some_and(|(origin, _)| origin != volume.name)
}

/// Deletes the snapshot that was taken for a volume that is gone.
///
/// # Errors
/// If the cluster cannot be asked.
pub fn forget(cluster: &Cluster, volume: &str) -> Result<(), Status> {
    let taken = Use::Clone.name(volume);
    let snapshots = cluster.snapshots()?;
    let its = |s: &&VolumeStatus| names::parts(&s.name).is_some_and(|(_, part)| part == taken);
    snapshots.iter().filter(its).try_for_each(|snapshot| release(cluster, &snapshot.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduled_snapshots_are_known_by_their_names() {
        for name in
            ["hourly-2026-11-28T12", "daily-2026-11-28", "weekly-2026-11-23", "monthly-2026-11"]
        {
            assert!(is_scheduled(name), "{name}");
        }
        for name in [
            "daily",
            "daily-2026",
            "daily-2026-11-28T12",
            "csi-daily-2026-11-28",
            "nightly-2026-11",
        ] {
            assert!(!is_scheduled(name), "{name}");
        }
    }
}
