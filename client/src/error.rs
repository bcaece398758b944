//! Why something was not done.

use std::fmt;

use weft_front::native::{Answer, Code, Name};

use crate::id::Id;

/// What kind of thing was in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// That is no address of a node.
    Address,
    /// No node could be reached for as long as [`Options::patience`](crate::Options::patience)
    /// says. Whether requests that were sent have happened is not known.
    Unreachable,
    /// What is at the address does not speak this protocol, or another version of it.
    Protocol,
    /// There is no such volume.
    NoVolume,
    /// Nothing orders the volume's requests, and another host writes to it.
    SecondWriter,
    /// There is no room for the request now ([`Volume::try_submit`](crate::Volume::try_submit)).
    Full,
    /// The request makes no sense: no length, or longer than
    /// [`Limits::request_bytes`](crate::Limits::request_bytes).
    Invalid,
    /// It goes past the end of the volume.
    OutOfRange,
    /// More disks are lost than the layout bears.
    Lost,
    /// Others came between each time that it was tried.
    NoProgress,
    /// A disk of the thin volume is full.
    NoSpace,
    /// One that must come first was not done, and so neither is this
    /// ([`Error::because`] says which).
    Aborted,
    /// One that must come first was not sent in time.
    NeverIssued,
    /// It cannot have the place in the graph that it was given.
    Place,
    /// The host has no right to the volume or to what it asks, or has not proved who it is.
    NotAllowed,
    /// The directory does not hold the certificates of a host.
    Certificates,
    /// It failed for a reason that only the text tells.
    Failed,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    because: Option<Id>,
    text: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error { kind, because: None, text: text.into() }
    }

    /// One that must come first was not done.
    pub(crate) fn aborted(because: Id) -> Error {
        let text = format!("{because}, which must come first, was not done");
        Error { kind: ErrorKind::Aborted, because: Some(because), text }
    }

    /// The same for one that may have happened: it was sent before.
    pub(crate) fn in_doubt(because: Id) -> Error {
        let text = format!(
            "the request was sent before, and whether it has happened is unknown: {because}, which must come first, was not \
             done when it was sent again. Read the range, and write again if needed"
        );
        Error { kind: ErrorKind::Failed, because: Some(because), text }
    }

    /// What a node says.
    pub(crate) fn of(answer: &Answer) -> Error {
        let because = answer.because.map(|Name { host, number }| Id { host, number });
        Error { kind: kind(answer.code), because, text: answer.text.clone() }
    }

    /// What a node says to a hello.
    pub(crate) fn of_hello(code: Code, text: String) -> Error {
        Error::new(kind(code), text)
    }

    /// What kind of thing was in the way.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The request that must come first and was not done, if that is why: the one that failed for a
    /// reason of its own, however many come between. Of requests of other hosts, and of any on a volume with
    /// `ordering=sequencer`, it may be one between: the first of which the node knew.
    pub fn because(&self) -> Option<Id> {
        self.because
    }

    /// Because of which request this one was not done: itself, unless another was aborted.
    pub(crate) fn root(&self, itself: Id) -> Id {
        self.because.filter(|_| self.kind == ErrorKind::Aborted).unwrap_or(itself)
    }
}

fn kind(code: Code) -> ErrorKind {
    match code {
        Code::Version | Code::OtherVolume | Code::Malformed => ErrorKind::Protocol,
        Code::NoVolume => ErrorKind::NoVolume,
        Code::SecondWriter => ErrorKind::SecondWriter,
        Code::NotAllowed => ErrorKind::NotAllowed,
        Code::TooLong => ErrorKind::Invalid,
        Code::OutOfRange => ErrorKind::OutOfRange,
        Code::Lost => ErrorKind::Lost,
        Code::NoProgress => ErrorKind::NoProgress,
        Code::NoSpace => ErrorKind::NoSpace,
        Code::Aborted => ErrorKind::Aborted,
        Code::NeverIssued => ErrorKind::NeverIssued,
        Code::TooManyAfter
        | Code::TooFarAhead
        | Code::AfterItself
        | Code::Cycle
        | Code::Reused
        | Code::TooManyUnissued
        | Code::NotOrdered => ErrorKind::Place,
        // The text says that nobody can know whether it happened.
        Code::NotServing | Code::Failed | Code::Unknown | Code::Done => ErrorKind::Failed,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}
