//! Turning the crank: messages between nodes, disk operations, and what the nodes have said.
//!
//! The reactor's own lane comes first, as if it were the only one. Then the reactor runs the lanes that it holds, gives back
//! those that are done, and leaves to their threads what takes long.

use weft_core::node::{Envelope, Input, MapMessage, Timer};
use weft_core::units::{MILLIS, Nanos};

use super::lane::{HANDFUL, Mail, Said};
use super::{Engine, MOST_SLOW, Phase};
use crate::clock::boot_time;
use crate::log::About;

/// For so long what comes is taken and worked on before what it leads to is sent to other processes.
const ROUND: Nanos = 100_000;

/// For so long nodes and disks keep one another busy before sockets and timers have their turn. Hosts would wait behind
/// work that nobody waits for: where disks are in memory, its operations end at once, and more of it begins.
const TURN: Nanos = 500_000;

/// How often one looks whether nodes on other threads have come to rest.
const LOOK_AGAIN: Nanos = 20 * MILLIS;

impl Engine {
    /// Turns the crank until nothing is left that need not be waited for. Says whether it
    /// came to that: if nodes keep each other busy, or their disks, sockets and timers must have their turn.
    pub(crate) fn run(&mut self) -> bool {
        let end = boot_time() + TURN;
        let mut since = self.round_begins();
        loop {
            self.receive_mail();
            self.hear();
            let is_over = self.deliver_until(end);
            let gives_way = self.has_answers_first() || self.start_disk_operations() || is_over;
            let any_ended = self.feed_ended() | self.run_held(end);
            let goes_on = any_ended && !gives_way;
            if goes_on && self.is_in_round(since) {
                continue;
            }
            self.send_mail();
            since = self.round_begins();
            if any_ended && !gives_way {
                continue;
            }
            self.follow_lives();
            // Also where nodes have work all the time: the lease of this process is renewed there.
            self.follow_rule();
            if gives_way {
                return false;
            }
            if !self.has_work() {
                return true;
            }
        }
    }

    /// Whether hosts are to have their answers before the disks are given more: what nobody waits for would be a pause
    /// for whoever has one. The next time it is the disks' turn.
    fn has_answers_first(&mut self) -> bool {
        let first = !self.answers_went_first && !self.lanes.own.has_awaited() && self.has_answers();
        self.answers_went_first = first;
        first
    }

    /// When a round begins that ends with letters to other processes, if there are any.
    fn round_begins(&self) -> Option<Nanos> {
        self.rule.together().map(|_| boot_time())
    }

    fn is_in_round(&self, since: Option<Nanos>) -> bool {
        since.is_none_or(|since| boot_time().saturating_sub(since) < ROUND)
    }

    /// Whether there is something that [`Engine::run`] would do.
    pub(crate) fn has_work(&self) -> bool {
        self.lanes.own.has_disk_work()
            || self.copies_due
            || self.gate.has_work(|| self.rule.may_serve())
            || self.lanes.own.gate.has_work(|| self.rule.may_serve())
            || self.lanes.have_work()
            || self.rule.has_work()
    }

    /// Delivers what there is, until then. Says whether it is later by now.
    pub(super) fn deliver_until(&mut self, end: Nanos) -> bool {
        loop {
            let delivered = (0..HANDFUL).take_while(|_| self.deliver()).count();
            self.lanes.send_all();
            if boot_time() >= end {
                return true;
            }
            if delivered < HANDFUL {
                return false;
            }
        }
    }

    /// Delivers the next word of the authority or message.
    fn deliver(&mut self) -> bool {
        if let Some((node, input)) = self.gate.next(|| self.rule.may_serve()) {
            let n = usize::from(node.0);
            if let (Input::Map(message), Some(instance)) = (&input, self.instances.get_mut(n)) {
                let (epoch, enters) = match message {
                    MapMessage::Freeze { epoch } => (*epoch, false),
                    MapMessage::Enter { map, .. } => (map.epoch, true),
                };
                instance.coming = instance.coming.max(epoch);
                instance.entered |= enters && instance.runs();
            }
            self.input(n, input);
            return true;
        }
        let delivered = self.lanes.own.deliver(|| self.rule.may_serve());
        self.hear();
        delivered
    }

