//! A worker's inputs besides messages: ticks, epochs, and results of its store.

use super::*;
use crate::node::background::Background;

impl Worker {
    /// Asks about overdue writes, and forgets old ones.
    pub fn tick(&mut self, outbox: &mut Outbox) {
        let now = outbox.now;
        let patience = self.config.patience;
        let old = |since: Nanos, times: u64| now.saturating_sub(since) >= times * patience;
        let mut ask = Vec::new();
        let mut stuck = Vec::new();
        for (ts, txn) in self.txns.iter() {
            let asked = self.inquiries.get(ts).map_or(0, |i| i.asked);
            match txn.phase {
                Phase::Working if old(txn.since, 8) => stuck.push(*ts),
                Phase::Prepared | Phase::Committed { .. } if old(txn.since.max(asked), 1) => {
                    ask.push(*ts);
                }
                _ => {}
            }
        }
        for ts in stuck {
            self.leave_behind(ts);
            self.bar_earlier(ts);
            self.drop_txn(ts);
        }
        self.expire_locks(now);
        self.give_up_solving(8 * patience, outbox);
        self.give_way(outbox);
        ask.into_iter().for_each(|ts| self.inquire(ts, outbox));
        if self.fenced.is_time_to_forget(now) {
            self.forget_old(now);
        }
        self.filling.look_anew();
        self.load.tick();
        self.ask_dirty(outbox);
        self.place();
        if !self.txns.is_empty() {
            outbox.want_soon();
        }
    }

    /// Forgets timestamps older than the window, or too many of them. That searches all that is remembered, so it is
    /// done now and then and not at every tick.
    fn forget_old(&mut self, now: Nanos) {
        let window = self.config.timestamp_window;
        let back = window.saturating_add(self.clock_is_ahead);
        let horizon = Timestamp::reading(now.saturating_sub(back), NodeId(0));
        self.admission.raise_floor(horizon);
        self.admission.bound(self.config.remembered_units);
        self.fenced.forget_before(horizon, now + window / 4);
    }

    /// Writes that wait for space in this journal may hold space in others', where the writes wait that hold it here.
    /// The later ones are refused, and tried again. What a volume that sleeps holds is carried, and holds nothing up.
    pub(super) fn give_way(&mut self, outbox: &mut Outbox) {
        let long =
            |t: &Participation| outbox.now.saturating_sub(t.since) >= self.config.place_after;
        let sleeps = |t: &Participation| {
            self.map.volumes.get(&t.volume).is_some_and(|volume| self.map.is_asleep(volume))
        };
        let holds = |t: &Participation| t.phase == Phase::Prepared && long(t) && !sleeps(t);
        let held = self.txns.iter().find(|(_, t)| holds(t));
        let Some((&oldest, _)) = held else { return };
        let waits = |ts: &Timestamp, t: &Participation| {
            *ts > oldest && t.phase == Phase::Preparing && long(t) && self.store.waits_for_room(*ts)
        };
        let later = self.txns.iter().filter(|(ts, t)| waits(ts, t)).map(|(ts, _)| *ts);
        for ts in later.collect::<Vec<_>>() {
            self.refuse(ts, Refusal::Late(ts), outbox);
        }
    }

    /// Puts committed changes in place when no new ones come, or none were put in place for long.
    pub(super) fn place(&mut self) {
        if self.load.is_time_to_place() {
            self.forget_empty();
            self.checkpoint(true);
            self.store.flush_outcomes();
        }
    }

    fn checkpoint(&mut self, now: bool) {
        let (admission, txns) = (&self.admission, &self.txns);
        // What is not prepared before earlier content is decided cannot be here before it is.
        let is_ordered = |e: Timestamp| txns.get(&e).is_some_and(|t| t.ordering != Ordering::None);
        let over_undecided = |sector: u64, ts: Timestamp| {
            admission.earlier_content(ts, sector..sector + 1).any(is_ordered)
        };
        self.store.checkpoint(now, &|sector, ts, content| {
            debug_assert!(
                content || !over_undecided(sector, ts),
                "{ts}: a change of sector {sector} is to go on top of undecided content"
            );
            content && admission.holds_back(sector, ts)
        });
    }

    /// A new epoch: unprepared writes are dropped, and prepared ones are settled with the others.
    pub fn enter(&mut self, map: &Arc<ClusterMap>, floor: Timestamp, outbox: &mut Outbox) {
        let before = std::mem::replace(&mut self.map, map.clone());
        self.early.clear();
        self.shown.clear();
        self.reads.clear();
        self.forget_locks();
        // Their originators may have died, also those that are up again.
        let left: Vec<Timestamp> = self.txns.keys().copied().collect();
        left.into_iter().for_each(|ts| self.leave_behind(ts));
        let begun = |ts, t: &Participation| t.phase == Phase::Working || self.store.is_queued(ts);
        let begun = self.txns.iter().filter(|(ts, t)| begun(**ts, t));
        let begun: Vec<_> = begun.map(|(ts, _)| *ts).collect();
        begun.into_iter().for_each(|ts| self.drop_txn(ts));
        self.entered.enter(floor);
        // Their originators ask again.
        self.tickets.forget_flushes();
        self.stalled.forget_flushes();
        self.remember_less();
        self.remember_less_of_choices(&before);
        self.admission.raise_floor(floor);
        self.inquiries.clear();
        self.filling.look_anew();
        self.refreshing.enter(map.moving());
        if before.epoch == 0 {
            // It knew its copies when it stopped, and no volume. The authority counts all that are on this disk as named, and
            // waits for those whose columns are to move.
            let said = self.folding.said().iter().copied();
            self.folding.is_said(said.chain(map.moving()).collect());
        }
        self.folding.enter(self.parity_to_report());
        self.into_parity.enter(floor);
        let views = self.views.clone();
        self.enter_views();
        self.inherit_marks(&views);
        self.recount_exposed(outbox.now);
        self.telling.forget_asked();
        let unsettled: Vec<_> = self.txns.keys().copied().collect();
        for ts in unsettled {
            if self.txns.get(&ts).is_some_and(|t| t.phase != Phase::Preparing) {
                self.inquire(ts, outbox);
            }
        }
        self.enter_catchup(outbox);
        self.keep_only();
    }

