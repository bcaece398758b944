//! Deliberate bugs, which the simulation check must find: the proof that it bites. Elsewhere the code asks
//! a question that has one right answer; with a bug it gets the wrong one here.

use super::NodeConfig;
use crate::Buffer;
use crate::cluster::{AuthorityBug, Volume};
use crate::store::StoreBug;

/// Deliberate bugs that the simulation check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The host is answered one vote early.
    AnswerBeforeLastVote,
    /// Now and then a data worker forgets to send a delta.
    LostDelta,
    /// One of its store.
    Store(StoreBug),
    /// One of the authority.
    Authority(AuthorityBug),
    /// Now and then what a child in a tree of columns has added up is added twice.
    ChildTwice,
    /// Reads do not wait for undecided writes that come before them.
    StaleRead,
    /// Messages of an epoch that is over are acted on.
    NoFencing,
    /// Who does not know what became of a write takes it to have happened.
    GuessedCommit,
    /// A disk that catches up misses a sector now and then.
    MissedSector,
    /// Parity that has not been written shows that no column of its row has been, whatever it covers.
    AnyWitness,
    /// What a disk shows as written while its node was away counts as later than what others wrote meanwhile.
    ShownWhileAway,
    /// Content rebuilt on a disk counts as later than updates that parity has received since.
    PutBackWithAll,
    /// Parity waits though a disk is expected to fail.
    SuspectWaits,
    /// Parity waits though twice a bound is exposed.
    BeyondBounds,
    /// A request begins before those that it is to come after are complete.
    BeginsEarly,
    /// A volume that rests is written to.
    DisturbsRest,
    /// Repeated requests are done again, whatever their outcome.
    RepeatsBlindly,
    /// Writes begin although reservations have changed since they were permitted.
    IgnoresReservations,
    /// Requests of a host that is gone still begin.
    WorksForTheGone,
    /// A hedged read uses what its first attempt has read.
    HedgeMixesTimes,
    /// What a disk ends late counts in its node's next life. It is one of whoever runs nodes.
    LateCompletion,
    /// Devices take locks back, and do not count with messages of those that had them.
    OutlivesLocks,
    /// A read-modify-write writes at a later timestamp than it reads.
    WritesLater,
    /// Slots of thin volumes are given back though a disk may have missed the discard.
    GivesBackTooSoon,
    /// Writes are prepared though the disk has no space for them.
    PromisesTooMuch,
    /// A difference leaves out sectors that are zeros now.
    ForgetsZeros,
    /// A disk that was away catches up on volumes, and not on their snapshots.
    ForgetsSnapshots,
    /// A host's request has sectors of a stale disk rebuilt in a deleted snapshot that is being merged, instead of in the
    /// volume that shows it.
    RebuildsMerged,
    /// A disk that lacks content of a volume believes that what it has of a deleted snapshot is newer.
    BelievesHidden,
    /// Jobs of a deleted snapshot go on while it is merged.
    ReadsMerged,
    /// A write that is settled after a snapshot counts as one of the volume, and not of the snapshot.
    SettlesInNewest,
    /// The same, where only the originator takes it for one of the volume.
    DecidesInNewest,
    /// A write that begins soon after a snapshot is in it.
    WritesToSnapshot,
    /// The content of a deleted snapshot is dropped though others show it.
    DropsDeleted,
    /// A node that is frozen tells of the oldest write that is prepared, and leaves out what has only begun.
    OldestPrepared,
    /// A node that catches up is answered although writes aborted here may be in doubt again.
    UnsafeAborts,
    /// Parity is put on top of new parity that is undecided.
    OnUndecidedContent,
    /// Nobody is told that a write did not happen.
    SilentAborts,
    /// Content computed from other disks is rebuilt over an undecided write.
    OverUndecidedWrite,
    /// A node that has only marked parity forgets the write though the disk with its data is down.
    LoneSurvivor,
    /// A write relies on marks though parity has been computed since.
    ReliesOnGoneMarks,
    /// A write happens though nothing but a mark is left of what a disk that is gone was to write.
    CommitsMarks,
    /// An endpoint and workers believe whoever sends them something of a request.
    KeyUnchecked,
    /// A list of lost data leaves out the last range of each disk.
    ForgetsALoss,
    /// An endpoint answers its host at the controller's word, though pieces are missing.
    MissingPiece,
    /// A cell sees copies where it should see what parity describes.
    CellsSeeCopies,
    /// A fold is not refused though the copies have been replaced.
    FoldsWhatIsGone,
    /// A write that replaces copies does not wait for earlier ones that are undecided.
    FoldsTooEarly,
    /// A disk that gets back what it has missed keeps the copies that it had before.
    KeepsMissedCopies,
    /// A disk is given what it has missed though others have copies of it.
    ShowsBesideCopies,
    /// A write that parity takes in leaves earlier copies of the same data there.
    LeavesCopies,
}

