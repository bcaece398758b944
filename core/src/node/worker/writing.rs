//! A write at a worker, from its first message to the store.

use super::reading::{CellReads, NotThere, not_there};
use super::*;

impl Worker {
    /// A write, or data for it, arrived: for the named seat, or for the column's.
    pub fn on_part(
        &mut self,
        from: NodeId,
        header: Header,
        to: Option<Role>,
        items: Vec<Item>,
        outbox: &mut Outbox,
    ) {
        let ts = header.ts;
        debug_assert!(
            ts > self.entered.floor(),
            "{ts} is from before this epoch, which began at {}",
            self.entered.floor()
        );
        debug_assert!(to.is_some() || from == ts.originator());
        if header.holder.is_some() && self.keeps_early(from, &header, to, &items) {
            return;
        }
        if !self.may_say(from, &header, to, &items, outbox) {
            return;
        }
        if self.fenced.contains(&ts)
            || (self.txns.get_mut(&ts).is_none() && !self.begin(&header, outbox))
        {
            return;
        }
        let txn = self.txns.get_mut(&ts).expect("just begun");
        if txn.phase != Phase::Working {
            return;
        }
        txn.is_told |= to.is_none();
        if header.holder.is_some_and(|holder| holder.node == from) && to.is_some() {
            txn.fetches = false;
        }
        txn.hops = txn.hops.max(outbox.hops);
        if to == Some(Role::Calculator) {
            txn.gather(items);
            return self.step_begun(ts, CellNumbers::new(), outbox);
        }
        let given = items.len();
        let seat = match to {
            Some(Role::Column(seat) | Role::Source(seat)) => seat,
            _ => txn.column,
        };
        let mut touched = CellNumbers::new();
        for mut item in items {
            if let Part::Sum { .. } = item.part {
                item.data = self.sent.sum(&self.config, item.data);
            }
            if let Some(n) = txn.take(seat, item) {
                touched.push(n);
            }
        }
        let column = txn.column;
        if to.is_none()
            && let Some(holder) = header.holder
            && txn.lacks_of_endpoint(given)
        {
            (txn.fetches, txn.has_fetched) = (true, true);
            outbox.send_after(holder.node, Body::Fetch { header, column }, 2);
        }
        touched.sort_unstable();
        touched.dedup();
        self.step_begun(ts, touched, outbox);
    }

    /// Continues with the cells for which input has arrived, or with all if the write has just begun.
    fn step_begun(&mut self, ts: Timestamp, touched: CellNumbers, outbox: &mut Outbox) {
        let txn = self.txns.get_mut(&ts).expect("just begun");
        match std::mem::take(&mut txn.new) {
            true => self.step(ts, outbox),
            false => self.step_cells(ts, touched.into_iter(), outbox),
        }
    }

