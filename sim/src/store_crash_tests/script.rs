//! What happens to the store: scripts of all that can.

use weft_core::store::ChangeKind::{self, Content, Delta, Mark};

use super::copies::{COPY, FOLD};

use Act::*;

/// Sectors of a slot.
pub(super) const SLOT: u64 = 4;
/// Slots of the disk.
pub(super) const SLOTS: u64 = 24;

/// One thing that happens to the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// A write of so many sectors is prepared.
    Write(u64, u64, ChangeKind, u8),
    /// The last write that is undecided commits, or aborts, once it is prepared.
    Commit,
    Abort,
    /// What aborted last is prepared again, under the same name.
    Again,
    /// The oldest write of which all know is forgotten.
    Release,
    Checkpoint,
    /// The disk does so many operations.
    Steps(usize),
    /// The disk does all that there is to do.
    Rest,
    /// A sector is read, and the disk does not answer before the next rest.
    Read(u64),
    /// Empty slots may be given back: no disk has missed the discard.
    Forget,
    /// The volume has this many sectors from now on. The others are dropped.
    Keep(u64),
    /// A snapshot is taken.
    Snapshot,
    /// The oldest snapshot is deleted: the next checkpoints merge it.
    Merge,
    /// All of it has been merged.
    Merged,
    /// The volume gets a copy of all that it shows of its snapshots.
    Flatten,
    /// It has that, and the snapshots are gone.
    Flattened,
}

/// Whole slots of content, decided and in place.
pub(super) fn script() -> Vec<Act> {
    let mut acts = vec![
        // Slots 0 and 1 for the first time, then parts of them.
        Write(0, 8, Content, 1),
        Commit,
        Write(1, 1, Content, 2),
        Commit,
        Write(6, 2, Delta, 4),
        Commit,
        Checkpoint,
        Rest,
        Release,
        Release,
        // What was prepared first commits last.
        Write(0, 4, Content, 3),
        Steps(3),
        Commit,
        Write(3, 1, Delta, 8),
        Commit,
        // One slot and a part of another, into places that may have been others'.
        Write(10, 6, Content, 5),
        Commit,
        Checkpoint,
        Steps(4),
        // While that is put in place.
        Write(0, 4, Content, 6),
        Commit,
        Write(2, 1, Delta, 1),
        Commit,
        Rest,
        Release,
        Release,
        Release,
        Checkpoint,
        Read(0),
        Steps(30),
        Write(0, 8, Content, 7),
        Commit,
        Checkpoint,
        Steps(30),
        // Into what is free again, but for what is still read.
        Write(20, 4, Content, 9),
        Steps(2),
        Rest,
        Commit,
        // A discard of a whole slot and of a part.
        Write(4, 4, Content, 0),
        Commit,
        Write(13, 2, Content, 0),
        Commit,
        Checkpoint,
        Rest,
        // An abort, and the same content again.
        Write(12, 4, Content, 11),
        Abort,
        Write(12, 4, Content, 11),
        Commit,
        Write(12, 4, Content, 12),
        Commit,
        Write(21, 1, Mark, 0),
        Commit,
        Write(24, 1, Content, 13),
        Commit,
        Checkpoint,
        Steps(6),
    ];
    // At each step of a checkpoint something looks for free slots.
    acts.extend([Rest, Write(0, 4, Content, 14), Commit, Checkpoint]);
    for _ in 0..10 {
        acts.extend([Steps(2), Write(64, 4, Content, 33), Abort]);
    }
    (0..8).for_each(|_| acts.push(Release));
    acts
}

/// Copies, above the old content and replaced by later ones, and their folds; while checkpoints move the tail of the journal.
pub(super) fn copied() -> Vec<Act> {
    let mut acts = vec![Write(0, 8, Content, 1), Commit, Write(8, 8, Content, 2), Commit];
    acts.extend([Release, Checkpoint, Rest, Release, Write(1, 2, COPY, 3), Commit, Checkpoint]);
    acts.extend([Steps(3), Write(2, 1, COPY, 4), Commit, Rest, Write(9, 1, COPY, 5), Abort]);
    // Content below a copy, and a fold while another checkpoint is under way.
    acts.extend([Write(1, 1, Delta, 8), Commit, Checkpoint, Steps(5), Write(1, 2, FOLD, 6)]);
    acts.extend([Commit, Rest, Checkpoint, Rest, Release, Release, Release, Release]);
    acts.extend([Checkpoint, Rest]);
    // An earlier copy that is decided later counts for less.
    acts.extend([Write(10, 1, COPY, 6), Write(10, 2, COPY, 7), Commit, Commit, Release, Release]);
    acts.extend([Checkpoint, Steps(8), Write(10, 1, FOLD, 4), Abort, Write(10, 1, FOLD, 4)]);
    acts.extend([Steps(2), Write(11, 1, COPY, 9), Commit, Commit, Checkpoint, Rest, Release]);
    // A whole slot at a new place below a copy.
    acts.extend([Write(8, 4, Content, 10), Commit, Checkpoint, Rest, Write(8, 4, FOLD, 11)]);
    acts.extend([Commit, Release, Release, Release, Checkpoint, Rest, Release, Checkpoint, Rest]);
    acts.extend([Write(12, 2, COPY, 12), Commit, Checkpoint, Rest]);
    // These remain at the end.
    acts.extend([Write(12, 2, FOLD, 13), Abort, Write(14, 1, COPY, 14), Write(14, 1, COPY, 15)]);
    acts.extend([Commit, Commit]);
    acts
}