/// What a worker has sent and taken so far: now and then a bug makes nothing of it.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Sent {
    shares: u64,
    sums: u64,
}

impl Sent {
    /// What a data worker sends: what it should, or now and then zeros.
    pub fn share(&mut self, config: &NodeConfig, data: Buffer) -> Buffer {
        self.shares += 1;
        match config.has(Bug::LostDelta) && self.shares.is_multiple_of(50) {
            true => Buffer::Zero(data.len()),
            false => data,
        }
    }

    /// What a column adds to its share of what a child has summed: what came, or now and then that twice, which
    /// cancels out.
    pub fn sum(&mut self, config: &NodeConfig, data: Buffer) -> Buffer {
        self.sums += 1;
        match config.has(Bug::ChildTwice) && self.sums.is_multiple_of(50) {
            true => Buffer::Zero(data.len()),
            false => data,
        }
    }
}

impl NodeConfig {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The same, with the store's bug where the store looks for it.
    pub(super) fn with_store_bug(mut self) -> NodeConfig {
        if let Some(Bug::Store(bug)) = self.bug {
            self.store.bug = Some(bug);
        }
        self
    }

    /// This many votes may be missing when the host is answered.
    pub(super) fn votes_waived(&self) -> usize {
        usize::from(self.has(Bug::AnswerBeforeLastVote))
    }

    /// Whether reads wait for undecided writes that come before them, and see nothing later.
    pub(super) fn orders_reads(&self) -> bool {
        !self.has(Bug::StaleRead)
    }

    /// Whether messages of an epoch that is over are refused.
    pub(super) fn fences(&self) -> bool {
        !self.has(Bug::NoFencing)
    }

    /// Whether one that does not know what became of a write waits until it does.
    pub(super) fn waits_for_outcomes(&self) -> bool {
        !self.has(Bug::GuessedCommit)
    }

    /// Whether all that a disk has missed is taken for missed.
    pub(super) fn catches_up_on_all(&self) -> bool {
        !self.has(Bug::MissedSector)
    }

    /// Whether parity shows only of what it covers that it has not been written.
    pub(super) fn believes_covering_parity_only(&self) -> bool {
        !self.has(Bug::AnyWitness)
    }

    /// Whether what a disk shows as written while its node was away counts as written before.
    pub(super) fn looks_at_times_away(&self) -> bool {
        !self.has(Bug::ShownWhileAway)
    }

    /// Whether content rebuilt on a disk may lack updates that parity has received since.
    pub(super) fn doubts_what_was_put_back(&self) -> bool {
        !self.has(Bug::PutBackWithAll)
    }

    /// Whether a request begins after those that it is to come after.
    pub(super) fn keeps_explicit_order(&self) -> bool {
        !self.has(Bug::BeginsEarly)
    }

    /// Whether nothing is written to a volume that rests.
    pub(super) fn keeps_rest(&self) -> bool {
        !self.has(Bug::DisturbsRest)
    }

    /// Whether the outcome of repeated requests is determined first.
    pub(super) fn recalls(&self) -> bool {
        !self.has(Bug::RepeatsBlindly)
    }

    /// Whether writes begin only under the reservations by which they were permitted.
    pub(super) fn heeds_reservations(&self) -> bool {
        !self.has(Bug::IgnoresReservations)
    }

    /// Whether requests of hosts that are gone are left.
    pub(super) fn heeds_leavers(&self) -> bool {
        !self.has(Bug::WorksForTheGone)
    }

    /// Whether a hedged read reads everything a second time.
    pub(super) fn hedges_afresh(&self) -> bool {
        !self.has(Bug::HedgeMixesTimes)
    }

    /// Whether a read may have lost locks at other devices.
    pub(super) fn doubts_locks(&self) -> bool {
        !self.has(Bug::OutlivesLocks)
    }

    /// Whether a read-modify-write writes at the timestamp of its read.
    pub(super) fn writes_at_once(&self) -> bool {
        !self.has(Bug::WritesLater)
    }

    /// Whether versions are kept while a disk may have missed the discard.
    pub(super) fn keeps_what_was_missed(&self) -> bool {
        !self.has(Bug::GivesBackTooSoon)
    }

    /// Whether zeros count as changes.
    pub(super) fn counts_zeros(&self) -> bool {
        !self.has(Bug::ForgetsZeros)
    }

    /// Whether disks catch up on a volume.
    pub(super) fn catches_up_on(&self, volume: &Volume) -> bool {
        !(self.has(Bug::ForgetsSnapshots) && volume.is_snapshot())
    }

    /// Whether hosts' requests have the volume rebuilt into which a snapshot is merged.
    pub(super) fn rebuilds_what_is_shown(&self) -> bool {
        !self.has(Bug::RebuildsMerged)
    }

