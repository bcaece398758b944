//! The authority of a world without processes: what it hears, and what becomes of what it decides.

use super::*;

impl World {
    /// When every awaited node is ready, the authority starts.
    pub(super) fn start_authority(&mut self) {
        let Some(awaited) = &self.awaited else { return };
        if awaited.is_empty() || !awaited.values().all(|ready| *ready) {
            return;
        }
        let nodes: Vec<NodeId> = awaited.keys().copied().collect();
        let nodes = nodes.into_iter().map(|n| self.arrival(n)).collect();
        self.awaited = None;
        let input = AuthorityInput::Start(nodes);
        self.queue.push(MICROS, Event::Authority(input, self.authority_life));
    }

    pub(super) fn arrival(&self, id: NodeId) -> Arrival {
        let node = self.places[usize::from(id.0)].node.as_ref().expect("it is ready");
        Arrival { node: id, disk: node.disk(), sectors: node.data_sectors() }
    }

    pub(super) fn authority_input(&mut self, input: AuthorityInput) {
        let mut out = Vec::new();
        self.authority.handle(input, &mut out);
        for output in out {
            match output {
                AuthorityOutput::Tell(node, message) => {
                    self.tell(|| format!("authority to {node}: {}", brief(&message)));
                    let life = self.places[node.0 as usize].life;
                    let delay = self.rng.u64(MICROS..100 * MICROS);
                    self.queue.push(delay, Event::Tell(node, life, message));
                }
                AuthorityOutput::Store(map) => {
                    let epoch = map.epoch;
                    self.rests.0 += u64::from(map.volumes.values().any(|v| map.rests(v)));
                    self.assert_they_remember(&map);
                    let base = self.authority.map().clone();
                    self.judge_giving_up(&base, &map);
                    self.stored = map;
                    let input = AuthorityInput::Stored(epoch);
                    self.queue.push(100 * MICROS, Event::Authority(input, self.authority_life));
                }
            }
        }
    }

    /// Nor is it found to have by what others have heard of it.
    pub(super) fn assert_they_remember(&mut self, map: &ClusterMap) {
        let zero = |a: &Attendance| {
            let stale = a.stale_since.iter().filter(|(_, since)| **since == Timestamp::ZERO);
            stale.map(|(n, _)| *n).chain(a.forgot.iter().copied()).collect::<Vec<_>>()
        };
        for id in map.attendance.values().flat_map(zero) {
            // Content of an undecided write may have gone bad: it was promised, and is not there.
            let whole = !self.disk(id).harmed.ever() && !self.disk(id).decayed;
            assert!(!whole, "{id}: an undamaged disk is believed to have forgotten");
        }
    }
}
