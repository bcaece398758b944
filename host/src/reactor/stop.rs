//! The end: what a clean stop waits for, for how long, and what it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::Waker;
use serde_json::json;

use super::Reactor;
use weft_core::units::NodeId;

use crate::engine::instance::Phase;

/// How long hosts have to leave that are asked to, in whole seconds.
const LEAVING: Duration = Duration::from_secs(2);

/// How long the process stays after its hosts have left, until they have come back and been sent to another. Initiators
/// wait 2 s before that (DefaultTime2Wait), if they wait at all.
const LINGER: Duration = Duration::from_secs(3);

/// How long a clean stop waits for requests, and then again for everything to be in place.
const PATIENCE: Duration = Duration::from_secs(5);

/// Stops a reactor from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Stopper {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// A stopper that wakes its reactor so.
    pub(super) fn new(waker: Arc<Waker>) -> Stopper {
        Stopper { stop: Arc::new(AtomicBool::new(false)), waker }
    }

    /// Asks it to stop in good order.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // If it cannot be woken it is gone already.
        let _ = self.waker.wake();
    }

    /// What is set to ask for a stop, by whoever also wakes the reactor.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }
}

/// Whether an end has been asked for, and since when it is on its way.
pub(super) struct Ending {
    stopper: Stopper,
    since: Option<Instant>,
    hosts: Leaving,
}

/// How far it is with the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// None has been asked to leave.
    Unasked,
    /// Some have been.
    Asked,
    /// The last of those has left.
    Left(Instant),
    /// All have left, or have had time enough.
    Over,
}

impl Ending {
    /// Nobody has asked for it. What asks for it wakes the reactor so.
    pub(super) fn new(waker: Arc<Waker>) -> Ending {
        Ending { stopper: Stopper::new(waker), since: None, hosts: Leaving::Unasked }
    }

    /// What asks for it.
    pub(super) fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Whether it is on its way.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// For how long it has been on its way, if it has been asked for.
    fn waited(&mut self) -> Option<Duration> {
        let asked = self.stopper.stop.load(Ordering::Relaxed);
        asked.then(|| self.since.get_or_insert_with(Instant::now).elapsed())
    }
}

/// How an array came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// What had not come to its end when patience ran out, a line each. Nothing of it loses
    /// what hosts were told is written.
    pub unfinished: Vec<String>,
    /// Nodes that did not run.
    pub down: Vec<usize>,
    /// How many nodes there are.
    pub nodes: usize,
    /// Nodes whose disks were files that have been removed: their content is lost.
    pub removed: Vec<usize>,
    /// Volumes without journal: what was unfinished there is not finished by the next start.
    pub without_journal: Vec<String>,
}

impl Reactor {
    /// Whether a stop has been asked for and everything has come to its end, or has had
    /// time enough.
    pub(super) fn has_stopped(&mut self) -> bool {
        let begins = !self.ending.is_on();
        let Some(waited) = self.ending.waited() else { return false };
        if begins {
            // The nodes of a cluster's process close their disks before the last words.
            self.engine.look_for_files();
        }
        if !self.have_hosts_left(waited) {
            return false;
        }
        if self.hosts.unanswered() > 0 && waited < PATIENCE {
            return false;
        }
        let Some(ours) = self.engine.rule.together().map(|t| t.ours()) else {
            return self.engine.is_quiet() || waited >= 2 * PATIENCE;
        };
        // The others are to go on without these nodes at once, not only when they miss them. If they
        // cannot be told they are stopping too. What takes no part, or waits for the others since it
        // was started, has nothing to finish.
        let waits = !self.acceptor.is_open() && !self.engine.may_serve();
        for node in &ours {
            let n = usize::from(node.0);
            let runs = self.engine.instances[n].phase == Phase::Running;
            // That it runs has been seen.
            let _ = match self.engine.map().is_up(*node) && !waits {
                true if runs => self.engine.drain_node(n),
                false if runs => self.engine.kill_node(n, "it was stopped"),
                _ => Ok(()),
            };
        }
        let known = self.engine.is_handed_over(|p| self.peer_status.has_stopped(p))
            || !self.engine.may_serve();
        (self.is_down(&ours) && known) || waited >= 2 * PATIENCE
    }

    /// Whether the hosts have left that can be asked to, or have had time enough. They are asked before anything else
    /// stops, so that they can be elsewhere by then.
    fn have_hosts_left(&mut self, waited: Duration) -> bool {
        let stay = self.hosts.ask_to_leave(LEAVING);
        let move_on = !self.hosts.have_moved() && !self.peer_status.addresses().is_empty();
        let hosts = match self.ending.hosts {
            Leaving::Over => return true,
            Leaving::Left(at) if move_on && at.elapsed() < LINGER => Leaving::Left(at),
            Leaving::Asked if !stay && move_on => Leaving::Left(Instant::now()),
            Leaving::Unasked | Leaving::Asked if stay && waited < LEAVING => Leaving::Asked,
            _ => Leaving::Over,
        };
        self.ending.hosts = hosts;
        if hosts == Leaving::Over {
            self.hosts.part();
        }
        hosts == Leaving::Over
    }

    fn is_down(&self, nodes: &[NodeId]) -> bool {
        nodes.iter().all(|n| self.engine.instances[usize::from(n.0)].phase == Phase::Down)
    }

    /// Whether this process of a cluster stops, and its nodes have.
    pub(super) fn is_stopped(&self) -> bool {
        let ours = self.engine.rule.together().map(|t| t.ours());
        self.ending.is_on() && ours.is_some_and(|ours| self.is_down(&ours))
    }

    /// Says the last words.
    pub(super) fn farewell(&mut self) -> Stopped {
        self.hosts.send(&mut self.engine);
        self.engine.keep_measures();
        self.engine.look_for_files();
        let stopped = self.stopped();
        let farewell = json!({ "unfinished": stopped.unfinished });
        self.controls.part(&farewell, self.engine.rule.together());
        stopped
            .unfinished
            .iter()
            .for_each(|line| self.engine.log.warn(&format!("unfinished: {line}")));
        self.engine.log.info("stopped");
        stopped
    }

    fn stopped(&self) -> Stopped {
        let mut unfinished = Vec::new();
        match self.hosts.unanswered() {
            0 => {}
            1 => unfinished.push("1 host request is unanswered".to_string()),
            n => unfinished.push(format!("{n} host requests are unanswered")),
        }
        unfinished.extend(self.engine.unfinished());
        let instances = &self.engine.instances;
        let alone = self.engine.rule.together().is_none();
        let volumes = self.engine.map().volumes.values();
        Stopped {
            unfinished,
            down: (0..instances.len())
                .filter(|n| instances[*n].phase == Phase::Down && alone)
                .collect(),
            nodes: instances.len(),
            removed: self.engine.on_removed_files(),
            without_journal: volumes
                .filter(|v| !v.policy.journal)
                .map(|v| v.name.clone())
                .collect(),
        }
    }
}
