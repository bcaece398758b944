//! What travels between nodes and the authority.

use super::*;

impl State {
    pub(super) fn send_packet(&mut self, from: End, to: End, packet: Packet) {
        if matches!(to, End::Node(n) if !self.runs(n)) {
            return;
        }
        let fingerprint = print(&packet);
        self.links.entry((from, to)).or_default().push_back(Arc::new((packet, fingerprint)));
    }

    pub(super) fn take(&mut self, from: End, to: End) -> Printed {
        let queue = self.links.get_mut(&(from, to)).expect("a packet is under way");
        let packet = queue.pop_front().expect("a packet is under way");
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        packet
    }

    pub(super) fn deliver(&mut self, from: End, to: End, packet: Printed) -> Result<(), String> {
        self.tell(|| format!("{from} -> {to}: {}", story::describe(&packet.0)));
        match (from, to, packet.0.clone()) {
            (_, End::Node(n), Packet::Message(envelope)) => {
                self.input(n, Input::Message(Box::new(envelope)))
            }
            (_, End::Node(n), Packet::Tell(message)) => {
                let before = self.node(n).map.clone();
                if let MapMessage::Enter { map, .. } = &message {
                    self.place(n).map = Some(map.clone());
                }
                self.input(n, Input::Map(message))?;
                let place = self.place(n);
                let enters = |m: &Arc<ClusterMap>| {
                    place.node.as_ref().is_some_and(|node| node.serves_in(m.epoch))
                };
                if !place.map.as_ref().is_some_and(enters) {
                    place.map = before;
                }
                Ok(())
            }
            (End::Node(n), End::Authority, Packet::Report(report)) => {
                self.authority(AuthorityInput::Report(n, report));
                Ok(())
            }
            (End::Node(n), End::Authority, Packet::Missed) => {
                self.authority(AuthorityInput::NodeDown(n));
                Ok(())
            }
            (End::Node(_), End::Authority, Packet::Ready(arrival)) => {
                self.ready(arrival);
                Ok(())
            }
            (from, to, packet) => unreachable!("{from} -> {to}: {packet:?}"),
        }
    }

    fn ready(&mut self, arrival: Arrival) {
        let seat = Arc::make_mut(&mut self.seat);
        if !seat.awaited.remove(&arrival.node) {
            self.authority(AuthorityInput::NodeUp(arrival));
            return;
        }
        seat.arrivals.push(arrival);
        if seat.awaited.is_empty() {
            let mut arrivals = std::mem::take(&mut seat.arrivals);
            arrivals.sort_by_key(|a| a.node);
            self.authority(AuthorityInput::Start(arrivals));
        } else {
            self.seat_print = print(&self.seat);
        }
    }

    /// The authority stores a map at once.
    fn authority(&mut self, input: AuthorityInput) {
        let seat = Arc::make_mut(&mut self.seat);
        let mut inputs = VecDeque::from([input]);
        let mut tell = Vec::new();
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            seat.authority.handle(input, &mut out);
            for output in out {
                match output {
                    AuthorityOutput::Tell(node, message) => tell.push((node, message)),
                    AuthorityOutput::Store(map) => {
                        inputs.push_back(AuthorityInput::Stored(map.epoch));
                        seat.stored = map;
                    }
                }
            }
        }
        self.seat_print = print(&self.seat);
        for (node, message) in tell {
            self.send_packet(End::Authority, End::Node(node), Packet::Tell(message));
        }
    }
}
