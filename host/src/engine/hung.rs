//! Disks of this process that do not answer, whose file system is full, or whose file has been removed or cut.
//!
//! A node whose disk has an operation under way for longer than its time-out leaves the map like one that died: the others
//! go on without it, and what it had in work is decided by them. A late completion is of an earlier life and reaches no
//! node. When all of these operations have ended the node is started again and catches up. A write that somebody waits for
//! has a shorter time-out, since every participant's disk can hold it up; it counts once a minute for each disk, so that one
//! whose speed varies is not taken out again and again. A disk that a volume cannot do without stays: then hosts wait for
//! it.
//!
//! The same holds for a disk that lacks free space to write to. But all that are on that file system, or lack space as
//! well, are taken out together or not at all. Of one that stays reads are served, and what hosts write
//! is refused, once its node has been [told](Input::Full). The writes that wait for room already show when there is some.
//!
//! A file that was removed works as long as it is open, and its content is lost when it is closed. So the node goes on, and
//! says so: its content can still be moved to other disks. Of a file that was cut the content behind its new end is lost, and
//! no process opens it again before it has its length.

use std::sync::Arc;
use std::time::Duration;

use weft_core::node::Input;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::Engine;
use crate::disk::Disk;
use crate::disk::handle::Aside;
use crate::engine::instance::Phase;
use crate::engine::lane::seat::Seat;
use crate::error::Result;
use crate::length_of_time::duration_in_words;
use crate::log::About;
use crate::size::exactly;

/// How often it is looked whether disks answer.
const LOOK: Nanos = 500 * MILLIS;

/// How often it is looked whether the files of disks are still there.
const LOOK_FOR_FILE: Nanos = 5_000 * MILLIS;

/// A disk that was taken out is not taken out again so soon because of writes alone.
const SOON: Nanos = 60_000 * MILLIS;

/// How long a write may wait for free space before the others go on without it, or further ones are refused.
const FULL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the process waits for a disk to be opened before it goes on with other things.
pub(super) const OPENS_WITHIN: Duration = Duration::from_millis(300);

/// How long the nodes that can start wait for one whose disk is not open yet.
const STARTS_WITHIN: Nanos = 3_000 * MILLIS;

/// A disk that keeps its node from working.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// What it is, in words.
    pub(crate) what: String,
    /// Its file system is full.
    pub(crate) is_full: bool,
}

impl Trouble {
    fn hangs(what: String) -> Trouble {
        Trouble { what, is_full: false }
    }

    /// What it is, and what that means for hosts if the node stays.
    pub(crate) fn in_words(&self) -> String {
        let meaning = if self.is_full { "hosts cannot write there" } else { "hosts wait for it" };
        format!("{}; {meaning}", self.what)
    }
}

/// What has been found out about the file that a disk is.
#[derive(Debug, Default)]
pub(super) struct DiskFile {
    /// Its node has been told that the file system is full.
    told_full: bool,
    /// It has been removed. That is known until a node begins on another.
    removed: bool,
    /// The length that it should have and has, if it is a file.
    length: Option<(u64, u64)>,
    /// The look that is under way.
    look: Option<Aside<Look>>,
    next_look: Nanos,
}

/// What a look at a file found: whether it has been removed, and its length.
type Look = (bool, Option<u64>);

impl DiskFile {
    /// Nobody has it open any more.
    pub(super) fn is_closed(&mut self) {
        *self = DiskFile { removed: self.removed, ..DiskFile::default() };
    }

    /// How long it should be and how long it is, if it has been cut.
    fn cut(&self) -> Option<(u64, u64)> {
        self.length.filter(|(size, is)| is < size)
    }

    /// Looks whether it has been removed, or cut from its size, and waits that long for the answer. Says whether that is news.
    fn look(&mut self, disk: &Arc<Disk>, size: u64, now: Nanos, patience: Duration) -> bool {
        if self.look.is_none() {
            if self.removed || now < self.next_look {
                return false;
            }
            let disk = disk.clone();
            self.next_look = now + LOOK_FOR_FILE;
            self.look = Some(Aside::begin(move || (disk.is_removed(), disk.file_length())));
        }
        let found = self.look.as_ref().and_then(|look| look.within(patience));
        let Some((removed, length)) = found else { return false };
        self.look = None;
        let before = (self.removed, self.cut());
        self.removed |= removed;
        self.length = length.map(|is| (size, is)).or(self.length);
        (self.removed, self.cut()) != before && (self.removed || self.cut().is_some())
    }
}