    /// Begins a write, if it is not too late for it.
    fn begin(&mut self, header: &Header, outbox: &mut Outbox) -> bool {
        let Some(volume) = self.view_written(header) else { return false };
        let (g, task) = (&volume.geometry, &header.task);
        if !task.fits(&volume) {
            return false;
        }
        let stripe = task.first_stripe(&volume);
        let extent = volume.extent(stripe);
        let originator = header.ts.originator();
        let (extent_number, calculators) = (volume.extent_of(stripe), header.calculators);
        let endpoint = header.holder.map(|holder| holder.node);
        let cast =
            Cast { volume: &volume, extent: extent_number, originator, calculators, endpoint };
        let coordinator = cast.node(stripe, Role::Coordinator).expect("every task has one");
        let Some(held) = cast.column_of(self.node, task) else { return false };
        let Ok(mut plan) = task.plan(&volume, header.avoid, header.waits) else { return false };
        if plan.assign(g, calculators).is_err() {
            return false;
        }
        // Most writes have one, and it is large: a growing vector would begin with space for four.
        let mut cells: Vec<Cell> = Vec::with_capacity(plan.rows.len());
        for row in &plan.rows {
            for role in cast.roles_of(row.stripe, held) {
                cells.push(Cell::new(&volume, *header, *row, role));
                if cells.last().is_some_and(|cell| cell.execution.cell().is_idle()) {
                    cells.pop();
                }
            }
        }
        let column = held.0;
        let calculates = |row: &&WriteRow| row.calculator == Some(column) && !held.1;
        let own = plan.rows.iter().filter(calculates);
        let calculators: Vec<Calculator> = own
            .map(|row| Calculator::new(&volume, *header, row, row.cell(g, Role::Calculator)))
            .collect();
        let node_of = |c: usize| (c, extent.columns[c].0);
        let participants: Vec<_> = plan.participants(g).iter().map(node_of).collect();
        let markers = plan.markers(&volume.geometry);
        let marks = markers.contains(column);
        let mut accesses = Accesses::new();
        cells.iter().for_each(|cell| cell.add_accesses(&mut accesses));
        let mut ranges = Vec::with_capacity(cells.len());
        cells.iter().for_each(|cell| cell.writes().for_each(|changed| ranges.push(changed)));
        let txn = Participation {
            epoch: self.map.epoch,
            volume: header.volume,
            named: header.volume,
            space: Some(volume.space()),
            extent: volume.extent_of(stripe),
            column,
            journal: is_journaled(&volume, header.task, &cells),
            alone: !volume.policy.commit.is_voted(),
            originator: coordinator,
            participants,
            markers,
            waits: plan.rows.iter().any(|row| !row.waits().is_empty()),
            unfinished: cells.len() + calculators.len(),
            cells,
            calculators,
            new: true,
            fetches: false,
            has_fetched: false,
            is_told: false,
            ranges,
            writes: header.task.host_range().unwrap_or(EVERYTHING),
            ordering: volume.policy.ordering,
            delayed: false,
            task: Some(header.task),
            // Without votes the parts of other nodes are unknown.
            asker: header.asker.filter(|_| volume.policy.commit.is_voted()),
            phase: Phase::Working,
            hops: 0,
            awaited: false,
            told_by: None,
            heard: false,
            settled: false,
            since: outbox.now,
        };
        if let Task::Write(_) = header.task {
            self.host_part(outbox.now);
        }
        if let Task::Refresh { stripe, .. } = header.task {
            let parities = txn.cells.iter().filter(|cell| cell.is_parity());
            parities.for_each(|c| self.refreshing.is_led((volume.id, stripe, c.seat), outbox.now));
        }
        if let Some(asker) = header.asker {
            self.memory.hear(asker, header.ts);
        }
        let vital = volume.policy.commit == Commit::Late;
        for Changed { sectors, .. } in txn.ranges.iter().filter(|r| r.kind.is_delta()) {
            self.store.expect(header.ts, sectors.start, sectors.end - sectors.start, vital);
        }
        let admitted = self.admit_write(header.ts, &txn, accesses, outbox);
        let marked = match header.task {
            Task::Write(range) if marks => Some(range.stripes(g)),
            _ => None,
        };
        let marks = || txn.ranges.iter().filter(|r| r.kind.is_mark());
        // Here it may still be computable: of two parities that cover different data one may be, and the other
        // not.
        let must = header.waits.must
            || marks().any(|r| self.exposure.unrecoverable_in(r.sectors.clone()) > 0);
        let adds = !must && marks().any(|r| !self.exposure.has_all(&r.sectors));
        if volume.defers() {
            self.note_into_parity(header.ts, &txn);
        }
        let marks_stand = match header.waits.marked_since {
            Some(since) => self.marks_stand(since, &txn),
            None => true,
        };
        self.txns.insert(header.ts, Box::new(txn));
        if let Err(refusal) = admitted {
            self.refuse(header.ts, refusal, outbox);
            return false;
        }
        if !marks_stand {
            self.refuse(header.ts, Refusal::MarksAreGone, outbox);
            return false;
        }
        if marked.is_some_and(|stripes| {
            !self.may_wait(&volume, (header.ts, stripes), adds, must, outbox.now)
        }) {
            self.refuse(header.ts, Refusal::MustNotWait, outbox);
            return false;
        }
        if let Some(refusal) = self.refused_at_once_for_copies(header) {
            self.refuse(header.ts, refusal, outbox);
            return false;
        }
        true
    }

