//! Deliberate bugs of the mailbox, which its model must find.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bug {
    /// A lane's thread gives the lane back without looking for mail that has come meanwhile.
    LosesLastInput,
    /// The reactor sleeps without looking for what has been said meanwhile.
    SleepsUnlooked,
    /// A lane's thread is woken, and not told what for.
    ForgetsCall,
}

fn has(bug: Option<Bug>, this: Bug) -> bool {
    cfg!(test) && bug == Some(this)
}

pub(super) fn loses_last_input(bug: Option<Bug>) -> bool {
    has(bug, Bug::LosesLastInput)
}

pub(super) fn sleeps_unlooked(bug: Option<Bug>) -> bool {
    has(bug, Bug::SleepsUnlooked)
}

pub(super) fn forgets_call(bug: Option<Bug>) -> bool {
    has(bug, Bug::ForgetsCall)
}
