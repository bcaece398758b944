//! Processors that work in rounds, as the loop of `weft up` and `weft node` does: what has come
//! is taken in together and handled, with the messages that nodes of the same processor send one
//! another; when no message is left, disk operations begin; and when nothing is left at all, hosts
//! are answered. What comes meanwhile waits for the next round.
//!
//! The nodes decide all of it when the round begins, and everything takes effect when the
//! processor has come to it. What nodes have put off until there is nothing better to do
//! ([`Timer::Soon`]) is done in a round of its own as soon as nothing waits.

use std::collections::VecDeque;

use weft_core::node::{Input, Output, Timer};
use weft_core::store::{DiskOp, DiskRequest};

use super::*;

impl Simulation {
    pub(super) fn has_rounds(&self) -> bool {
        self.system.nodes.rounds
    }

    /// Whether what a node has put off is due; then it is done.
    pub(super) fn is_due(&mut self, node: u32) -> bool {
        let now = self.queue.now();
        self.places[node as usize].soon.take_if(|due| *due <= now).is_some()
    }

    /// Has a processor begin a round, if it is idle.
    pub(super) fn wake(&mut self, number: u32) {
        let processor = &mut self.processors[number as usize];
        if !std::mem::replace(&mut processor.awake, true) {
            let delay = micros(self.system.nodes.wake_us);
            self.queue.push(delay, Event::Processor { processor: number });
        }
    }

    /// A processor begins a round, or has nothing more to do.
    pub(super) fn round(&mut self, number: u32) -> Result<(), String> {
        let now = self.queue.now();
        let mut inputs = std::mem::take(&mut self.processors[number as usize].waiting);
        if inputs.is_empty() {
            let places = self.places.iter_mut().enumerate();
            for (node, place) in places.filter(|(_, p)| p.processor == number) {
                if place.soon.take().is_some() {
                    inputs.push_back((node as u32, Input::Timer(Timer::Soon)));
                }
            }
            (0..inputs.len()).for_each(|_| self.processors[number as usize].load.up(now));
        }
        let is_idle = inputs.is_empty();
        let was_drowsy = std::mem::replace(&mut self.processors[number as usize].drowsy, is_idle);
        if is_idle {
            if was_drowsy {
                self.sleeps(number);
            } else {
                self.gets_drowsy(number);
            }
            return Ok(());
        }
        let handed = inputs.len();
        let mut round = Round { number, began: now, at: now, instructions: 0.0 };
        self.spend(&mut round, Work { rounds: 1, ..Work::default() });
        let mut replies = Vec::new();
        while !inputs.is_empty() {
            let disks = self.handle_all(&mut round, &mut inputs, &mut replies);
            self.start_disks(&mut round, disks, &mut inputs);
        }
        for (node, reply) in replies {
            self.spend(&mut round, Work::after(&reply, self.system.volume.unit));
            self.later(&round, node, reply);
        }
        let processor = &mut self.processors[number as usize];
        (0..handed).for_each(|_| processor.load.down(now));
        processor.busy += round.at - now;
        self.queue.push(round.at - now, Event::Processor { processor: number });
        Ok(())
    }

    /// A processor has nothing left to do, and prepares to sleep.
    fn gets_drowsy(&mut self, number: u32) {
        let work = Work { sleeps: 1, ..Work::default() };
        self.work += &work;
        let processor = &mut self.processors[number as usize];
        let time = processor.time(self.system.nodes.path.instructions(&work));
        processor.busy += time;
        self.queue.push(time, Event::Processor { processor: number });
    }

    /// Nothing has come meanwhile.
    fn sleeps(&mut self, number: u32) {
        let processor = &mut self.processors[number as usize];
        (processor.awake, processor.drowsy) = (false, false);
    }

    /// Has nodes handle these inputs and the messages that come of them; answers with the disk
    /// operations.
    fn handle_all(
        &mut self,
        round: &mut Round,
        inputs: &mut VecDeque<(u32, Input)>,
        replies: &mut Vec<(u32, Output)>,
    ) -> Vec<(u32, DiskRequest)> {
        let mut disks = Vec::new();
        let unit = self.system.volume.unit;
        while let Some((node, input)) = inputs.pop_front() {
            let began = round.at;
            let mut work = Work::before(&input);
            let Handled { outputs, followed, .. } = self.handle(node, began, input, &mut work);
            self.spend(round, work);
            for output in outputs {
                match output {
                    Output::Disk(request) => disks.push((node, request)),
                    Output::Reply(..) => replies.push((node, output)),
                    Output::Timer(Timer::Soon, delay) => {
                        let due = round.at + delay;
                        let life = self.places[node as usize].life;
                        self.places[node as usize].soon.get_or_insert(due);
                        self.queue.push(
                            due - self.queue.now(),
                            Event::Timer { node, life, timer: Timer::Soon },
                        );
                    }
                    output => {
                        let commands = self.commands_sent(&output);
                        self.spend(round, Work { commands, ..Work::after(&output, unit) });
                        match output {
                            Output::Send(m) if self.is_near(round, u32::from(m.to.0)) => {
                                self.messages += u64::from(m.from != m.to);
                                inputs.push_back((u32::from(m.to.0), Input::Message(m)));
                            }
                            output => self.later(round, node, output),
                        }
                    }
                }
            }
            if let (Some(timeline), Some(what)) = (&mut self.timeline, followed) {
                timeline.worked(node, began, round.at, what);
            }
        }
        disks
    }

    /// Begins disk operations. Those that the processor does itself are done at once.
    fn start_disks(
        &mut self,
        round: &mut Round,
        disks: Vec<(u32, DiskRequest)>,
        inputs: &mut VecDeque<(u32, Input)>,
    ) {
        for (node, request) in disks {
            let output = Output::Disk(request);
            self.spend(round, Work::after(&output, self.system.volume.unit));
            match output {
                Output::Disk(request) if self.system.disks.in_memory => {
                    let bytes = match request.op {
                        DiskOp::Read { len, .. } => len,
                        _ => 0,
                    };
                    let data = Buffer::Length(bytes as usize);
                    inputs.push_back((node, Input::Disk(request.id, Ok(data))));
                }
                output => self.later(round, node, output),
            }
        }
    }

    fn is_near(&self, round: &Round, node: u32) -> bool {
        self.places[node as usize].processor == round.number
    }

    /// So much work more.
    fn spend(&mut self, round: &mut Round, work: Work) {
        self.work += &work;
        round.instructions += self.system.nodes.path.instructions(&work);
        // Made whole nanoseconds once, and not for each piece.
        round.at = round.began + self.processors[round.number as usize].time(round.instructions);
    }

    /// Has an output take effect at the time that the round has come to.
    fn later(&mut self, round: &Round, node: u32, output: Output) {
        let delay = round.at - self.queue.now();
        let life = self.places[node as usize].life;
        self.queue.push(delay, Event::Output { node, life, output: Box::new(output) });
    }
}

/// A round, and how far it is.
struct Round {
    number: u32,
    began: Nanos,
    /// The time that it has come to.
    at: Nanos,
    /// What it took so far.
    instructions: f64,
}
