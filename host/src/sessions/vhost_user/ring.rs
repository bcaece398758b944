//! One queue of a disk: where its rings are, who hears of answers, and which requests are in work.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::Ordering;

use vhost::vhost_user::{Error, Result as Handled};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use super::chain::{Broken, Chain};
use super::config::MOST_ENTRIES;
use super::inflight::QueueInflight;
use super::memory::{Guest, Memory};
use crate::socket::Watched;

/// A queue breaks so when its parts are not in the memory any more, and goes on when they are again.
const REMOVED: Broken = Broken("its memory has been removed");

/// One queue.
pub(super) struct Ring {
    queue: Queue,
    /// Where its three parts are in the virtual machine's process: descriptors, available and used.
    places: Option<[u64; 3]>,
    kick: Option<Watched>,
    call: Option<File>,
    error: Option<File>,
    enabled: bool,
    /// Why it is not looked at any more.
    broken: Option<Broken>,
    /// How often it has been started: answers to requests of an earlier life are not given.
    life: u64,
    inflight: Option<QueueInflight>,
    /// Heads that another process had in work.
    again: VecDeque<u16>,
    /// Its driver has answers that it has not been told of.
    answered: bool,
    /// Answers that there was no ring for: the heads, and bytes that were written.
    kept: Vec<(u16, u32)>,
}

impl Ring {
    /// One that has not been started.
    pub(super) fn new() -> Ring {
        Ring {
            queue: Queue::new(MOST_ENTRIES).expect("a power of two"),
            places: None,
            kick: None,
            call: None,
            error: None,
            enabled: false,
            broken: None,
            life: 0,
            inflight: None,
            again: VecDeque::new(),
            answered: false,
            kept: Vec::new(),
        }
    }

    /// Sets its number of entries.
    pub(super) fn set_entries(&mut self, entries: u32) -> Handled<()> {
        let entries = u16::try_from(entries).map_err(|_| Error::InvalidParam)?;
        self.queue.try_set_size(entries).map_err(|_| Error::InvalidParam)
    }

    /// Its number of entries.
    pub(super) fn entries(&self) -> u16 {
        self.queue.size()
    }

    /// Where its parts are. One that runs goes on there.
    pub(super) fn set_places(&mut self, places: [u64; 3], memory: &Memory) -> Handled<()> {
        self.place(places, memory)?;
        self.places = Some(places);
        Ok(())
    }

    fn place(&mut self, places: [u64; 3], memory: &Memory) -> Handled<()> {
        let find = |place: u64| memory.address(place).ok_or(Error::InvalidParam);
        let [descriptors, available, used] = places;
        let (descriptors, available, used) = (find(descriptors)?, find(available)?, find(used)?);
        let wrong = |_| Error::InvalidParam;
        self.queue.try_set_desc_table_address(descriptors).map_err(wrong)?;
        self.queue.try_set_avail_ring_address(available).map_err(wrong)?;
        self.queue.try_set_used_ring_address(used).map_err(wrong)
    }

    /// The memory has changed. One whose parts are gone is not looked at until they are there again: a front end may
    /// take memory away by one message and bring it back by the next.
    pub(super) fn move_to(&mut self, memory: &Memory) {
        let Some(places) = self.places else { return };
        let is_there = self.place(places, memory).is_ok() && self.is_sound(memory.guest());
        match self.broken {
            None if !is_there && self.queue.ready() => self.break_off(REMOVED),
            Some(REMOVED) if is_there => self.go_on(memory.guest()),
            _ => {}
        }
    }

    /// Its memory is there again.
    fn go_on(&mut self, guest: &Guest) {
        self.broken = None;
        for (head, written) in std::mem::take(&mut self.kept) {
            if let Err(broken) = self.answer(guest, head, written) {
                return self.break_off(broken);
            }
        }
    }

    fn is_sound(&self, guest: &Guest) -> bool {
        !self.queue.ready() || self.queue.is_valid(guest)
    }

    /// The entry that is next.
    pub(super) fn set_base(&mut self, base: u32) {
        self.queue.set_next_avail(base as u16);
    }

    /// Whoever waits for answers is told by `call`, and of errors by `error`. An answer may have come before, and
    /// this bell has told nobody of it.
    pub(super) fn set_call(&mut self, call: Option<File>) {
        self.call = call;
        self.call.iter().for_each(ring);
    }

    /// See [`set_call`](Ring::set_call).
    pub(super) fn set_error(&mut self, error: Option<File>) {
        self.error = error;
    }

