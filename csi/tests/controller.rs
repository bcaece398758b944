//! The controller against a real array: stopped at each step, and asked again.

mod common;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Running, SIZE, block, from_snapshot, from_volume, mount, new_volume};
use serde_json::Value;
use tonic::{Code, Status};
use weft_csi::cluster::{Ask, Cluster, KEEPER, Socket};
use weft_csi::controller::{capacity, groups, pages, publishing, snapshots, volumes};
use weft_csi::proto::volume_capability::access_mode::Mode;
use weft_csi::proto::*;
use weft_host::{ControlRequest, HostAction};

/// A control socket that fails at one of the changes, before it is made or when it is.
struct Breaking {
    socket: Socket,
    changes: Arc<AtomicUsize>,
    at: usize,
    when_done: bool,
}

impl Ask for Breaking {
    fn ask(&self, request: &ControlRequest) -> Result<Value, Status> {
        let changes = !matches!(
            request,
            ControlRequest::VolumeList { .. } | ControlRequest::Hosts { action: HostAction::List }
        );
        if !changes || self.changes.fetch_add(1, Ordering::Relaxed) != self.at {
            return self.socket.ask(request);
        }
        if self.when_done {
            self.socket.ask(request)?;
        }
        Err(Status::unavailable("the driver was stopped"))
    }
}

/// A driver that is stopped once; an orchestrator asks again.
struct Stopped {
    breaking: Cluster,
    intact: Cluster,
}

impl Stopped {
    fn ask<T>(&self, what: impl Fn(&Cluster) -> Result<T, Status>) -> T {
        match what(&self.breaking) {
            Err(stopped) if stopped.code() == Code::Unavailable => what(&self.intact).unwrap(),
            answered => answered.unwrap(),
        }
    }

    fn refused<T>(&self, what: impl Fn(&Cluster) -> Result<T, Status>) -> Code {
        what(&self.intact).err().map_or(Code::Ok, |refused| refused.code())
    }
}

/// Does something with the driver stopped at one change after the other. Nothing must be left of it.
fn stopped_everywhere(dir: PathBuf, intact: &Cluster, act: impl Fn(&Stopped, &str)) {
    for when_done in [false, true] {
        for at in 0.. {
            let changes = Arc::new(AtomicUsize::new(0));
            let socket = Socket(dir.clone());
            let breaking = Breaking { socket, changes: changes.clone(), at, when_done };
            let stopped = Stopped { breaking: Cluster::new(breaking), intact: intact.clone() };
            act(&stopped, &format!("v{at}{when_done}"));
            let left = intact.volumes().unwrap();
            let left: Vec<&str> = left.iter().map(|volume| volume.name.as_str()).collect();
            assert_eq!(left, ["theirs"], "stopped at change {at}");
            assert!(intact.snapshots().unwrap().is_empty(), "stopped at change {at}");
            if changes.load(Ordering::Relaxed) <= at {
                assert!(at > 3, "there are changes");
                break;
            }
        }
    }
}

#[test]
fn volumes_that_are_made_grown_published_and_deleted_leave_nothing() {
    let running = Running::start();
    stopped_everywhere(running.path().into(), &running.cluster(), |driver, name| {
        let made = driver.ask(|cluster| volumes::create(cluster, &new_volume(name, SIZE)));
        assert_eq!(driver.ask(|cluster| volumes::create(cluster, &new_volume(name, SIZE))), made);
        let id = &made.volume_id;
        driver.ask(|cluster| publish(cluster, id, "one"));
        assert_eq!(driver.ask(|cluster| expand(cluster, id, 2 * SIZE)), 2 * SIZE);
        driver.ask(|cluster| publishing::unpublish(cluster, id, "one"));
        driver.ask(|cluster| volumes::delete(cluster, id));
        driver.ask(|cluster| volumes::delete(cluster, id));
    });
}

#[test]
fn copies_outlive_what_they_were_made_from() {
    let running = Running::start();
    stopped_everywhere(running.path().into(), &running.cluster(), |driver, name| {
        let new =
            |asked: &CreateVolumeRequest| driver.ask(|cluster| volumes::create(cluster, asked));
        let delete = |id: &str| driver.ask(|cluster| volumes::delete(cluster, id));
        let origin = new(&new_volume(name, SIZE)).volume_id;
        let snapshot = driver.ask(|cluster| snapshot(cluster, &origin, name)).snapshot_id;
        let mut of_snapshot = new_volume(&format!("{name}-restored"), 2 * SIZE);
        of_snapshot.volume_content_source = from_snapshot(&snapshot);
        let restored = new(&of_snapshot);
        assert_eq!(restored.capacity_bytes, 2 * SIZE);
        assert_eq!(new(&of_snapshot), restored);
        let mut of_volume = new_volume(&format!("{name}-copy"), SIZE);
        of_volume.volume_content_source = from_volume(&origin);
        let copy = new(&of_volume).volume_id;
        // The first goes before its copies.
        driver.ask(|cluster| snapshots::delete(cluster, &snapshot));
        delete(&origin);
        delete(&copy);
        delete(&restored.volume_id);
    });
}

