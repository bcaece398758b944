//! What an entry of the journal cannot say after those before it. No store writes such a journal, so whoever wrote it
//! was wrong in a way that checksums do not show, and nothing in it can be believed.

use super::super::format::{Entry, Redirect, Standing};
use super::super::{FormatError, JournalStore, Write};
use crate::units::Timestamp;

impl JournalStore {
    /// Fails if this entry, of the frame of this number, contradicts what has been replayed.
    pub(super) fn agrees(&self, frame: u64, entry: &Entry) -> Result<(), FormatError> {
        let found = |ts: &Timestamp| self.writes.get(ts).map(Write::is_undecided);
        let wrong = match entry {
            Entry::Prepare { ts, redirects, .. } => match found(ts) {
                Some(_) => Some((*ts, "is prepared, and was prepared before")),
                None if self.has_others(redirects) => Some((*ts, "is in a slot that another has")),
                None => None,
            },
            Entry::Outcome { ts, .. } => {
                found(ts).filter(|undecided| !undecided).map(|_| (*ts, "is decided twice"))
            }
            Entry::Overtaken { ts, .. } => {
                let decided = found(ts).filter(|undecided| !undecided);
                decided.map(|_| (*ts, "is overtaken after it was decided"))
            }
            Entry::Released { ts } => {
                found(ts).filter(|undecided| *undecided).map(|_| (*ts, "is released undecided"))
            }
            Entry::Known { ts, .. } => {
                let undecided = found(ts).filter(|undecided| *undecided);
                undecided.map(|_| (*ts, "is known to have committed, and is undecided"))
            }
            Entry::Carried(carried) => {
                let is_undecided = carried.standing == Standing::Undecided;
                match found(&carried.ts) {
                    Some(undecided) if undecided != is_undecided => {
                        Some((carried.ts, "is carried as what it is not"))
                    }
                    None if self.has_others(&carried.redirects) => {
                        Some((carried.ts, "is in a slot that another has"))
                    }
                    Some(_) | None => None,
                }
            }
            Entry::Apply { .. }
            | Entry::Begin
            | Entry::Checkpoint(_)
            | Entry::Heard(_)
            | Entry::Life(_)
            | Entry::Safe(_) => None,
        };
        match wrong {
            Some((ts, what)) => Err(FormatError::Contradiction { frame, ts, what }),
            None => Ok(()),
        }
    }

    /// Whether one of these places is another's: of an undecided write, or of one that committed and is not in place.
    fn has_others(&self, redirects: &[Redirect]) -> bool {
        let undecided = || self.writes.values().flat_map(Write::redirects).map(|r| r.place);
        redirects.iter().enumerate().any(|(n, redirect)| {
            let twice = redirects[..n].iter().any(|other| other.place == redirect.place);
            twice
                || self.slots.has_moved_to(redirect.place)
                || undecided().any(|p| p == redirect.place)
        })
    }
}
