//! The values of each choice. Of each value a row says everything that does not depend on what it does: its word
//! in commands and files, its number in the encoding of the map, what it means, and whether it needs a warning.

use std::fmt;
use std::str::FromStr;

use super::redundancy::{Flush, Refresh, Start, Timing};
use super::{Policy, PolicyError};

/// A value of a choice.
#[derive(Debug)]
pub struct Row<T: 'static> {
    /// The value.
    pub value: T,
    /// Its name in commands and files.
    pub word: &'static str,
    /// Its number in the encoding of the cluster map. None is used twice, also when a value is gone.
    pub tag: u8,
    /// What it means, in half a sentence.
    pub help: &'static str,
    /// Whom it is for.
    pub kind: Kind,
}

/// Whom a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For anybody.
    Usual,
    /// For who knows what it gives up.
    Warned(&'static str),
    /// For runs that measure, in an array that is made for it: no volume can be given it.
    Measuring,
}

pub(super) const fn row<T>(value: T, word: &'static str, tag: u8, help: &'static str) -> Row<T> {
    Row { value, word, tag, help, kind: Kind::Usual }
}

/// Something that has a row for each of its values.
pub trait Valued: Copy + Eq + 'static {
    /// The key of its choice.
    const KEY: &'static str;
    /// Its values.
    const ROWS: &'static [Row<Self>];

    /// Its row.
    fn row(self) -> &'static Row<Self> {
        Self::ROWS.iter().find(|r| r.value == self).expect("every value has a row")
    }

    /// Its name in commands and files.
    fn word(self) -> &'static str {
        self.row().word
    }

    /// The value of this name.
    fn named(word: &str) -> Result<Self, PolicyError> {
        let found = Self::ROWS.iter().find(|r| r.word == word);
        found.map(|r| r.value).ok_or_else(|| {
            let known = Self::ROWS.iter().filter(|r| r.kind != Kind::Measuring).map(|r| r.word);
            PolicyError::word(Self::KEY, word, known)
        })
    }

    /// The value of this number.
    fn numbered(tag: u8) -> Option<Self> {
        Self::ROWS.iter().find(|r| r.tag == tag).map(|r| r.value)
    }
}

/// The words of some rows.
pub const fn words<T, const N: usize>(rows: &[Row<T>; N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut n = 0;
    while n < N {
        words[n] = rows[n].word;
        n += 1;
    }
    words
}

/// Has a type display and parse as its rows say.
macro_rules! named {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $name {
            type Err = PolicyError;
            fn from_str(word: &str) -> Result<Self, PolicyError> {
                Self::named(word)
            }
        }
    )*};
}

named!(Dispatch, Roles, Commands, Commit, Ordering, SequencerForm, Timing, Refresh, Flush, Start);

/// How to deal with a stripe that is written in part, where both ways are possible (TickerTAIP 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// Parity takes in what changes.
    Small,
    /// Parity is computed afresh.
    Large,
}

impl Preference {
    /// With leaving it to cost.
    pub const CHOICES: [Row<Option<Preference>>; 3] = [
        row(None, "auto", 0, "the one that reads less"),
        row(
            Some(Preference::Small),
            "small",
            2,
            "read old content and add the difference to parity",
        ),
        row(
            Some(Preference::Large),
            "large",
            3,
            "read the rest of the stripe and recompute parity",
        ),
    ];
}

impl Valued for Option<Preference> {
    const KEY: &'static str = "strategy";
    const ROWS: &'static [Row<Self>] = &Preference::CHOICES;
}

/// Where parity is computed (TickerTAIP 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalculatedAt {
    /// At the originator.
    Originator,
    /// At the parity columns alone.
    Solely,
    /// At the parity columns, from partial results of the data columns.
    Parity,
    /// For each stripe at the column whose node has least to compute (TPT-RAID's star).
    Balanced,
    /// At all columns that have a share: partial sums climb a binary tree (TPT-RAID's tree).
    Tree,
}

impl CalculatedAt {
    /// With leaving it to cost.
    pub const CHOICES: [Row<Option<CalculatedAt>>; 6] = [
        row(None, "auto", 0, "where it costs least"),
        row(
            Some(CalculatedAt::Originator),
            "originator",
            1,
            "at the originator, the node that receives the request",
        ),
        row(
            Some(CalculatedAt::Solely),
            "solely",
            2,
            "at the parity's node, from unmodified data of the other nodes",
        ),
        row(
            Some(CalculatedAt::Parity),
            "parity",
            3,
            "at the parity's node, from deltas or partial sums of the data nodes",
        ),
        row(
            Some(CalculatedAt::Balanced),
            "balanced",
            4,
            "for each stripe, at its node with the least to compute",
        ),
        row(
            Some(CalculatedAt::Tree),
            "tree",
            5,
            "at all nodes of the stripe, by partial sums in a binary tree",
        ),
    ];
}

impl Valued for Option<CalculatedAt> {
    const KEY: &'static str = "calculator";
    const ROWS: &'static [Row<Self>] = &CalculatedAt::CHOICES;
}