    /// Executes all steps of a write that can be executed.
    pub(super) fn step(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get(&ts) else { return };
        self.step_cells(ts, 0..txn.cells.len(), outbox);
    }

    /// Executes all steps of some cells of a write that can be executed, and prepares the write if none is left.
    pub(super) fn step_cells(
        &mut self,
        ts: Timestamp,
        cells: impl Iterator<Item = usize>,
        outbox: &mut Outbox,
    ) {
        let works = self.txns.get_mut(&ts).is_some_and(|t| t.phase == Phase::Working);
        if !works || self.waits_for_locks(ts) {
            return;
        }
        if self.must_know_marks(ts) {
            self.stalled.write(ts);
            return;
        }
        let (mut shares, mut reads) = (Shares::default(), CellReads::new());
        let txn = &self.txns[&ts];
        let (is_joined, calculates) = (txn.is_joined(), !txn.calculators.is_empty());
        let mut cells: CellNumbers = cells.collect();
        let mut next = 0;
        loop {
            let Some(&n) = cells.get(next) else {
                // Its results for others may be for its own cells, too.
                if calculates {
                    cells.extend(self.calculate(ts, &mut shares, outbox));
                }
                match next == cells.len() {
                    true => break,
                    false => continue,
                }
            };
            next += 1;
            if let Err(refusal) = self.start_read(ts, n, &mut reads, outbox) {
                self.refuse(ts, refusal, outbox);
                return;
            }
            if !is_joined {
                self.read_cells(ts, &mut reads);
            }
            if !is_joined || self.txns[&ts].has_read() {
                self.send_share(ts, n, &mut shares, outbox);
            }
        }
        self.read_cells(ts, &mut reads);
        let txn = self.txns.get_mut(&ts).expect("just seen");
        for n in cells {
            let cell = &mut txn.cells[n];
            if !cell.is_finished && cell.execution.is_done() {
                cell.is_finished = true;
                txn.unfinished -= 1;
            }
            outbox.counters.xor_bytes += cell.execution.take_added();
            outbox.counters.summed_to_write += cell.execution.take_summed_to_write();
            if cell.execution.must_read() {
                self.stalled.write(ts);
            }
        }
        let of_cell = || txn.cells.first().map(|c| c.header);
        let header = || of_cell().or_else(|| txn.calculators.first().map(Calculator::header));
        if let Some(header) = (!shares.0.is_empty()).then(header).flatten() {
            for ((node, to, sent_at), items) in shares.0 {
                outbox.send_after(node, Body::Part { header, to, items }, sent_at);
            }
        }
        if txn.unfinished > 0 || txn.fetches {
            return;
        }
        let mut undecided = self.undecided_below(ts);
        undecided.extend(self.undecided_copies_below(ts));
        if self.txns[&ts].puts_back() {
            undecided.extend(self.undecided_before_put_back(ts));
        }
        if !undecided.is_empty() || self.copies_too_early(ts) {
            self.hasten(undecided, outbox);
            self.stalled.write(ts);
            return;
        }
        if let Some(refusal) = self.refused_for_copies(ts).or_else(|| self.refused_for_marks(ts)) {
            return self.refuse(ts, refusal, outbox);
        }
        let folds = self.folds_of(ts);
        let txn = self.txns.get_mut(&ts).expect("just seen");
        let (copies, loses, accepts) = (txn.copies(), txn.loses(), txn.accepts());
        let only_marks = txn.markers.contains(txn.column);
        let mut changes = Vec::with_capacity(txn.cells.len());
        txn.cells.iter_mut().for_each(|cell| cell.add_changes(&mut changes));
        if copies && !changes.is_empty() {
            let (seat, part) = self.txns[&ts].cells[0].whole();
            let lost = |c: &Change| c.sectors().any(|s| self.catchup.is_lost(s));
            if changes.iter().any(lost) {
                // It was here, and is lost: no other disk has it.
                let refusal = not_there(seat, vec![part], NotThere::Lost);
                return self.refuse(ts, refusal, outbox);
            }
            changes = self.still_missing(changes);
            if changes.is_empty() {
                return self.refuse(ts, Refusal::Aborted, outbox);
            }
        }
        if accepts {
            changes = self.still_lost(changes);
            if !only_marks && changes.iter().all(|c| c.kind.is_mark()) {
                return self.refuse(ts, Refusal::Aborted, outbox);
            }
        }
        if loses {
            // Its content is not known yet: it may be complete.
            if self.catchup.is_asking_about(self.txns[&ts].volume) {
                return self.refuse(ts, Refusal::Busy, outbox);
            }
            changes = self.still_missing(changes);
            if changes.is_empty() {
                return self.refuse(ts, Refusal::Aborted, outbox);
            }
        }
        if changes.is_empty() {
            // It only sent content to others. The originator gives its lock back.
            let txn = self.txns.remove(&ts).expect("just seen");
            if txn.gathers() {
                // A repeated message must not begin it again: its other messages would not come.
                self.fenced.insert(ts);
            }
            self.lend(ts, outbox.now);
            return;
        }
        let mut changes = self.without_needless_zeros(ts, changes);
        let is_lasting = !folds.is_empty();
        changes.extend(folds);
        if self.config.heeds_space() && !self.has_space(ts, &changes) {
            return self.refuse_for_space(ts, outbox);
        }
        let txn = self.txns.get_mut(&ts).expect("just seen");
        txn.phase = Phase::Preparing;
        let meta = if self.store.keeps_meta() { meta::encode(txn) } else { Vec::new() };
        // Copies that are in the journal are dropped there.
        txn.journal |= is_lasting;
        let journal = txn.journal;
        txn.cells.clear();
        txn.calculators.clear();
        self.store.prepare(ts, meta, changes, journal);
    }