    /// Begins what waits. Says whether it left something for when sockets have had their turn.
    fn start_disk_operations(&mut self) -> bool {
        self.start_copies();
        let started = self.lanes.own.start_disk_operations(&mut self.disks);
        started.unwrap_or_else(|e| {
            self.fatal = Some(e);
            false
        })
    }

    fn feed_ended(&mut self) -> bool {
        let ended = self.lanes.own.take_ended();
        let ended = self.lanes.sort(ended);
        let any = !ended.is_empty();
        for (tag, result) in ended {
            self.lanes.own.feed_ended(tag, result);
            self.hear();
        }
        any
    }

    /// Runs the lanes that are held, until then, and gives them back. Says whether any had something to do.
    fn run_held(&mut self, end: Nanos) -> bool {
        if self.lanes.count() == 1 {
            return false;
        }
        let mut any = false;
        for other in self.lanes.others() {
            self.lanes.send_all();
            while boot_time() < end && self.run_lane(other) {
                any = true;
            }
        }
        self.lanes.hand_over();
        self.lanes.rest();
        any
    }

    /// Does a handful of what a lane that is held has to do, or begins its disk operations. Says whether there was anything.
    fn run_lane(&mut self, other: usize) -> bool {
        let Some(lane) = self.lanes.held(other) else { return false };
        let delivered = (0..HANDFUL).take_while(|_| lane.deliver_by_lease()).count();
        let mut ended = Vec::new();
        let mut gives_way = false;
        if delivered < HANDFUL {
            match lane.start_disk_operations(&mut self.disks) {
                Ok(is_left) => gives_way = is_left,
                Err(e) => self.fatal = Some(e),
            }
            ended = lane.take_ended();
        }
        self.lanes.feed_ended(ended);
        self.hear();
        if gives_way {
            // What nobody waits for is not done on the thread that hosts wait for.
            self.lanes.hand_over();
        }
        true
    }

    /// Hands a node of whatever lane what a host wants of it.
    pub(super) fn hand(&mut self, n: usize, input: Input) {
        match self.lanes.home(n) {
            0 => self.input(n, input),
            _ => self.lanes.send(n, Mail::Input(n, self.instances[n].life, input)),
        }
    }

    /// Hands a node something here and now.
    fn input(&mut self, n: usize, input: Input) {
        self.lanes.lane_of(n).input(n, input);
        self.hear();
    }

    /// Does what the nodes have said.
    pub(super) fn hear(&mut self) {
        if self.lanes.count() == 1 {
            while let Some(said) = self.lanes.own.take_said() {
                self.heard(said);
            }
            return;
        }
        loop {
            // What a lane has said on its thread comes before what it has said here.
            for said in self.lanes.take_inbox() {
                self.heard(said);
            }
            let Some(said) = self.lanes.take_said() else { return };
            self.heard(said);
        }
    }

