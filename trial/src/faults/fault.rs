//! The faults: their names, what they hurt, and how long requests may wait for their sake.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A host that has no answer for so long tries another node.
pub const PATIENCE: Duration = Duration::from_secs(4);

/// A process that is silent for so long is counted dead (`weft_member::Config`).
const MASKED: Duration = Duration::from_millis(1100);

/// A leader that is silent, but still connected, is followed by another in this time: an election
/// time-out of 20 ticks of 50 ms at most.
const ELECTION: Duration = Duration::from_millis(1000);

/// What it takes a host to connect to another node, the nodes to enter a new map and to settle what
/// was under way, and an election among those that saw the leader's connections break.
const FALL: Duration = Duration::from_millis(1000);

/// What it takes two that do not hear each other any more to notice, and to talk through others.
const DETOUR: Duration = Duration::from_millis(1500);

/// The longest that nodes of an outage stay away.
pub(super) const OUTAGE: Duration = Duration::from_millis(3000);

/// What it takes processes that have all been started anew to elect a leader, which waits for those that
/// open their disks, and to enter a map.
const RISE: Duration = Duration::from_millis(4000);

/// The `disk_timeout` of nodes whose disks can be held up, and how it is written.
const HUNG: Duration = Duration::from_millis(3000);
pub(super) const HUNG_AFTER: &str = "3s";

/// Processes look twice a second whether their disks hang.
const LOOK: Duration = Duration::from_millis(500);

/// Something that is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process is killed, and started again.
    Kill,
    /// Its process and some others, or all, are killed at the same time, more than the layout bears, and
    /// started again one after the other.
    Outage,
    /// Its process is stopped in good order, and started again.
    Stop,
    /// Its process is stopped (SIGSTOP), and continued.
    Pause,
    /// Nothing comes through to it or from it for a while.
    Cut,
    /// Nothing that it sends comes through for a while.
    OneWay,
    /// Nothing comes through between it and another for a while, or one way only.
    Link,
    /// A part of what it sends and gets is lost for a while.
    Lossy,
    /// Its file system is full for a while.
    Fill,
    /// Its disk returns I/O errors for a while, and has then lost what was there.
    Errors,
    /// Its disk works for a few milliseconds only, again and again, with longer pauses between them.
    Slow,
    /// Its disk ends no operation for a while.
    Hang,
    /// Bytes of its disk are not what they were.
    Flip,
    /// Its disk is replaced by an empty one.
    Replace,
    /// Its disk is replaced by an empty one in a burst of writes to a volume whose parity waits.
    Wipe,
    /// It is killed, and a page of its disk's table is zeros when it is started again.
    TablePage,
    /// The same with the whole table, or table and index.
    Table,
    /// The same with the journal, or damage to some of its sectors.
    Journal,
    /// The same with a copy of the superblock.
    Superblock,
    /// It is killed, and started again with an older copy of its disk.
    OldCopy,
}

/// All faults, and their names.
pub const FAULTS: [(Fault, &str); 20] = [
    (Fault::Kill, "kill"),
    (Fault::Outage, "outage"),
    (Fault::Stop, "stop"),
    (Fault::Pause, "pause"),
    (Fault::Cut, "cut"),
    (Fault::OneWay, "one-way"),
    (Fault::Link, "link"),
    (Fault::Lossy, "lossy"),
    (Fault::Fill, "fill"),
    (Fault::Errors, "errors"),
    (Fault::Slow, "slow"),
    (Fault::Hang, "hang"),
    (Fault::Flip, "flip"),
    (Fault::Replace, "replace"),
    (Fault::Wipe, "wipe"),
    (Fault::TablePage, "table-page"),
    (Fault::Table, "table"),
    (Fault::Journal, "journal"),
    (Fault::Superblock, "superblock"),
    (Fault::OldCopy, "old-copy"),
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FAULTS.iter().find(|(fault, _)| fault == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let found = FAULTS.iter().find(|(_, name)| *name == text);
        found.map(|(fault, _)| *fault).ok_or_else(|| {
            let names: Vec<&str> = FAULTS.iter().map(|(_, name)| *name).collect();
            format!("'{text}' is no fault; there are {}", names.join(", "))
        })
    }
}

