//! What earlier checks drew: seeds that once failed keep their runs.

use weft_core::order::Ordering;
use weft_core::policy::Commit;

use super::super::*;

/// What was drawn when hosts were never silent all together.
pub const WITHOUT_LULLS: Options = Options { lulls: false, ..WITHOUT_REPEATS };

/// What was drawn when no host asked again for anything.
pub const WITHOUT_REPEATS: Options = Options { repeats: false, ..USUAL };

/// What was drawn when no rare paths were forced.
pub const USUAL: Options = Options { rare: Some(false), ..MDS };

/// What was drawn when parity covered all data of a stripe in all runs.
pub const MDS: Options = Options { local: false, ..FIXED };

/// What was drawn when nobody was given up but by an operator.
pub const PATIENT: Options = Options { gives_up: Some(false), ..UNCONTROLLED };

/// What was drawn when no controller coordinated.
pub const UNCONTROLLED: Options = Options { controller: Some(None), ..BY_THEMSELVES };

/// What was drawn when no column calculated for others.
pub const BY_THEMSELVES: Options = Options { columns: false, ..UNDIVIDED };

/// The draw from before slow disks left the map where there are processes.
pub const FAST: Options = Options { latest: Latest::ShortLeases, ..Options::DEFAULT };

/// The draw from before all power went while a disk was replaced by an older copy of itself.
pub const LIT: Options = Options { latest: Latest::Relapses, ..FAST };

/// The draw from before small writes were copied.
pub const UNCOPIED: Options = Options { copies: Some(false), ..LIT };

/// The draw from before nodes left again just when they had what they missed.
pub const LASTING: Options = Options { latest: Latest::HangsAnywhere, ..UNCOPIED };

/// The draw from before file systems of disks were full, and disks hung in all situations.
pub const ROOMY: Options =
    Options { faults: Faults { full: false, ..Faults::ALL }, latest: Latest::Nothing, ..LASTING };

/// The draw from before hosts reserved volumes.
pub const UNRESERVED: Options = Options { reserves: Some(false), ..ROOMY };

/// Without thin volumes.
pub const THICK: Options = Options { thin: false, ..UNRESERVED };

/// The draw from before columns moved while a volume got another size and slow disks left the map.
pub const UNMOVED: Options = Options { moves_when_sized: false, takes_out: false, ..THICK };

/// What was drawn when nothing that free slots held was discarded.
pub const UNDISCARDED: Options = Options { discards: false, ..UNMOVED };

/// What was drawn when no disk had slots.
pub const UNSLOTTED: Options = Options { slots: false, ..UNMOVED };

/// What was drawn when one node served all locks.
pub const UNDIVIDED: Options = Options { divides_locks: false, ..UNSLOTTED };

/// What was drawn when nobody changed what a volume chooses.
pub const FIXED: Options = Options { choices: false, deferral: Some(false), ..PATIENT };

/// Rare paths in all runs.
pub const RARE: Options = Options { rare: Some(true), ..MDS };

/// What was drawn when one authority ruled in all runs.
pub const ALONE: Options =
    Options { members: Some(false), commit: Some(Commit::Late), ..WITHOUT_LULLS };

/// What was drawn when there was no other ordering.
pub const BY_TIMESTAMPS: Options = Options {
    ordering: Some(Ordering::Timestamps),
    places: false,
    faults: Faults { operator: false, ..ROOMY.faults },
    ..ALONE
};
