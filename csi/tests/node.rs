//! A machine that uses volumes: stopped at each step, and asked again.

mod common;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use common::machine::Remembering;
use common::{Running, block, mount};
use tonic::{Code, Status};
use weft_csi::node::machine::Machine;
use weft_csi::node::{nbd, publishing, staging, usage};
use weft_csi::proto::volume_capability::access_mode::Mode;
use weft_csi::proto::{
    CapacityRange, NodeExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    VolumeCapability,
};

struct Paths {
    dir: tempfile::TempDir,
    machine: Remembering,
    /// What the controller has told of the right to the volume.
    context: HashMap<String, String>,
}

impl Paths {
    fn new() -> Paths {
        let dir = tempfile::tempdir().unwrap();
        Paths { machine: Remembering::new(dir.path()), dir, context: HashMap::new() }
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_string()
    }

    fn stage(&self, capability: &VolumeCapability) -> Result<(), Status> {
        let asked = NodeStageVolumeRequest {
            volume_id: "v".into(),
            staging_target_path: self.at("staged"),
            volume_capability: Some(capability.clone()),
            publish_context: self.context.clone(),
            ..NodeStageVolumeRequest::default()
        };
        staging::stage(&self.machine, &asked)
    }

    fn publish(
        &self,
        capability: &VolumeCapability,
        to: &str,
        readonly: bool,
    ) -> Result<(), Status> {
        let asked = NodePublishVolumeRequest {
            volume_id: "v".into(),
            staging_target_path: self.at("staged"),
            target_path: self.at(to),
            volume_capability: Some(capability.clone()),
            readonly,
            publish_context: self.context.clone(),
            ..NodePublishVolumeRequest::default()
        };
        publishing::publish(&self.machine, &asked)
    }

    fn expand(&self, bytes: i64) -> Result<u64, Status> {
        let asked = NodeExpandVolumeRequest {
            volume_id: "v".into(),
            volume_path: self.at("shown"),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            ..NodeExpandVolumeRequest::default()
        };
        staging::expand(&self.machine, &asked)
    }

    fn unpublish(&self, from: &str) -> Result<(), Status> {
        publishing::unpublish(&self.machine, "v", &self.at(from))
    }

    fn unstage(&self) -> Result<(), Status> {
        staging::unstage(&self.machine, "v", &self.at("staged"))
    }

    /// All that is done with a volume on a machine.
    fn life(&self, capability: &VolumeCapability) -> Result<(), Status> {
        self.stage(capability)?;
        self.publish(capability, "shown", false)?;
        self.expand(8192)?;
        self.unpublish("shown")?;
        self.unstage()
    }
}

#[test]
fn a_driver_that_is_stopped_at_any_step_is_asked_again_and_leaves_nothing() {
    for capability in [mount("ext4"), mount(""), block(Mode::SingleNodeWriter)] {
        for when_done in [false, true] {
            for step in 0.. {
                let paths = Paths::new();
                paths.machine.break_at(step, when_done);
                let first = paths.life(&capability);
                if !paths.machine.mend() {
                    first.unwrap();
                    assert!(step > 3, "each life has steps");
                    break;
                }
                first.unwrap_err();
                paths.life(&capability).unwrap();
                assert!(paths.machine.is_clean() && !paths.dir.path().join("shown").exists());
                let is_mount = capability != block(Mode::SingleNodeWriter);
                assert_eq!(paths.machine.formatted(), usize::from(is_mount), "step {step}");
            }
        }
    }
}

#[test]
fn what_is_there_is_neither_overwritten_nor_taken_for_something_else() {
    let paths = Paths::new();
    paths.stage(&mount("ext4")).unwrap();
    paths.stage(&mount("ext4")).unwrap();
    assert_eq!(paths.stage(&mount("xfs")).unwrap_err().code(), Code::FailedPrecondition);
    paths.publish(&mount("ext4"), "shown", true).unwrap();
    paths.publish(&mount("ext4"), "shown", true).unwrap();
    let otherwise = paths.publish(&mount("ext4"), "shown", false).unwrap_err();
    assert_eq!(otherwise.code(), Code::AlreadyExists);
    assert!(paths.dir.path().join("shown").is_dir());
    paths.unpublish("shown").unwrap();
    paths.unpublish("shown").unwrap();
    paths.unstage().unwrap();
    paths.unstage().unwrap();
    // The file system stays on the volume.
    paths.stage(&mount("")).unwrap();
    assert_eq!(paths.machine.formatted(), 1);
}

#[test]
fn what_is_missing_is_said() {
    let paths = Paths::new();
    let capability = block(Mode::SingleNodeWriter);
    let early = paths.publish(&capability, "shown", false).unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);
    assert_eq!(paths.expand(4096).unwrap_err().code(), Code::NotFound);
    let gone = usage::of(&paths.machine, "v", &paths.at("shown")).unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    let mut reader = mount("ext4");
    reader.access_mode = block(Mode::SingleNodeReaderOnly).access_mode;
    let empty = paths.stage(&reader).unwrap_err();
    assert!(empty.message().contains("empty"), "{empty}");
    assert_eq!(paths.machine.formatted(), 0);
}

#[test]
fn a_single_writer_is_published_once_and_a_block_volume_as_a_file() {
    let paths = Paths::new();
    let single = block(Mode::SingleNodeSingleWriter);
    paths.stage(&single).unwrap();
    paths.publish(&single, "shown", false).unwrap();
    let second = paths.publish(&single, "other", false).unwrap_err();
    assert_eq!(second.code(), Code::FailedPrecondition);
    assert!(paths.dir.path().join("shown").is_file());
    assert_eq!(paths.expand(1 << 20).unwrap(), 1 << 20);
    let usage = usage::of(&paths.machine, "v", &paths.at("shown")).unwrap();
    assert_eq!(usage[0].total, 1 << 20);
    let shared = block(Mode::MultiNodeMultiWriter);
    paths.publish(&shared, "other", false).unwrap();
}

