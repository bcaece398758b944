//! What becomes of what members decide, and what must hold of it.

use super::*;

impl World {
    pub(super) fn take_effect(&mut self, id: NodeId, effect: Effect) {
        match effect {
            Effect::Send(to, bytes) => self.send_member(id, to, bytes),
            Effect::Persist(number, persist) => {
                self.seat_mut(id).log.write(number, persist);
                let (lo, hi) = self.conditions.disk;
                let delay = self.rng.u64(lo..=hi) * self.together().log_times;
                self.happens(id, delay / 2, Happens::Written(delay - delay / 2));
            }
            Effect::Tell(node, message) => {
                let life = self.places[usize::from(node.0)].life;
                let together = self.together_mut();
                match message {
                    MapMessage::Freeze { .. } => {
                        together.changes.0 += 1;
                        together.stopped.insert(node, life);
                    }
                    MapMessage::Enter { ref map, .. } => {
                        together.changes.1 += 1;
                        if map.epoch > together.base.epoch {
                            together.base = map.clone();
                        }
                        if together.stopped.get(&node) != Some(&life) {
                            let text =
                                format!("{node} enters an epoch and has not been stopped for it");
                            together.wrong = Some(text);
                        }
                        self.look_for_others(map);
                    }
                }
                self.tell(|| format!("{node} is told: {}", brief(&message)));
                self.seat_mut(id).gate.word(node, message);
            }
            Effect::Restart(node) => {
                let delay = self.rng.u64(MICROS..5 * MILLIS);
                self.kill_node_alone(node, delay);
                self.dead_alone.push(node);
            }
            Effect::Agreed(map) => self.agreed(id, map),
            Effect::Stop(why) => {
                self.together_mut().wrong = Some(format!("the process of {id} stops: {why}"));
            }
            Effect::Log(line) => self.tell(|| format!("the process of {id}: {line}")),
        }
    }

    pub(super) fn agreed(&mut self, id: NodeId, map: Arc<ClusterMap>) {
        let together = self.together_mut();
        let known = together.agreed.entry(map.epoch).or_insert_with(|| map.clone());
        if *known != map {
            together.wrong = Some(format!("two maps were agreed on at epoch {}", map.epoch));
        }
        if map.epoch > together.newest.epoch {
            let before = std::mem::replace(&mut together.newest, map.clone());
            if epoch_parts(map.epoch).0 > epoch_parts(before.epoch).0 {
                together.base = before.clone();
            }
            let base = together.base.clone();
            let longest = together.config.dead_after;
            for node in before.nodes.len()..map.nodes.len() {
                let delay = self.rng.u64(0..longest);
                self.queue.push(delay, Event::Joins(NodeId(node as u16)));
            }
            self.rests.0 += u64::from(map.volumes.values().any(|v| map.rests(v)));
            self.judge_giving_up(&base, &map);
        }
        let seat = self.seat_mut(id);
        let before = std::mem::replace(&mut seat.agreed, map.epoch);
        if before > map.epoch {
            let text = format!("{id} hears epoch {} after {before}", map.epoch);
            self.together_mut().wrong = Some(text);
        }
        let (term, number) = epoch_parts(map.epoch);
        self.tell(|| format!("{id} knows map {number} of term {term} to be agreed on"));
    }

    /// A map takes effect: nobody whom it counts as down may serve in an earlier one.
    pub(super) fn look_for_others(&mut self, map: &ClusterMap) {
        if self.together().keeps_no_bound {
            return;
        }
        let serves = |id: &NodeId| {
            let node = self.places[usize::from(id.0)].node.as_ref();
            let before = |n: &Node| n.serves().is_some_and(|epoch| epoch < map.epoch);
            node.is_some_and(before) && self.may_serve(*id)
        };
        let there = self.all_nodes().filter(|n| usize::from(n.0) < map.nodes.len());
        let down = there.filter(|n| !map.is_up(*n));
        if let Some(id) = down.into_iter().find(serves) {
            let text = format!("{id} serves though it is down in map {}", map.epoch);
            self.together_mut().wrong = Some(text);
        }
    }

    /// One leader in a term, and no vote for who has no disk.
    pub(super) fn watch(&mut self, id: NodeId) {
        let Some(process) = &self.seat(id).process else { return };
        let (us, status) = (process.id(), process.status());
        if let Some(host) = status.voters.iter().find(|m| self.is_attached(node_of(**m))) {
            self.together_mut().wrong = Some(format!("{host} votes and has no disk"));
        }
        if status.leader == Some(us) {
            let first = *self.together_mut().leaders.entry(status.term).or_insert(us);
            if first != us {
                let text = format!("{first} and {us} lead in term {}", status.term);
                self.together_mut().wrong = Some(text);
            }
        }
    }
}