impl Fault {
    /// Whether it is done to links.
    pub fn is_of_links(self) -> bool {
        matches!(self, Fault::Cut | Fault::OneWay | Fault::Link | Fault::Lossy)
    }

    /// Whether it is done to disks that can be held up.
    pub fn holds_up_disks(self) -> bool {
        matches!(self, Fault::Slow | Fault::Hang)
    }

    /// Whether no process may leave the map for it.
    pub fn leaves_all_in(self) -> bool {
        matches!(self, Fault::Link | Fault::Slow)
    }

    /// Whether something on a disk is not what it was, and only a scrub shows that all is whole.
    pub fn hurts_data(self) -> bool {
        matches!(self, Fault::Flip | Fault::Errors) || self.is_damage()
    }

    /// Whether the disk of a killed node is damaged.
    pub fn is_damage(self) -> bool {
        matches!(
            self,
            Fault::TablePage | Fault::Table | Fault::Journal | Fault::Superblock | Fault::OldCopy
        )
    }

    /// Whether what it does is counted by the node that it is done to. Of an older copy the others say that it is
    /// one, and the end of a journal may go by if nothing was promised there.
    pub fn is_counted(self) -> bool {
        matches!(self, Fault::Flip | Fault::Errors | Fault::TablePage | Fault::Table)
    }

    /// The longest that a request may wait for this fault's sake, on a machine that has nothing else
    /// to do.
    pub fn longest_wait(self) -> Duration {
        match self {
            // Silence has to be noticed; if the leader is silent, others see its connections break.
            Fault::Kill => MASKED + FALL,
            // Damage may come with an outage of all. With an older copy the node is killed once more before, but
            // all are whole between.
            Fault::Outage
            | Fault::TablePage
            | Fault::Table
            | Fault::Journal
            | Fault::Superblock
            | Fault::OldCopy => OUTAGE + PATIENCE.max(RISE) + FALL,
            // A host of this node waits for it as long as it has patience. Whoever waits for this
            // node at another one waits until it is counted dead.
            Fault::Pause | Fault::Cut | Fault::OneWay | Fault::Lossy => {
                PATIENCE.max(MASKED + ELECTION) + FALL
            }
            Fault::Link => DETOUR,
            // A write waits until the node of the disk has left.
            Fault::Hang => HUNG + LOOK + FALL,
            // The node itself says at once that it goes.
            Fault::Stop
            | Fault::Replace
            | Fault::Wipe
            | Fault::Fill
            | Fault::Errors
            | Fault::Slow
            | Fault::Flip => FALL,
        }
    }

    /// So long after it has been undone its consequences may begin to show: that a node has not been
    /// heard is noticed after `dead_after`, or twice that if others are late, too. The next fault is not
    /// to come before that: it would be one too many.
    pub fn shows_after(self) -> Duration {
        match self {
            Fault::Pause | Fault::Cut | Fault::OneWay | Fault::Lossy => 2 * MASKED,
            Fault::Kill
            | Fault::Outage
            | Fault::Stop
            | Fault::Link
            | Fault::Fill
            | Fault::Errors
            | Fault::Slow
            | Fault::Hang
            | Fault::Flip
            | Fault::Replace
            | Fault::Wipe
            | Fault::TablePage
            | Fault::Table
            | Fault::Journal
            | Fault::Superblock
            | Fault::OldCopy => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_known_by_its_name() {
        for (fault, name) in FAULTS {
            assert_eq!((name.parse(), fault.to_string().as_str()), (Ok(fault), name));
        }
        assert_eq!("slow".parse(), Ok(Fault::Slow));
        assert_eq!("hang".parse(), Ok(Fault::Hang));
        let said = "hung".parse::<Fault>().unwrap_err();
        assert!(
            said.starts_with("'hung' is no fault; there are kill, ")
                && said.contains("slow, hang, "),
            "{said}"
        );
    }
}
