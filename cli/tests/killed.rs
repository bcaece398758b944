//! A run on real nodes that is killed, and the one after it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SCENARIO: &str = "nodes = { workers = 3, originators = 3 }\n\
                        volume = { unit = 65536, size_bytes = 4194304 }\n\
                        [workload]\narrivals.closed.population = 1\n\
                        requests.fixed = { bytes = 4096, read_share = 0.5 }\n\
                        [measure]\nwarm_up = 0\nreplications = 1\n";

fn run(dir: &Path, requests: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["sim", "s.toml", "--world", "real", "--dir", "disks", "--set"]);
    command.arg(format!("measure.requests={requests}"));
    command
}

/// What is in the directory of the disks.
fn left(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir.join("disks")).unwrap();
    all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_directory_of_a_run_that_was_killed_is_removed_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::create_dir(dir.join("disks")).unwrap();
    fs::write(dir.join("s.toml"), SCENARIO).unwrap();
    let mut killed = run(dir, 1_000_000_000).spawn().unwrap();
    let begun = Instant::now();
    // Its sockets come last.
    let serves =
        || left(dir).iter().any(|name| dir.join("disks").join(name).join("nbd.sock").exists());
    while !serves() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no array comes: {:?}", left(dir));
        assert!(killed.try_wait().unwrap().is_none(), "the run is over");
        thread::sleep(Duration::from_millis(10));
    }
    // As long as it lives, another leaves it alone.
    assert!(run(dir, 5).status().unwrap().success());
    assert_eq!(left(dir).len(), 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(left(dir).len(), 1, "nobody could remove it");
    assert!(run(dir, 5).status().unwrap().success());
    assert_eq!(left(dir), Vec::<String>::new());
}
