//! A part of a host's request: what its endpoint knows of it.

use super::giving::Giving;
use super::placed::Placed;
use crate::Buffer;
use crate::node::{Header, HostError, Key, Stage, Task, Wish};
use crate::order::Again;
use crate::plan::Range;
use crate::units::{Epoch, Nanos, Timestamp};

/// A part of a request.
#[derive(Clone, Hash)]
pub(super) struct Part {
    pub request: u64,
    pub wish: Wish,
    pub key: Key,
    /// What is known of earlier attempts.
    pub again: Option<Again>,
    /// When it was last asked for, if it was.
    pub asked: Option<Nanos>,
    /// No attempt is earlier: the clock showed this when it was first asked for, or the epoch had begun then.
    pub since: Timestamp,
    /// Its bytes stay here, so that nobody prepares an attempt before it is known here.
    pub stays: bool,
    /// The first attempt at a write that is known here.
    pub seen: Option<Timestamp>,
    /// The latest attempts at a write: one, or one for each of the ranges that it was cut into.
    pub giving: Vec<Giving>,
    /// What attempts at a read have placed here.
    pub placed: Placed,
    /// The controller has said that these attempts count.
    pub counted: Option<Vec<Timestamp>>,
    /// Messages of the longest chain that ended here.
    pub hops: u8,
}

impl Part {
    pub fn new(request: u64, wish: Wish, key: Key, again: Option<Again>) -> Part {
        Part {
            request,
            wish,
            key,
            again,
            asked: None,
            since: Timestamp::ZERO,
            stays: false,
            seen: None,
            giving: Vec::new(),
            placed: Placed::default(),
            counted: None,
            hops: 0,
        }
    }

    /// What the controller is told of what is to be done. Bytes go to it once, not with what is repeated.
    pub fn sent_wish(&self, stage: Stage) -> Wish {
        match &self.wish {
            Wish::Write(range, _) if self.stays || stage != Stage::New => Wish::Write(*range, None),
            wish => wish.clone(),
        }
    }

    /// The attempt at a write that this message is about, if it is known.
    pub fn giving(&mut self, header: &Header) -> Option<&mut Giving> {
        self.giving.iter_mut().find(|giving| giving.header == *header)
    }

    /// Whether a later attempt at what this one is to write is known. Earlier ones are forgotten.
    pub fn is_outdated(&mut self, header: &Header) -> bool {
        let Task::Write(range) = header.task else { return true };
        let overlaps = |giving: &Giving| match giving.header.task {
            Task::Write(other) => other.offset < range.end() && range.offset < other.end(),
            _ => false,
        };
        if self.giving.iter().any(|g| overlaps(g) && g.header.ts > header.ts) {
            return true;
        }
        self.giving.retain(|g| !overlaps(g) || g.header == *header);
        false
    }

    /// A time before all attempts at it. What has been asked for may have been begun; if its bytes stay here, only if it
    /// is known that there was an attempt. `None` if there was none.
    pub fn before_attempts(&self) -> Option<Timestamp> {
        // No attempt is as early as that.
        let before_seen = self.seen.map(|ts| Timestamp(ts.0.saturating_sub(1)));
        let now = if self.stays { before_seen } else { Some(self.since) };
        let now = now.filter(|_| self.asked.is_some());
        [now, self.again.map(|again| again.since)].into_iter().flatten().min()
    }

    /// An epoch is over.
    pub fn enter(&mut self, before: Epoch) {
        if let (Some(since), Some(_)) = (self.before_attempts(), self.asked) {
            self.again = Some(Again { since, epoch: before });
        }
        (self.giving, self.placed, self.counted) = (Vec::new(), Placed::default(), None);
    }

    /// What has been read; or, of a write, whether it is what was to be written.
    pub fn judge(&self, read: Vec<(Range, Vec<Buffer>)>) -> Result<Vec<Buffer>, HostError> {
        let Wish::Write(whole, Some(data)) = &self.wish else {
            return Ok(read.into_iter().flat_map(|(_, bytes)| bytes).collect());
        };
        let is_so = |(range, found): &(Range, Vec<Buffer>)| {
            let at = (range.offset - whole.offset) as usize;
            let wanted = data.slice(at, at + range.len as usize);
            let found = Buffer::join(found);
            wanted.to_bytes()[..] == found[..]
        };
        if read.iter().all(is_so) { Ok(Vec::new()) } else { Err(HostError::OutcomeUnknown) }
    }
}
