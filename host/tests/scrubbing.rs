//! Scrubs of a whole array, over its sockets.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest, Handle, Listen, Spec};

const SECTOR: usize = 4096;

fn start(dir: &Path) -> Handle {
    let volumes = vec![("a".into(), 4 << 20)];
    let spec = Spec { disk_size: Some(32 << 20), volumes, ..Spec::default() };
    let listen = Listen::unix(dir.join("nbd.sock"));
    Array::start(dir, &spec, &[listen], weft_host::Log::silent()).unwrap().spawn().unwrap()
}

fn open(dir: &Path) -> Client<UnixStream> {
    Client::connect(UnixStream::connect(dir.join("nbd.sock")).unwrap(), "a").unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn scrub(array: &Handle, volume: &str) -> Value {
    let mut control = Control::connect(array.dir()).unwrap();
    control.request(&ControlRequest::Quiesce).unwrap();
    control.request(&ControlRequest::scrub(volume)).unwrap()
}

/// Changes a sector wherever disks have it.
fn rot(dir: &Path, sector: &[u8]) {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut rotten = 0;
    for file in files.filter(|path| path.extension().is_some_and(|of| of == "img")) {
        let mut content = fs::read(&file).unwrap();
        for at in content.chunks_exact_mut(SECTOR).filter(|at| **at == *sector) {
            at[7] ^= 1;
            rotten += 1;
        }
        fs::write(&file, content).unwrap();
    }
    assert!(rotten > 0, "it is on no disk");
}

/// Otherwise damage of old content is not known until another disk is lost.
#[test]
fn a_scrub_verifies_what_a_volume_shows_of_its_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let array = start(dir);
    let data = pattern(1 << 20);
    let mut client = open(dir);
    client.write_at(0, &data, false).unwrap();
    client.flush().unwrap();
    let mut control = Control::connect(dir).unwrap();
    let (volumes, snapshot) = (vec!["a".to_string()], "s".to_string());
    control.request(&ControlRequest::VolumeSnapshot { volumes, snapshot }).unwrap();
    client.write_at(2 << 20, &[1; 65536], false).unwrap();
    drop((client, control));
    array.shutdown().unwrap();
    rot(dir, &data[..SECTOR]);
    let array = start(dir);
    let found = scrub(&array, "a");
    let below = &found["below"][0];
    assert_eq!((&found["rebuilt"], &below["volume"]), (&0.into(), &"a@s".into()), "{found}");
    assert!(below["rebuilt"].as_u64().unwrap() > 0, "{found}");
    let read = |found: &Value| found["read_bytes"].as_u64().unwrap();
    assert!(read(&found) > 0 && read(below) < 5 << 20, "most was never written: {found}");
    assert_eq!(scrub(&array, "a")["below"][0]["rebuilt"], 0, "it is repaired");
    assert_eq!(open(dir).read_at(0, data.len() as u32).unwrap(), data);
    array.shutdown().unwrap();
}
