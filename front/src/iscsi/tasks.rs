//! Commands in progress: their number, the data or answers that they wait for, and aborts (RFC 7143, 11.5).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::pdu::{Head, at, opcode};
use super::reservation::Action;
use super::scsi::{Sense, Step, Stretch, Then, Work};
use super::transfer::Gather;
use super::{Event, Op, Request, Server};

/// The most commands in progress that have a number of the sequence.
const WINDOW: u32 = 128;
/// The most commands in progress, with immediate ones.
pub(super) const MOST_TASKS: usize = 256;
/// The most task management functions in progress.
const MOST_ABORTS: usize = 64;
/// Bytes requested from the initiator at a time, for all commands together, if several request data.
const SOLICITED: usize = 8 << 20;

/// A command in progress.
pub(super) struct Task {
    /// The header of the command.
    pub(super) head: Head,
    /// Its work, or why it is refused.
    pub(super) work: Result<Work, Sense>,
    /// The length of the data that it needs.
    pub(super) data_out: u64,
    /// Its data, until they are complete.
    pub(super) gather: Option<Gather>,
    /// Requests that no node has been asked yet.
    pub(super) steps: VecDeque<Step>,
    /// The request at a node.
    pub(super) step: Option<Step>,
    /// The driver's count when it came.
    pub(super) came: u64,
    /// The list identifier and the number of segments of its copy, if the result is kept.
    pub(super) copies: Option<(u8, u16)>,
    /// Nobody waits for its answer.
    is_aborted: bool,
    /// The unit has been reset, and the rest of the command was dropped.
    pub(super) is_cut: bool,
}

impl Task {
    pub(super) fn new(head: Head, work: Result<Work, Sense>, came: u64) -> Task {
        let data_out = work.as_ref().map_or(0, Work::data_out);
        let steps = VecDeque::new();
        Task {
            head,
            work,
            data_out,
            gather: None,
            steps,
            step: None,
            came,
            copies: None,
            is_aborted: false,
            is_cut: false,
        }
    }

    /// A reset of the unit for all hosts. Like an aborted command it has no answer of its own.
    fn resetting(head: Head, came: u64) -> Task {
        let at = Stretch { offset: 0, length: 0 };
        let (op, then) = (Op::Reserve(Action::Reset), Then::Drop);
        let step = Step { op, at, durable: false, then, unit: None };
        Task { step: Some(step), is_aborted: true, ..Task::new(head, Ok(Work::Nothing), came) }
    }

    /// Whether data go to the initiator, and from it.
    pub(super) fn reads(&self) -> bool {
        self.head.flags() & 0x40 != 0
    }

    pub(super) fn writes(&self) -> bool {
        self.head.flags() & 0x20 != 0
    }

    /// Whether something is asked for after the request at a node: the write of what a copy has read, or of the same
    /// block further on.
    fn goes_on(&self) -> bool {
        let writes = |step: &Step| match step.then {
            Then::WriteTo(..) => true,
            Then::Repeat(left) => left > 0,
            _ => false,
        };
        !self.steps.is_empty() || self.step.as_ref().is_some_and(writes)
    }

    /// The transfer length that the initiator expects.
    pub(super) fn expected(&self) -> u64 {
        self.head.word(at::TRANSFER_TAG).into()
    }
}

/// The answer to an abort, which waits for commands at nodes.
struct Abort {
    tag: u32,
    waits: BTreeSet<u64>,
    /// What it waits for has failed.
    has_failed: bool,
    /// All connections of the target end after it.
    is_cold: bool,
}

/// All commands, by our own numbers.
#[derive(Default)]
pub(super) struct Tasks {
    all: BTreeMap<u64, Task>,
    by_tag: HashMap<u32, u64>,
    next: u64,
    /// Those with a number of the sequence.
    numbered: u32,
    /// The commands with data requested, with the length, and the commands still to request data for.
    asked: BTreeMap<u64, usize>,
    to_ask: VecDeque<u64>,
    /// Bytes kept of each command whose data are incomplete and have not been requested.
    early: BTreeMap<u64, usize>,
    aborts: Vec<Abort>,
}