#[test]
fn groups_are_taken_and_deleted_as_a_whole() {
    let running = Running::start();
    stopped_everywhere(running.path().into(), &running.cluster(), |driver, name| {
        let new = |part: &str| new_volume(&format!("{name}{part}"), SIZE);
        let ids = ["a", "b"]
            .map(|part| driver.ask(|cluster| volumes::create(cluster, &new(part))).volume_id);
        let asked = CreateVolumeGroupSnapshotRequest {
            name: name.to_string(),
            source_volume_ids: ids.to_vec(),
            ..CreateVolumeGroupSnapshotRequest::default()
        };
        let group = driver.ask(|cluster| groups::create(cluster, &asked));
        assert_eq!(driver.ask(|cluster| groups::create(cluster, &asked)), group);
        assert_eq!(group.snapshots.len(), 2);
        let id = &group.group_snapshot_id;
        let one = &group.snapshots[0].snapshot_id;
        assert_eq!(
            driver.refused(|cluster| snapshots::delete(cluster, one)),
            Code::InvalidArgument
        );
        let other = CreateVolumeGroupSnapshotRequest {
            source_volume_ids: vec![ids[0].clone()],
            ..asked.clone()
        };
        assert_eq!(driver.refused(|cluster| groups::create(cluster, &other)), Code::AlreadyExists);
        assert_eq!(driver.ask(|cluster| groups::get(cluster, id, &[])), group);
        driver.ask(|cluster| groups::delete(cluster, id, &[]));
        driver.ask(|cluster| groups::delete(cluster, id, &[]));
        assert_eq!(driver.refused(|cluster| groups::get(cluster, id, &[])), Code::NotFound);
        ids.iter().for_each(|id| driver.ask(|cluster| volumes::delete(cluster, id)));
    });
}

#[test]
fn a_node_loses_its_right_before_another_gets_it() {
    let running = Running::start();
    let cluster = running.cluster();
    let id = volumes::create(&cluster, &new_volume("v", SIZE)).unwrap().volume_id;
    let hosts = || cluster.volume(&id).unwrap().unwrap().hosts.unwrap_or_default();
    assert_eq!(hosts().into_keys().collect::<Vec<_>>(), [KEEPER], "nobody may use it yet");
    let first = publish(&cluster, &id, "one").unwrap();
    assert!(!first.is_empty());
    assert_eq!(publish(&cluster, &id, "one").unwrap(), first, "it is the same right");
    let second = publish(&cluster, &id, "two").unwrap_err();
    assert_eq!(second.code(), Code::FailedPrecondition);
    assert!(second.message().contains("'one'"), "{second}");
    assert_eq!(publish(&cluster, &id, "three").unwrap_err().code(), Code::NotFound);
    assert_eq!(volumes::delete(&cluster, &id).unwrap_err().code(), Code::FailedPrecondition);
    publishing::unpublish(&cluster, &id, "").unwrap();
    publish(&cluster, &id, "two").unwrap();
    assert!(hosts().contains_key("two") && !hosts().contains_key("one"));
    let listed = pages::of_volumes(&cluster, &ListVolumesRequest::default()).unwrap();
    let published: Vec<_> = listed.entries.iter().map(|e| e.status.clone().unwrap()).collect();
    assert_eq!(published[0].published_node_ids, ["two"]);
    publishing::unpublish(&cluster, &id, "two").unwrap();
    assert_ne!(publish(&cluster, &id, "one").unwrap(), first, "it is another right");
    let restarted = running.cluster();
    assert!(publish(&restarted, &id, "one").unwrap().is_empty(), "it is not known which");
}

