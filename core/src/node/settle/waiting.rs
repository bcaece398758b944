//! Settling a write whose parity waits (AFRAID 2): the part of the table that redundancy decides.
//!
//! Where all parity takes a write at once, those left always have what it takes: what is missing follows from the
//! redundancy. Parity that waits says nothing. So two questions come after the answers: is what those had to write who
//! cannot be asked [undetermined](is_undetermined), and can the host have been answered? Only the originator knows
//! the latter:
//!
//! | parities that wait | answers | undetermined | who decides | verdict |
//! |---|---|---|---|---|
//! | any | one has committed, or one knows nothing, or not all have answered | either | anyone | as without waiting |
//! | none | all are prepared | never | anyone | commit |
//! | some, all | all are prepared | no | the originator | commit |
//! | some, all | all are prepared | yes | the originator | abort, and try again |
//! | some, all | all are prepared | either | another, while the originator asks | wait for its decision |
//! | some, all | all are prepared | either | another, when no originator asks any more | commit |
//! | all, marked before | no node can be asked: the only participant is down | no | the originator | wait for it |
//!
//! The originator aborts because it has answered no host, and parity as it was determines the missing disk's content.
//! Without an originator the survivors commit, since it may have answered its host. Undetermined data is then exposed:
//! reads fail until its disk is back, and it is lost with that disk. The table is tested over all inputs, and determinacy
//! over all losses and all deferred parities of the codes.

use super::Verdict;
use crate::layout::{ColumnRole, Geometry};
use crate::units::ColumnSet;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    /// The originator, which has told nobody that the write has happened. Data of it may be undetermined if those are
    /// left out who cannot be asked.
    Originator {
        /// Whether it is.
        undetermined: bool,
    },
    /// One who has prepared it. The originator may be there, and ask after it too.
    Voter {
        /// Whether it does.
        originator_asks: bool,
    },
}

/// The verdict on a write of which parity waits, or none, if such is the verdict of the answers.
pub(crate) fn verdict(
    answers: Verdict,
    any_committed: bool,
    waits: bool,
    decider: Decider,
) -> Verdict {
    match (answers, decider) {
        _ if any_committed || !waits => answers,
        // The host has not been answered, and parity is as it was: so what was there before is not lost with that disk.
        (Verdict::Commit, Decider::Originator { undetermined: true }) => Verdict::Abort,
        // It may know of somebody who is gone, and decide otherwise.
        (Verdict::Commit, Decider::Voter { originator_asks: true }) => Verdict::Wait,
        // Who is left cannot tell whether the host was answered. If it was, the write must not be undone.
        _ => answers,
    }
}

/// Whether nothing determines what data of a row holds, if those seats are gone and those parities are only marked.
pub(crate) fn is_undetermined(
    g: &Geometry,
    stripe: u64,
    gone: ColumnSet,
    marked: ColumnSet,
) -> bool {
    let is_data = |seat: usize| matches!(g.layout.role(stripe, seat), ColumnRole::Data(_));
    let marked: ColumnSet = marked.iter().map(|j| g.layout.parity_seat(stripe, j)).collect();
    gone.iter().any(is_data) && !g.determines(stripe, gone.union(marked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutSpec;

    /// All sets of the first so many.
    fn subsets(of: usize) -> impl Iterator<Item = ColumnSet> {
        (0..1u32 << of).map(move |bits| (0..of).filter(|n| bits >> n & 1 == 1).collect())
    }

    /// Every verdict of the answers, with and without parity that waits, and everyone who may decide.
    #[test]
    fn the_table_over_all_inputs() {
        let deciders = [
            Decider::Originator { undetermined: false },
            Decider::Originator { undetermined: true },
            Decider::Voter { originator_asks: false },
            Decider::Voter { originator_asks: true },
        ];
        for answers in [Verdict::Wait, Verdict::Commit, Verdict::Abort] {
            for decided in [false, true] {
                for waits in [false, true] {
                    for decider in deciders {
                        let open = answers == Verdict::Commit && !decided && waits;
                        let expected = match decider {
                            Decider::Originator { undetermined: true } if open => Verdict::Abort,
                            Decider::Voter { originator_asks: true } if open => Verdict::Wait,
                            _ => answers,
                        };
                        let found = verdict(answers, decided, waits, decider);
                        assert_eq!(found, expected, "{answers:?} {decided} {waits:?} {decider:?}");
                    }
                }
            }
        }
    }

    /// All sets of seats that may be gone, and all sets of parities that may wait, in every stripe until the layout
    /// comes round. Held against counting: with such codes, data is determined if as many parities
    /// took the write and are there as data is gone.
    #[test]
    fn data_is_determined_by_parity_that_took_the_write_alone() {
        let mut seen = [0; 2];
        for (name, width) in [("raid1", 2), ("raid4", 3), ("raid5", 4), ("raid6", 5), ("rs:3+3", 6)]
        {
            let spec: LayoutSpec = name.parse().unwrap();
            let g = Geometry::new(spec.over(width).unwrap(), 4096);
            for (stripe, gone) in
                (0..width as u64).flat_map(|s| subsets(width).map(move |gone| (s, gone)))
            {
                let role = |seat: usize| g.layout.role(stripe, seat);
                let data = gone.iter().filter(|s| matches!(role(*s), ColumnRole::Data(_))).count();
                for waits in subsets(g.code.parity_columns()) {
                    let tells = |s: &usize| match role(*s) {
                        ColumnRole::Parity(j) => !gone.contains(*s) && !waits.contains(j),
                        ColumnRole::Data(_) => false,
                    };
                    let told = (0..width).filter(tells).count();
                    let found = is_undetermined(&g, stripe, gone, waits);
                    assert_eq!(found, data > told, "{name}, {stripe}: {gone:?} {waits:?}");
                    seen[usize::from(found)] += 1;
                }
            }
        }
        assert!(seen.iter().all(|n| *n > 300), "determined and not: {seen:?}");
    }

    /// Parity that does not cover what is gone says nothing of it.
    #[test]
    fn parity_of_other_data_determines_nothing() {
        let spec: LayoutSpec = "lrc:4+2+1".parse().unwrap();
        let g = Geometry::new(spec.over(7).unwrap(), 4096);
        let seat = |column| ColumnSet::of(g.seat_of(0, column));
        let all_but = |left: usize| ColumnSet::first(3).minus(ColumnSet::of(left));
        let its_group = g.code.parities_of(0).iter().next().expect("its group's parity");
        let other = 1 - its_group;
        assert!(!is_undetermined(&g, 0, seat(0), all_but(its_group)));
        assert!(!is_undetermined(&g, 0, seat(0), all_but(2)), "the global parity covers all");
        assert!(is_undetermined(&g, 0, seat(0), all_but(other)));
        assert!(is_undetermined(&g, 0, seat(0), ColumnSet::first(3)));
        assert!(
            !is_undetermined(&g, 0, ColumnSet::EMPTY, ColumnSet::first(3)),
            "all data is there"
        );
    }
}
