//! What operators want of processes: asked again until it is done.

use super::*;

impl World {
    /// An operator wants a change of the map, and asks until it has been made.
    pub fn wish(&mut self, change: Change) {
        self.together_mut().wishes.push(Wish { change, asked: None, done: false });
        let n = self.together().wishes.len() - 1;
        self.queue.push(MICROS, Event::Wish(n));
    }

    /// The operator does not want anything any more.
    pub fn give_up_wishes(&mut self) {
        if let Some(together) = &mut self.together {
            together.wishes.clear();
        }
    }

    /// Whether all that the operator wanted has been made.
    pub(in crate::world) fn has_its_wishes(&self) -> bool {
        self.together().wishes.iter().all(|w| w.done)
    }

    pub(in crate::world) fn look_after_wish(&mut self, n: usize) {
        let wish = self.together().wishes.get(n).filter(|w| !w.done);
        let Some(asked) = wish.map(|w| w.asked) else { return };
        if let Some((whom, life, ticket)) = asked {
            let seat = self.seat_mut(whom);
            let lives = seat.life == life;
            let outcome = seat.process.as_mut().filter(|_| lives).map(|p| p.outcome(ticket));
            match outcome {
                Some(Some(None)) => return self.queue.push(LOOK_AGAIN, Event::Wish(n)),
                Some(Some(Some(Ok(())))) => {
                    self.together_mut().wishes[n].done = true;
                    return;
                }
                // It is asked again of whoever leads now.
                _ => {}
            }
        }
        self.queue.push(LOOK_AGAIN, Event::Wish(n));
        let Some(leader) = self.leader().filter(|l| self.seat(*l).process.is_some()) else {
            return;
        };
        if self.is_paused(leader) {
            return;
        }
        let change = self.together().wishes[n].change.clone();
        let clock = self.member_clock(leader);
        let seat = self.seat_mut(leader);
        let life = seat.life;
        let Some(process) = &mut seat.process else { return };
        let ticket = process.change(clock, change);
        self.together_mut().wishes[n].asked = Some((leader, life, ticket));
        self.turn(leader);
    }
}
