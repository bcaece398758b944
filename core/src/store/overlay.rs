//! Committed changes that are not in place yet, sector by sector.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Change, ChangeKind};
use crate::Buffer;
use crate::units::{SECTOR_BYTES, SPACE_SECTORS, Timestamp};

/// What takes the place of what a sector held.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) enum Content {
    Bytes(Buffer),
    /// Content that stands in another slot, with this checksum.
    Slot {
        at: u64,
        crc: u32,
    },
    /// Nothing: the content there is stale, and so is any sum with it.
    Mark,
}

impl Content {
    /// The bytes, if there are any.
    pub fn bytes(&self) -> Option<&Buffer> {
        match self {
            Content::Bytes(bytes) => Some(bytes),
            Content::Slot { .. } | Content::Mark => None,
        }
    }
}

/// The committed changes of a sector: content, if any, and deltas on top of it (or of the content in place).
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Over {
    pub content: Option<(Timestamp, Content)>,
    pub deltas: Vec<(Timestamp, Buffer)>,
    /// The writes that went into content that has been summed up.
    settled: Vec<Timestamp>,
    /// Writes that its content stands for: they are safe when it is. They or the content came without journal.
    covered: Vec<Timestamp>,
    /// The journal does not have its content.
    volatile: bool,
}

impl Over {
    /// Sums everything up as `content` of the newest write.
    pub fn settle(&mut self, content: Buffer) {
        let newest = self.newest();
        // Earlier sums continue to count.
        if self.settled.is_empty() {
            self.settled = self.writes().collect();
        }
        self.content = Some((newest, Content::Bytes(content)));
        self.deltas.clear();
    }

    /// Whether it has been summed up.
    pub fn is_summed_up(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Its content is at its final place already.
    pub fn settle_in_slot(&mut self) {
        self.settled = self.writes().collect();
    }

    /// The content that it was summed up as, except content at its final place.
    pub fn settled(&self) -> Option<&Buffer> {
        self.content.as_ref().and_then(|c| c.1.bytes())
    }

    /// Where its content stands in another slot, with which checksum.
    pub fn in_slot(&self) -> Option<(u64, u32)> {
        match self.content {
            Some((_, Content::Slot { at, crc })) => Some((at, crc)),
            _ => None,
        }
    }

    /// The writes that count this sector as theirs, once each.
    pub fn names(&self) -> Vec<Timestamp> {
        let mut names: Vec<Timestamp> =
            if self.settled.is_empty() { self.writes().collect() } else { self.settled.clone() };
        names.extend(&self.covered);
        // What a view is given has no write of its own.
        names.retain(|ts| *ts > Timestamp::ZERO);
        names
    }

    /// Whether any of these writes counts this sector as its own.
    pub fn is_of(&self, writes: &BTreeSet<Timestamp>) -> bool {
        self.names().iter().any(|ts| writes.contains(ts))
    }

    /// Whether the content below its deltas must be read, to add them.
    pub fn needs_base(&self) -> bool {
        match &self.content {
            None => true,
            Some((_, Content::Slot { .. })) => !self.deltas.is_empty(),
            Some((_, Content::Bytes(_) | Content::Mark)) => false,
        }
    }

    /// Removes changes that were in `earlier` already.
    pub fn split_off_earlier(&mut self, earlier: &Over) -> Over {
        let had = |ts: Timestamp| earlier.writes().any(|e| e == ts);
        let content = self.content.take_if(|c| had(c.0));
        let (old, new) = std::mem::take(&mut self.deltas).into_iter().partition(|d| had(d.0));
        self.deltas = new;
        Over { content, deltas: old, ..Over::default() }
    }

    /// Whether what it was laid over is out of date, and nothing has taken its place.
    pub fn is_marked(&self) -> bool {
        matches!(self.content, Some((_, Content::Mark)))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.content.is_none() && self.deltas.is_empty()
    }

    /// The newest write in it.
    pub fn newest(&self) -> Timestamp {
        let deltas = self.deltas.iter().map(|d| d.0);
        deltas.chain(self.content.iter().map(|c| c.0)).max().unwrap_or_default()
    }

    /// The writes in it, once each.
    pub fn writes(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.deltas.iter().map(|d| d.0).chain(self.content.iter().map(|c| c.0))
    }

    fn put(
        &mut self,
        ts: Timestamp,
        content: Content,
        volatile: bool,
        superseded: &mut Vec<Timestamp>,
    ) -> bool {
        if self.content.as_ref().is_some_and(|c| c.0 > ts) {
            return false;
        }
        self.volatile = volatile;
        superseded.extend(self.content.replace((ts, content)).map(|c| c.0));
        self.deltas.retain(|d| {
            let later = d.0 > ts;
            if !later {
                superseded.push(d.0);
            }
            later
        });
        true
    }

    fn add(&mut self, ts: Timestamp, data: Buffer) -> bool {
        if self.content.as_ref().is_some_and(|c| c.0 > ts) {
            return false;
        }
        self.deltas.push((ts, data));
        true
    }

    /// A write has no effect here, because of later content. Says whether it counts until that is in place: the write or the
    /// content came without journal.
    fn covers(&mut self, ts: Timestamp, volatile: bool) -> bool {
        let covers = volatile || self.volatile;
        self.covered.extend(covers.then_some(ts));
        covers
    }

    /// Lays an earlier state underneath, as if this had been added to it. Returns the writes
    /// that do not count any more.
    pub fn underlay(&mut self, earlier: Over) -> Vec<Timestamp> {
        if self.content.is_some() {
            return earlier.names();
        }
        self.content = earlier.content;
        self.deltas.splice(0..0, earlier.deltas);
        Vec::new()
    }
}

/// The address spaces of these sectors that come before one, from the last.
pub(super) fn spaces_before(
    sectors: &BTreeMap<u64, Over>,
    space: u64,
) -> impl Iterator<Item = u64> + '_ {
    let mut end = space * SPACE_SECTORS;
    std::iter::from_fn(move || {
        let space = sectors.range(..end).next_back()?.0 / SPACE_SECTORS;
        end = space * SPACE_SECTORS;
        Some(space)
    })
}

