//! `weft up` that fails leaves nothing that the next start would stumble over.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn up(dir: &Path, with: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(["up", "--processes", "--disk-size", "16M", "--dir"]).arg(dir).args(with);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("array");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // One is found while the nodes are given their configurations, the other when one of them starts.
    for with in [["--handshake-timeout", "0s"], ["--listen", &address]] {
        let failed = up(&dir, &with);
        let said = String::from_utf8_lossy(&failed.stderr);
        assert!(!failed.status.success() && said.contains(with[1]), "{said}");
        assert!(!dir.exists(), "{with:?} left {}", dir.display());
    }
}

#[test]
fn bad_doors_are_refused_before_anything_is_made() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("array");
    let socket = place.path().join("nbd.sock");
    let socket = socket.to_str().unwrap();
    let twice = ["--listen", socket, "--listen", socket];
    let group = ["--listen", socket, "--socket-group", "no-such-group"];
    for (with, why) in [(twice, "is given twice"), (group, "no-such-group")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(["up", "--disk-size", "16M", "--dir"]).arg(&dir).args(with);
        let failed = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&failed.stderr);
        assert!(!failed.status.success() && said.contains(why), "{said}");
        assert!(!dir.exists(), "{with:?} left {}", dir.display());
    }
}

#[test]
fn what_was_there_before_stays() {
    let place = tempfile::tempdir().unwrap();
    let others = place.path().join("node-3");
    std::fs::create_dir(&others).unwrap();
    std::fs::write(others.join("precious"), "mine").unwrap();
    let failed = up(place.path(), &[]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && said.contains("node-3 already exists"), "{said}");
    assert_eq!(std::fs::read_to_string(others.join("precious")).unwrap(), "mine");
    assert!(!place.path().join("node-0").exists());
}

#[test]
fn a_node_without_its_configuration_is_named() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("node-0")).unwrap();
    let failed = up(place.path(), &[]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && said.contains("node-0/node.toml is missing"), "{said}");
    assert!(place.path().join("node-0").exists());
}
