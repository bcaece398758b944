//! Control connections: handing the desk what they ask, and them what it answers.

use weft_core::units::VolumeId;

use super::Reactor;
use crate::control_server::{Desk, Outcome, Wait};

impl Reactor {
    pub(super) fn at_desk<T>(&mut self, f: impl FnOnce(&mut Desk<'_>) -> T) -> T {
        let hosts = &self.hosts;
        let clients = |v: VolumeId| hosts.values().filter(|c| c.volume == Some(v)).count();
        f(&mut Desk {
            engine: &mut self.engine,
            requests: &mut self.requests,
            clients: &clients,
            listens: &self.listens,
            uptime: self.started.elapsed().as_secs_f64(),
        })
    }

    /// Goes on with what control connections ask. Says whether there was any progress.
    pub(super) fn step_controls(&mut self) -> bool {
        let ids: Vec<usize> = self.controls.keys().copied().collect();
        let mut progress = false;
        for id in ids {
            progress |= self.step_control(id);
            if self.controls.get_mut(&id).is_some_and(|c| !c.send()) {
                self.controls.remove(&id);
                self.requests.forget(&mut self.engine, id);
            }
        }
        progress
    }

    fn step_control(&mut self, id: usize) -> bool {
        let mut progress = false;
        loop {
            let Some(control) = self.controls.get_mut(&id) else { return progress };
            let outcome = if let Some(wait) = control.wait.take() {
                self.at_desk(|desk| desk.check(id, wait))
            } else if let Some(line) = control.next_line() {
                progress = true;
                self.at_desk(|desk| desk.handle(id, &line))
            } else {
                return progress;
            };
            if matches!(outcome, Outcome::Wait(Wait::Shutdown)) {
                self.stopper.stop();
            }
            let waits = matches!(outcome, Outcome::Wait(_));
            if let Some(control) = self.controls.get_mut(&id) {
                control.settle(outcome);
            }
            if waits {
                return progress;
            }
            progress = true;
        }
    }
}
