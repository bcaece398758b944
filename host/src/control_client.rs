//! Asking a running array.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::control_protocol::ControlRequest;
use crate::error::{Error, Result, at, fail};
use crate::socket::CONTROL;
use crate::status::{Prediction, Status};

/// The path of the control socket of the array, or the node, that runs on `dir`.
pub(crate) fn control_path(dir: &Path) -> PathBuf {
    dir.join(CONTROL)
}

/// A connection to the control socket of a running array. Calls block until answered.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    waits: fn(&str),
}

/// Ends the connection of a [`Control`], from another thread.
#[derive(Debug)]
pub struct HangUp(UnixStream);

impl HangUp {
    /// Does it.
    pub fn now(&self) {
        // It may have ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Control {
    /// Connects to the array that runs on the directory `dir`.
    pub fn connect(dir: &Path) -> Result<Control> {
        let path = control_path(dir);
        let stream = UnixStream::connect(&path).map_err(|e| cannot_connect(dir, &path, &e))?;
        Ok(Control { path, stream: BufReader::new(stream), waits: |_| () })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// With this told what the array waits for, if an answer takes longer than a second.
    pub fn telling(self, waits: fn(&str)) -> Control {
        Control { waits, ..self }
    }

    /// With each line of an answer awaited for this time at most, or for ever.
    ///
    /// # Errors
    /// If the socket takes no limit.
    pub fn within(self, time: Option<Duration>) -> Result<Control> {
        let limited = self.stream.get_ref().set_read_timeout(time);
        limited.map_err(at("limit", &self.path))?;
        Ok(self)
    }

    /// What ends the connection from another thread: the array gives up what it has not begun, and a scrub.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn hang_up(&self) -> Result<HangUp> {
        let stream = self.stream.get_ref().try_clone().map_err(at("duplicate", &self.path))?;
        Ok(HangUp(stream))
    }

    /// Asks how the array is.
    ///
    /// # Errors
    /// As [`Control::request`], and if the answer is none of this version.
    pub fn status(&mut self) -> Result<Status> {
        let answer = self.request(&ControlRequest::Status)?;
        serde_json::from_value(answer).map_err(|e| Error(format!("the array's status: {e}")))
    }

    /// What the loss of nodes, or more disks, would mean: the answer to [`ControlRequest::WhatIf`].
    pub fn predict(&mut self, question: &ControlRequest) -> Result<Prediction> {
        let mut answer = self.request(question)?;
        let prediction = serde_json::from_value(answer["prediction"].take());
        prediction.map_err(|e| Error(format!("the array's prediction: {e}")))
    }

    /// Asks, and waits for the answer. That the array refuses is an error.
    pub fn request(&mut self, request: &ControlRequest) -> Result<Value> {
        let mut line = serde_json::to_string(request)
            .map_err(|e| Error(format!("cannot write the request: {e}")))?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(at("write to", &self.path))?;
        let answer = loop {
            let said = self.read_line()?;
            match said["waits_for"].as_str() {
                Some(what) => (self.waits)(what),
                None => break said,
            }
        };
        match answer["ok"].as_bool() {
            Some(true) => Ok(answer),
            _ => fail(answer["error"].as_str().unwrap_or("it failed without a reason")),
        }
    }

    fn read_line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(at("read from", &self.path))?;
        if line.is_empty() {
            return fail("the array stopped before it answered");
        }
        serde_json::from_str(&line)
            .map_err(|e| Error(format!("the array's answer is invalid: {e}")))
    }
}

/// Why an array cannot be asked: it is another user's, or none runs.
fn cannot_connect(dir: &Path, path: &Path, e: &io::Error) -> Error {
    let (dir, path) = (dir.display(), path.display());
    Error(match e.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "the array on {dir} belongs to another user ({path}: {e}); run the command as that user, such as `sudo -u weft weft \
             ...`, or as root"
        ),
        _ => format!("no array runs on {dir} ({path}: {e}); start one there first"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_array_it_is_is_said_if_one_may_not_ask() {
        let said = |kind: io::ErrorKind| {
            cannot_connect(Path::new("/d"), Path::new("/d/control.sock"), &kind.into()).0
        };
        assert_eq!(
            said(io::ErrorKind::PermissionDenied),
            "the array on /d belongs to another user (/d/control.sock: permission denied); run the command as that user, such as \
             `sudo -u weft weft ...`, or as root"
        );
        assert!(
            said(io::ErrorKind::NotFound).starts_with("no array runs on /d (/d/control.sock: ")
        );
    }
}
