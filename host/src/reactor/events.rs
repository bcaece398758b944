//! Waiting for something to happen.

use std::io;
use std::time::{Duration, Instant};

use mio::Events;

use super::{CONNECTIONS, CONTROL, PEERS, Reactor};

impl Reactor {
    /// Waits until something happens. What nodes have put off comes before idling.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let busy = self.engine.has_work()
            || self.engine.has_answers()
            || (self.hosts.has_to_receive() && !self.ending.is_on());
        let soon = !busy && self.engine.has_soon();
        let timeout = if busy || soon { Some(Duration::ZERO) } else { self.idle_time() };
        if let Err(e) = self.poll.poll(&mut self.events, timeout)
            && e.kind() != io::ErrorKind::Interrupted
        {
            return Err(e);
        }
        if soon && self.events.is_empty() {
            self.engine.fire_soon();
        }
        self.take_events();
        Ok(())
    }

    fn idle_time(&mut self) -> Option<Duration> {
        let due = self.engine.next_due().map(Duration::from_nanos);
        // While stopping there is a time limit to look at.
        let look = self.ending.is_on().then_some(Duration::from_millis(20));
        let held = self.numbered.next_due().map(|at| at.saturating_duration_since(Instant::now()));
        let arrivals = self.arrivals.look_again();
        let others = [
            self.acceptor.due(),
            self.hosts.patience_due(),
            self.complaints_due(),
            self.controls_due(),
        ];
        let others = others.into_iter().flatten();
        due.into_iter().chain(look).chain(held).chain(arrivals).chain(others).min()
    }

    fn take_events(&mut self) {
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            let token = event.token().0;
            if token >= PEERS.0 {
                self.engine.peer_is_ready(event);
            } else if token >= CONNECTIONS {
                let readable = event.is_readable() || event.is_read_closed();
                self.connection_is_ready(token, readable, event.is_writable());
            } else if token >= CONTROL {
                self.acceptor.somebody_waits(token - CONTROL);
            }
            // The others only had to wake us: the ring and the flag are looked at always.
        }
        self.events = events;
        self.accept_all();
    }

    fn connection_is_ready(&mut self, id: usize, readable: bool, writable: bool) {
        if !self.hosts.ready(id, readable, writable)
            && let Some(control) = self.controls.get_mut(&id)
            && readable
        {
            control.receive();
        }
    }
}