/// A disk that is being opened by a thread of its own, and since when.
pub(super) struct OpeningDisk {
    pub(super) aside: Aside<Result<super::lives::Opened>>,
    pub(super) since: Nanos,
}

impl Engine {
    /// Looks now and then whether disks answer, and takes out nodes whose disks do not.
    pub(super) fn follow_disks(&mut self) {
        let now = self.clock.now();
        self.follow_opening(now);
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        for n in 0..self.instances.len() {
            self.look_at_disk(n, now);
        }
        self.look_for_slow_nodes(now);
    }

    /// When it is to be looked next.
    pub(super) fn next_disk_look(&self) -> Option<Nanos> {
        let runs = |s: &super::Instance| s.has_disk() || s.wanted || s.opening.is_some();
        self.instances.iter().any(runs).then_some(self.next_look)
    }

    /// Looks at once whether the files of disks are still there and whole, since they are about to be closed.
    pub(crate) fn look_for_files(&mut self) {
        for n in 0..self.instances.len() {
            self.instances[n].file.next_look = 0;
            self.look_for_file(n, 0, OPENS_WITHIN);
        }
    }

    fn look_for_file(&mut self, n: usize, now: Nanos, patience: Duration) {
        let Some(disk) = self.seat(n).and_then(|seat| seat.disk.clone()) else { return };
        let size = self.instances[n].size;
        if self.instances[n].file.look(&disk, size, now, patience) {
            let what = self.trouble_of_file(n).expect("there is news of it");
            let text = format!("node {n}: {what} ({})", disk.path.display());
            self.log.on(About::node(n)).warn(&text);
        }
    }

    /// The nodes of this process whose disks are files that have been removed.
    pub(crate) fn on_removed_files(&self) -> Vec<usize> {
        (0..self.instances.len()).filter(|n| self.instances[*n].file.removed).collect()
    }

    /// What keeps the disk of a node from working while the node runs, or will cost its content.
    pub(crate) fn trouble_in_words(&self, n: usize) -> Option<String> {
        let instance = self.instances.get(n).filter(|instance| instance.runs())?;
        let trouble = instance.trouble.as_ref().map(Trouble::in_words);
        trouble.or_else(|| self.trouble_of_file(n))
    }

    /// What has become of the file of a node's disk, if something has.
    fn trouble_of_file(&self, n: usize) -> Option<String> {
        let instance = &self.instances[n];
        match (instance.file.removed, instance.file.cut()) {
            (true, _) => Some(removed_in_words(n)),
            (false, Some((was, is))) => Some(format!(
                "the file of its disk has been cut from {} to {}; `truncate -s {was} {}` restores its length, and `weft scrub` the content \
                 beyond, if other disks determine it",
                exactly(was),
                exactly(is),
                instance.path.display()
            )),
            (false, None) => None,
        }
    }

    fn look_at_disk(&mut self, n: usize, now: Nanos) {
        self.look_for_file(n, now, Duration::ZERO);
        let found = if self.instances[n].has_disk() { self.trouble_of(n, now) } else { None };
        self.tell_full(n, found.as_ref().is_some_and(|trouble| trouble.is_full));
        let Some(trouble) = found else {
            // What keeps a node down is known until it runs again.
            if self.instances[n].runs() && self.instances[n].trouble.take().is_some() {
                self.log.on(About::node(n)).info(&format!("the disk of node {n} responds again"));
            }
            return;
        };
        let is_new = self.instances[n].trouble.is_none();
        let serves = self.instances[n].phase != Phase::Opening;
        let alike = if trouble.is_full { self.full_disks() } else { vec![NodeId(n as u16)] };
        if serves && let Err(needed) = self.can_do_without(&alike, &[]) {
            if is_new {
                let text = match trouble.is_full {
                    true => format!("node {n}: {} until there is free space", trouble.in_words()),
                    false => format!("{}: {needed}", trouble.in_words()),
                };
                self.log.on(About::node(n)).error(&text);
            }
            self.instances[n].trouble = Some(trouble);
            return;
        }
        self.take_out(n, trouble);
    }

    /// Takes out a node that runs, until its disk works.
    pub(super) fn take_out(&mut self, n: usize, trouble: Trouble) {
        if let Some(disk) = self.seat(n).and_then(|seat| seat.disk.as_ref()) {
            disk.file.hangs();
        }
        // That it runs has been seen.
        let _ =
            self.kill_node(n, &format!("{}; it starts again when the disk responds", trouble.what));
        let (now, instance) = (self.clock.now(), &mut self.instances[n]);
        instance.wanted = true;
        instance.failures.expect_start();
        (instance.trouble, instance.taken_out) = (Some(trouble), Some(now));
    }

