//! A process that is paused while its host gives it up.
//!
//! The array runs in a process of its own, this test's program started again, which is stopped by SIGSTOP.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weft_front::nbd::client::{Client, ClientRequest};
use weft_host::{Array, Listen, Log, Spec};

/// Where the array of the other process is.
const DIR: &str = "WEFT_TEST_PAUSED_DIR";

const BLOCK: usize = 4096;

fn connect(dir: &Path) -> UnixStream {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(dir.join("nbd.sock")) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                return stream;
            }
            Err(e) => assert!(begun.elapsed() < Duration::from_secs(60), "{e}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The other process.
fn serve(dir: &Path) {
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let listens = [Listen::unix(dir.join("nbd.sock"))];
    Array::start(dir, &spec, &listens, Log::silent()).unwrap().run().unwrap();
}

/// Kills it at the end.
struct Other(Child);

impl Other {
    fn start(dir: &Path) -> Other {
        let args = ["what_a_closed_connection_asked_is_not_begun", "--exact", "--nocapture"];
        let this = std::env::current_exe().unwrap();
        let mut other = Command::new(this);
        let other = other.args(args).env(DIR, dir).stdout(Stdio::null()).spawn();
        Other(other.unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Stops it, and waits until no thread of it runs any more.
    fn pause(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.0.id());
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        while !std::fs::read_dir(&tasks).unwrap().all(stands) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host gives up the connection with a write in it, and asks elsewhere; were the write begun after all, it would undo
/// what was answered there.
#[test]
fn what_a_closed_connection_asked_is_not_begun() {
    if let Some(dir) = std::env::var_os(DIR) {
        return serve(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let other = Other::start(dir.path());
    let mut first = Client::connect(connect(dir.path()), "").unwrap();
    first.write_at(0, &[1; BLOCK], true).unwrap();
    for round in 2..22 {
        let mut gives_up = Client::connect(connect(dir.path()), "").unwrap();
        other.pause();
        let data = vec![100 + round; BLOCK].into();
        gives_up.send(ClientRequest::Write { offset: 0, data, fua: false });
        gives_up.push().unwrap();
        drop(gives_up);
        other.signal(Signal::CONT);
        // A connection that stands is served.
        first.write_at(BLOCK as u64, &[round; BLOCK], false).unwrap();
        assert_eq!(first.read_at(BLOCK as u64, BLOCK as u32).unwrap()[..], [round; BLOCK]);
        assert_eq!(first.read_at(0, BLOCK as u32).unwrap()[..], [1; BLOCK], "round {round}");
    }
}