    /// The part of a copy, or of lost content, that no other write has replaced since.
    fn still_missing(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut out = Vec::new();
        for change in changes {
            for (n, sector) in change.sectors().enumerate() {
                let is_damaged = change.kind.is_mark() && self.damaged.contains(&sector);
                if is_damaged || self.catchup.is_stale(sector..sector + 1) {
                    let at = n * SECTOR as usize;
                    let data = change.data.slice(at, at + SECTOR as usize);
                    out.push(Change { sector, kind: change.kind, data });
                }
            }
        }
        out
    }

    /// The lost part of a range that is zeroed where it is lost.
    fn still_lost(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut out = Vec::new();
        for change in changes {
            for (n, sector) in change.sectors().enumerate() {
                if change.kind.is_mark() || self.exposure.lacks_content(sector) {
                    let at = n * SECTOR as usize;
                    let data = change.data.slice(at, at + SECTOR as usize);
                    out.push(Change { sector, kind: change.kind, data });
                }
            }
        }
        out
    }

    /// While a column is copied to this disk no change goes on top of content that is not there yet: that is copied
    /// first, so that redundancy is kept throughout. Nor does one go on top of what a view below lacks: this disk would not
    /// know later that it has to be computed.
    fn refuse_change_of_missing(&self, cell: &Cell) -> Result<(), Refusal> {
        let extent = self.map.volumes.get(&cell.header.volume).map(|v| v.extent(cell.row.stripe));
        let copied = extent.is_some_and(|e| e.leaving.contains_key(&cell.column));
        let changed = cell.writes().filter(|c| c.kind.is_delta());
        let mut lacks = changed
            .filter(|c| copied || self.is_stale_beneath(c.sectors.clone()))
            .filter_map(|c| self.stale_in(c.sectors));
        match lacks.next() {
            None => Ok(()),
            Some(missing) => {
                let part = cell.span_of(missing);
                let parts = vec![(cell.row.stripe, part)];
                Err(not_there(cell.seat, parts, NotThere::Behind { known: false }))
            }
        }
    }