    /// The nodes of this process whose disks lack free space.
    fn full_disks(&self) -> Vec<NodeId> {
        let here = (0..self.instances.len()).filter(|n| self.instances[*n].has_disk());
        here.filter(|n| self.lacks_space(*n).is_some()).map(|n| NodeId(n as u16)).collect()
    }

    /// For how long writes to a node's disk, or to others on its file system, have waited for free space, if any do.
    pub(super) fn lacks_space(&self, n: usize) -> Option<Duration> {
        let disk = |n| self.seat(n).and_then(|seat| seat.disk.as_ref());
        let own = disk(n)?;
        let all = (0..self.instances.len()).filter_map(disk);
        all.filter(|other| Arc::ptr_eq(own, other) || own.shares_room_with(other))
            .filter_map(|other| other.space.lacks_for())
            .max()
    }

    /// Tells a node that runs whether its disk's file system is full, if that is news to it.
    fn tell_full(&mut self, n: usize, is_full: bool) {
        let instance = &mut self.instances[n];
        if instance.runs() && std::mem::replace(&mut instance.file.told_full, is_full) != is_full {
            self.hand(n, Input::Full(is_full));
        }
    }

    /// What is wrong with the disk of a node that runs.
    fn trouble_of(&self, n: usize, now: Nanos) -> Option<Trouble> {
        let (instance, seat) = (&self.instances[n], self.seat(n)?);
        let path = instance.path.display();
        if let Some(lacks) = self.lacks_space(n) {
            let what = format!("the file system of {path} is full");
            return (lacks >= FULL_TIMEOUT).then_some(Trouble { what, is_full: true });
        }
        let waited = now.saturating_sub(seat.oldest()?);
        if waited >= self.disk_timeout.of(instance.rotating) {
            let what = format!("{path} has not responded for {}", seconds(waited));
            return Some(Trouble::hangs(what));
        }
        let waited = now.saturating_sub(seat.oldest_write()?);
        let is_long = waited >= self.disk_timeout.of_writes(instance.rotating);
        let is_first = instance.taken_out.is_none_or(|at| now.saturating_sub(at) >= SOON);
        let what = format!("{path} has not finished a write for {}", seconds(waited));
        (is_long && is_first && self.is_alone_in_waiting(n, now, waited))
            .then(|| Trouble::hangs(what))
    }

    /// Whether no other disk of this process has operations under way that are half as old: else it is the machine that
    /// is slow, or what the disks share.
    fn is_alone_in_waiting(&self, n: usize, now: Nanos, waited: Nanos) -> bool {
        let others = (0..self.instances.len()).filter(|other| *other != n);
        let mut oldest = others.filter_map(|other| self.seat(other).and_then(Seat::oldest));
        !oldest.any(|begun| now.saturating_sub(begun) >= waited / 2)
    }

    /// Goes on with disks that have been opened by now.
    fn follow_opening(&mut self, now: Nanos) {
        for n in 0..self.instances.len() {
            let Some(opening) = &self.instances[n].opening else { continue };
            if let Some(opened) = opening.aside.within(Duration::ZERO) {
                self.instances[n].opening = None;
                if let Err(e) = opened.and_then(|opened| self.begin_node(n, opened)) {
                    self.drop_node(n, &e.to_string());
                    self.start_failed(n, &e.to_string());
                    self.died(n, false);
                }
            } else if now.saturating_sub(opening.since) >= STARTS_WITHIN
                && self.instances[n].phase == Phase::Opening
            {
                let path = self.instances[n].path.display();
                let what = format!("{path} cannot be opened: it does not respond");
                let why = format!("{what}; it starts when the disk responds");
                self.log.on(About::node(n)).error(&format!("node {n} stays down: {why}"));
                let instance = &mut self.instances[n];
                (instance.phase, instance.why) = (Phase::Down, why);
                instance.trouble = Some(Trouble::hangs(what));
                self.died(n, false);
            }
        }
    }
}

/// What it means that the file of a node's disk has been removed.
fn removed_in_words(n: usize) -> String {
    format!(
        "the file of its disk has been removed; its content is lost when this process stops: `weft disk drain {n}` moves it to \
         others; where there is no space for it, `weft node stop {n}` and `weft disk replace {n}` rebuild it on a new disk"
    )
}

/// A length of time in whole seconds.
fn seconds(time: Nanos) -> String {
    duration_in_words(Duration::from_secs(time / (1_000 * MILLIS)))
}
