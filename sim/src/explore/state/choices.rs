//! What can happen next in a state, and making it happen.

use super::*;

impl State {
    /// What can happen next, faults apart. The first is what happens if nothing is delayed.
    pub fn steps(&self) -> Vec<Choice> {
        let mut out = Vec::new();
        for n in self.nodes() {
            let ops = self.node(n).disk.under_way();
            out.extend(ops.map(|id| Choice::Disk(n, id)));
        }
        let from_dead = |from: &End| matches!(from, End::Node(n) if !self.runs(*n));
        let links = self.links.keys();
        let deliver = |(from, to): &(End, End)| Choice::Deliver(*from, *to);
        out.extend(links.clone().filter(|l| !from_dead(&l.0)).map(deliver));
        let missed = |l: &&(End, End)| from_dead(&l.0) && l.1 == End::Authority;
        out.extend(links.clone().filter(missed).map(deliver));
        let can_ask = |h: &usize| self.hosts.asks(*h).is_some_and(|n| self.runs(n));
        out.extend((0..self.hosts.len()).filter(can_ask).map(Choice::Ask));
        // What the dead have sent comes last, if nothing is delayed.
        let late = |l: &&(End, End)| from_dead(&l.0) && l.1 != End::Authority;
        out.extend(links.filter(late).map(deliver));
        if out.is_empty() && self.next_timer().is_some_and(|timer| timer.0 <= self.until) {
            out.push(Choice::Pass);
        }
        out
    }

    /// What can go wrong next.
    pub fn faults(&self) -> Vec<Choice> {
        let mut out = Vec::new();
        if self.budget.crashes > 0 {
            for n in self.running().into_iter().filter(|n| self.bears_death_of(*n)) {
                let all = self.node(n).disk.crashes().into_iter();
                out.extend(all.map(|left| Choice::Crash(n, left)));
            }
        }
        if self.budget.power_cuts > 0 {
            let mut all = vec![Vec::new()];
            for place in &self.places {
                let lefts = place.disk.crashes();
                let with = |so_far: &Vec<Left>| {
                    let so_far = so_far.clone();
                    lefts.iter().map(move |l| [&so_far[..], &[*l]].concat()).collect::<Vec<_>>()
                };
                all = all.iter().flat_map(with).collect();
            }
            out.extend(all.into_iter().map(Choice::PowerCut));
        }
        if self.budget.early_returns > 0 {
            out.extend(self.down().into_iter().map(Choice::Start));
        }
        if self.budget.losses > 0 {
            let lost = |(from, to): &(End, End)| match (from, to) {
                (End::Node(a), End::Node(b)) if a != b => Some(Choice::Lose(*a, *b)),
                _ => None,
            };
            out.extend(self.links.keys().filter_map(lost));
        }
        if self.budget.early_timers > 0 {
            for n in self.nodes() {
                let timers = self.node(n).timers.keys();
                out.extend(timers.map(|t| Choice::Early(n, *t)));
            }
        }
        out
    }

    /// Whether all other nodes run and have missed nothing: the layouts explored bear one loss.
    fn bears_death_of(&self, n: NodeId) -> bool {
        let map = self.seat.authority.map();
        self.nodes().all(|other| other == n || (self.runs(other) && !map.is_stale(other)))
    }

    fn next_timer(&self) -> Option<(Nanos, NodeId, Timer)> {
        let timers = |n: NodeId| self.node(n).timers.iter().map(move |(t, at)| (*at, n, *t));
        self.nodes().flat_map(timers).min()
    }

    /// Makes it happen.
    pub fn apply(&mut self, choice: &Choice) -> Result<(), String> {
        match choice {
            Choice::Disk(n, id) => {
                self.tell_disk(*n, *id);
                let result = self.place(*n).disk.finish(*id);
                self.input(*n, Input::Disk(*id, result))
            }
            Choice::Deliver(from, to) => {
                let packet = self.take(*from, *to);
                self.deliver(*from, *to, packet)
            }
            Choice::Ask(h) => {
                let (node, id, op) = Arc::make_mut(&mut self.hosts).ask(*h, &self.volume);
                let what = if matches!(op, HostOp::Write(..)) { "write" } else { "read" };
                self.tell(|| format!("host {h} asks {node} to {what} (request {id})"));
                self.input(node, Input::Host(id, VOLUME, op))
            }
            Choice::Pass => {
                let (at, n, timer) = self.next_timer().expect("a timer is set");
                self.now = self.now.max(at);
                self.fire(n, timer)
            }
            Choice::Early(n, timer) => {
                self.budget.early_timers -= 1;
                self.fire(*n, *timer)
            }
            Choice::Crash(n, left) => {
                self.budget.crashes -= 1;
                self.crash(*n, *left);
                self.send_packet(End::Node(*n), End::Authority, Packet::Missed);
                Ok(())
            }
            Choice::Start(n) => {
                self.budget.early_returns -= 1;
                self.start(*n)
            }
            Choice::PowerCut(lefts) => {
                self.budget.power_cuts -= 1;
                self.tell(|| "all power is cut".into());
                for (n, left) in self.nodes().zip(lefts) {
                    self.crash(n, *left);
                }
                self.links.clear();
                self.start_everything()
            }
            Choice::Lose(from, to) => {
                self.budget.losses -= 1;
                let packet = self.take(End::Node(*from), End::Node(*to));
                self.tell(|| format!("LOST {from} -> {to}: {}", story::describe(&packet.0)));
                Ok(())
            }
        }
    }

    fn fire(&mut self, n: NodeId, timer: Timer) -> Result<(), String> {
        self.place(n).timers.remove(&timer);
        let now = (self.now - BEGIN) / 1000;
        self.tell(|| format!("{n}: timer {timer:?} at {now} us"));
        self.input(n, Input::Timer(timer))
    }

    fn tell_disk(&mut self, n: NodeId, id: u64) {
        if self.story.is_some() {
            let what = self.node(n).disk.describe(id);
            self.tell(|| format!("{n}: its disk {what}"));
        }
    }
}
