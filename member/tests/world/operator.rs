//! An operator, who asks now this process and now that one.

use std::sync::Arc;

use weft_core::cluster::{Change, Volume};
use weft_core::units::{MILLIS, VolumeId};
use weft_member::{Input, MemberId, Refusal};

use super::{Event, World};

#[derive(Clone, Debug)]
pub enum Asked {
    Add(MemberId),
    Volume(VolumeId),
    Drop(VolumeId),
}

impl World {
    /// The operator asks whoever it is pointed to.
    pub fn operate(&mut self) {
        self.push(100 * MILLIS, Event::Operator);
        let running = self.processes.iter().filter(|p| p.1.member.is_some()).map(|p| *p.0);
        let running: Vec<MemberId> = running.collect();
        let Some(whom) = self.rng.choice(&running).copied() else { return };
        if self.processes[&whom].paused_until > self.now || !self.asked.is_empty() {
            // An answer that never comes is not waited for.
            if self.rng.u32(0..20) == 0 {
                self.asked.clear();
            }
            return;
        }
        let (asked, input): (Asked, Box<dyn Fn(u64) -> Input>) =
            if let Some(member) = self.to_add.first().copied() {
                (Asked::Add(member), Box::new(move |id| Input::AddMember(id, member)))
            } else if self.volumes {
                let have: Vec<VolumeId> = self.checks.volumes.iter().copied().collect();
                if have.len() > 2 {
                    let id = have[0];
                    let drop = Change::RemoveVolume(id);
                    (Asked::Drop(id), Box::new(move |n| Input::Change(n, drop.clone())))
                } else {
                    let id = VolumeId(self.next_volume);
                    self.next_volume += 1;
                    let mut volume = Volume { id, ..self.volume.clone() };
                    // Each has room of its own.
                    let len = volume.extent_sectors(0);
                    volume.extents[0].columns.iter_mut().for_each(|c| c.1 = u64::from(id.0) * len);
                    let volume = Arc::new(volume);
                    let add = Change::AddVolume(volume);
                    (Asked::Volume(id), Box::new(move |n| Input::Change(n, add.clone())))
                }
            } else {
                return;
            };
        self.requests += 1;
        if let Asked::Drop(id) = &asked {
            // From now on it may be gone.
            self.checks.volumes.remove(id);
        }
        self.asked.insert(self.requests, asked);
        let input = input(self.requests);
        self.input(whom, input);
    }

    pub fn answered(&mut self, request: u64, result: Result<(), Refusal>) {
        let Some(asked) = self.asked.remove(&request) else { return };
        match (asked, result) {
            (Asked::Add(member), Ok(())) => self.to_add.retain(|m| *m != member),
            (Asked::Volume(id), Ok(())) => drop(self.checks.volumes.insert(id)),
            (Asked::Drop(_), Ok(())) => {}
            (_, Err(Refusal::NotLeader { .. })) => {}
            (asked, Err(why)) => self.tell(format!("refused: {asked:?}: {why}")),
        }
    }
}
