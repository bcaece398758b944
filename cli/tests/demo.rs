//! `weft demo`, from the outside.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn demo(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(["demo", "--quick"]).env("TMPDIR", place).stdin(Stdio::null());
    command
}

fn entries(place: &Path) -> Vec<String> {
    let names = fs::read_dir(place).unwrap().map(|e| e.unwrap().file_name());
    names.map(|n| n.to_string_lossy().into_owned()).collect()
}

#[test]
fn it_compares_everything_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let output = demo(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    // 24 MiB, three times.
    assert!(said.contains("All 75497472 bytes that were compared are right"), "{said}");
    for part in ["before", "during", "after", "MB/s"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(errors.contains("0 wrong, 0 stripes unclear"), "{errors}");
    assert_eq!(entries(place.path()), [""; 0]);
}

#[test]
fn an_interrupt_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut child =
        demo(place.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while entries(place.path()).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10), "no directory was made");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(100));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(place.path()), [""; 0]);
}

fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn it_says_where_it_cannot_run() {
    let output = demo(Path::new("/nonexistent")).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("cannot make a directory in /nonexistent"), "{errors}");
}
