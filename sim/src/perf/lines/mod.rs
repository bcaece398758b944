//! Links and buses at which messages queue: for fabrics on which a message takes several of them, and where whose
//! turn it is cannot be known ahead.
//!
//! A [`Trip`] is something on its way. It takes one line after the other, and which is the next is asked of the
//! [`Way`] when it gets there, so that it goes round what has died meanwhile. A line carries one trip at a time.
//! There is room for all that waits for a line where the line begins: a trip that waits does not hold the line that
//! it came by, so there is no deadlock.

mod buses;
mod graph;

use std::collections::VecDeque;

use weft_core::node::Envelope;
use weft_core::units::Nanos;

pub(super) use buses::Buses;
pub(super) use graph::Graph;

use super::links::{HEADER, LinkUse};
#[cfg(test)]
use super::system::Links;
use super::system::{Arbitration, Fabric, Switching, System};

/// What is on its way.
pub(super) enum Cargo {
    /// A message between nodes.
    Message(Box<Envelope>),
    /// A host's request, to a controller.
    Request(u32),
    /// A reply, to its host.
    Reply(u32),
}

/// Something on its way.
pub(super) struct Trip {
    pub cargo: Cargo,
    /// When it was sent.
    pub sent: Nanos,
    from: u32,
    to: u32,
    /// Where it is, or comes to by the line that it is at.
    here: u32,
    /// Lines that it has taken.
    legs: u32,
    bytes: u64,
    /// The line that it waits for or crosses, and how often it has yet to take it.
    hop: Hop,
    turns: u32,
    /// When it came to that line.
    came: Nanos,
}

/// What happens at lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEvent {
    /// What a line carried has passed.
    Passed { line: u32 },
    /// A trip, or its head where it cuts through, is at the end of a line.
    AtEnd { trip: u32 },
    /// A trip is where it was to go.
    There { trip: u32 },
}

/// The next line of a trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hop {
    line: u32,
    /// Where it leads.
    to: u32,
    is_last: bool,
}

/// Where lines lead.
enum Way {
    /// From node to node.
    Graph(Graph),
    /// Buses over one another.
    Buses(Buses),
}

impl Way {
    fn hop(&mut self, trip: &Trip) -> Option<Hop> {
        match self {
            Way::Graph(graph) => graph.hop(trip.from, trip.here, trip.to),
            Way::Buses(buses) => buses.hop(trip.from, trip.to, trip.legs),
        }
    }
}

/// A link one way, or a bus.
struct Line {
    /// Nanoseconds that a byte takes.
    byte: f64,
    set_up: Nanos,
    carries: Option<Carried>,
    waiting: VecDeque<u32>,
    busy: Nanos,
    /// For how long trips waited for it or crossed it, all together.
    held: Nanos,
}

/// What a line carries.
struct Carried {
    came: Nanos,
    /// Whose first line it is, if it is one's first.
    leaves: Option<u32>,
    /// Takes the line again.
    again: Option<u32>,
}

impl Line {
    fn new(mb_s: f64, set_up_us: f64) -> Line {
        Line {
            byte: 1e3 / mb_s,
            set_up: nanos(set_up_us),
            carries: None,
            waiting: VecDeque::new(),
            busy: 0,
            held: 0,
        }
    }
}

fn nanos(us: f64) -> Nanos {
    (us * 1e3).round() as Nanos
}

/// What is to happen, each after so long.
pub(super) type Coming = Vec<(Nanos, LineEvent)>;

/// All lines, and what is on its way.
pub(super) struct Lines {
    way: Way,
    lines: Vec<Line>,
    trips: Vec<Option<Trip>>,
    free: Vec<u32>,
    cuts_through: bool,
    /// In how many turns a trip takes each line.
    turns: u32,
    /// Of the waiting, any may be next.
    is_random: bool,
    chance: fastrand::Rng,
    latency: Nanos,
    /// Of each end, how much waits for its first line or crosses it.
    leaving: Vec<u32>,
}

