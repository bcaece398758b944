//! A client that blocks and pipelines.
//!
//! [`Client::connect`] negotiates over any stream; after that, requests are
//! queued with [`Client::send`] and their completions, in whatever order the
//! server finishes them, come out of [`Client::receive`]. What is queued goes
//! out before the client waits for anything, so many small requests share one
//! write. For one request at a time there are [`Client::read_at`] and its
//! siblings.
//!
//! The client does not read while it writes. Keep what is in flight bounded,
//! or a server that will not take more requests before its replies are read
//! and a client that will not read before its requests are taken wait for
//! each other for ever.

mod error;
mod link;
mod negotiate;
mod receive;
mod request;
mod whole;

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};

use bytes::Bytes;

pub use super::errno::Errno;
pub use super::export::{Exposure, Extent};
use super::wire::{self, command};
pub use error::{ClientError, Result};
use link::Link;
use receive::Pending;
pub use request::ClientRequest;

/// What a client asks for while it negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ask for structured replies.
    pub structured: bool,
    /// Ask for the context `base:allocation`; needs structured replies.
    pub allocation: bool,
    /// Ask for the context `weft:exposed`, likewise.
    pub exposed: bool,
    /// Open the export with `GO`; otherwise with the older `EXPORT_NAME`,
    /// which tells less and refuses without a word.
    pub go: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { structured: true, allocation: true, exposed: false, go: true }
    }
}

/// What the server told of the export, with the protocol's defaults for what
/// it did not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The export's proper name; empty if not told.
    pub name: String,
    /// A sentence on the export; empty if not told.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// Bits of [`wire::transmission`].
    pub flags: u16,
    /// Offsets and lengths must be multiples of this.
    pub min_block: u32,
    /// The block size that works best.
    pub preferred_block: u32,
    /// The longest read or write in bytes.
    pub max_payload: u32,
    /// Replies are structured.
    pub structured: bool,
    /// The number of the context `base:allocation`, if it was agreed on.
    pub allocation: Option<u32>,
    /// The number of the context `weft:exposed`, likewise.
    pub exposed: Option<u32>,
}

/// What a command that succeeded returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing.
    Done,
    /// What was read.
    Read(Bytes),
    /// Extents from the request's offset on, in the context `base:allocation` if it was agreed on; and what is exposed, in
    /// the context `weft:exposed`, likewise.
    Extents(Vec<Extent>, Vec<Exposure>),
}

/// A finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What [`Client::send`] returned for it.
    pub cookie: u64,
    /// How it went.
    pub result: std::result::Result<Data, Errno>,
}

/// A connection to an export; see the [module](self).
pub struct Client<S: Read + Write> {
    link: Link<S>,
    opened: Opened,
    /// The cookie of the next request.
    next: u64,
    pending: HashMap<u64, Pending>,
    /// Completions that came while another was waited for.
    finished: VecDeque<Completion>,
}

impl<S: Read + Write> Client<S> {
    /// Opens an export with everything this client knows; the empty name
    /// stands for the default export.
    pub fn connect(stream: S, export: &str) -> Result<Client<S>> {
        Client::connect_with(stream, export, Settings::default())
    }

    /// Opens an export, asking for no more than the settings say.
    pub fn connect_with(stream: S, export: &str, settings: Settings) -> Result<Client<S>> {
        let mut link = Link::new(stream);
        let no_zeroes = negotiate::greet(&mut link)?;
        let opened = negotiate::open(&mut link, export, settings, no_zeroes)?;
        Ok(Client { link, opened, next: 1, pending: HashMap::new(), finished: VecDeque::new() })
    }

    /// Everything the server told of the export.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The export's size in bytes.
    pub fn size(&self) -> u64 {
        self.opened.size
    }

    /// Offsets and lengths must be multiples of this.
    pub fn min_block(&self) -> u32 {
        self.opened.min_block
    }

    /// Requests sent or queued whose completion was not received yet.
    pub fn in_flight(&self) -> usize {
        self.pending.len() + self.finished.len()
    }

    /// Whether the beginning of a completion is here already, so that who polls the stream
    /// must not wait for it.
    pub fn has_buffered(&self) -> bool {
        !self.finished.is_empty() || self.link.has_buffered()
    }

    /// The stream, to look at or to set up.
    pub fn stream(&mut self) -> &mut S {
        self.link.stream()
    }

    /// Says goodbye. Completions not received are lost, though the server
    /// finishes what it was sent.
    pub fn disconnect(mut self) -> Result<S> {
        let goodbye =
            wire::RequestHeader { flags: 0, kind: command::DISC, cookie: 0, offset: 0, length: 0 };
        self.link.put(&goodbye.encode());
        self.link.flush()?;
        Ok(self.link.into_stream())
    }
}

/// The names of a server's exports.
pub fn list<S: Read + Write>(stream: S) -> Result<Vec<String>> {
    let mut link = Link::new(stream);
    negotiate::greet(&mut link)?;
    negotiate::list(&mut link)
}