    /// Processes results of the store. Returns whether there are more by now, or more to process.
    pub fn run(&mut self, serving: bool, background: &mut Background, outbox: &mut Outbox) -> bool {
        while let Some(event) = self.store.poll() {
            self.store_event(event, outbox);
        }
        if serving && self.stalled.take_change() {
            self.enter_granted(outbox);
            self.wake_waiting(outbox);
        }
        // A plain store has put in place what there is.
        if let AnyStore::Journal(_) = self.store {
            self.checkpoint(false);
        }
        if serving {
            self.run_dirty();
            self.run_catchup(background, outbox);
            self.report_merged(outbox);
            self.search_marks();
            self.answer_refreshed(outbox);
            self.ask_refresh(background, outbox.now);
            self.ask_folds(outbox);
            self.report_parity_done(outbox);
        }
        self.store.move_ops(&mut self.ops);
        if !self.ops.is_empty() {
            self.ops.drain(..).for_each(|request| outbox.push(Output::Disk(request)));
        }
        self.store.has_events() || (serving && self.stalled.has_changed())
    }

    /// Writes and reads that waited for a decision try again.
    pub(super) fn wake_waiting(&mut self, outbox: &mut Outbox) {
        if self.stalled.is_empty() {
            return;
        }
        let (writes, reads) = self.stalled.take();
        writes.into_iter().for_each(|ts| self.step(ts, outbox));
        reads.into_iter().for_each(|ts| self.step_read(ts, outbox));
    }

    pub(super) fn store_event(&mut self, event: Event, outbox: &mut Outbox) {
        match event {
            Event::Opened(found) => {
                found.into_iter().for_each(|r| self.reinstate(r, outbox.now));
                self.open = true;
                if let Some(heard) = self.store.heard() {
                    outbox.witness.remember(heard);
                }
                outbox.push(Output::Ready);
            }
            Event::Refused(why) => outbox.push(Output::Refused(why)),
            Event::Failed(why) => outbox.push(Output::DiskFailed(why)),
            Event::Damaged(what) => outbox.push(Output::Damaged(what)),
            Event::Prepared(ts) => self.on_prepared(ts, outbox),
            Event::OutcomeSafe(list) => {
                list.into_iter().for_each(|ts| self.on_outcome_safe(ts, outbox));
            }
            Event::Placed(ts) => self.on_outcome_safe(ts, outbox),
            Event::Flushed(ticket) => {
                if let Some(Ticket::Flush { to, id }) = self.tickets.take(ticket) {
                    outbox.send(to, Body::Flushed { id });
                }
            }
            Event::Read(done) => self.read_done(done, outbox),
            Event::Dropped(sectors) => self.marks_are_dropped(&sectors, outbox.now),
            Event::Scanned(ticket, found) => self.scan_done(ticket, found, outbox),
        }
    }

    /// A write that was prepared before this node last stopped.
    pub(super) fn reinstate(&mut self, found: Recovered, now: Nanos) {
        let Some(mut txn) = meta::decode(&found.meta) else { return };
        if !found.committed {
            // What drops copies goes along with the change of the same sectors.
            let changed = |c: &&Changed| !matches!(c.kind, crate::store::ChangeKind::Fold(_));
            for Changed { sectors, kind } in found.ranges.iter().filter(changed) {
                self.admission.reinstate(found.ts, sectors.clone(), cells::access(*kind));
            }
            txn.ranges = found.ranges;
        }
        txn.originator = found.ts.originator();
        txn.phase = if found.committed { Phase::Committed { safe: true } } else { Phase::Prepared };
        txn.since = now;
        self.txns.insert(found.ts, Box::new(txn));
    }

    /// Make what has been written safe, and the aborts of writes that have not happened.
    pub fn on_flush(&mut self, from: NodeId, id: u64) {
        let aborts = self.store.unsafe_aborts();
        if aborts.is_empty() {
            return self.begin_flush(from, id);
        }
        self.stalled.flush((from, id), aborts);
        self.store.flush_outcomes();
    }

    pub(super) fn begin_flush(&mut self, to: NodeId, id: u64) {
        let ticket = self.tickets.issue(Ticket::Flush { to, id });
        self.store.flush(ticket);
    }
}