    fn heard(&mut self, said: Said) {
        let lives = |n: usize, life: u64| self.instances[n].life == life;
        match said {
            Said::Letter(envelope) => self.send_envelope(envelope),
            Said::Spent(number, spent) => drop(self.spent.insert(number, spent)),
            Said::Answer(answer) => self.answer(answer),
            Said::Log(node, line) => {
                self.log.on(About::node(node.0.into())).info(&format!("node {}: {line}", node.0))
            }
            Said::Damaged(node, what) => {
                let text = format!("disk of node {}: {what}", node.0);
                self.log.on(About::node(node.0.into())).warn(&text)
            }
            Said::Copy(tag, result) if lives(tag.node, tag.life) => self.copy_ended(tag, result),
            Said::Report(n, life, report) if lives(n, life) => self.report_of(n, report),
            Said::Ready(n, life) if lives(n, life) => self.node_ready(n),
            Said::Refused(n, life, why) if lives(n, life) => {
                let _ = self.kill_node(n, &format!("its disk was refused: {why}"));
                self.restart_failed(n);
            }
            Said::Failed(n, life, why) if lives(n, life) => {
                self.disk_failed(n, &why);
            }
            Said::SlowDisk(n, took) if self.slow_disks.len() < MOST_SLOW => {
                self.slow_disks.push((n, took));
            }
            Said::Fatal(error) => self.fatal = Some(error),
            // That a node rests is looked for wherever one is to be started. The others are of lives that are over.
            Said::Rests
            | Said::SlowDisk(..)
            | Said::Copy(..)
            | Said::Report(..)
            | Said::Ready(..)
            | Said::Refused(..)
            | Said::Failed(..) => {}
        }
    }

    /// A message for a node, here or in another process.
    pub(super) fn send_envelope(&mut self, envelope: Box<Envelope>) {
        let to = usize::from(envelope.to.0);
        match self.instances.get(to) {
            Some(instance) if instance.phase == Phase::Elsewhere => self.gate.letter_out(envelope),
            _ if self.lanes.home(to) == 0 => self.lanes.own.gate.letter(envelope),
            _ => self.lanes.send(to, Mail::Letter(envelope)),
        }
    }

    /// Whether a node has put something off until there is nothing better to do. What would wake
    /// other processes is not sooner done because this one is idle: it waits for its time, and
    /// for more to go with it.
    pub(crate) fn has_soon(&self) -> bool {
        self.rule.together().is_none() && self.lanes.have_soon()
    }

    /// Fires the [`Timer::Soon`]s, due or not.
    pub(crate) fn fire_soon(&mut self) {
        self.fire(Timer::Soon, u64::MAX);
        self.lanes.fire_soon();
        self.hear();
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_due(&mut self) {
        let now = self.clock.now();
        if self.lanes.own.deadline().is_some_and(|deadline| deadline <= now) {
            Timer::ALL.into_iter().for_each(|timer| self.fire(timer, now));
        }
        if self.lanes.count() > 1 {
            self.lanes.fire_due();
            self.hear();
        }
    }

    fn fire(&mut self, timer: Timer, now: u64) {
        for n in self.lanes.own.take_due(timer, now) {
            self.input(n, Input::Timer(timer));
        }
    }

    /// Nanoseconds until the next timer is due, or until one looks whether nodes on other threads have come to rest.
    pub(crate) fn next_due(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let drains =
            self.lanes.count() > 1 && self.instances.iter().any(|s| s.phase == Phase::Draining);
        let patience = self.instances.iter().filter_map(|s| s.patience);
        let due = patience.chain(self.lanes.deadline()).map(|d| d.saturating_sub(now));
        let disks = self.next_disk_look().map(|at| at.saturating_sub(now));
        due.chain(self.rule.next_due()).chain(drains.then_some(LOOK_AGAIN)).chain(disks).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use weft_core::units::NodeId;

    use super::*;
    use crate::engine::Rule;
    use crate::log::{Level, Log};
    use crate::spec::Spec;
    use crate::state::State;

    #[test]
    fn damage_is_a_warning_that_names_the_disk_once() {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Log::new(move |level, line| kept.lock().unwrap().push((level, line.to_string())));
        let state = State::open(dir.path(), &spec).unwrap();
        let mut engine = Engine::new(Rule::alone(state), log).unwrap();
        engine.heard(Said::Damaged(NodeId(3), "page 0 is damaged".to_string()));
        let said = lines.lock().unwrap().pop();
        assert_eq!(said, Some((Level::Warning, "disk of node 3: page 0 is damaged".to_string())));
    }
}
