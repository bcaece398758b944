//! The programs that make, check and grow file systems, and mount them.

use std::ffi::OsStr;
use std::process::{Command, Output};

use tonic::Status;

/// Runs a program; it must be well.
///
/// # Errors
/// If it is not there, or fails: with what it has said.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String, Status> {
    let output = output(program, arguments)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Status::internal(format!(
            "{program} failed ({}): {}",
            output.status,
            said(&output)
        ))),
    }
}

/// Runs a program.
///
/// # Errors
/// If it is not there.
pub fn output<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<Output, Status> {
    let output = Command::new(program).args(arguments).output();
    output.map_err(|e| Status::internal(format!("cannot run {program}: {e}; install it")))
}

/// What a program has said, in one line.
pub fn said(output: &Output) -> String {
    let words = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes));
    words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}