#[test]
fn a_volume_is_found_by_nbd_and_what_is_not_served_is_refused() {
    let running = Running::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let addresses = ["127.0.0.1:1".to_string(), running.nbd()];
    let link = runtime.block_on(nbd::connect(&addresses, None, "theirs"));
    assert_eq!(link.map(|link| link.size).ok(), Some(1 << 20));
    let refused = runtime.block_on(nbd::connect(&addresses, None, "nothing"));
    let refused = refused.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("does not serve"), "{refused}");
}

fn right(identifier: &str) -> HashMap<String, String> {
    [("grant".to_string(), identifier.to_string())].into()
}

#[test]
fn the_device_of_an_earlier_right_is_abandoned_before_anything_of_it_is_written() {
    let mut paths = Paths::new();
    let capability = mount("ext4");
    paths.context = right("1");
    paths.stage(&capability).unwrap();
    paths.publish(&capability, "shown", false).unwrap();
    paths.stage(&capability).unwrap();
    assert!(paths.machine.serves("v", Some("1")).unwrap(), "it is used on by the same right");
    paths.context = right("2");
    let early = paths.publish(&capability, "other", false).unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);
    // A program still uses the old one.
    paths.machine.use_path(Some(paths.dir.path().join("shown")));
    let used = paths.stage(&capability).unwrap_err();
    assert!(used.code() == Code::FailedPrecondition && used.message().contains("shown"), "{used}");
    assert!(!paths.machine.serves("v", Some("1")).unwrap(), "it is abandoned");
    paths.machine.use_path(None);
    paths.stage(&capability).unwrap();
    assert!(paths.machine.serves("v", Some("2")).unwrap());
    assert_eq!(paths.machine.written(), 0);
    paths.publish(&capability, "shown", false).unwrap();
    // A controller that was restarted knows no right.
    paths.context = HashMap::new();
    paths.stage(&capability).unwrap();
    paths.unpublish("shown").unwrap();
    paths.unstage().unwrap();
    assert!(paths.machine.is_clean());
}

#[test]
fn a_driver_that_is_stopped_while_it_leaves_an_earlier_right_is_asked_again() {
    for when_done in [false, true] {
        for step in 0.. {
            let mut paths = Paths::new();
            let capability = mount("ext4");
            paths.context = right("1");
            paths.stage(&capability).unwrap();
            paths.publish(&capability, "shown", false).unwrap();
            paths.context = right("2");
            paths.machine.break_at(step, when_done);
            let first = paths.stage(&capability);
            let broke = paths.machine.mend();
            assert_eq!(first.is_err(), broke);
            paths.stage(&capability).unwrap();
            assert!(paths.machine.serves("v", Some("2")).unwrap());
            assert_eq!(paths.machine.written(), 0, "step {step}");
            if !broke {
                assert!(step > 4);
                break;
            }
        }
    }
}

/// The codes of NBD for a host without a right, and for an export that is not there.
const NO_RIGHT: u32 = (1 << 31) + 2;
const UNKNOWN: u32 = (1 << 31) + 6;

/// The address of a process that refuses each volume with this code.
fn refusing(code: u32) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"NBDMAGICIHAVEOPT\0\x01").unwrap();
            // The client's flags, and the header of its option.
            let mut begin = [0; 20];
            stream.read_exact(&mut begin).unwrap();
            let length = u32::from_be_bytes(begin[16..].try_into().unwrap());
            stream.read_exact(&mut vec![0; length as usize]).unwrap();
            let words = [7, code, 0].map(u32::to_be_bytes).concat();
            let reply = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &words].concat();
            stream.write_all(&reply).unwrap();
        }
    });
    address
}

#[test]
fn a_device_is_given_up_when_all_processes_refuse_or_some_do_for_long() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let failed = |addresses: &[&String]| {
        let addresses: Vec<String> = addresses.iter().map(|one| one.to_string()).collect();
        runtime.block_on(nbd::connect(&addresses, None, "v")).err().unwrap()
    };
    let [old, other, unknown] = [NO_RIGHT, NO_RIGHT, UNKNOWN].map(refusing);
    let gone = "127.0.0.1:1".to_string();
    let now = Instant::now();
    assert!(nbd::Refusals::default().are_final(&failed(&[&old, &other]), now));
    for others in [&gone, &unknown] {
        for mixed in [failed(&[&old, others]), failed(&[others, &old])] {
            assert!(mixed.to_string().contains("does not allow"), "{mixed}");
            let mut refusals = nbd::Refusals::default();
            assert!(!refusals.are_final(&mixed, now), "one process may have an old map");
            assert!(!refusals.are_final(&mixed, now + Duration::from_secs(29)));
            assert!(refusals.are_final(&mixed, now + Duration::from_secs(30)));
        }
    }
    // Only refusals without a pause count.
    let mut refusals = nbd::Refusals::default();
    let mixed = failed(&[&gone, &old]);
    assert!(!refusals.are_final(&mixed, now));
    assert!(!refusals.are_final(&failed(&[&gone]), now + Duration::from_secs(20)));
    assert!(!refusals.are_final(&mixed, now + Duration::from_secs(40)));
    assert!(refusals.are_final(&mixed, now + Duration::from_secs(70)));
}