impl Lines {
    /// The lines of a system of so many nodes, if it has such.
    pub fn new(system: &System, nodes: usize, chance: fastrand::Rng) -> Option<Lines> {
        let links = &system.links;
        let way = match links.fabric {
            Fabric::Torus => Way::Graph(Graph::torus(system)),
            Fabric::PointToPoint if system.has_link_faults() => Way::Graph(Graph::direct(nodes)),
            Fabric::Hierarchy => Way::Buses(Buses::new(system)),
            Fabric::PointToPoint | Fabric::Bus | Fabric::Switch => return None,
        };
        let of_graph = |graph: &Graph| {
            (0..graph.lines()).map(|_| Line::new(links.mb_s, links.set_up_us)).collect()
        };
        let lines = match &way {
            Way::Graph(graph) => of_graph(graph),
            Way::Buses(buses) => buses.rates(links).map(|(mb_s, us)| Line::new(mb_s, us)).collect(),
        };
        let hierarchy = links.hierarchy.filter(|_| links.fabric == Fabric::Hierarchy);
        let torus = links.torus.filter(|_| links.fabric == Fabric::Torus);
        Some(Lines {
            cuts_through: links.fabric == Fabric::Torus
                && torus.unwrap_or_default().switching == Switching::CutThrough,
            turns: hierarchy.map_or(1, |h| h.turns),
            is_random: matches!(way, Way::Buses(_))
                && hierarchy.unwrap_or_default().arbitration == Arbitration::Random,
            way,
            lines,
            trips: Vec::new(),
            free: Vec::new(),
            chance,
            latency: nanos(links.latency_us),
            leaving: vec![0; nodes + system.workload.hosts as usize],
        })
    }

    /// Whether hosts' requests go over these lines too.
    pub fn has_hosts(&self) -> bool {
        matches!(self.way, Way::Buses(_))
    }

