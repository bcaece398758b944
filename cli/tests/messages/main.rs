//! What the command says to operators, word for word: `said.txt` is a transcript, and each command in it is run again.
//!
//! A line with `$` is a command, given to a shell; what follows is what it said, and its exit status if that is not 0. A
//! line with `&` starts an array, which runs until the next one, or the end. DIR stands for where all of it is run, and
//! PORT for a port of this machine that is in use. `WEFT_SAID=write` writes down what is said now.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const SAID: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/messages/said.txt");

/// An array that runs.
struct Array(Child);

impl Drop for Array {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        self.0.wait().expect("it ends");
    }
}

/// Where all of it is run.
struct Place<'a> {
    dir: &'a Path,
    port: String,
}

impl Place<'_> {
    fn shell(&self, line: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_weft")).parent().expect("a directory");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.current_dir(self.dir).env("PATH", path).env("LC_ALL", "C").env_remove("WEFT_DIR");
        command.args(["-c", &line.replace("PORT", &self.port)]).stdin(Stdio::null());
        command
    }

    /// Starts an array, and waits until it says how it is used.
    fn start(&self, line: &str) -> Array {
        let out = self.dir.join("up.log");
        let log = fs::File::create(&out).expect("a log");
        let array = self.shell(&format!("exec {line}")).stdout(log).spawn().expect("a shell");
        let (array, since) = (Array(array), Instant::now());
        while !fs::read_to_string(&out).expect("a log").contains("Try next") {
            assert!(since.elapsed() < Duration::from_secs(60), "no array comes: {line}");
            thread::sleep(Duration::from_millis(20));
        }
        array
    }

    /// What a command says.
    fn ask(&self, line: &str) -> String {
        let output = self.shell(&format!("{{ {line}\n}} 2>&1")).output().expect("a shell");
        let mut said = String::from_utf8(output.stdout).expect("text");
        if !said.is_empty() && !said.ends_with('\n') {
            said.push('\n');
        }
        if !output.status.success() {
            writeln!(said, "[exit {}]", output.status.code().expect("an end")).expect("text");
        }
        let dir = self.dir.display().to_string();
        said.replace(&dir, "DIR").replace(&self.port, "PORT")
    }
}

#[test]
fn messages_are_what_they_were() {
    let temp = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let place = Place { dir: temp.path(), port };
    let before = fs::read_to_string(SAID).unwrap();
    let (mut now, mut array) = (String::new(), None);
    // What stands between commands is said anew; remarks and empty lines stay.
    for line in before.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            writeln!(now, "{line}\n{}", place.ask(command).trim_end()).unwrap();
        } else if let Some(command) = line.strip_prefix("& ") {
            drop(array.take());
            array = Some(place.start(command));
            writeln!(now, "{line}").unwrap();
        } else if line.is_empty() || line.starts_with('#') {
            writeln!(now, "{line}").unwrap();
        }
    }
    drop(array);
    if std::env::var("WEFT_SAID").is_ok_and(|v| v == "write") {
        fs::write(SAID, &now).unwrap();
        return;
    }
    let differs = |(n, (now, before)): (usize, (&str, &str))| {
        (now != before).then(|| format!("line {}:\n- {before}\n+ {now}", n + 1))
    };
    let mut pairs = now.lines().zip(before.lines()).enumerate();
    let first = pairs.find_map(differs).unwrap_or("one is longer".to_string());
    assert!(
        now == before,
        "{SAID} is not what is said now; WEFT_SAID=write writes it anew\n{first}"
    );
}