    /// Requests are taken, or not.
    pub(super) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Begins, and goes on with what another process had in work. That one may have answered and not told the driver,
    /// which is told here in any case.
    pub(super) fn start(
        &mut self,
        kick: Watched,
        guest: &Guest,
        (with_events, inflight): (bool, Option<QueueInflight>),
    ) -> Handled<()> {
        self.stop();
        self.queue.set_event_idx(with_events);
        self.queue.set_ready(true);
        let used = self.queue.used_idx(guest, Ordering::Acquire).map(|used| used.0);
        let used = used.ok().filter(|_| self.places.is_some() && self.queue.is_valid(guest));
        let Some(used) = used else {
            self.queue.set_ready(false);
            return Err(Error::InvalidParam);
        };
        self.queue.set_next_used(used);
        self.inflight = inflight;
        if let Some(inflight) = &mut self.inflight {
            self.again = inflight.recover(used).into();
            self.queue.set_next_avail(used.wrapping_add(self.again.len() as u16));
        }
        (self.kick, self.broken) = (Some(kick), None);
        self.call.iter().for_each(ring);
        Ok(())
    }

    /// Ends. Says which entry would be next.
    pub(super) fn stop(&mut self) -> u16 {
        self.queue.set_ready(false);
        (self.kick, self.inflight) = (None, None);
        self.again.clear();
        self.kept.clear();
        if std::mem::take(&mut self.answered) {
            self.call.iter().for_each(ring);
        }
        self.life += 1;
        self.queue.next_avail()
    }

    /// Whether requests that another process had in work are still to be begun.
    pub(super) fn owes(&self) -> bool {
        self.is_looked_at() && !self.again.is_empty()
    }

    fn is_looked_at(&self) -> bool {
        self.enabled && self.queue.ready() && self.broken.is_none()
    }

    /// Which life it is in.
    pub(super) fn life(&self) -> u64 {
        self.life
    }

    /// It is not looked at any more, and its driver is told so if it wants that.
    pub(super) fn break_off(&mut self, why: Broken) {
        self.broken = Some(why);
        if let Some(error) = &self.error {
            ring(error);
        }
    }

    /// The next request, if there is one. It is in work from now on.
    pub(super) fn next(&mut self, guest: &Guest) -> Result<Option<(u16, Chain)>, Broken> {
        if !self.is_looked_at() {
            return Ok(None);
        }
        let Some(head) = self.next_head(guest)? else { return Ok(None) };
        let at = GuestAddress(self.queue.desc_table());
        Ok(Some((head, Chain::walk(guest, at, self.queue.size(), head)?)))
    }

    fn next_head(&mut self, guest: &Guest) -> Result<Option<u16>, Broken> {
        if let Some(head) = self.again.pop_front() {
            return Ok(Some(head));
        }
        let wrong = |_| Broken("the ring of requests is invalid");
        // A second look, after the driver has been told that it must say when there is more.
        for _ in 0..2 {
            let next = self.queue.iter(guest).map_err(wrong)?.next();
            if let Some(chain) = next {
                let head = chain.head_index();
                if let Some(inflight) = &mut self.inflight {
                    inflight.begin(head);
                }
                return Ok(Some(head));
            }
            if !self.queue.enable_notification(guest).map_err(wrong)? {
                return Ok(None);
            }
        }
        Err(Broken("the ring of requests cannot be read"))
    }

    /// Answers a request, with the number of bytes that have been written into it. While its memory is gone, the answer
    /// is kept.
    pub(super) fn answer(&mut self, guest: &Guest, head: u16, written: u32) -> Result<(), Broken> {
        if self.broken == Some(REMOVED) {
            self.kept.push((head, written));
            return Ok(());
        }
        if let Some(inflight) = &mut self.inflight {
            inflight.answers(head);
        }
        let added = self.queue.add_used(guest, head, written);
        added.map_err(|_| Broken("the ring of answers cannot be written"))?;
        if let Some(inflight) = &mut self.inflight {
            inflight.answered(head, self.queue.next_used());
        }
        self.answered = true;
        Ok(())
    }

    /// Tells the driver of answers, if there are new ones and it wants to be told.
    pub(super) fn tell(&mut self, guest: &Guest) {
        if !std::mem::take(&mut self.answered) || !self.queue.ready() {
            return;
        }
        if self.queue.needs_notification(guest).unwrap_or(true)
            && let Some(call) = &self.call
        {
            ring(call);
        }
    }
}

/// Rings a bell. One that cannot be rung without waiting rings already.
fn ring(bell: &File) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}
