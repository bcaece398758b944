//! Unit attentions: what an initiator is told with its next command (SAM-5, 5.14).

use super::scsi::Sense;
use super::{Server, Unit};

/// A unit attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// The unit has been reset: BUS DEVICE RESET FUNCTION OCCURRED.
    Reset,
    /// All registrations were removed: RESERVATIONS PREEMPTED.
    ReservationsPreempted,
    /// Its registration was removed by another: REGISTRATIONS PREEMPTED.
    RegistrationsPreempted,
    /// The reservation that it had a part in is no more: RESERVATIONS RELEASED.
    ReservationsReleased,
    /// The unit has another size: CAPACITY DATA HAS CHANGED.
    Capacity,
    /// Whether it has a write cache has changed: MODE PARAMETERS CHANGED.
    Modes,
    /// The commands that it offers have changed: INQUIRY DATA HAS CHANGED.
    Commands,
}

impl Server {
    /// Tells the initiator of something with its next command, once.
    pub fn attend(&mut self, to: Attention) {
        if !self.attentions.contains(&to) {
            self.attentions.push_back(to);
        }
    }

    /// The unit has been reset, by this session or another. Commands of this session that are not at a node do not begin
    /// any more; those of the session that resets it are aborted already.
    pub fn is_reset(&mut self, by_itself: bool) {
        if !by_itself {
            for number in self.tasks.cut() {
                self.fail_gathering(number, Sense::UNKNOWN);
            }
        }
        self.attend(Attention::Reset);
    }

    /// The unit of the session is like this from now on. The initiator is told of what has changed.
    pub fn update(&mut self, unit: Unit) {
        let Some(old) = &mut self.unit else { return };
        let old = std::mem::replace(old, unit.clone());
        let changes = [
            (old.size != unit.size, Attention::Capacity),
            (old.write_cache != unit.write_cache, Attention::Modes),
            ((old.modifies, old.atomic) != (unit.modifies, unit.atomic), Attention::Commands),
        ];
        changes.into_iter().filter(|(changed, _)| *changed).for_each(|(_, to)| self.attend(to));
    }
}