/// Who determines the steps of each worker (docs/internals/architecture.md, the plan).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Each worker, for itself, from the request.
    #[default]
    Collaborative,
    /// The originator: it asks for old content, computes, and says what to write, so that
    /// workers do nothing but read and write. So works a central controller.
    Commanded,
}

impl Dispatch {
    /// All of them.
    pub const CHOICES: [Row<Dispatch>; 2] = [
        row(Dispatch::Collaborative, "collaborative", 1, "each node plans its own part"),
        row(Dispatch::Commanded, "commanded", 2, "the originator commands each step"),
    ];
}

impl Valued for Dispatch {
    const KEY: &'static str = "dispatch";
    const ROWS: &'static [Row<Self>] = &Dispatch::CHOICES;
}

/// For how much of a request a controller that no data passes tells a node in one message (TPT-RAID, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Commands {
    /// For all that a column has to do with it.
    #[default]
    Column,
    /// For a block: what a column has to do with one stripe.
    Block,
}

impl Commands {
    /// All of them.
    pub const CHOICES: [Row<Commands>; 2] = [
        row(Commands::Column, "column", 1, "the column's whole part of the request"),
        row(Commands::Block, "block", 2, "one stripe unit; each stripe is then atomic by itself"),
    ];
}

impl Valued for Commands {
    const KEY: &'static str = "commands";
    const ROWS: &'static [Row<Self>] = &Commands::CHOICES;
}

/// Whether a controller coordinates for all nodes, and whether data passes it (TPT-RAID, section 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controller {
    /// It plans, orders, commits and settles, and sees no data.
    OutOfBand,
    /// All data passes it, and it computes parity.
    InBand,
}

/// Who holds the host's bytes, who coordinates, and who drives the disks (docs/internals/architecture.md, the plan). The first
/// two are the kinds of [`Dispatch`], without a controller; each of the others says the dispatch, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Roles {
    /// The node that the host asks coordinates, and each node drives its own disk.
    Node,
    /// The node that the host asks, or the host itself, coordinates and drives the disks.
    Host,
    /// A controller coordinates, and the node that the host asks keeps the data.
    Controller,
    /// A controller coordinates, has the data and drives the disks.
    Central,
}

impl Roles {
    /// All of them.
    pub const CHOICES: [Row<Roles>; 4] = [
        row(Roles::Node, "node", 1, "each node drives its own disk"),
        row(Roles::Host, "host", 2, "the originator or attached host drives the disks"),
        row(Roles::Controller, "controller", 3, "one node coordinates, and data bypasses it"),
        row(Roles::Central, "central", 4, "one node coordinates, and all data passes through it"),
    ];

    /// Whether there is a controller, and who works out each part.
    pub(super) fn parts(self) -> (Option<Controller>, Dispatch) {
        match self {
            Roles::Node => (None, Dispatch::Collaborative),
            Roles::Host => (None, Dispatch::Commanded),
            Roles::Controller => (Some(Controller::OutOfBand), Dispatch::Collaborative),
            Roles::Central => (Some(Controller::InBand), Dispatch::Commanded),
        }
    }

    /// The other way round.
    pub(super) fn of(controller: Option<Controller>, dispatch: Dispatch) -> Roles {
        match (controller, dispatch) {
            (Some(Controller::OutOfBand), _) => Roles::Controller,
            (Some(Controller::InBand), _) => Roles::Central,
            (None, Dispatch::Collaborative) => Roles::Node,
            (None, Dispatch::Commanded) => Roles::Host,
        }
    }
}

impl Valued for Roles {
    const KEY: &'static str = "roles";
    const ROWS: &'static [Row<Self>] = &Roles::CHOICES;
}

/// When a write is decided (docs/internals/architecture.md, commit and settling).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Commit {
    /// When every participant holds its final content. (With the journal on, a parity column
    /// that holds the change has that: it is added to what is there when it is put in place.)
    Late,
    /// When the write can be finished without any one node: a parity column votes when it holds
    /// the change, before it has read the old parity. With the journal on this is no other than
    /// late commit.
    Early,
    /// Each participant writes as soon as it can: for measuring only.
    None,
    /// When the originator has heard from every device that will write that nothing stands against
    /// it: nothing is written before, and no votes follow. If the originator dies in between, the
    /// stripe is made consistent, but the write may have happened in part: the limited atomicity
    /// of shared storage 3.2.3, for commanded dispatch.
    Limited,
}

impl Commit {
    /// All of them.
    pub const CHOICES: [Row<Commit>; 4] = [
        row(Commit::Late, "late", 1, "when every node holds its part"),
        Row {
            kind: Kind::Measuring,
            ..row(
                Commit::Early,
                "early",
                3,
                "when no single node is needed to finish it; disks commit late",
            )
        },
        Row {
            kind: Kind::Warned(
                "commit=limited: there are no votes and no journal. If a node dies or power fails during a write, the write \
                 may be partly applied; if a disk is lost at the same time, its data in that stripe may be lost too",
            ),
            ..row(
                Commit::Limited,
                "limited",
                4,
                "when every participant has agreed, without votes; a write may be partly applied",
            )
        },
        Row {
            kind: Kind::Measuring,
            ..row(Commit::None, "none", 2, "never: each node writes as soon as it can")
        },
    ];

