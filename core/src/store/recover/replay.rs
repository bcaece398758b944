//! Replay of the journal: which frames count, and what their entries say.

use std::collections::BTreeMap;

use super::super::format::{
    Applied, Carried, ChangeHead, Entry, FORGOT, FrameHead, NOWHERE, SUPERBLOCKS, Standing,
    decode_frame, decode_head,
};
use super::super::overlay::Over;
use super::super::torn::PageSums;
use super::super::writes::Life;
use super::super::{Change, FormatError, Journal, JournalStore, Reached, Superblock, Write};
use crate::Buffer;
use crate::units::{Epoch, NodeId, SECTOR, SECTOR_BYTES, SPACE_SECTORS};

/// A frame that was found: where it begins, in sectors, its head, and its content.
pub(super) type Found = (u64, FrameHead, Vec<Entry>);

impl JournalStore {
    /// Says whether the frames count that were found, or none can be believed.
    pub(super) fn judge_journal(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        let bytes = std::mem::take(&mut recovery.journal);
        let frames = std::mem::take(&mut recovery.frames);
        let missing = self.superblock.tail_frame + frames.len() as u64;
        if let Some(later) = later_frame(&self.superblock, &bytes, missing) {
            let what = match later == missing {
                true => format!("frame {missing} of the journal is not where it should be"),
                false => format!(
                    "frame {missing} of the journal is unreadable though frame {later} follows it"
                ),
            };
            self.forget_journal(frames, &bytes, what);
        } else if missing < self.superblock.durable_before {
            let what = format!("frame {missing} of the journal is missing, though it was written");
            self.forget_journal(frames, &bytes, what);
        } else if let Some(sector) = self.ends_unreadable(&frames, &bytes) {
            let what = format!(
                "sector {sector} of the journal cannot be read, and frame {missing} may begin there"
            );
            self.forget_journal(frames, &bytes, what);
        } else if self.index_is_old() {
            if let Some(index) = &mut self.table.index {
                index.forget_all();
            }
            let what = "the table's index is not the one that the superblock names".to_string();
            self.forget_journal(frames, &bytes, what);
        } else {
            // It may have failed again before the index was rewritten.
            if let Some(index) = self.table.index.as_mut().filter(|_| self.superblock.forgot) {
                index.forget_all();
            }
            if self.superblock.durable_before > 0 {
                self.table.numbers.upto = self.superblock.sequence;
            }
            self.count_on();
            self.table.numbers.applied.extend(applied(frames.iter().flat_map(|f| &f.2)));
            let recovery = self.recovery.as_mut().expect("opening");
            (recovery.frames, recovery.journal) = (frames, bytes);
        }
        self.read_owners(0);
    }

    /// All that is on the disk besides is known: takes in what the journal says.
    pub(super) fn replay(&mut self) {
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.replayed = true;
        let frames = std::mem::take(&mut recovery.frames);
        let bytes = std::mem::take(&mut recovery.journal);
        if let Err(why) = self.replay_frames(frames, &bytes) {
            return self.refuse(why);
        }
        self.note_what_was_found();
        self.settle_slots();
        let last = &self.recovery.as_ref().expect("opening").last;
        self.table.torn = self.torn_pages(&last.applied, &last.pointers, &last.sums);
        self.step_recovery();
    }

    /// The frames from the tail on, up to the first that is not whole.
    pub(super) fn find_frames(&self, bytes: &[u8]) -> Result<Vec<Found>, FormatError> {
        let sb = &self.superblock;
        let (mut at, mut number, mut used) = (sb.tail, sb.tail_frame, 0);
        let frame_at = |at: u64, number: u64| {
            let from = bytes.get((at * SECTOR) as usize..)?;
            let frame = decode_frame(sb.incarnation, from, sb.bounds());
            frame.filter(|_| number_of(sb, from) == Some(number)).map(|f| (at, f))
        };
        // The first frame of an empty ring restarts it. Another that stands there, with room for it where it should
        // be, went astray; unless the ring had been emptied as a superblock said that is damaged.
        let may_be_empty = self.recovery.as_ref().expect("opening").superblock_is_damaged;
        let at_beginning = |at: u64, number: u64, is_first: bool| {
            let head = decode_head(sb.incarnation, bytes)?.head;
            let is_its_place = is_first || may_be_empty || at + head.sectors() > sb.journal;
            frame_at(0, number).filter(|_| is_its_place)
        };
        let mut frames = Vec::new();
        while let Some((start, frame)) =
            frame_at(at, number).or_else(|| at_beginning(at, number, frames.is_empty()))
        {
            let (head, entries) = frame.map_err(|why| FormatError::Frame { number, why })?;
            let skipped = if start < at && !frames.is_empty() { sb.journal - at } else { 0 };
            used += skipped + head.sectors();
            if used > sb.journal {
                return Err(FormatError::Overlap(number));
            }
            at = (start + head.sectors()) % sb.journal;
            number += 1;
            frames.push((start, head, entries));
        }
        Ok(frames)
    }

