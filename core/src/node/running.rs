//! What a node does after each input: its roles follow up on what it has set in motion, until there is nothing left.

use super::Node;

impl Node {
    /// Follows up on everything the input set in motion, until there is nothing left.
    pub(super) fn run(&mut self) {
        loop {
            if self.originator.has_news_for_worker() {
                self.tell_worker();
            }
            self.background.hears_of_hosts(self.worker.hosts_are_busy());
            let mut has_more =
                self.worker.run(self.serving, &mut self.background, &mut self.outbox);
            if self.worker.has_wishes() {
                self.tell_originator();
            }
            if self.serving {
                self.originator.run(&mut self.background, &mut self.outbox);
                has_more |= self.run_roles();
            }
            has_more |= self.run_sequencing();
            if !has_more && !self.originator.has_news_for_worker() {
                break;
            }
        }
        if self.serving
            && let Some(at) = self.worker.next_refresh(self.outbox.now)
        {
            self.outbox.want_refresh(at);
        }
        let store = &self.worker.store;
        let has_ticks = self.is_busy()
            || store.has_free_to_discard()
            || store.has_to_drop()
            || store.has_to_merge()
            || store.has_to_flatten();
        if !self.outbox.tick_is_set && has_ticks {
            self.outbox.want_tick(self.config.patience.min(self.config.place_after));
        }
    }

    /// What the originator found out about units that the worker had asked for.
    #[cold]
    fn tell_worker(&mut self) {
        for unit in self.originator.take_put_back() {
            self.worker.is_put_back(unit);
        }
        for end in self.originator.take_folded() {
            self.worker.fold_ended(end, self.outbox.now);
        }
        for part in self.originator.take_unrecoverable() {
            self.worker.note_unrecoverable(part);
        }
    }

    /// What the worker wants put back, refreshed or verified.
    #[cold]
    fn tell_originator(&mut self) {
        self.originator.lead(self.worker.take_rebuilds(), &mut self.outbox);
        let refreshes = self.worker.take_refreshes().into_iter();
        refreshes.for_each(|unit| self.originator.refresh_unit(unit));
        self.worker.take_folds().into_iter().for_each(|fold| self.originator.fold(fold));
        self.originator.repair(self.worker.take_half_written());
    }

    /// Follows up on requests that are over, and on those that have their turn. Returns whether there was anything.
    fn run_sequencing(&mut self) -> bool {
        if self.outbox.has_answered() {
            self.follow_answered();
        }
        let mut worked = self.sequencing.run(&mut self.outbox);
        while let Some((number, volume, op)) = self.sequencing.next_begun() {
            worked = true;
            self.begin(number, volume, op);
        }
        worked || self.outbox.has_answered()
    }

    /// Follows up on requests that are over.
    #[inline(never)]
    fn follow_answered(&mut self) {
        for (number, result) in self.outbox.take_answered() {
            self.origins.remove(&number);
            self.sequencing.answered(number, &result, &mut self.outbox);
        }
    }
}