/// The committed sectors that are not in place.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Overlay {
    sectors: BTreeMap<u64, Over>,
}

impl Overlay {
    /// Adds a committed change. Returns in how many sectors it counts; what it supersedes is
    /// appended to `superseded`, a name for each sector. Without journal (`volatile`) a write
    /// counts until what stands for it is in place. So does any write below content that came without journal: after a
    /// crash the journal's write is all that is left. In sectors that were `overtaken` it has no effect; those in which
    /// it has none because of changes here are appended.
    pub fn add(
        &mut self,
        ts: Timestamp,
        change: &Change,
        volatile: bool,
        superseded: &mut Vec<Timestamp>,
        overtaken: &mut Vec<u64>,
    ) -> u64 {
        let mut taken = 0;
        for n in 0..change.count() {
            if overtaken.contains(&(change.sector + n)) {
                continue;
            }
            let at = n as usize * SECTOR_BYTES;
            let data = change.data.slice(at, at + SECTOR_BYTES);
            let over = self.sectors.entry(change.sector + n).or_default();
            let before = superseded.len();
            let counts = match change.kind {
                ChangeKind::Delta => over.add(ts, data),
                ChangeKind::Content => over.put(ts, Content::Bytes(data), volatile, superseded),
                ChangeKind::Mark => over.put(ts, Content::Mark, volatile, superseded),
                ChangeKind::Copy(_) | ChangeKind::Fold(_) => {
                    unreachable!("no copies are laid over")
                }
            };
            if volatile {
                over.covered.extend(superseded.drain(before..));
            }
            match counts || over.covers(ts, volatile) {
                true => taken += 1,
                false => overtaken.push(change.sector + n),
            }
        }
        taken
    }

    /// The same for content of a whole slot that stands in another place: from the data sector `at` on.
    pub fn add_slot(
        &mut self,
        ts: Timestamp,
        (first, at): (u64, u64),
        crcs: &[u32],
        superseded: &mut Vec<Timestamp>,
        overtaken: &mut Vec<u64>,
    ) -> u64 {
        let mut taken = 0;
        for ((sector, at), crc) in (first..).zip(at..).zip(crcs) {
            if overtaken.contains(&sector) {
                continue;
            }
            let over = self.sectors.entry(sector).or_default();
            let counts = over.put(ts, Content::Slot { at, crc: *crc }, false, superseded)
                || over.covers(ts, false);
            match counts {
                true => taken += 1,
                false => overtaken.push(sector),
            }
        }
        taken
    }

