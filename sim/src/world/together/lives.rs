//! How processes start, die and stand still.

use super::*;

impl World {
    /// Whether the process of a node runs.
    pub(in crate::world) fn has_process(&self, id: NodeId) -> bool {
        self.seat(id).process.is_some()
    }

    /// Starts the process of a node, if it does not run; its nodes are to open their disks.
    pub(in crate::world) fn start_process(&mut self, id: NodeId) {
        if self.seat(id).process.is_some() {
            return;
        }
        let (id, nodes) = (self.process_of(id), self.hosted_with(id));
        let (config, codec) = (self.together().config, self.together().codec.clone());
        let stored = self.open_log(id);
        let seat = self.seat_mut(id);
        let process =
            Process::new(id, &nodes, stored, config, codec).expect("settings that are safe");
        seat.process = Some(process);
        (seat.gate, seat.armed) = (Gate::default(), 0);
        seat.life += 1;
        self.hear(id, Heard::Tick);
        let delay = self.rng.u64(MICROS..config.probe_every);
        self.happens(id, delay, Happens::Follow);
        self.begin_way(id);
        self.connections(id, true);
        for other in self.processes().into_iter().filter(|o| *o != id) {
            if self.seat(other).process.is_some() && !self.is_cut(other, id) {
                let delay = self.rng.u64(MICROS..MILLIS);
                self.happens(id, delay, Happens::Connection(member_of(other), true));
            }
        }
    }

    /// Clocks will run as they like.
    pub fn let_clocks_run(&mut self) {
        self.together_mut().keeps_no_bound = true;
    }

    /// A process dies; of what its member was writing, anything may remain. Where the power goes,
    /// nobody notices that the connections are gone.
    pub(in crate::world) fn end_process(&mut self, id: NodeId, power: bool) {
        let mut rng = self.rng.fork();
        let id = self.process_of(id);
        let seat = self.seat_mut(id);
        if seat.process.take().is_none() {
            return;
        }
        seat.life += 1;
        (seat.paused_until, seat.agreed, seat.open) = (0, 0, false);
        seat.gate = Gate::default();
        seat.log.crash(&mut |n| rng.usize(0..n));
        self.end_way(id);
        if !power {
            self.connections(id, false);
        }
    }

    /// A node dies alone; its process opens its disk again after so long.
    pub fn kill_node_alone(&mut self, id: NodeId, again_after: Nanos) {
        self.happens(id, again_after, Happens::Open);
        self.fell_alone(id);
    }

    pub(in crate::world) fn fell_alone(&mut self, id: NodeId) {
        self.tell(|| format!("{id} dies, and its process does not"));
        self.ends(id, &[id]);
        self.places[usize::from(id.0)].disk.process_dies(&mut self.rng);
        self.hear(id, Heard::NodeDied(id));
        self.turn(id);
    }

    /// From now on a process's clock runs so much too fast.
    pub fn set_rate(&mut self, id: NodeId, rate_ppm: i64) {
        let now = self.now();
        let clock = &mut self.seat_mut(id).clock;
        *clock = Drifting { base: clock.at(now), since: now, rate_ppm };
        self.seat_mut(id).armed = 0;
        self.arm(id);
        self.tell(|| format!("{id}'s clock runs {rate_ppm} ppm fast from now on"));
    }

    /// A process is stopped for so long.
    pub fn pause(&mut self, id: NodeId, time: Nanos) {
        self.tell(|| format!("the process of {id} is stopped for {} ms", time / MILLIS));
        let until = self.now() + time;
        self.seat_mut(id).paused_until = until;
    }

    /// A stopped process goes on.
    pub fn go_on(&mut self, id: NodeId) {
        let now = self.now();
        let seat = self.seat_mut(id);
        seat.paused_until = seat.paused_until.min(now);
    }

    /// When an event must wait because the process that it is for is stopped: how long.
    pub(in crate::world) fn waits_for(&self, event: &Event) -> Option<Nanos> {
        self.together.as_ref()?;
        let whose = match event {
            Event::Deliver(envelope, _) => envelope.to,
            Event::Disk(node, ..)
            | Event::Timer(node, ..)
            | Event::Process(node, ..)
            | Event::Joins(node) => *node,
            _ => return None,
        };
        let until = self.seat(whose).paused_until;
        until.checked_sub(self.now()).filter(|wait| *wait > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_worlds::world_of_processes;

    #[test]
    fn what_others_have_heard_of_a_node_that_dies_alone_is_taken_down() {
        let mut world = world_of_processes(1);
        while !world.is_united() {
            assert!(world.step().is_some() && world.now() < 60_000 * MILLIS);
        }
        assert!(!world.places[1].promises.are_over());
        world.kill_node_alone(NodeId(1), 1000 * MILLIS);
        assert!(world.places[1].promises.are_over() && !world.places[2].promises.are_over());
    }
}
