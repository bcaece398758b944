//! What an export is, and what a stretch of one is like.

use std::borrow::Cow;

use super::wire::{self, transmission};

/// The most payload a command may carry unless an export says otherwise.
const MAX_PAYLOAD: u32 = 32 << 20;

/// The most an export can say otherwise: a chunk's header must fit on top.
const PAYLOAD_CEILING: u32 = 1 << 30;

/// The largest minimum block size the protocol allows.
const MAX_MIN_BLOCK: u32 = 64 << 10;

/// A block device offered to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name clients ask for. A client that asks for the empty name wants
    /// the default export and learns this name.
    pub name: String,
    /// A sentence for a human reader; may be empty.
    pub description: String,
    /// Size in bytes. Bytes beyond the last whole minimum block are not
    /// offered.
    pub size: u64,
    /// Offsets and lengths must be multiples of this power of two.
    pub min_block: u32,
    /// The power of two that works best.
    pub preferred_block: u32,
    /// The longest read or write in bytes.
    pub max_payload: u32,
    /// Refuse everything that changes the contents.
    pub read_only: bool,
    /// A flush on one connection covers the writes finished on every other.
    pub multi_conn: bool,
    /// The device seeks.
    pub rotational: bool,
    /// The driver can tell at once whether zeroing will be faster than
    /// writing, and refuses with `ENOTSUP` where it will not.
    pub fast_zero: bool,
    /// The driver can tell what parity that waits exposes: the context `weft:exposed` is offered.
    pub exposure: bool,
    /// The driver can tell what has changed since these.
    pub snapshots: Vec<Snapshot>,
}

/// What a driver can compare an export with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name in the contexts.
    pub name: String,
    /// The driver's number of it, which comes back with questions. At most [`Snapshot::MOST`].
    pub number: u32,
}

impl Snapshot {
    /// The largest number.
    pub const MOST: u32 = (u32::MAX >> 1) - 2;
}

impl Export {
    /// A writable export with byte granularity and a payload limit of 32 MiB.
    pub fn new(name: impl Into<String>, size: u64) -> Export {
        Export {
            name: name.into(),
            description: String::new(),
            size,
            min_block: 1,
            preferred_block: 4096,
            max_payload: MAX_PAYLOAD,
            read_only: false,
            multi_conn: false,
            rotational: false,
            fast_zero: false,
            exposure: false,
            snapshots: Vec::new(),
        }
    }

    /// The same export with its sizes bent to what the protocol allows, so
    /// that a client never sees a combination it must reject.
    pub(super) fn normalised(mut self) -> Export {
        self.min_block = power_of_two(self.min_block).min(MAX_MIN_BLOCK);
        self.preferred_block =
            power_of_two(self.preferred_block).max(self.min_block).clamp(512, PAYLOAD_CEILING);
        self.max_payload = self.max_payload.min(PAYLOAD_CEILING);
        self.max_payload -= self.max_payload % self.min_block;
        // A client must be able to move one block of the size it is told
        // works best.
        self.max_payload = self.max_payload.max(self.preferred_block);
        self.size -= self.size % u64::from(self.min_block);
        self
    }

    pub(super) fn transmission_flags(&self, structured: bool) -> u16 {
        use transmission::*;
        let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_CACHE;
        let changes = SEND_TRIM | SEND_WRITE_ZEROES;
        [
            (true, always),
            (self.read_only, READ_ONLY),
            (!self.read_only, changes),
            (!self.read_only && self.fast_zero, SEND_FAST_ZERO),
            (self.multi_conn, CAN_MULTI_CONN),
            (self.rotational, ROTATIONAL),
            (structured, SEND_DF),
        ]
        .iter()
        .filter(|(holds, _)| *holds)
        .fold(0, |flags, (_, more)| flags | more)
    }
}

/// `n` rounded up to a power of two; one for zero, and the largest that fits
/// for what would not.
fn power_of_two(n: u32) -> u32 {
    n.checked_next_power_of_two().unwrap_or(1 << 31)
}

/// What a client may be told of the stretches of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// `base:allocation`: what is allocated, and what reads as zeroes.
    Allocation,
    /// `weft:exposed`: what is lost with one disk, since parity that covers it is out of date.
    Exposed,
    /// `weft:since=NAME`, or `qemu:dirty-bitmap:NAME`: what may have changed since a snapshot.
    Since {
        /// The driver's number of the snapshot.
        snapshot: u32,
        /// Under the second name.
        as_bitmap: bool,
    },
}

impl Context {
    /// Those of an export, each with its name.
    pub(super) fn of(export: &Export) -> impl Iterator<Item = (Context, Cow<'static, str>)> + '_ {
        let exposed = export.exposure.then_some((Context::Exposed, wire::EXPOSED.into()));
        let since = |as_bitmap, begin: &'static str| {
            export.snapshots.iter().map(move |snapshot| {
                let context = Context::Since { snapshot: snapshot.number, as_bitmap };
                (context, Cow::from(format!("{begin}{}", snapshot.name)))
            })
        };
        std::iter::once((Context::Allocation, wire::ALLOCATION.into()))
            .chain(exposed)
            .chain(since(false, wire::SINCE))
            .chain(since(true, wire::DIRTY_BITMAP))
    }

    /// The number that it has in replies of this crate's server.
    pub(super) fn id(self) -> u32 {
        match self {
            Context::Allocation => 1,
            Context::Exposed => 2,
            Context::Since { snapshot, as_bitmap } => 3 + 2 * snapshot + u32::from(as_bitmap),
        }
    }
}

/// Whether a query of `LIST_META_CONTEXT` is for the namespace of a name, or for all names that begin so.
pub(super) fn is_of(name: &str, namespace: &[u8]) -> bool {
    let whole = [&b":"[..], b"="].iter().any(|end| namespace.ends_with(end));
    whole && name.as_bytes().starts_with(namespace)
}

/// A stretch of an export, and whether it may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Length in bytes.
    pub length: u32,
    /// It may have changed.
    pub changed: bool,
}

/// A stretch of an export, and whether it is exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Length in bytes.
    pub length: u32,
    /// Parity that covers it is out of date.
    pub exposed: bool,
}

/// A stretch of an export and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub length: u32,
    /// No storage is allocated to it.
    pub hole: bool,
    /// It reads as zeroes.
    pub zero: bool,
}
