//! How a seed is run, and what a run was like.

use weft_core::layout::LayoutSpec;
use weft_core::node::Bug;
use weft_core::order::Ordering;
use weft_core::order::sequencer::SequencerForm;
use weft_core::policy::{Commit, Roles};
use weft_core::units::Nanos;

use crate::world::Comings;

/// Which kinds of faults happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Victims die and return.
    pub crashes: bool,
    /// All power is cut.
    pub power: bool,
    /// Victims' sectors rot or cannot be read.
    pub rot: bool,
    /// Victims' disks lie: what was written is zeroed, torn, rolled back, lost or elsewhere, anywhere on the disk,
    /// or an older copy of the disk comes in its place.
    pub damage: bool,
    /// Disks answer writes and flushes with errors.
    pub refusals: bool,
    /// Messages are lost, repeated, and take long.
    pub messages: bool,
    /// A disk is slow.
    pub slow: bool,
    /// Disks end nothing for a while, or until their nodes are taken out. In half of the seeds reads go round them.
    pub hangs: bool,
    /// The file systems of disks are full for a while: what writes there does not end, and hosts' writes are refused.
    pub full: bool,
    /// Of the operations of a victim's disk some end with errors that pass, in some runs.
    pub errors: bool,
    /// More nodes are down at once than the layout bears. Requests may then fail, but nothing
    /// that was acknowledged may be lost once all have returned.
    pub beyond: bool,
    /// What is on a node is moved to others.
    pub moves: bool,
    /// An operator moves columns until disks are equally full and changes the volume's size; where there
    /// are processes, some are admitted later, and some leave.
    pub operator: bool,
    /// Processes are stopped for a while, where there are some.
    pub pauses: bool,
    /// Processes are cut off from others, where there are some.
    pub cuts: bool,
    /// Links between processes break, where there are some and they find ways round them.
    pub links: bool,
}

impl Faults {
    /// All kinds.
    pub const ALL: Faults = Faults {
        crashes: true,
        power: true,
        rot: true,
        damage: true,
        refusals: true,
        messages: true,
        slow: true,
        hangs: true,
        full: true,
        errors: true,
        beyond: true,
        moves: true,
        operator: true,
        pauses: true,
        cuts: true,
        links: true,
    };

    /// No faults.
    pub const NONE: Faults = Faults {
        crashes: false,
        power: false,
        rot: false,
        damage: false,
        refusals: false,
        messages: false,
        slow: false,
        hangs: false,
        full: false,
        errors: false,
        beyond: false,
        moves: false,
        operator: false,
        pauses: false,
        cuts: false,
        links: false,
    };

    /// Each kind alone.
    pub(super) fn each_left_out(&self) -> [Faults; 16] {
        let none = Faults::NONE;
        [
            Faults { beyond: true, ..none },
            Faults { moves: true, ..none },
            Faults { operator: true, ..none },
            Faults { cuts: true, ..none },
            Faults { links: true, ..none },
            Faults { pauses: true, ..none },
            Faults { slow: true, ..none },
            Faults { hangs: true, ..none },
            Faults { full: true, ..none },
            Faults { errors: true, ..none },
            Faults { rot: true, ..none },
            Faults { damage: true, ..none },
            Faults { refusals: true, ..none },
            Faults { messages: true, ..none },
            Faults { power: true, ..none },
            Faults { crashes: true, ..none },
        ]
    }

    pub(super) fn minus(&self, other: Faults) -> Faults {
        Faults {
            crashes: self.crashes && !other.crashes,
            power: self.power && !other.power,
            rot: self.rot && !other.rot,
            damage: self.damage && !other.damage,
            refusals: self.refusals && !other.refusals,
            messages: self.messages && !other.messages,
            slow: self.slow && !other.slow,
            hangs: self.hangs && !other.hangs,
            full: self.full && !other.full,
            errors: self.errors && !other.errors,
            beyond: self.beyond && !other.beyond,
            moves: self.moves && !other.moves,
            operator: self.operator && !other.operator,
            pauses: self.pauses && !other.pauses,
            cuts: self.cuts && !other.cuts,
            links: self.links && !other.links,
        }
    }
}