    /// A sector that cannot be read, and in which the frame may be that should follow the last one.
    fn ends_unreadable(&self, frames: &[Found], bytes: &[u8]) -> Option<u64> {
        let unreadable = &self.recovery.as_ref().expect("opening").unreadable.0;
        let sb = &self.superblock;
        let end = frames.last().map_or(sb.tail, |(at, head, _)| at + head.sectors());
        // It may also restart at the ring's first sector; its head says how far it reaches.
        let missing = sb.tail_frame + frames.len() as u64;
        let anew = decode_head(sb.incarnation, bytes).filter(|fixed| fixed.head.number == missing);
        let anew = anew.map_or(1, |fixed| fixed.head.sectors());
        let first =
            unreadable.iter().find(|s| **s >= end || **s < anew || **s == end % sb.journal.max(1));
        first.copied()
    }

    /// Whether the index, or a page of it, is older than the superblock, or damaged: then some pages of the table
    /// may be older copies without a trace.
    fn index_is_old(&self) -> bool {
        let sb = &self.superblock;
        self.table.index.as_ref().is_some_and(|i| !i.fits(sb.sequence, sb.index_sum))
    }

    /// Pages of the index may have been written by a checkpoint whose superblock was not. Its number is not used
    /// again; the next superblock replaces the older copy nevertheless.
    fn count_on(&mut self) {
        let Some(index) = &mut self.table.index else { return };
        let sb = &mut self.superblock;
        index.settle(sb.sequence);
        let ahead = index.latest().saturating_sub(sb.sequence);
        sb.sequence += ahead.next_multiple_of(SUPERBLOCKS);
    }

    /// The journal is damaged: this disk has the content in place, and it begins a new journal.
    fn forget_journal(&mut self, frames: Vec<Found>, bytes: &[u8], what: String) {
        // Positions of others, and the times of the disk's writes, are right nevertheless.
        for entry in frames.into_iter().flat_map(|f| f.2) {
            match entry {
                Entry::Prepare { ts, .. } | Entry::Carried(Carried { ts, .. }) => {
                    self.superblock.latest = self.superblock.latest.max(ts);
                }
                Entry::Heard(heard) => self.replay_heard(heard),
                Entry::Life(life) => self.replay_life(life),
                _ => {}
            }
        }
        let last = last_frame(&self.superblock, bytes);
        self.count_on();
        let sb = &mut self.superblock;
        sb.forgot = true;
        sb.tail = 0;
        sb.tail_frame = last.max(sb.tail_frame).max(sb.durable_before).saturating_add(1);
        self.journal = Journal::new(sb, self.config);
        self.damaged(format!("{what}; acknowledged writes may be lost"));
    }

    fn note_what_was_found(&mut self) {
        if self.keeps_heard() {
            self.found = Reached {
                disk: self.superblock.incarnation,
                life: self.superblock.life,
                frame: self.journal.last_frame(),
                sequence: self.superblock.sequence,
            };
            self.reached = self.found;
            self.heard_since.clear();
        }
    }

    /// Takes in what the frames say, one after the other.
    fn replay_frames(&mut self, frames: Vec<Found>, bytes: &[u8]) -> Result<(), FormatError> {
        for (at, head, entries) in frames {
            let pins = entries.iter().filter(|entry| entry.keeps_its_frame()).count();
            self.journal.found(head.number, at, head.sectors(), pins as u32);
            let payload = ((at + head.head_sectors) * SECTOR) as usize;
            self.replay_entries(head.number, entries, &bytes[payload..])?;
        }
        Ok(())
    }

