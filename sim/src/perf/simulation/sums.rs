//! Early commit (TickerTAIP 3.3.3): a worker votes when what makes its parity has come, before it is added up. The sum
//! is made when the processor has nothing else to do, or when a disk is to write it.
//!
//! A node adds up what comes as it comes, and only then votes: its processor needs no time of its own for it. So the
//! time is put off here.

use weft_core::node::Output;
use weft_core::store::DiskOp;

use super::super::diskless::Steps;
use super::super::system::Store;
use super::super::{Commit, Work};
use super::{Event, Simulation};

impl Simulation {
    fn votes_before_it_adds_up(&self) -> bool {
        let is_plain = self.system.nodes.store == Store::Plain;
        is_plain && self.system.volume.commit == Commit::Early
    }

    /// The bytes that a processor adds up for an input of all that it has to: those that only a write waits for are put
    /// off, until there is one.
    pub(super) fn puts_off_sums(
        &mut self,
        number: u32,
        all: u64,
        summed: u64,
        outputs: &[Output],
    ) -> u64 {
        if !self.votes_before_it_adds_up() {
            return all;
        }
        let owed = &mut self.processors[number as usize].owed_sums;
        *owed += summed;
        let is_write =
            |o: &Output| matches!(o, Output::Disk(r) if matches!(r.op, DiskOp::Write { .. }));
        let due = if outputs.iter().any(is_write) { std::mem::take(owed) } else { 0 };
        all - summed + due
    }

    /// A processor that has nothing to do makes the sums that it has put off.
    pub(super) fn adds_up_what_is_owed(&mut self, number: u32) {
        let now = self.queue.now();
        let processor = &mut self.processors[number as usize];
        let xor_bytes = std::mem::take(&mut processor.owed_sums);
        if xor_bytes == 0 {
            return;
        }
        let work = Work { xor_bytes, ..Work::default() };
        self.work += &work;
        let time = processor.time(self.system.nodes.path.instructions(&work));
        processor.load.up(now);
        processor.busy += time;
        // It is of no one node, if several share the processor, and brings nothing about.
        processor.in_hand = Some((number, Steps::new((time, Vec::new()))));
        self.queue.push(time, Event::Processor { processor: number });
    }
}