    /// The first of these sectors that is marked here.
    pub fn next_mark(&self, from: u64, end: u64) -> Option<u64> {
        self.sectors.range(from..end).find(|(_, over)| over.is_marked()).map(|(s, _)| *s)
    }

    /// The first of these sectors with a change here.
    pub fn next(&self, sectors: Range<u64>) -> Option<u64> {
        self.sectors.range(sectors).next().map(|(sector, _)| *sector)
    }

    /// The address spaces before one in which sectors have changes here, from the last.
    pub fn spaces_before(&self, space: u64) -> impl Iterator<Item = u64> + '_ {
        spaces_before(&self.sectors, space)
    }

    pub fn get(&self, sector: u64) -> Option<&Over> {
        self.sectors.get(&sector)
    }

    pub fn get_mut(&mut self, sector: u64) -> &mut Over {
        self.sectors.entry(sector).or_default()
    }

    pub fn remove(&mut self, sector: u64) -> Option<Over> {
        self.sectors.remove(&sector)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Over)> {
        self.sectors.iter().map(|(s, o)| (*s, o))
    }

    pub fn len(&self) -> usize {
        self.sectors.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, byte: u8) -> Change {
        Change { sector: 5, kind, data: vec![byte; SECTOR_BYTES].into() }
    }

    #[test]
    fn content_replaces_what_is_earlier_and_keeps_later_deltas() {
        let mut o = Overlay::default();
        let mut gone = Vec::new();
        assert_eq!(
            o.add(Timestamp(1), &change(ChangeKind::Delta, 1), false, &mut gone, &mut Vec::new()),
            1
        );
        assert_eq!(
            o.add(Timestamp(3), &change(ChangeKind::Delta, 4), false, &mut gone, &mut Vec::new()),
            1
        );
        assert_eq!(
            o.add(Timestamp(2), &change(ChangeKind::Content, 8), false, &mut gone, &mut Vec::new()),
            1
        );
        assert_eq!(gone, [Timestamp(1)]);
        assert_eq!(o.get(5).unwrap().deltas.len(), 1);
        assert_eq!(
            o.add(Timestamp(1), &change(ChangeKind::Content, 9), false, &mut gone, &mut Vec::new()),
            0,
            "too late to matter"
        );
        assert_eq!(o.get(5).unwrap().newest(), Timestamp(3));
    }

    #[test]
    fn a_mark_is_cleared_by_later_content_alone() {
        let mut o = Overlay::default();
        let mut add = |ts, kind| {
            let mut overtaken = Vec::new();
            o.add(Timestamp(ts), &change(kind, 7), false, &mut Vec::new(), &mut overtaken);
            let over = o.get(5).unwrap();
            (over.content.as_ref().map(|c| c.1 == Content::Mark), over.newest().0)
        };
        assert_eq!(add(1, ChangeKind::Content), (Some(false), 1));
        assert_eq!(add(4, ChangeKind::Mark), (Some(true), 4));
        assert_eq!(add(5, ChangeKind::Delta), (Some(true), 5));
        assert_eq!(add(3, ChangeKind::Content), (Some(true), 5), "from before the mark");
        assert_eq!(add(6, ChangeKind::Content), (Some(false), 6));
    }

    #[test]
    fn a_write_without_journal_is_safe_only_with_what_stands_for_it() {
        let mut o = Overlay::default();
        let mut gone = Vec::new();
        assert_eq!(
            o.add(Timestamp(2), &change(ChangeKind::Content, 1), true, &mut gone, &mut Vec::new()),
            1
        );
        assert_eq!(
            o.add(Timestamp(3), &change(ChangeKind::Content, 2), true, &mut gone, &mut Vec::new()),
            1
        );
        assert_eq!(
            o.add(Timestamp(1), &change(ChangeKind::Delta, 3), true, &mut gone, &mut Vec::new()),
            1
        );
        assert!(gone.is_empty());
        let mut over = o.remove(5).unwrap();
        let content = over.content.clone().unwrap().1;
        over.settle(content.bytes().unwrap().clone());
        assert_eq!(over.names(), [Timestamp(3), Timestamp(2), Timestamp(1)]);
    }
}
