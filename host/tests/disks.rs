//! What may be where a disk should be.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest, Handle, Listen, Log, Spec};

fn start(dir: &Path) -> Handle {
    let spec =
        Spec { disk_size: Some(16 << 20), volumes: vec![("a".into(), 8 << 20)], ..Spec::default() };
    let listens = [Listen::unix(dir.join("nbd.sock"))];
    Array::start(dir, &spec, &listens, Log::silent()).unwrap().spawn().unwrap()
}

/// The nodes, when none is opening its disk any more.
fn once_opened(dir: &Path) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let status = Control::connect(dir).unwrap().request(&ControlRequest::Status).unwrap();
        let nodes = status["nodes"].as_array().unwrap().clone();
        let is_settled = |node: &Value| node["state"] == "up" || node["state"] == "down";
        if nodes.iter().all(is_settled) {
            return nodes;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "a node does not come up: {nodes:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A FIFO, a directory, a link to another node's disk and a link that leads nowhere are each one disk that is missing.
#[test]
fn what_is_no_disk_is_one_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk-0.img");
    let open =
        || Client::connect(UnixStream::connect(dir.path().join("nbd.sock")).unwrap(), "a").unwrap();
    let array = start(dir.path());
    open().write_at(0, &[7; 1 << 20], true).unwrap();
    array.shutdown().unwrap();
    fs::rename(&path, dir.path().join("kept")).unwrap();

    type Make = fn(&Path);
    let fifo: Make = |path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let link: Make = |path| symlink(path.with_file_name("disk-1.img"), path).unwrap();
    let cases: [(Make, &str); 4] = [
        (fifo, "disk-0.img is a FIFO, neither a file nor a block device"),
        (|path| fs::create_dir(path).unwrap(), "disk-0.img is a directory, neither"),
        (link, "disk-0.img is, or links to, the disk of node 1; replace it by the disk of node 0"),
        (|path| symlink("nowhere", path).unwrap(), "No such file"),
    ];
    for (make, why) in cases {
        make(&path);
        let array = start(dir.path());
        let nodes = once_opened(array.dir());
        assert!(nodes[0]["why"].as_str().unwrap().contains(why), "{}", nodes[0]);
        assert!(nodes[1..].iter().all(|node| node["state"] == "up"), "{why}: {nodes:?}");
        assert_eq!(open().read_at(0, 1 << 20).unwrap(), vec![7; 1 << 20]);
        array.shutdown().unwrap();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
    }
    fs::rename(dir.path().join("kept"), &path).unwrap();
    let array = start(dir.path());
    let status = Control::connect(array.dir()).unwrap().request(&ControlRequest::Status).unwrap();
    assert_ne!(status["nodes"][0]["state"], "down");
    array.shutdown().unwrap();
}