impl Tasks {
    /// The number of further commands that may be sent.
    pub(super) fn window(&self) -> u32 {
        WINDOW - self.numbered.min(WINDOW)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn has(&self, tag: u32) -> bool {
        self.by_tag.contains_key(&tag)
    }

    pub(super) fn put(&mut self, task: Task) -> u64 {
        let number = self.next;
        self.next += 1;
        self.numbered += u32::from(!task.head.is_immediate());
        self.by_tag.insert(task.head.tag(), number);
        self.all.insert(number, task);
        number
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut Task> {
        self.all.get_mut(&number)
    }

    /// The command with this tag that still needs data.
    pub(super) fn gatherer(&mut self, tag: u32) -> Option<(u64, &mut Gather)> {
        let number = *self.by_tag.get(&tag)?;
        let gather = self.all.get_mut(&number)?.gather.as_mut()?;
        Some((number, gather))
    }

    /// Removes a command that has ended. Returns nothing if it was aborted.
    pub(super) fn end(&mut self, number: u64) -> Option<Task> {
        let task = self.all.remove(&number)?;
        self.by_tag.remove(&task.head.tag());
        self.numbered -= u32::from(!task.head.is_immediate());
        self.has_data(number);
        self.to_ask.retain(|n| *n != number);
        for abort in &mut self.aborts {
            abort.waits.remove(&number);
        }
        (!task.is_aborted).then_some(task)
    }

    /// Whether a command was aborted, so that its answer is dropped.
    pub(super) fn is_aborted(&self, number: u64) -> bool {
        self.all.get(&number).is_some_and(|task| task.is_aborted)
    }

    /// A command needs more data, which must be requested if it `asks`, and has memory for some. Further bursts come at
    /// once: no other command gets memory for its data meanwhile.
    pub(super) fn wants_data(&mut self, number: u64, kept: usize, asks: bool) {
        let is_asked = self.asked.contains_key(&number);
        if !is_asked {
            self.early.insert(number, kept);
        }
        match (asks, is_asked) {
            (true, true) => self.to_ask.push_front(number),
            (true, false) => self.to_ask.push_back(number),
            (false, _) => {}
        }
    }

    /// A command has its data.
    pub(super) fn has_data(&mut self, number: u64) {
        self.asked.remove(&number);
        self.early.remove(&number);
    }

    /// The next command to request data for, if its data fit beside the requested ones.
    pub(super) fn next_to_ask(&mut self) -> Option<u64> {
        let number = *self.to_ask.front()?;
        let gather = self.all.get(&number).and_then(|task| task.gather.as_ref());
        let wanted = gather.map_or(0, |gather| gather.wanted);
        let is_asked = self.asked.is_empty() || self.asked.contains_key(&number);
        let fits = is_asked || self.requested() + wanted <= SOLICITED;
        if !fits {
            return None;
        }
        self.to_ask.pop_front();
        self.early.remove(&number);
        self.asked.insert(number, wanted);
        Some(number)
    }

    /// Bytes requested for commands whose data are incomplete.
    fn requested(&self) -> usize {
        self.asked.values().sum()
    }

    /// Bytes of memory for commands whose data are incomplete.
    pub(super) fn gathering(&self) -> usize {
        self.requested() + self.early.values().sum::<usize>()
    }

    /// The oldest command that the initiator owes data for.
    pub(super) fn awaits_data(&self) -> Option<u64> {
        let comes = |number: &&u64| {
            let gather = self.all.get(*number).and_then(|task| task.gather.as_ref());
            gather.is_some_and(|gather| gather.is_unsolicited)
        };
        let (asked, coming) = (self.asked.keys().next(), self.early.keys().find(comes));
        asked.into_iter().chain(coming).min().copied()
    }

    /// Drops commands with incomplete data: no node knows of them.
    pub(super) fn drop_gathering(&mut self) {
        let of = self.all.iter().filter(|(_, task)| task.gather.is_some());
        for number in of.map(|(n, _)| *n).collect::<Vec<_>>() {
            self.end(number);
        }
    }

    /// Aborts commands; the answer waits for those at nodes.
    fn abort(&mut self, tag: u32, which: impl Fn(&Task) -> bool) {
        let of = |(number, task): (&u64, &Task)| which(task).then_some(*number);
        let mut waits: BTreeSet<u64> = self.all.iter().filter_map(of).collect();
        waits.retain(|number| {
            let Some(task) = self.all.get_mut(number) else { return false };
            task.is_aborted = true;
            task.steps.clear();
            if task.gather.is_some() {
                self.end(*number);
                return false;
            }
            true
        });
        self.aborts.push(Abort { tag, waits, has_failed: false, is_cold: false });
    }

    /// The reset that this command stands for could not be made.
    pub(super) fn reset_failed(&mut self, number: u64) {
        let tag = self.all.get(&number).map(|task| task.head.tag());
        let its = self.aborts.iter_mut().find(|abort| Some(abort.tag) == tag);
        if let Some(abort) = its {
            abort.has_failed = true;
        }
    }

    /// The unit has been reset: of commands at nodes nothing further begins. Returns those whose data are incomplete.
    pub(super) fn cut(&mut self) -> Vec<u64> {
        for task in self.all.values_mut().filter(|task| task.goes_on()) {
            task.steps.clear();
            task.is_cut = true;
        }
        self.all.iter().filter(|(_, task)| task.gather.is_some()).map(|(n, _)| *n).collect()
    }

    /// The next abort that is complete.
    fn next_aborted(&mut self) -> Option<Abort> {
        let n = self.aborts.iter().position(|abort| abort.waits.is_empty())?;
        Some(self.aborts.remove(n))
    }
}

/// Task management functions.
mod function {
    pub(super) const ABORT_TASK: u8 = 1;
    pub(super) const ABORT_TASK_SET: u8 = 2;
    pub(super) const CLEAR_TASK_SET: u8 = 4;
    pub(super) const LOGICAL_UNIT_RESET: u8 = 5;
    pub(super) const TARGET_WARM_RESET: u8 = 6;
    pub(super) const TARGET_COLD_RESET: u8 = 7;
    pub(super) const TASK_REASSIGN: u8 = 8;
}

/// Task management responses (RFC 7143, 11.6.1).
mod outcome {
    pub(super) const COMPLETE: u8 = 0;
    pub(super) const NO_TASK: u8 = 1;
    pub(super) const NO_UNIT: u8 = 2;
    pub(super) const NO_REASSIGNMENT: u8 = 4;
    pub(super) const NOT_SUPPORTED: u8 = 5;
    pub(super) const REJECTED: u8 = 255;
}

impl Server {
    /// Handles a task management function. Commands at nodes are awaited: they may take effect or not, but not after
    /// the answer.
    pub(super) fn manage(&mut self, head: &Head) {
        let (tag, referenced) = (head.tag(), head.word(at::TRANSFER_TAG));
        let function = head.flags() & 0x7f;
        let is_ours = super::commands::is_unit(head.lun());
        let of_unit = function::ABORT_TASK..=function::LOGICAL_UNIT_RESET;
        let refused = match function {
            _ if of_unit.contains(&function) && !is_ours => Some(outcome::NO_UNIT),
            function::ABORT_TASK if !self.tasks.has(referenced) => Some(outcome::NO_TASK),
            function::ABORT_TASK
            | function::ABORT_TASK_SET
            | function::CLEAR_TASK_SET
            | function::LOGICAL_UNIT_RESET
            | function::TARGET_WARM_RESET
            | function::TARGET_COLD_RESET => None,
            function::TASK_REASSIGN => Some(outcome::NO_REASSIGNMENT),
            _ => Some(outcome::NOT_SUPPORTED),
        };
        let is_one_too_many = self.tasks.aborts.len() >= MOST_ABORTS;
        let refused = refused.or(is_one_too_many.then_some(outcome::REJECTED));
        match (refused, function) {
            (Some(outcome), _) => self.answer_management(tag, outcome),
            (None, function::ABORT_TASK) => {
                self.tasks.abort(tag, |task| task.head.tag() == referenced);
            }
            // A target has one unit.
            (None, function::LOGICAL_UNIT_RESET | function::TARGET_WARM_RESET) => {
                self.reset(head, false);
            }
            (None, function::TARGET_COLD_RESET) => self.reset(head, true),
            // Each host has its own task set.
            (None, _) => self.tasks.abort(tag, |_| true),
        }
        self.answer_aborts();
    }

    /// Resets the unit: for this session at once, and for all by the driver. After a cold reset the driver ends the
    /// connections.
    fn reset(&mut self, head: &Head, is_cold: bool) {
        let (task, came) = (Task::resetting(*head, self.count), self.count);
        let op = task.step.as_ref().map(|step| step.op.clone());
        let number = self.tasks.put(task);
        self.tasks.abort(head.tag(), |_| true);
        if let Some(abort) = self.tasks.aborts.last_mut() {
            abort.is_cold = is_cold;
        }
        if let Some(op) = op {
            let request =
                Request { number, op, offset: 0, length: 0, durable: false, unit: None, came };
            self.ask(request);
        }
    }

    /// Answers completed aborts.
    pub(super) fn answer_aborts(&mut self) {
        while let Some(Abort { tag, has_failed, is_cold, .. }) = self.tasks.next_aborted() {
            let outcome = if has_failed { outcome::REJECTED } else { outcome::COMPLETE };
            self.answer_management(tag, outcome);
            if is_cold && !has_failed {
                self.events.push_back(Event::ColdReset);
            }
        }
        self.ask_for_data();
    }

    fn answer_management(&mut self, tag: u32, outcome: u8) {
        let head = Head::new(opcode::TASK_MANAGEMENT_RESPONSE).answering(tag);
        self.send_status(head.with_byte(2, outcome), &[]);
    }
}
