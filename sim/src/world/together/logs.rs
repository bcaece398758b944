//! Members' logs: what a start finds of one, and what becomes of one while its process is down.

use std::sync::Arc;

use weft_core::units::NodeId;
use weft_member::{
    Bug, Config, Draw, Effect, Input as Heard, LogDisk, MemberId, Process, Stored, incarnation_of,
    member_anew, member_of, node_of,
};

use super::{Maps, Seat, World};

impl World {
    /// What the process of a node finds when it starts. One whose log is damaged does not start; an operator sees
    /// that, and has it come back anew.
    pub(super) fn open_log(&mut self, id: NodeId) -> Stored {
        let seat = self.seat_mut(id);
        let why = match seat.log.open() {
            Ok(stored) => return stored,
            Err(why) => why,
        };
        let lost = seat.log.member();
        let member = member_anew(node_of(lost), incarnation_of(lost) + 1);
        seat.log = LogDisk::new(member);
        if !self.together().forgetful.contains(&lost) {
            let text = format!("the log of {lost} was not damaged, and is refused: {why}");
            self.together_mut().wrong = Some(text);
        }
        self.tell(|| format!("the process of {id} is refused: {why}; it rejoins"));
        Stored::anew(member)
    }

    /// The log of a process that does not run is damaged, if the others bear it: in each group that one of
    /// them knows, those that have lost their logs are a minority with it.
    pub fn damage_log(&mut self, id: NodeId, draw: Draw) {
        let together = self.together();
        let lost = |m: &MemberId| together.forgetful.contains(m);
        let borne = |seat: &Seat| {
            let Some(voters) = seat.process.as_ref().map(|p| p.status().voters) else {
                return true;
            };
            let lost = voters.iter().filter(|m| lost(m)).count();
            voters.is_empty() || lost < (voters.len() - 1) / 2
        };
        let leads = self.leader().is_some_and(|l| self.has_process(l));
        if self.has_process(id) || !leads || !together.seats.iter().all(borne) {
            return;
        }
        let log = &mut self.seat_mut(id).log;
        let what = log.damage(draw);
        if log.is_lost() {
            let lost = log.member();
            self.together_mut().forgetful.insert(lost);
        }
        self.tell(|| format!("damage to the log of {id}: {what}"));
    }

    /// How many members' logs were damaged.
    pub fn damaged_logs(&self) -> usize {
        self.together.as_ref().map_or(0, |t| t.forgetful.len())
    }
}

/// What a member writes down before it starts for the first time.
pub(super) fn first_log(node: NodeId, stored: Stored, config: Config, codec: Arc<Maps>) -> LogDisk {
    let mut log = LogDisk::new(member_of(node)).with_bug(config.bug);
    // A deliberate bug has nothing to forget yet.
    let config = Config { bug: None::<Bug>, ..config };
    let mut process =
        Process::new(node, &[node], stored, config, codec).expect("settings that are safe");
    process.handle(0, Heard::Tick);
    while let Some(effect) = process.next_effect() {
        if let Effect::Persist(number, persist) = effect {
            log.write(number, persist);
            while log.step().is_none() {}
            return log;
        }
    }
    unreachable!("a start goes on record");
}