    /// Requests the sectors that a cell reads, if it may read now.
    fn start_read(
        &mut self,
        ts: Timestamp,
        n: usize,
        reads: &mut CellReads,
        outbox: &mut Outbox,
    ) -> Result<(), Refusal> {
        let txn = &self.txns[&ts];
        let cell = &txn.cells[n];
        self.refuse_change_of_missing(cell)?;
        if let Some(part) = self.marked_part(cell) {
            return Err(not_there(cell.seat, vec![part], NotThere::Marked));
        }
        if !cell.execution.must_read() {
            return Ok(());
        }
        if let Some(refusal) = self.refuses_to_show(ts, n) {
            return Err(refusal);
        }
        let cell = &self.txns[&ts].cells[n];
        let ranges: Ranges = cell.read_ranges().collect();
        let ordering = self.txns[&ts].ordering;
        match self.before_read(ts, ordering, ranges.iter().cloned()) {
            Before::Nothing => {}
            Before::Later(later) => return Err(Refusal::Late(later)),
            Before::Undecided => {
                self.hasten_before(ts, ordering, ranges, outbox);
                let txn = self.txns.get_mut(&ts).expect("just seen");
                if !std::mem::replace(&mut txn.delayed, true) {
                    outbox.push(Output::Delayed(ts.originator()));
                }
                return Ok(());
            }
        }
        if let Some(stale) = ranges.iter().find_map(|r| self.stale_in(r.clone())) {
            let part = cell.span_of(stale.clone());
            let parts = vec![(cell.row.stripe, part)];
            let known = !self.is_stale_beneath(stale.clone())
                && self.knows_missing(cell.volume_id(), cell.row.stripe, cell.column);
            return Err(not_there(cell.seat, parts, NotThere::Behind { known }));
        }
        self.txns.get_mut(&ts).expect("just seen").cells[n].execution.reading(ranges.len());
        reads.extend(ranges.into_iter().enumerate().map(|(part, range)| (n, part, range)));
        Ok(())
    }

    /// Advances a cell until it must wait, and sends its results. Results without a read go together with those
    /// of other stripes: all are ready when the write begins.
    fn send_share(&mut self, ts: Timestamp, n: usize, shares: &mut Shares, outbox: &mut Outbox) {
        let txn = self.txns.get_mut(&ts).expect("just seen");
        if txn.cells[n].row.columns_compute() {
            return self.send_to_columns(ts, n, shares, outbox);
        }
        for sending in txn.cells[n].advance() {
            self.send_part(ts, n, sending, shares, outbox);
        }
    }

    fn send_part(
        &mut self,
        ts: Timestamp,
        n: usize,
        sending: Sending,
        shares: &mut Shares,
        outbox: &mut Outbox,
    ) {
        let txn = &self.txns[&ts];
        let cell = &txn.cells[n];
        // The originator's message, the first one, asked for it; input for other rows meanwhile is no part of this
        // chain. But new data may have been fetched.
        let hops = if txn.has_fetched && cell.shows_new(&sending) { 4 } else { 2 };
        let Sending { to, part, mut data } = sending;
        let is_share = matches!(cell.execution.cell().at, Role::Column(_));
        if let (Destination::Columns(_), true) = (to, is_share) {
            data = self.sent.share(&self.config, data);
        }
        let (header, cast) = (cell.header, cell.cast());
        let item = Item { stripe: cell.row.stripe, part, data };
        let waits = !cell.execution.cell().reads().is_empty();
        for to in to.roles() {
            let node = cast.node(item.stripe, to).expect("a role in this plan");
            match header.task.is_joined() || (matches!(to, Role::Column(_)) && !waits) {
                true => shares.add(node, to, hops, item.clone()),
                false => {
                    let items = vec![item.clone()];
                    outbox.send_after(node, Body::Part { header, to, items }, hops);
                }
            }
        }
    }

