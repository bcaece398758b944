//! Compiles the C example with the system's compiler and runs it against an array.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use weft_host::{Array, Handle, Listen, Spec};

/// Where this build puts its libraries.
fn libraries() -> PathBuf {
    // The test is in target/PROFILE/deps, where the libraries are put first.
    env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

fn compile(example: &str, out: &Path) -> bool {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let libraries = libraries();
    let built = Command::new(compiler)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg(here.join("examples").join(example))
        .arg("-I")
        .arg(here.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-lweft")
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-o")
        .arg(out)
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the example does not compile");
            true
        }
        Err(e) => {
            eprintln!("skipped: there is no C compiler ({e})");
            false
        }
    }
}

fn array(dir: &Path) -> (Handle, PathBuf) {
    let socket = dir.join("weft.sock");
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let listens = [Listen::native_unix(socket.clone())];
    let array = Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap();
    (array.spawn().unwrap(), socket)
}

#[test]
fn an_event_loop_in_c_ends_each_request_once() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("loop");
    if !compile("loop.c", &program) {
        return;
    }
    let (array, socket) = array(dir.path());
    let ran = Command::new(&program).arg(&socket).arg("vol0").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    assert!(out.starts_with("302 have ended, the last was request 302 of host "), "{out}");
    array.shutdown().unwrap();
    // Its patience is 2 s instead of 5.
    let gone = Command::new(&program).arg(&socket).arg("vol0").output().unwrap();
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("no node could be reached"));
}

#[test]
fn the_example_in_c_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("log");
    if !compile("log.c", &program) {
        return;
    }
    let (array, socket) = array(dir.path());
    let ran = Command::new(&program).arg(&socket).arg("vol0").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    assert!(out.contains("aborted, as it must be: request 4 of host"), "{out}");
    let refused = Command::new(&program).arg(&socket).arg("nothing").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no volume"));
    array.shutdown().unwrap();
}
