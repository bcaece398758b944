//! The results of an initiator's copies, by list identifier.

use std::collections::VecDeque;

use super::scsi::CopyState;

/// The most copies that are remembered.
const MOST: usize = 16;

/// The last copies of a session.
#[derive(Default)]
pub(super) struct Copies(VecDeque<(u8, CopyState)>);

impl Copies {
    /// A copy begins. An earlier one of the same name is forgotten.
    pub(super) fn begun(&mut self, name: u8) {
        self.0.retain(|(other, _)| *other != name);
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((name, CopyState::InWork));
    }

    /// A copy ends.
    pub(super) fn over(&mut self, name: u8, good: bool, segments: u16) {
        if let Some((_, state)) = self.0.iter_mut().find(|(other, _)| *other == name) {
            *state = if good { CopyState::Done { segments } } else { CopyState::Failed };
        }
    }

    /// The state of a copy, if it is remembered.
    pub(super) fn state(&self, name: u8) -> Option<CopyState> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, state)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_copies_are_remembered() {
        let mut copies = Copies::default();
        copies.begun(1);
        assert_eq!(copies.state(1), Some(CopyState::InWork));
        copies.over(1, true, 3);
        assert_eq!(copies.state(1), Some(CopyState::Done { segments: 3 }));
        copies.begun(1);
        copies.over(1, false, 3);
        assert_eq!(copies.state(1), Some(CopyState::Failed));
        (2..18).for_each(|name| copies.begun(name));
        assert_eq!((copies.state(1), copies.state(2)), (None, Some(CopyState::InWork)));
    }
}