    /// Sends something from one end to another.
    pub fn send(
        &mut self,
        now: Nanos,
        (from, to): (u32, u32),
        data: u64,
        cargo: Cargo,
        out: &mut Coming,
    ) {
        let trip = Trip {
            cargo,
            sent: now,
            from,
            to,
            here: from,
            legs: 0,
            bytes: data + HEADER,
            hop: Hop::default(),
            turns: 0,
            came: now,
        };
        self.leaving[from as usize] += 1;
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.trips.push(None);
                (self.trips.len() - 1) as u32
            }
        };
        self.trips[number as usize] = Some(trip);
        self.goes_on(now, number, out);
    }

    /// Something has happened. What has arrived by it is answered.
    pub fn happens(&mut self, now: Nanos, event: LineEvent, out: &mut Coming) -> Option<Trip> {
        match event {
            LineEvent::AtEnd { trip } => self.goes_on(now, trip, out),
            LineEvent::Passed { line } => self.passed(now, line, out),
            LineEvent::There { trip } => {
                self.free.push(trip);
                return self.trips[trip as usize].take();
            }
        }
        None
    }

    /// How much waits for an end's first line or crosses it.
    pub fn leaving(&self, end: u32) -> u32 {
        self.leaving[end as usize]
    }

    /// A trip comes to its next line; where there is none it is lost.
    fn goes_on(&mut self, now: Nanos, number: u32, out: &mut Coming) {
        let trip = self.trips[number as usize].as_mut().expect("a trip under way");
        let Some(hop) = self.way.hop(trip) else {
            if trip.legs == 0 {
                self.leaving[trip.from as usize] -= 1;
            }
            self.trips[number as usize] = None;
            return self.free.push(number);
        };
        (trip.hop, trip.turns, trip.came) = (hop, self.turns, now);
        match self.lines[hop.line as usize].carries {
            None => self.begins(number, out),
            Some(_) => self.lines[hop.line as usize].waiting.push_back(number),
        }
    }

    /// A trip's line begins to carry it, or a turn of it.
    fn begins(&mut self, number: u32, out: &mut Coming) {
        let trip = self.trips[number as usize].as_mut().expect("a trip under way");
        let Hop { line, to, is_last } = trip.hop;
        let there = &mut self.lines[line as usize];
        // The last turn has what the others leave.
        let (turns, share) = (u64::from(self.turns), trip.bytes / u64::from(self.turns));
        let bytes = if trip.turns == 1 { trip.bytes - share * (turns - 1) } else { share };
        let time = there.set_up + (bytes as f64 * there.byte).round() as Nanos;
        there.busy += time;
        let mut carried = Carried { came: trip.came, leaves: None, again: None };
        trip.turns -= 1;
        if trip.turns > 0 {
            carried.again = Some(number);
        } else {
            (trip.here, trip.legs) = (to, trip.legs + 1);
            carried.leaves = (trip.legs == 1).then_some(trip.from);
            out.push(match is_last {
                true => (time + self.latency, LineEvent::There { trip: number }),
                false if self.cuts_through => (there.set_up, LineEvent::AtEnd { trip: number }),
                false => (time, LineEvent::AtEnd { trip: number }),
            });
        }
        there.carries = Some(carried);
        out.push((time, LineEvent::Passed { line }));
    }

    /// What a line carried has passed: the next begins.
    fn passed(&mut self, now: Nanos, line: u32, out: &mut Coming) {
        let there = &mut self.lines[line as usize];
        let Carried { came, leaves, again } = there.carries.take().expect("it carried something");
        there.held += now - came;
        if let Some(end) = leaves {
            self.leaving[end as usize] -= 1;
        }
        if let Some(number) = again {
            there.waiting.push_back(number);
            self.trips[number as usize].as_mut().expect("a trip under way").came = now;
        }
        let next = match self.is_random && there.waiting.len() > 1 {
            true => there.waiting.swap_remove_back(self.chance.usize(..there.waiting.len())),
            false => there.waiting.pop_front(),
        };
        if let Some(next) = next {
            self.begins(next, out);
        }
    }

    /// A link between two ends dies, both ways, or is back; what waits for it goes another way.
    pub fn sets_link(&mut self, now: Nanos, ends: (u32, u32), is_dead: bool, out: &mut Coming) {
        if let Way::Graph(graph) = &mut self.way {
            graph.sets_link(ends, is_dead);
            self.looks_anew(now, out);
        }
    }

    /// A node dies, through which nothing goes any more, or is back.
    pub fn sets_node(&mut self, now: Nanos, node: u32, is_dead: bool, out: &mut Coming) {
        if let Way::Graph(graph) = &mut self.way {
            graph.sets_node(node, is_dead);
            self.looks_anew(now, out);
        }
    }

    /// All that waits for a line asks again for its way.
    fn looks_anew(&mut self, now: Nanos, out: &mut Coming) {
        let waiting: Vec<u32> = self.lines.iter_mut().flat_map(|l| l.waiting.drain(..)).collect();
        waiting.into_iter().for_each(|number| self.goes_on(now, number, out));
    }

    /// The lines that were used in so much time.
    pub fn used(&self, time: Nanos) -> impl Iterator<Item = LinkUse> {
        let used = self.lines.iter().enumerate().filter(|(_, l)| l.busy > 0);
        used.map(move |(n, l)| (n, l.busy, l.held as f64 / time.max(1) as f64))
    }

    /// What a line is called.
    pub fn name(&self, line: usize) -> String {
        match &self.way {
            Way::Graph(graph) => graph.name(line),
            Way::Buses(buses) => buses.name(line),
        }
    }

    /// Begins to measure.
    pub fn restart(&mut self) {
        self.lines.iter_mut().for_each(|l| (l.busy, l.held) = (0, 0));
    }
}

#[cfg(test)]
mod tests;
