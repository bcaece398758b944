//! What is told to the log: who was refused and who cannot be reached, not too often.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weft_core::units::NodeId;

use super::Lost;

/// Where a connection goes to or comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Place {
        Place::Address(address)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Address(address) => address.fmt(f),
            Place::Socket(path) => path.display().fmt(f),
        }
    }
}

/// A connection that did not come about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where the other side is; of one that came in by a Unix socket, that socket.
    pub place: Place,
    /// The node that we dialled; none if the other side did.
    pub dialled: Option<NodeId>,
    /// The process whose address that is, if it was to relay the connection.
    pub through: Option<NodeId>,
    /// Why.
    pub why: Lost,
    /// How many more there were from there since the last note.
    pub more: u64,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match (self.dialled, place, &self.why) {
            (Some(node), ..) => write!(f, "no connection to {node} at {place}")?,
            (None, _, Lost::NoSocket(_)) => write!(f, "no Unix socket at {place}")?,
            (None, Place::Socket(_), _) => write!(f, "refused a connection to {place}")?,
            (None, Place::Address(_), _) => write!(f, "refused a connection from {place}")?,
        }
        if let Some(relay) = self.through {
            write!(f, ", {relay}, which relays")?;
        }
        write!(f, ": {}", self.why)?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " (and {more} more like it)"),
        }
    }
}

/// Addresses that are told apart; beyond that they share one entry.
const ADDRESSES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Dialled(NodeId),
    From(IpAddr),
    Machine,
    Others,
}

/// Lets one note pass for each source and pause.
pub(super) struct Notes {
    log: Box<dyn Fn(&Note) + Send>,
    pause: Duration,
    seen: BTreeMap<Source, (Instant, u64)>,
}

impl Notes {
    pub fn new(log: Box<dyn Fn(&Note) + Send>, pause: Duration) -> Notes {
        Notes { log, pause, seen: BTreeMap::new() }
    }

    pub fn note(
        &mut self,
        now: Instant,
        place: impl Into<Place>,
        dialled: Option<NodeId>,
        why: Lost,
    ) {
        self.note_through(now, place.into(), dialled, None, why);
    }

    pub fn note_through(
        &mut self,
        now: Instant,
        place: Place,
        dialled: Option<NodeId>,
        through: Option<NodeId>,
        why: Lost,
    ) {
        let pause = self.pause;
        let is_over = |since: Instant| now.saturating_duration_since(since) >= pause;
        let from = match &place {
            Place::Address(address) => Source::From(address.ip()),
            Place::Socket(_) => Source::Machine,
        };
        let mut source = dialled.map_or(from, Source::Dialled);
        if !self.seen.contains_key(&source) && self.seen.len() >= ADDRESSES {
            self.seen.retain(|_, (since, _)| !is_over(*since));
            if self.seen.len() >= ADDRESSES {
                source = Source::Others;
            }
        }
        let more = match self.seen.get_mut(&source) {
            Some((since, count)) if !is_over(*since) => {
                *count += 1;
                return;
            }
            Some((_, count)) => *count,
            None => 0,
        };
        self.seen.insert(source, (now, 0));
        (self.log)(&Note { place, dialled, through, why, more });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn one_note_for_each_address_and_pause() {
        let (log, logged) = channel();
        let sender = Box::new(move |n: &Note| log.send(n.clone()).unwrap());
        let mut notes = Notes::new(sender, Duration::from_secs(10));
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let from = |a: u8, port: u16| SocketAddr::from(([10, 0, 0, a], port));
        for (second, address) in [(0, from(1, 1)), (1, from(1, 2)), (2, from(2, 1))] {
            notes.note(at(second), address, None, Lost::Closed);
        }
        notes.note(at(10), from(1, 3), None, Lost::Closed);
        let said: Vec<_> = logged.try_iter().map(|n| (n.place, n.more)).collect();
        let expected = [(from(1, 1).into(), 0), (from(2, 1).into(), 0), (from(1, 3).into(), 1)];
        assert_eq!(said, expected);
        for n in 0..2000u32 {
            let address = SocketAddr::from((n.to_be_bytes(), 9));
            notes.note(at(11), address, None, Lost::Closed);
        }
        assert!(logged.try_iter().count() <= ADDRESSES + 1);
        assert!(notes.seen.len() <= ADDRESSES + 1);
    }
}