    /// This disk cannot do its part.
    pub(super) fn refuse(&mut self, ts: Timestamp, refusal: Refusal, outbox: &mut Outbox) {
        let txn = &self.txns[&ts];
        let vote = Body::Vote { ts, column: txn.column, vote: Err(refusal) };
        outbox.send(txn.originator, vote);
        self.drop_txn(ts);
    }

    /// Forgets an undecided write and takes no part in it any more.
    pub(super) fn drop_txn(&mut self, ts: Timestamp) {
        let Some(txn) = self.txns.remove(&ts) else { return };
        debug_assert!(!matches!(txn.phase, Phase::Committed { .. }));
        for Changed { sectors, .. } in &txn.ranges {
            self.admission.resolve(ts, sectors.clone(), false);
        }
        if matches!(txn.phase, Phase::Preparing | Phase::Prepared) {
            self.store.outcome(ts, false);
        } else {
            self.store.forget(ts);
        }
        self.unlock(ts);
        self.fenced.insert(ts);
        self.inquiries.remove(&ts);
        self.stalled.wake();
    }
}

impl Participation {
    /// See [`Task::is_joined`].
    pub(super) fn is_joined(&self) -> bool {
        let of_cell = self.cells.first().map(|c| c.header);
        let header = of_cell.or_else(|| self.calculators.first().map(Calculator::header));
        header.is_some_and(|header| header.task.is_joined())
    }

    /// Whether it copies from, or to, another disk.
    pub(super) fn copies(&self) -> bool {
        matches!(self.task, Some(Task::Copy { .. }))
    }

    /// Whether it marks a part of its column as permanently lost.
    fn loses(&self) -> bool {
        matches!(self.task, Some(Task::Lose { .. }))
    }

    /// Whether only permanently lost content is written.
    pub(super) fn accepts(&self) -> bool {
        matches!(self.task, Some(Task::Accept(_)))
    }

    /// Whether it rebuilds content that a disk lacks.
    pub(super) fn puts_back(&self) -> bool {
        !matches!(self.task, None | Some(Task::Write(_) | Task::Fold { .. }))
    }

    /// Whether all content that its cells read has arrived.
    fn has_read(&self) -> bool {
        self.cells.iter().all(|cell| cell.execution.has_read())
    }

    /// Whether the endpoint must be asked, when this many parts have come with the request: for further parts, or
    /// because otherwise it would not know of the attempt before parity is marked.
    fn lacks_of_endpoint(&self, here: usize) -> bool {
        let marks = self.cells.iter().any(|c| c.kind().is_mark() && c.writes().next().is_some());
        let given = self.cells.iter().map(Cell::given).sum::<usize>();
        let to_calculators = self.calculators.iter().map(Calculator::given).sum::<usize>();
        marks || given + to_calculators > here
    }
}

/// Whether a worker journals its part of a task.
///
/// A rebuild can be repeated: until it is in place the map, or the table, says that content is missing. But copied parity
/// must be there if a change on top of it is. And where no parity covers a column, nobody could tell whether a sector that
/// a power cut tore was only copied, or written since.
fn is_journaled(volume: &Volume, task: Task, cells: &[Cell]) -> bool {
    volume.policy.is_journaled()
        && match task {
            Task::Write(_) | Task::Accept(_) | Task::Fold { .. } => true,
            Task::Refresh { .. } | Task::Rebuild { .. } | Task::Lose { .. } => false,
            Task::Copy { .. } => {
                volume.geometry.code.any_losses() == 0 || cells.iter().any(Cell::is_parity)
            }
        }
}