    /// Whether a disk doubts what it has of a deleted snapshot while it may lack what hides that.
    pub(super) fn doubts_what_is_hidden(&self) -> bool {
        !self.has(Bug::BelievesHidden)
    }

    /// Whether a deleted snapshot can be read while it is merged.
    pub(super) fn reads_what_is_merged(&self) -> bool {
        self.has(Bug::ReadsMerged) || self.has(Bug::RebuildsMerged)
    }

    /// Whether writes that are not settled follow the address space that they are in.
    pub(super) fn follows_spaces(&self) -> bool {
        !self.has(Bug::SettlesInNewest)
    }

    /// Whether an originator asks the voters of the volume that has the address space of a write.
    pub(super) fn decides_in_its_space(&self) -> bool {
        !self.has(Bug::DecidesInNewest) && self.follows_spaces()
    }

    /// Whether a write of a new epoch is none of a snapshot that was taken with it.
    pub(super) fn begins_after_snapshots(&self) -> bool {
        !self.has(Bug::WritesToSnapshot)
    }

    /// Whether deleted snapshots keep what others show of them.
    pub(super) fn keeps_deleted(&self) -> bool {
        !self.has(Bug::DropsDeleted)
    }

    /// Whether a full disk refuses what needs space.
    pub(super) fn heeds_space(&self) -> bool {
        !self.has(Bug::PromisesTooMuch)
    }

    /// Whether writes that have only begun count as unsettled.
    pub(super) fn counts_begun_writes(&self) -> bool {
        !self.has(Bug::OldestPrepared)
    }

    /// Whether aborts must be safe before who catches up is answered.
    pub(super) fn waits_for_safe_aborts(&self) -> bool {
        !self.has(Bug::UnsafeAborts)
    }

    /// Whether nothing is put on top of new parity that is undecided.
    pub(super) fn waits_for_undecided_content(&self) -> bool {
        !self.has(Bug::OnUndecidedContent)
    }

    /// Whether nothing is put back over a write that is undecided.
    pub(super) fn waits_to_put_back(&self) -> bool {
        !self.has(Bug::OverUndecidedWrite)
    }

    /// Whether a write is remembered until the nodes with its data know it.
    pub(super) fn waits_for_holders(&self) -> bool {
        !self.has(Bug::LoneSurvivor)
    }

    /// Whether no parity of a suspect disk's content is deferred.
    pub(super) fn heeds_suspects(&self) -> bool {
        !self.has(Bug::SuspectWaits)
    }

    /// Whether no parity waits where twice a bound is exposed.
    pub(super) fn heeds_bounds(&self) -> bool {
        !self.has(Bug::BeyondBounds)
    }

    /// Whether a node asked to rely on marks checks whether parity has been computed since.
    pub(super) fn heeds_refreshes(&self) -> bool {
        !self.has(Bug::ReliesOnGoneMarks)
    }

    /// Whether it is looked at what determines the data of those who cannot be asked.
    pub(super) fn trusts_no_mark(&self) -> bool {
        !self.has(Bug::CommitsMarks)
    }

    /// Whether keys are looked at, and who sends something.
    pub(super) fn checks_senders(&self) -> bool {
        !self.has(Bug::KeyUnchecked)
    }

    /// Whether every lost range is listed.
    pub(super) fn lists_all_losses(&self) -> bool {
        !self.has(Bug::ForgetsALoss)
    }

    /// Whether cells see what parity describes, and no copies above it.
    pub(super) fn sees_what_parity_describes(&self) -> bool {
        !self.has(Bug::CellsSeeCopies)
    }

    /// Whether a fold is refused if the copies are not there any more.
    pub(super) fn checks_folds(&self) -> bool {
        !self.has(Bug::FoldsWhatIsGone)
    }

    /// Whether what replaces copies waits for those that are undecided.
    pub(super) fn waits_for_undecided_copies(&self) -> bool {
        !self.has(Bug::FoldsTooEarly)
    }

    /// Whether a disk drops its copies where it gets back what it has missed.
    pub(super) fn drops_missed_copies(&self) -> bool {
        !self.has(Bug::KeepsMissedCopies)
    }

    /// Whether what a disk has missed is computed only where nobody has copies.
    pub(super) fn folds_before_it_shows(&self) -> bool {
        !self.has(Bug::ShowsBesideCopies)
    }

    /// Whether a write that parity takes in drops earlier copies.
    pub(super) fn drops_replaced_copies(&self) -> bool {
        !self.has(Bug::LeavesCopies)
    }

    /// Whether an endpoint waits for all pieces.
    pub(super) fn waits_for_pieces(&self) -> bool {
        !self.has(Bug::MissingPiece)
    }

    /// Whether a node that is told that a write did not happen drops it.
    pub(super) fn heeds_aborts(&self) -> bool {
        !self.has(Bug::SilentAborts)
    }
}