/// The latest additions to the draw, each with all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latest {
    /// None of it.
    Nothing,
    /// Disks hang also when their nodes start, before too many nodes are lost, and where there are processes.
    HangsAnywhere,
    /// Nodes may leave again just when they have caught up.
    Relapses,
    /// All power may go while a disk is replaced by an older copy of itself, where hosts ask again.
    Blackouts,
    /// Copied writes are folded, and copied again, after idle times of other lengths than the usual.
    IdleTimes,
    /// Leases of locks may be about as long as a request takes.
    ShortLeases,
    /// Nodes of slow disks are taken out also where there are processes.
    SlowProcesses,
}

/// How a seed is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Operations of the hosts in each phase.
    pub operations: u32,
    /// Phases.
    pub phases: u32,
    /// The faults that may happen.
    pub faults: Faults,
    /// In half of the seeds there are more hosts, and they also flush, trim and ask for holes.
    pub wide: bool,
    /// The layout; drawn if open.
    pub layout: Option<LayoutSpec>,
    /// Whether codes are drawn whose parities cover different data.
    pub local: bool,
    /// Whether an operator may change what the volume chooses while hosts use it.
    pub choices: bool,
    /// Whether he may have ranges of it choose for themselves when parity is computed, where it may wait.
    pub ranges: bool,
    /// Whether columns may move while the volume gets another size.
    pub moves_when_sized: bool,
    /// Whether nodes may be taken out whose disks are slow.
    pub takes_out: bool,
    /// The latest addition that is drawn.
    pub latest: Latest,
    /// Whether nodes that are down for long are given up by themselves; drawn if open.
    pub gives_up: Option<bool>,
    /// Which controller coordinates, if it is not drawn whether one does.
    pub controller: Option<Option<Roles>>,
    /// Whether columns may calculate for one another.
    pub columns: bool,
    /// Whether the locks of a lock server may be divided among several nodes.
    pub divides_locks: bool,
    /// Whether disks may have slots.
    pub slots: bool,
    /// Whether what free slots hold may be discarded.
    pub discards: bool,
    /// Whether the volume may be thin, where disks have slots.
    pub thin: bool,
    /// Whether parity may wait; drawn if open.
    pub deferral: Option<bool>,
    /// Whether small writes are copied to parity's disks; drawn if open.
    pub copies: Option<bool>,
    /// How the volume's requests are ordered; drawn if open.
    pub ordering: Option<Ordering>,
    /// With a sequencer: who keeps the graph of requests; drawn if open.
    pub sequencer: Option<SequencerForm>,
    /// How writes are decided; drawn if open.
    pub commit: Option<Commit>,
    /// Whether requests may have places among others.
    pub places: bool,
    /// Whether there may be times in which no host asks for anything.
    pub lulls: bool,
    /// Whether rare paths are forced; drawn if open.
    pub rare: Option<bool>,
    /// Whether the nodes are in processes that rule together; drawn if open.
    pub members: Option<bool>,
    /// If they are: how many nodes each process has; drawn if open, one in most seeds.
    pub hosted: Option<u16>,
    /// If they are: how many hosts are their own controllers; drawn if open, none in most seeds.
    pub attached: Option<u16>,
    /// If they are: whether they find ways round broken links; drawn if open.
    pub ways: Option<bool>,
    /// Whether hosts ask again, in half of the seeds in which they say nothing of what must come first, for what they
    /// have not heard the end of.
    pub repeats: bool,
    /// Whether hosts reserve the volume, compare before they write and lose sessions, where they say nothing of what must
    /// come first; drawn if open.
    pub reserves: Option<bool>,
    /// A deliberate bug.
    pub bug: Option<Bug>,
    /// A deliberate bug of the members.
    pub member_bug: Option<weft_member::Bug>,
    /// A deliberate bug of the routers.
    pub route_bug: Option<weft_route::Bug>,
}

