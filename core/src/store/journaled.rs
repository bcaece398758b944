//! [`JournalStore`] as a worker sees it.

use super::api::{HeldBack, Store};
use super::reads::Wanted;
use super::{
    Change, Copy, DiskRequest, DiskResult, Event, Heard, JournalStore, Kept, Reached, Scan,
    SlotCounts, StoreCounters, Timestamp, Views,
};
use std::ops::Range;

use crate::Buffer;
use crate::units::{Epoch, LAST_THIN, NodeId, SPACE_SECTORS, VolumeId, thin_space};

impl Store for JournalStore {
    fn data_sectors(&self) -> u64 {
        self.superblock.offered()
    }

    fn end(&self) -> u64 {
        match self.superblock.has_spaces() {
            true => thin_space(LAST_THIN) + SPACE_SECTORS,
            false => self.superblock.offered(),
        }
    }

    fn incarnation(&self) -> u64 {
        self.superblock.incarnation
    }

    fn latest(&self) -> Timestamp {
        self.superblock.latest
    }

    fn most_bytes(&self) -> u64 {
        self.journal_bytes() / 4
    }

    fn counters(&self) -> StoreCounters {
        self.counters
    }

    fn reached(&self) -> Reached {
        self.reached
    }

    fn found(&self) -> Reached {
        self.found
    }

    fn forgot(&self) -> bool {
        self.superblock.forgot
    }

    fn heard(&self) -> Option<&Heard> {
        Some(&self.superblock.heard)
    }

    fn begin_life(&mut self, epoch: Epoch) {
        JournalStore::begin_life(self, epoch);
    }

    fn forgotten(&mut self) {
        JournalStore::forgotten(self);
    }

    fn forgiven(&mut self) {
        JournalStore::forgiven(self);
    }

    fn is_forgiving(&self) -> bool {
        JournalStore::is_forgiving(self)
    }

    fn hear(&mut self, node: NodeId, reached: Reached) {
        JournalStore::hear(self, node, reached);
    }

    fn read(&mut self, ticket: u64, first: u64, count: u64) {
        JournalStore::read(self, ticket, first, count);
    }

    fn read_versions(&mut self, ticket: u64, first: u64, count: u64) {
        self.verify(first, count);
        self.begin_read(ticket, first, count, Wanted::Versions);
    }

    fn read_newest(&mut self, ticket: u64, first: u64, count: u64, volume: VolumeId) {
        JournalStore::read_newest(self, ticket, first, count, volume);
    }

    fn may_copy(&self, sectors: Range<u64>) -> bool {
        JournalStore::may_copy(self, sectors)
    }

    fn copies_after(&self, after: Option<Copy>, most: usize) -> Vec<Copy> {
        JournalStore::copies_after(self, after, most)
    }

    fn copies_in(&self, sectors: Range<u64>) -> Vec<Copy> {
        JournalStore::copies_in(self, sectors)
    }

    fn copied(&self, sector: u64, kept: Kept) -> Option<(Timestamp, Buffer)> {
        JournalStore::copied(self, sector, kept)
    }

    fn drop_copy(&mut self, copy: Copy) {
        JournalStore::drop_copy(self, copy);
    }

    fn copies_are_due(&self) -> bool {
        JournalStore::copies_are_due(self)
    }

    fn waits_for_folds(&self) -> bool {
        JournalStore::waits_for_folds(self)
    }

    fn may_have_copies(&self) -> bool {
        JournalStore::may_have_copies(self)
    }

    fn copied_bytes(&self) -> u64 {
        JournalStore::copied_bytes(self)
    }

    fn scan(&mut self, ticket: u64, first: u64, count: u64, what: Scan) {
        JournalStore::scan(self, ticket, first, count, what);
    }

    /// Changes are kept as they come and added when they are put in place, many at a time:
    /// there is nothing to fetch early.
    fn expect(&mut self, _: Timestamp, _: u64, _: u64, _: bool) {}

    fn prepare(&mut self, ts: Timestamp, meta: Vec<u8>, changes: Vec<Change>, journal: bool) {
        JournalStore::prepare(self, ts, meta, changes, journal);
    }