    fn replay_entries(
        &mut self,
        frame: u64,
        entries: Vec<Entry>,
        payload: &[u8],
    ) -> Result<(), FormatError> {
        let mut at = 0;
        for entry in entries {
            self.agrees(frame, &entry)?;
            match entry {
                Entry::Prepare { ts, meta, changes, redirects } => {
                    self.superblock.latest = self.superblock.latest.max(ts);
                    let changes = changes.iter().map(|h| change(h, payload, &mut at)).collect();
                    self.keep_write(ts, Write::found(meta, (changes, redirects), frame));
                }
                Entry::Outcome { ts, commit } => {
                    if self.writes.get(&ts).is_some_and(Write::is_undecided) {
                        self.decide(ts, commit);
                    }
                }
                Entry::Released { ts } => self.released(ts),
                Entry::Known { ts, meta } => {
                    let named = &mut self.recovery.as_mut().expect("opening").known;
                    named.0.get_or_insert(frame);
                    named.1.push(ts);
                    self.superblock.latest = self.superblock.latest.max(ts);
                    self.writes.entry(ts).or_insert_with(|| Write::known(meta));
                }
                Entry::Begin => {
                    let recovery = self.recovery.as_mut().expect("opening");
                    recovery.begun = self.overlay.clone();
                    recovery.begun_moved = self.slots.all_moved();
                    recovery.known = (None, Vec::new());
                }
                Entry::Apply { sectors, pointers, sums } => {
                    self.replay_checkpoint(sectors, pointers, sums);
                }
                Entry::Heard(heard) => self.replay_heard(heard),
                Entry::Life(life) => {
                    self.recovery.as_mut().expect("opening").promised.lives.push((frame, life));
                    self.replay_life(life);
                }
                Entry::Safe(number) => {
                    let promised = &mut self.recovery.as_mut().expect("opening").promised;
                    promised.durable_before = promised.durable_before.max(number);
                }
                Entry::Overtaken { ts, sectors } => {
                    if let Some(write) = self.writes.get_mut(&ts) {
                        write.overtaken_in(sectors);
                    }
                }
                Entry::Checkpoint(number) => {
                    self.recovery.as_mut().expect("opening").number = number;
                }
                Entry::Carried(carried) => {
                    let heads = carried.changes.iter();
                    let changes = heads.map(|h| change(h, payload, &mut at)).collect();
                    self.replay_carried(frame, carried, changes);
                }
            }
        }
        Ok(())
    }

    /// A checkpoint was about to put these sectors in place, and to write these pointers.
    fn replay_checkpoint(
        &mut self,
        sectors: Vec<Applied>,
        pointers: Vec<(u64, u64)>,
        sums: PageSums,
    ) {
        let (dropped, pointers): (Vec<_>, Vec<_>) =
            pointers.into_iter().partition(|(_, place)| *place == NOWHERE);
        let adopted = self.found_adopted(&pointers, &dropped);
        for (slot, place) in &pointers {
            self.slots.replay_pointer(*slot, *place);
        }
        dropped.into_iter().for_each(|(slot, _)| self.replay_drop(slot));
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.last.number = std::mem::take(&mut recovery.number);
        recovery.last.sectors = sectors.iter().map(|a| a.sector).collect();
        recovery.last.applied = sectors.clone();
        recovery.last.sums = sums;
        for applied in &sectors {
            if let Some(slot) = self.slots.slot_of(applied.sector) {
                self.slots.put_in_place(slot, &recovery.begun_moved);
            }
        }
        recovery.last.pointers = pointers.into_iter().collect();
        recovery.last.known = std::mem::take(&mut recovery.known);
        let of_slot = |a: &Applied| adopted.get(&self.slots.slot_of(a.sector)?).copied();
        let places: Vec<_> = sectors.iter().map(of_slot).collect();
        for (applied, place) in sectors.into_iter().zip(places) {
            match place {
                Some(place) => self.replay_adopted(applied, place),
                None => self.replay_apply(applied),
            }
        }
    }

    /// A write is carried. If its first frame is still there, all that this entry says is known.
    fn replay_carried(&mut self, frame: u64, carried: Carried, changes: Vec<Change>) {
        let Carried { ts, meta, standing, redirects, overtaken, .. } = carried;
        self.superblock.latest = self.superblock.latest.max(ts);
        if changes.iter().any(|change| change.kind.is_copy()) {
            self.copies.are_in_frame(frame);
        }
        if let Some(write) = self.writes.get_mut(&ts) {
            write.is_carried = true;
            write.overtaken_also_in(overtaken.clone());
            if let Some(from) = write.frame.replace(frame) {
                return self.journal.unpin(Some(from));
            }
        }
        if standing == Standing::Undecided {
            let mut write = Write::found(meta, (changes, redirects), frame);
            write.is_carried = true;
            write.overtaken_in(overtaken);
            return self.keep_write(ts, write);
        }
        let write = self.writes.entry(ts).or_insert_with(|| Write::known(meta));
        write.frame = Some(frame);
        let mut superseded = Vec::new();
        let unplaced = self.take_effect(ts, &changes, true, &mut superseded, &mut Vec::new());
        self.writes.get_mut(&ts).expect("just seen").life = Life::Committed { unplaced };
        self.unpin_all(superseded);
        if standing == Standing::Released {
            self.released(ts);
        }
    }

    fn replay_heard(&mut self, heard: Vec<(NodeId, Reached)>) {
        heard.into_iter().for_each(|(node, reached)| self.hear(node, reached));
    }

    /// A life begins when the disk is forgiven.
    fn replay_life(&mut self, life: Epoch) {
        self.superblock.forgot = life == FORGOT;
        self.superblock.life = self.superblock.life.max(life);
    }

