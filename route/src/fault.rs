//! Deliberate bugs: what a router does wrong if it is told to, so that tests can prove that the checker bites.

/// Deliberate bugs that the simulation check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A relay says some of what it carries twice, and the end takes it up twice.
    RelayRepeats,
    /// A circuit that was opened to an earlier life of a process is one to whatever life runs there now.
    CircuitToEarlierLife,
}

/// Whether what is carried at this place of the stream is carried twice.
pub(crate) fn relay_repeats(bug: Option<Bug>, at: u64) -> bool {
    bug == Some(Bug::RelayRepeats) && at % 3 == 1
}

/// Whether the end of a circuit takes up what is not the next of the stream.
pub(crate) fn takes_up_repeated(bug: Option<Bug>) -> bool {
    bug == Some(Bug::RelayRepeats)
}

/// Whether a process answers for its earlier lives.
pub(crate) fn answers_for_earlier_lives(bug: Option<Bug>) -> bool {
    bug == Some(Bug::CircuitToEarlierLife)
}
