//! Sectors that a checkpoint was putting in place: apply entries name them, and only the table and the place
//! tell how far it came.

use std::collections::BTreeSet;

use super::super::format::Applied;
use super::super::overlay::Over;
use super::super::place::Base;
use super::super::table::{State, TableEntry, page_of};
use super::super::{DiskOp, JournalStore, Purpose};
use crate::Buffer;

impl JournalStore {
    /// Goes on once the table pages of the candidates are there.
    pub(in crate::store) fn step_recovery(&mut self) {
        let Some(r) = &self.recovery else { return };
        if r.looked || !r.replayed {
            return;
        }
        // If the apply entry of a checkpoint was lost, the pages tell that it had put changes in place. All that it
        // put there is still in the journal.
        let changed = self.overlay.iter().filter(|(_, over)| !over.deltas.is_empty());
        let candidates = r.candidates.keys().copied();
        let pages: BTreeSet<u64> = candidates.chain(changed.map(|(s, _)| s)).map(page_of).collect();
        let mut all = true;
        for page in pages {
            all &= self.want_pages(page, page);
        }
        if all {
            self.look_at_candidates();
        }
    }

    fn look_at_candidates(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.looked = true;
        let candidates = std::mem::take(&mut recovery.candidates);
        for (sector, steps) in candidates {
            let entry = self.table.get(sector);
            let steps = self.drop_done(steps, |applied| entry == entry_of(applied));
            let Some((_, last)) = steps.last() else { continue };
            if steps.iter().any(|s| s.0.content.is_some()) {
                self.put_back(sector, steps);
            } else if last.state != State::Written as u8 {
                self.table.set(sector, entry_of(last));
                self.drop_done(steps, |_| true);
            } else {
                let recovery = self.recovery.as_mut().expect("opening");
                recovery.candidates.insert(sector, steps);
                recovery.waiting += 1;
                self.read_place(Purpose::Candidate { sector }, sector..sector + 1);
            }
        }
        self.finish_opening();
    }

    /// Leaves out the steps up to the last that is `done`.
    fn drop_done(
        &mut self,
        mut steps: Vec<(Over, Applied)>,
        done: impl Fn(&Applied) -> bool,
    ) -> Vec<(Over, Applied)> {
        let count = steps.iter().rposition(|s| done(&s.1)).map_or(0, |n| n + 1);
        let rest = steps.split_off(count);
        steps.iter().for_each(|s| self.unpin_all(s.0.names()));
        rest
    }

    /// A sector that has yet to be placed: by the last checkpoint, if that was to place it, or by another.
    fn put_back(&mut self, sector: u64, steps: Vec<(Over, Applied)>) {
        let last = &mut self.recovery.as_mut().expect("opening").last;
        let left = last.sectors.contains(&sector).then_some(&mut last.left);
        let mut superseded = Vec::new();
        let steps: Vec<Over> = steps.into_iter().map(|s| s.0).filter(|o| !o.is_empty()).collect();
        if !steps.is_empty() {
            let over = match left {
                Some(left) => left.entry(sector).or_default(),
                None => self.overlay.get_mut(sector),
            };
            steps.into_iter().rev().for_each(|step| superseded.extend(over.underlay(step)));
        }
        self.unpin_all(superseded);
    }

    /// A sector that was getting deltas: it has them, or has none or only the first of them
    /// yet, or is torn.
    pub(in crate::store) fn candidate_read(&mut self, sector: u64, data: Option<Buffer>) {
        let recovery = self.recovery.as_mut().expect("opening");
        let steps = recovery.candidates.remove(&sector).expect("a candidate");
        recovery.waiting -= 1;
        let entry = self.table.get(sector);
        let crc = data.as_ref().map(Buffer::crc);
        let untouched = Base::of(&Over::default(), entry).content(|| data).is_some();
        let in_place = |a: &Applied| crc == Some(a.crc) && a.state == State::Written as u8;
        if let Some((_, applied)) = steps.iter().rfind(|s| in_place(&s.1)) {
            self.table.set(sector, entry_of(applied));
            let rest = self.drop_done(steps, in_place);
            self.put_back(sector, rest);
        } else if untouched {
            self.put_back(sector, steps);
        } else {
            let version = steps.last().expect("not empty").1.version;
            self.table.set(sector, TableEntry { version, crc: 0, state: State::Bad });
            self.counters.erasures += 1;
            self.drop_done(steps, |_| true);
        }
        self.finish_opening();
    }

    fn finish_opening(&mut self) {
        let done = self.recovery.as_ref().is_some_and(|r| r.looked && r.waiting == 0);
        if done {
            // What was found may not be safe yet: a process that died may have left it in a
            // cache. It must be before anything relies on it.
            self.start(Purpose::RecoveryFlush, DiskOp::Flush);
        }
    }
}

fn entry_of(a: &Applied) -> TableEntry {
    TableEntry { version: a.version, crc: a.crc, state: State::from_byte(a.state) }
}