    /// A checkpoint was about to drop this slot. All that earlier ones had to place in it was in place.
    fn replay_drop(&mut self, slot: u64) {
        self.slots.replay_drop(slot);
        // Its versions are gone with it. All writes to it are in the journal before this, or in place.
        self.superblock.unplaced.dropped = self.superblock.latest;
        // It had none, unless it belonged to no volume.
        self.drop_all_copies(self.slots.sectors_of(slot));
        let recovery = self.recovery.as_mut().expect("opening");
        let sectors = self.slots.sectors_of(slot);
        let placed: Vec<u64> = recovery.candidates.range(sectors).map(|(s, _)| *s).collect();
        let steps = placed.iter().filter_map(|s| recovery.candidates.remove(s)).flatten();
        let names: Vec<_> = steps.flat_map(|(over, ..)| over.names()).collect();
        self.unpin_all(names);
    }

    /// The slots that changed hands, and their places: those of slots at the same place of other address spaces, which are
    /// dropped. The owners may be of a later time, when a place was again that of a slot that had been dropped. But nothing had
    /// been written to a slot that changed hands.
    fn found_adopted(&self, pointers: &[(u64, u64)], dropped: &[(u64, u64)]) -> BTreeMap<u64, u64> {
        let in_space = |slot: u64| self.slots.sectors_of(slot).start % SPACE_SECTORS;
        let left = dropped.iter().filter_map(|(slot, _)| Some((*slot, self.slots.place(*slot)?)));
        let left: BTreeMap<u64, u64> = left.map(|(slot, place)| (place, slot)).collect();
        let begun = &self.recovery.as_ref().expect("opening").begun;
        let is_adopted = |(slot, place): &&(u64, u64)| {
            let lower = left.get(place).filter(|lower| in_space(**lower) == in_space(*slot));
            lower.is_some() && begun.next(self.slots.sectors_of(*slot)).is_none()
        };
        pointers.iter().filter(is_adopted).copied().collect()
    }

    /// This sector is in a slot that changed hands: nothing was placed.
    fn replay_adopted(&mut self, applied: Applied, place: u64) {
        self.superblock.latest = self.superblock.latest.max(applied.version);
        let recovery = self.recovery.as_mut().expect("opening");
        recovery.adopted.insert(applied.sector, (place, applied));
    }

    /// A checkpoint was about to place this sector.
    fn replay_apply(&mut self, applied: Applied) {
        let sector = applied.sector;
        self.superblock.latest = self.superblock.latest.max(applied.version);
        let recovery = self.recovery.as_mut().expect("opening");
        let mut chosen = Over::default();
        // Without a trace of the choice it is either done and removed from the journal, or an earlier step did not
        // reach it.
        if let Some(begun) = recovery.begun.get(sector) {
            let over = self.overlay.get_mut(sector);
            chosen = over.split_off_earlier(begun);
            if over.is_empty() {
                self.overlay.remove(sector);
            }
        }
        let step = (chosen, applied, recovery.last.number);
        recovery.candidates.entry(sector).or_default().push(step);
    }
}

fn change(head: &ChangeHead, payload: &[u8], at: &mut usize) -> Change {
    let bytes = head.count as usize * SECTOR_BYTES;
    let data = match head.crc {
        None => Buffer::Zero(bytes),
        Some(_) => {
            let from = *at;
            *at += bytes;
            Buffer::from(payload[from..from + bytes].to_vec())
        }
    };
    Change { sector: head.sector, kind: head.kind, data }
}

/// The number of the frame that begins here, if its head can be read.
fn number_of(sb: &Superblock, bytes: &[u8]) -> Option<u64> {
    decode_head(sb.incarnation, bytes).map(|fixed| fixed.head.number)
}

/// The highest number of any frame whose head can be read.
fn last_frame(sb: &Superblock, bytes: &[u8]) -> u64 {
    bytes.chunks_exact(SECTOR_BYTES).filter_map(|s| number_of(sb, s)).max().unwrap_or(0)
}

/// The checkpoints whose placements these entries announce. The number stands before that, and may be in the frame
/// before: the placements are known only if both are there.
fn applied<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<u64> {
    let (mut number, mut applied) = (None, Vec::new());
    for entry in entries {
        match entry {
            Entry::Checkpoint(n) => number = Some(*n),
            Entry::Apply { .. } => applied.extend(number.take()),
            _ => {}
        }
    }
    applied
}

/// A whole frame with this number or a higher one.
fn later_frame(sb: &Superblock, bytes: &[u8], number: u64) -> Option<u64> {
    (0..bytes.len() / SECTOR_BYTES).find_map(|n| {
        let here = &bytes[n * SECTOR_BYTES..];
        let found = number_of(sb, here).filter(|found| *found >= number)?;
        decode_frame(sb.incarnation, here, sb.bounds()).map(|_| found)
    })
}
