//! How a run ends: what hosts saw is judged, and losses may be excused where a disk forgot a promise that nobody can know
//! any more ([`crate::world::World::unremembered`], [`crate::world::World::unheard`]).
//!
//! A run ends early at the first of these, and goes on after the second. Only a loss is excused by it, no panic and no
//! content that nobody wrote; and whatever hosts had been answered before is judged in any case.

use std::collections::BTreeMap;

use weft_core::policy::Commit;
use weft_core::units::Nanos;

use super::super::history::{Op, check, check_limited, check_sources};
use super::Run;
/// A disk has forgotten a promise that nobody can know any more: nothing after that is judged.
pub(super) const UNREMEMBERED: &str =
    "a promise is forgotten by a disk and by all who had heard of it";

/// Begins a reason that may come of that: content is lost, or parity does not match.
pub(super) const LOSS: &str = "lost: ";

/// The judgement of what hosts saw.
pub(super) fn judge(run: &Run, mut ops: BTreeMap<u32, Op>) -> Result<(), String> {
    run.leave_out_what_clocks_spoil(&mut ops);
    run.places.as_ref().map_or(Ok(()), |places| places.check(&mut ops))?;
    let ops: Vec<Op> = ops.into_values().collect();
    check_sources(&ops)?;
    let judged = match run.volume.policy.commit {
        Commit::Limited => check_limited(&ops),
        _ => check(&ops),
    };
    judged.map_err(|why| format!("{LOSS}{why}"))
}

/// Whether a run that ended for this reason has failed, and why.
pub(super) fn verdict(run: &Run, reason: String) -> Result<(), String> {
    let since = match run.world.unheard {
        _ if reason == UNREMEMBERED => run.world.now(),
        Some(since) if reason.starts_with(LOSS) => since,
        _ => return Err(reason),
    };
    judge(run, before(since, &run.ops))
}

/// What hosts had asked for and were answered by this time.
fn before(time: Nanos, ops: &BTreeMap<u32, Op>) -> BTreeMap<u32, Op> {
    let mut ops = ops.clone();
    ops.retain(|_, op| op.start <= time);
    ops.values_mut().for_each(|op| op.end = op.end.filter(|end| *end <= time));
    // Later reads may lack some.
    ops.retain(|_, op| op.did.writes() || op.end.is_some());
    ops
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Did;
    use super::*;
    use crate::check::Options;
    use crate::panics::PANICKED;

    /// Three writes of a block, and a read that sees the first.
    fn run(read_at: Nanos) -> Run {
        let options = Options { commit: Some(Commit::Late), places: false, ..Options::DEFAULT };
        let mut run = Run::draw(1, Options { members: Some(false), ..options }, 0);
        let op =
            |id, did, start| Op { id, did, blocks: 0..1, start, end: Some(start + 1), by: None };
        for (id, start) in [(1, 1), (2, 3), (3, 11)] {
            run.ops.insert(id, op(id, Did::Wrote { zeros: false }, start));
        }
        run.ops.insert(4, op(4, Did::Read(vec![1]), read_at));
        run
    }

    #[test]
    fn only_losses_are_excused_and_only_later_ones() {
        let lost = |run: &Run| judge(run, run.ops.clone()).unwrap_err();
        let ends = |mut run: Run, reason: &dyn Fn(&Run) -> String, unheard| {
            run.world.unheard = unheard;
            verdict(&run, reason(&run))
        };
        assert!(ends(run(20), &lost, None).is_err());
        assert_eq!(ends(run(20), &lost, Some(10)), Ok(()));
        assert!(ends(run(8), &lost, Some(10)).is_err(), "it was lost before");
        assert!(ends(run(20), &|_| "no progress".into(), Some(10)).is_err());
        let panics = |run: &Run| format!("{PANICKED}{}", lost(run));
        assert!(ends(run(20), &panics, Some(10)).is_err());
        let mut wrong = run(20);
        wrong.ops.get_mut(&4).unwrap().did = Did::Read(vec![9]);
        assert!(ends(wrong, &lost, Some(10)).is_err(), "nobody wrote that");
    }

    #[test]
    fn what_comes_before_an_early_end_is_judged() {
        assert!(verdict(&run(8), UNREMEMBERED.into()).is_ok(), "nothing has happened yet");
        let mut late = run(8);
        late.world.call_after(100, 0);
        while late.world.now() < 100 {
            late.world.step();
        }
        assert!(verdict(&late, UNREMEMBERED.into()).is_err());
    }
}