/// What cannot go to its place for long is carried, while small writes fill the journal again and again: undecided writes, a copy
/// that is replaced before it is decided, copies that stay, and content over undecided content.
pub(super) fn carrying() -> Vec<Act> {
    let mut acts = vec![Write(0, 16, Content, 1), Commit, Release, Checkpoint, Rest];
    acts.extend([Write(20, 1, Content, 2), Write(24, 2, Delta, 3), Write(28, SLOT, Content, 4)]);
    acts.extend([Write(33, 1, Mark, 0), Write(14, 1, COPY, 5), Rest, Write(14, 1, FOLD, 6)]);
    acts.extend([Commit, Write(9, 2, COPY, 7), Commit, Write(10, 1, COPY, 8), Commit]);
    acts.extend([Write(20, 1, Content, 9), Commit, Write(25, 1, Delta, 16), Commit, Release]);
    let around = |acts: &mut Vec<Act>, count: u8| {
        for n in 0..count {
            let kind = if n % 3 == 0 { Delta } else { Content };
            acts.extend([Write(u64::from(n % 4), 1, kind, 20 + n), Commit, Release]);
            if n % 3 == 2 {
                acts.extend([Checkpoint, Steps(usize::from(n % 8))]);
            }
        }
    };
    around(&mut acts, 48);
    // The copy, the mark, the slot, the delta and the content, in this order.
    acts.extend([Commit, Abort, Commit, Commit, Abort]);
    around(&mut acts, 18);
    acts.extend([Write(9, 2, FOLD, 10), Commit, Release, Checkpoint, Rest]);
    around(&mut acts, 9);
    acts
}

/// Copies that are carried while undecided writes are in the journal that will replace them, and are decided much later. One copy
/// is decided, and one is not.
pub(super) fn carrying_folded() -> Vec<Act> {
    let mut acts = vec![Write(0, 16, Content, 1), Commit, Release, Checkpoint, Rest];
    acts.extend([Write(9, 2, COPY, 7), Commit, Release, Rest, Write(14, 1, COPY, 4), Rest]);
    acts.extend([Write(14, 1, FOLD, 3), Rest, Write(9, 2, FOLD, 8), Rest]);
    acts.extend([Write(12, 1, COPY, 5), Commit, Release, Rest]);
    let around = |acts: &mut Vec<Act>, count: u8| {
        for n in 0..count {
            acts.extend([Write(u64::from(n % 4), 1, Content, 20 + n), Commit, Release]);
            if n % 3 == 2 {
                acts.extend([Checkpoint, Steps(usize::from(n % 8))]);
            }
        }
    };
    around(&mut acts, 30);
    acts.extend([Commit, Release, Checkpoint, Rest, Commit, Release, Checkpoint, Rest]);
    around(&mut acts, 12);
    acts.extend([Commit, Release]);
    around(&mut acts, 6);
    acts
}

/// Deltas on what is in place, decided before a checkpoint, with it and after it.
pub(super) fn adding() -> Vec<Act> {
    let mut acts = vec![Write(0, 5, Content, 1), Commit, Release, Checkpoint, Rest];
    for byte in [2, 4] {
        acts.extend([Write(1, 2, Delta, byte), Commit, Checkpoint, Rest, Release]);
    }
    acts.extend([Write(0, 4, Content, 8), Commit, Write(3, 2, Delta, 16), Rest, Checkpoint, Rest]);
    acts.extend([Commit, Checkpoint, Rest]);
    acts
}

/// An undecided write keeps the journal from forgetting checkpoints that are done, while a slot moves twice and gets a delta;
/// between the moves perhaps a small write.
pub(super) fn pinned(small: bool) -> Vec<Act> {
    let mut acts =
        vec![Write(40, 1, Content, 1), Write(0, 4, Content, 2), Commit, Checkpoint, Rest];
    if small {
        acts.extend([Write(1, 1, Content, 9), Commit, Checkpoint, Rest]);
    }
    acts.extend([Write(0, 4, Content, 3), Commit, Write(1, 1, Delta, 4), Commit, Checkpoint, Rest]);
    acts
}