    fn outcome(&mut self, ts: Timestamp, commit: bool) {
        JournalStore::outcome(self, ts, commit);
    }

    fn forget(&mut self, _: Timestamp) {}

    fn release(&mut self, ts: Timestamp) {
        JournalStore::release(self, ts);
    }

    fn flush(&mut self, ticket: u64) {
        JournalStore::flush(self, ticket);
    }

    fn is_queued(&self, ts: Timestamp) -> bool {
        self.journal.is_queued(ts)
    }

    fn waits_for_room(&self, ts: Timestamp) -> bool {
        self.journal.stalled && self.journal.is_queued(ts)
    }

    fn is_quiet(&self) -> bool {
        JournalStore::is_quiet(self)
    }

    fn waiting(&self) -> String {
        JournalStore::waiting(self)
    }

    fn held_bytes(&self) -> u64 {
        JournalStore::held_bytes(self)
    }

    fn has_free_to_discard(&self) -> bool {
        JournalStore::has_free_to_discard(self)
    }

    fn slot(&self) -> u64 {
        self.superblock.slot()
    }

    fn keep_only(&mut self, sectors: &[Range<u64>], reserved: u64) {
        JournalStore::keep_only(self, sectors, reserved);
    }

    fn set_views(&mut self, views: &Views) {
        JournalStore::set_views(self, views);
    }

    fn can_place(&self, changes: &[Change]) -> bool {
        JournalStore::can_place(self, changes)
    }

    fn has_to_drop(&self) -> bool {
        JournalStore::has_to_drop(self)
    }

    fn has_to_merge(&self) -> bool {
        JournalStore::has_to_merge(self)
    }

    fn has_merged(&self) -> bool {
        JournalStore::has_merged(self)
    }

    fn merge_in_part(&mut self, part: u64) {
        JournalStore::merge_in_part(self, part);
    }

    fn has_to_flatten(&self) -> bool {
        JournalStore::has_to_flatten(self)
    }

    fn has_flattened(&self) -> bool {
        JournalStore::has_flattened(self)
    }

    fn flattening(&self) -> Vec<(u64, u64)> {
        JournalStore::flattening(self)
    }

    fn flattens_without_space(&self) -> bool {
        JournalStore::flattens_without_space(self)
    }

    fn has_lost_claims(&self) -> bool {
        JournalStore::has_lost_claims(self)
    }

    fn has_empty(&self) -> bool {
        JournalStore::has_empty(self)
    }

    fn dropped(&self) -> Timestamp {
        self.superblock.unplaced.dropped
    }

    fn forget_empty(&mut self, oldest: Timestamp, is_whole: &dyn Fn(u64) -> bool) {
        JournalStore::forget_empty(self, oldest, is_whole);
    }

    fn without_needless_zeros(&self, changes: Vec<Change>) -> Vec<Change> {
        JournalStore::without_needless_zeros(self, changes)
    }

    fn used_by_space(&self) -> Vec<(u64, u64)> {
        self.slots.used_by_space().collect()
    }

    fn shown_by_space(&self) -> Vec<(u64, u64)> {
        self.slots.shown_by_space().collect()
    }

    fn slots(&self) -> Option<SlotCounts> {
        JournalStore::slots(self)
    }

    fn checkpoint(&mut self, now: bool, held_back: HeldBack<'_>) {
        JournalStore::checkpoint(self, now, held_back);
    }

    fn oldest_abort(&self) -> Option<Timestamp> {
        self.journal.oldest_abort()
    }

    fn unsafe_aborts(&self) -> Vec<Timestamp> {
        self.journal.unsafe_aborts().collect()
    }

    fn flush_outcomes(&mut self) {
        JournalStore::flush_outcomes(self);
    }

    fn check(&self) {
        JournalStore::check(self);
    }

    fn check_sums(&self) {
        JournalStore::check_sums(self);
    }

    fn take_ops(&mut self) -> Vec<DiskRequest> {
        std::mem::take(&mut self.out)
    }

    fn done(&mut self, id: u64, result: DiskResult) {
        JournalStore::done(self, id, result);
    }

    fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
}