    /// Whether a write is decided by votes, so that it happens or does not.
    pub fn is_voted(self) -> bool {
        matches!(self, Commit::Late | Commit::Early)
    }
}

impl Valued for Commit {
    const KEY: &'static str = "commit";
    const ROWS: &'static [Row<Self>] = &Commit::CHOICES;
}

/// Who goes first among requests that overlap (docs/internals/ordering.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ordering {
    /// Nobody sees to it: the zero-overhead protocol of shared storage 4.1, for comparison.
    None,
    /// A sequencer that knows the graph of requests (TickerTAIP 3.4).
    Sequencer,
    /// A lock server (shared storage 4.2.1).
    LockServer,
    /// A lock server whose locks hosts keep until they are called back (4.2.2).
    CallbackLocks,
    /// Locks that each disk's worker serves for its own sectors (4.4).
    DeviceLocks,
    /// Timestamps that each disk's worker checks for its own sectors (4.5).
    #[default]
    Timestamps,
}

impl Ordering {
    /// All of them.
    pub const ALL: [Ordering; 6] = [
        Ordering::None,
        Ordering::Sequencer,
        Ordering::LockServer,
        Ordering::CallbackLocks,
        Ordering::DeviceLocks,
        Ordering::Timestamps,
    ];

    /// All of them, with their words.
    pub const CHOICES: [Row<Ordering>; 6] = [
        Row {
            kind: Kind::Warned(
                "ordering=none: overlapping requests and concurrent writes to one stripe may leave wrong parity; it is for \
                 comparison only",
            ),
            ..row(Ordering::None, "none", 1, "not at all")
        },
        row(Ordering::Sequencer, "sequencer", 2, "a sequencer with a graph of requests"),
        row(Ordering::LockServer, "lock-server", 3, "a lock server"),
        row(
            Ordering::CallbackLocks,
            "callback-locks",
            4,
            "a lock server whose locks hosts keep until called back",
        ),
        row(Ordering::DeviceLocks, "device-locks", 5, "locks at each disk's node"),
        row(Ordering::Timestamps, "timestamps", 6, "timestamps checked at each disk's node"),
    ];

    /// Whether a lock server keeps it, and if so, whether originators keep locks until they are called
    /// back.
    pub fn keeps_locks(self) -> Option<bool> {
        match self {
            Ordering::LockServer => Some(false),
            Ordering::CallbackLocks => Some(true),
            _ => None,
        }
    }

    /// Its name in commands and files.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Valued for Ordering {
    const KEY: &'static str = "ordering";
    const ROWS: &'static [Row<Self>] = &Ordering::CHOICES;
}

/// Who knows which part of the sequencer's graph, and who tells whom (TickerTAIP 3.4.4). What each costs is said
/// in [`crate::order::sequencer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SequencerForm {
    /// A primary, with a backup, knows all and says when each request begins (1).
    #[default]
    Centralized,
    /// A primary, with a backup, gives each request its place; the end of each is told to all
    /// nodes, and each request begins when its own node has heard what it needs (2).
    PartiallyCentralized,
    /// The originators agree among themselves on each request's place; then as before (3).
    OriginatorDriven,
    /// All nodes with disks agree on it, whether hosts ask them or not (4).
    WorkerDriven,
}

impl SequencerForm {
    /// All of them, as TickerTAIP numbers them.
    pub const ALL: [SequencerForm; 4] = [
        SequencerForm::Centralized,
        SequencerForm::PartiallyCentralized,
        SequencerForm::OriginatorDriven,
        SequencerForm::WorkerDriven,
    ];

    /// All of them, with their words.
    pub const CHOICES: [Row<SequencerForm>; 4] = [
        row(
            SequencerForm::Centralized,
            "centralized",
            1,
            "a primary with a backup starts each request",
        ),
        row(
            SequencerForm::PartiallyCentralized,
            "partially-centralized",
            2,
            "a primary assigns places, and the end of each request is broadcast",
        ),
        row(
            SequencerForm::OriginatorDriven,
            "originator-driven",
            3,
            "the originators agree on places",
        ),
        row(
            SequencerForm::WorkerDriven,
            "worker-driven",
            4,
            "all nodes with disks agree on places",
        ),
    ];

    /// Its name in commands and files.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Valued for SequencerForm {
    const KEY: &'static str = "sequencer";
    const ROWS: &'static [Row<Self>] = &SequencerForm::CHOICES;
}

/// How long logical blocks are.
pub(super) const BLOCKS: [Row<u64>; 2] = [
    row(Policy::BLOCK, "512", 0, "blocks of 512 bytes in physical blocks of 4,096"),
    row(Policy::LONG_BLOCK, "4096", 1, "blocks of 4,096 bytes"),
];

/// Whether writes go to a journal before they are voted on.
pub(super) const JOURNAL: [Row<bool>; 2] = [
    row(true, "on", 1, "writes are journalled before the vote, and durable then"),
    row(false, "off", 0, "writes are durable at their final location"),
];