/// All slots are written, again and again, until none is left that is free.
pub(super) fn filling() -> Vec<Act> {
    let mut acts = Vec::new();
    for round in 0..3 {
        for slot in 0..SLOTS {
            let byte = 20 + (slot as u8) + 40 * round;
            acts.push(match (slot + u64::from(round)) % 5 {
                0 => Write(slot * SLOT + 1, 1, Content, byte),
                1 => Write(slot * SLOT, SLOT, Delta, byte),
                _ => Write(slot * SLOT, SLOT, Content, byte),
            });
            acts.extend([Commit, Release]);
            if slot % 4 == 3 {
                acts.push(Checkpoint);
            }
        }
    }
    acts.extend([Checkpoint, Rest]);
    acts
}

/// Small writes into slots that have no place yet, while whole slots of others are undecided.
pub(super) fn short_of_slots() -> Vec<Act> {
    let mut acts = vec![Write(0, 11 * SLOT, Content, 1), Commit, Release, Checkpoint, Rest];
    // None of these takes the place of another, and they need two slots.
    for sector in 0..2 * SLOT {
        acts.extend([Write(20 * SLOT + sector, 1, Content, 10), Commit]);
    }
    acts.extend([Write(0, 11 * SLOT, Content, 2), Write(11 * SLOT, 2 * SLOT, Content, 3), Rest]);
    for round in 0..8 {
        acts.extend([Write(22 * SLOT, 1, Content, 20 + round), Commit]);
    }
    acts
}

/// What is aborted while it is on its way to the disk is prepared again, under the same name.
pub(super) fn prepared_again() -> Vec<Act> {
    let mut acts = Vec::new();
    for steps in 0..4 {
        let slot = 2 + u64::from(steps);
        acts.extend([Write(slot * SLOT, SLOT, Content, 40 + steps), Steps(steps.into()), Abort]);
        acts.extend([Again, Steps(2), Rest, Commit, Release, Checkpoint]);
    }
    acts
}

/// Small writes that fill the journal again and again, and at each step of a checkpoint one that waits for room there.
pub(super) fn crowding() -> Vec<Act> {
    let mut acts = Vec::new();
    for round in 0..6 {
        for n in 0..8 {
            acts.extend([Write(4 * n + 1, 2, Content, 10 * round + n as u8 + 1), Commit, Release]);
        }
        acts.push(Checkpoint);
        for n in 0..12 {
            acts.extend([Steps(1), Write(4 * n + 41, 2, Content, 10 * round + n as u8 + 1)]);
        }
        acts.extend([Commit; 12]);
        acts.extend([Release; 12]);
    }
    acts
}

/// All slots are in use but for some, and what those had is discarded, while new content looks for room.
pub(super) fn discarding() -> Vec<Act> {
    let mut acts = vec![Write(0, 20 * SLOT, Content, 1), Commit, Checkpoint, Rest, Release];
    for round in 1..4 {
        let byte = 50 * round;
        acts.extend([Write(0, 4 * SLOT, Content, byte), Commit, Checkpoint, Rest, Release]);
        // Four are free that hold what was there before.
        acts.extend([Checkpoint, Steps(usize::from(round) - 1)]);
        for n in 0..4 {
            acts.extend([Write((4 + u64::from(n)) * SLOT, SLOT, Content, byte + 1 + n), Commit]);
            acts.push(Steps(1));
        }
        acts.extend([Rest, Checkpoint, Rest, Release, Release, Release, Release]);
    }
    acts
}

/// Discarded slots are given back one by one, and written again meanwhile: in part, as a whole, before its place is free and
/// after.
pub(super) fn given_back() -> Vec<Act> {
    let mut acts = vec![Write(0, 6 * SLOT, Content, 1), Commit, Release, Checkpoint, Rest];
    for round in 0..3 {
        let byte = 60 + 10 * round;
        acts.extend([Write(SLOT, 4 * SLOT, Content, 0), Commit, Checkpoint, Rest, Release]);
        acts.extend([Forget, Checkpoint, Steps(2 + 3 * usize::from(round))]);
        acts.extend([Write(SLOT + 1, 2, Content, byte), Commit]);
        acts.extend([Write(2 * SLOT, SLOT, Content, byte + 1), Commit]);
        acts.extend([Write(3 * SLOT + 2, 1, Delta, byte + 2), Commit]);
        acts.extend([Steps(3), Write(8 * SLOT, SLOT, Content, byte + 3), Commit, Checkpoint, Rest]);
        acts.extend([Release; 5]);
        acts.extend([Forget, Checkpoint, Rest]);
    }
    acts
}

