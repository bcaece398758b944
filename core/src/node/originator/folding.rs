//! Folds at the originator: writes that put copies in place and into parity.

use super::jobs::Jobs;
use super::{Job, Purpose, What};
use crate::node::worker::FoldOf;
use crate::plan::Range;
use crate::units::SECTOR;

impl Jobs {
    /// Puts copies in place, and into parity.
    pub fn fold(&mut self, fold: FoldOf) {
        let FoldOf { range, data, of, kept } = fold;
        let what = What::Write(range, data);
        self.ready(Job::new(Purpose::Fold(of, kept), kept.volume, what));
    }

    /// A disk lacks a part of what a fold changes. Its rebuild waits for the fold, since the copies are not in parity yet; so the
    /// fold goes without it. But only there: a disk that has the rest must not miss it.
    pub fn fold_without(&mut self, mut job: Job, column: usize) {
        let What::Write(range, data) = job.what.clone() else { return };
        if range.len == SECTOR {
            job.avoid.insert(column);
            return self.again(job);
        }
        self.give_room(&mut job);
        for at in (0..range.len).step_by(SECTOR as usize) {
            let piece = data.slice(at as usize, (at + SECTOR) as usize);
            let range = Range { offset: range.offset + at, len: SECTOR };
            let what = What::Write(range, piece);
            self.ready(Job::new(job.purpose, job.volume, what));
        }
    }
}