impl Options {
    /// All faults, and everything drawn.
    pub const DEFAULT: Options = Options {
        operations: 150,
        phases: 2,
        faults: Faults::ALL,
        wide: true,
        layout: None,
        local: true,
        choices: true,
        ranges: true,
        moves_when_sized: true,
        takes_out: true,
        latest: Latest::SlowProcesses,
        gives_up: None,
        controller: None,
        columns: true,
        divides_locks: true,
        slots: true,
        discards: true,
        thin: true,
        deferral: None,
        copies: None,
        ordering: None,
        sequencer: None,
        commit: None,
        places: true,
        lulls: true,
        repeats: true,
        reserves: None,
        rare: None,
        members: None,
        hosted: None,
        attached: None,
        bug: None,
        member_bug: None,
        route_bug: None,
        ways: None,
    };
}

impl Default for Options {
    fn default() -> Self {
        Options::DEFAULT
    }
}

/// What a run that passed was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The layout drawn.
    pub layout: String,
    /// Nodes with disks.
    pub nodes: usize,
    /// Hosts that are their own controllers.
    pub attached: usize,
    /// Operations answered, and not.
    pub answered: u64,
    /// Operations whose host never heard.
    pub unanswered: u64,
    /// Node deaths and power cuts.
    pub crashes: u64,
    /// Events handled.
    pub events: u64,
    /// Simulated time.
    pub time: Nanos,
    /// If the nodes were in processes: terms that had a leader, and maps that were agreed on.
    pub members: Option<(u64, u64)>,
    /// Nodes that were admitted while hosts worked, and nodes that left for good.
    pub comings: Comings,
    /// The longest simulated time from the end of the faults until all was whole.
    pub healing: Nanos,
    /// Requests that had a place among others, and those of them that were refused.
    pub placed: (u64, u64),
    /// How often a host asked again for what it had not heard the end of, and how often nobody could say what
    /// had become of it.
    pub again: (u64, u64),
    /// What hosts did with reservations.
    pub reserved: Reserved,
    /// Writes that relied on parity's being marked already, of nodes that run at the end.
    pub relied: u64,
    /// Attempts at writes that were kept as copies and folds begun, by nodes that run at the end.
    pub copied: (u64, u64),
    /// Disks that have taken the place of one of an earlier version of the format.
    pub upgraded: u64,
    /// Writes of which parity waits that were taken for done though a disk was not asked that was to hold data of them.
    pub settled_in_part: u64,
    /// Maps in which a volume rests, and how often a node said that one is to go on.
    pub rests: (u64, u64),
    /// The run ended early: a disk had lost what it promised just before, and nobody who went on had heard of it.
    pub unremembered: bool,
    /// Writes that were refused since a disk's file system was full.
    pub no_space: u64,
    /// Operations of disks that were drawn to end with errors, by rate.
    pub erred: u64,
    /// How often the node of a slow disk was taken out, and how often one came back by itself.
    pub taken_out: (u64, u64),
    /// How many messages were forged.
    pub forged: u64,
    /// How many nodes were given up without an operator.
    pub given_up: u64,
    /// How much went between processes through others.
    pub detours: u64,
    /// A hash of everything that the hosts saw: equal for equal runs.
    pub fingerprint: u64,
}

/// What hosts did with reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Changes of reservations.
    pub changes: u64,
    /// Writes that hosts left out because they were forbidden.
    pub forbidden: u64,
    /// Writes that were told that reservations had changed since they were permitted.
    pub outdated: u64,
    /// Requests that compared and wrote, and those that found something else.
    pub replaced: (u64, u64),
    /// Sessions that were lost with a request in work.
    pub lost_sessions: u64,
}
