//! `csi-sanity` against the whole driver, with a machine that only remembers. `tests/csi.sh` runs it
//! with a real one, where the kernel has NBD.

mod common;

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use common::Running;
use common::machine::Remembering;
use tokio::runtime::Runtime;
use weft_csi::busy::Busy;
use weft_csi::proto::node_server::NodeServer;
use weft_csi::{server, service};

/// The suite, if it is installed.
fn suite() -> Option<PathBuf> {
    let named = env::var_os("CSI_SANITY").map(PathBuf::from);
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folders = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let usual = [home.join("go/bin"), home.join(".cache/weft-csi")];
    let there = folders.into_iter().chain(usual).map(|folder| folder.join("csi-sanity"));
    named.or_else(|| there.into_iter().find(|path| path.is_file()))
}

#[test]
fn the_suite_of_the_interface_finds_nothing_wrong() {
    let Some(suite) = suite() else {
        eprintln!("skipped: csi-sanity is not installed (tests/csi.sh builds it, if Go is there)");
        return;
    };
    let running = Running::start();
    let path = running.path().join("csi.sock");
    let node = service::node::Service {
        host: "one".to_string(),
        machine: Arc::new(Remembering::new(running.path())),
        busy: Busy::default(),
    };
    let router = server::controller(running.cluster()).add_service(NodeServer::new(node));
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(async { server::listen(&path) }).unwrap();
    runtime.spawn(server::serve(router, listener, std::future::pending()));
    let flag = |name: &str, value: &str| format!("-csi.{name}={value}");
    let at = |name: &str| running.path().join(name).to_str().unwrap().to_string();
    let output = Command::new(suite)
        .args(["-ginkgo.no-color", "-ginkgo.seed=1"])
        .args([flag("endpoint", &format!("unix://{}", path.display()))])
        .args([flag("testvolumesize", "1048576"), flag("testvolumeexpandsize", "2097152")])
        .args([flag("mountdir", &at("mount")), flag("stagingdir", &at("staging"))])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" 0 Failed"), "{said}");
    let left = running.cluster().volumes().unwrap();
    let left: Vec<&str> = left.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(left, ["theirs"], "nothing is left behind");
}