#[test]
fn block_volumes_are_shared_by_writers() {
    let running = Running::start();
    let cluster = running.cluster();
    let mut asked = new_volume("v", SIZE);
    asked.volume_capabilities = vec![block(Mode::MultiNodeMultiWriter)];
    let id = volumes::create(&cluster, &asked).unwrap().volume_id;
    for node in ["one", "two"] {
        let asked = ControllerPublishVolumeRequest {
            volume_id: id.clone(),
            node_id: node.to_string(),
            volume_capability: Some(block(Mode::MultiNodeMultiWriter)),
            ..ControllerPublishVolumeRequest::default()
        };
        publishing::publish(&cluster, &asked).unwrap();
    }
    let mut file_system = mount("ext4");
    file_system.access_mode = block(Mode::MultiNodeMultiWriter).access_mode;
    asked.volume_capabilities = vec![file_system];
    let refused = volumes::create(&cluster, &asked).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[test]
fn what_does_not_fit_or_is_another_is_refused_as_such() {
    let running = Running::start();
    let cluster = running.cluster();
    let code = |asked: &CreateVolumeRequest| volumes::create(&cluster, asked).unwrap_err().code();
    assert_eq!(code(&new_volume("large", 1 << 40)), Code::ResourceExhausted);
    let id = volumes::create(&cluster, &new_volume("v", SIZE)).unwrap().volume_id;
    assert_eq!(code(&new_volume("v", 2 * SIZE)), Code::AlreadyExists);
    let mut copy = new_volume("v", SIZE);
    copy.volume_content_source = from_volume("theirs");
    assert_eq!(code(&copy), Code::AlreadyExists);
    copy.volume_content_source = from_volume("nothing");
    assert_eq!(code(&copy), Code::NotFound);
    let mut other = new_volume("w", SIZE);
    other.volume_content_source = from_volume(&id);
    other.parameters = [("layout".to_string(), "raid1".to_string())].into();
    assert_eq!(code(&other), Code::InvalidArgument);
    other.parameters = [("lay-out".to_string(), "raid1".to_string())].into();
    assert_eq!(code(&other), Code::InvalidArgument);
    let class = [("layout".to_string(), "raid1".to_string())].into();
    let free = capacity::available(&cluster, &class).unwrap();
    assert!(free > 0 && free < 3 * (64 << 20), "{free}");
    let first = snapshot(&cluster, &id, "s").unwrap();
    assert_eq!(snapshot(&cluster, &id, "s").unwrap(), first);
    assert!(first.creation_time.is_some_and(|time| time.seconds > 1_600_000_000));
    let theirs = snapshot(&cluster, "theirs", "s").unwrap_err();
    assert_eq!(theirs.code(), Code::AlreadyExists);
    assert_eq!(volumes::delete(&cluster, &id).unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn a_volume_is_deleted_with_its_scheduled_snapshots_and_not_with_others() {
    let running = Running::start();
    let cluster = running.cluster();
    let mut asked = new_volume("v", SIZE);
    asked.parameters = [("snapshots".to_string(), "hourly:2".to_string())].into();
    let id = volumes::create(&cluster, &asked).unwrap().volume_id;
    let end = Instant::now() + Duration::from_secs(60);
    while cluster.snapshots().unwrap().is_empty() {
        assert!(Instant::now() < end, "no scheduled snapshot is taken");
        thread::sleep(Duration::from_millis(20));
    }
    let other = snapshot(&cluster, &id, "s").unwrap().snapshot_id;
    let refused = volumes::delete(&cluster, &id).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains(&other), "{refused}");
    assert_eq!(cluster.require_volume(&id).unwrap().schedule.len(), 1, "the schedule goes on");
    snapshots::delete(&cluster, &other).unwrap();
    volumes::delete(&cluster, &id).unwrap();
    assert!(!cluster.has(&id).unwrap() && cluster.snapshots().unwrap().is_empty());
}

#[test]
fn a_process_that_is_not_there_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(Socket(dir.path().to_path_buf()));
    assert_eq!(volumes::delete(&cluster, "v").unwrap_err().code(), Code::Unavailable);
}

fn publish(cluster: &Cluster, volume: &str, node: &str) -> Result<HashMap<String, String>, Status> {
    let asked = ControllerPublishVolumeRequest {
        volume_id: volume.to_string(),
        node_id: node.to_string(),
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..ControllerPublishVolumeRequest::default()
    };
    publishing::publish(cluster, &asked)
}

fn snapshot(cluster: &Cluster, volume: &str, name: &str) -> Result<Snapshot, Status> {
    let asked = CreateSnapshotRequest {
        source_volume_id: volume.to_string(),
        name: name.to_string(),
        ..CreateSnapshotRequest::default()
    };
    snapshots::create(cluster, &asked)
}

fn expand(cluster: &Cluster, volume: &str, size: i64) -> Result<i64, Status> {
    let asked = ControllerExpandVolumeRequest {
        volume_id: volume.to_string(),
        capacity_range: Some(CapacityRange { required_bytes: size, limit_bytes: 0 }),
        ..ControllerExpandVolumeRequest::default()
    };
    volumes::expand(cluster, &asked).map(|done| done.capacity_bytes)
}