/// A volume is made smaller, and larger again.
pub(super) fn cut_off() -> Vec<Act> {
    let mut acts = vec![Write(0, 12 * SLOT, Content, 1), Commit, Release, Checkpoint, Rest];
    for round in 0..2 {
        acts.extend([Write(11 * SLOT + 1, 1, Content, 70 + round), Commit]);
        acts.extend([Keep(3 * SLOT + 1), Checkpoint, Steps(3 + usize::from(round)), Release]);
        acts.extend([Write(2 * SLOT, 2, Content, 80 + round), Commit, Checkpoint, Rest]);
        acts.extend([Keep(SLOTS * SLOT), Write(4 * SLOT, 8 * SLOT, Content, 0), Commit, Release]);
        acts.extend([Write(5 * SLOT, 4 * SLOT, Content, 90 + round), Commit, Checkpoint, Rest]);
        acts.extend([Release; 4]);
    }
    acts
}

/// Two snapshots are taken, and merged again, between changes of what they show.
pub(super) fn snapshots() -> Vec<Act> {
    let mut acts = vec![Write(0, 6 * SLOT, Content, 1), Commit, Write(1, 2, Delta, 2), Commit];
    acts.extend([Checkpoint, Rest, Release, Release]);
    for round in 0..2 {
        let byte = 50 + 20 * round;
        acts.extend([
            Snapshot,
            Write(1, 1, Delta, byte),
            Commit,
            Write(SLOT + 2, 2, Content, byte),
        ]);
        acts.extend([Commit, Write(2 * SLOT, SLOT, Content, byte + 1), Commit]);
        acts.extend([
            Write(3 * SLOT, 2, Content, 0),
            Commit,
            Write(4 * SLOT + 1, 1, Mark, 0),
            Commit,
        ]);
        acts.extend([
            Checkpoint,
            Steps(3 + 4 * usize::from(round)),
            Write(1, 1, Delta, byte + 2),
            Commit,
        ]);
        acts.extend([Write(4 * SLOT + 1, 1, Content, byte + 3), Commit, Checkpoint, Rest]);
        acts.extend([Release; 7]);
        // What nothing lay below.
        acts.extend([Write(7 * SLOT + 1, 2, Delta, byte + 4), Commit, Checkpoint, Rest, Release]);
    }
    for round in 0..2 {
        let byte = 90 + 20 * round;
        acts.extend([Merge, Checkpoint, Steps(4), Write(5 * SLOT + 1, 1, Delta, byte), Commit]);
        acts.extend([Checkpoint, Rest, Write(2, 3, Content, byte + 1), Commit, Merged]);
        acts.extend([Write(1, 1, Delta, byte + 2), Commit, Checkpoint, Rest]);
        acts.extend([Release; 3]);
    }
    acts
}

/// Snapshots are taken, and the volume becomes independent of them between changes. With `merges` one is merged meanwhile.
pub(super) fn flattening(merges: bool) -> Vec<Act> {
    let mut acts = vec![Write(0, 6 * SLOT, Content, 1), Commit, Write(1, 2, Delta, 2), Commit];
    acts.extend([Write(9 * SLOT + 1, 2, Content, 3), Commit, Checkpoint, Rest]);
    acts.extend([Write(3 * SLOT, SLOT, Content, 0), Commit, Write(5 * SLOT, 1, Content, 0)]);
    acts.extend([
        Commit,
        Snapshot,
        Write(1, 1, Delta, 50),
        Commit,
        Write(SLOT + 2, 2, Content, 51),
    ]);
    acts.extend([Commit, Write(9 * SLOT + 2, 1, Mark, 0), Commit, Checkpoint, Rest]);
    acts.extend([Release; 5]);
    acts.extend([Snapshot, Write(2, 1, Content, 60), Commit, Write(7 * SLOT, 2, Delta, 61)]);
    acts.extend([Commit, Flatten, Checkpoint, Steps(4), Write(4 * SLOT, 3, Delta, 62), Commit]);
    if merges {
        acts.extend([Merge, Checkpoint, Steps(5)]);
    }
    acts.extend([Checkpoint, Steps(6), Write(SLOT + 1, 1, Delta, 63), Commit, Checkpoint, Rest]);
    acts.extend([Write(2 * SLOT + 1, 2, Content, 0), Commit, Checkpoint, Rest]);
    acts.extend([Release; 6]);
    if merges {
        acts.push(Merged);
    }
    acts.extend([Flattened, Write(SLOT, 2, Delta, 64), Commit, Checkpoint, Rest]);
    acts.extend([Release; 4]);
    acts
}
