//! A volume's policy: a value for each choice that a volume has (docs/use/user-guide.md, volume policies), stated once.
//!
//! - [`values`]: what can be chosen: of each value its word, its number in the encoding of the map, and what it
//!   means
//! - [`choices`]: the table of the choices, by their keys: what `weft volume set`, options, scenarios, files
//!   and `weft status` call them
//! - `examples`: values of choices that take any number, size or time
//! - [`redundancy`]: when parity is computed, and how long it may wait
//! - [`limits`]: how much hosts may ask of a volume
//! - [`schedule`]: when snapshots are taken without an operator; [`calendar`] has the dates
//! - [`clash`]: what does not go together
//! - [`time`]: lengths of time in words
//!
//! It stands below everything else: plans, the map, both worlds and the commands read it. A new value is a
//! variant and its row in [`values`]; a new choice is a field of [`Policy`], a [`Setting`], and a row in
//! [`CHOICES`].

pub mod calendar;
mod choices;
mod clash;
mod examples;
pub mod limits;
pub(crate) mod redundancy;
mod schedule;
pub mod time;
mod values;

pub use choices::{CHOICES, Choice, Setting, choice, settings};
pub use clash::PolicyError;
pub use limits::VolumeLimits;
pub use redundancy::{Flush, IN_RANGES, Redundancy, Refresh, Start, Timing};
pub use schedule::{Every, Schedule};
pub use values::{
    CalculatedAt, Commands, Commit, Controller, Dispatch, Kind, Ordering, Preference, Roles, Row,
    SequencerForm, Valued, words,
};

use crate::units::{MILLIS, Nanos};

/// What a volume leaves open, settled; `None` lets cost decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How to deal with stripes that are written in part, where there is a choice.
    pub strategy: Option<Preference>,
    /// Where parity is computed.
    pub calculated_at: Option<CalculatedAt>,
    /// Who works out what each worker does.
    pub dispatch: Dispatch,
    /// Whether a controller coordinates for all nodes, and whether data passes it.
    pub controller: Option<Controller>,
    /// With a controller that no data passes: most bytes of a write that go to it with the request all the same.
    pub inline: u64,
    /// With such a controller: for how much of a request it tells a node in one message.
    pub commands: Commands,
    /// When a write is decided.
    pub commit: Commit,
    /// Who goes first among requests that overlap.
    pub ordering: Ordering,
    /// With an ordering of [`Ordering::Sequencer`]: who keeps the graph. One for all volumes of a
    /// cluster that have it.
    pub sequencer: SequencerForm,
    /// Whether a participant journals its part before it votes.
    pub journal: bool,
    /// For how long hosts' requests wait when the volume has lost nodes that it cannot do without; from then
    /// on, until they are back, they fail. [`Policy::FOREVER`] is no bound.
    pub lost_wait: Nanos,
    /// When parity is computed, and how long it may wait.
    pub redundancy: Redundancy,
    /// How much hosts may ask of it.
    pub limits: VolumeLimits,
    /// Within which time 99 of 100 reads and writes of hosts are to end: as long as they do not, work that no host waits for
    /// gives way. [`Policy::UNPROMISED`] is no promise.
    pub p99: Nanos,
    /// When snapshots of it are taken without an operator.
    pub snapshots: Schedule,
    /// Bytes of a logical block, as hosts see it that count in blocks.
    pub block: u64,
}

impl Policy {
    /// The usual length of a logical block.
    pub const BLOCK: u64 = 512;
    /// The other length.
    pub const LONG_BLOCK: u64 = 4096;
    /// Requests wait until the nodes are back.
    pub const FOREVER: Nanos = Nanos::MAX;

    /// Requests may take as long as they do.
    pub const UNPROMISED: Nanos = Redundancy::UNBOUNDED;

    /// The longest time that can be promised.
    pub const LONGEST_P99: Nanos = limits::LONGEST_P99;

    /// What requests wait usually: longer than a process takes to be started again, and less than
    /// the half minute after which the disk drivers of most systems lose patience.
    pub const USUAL_LOST_WAIT: Nanos = 20_000 * MILLIS;

    /// Whether the originator asks every device that will write, before any does, whether it may:
    /// the first phase of shared storage's Figures 7 and 8. Where a server keeps the order, or
    /// nobody does, there is nothing to ask.
    pub fn asks_first(&self) -> bool {
        self.commit == Commit::Limited
            && self.dispatch == Dispatch::Commanded
            && matches!(self.ordering, Ordering::DeviceLocks | Ordering::Timestamps)
    }

    /// Who has which roles.
    pub fn roles(&self) -> Roles {
        Roles::of(self.controller, self.dispatch)
    }

    /// Whether a controller coordinates that no data passes.
    pub fn sees_no_data(&self) -> bool {
        self.controller == Some(Controller::OutOfBand)
    }

    /// Most bytes that may be [`inline`](Policy::inline).
    pub const MOST_INLINE: u64 = 1 << 20;

    /// For how much of a request a node is told what to do in one message.
    pub fn commands(&self) -> Commands {
        if self.sees_no_data() { self.commands } else { Commands::Column }
    }

    /// Whether a write is durable when it is answered.
    pub fn is_journaled(&self) -> bool {
        self.journal && self.commit.is_voted()
    }

    /// Whether writes may rely on marks that are there already. They are durable and hold until parity is computed, which
    /// hosts' writes put off; and what reads and writes the same comes in some order.
    pub fn relies_on_marks(&self) -> bool {
        let redundancy = &self.redundancy;
        let stays = redundancy.timing == Timing::Never || redundancy.refresh == Refresh::Idle;
        redundancy.defers()
            && redundancy.immediate_parities == 0
            && stays
            && self.is_journaled()
            && self.ordering != Ordering::None
    }

    /// The same policy with other values for some choices.
    pub fn with(mut self, settings: impl IntoIterator<Item = Setting>) -> Policy {
        settings.into_iter().for_each(|s| s.apply(&mut self));
        self
    }

    /// Whether a host can write what follows from what stands there, as one transaction: timestamps must see to it that
    /// nothing comes between, votes that the write can be refused, and whoever asks must be its originator.
    pub fn can_modify(&self) -> bool {
        !matches!(self.ordering, Ordering::None | Ordering::DeviceLocks)
            && self.commit.is_voted()
            && self.controller.is_none()
    }

    /// Everything that it says.
    pub fn settings(&self) -> Vec<Setting> {
        CHOICES.iter().map(|c| c.of(self)).collect()
    }

    /// What whoever has chosen it must know.
    pub fn warnings(&self) -> impl Iterator<Item = &'static str> + '_ {
        CHOICES.iter().filter_map(|c| c.of(self).warning())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            strategy: None,
            calculated_at: None,
            dispatch: Dispatch::Collaborative,
            controller: None,
            inline: 0,
            commands: Commands::Column,
            commit: Commit::Late,
            ordering: Ordering::Timestamps,
            sequencer: SequencerForm::Centralized,
            journal: true,
            lost_wait: Policy::USUAL_LOST_WAIT,
            redundancy: Redundancy::default(),
            limits: VolumeLimits::default(),
            p99: Policy::UNPROMISED,
            snapshots: Schedule::NONE,
            block: Policy::BLOCK,
        }
    }
}

#[cfg(test)]
mod tests;
