//! How many more losses a stripe survives, of single columns or of whole failure domains.

use super::Geometry;
use crate::units::ColumnSet;

impl Geometry {
    /// How many of these groups of columns may be lost together, whichever they are, beside what is
    /// lost already; `None` if that is too much. A group is what fails as one.
    pub fn survives(&self, lost: ColumnSet, groups: &[ColumnSet]) -> Option<usize> {
        if !self.is_always_recoverable(lost) {
            return None;
        }
        let all_recover = |size: &usize| {
            each_choice(lost, groups, *size, &mut |set| self.is_always_recoverable(set))
        };
        let sure = self.survives_for_sure(lost, groups);
        Some(sure + (sure + 1..=groups.len()).take_while(all_recover).count())
    }

    /// How many columns may be lost together, whichever they are, while only the first so many parities are up to date.
    pub fn any_losses_with(&self, parities: usize) -> usize {
        let first = self.code.data_columns() + parities;
        let stale: ColumnSet =
            (first..self.code.data_columns() + self.code.parity_columns()).collect();
        let columns: Vec<ColumnSet> = (0..self.layout.width()).map(ColumnSet::of).collect();
        let borne = |stripe, set| self.code.is_recoverable(self.units_of(stripe, set).union(stale));
        let all_borne = |size: &usize| {
            (0..self.layout.loss_turns()).all(|stripe| {
                each_choice(ColumnSet::EMPTY, &columns, *size, &mut |set| borne(stripe, set))
            })
        };
        (1..=self.any_losses()).take_while(all_borne).count()
    }

    /// As many as hold no more columns than any that may be lost.
    fn survives_for_sure(&self, lost: ColumnSet, groups: &[ColumnSet]) -> usize {
        let mut sizes: Vec<usize> = groups.iter().map(|g| g.len()).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut columns = lost.len();
        let fits = |size: &usize| {
            columns += size;
            columns <= self.any_losses()
        };
        sizes.into_iter().take_while(fits).count()
    }

    /// Of the sets of so many groups: how many may be lost beside what is lost already, and how many
    /// there are.
    pub fn survived_sets(&self, lost: ColumnSet, groups: &[ColumnSet], size: usize) -> (u64, u64) {
        let (mut survived, mut all) = (0, 0);
        each_choice(lost, groups, size, &mut |set| {
            all += 1;
            survived += u64::from(self.is_always_recoverable(set));
            true
        });
        (survived, all)
    }
}

/// Calls `each` with the union of `with` and each choice of `size` groups, as long as it says true; says
/// whether it always did.
fn each_choice(
    with: ColumnSet,
    groups: &[ColumnSet],
    size: usize,
    each: &mut impl FnMut(ColumnSet) -> bool,
) -> bool {
    if size == 0 {
        return each(with);
    }
    (0..(groups.len() + 1).saturating_sub(size))
        .all(|n| each_choice(with.union(groups[n]), &groups[n + 1..], size - 1, each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutSpec;

    fn geometry(layout: &str) -> Geometry {
        let spec: LayoutSpec = layout.parse().unwrap();
        Geometry::new(spec.over(spec.least_nodes()).unwrap(), 4096)
    }

    /// The columns of a geometry in groups of so many.
    fn groups(g: &Geometry, of: usize) -> Vec<ColumnSet> {
        let columns: Vec<usize> = (0..g.layout.width()).collect();
        columns.chunks(of).map(|c| c.iter().copied().collect()).collect()
    }

    #[test]
    fn single_columns() {
        let none = ColumnSet::EMPTY;
        for (layout, any) in [
            ("raid0", 0),
            ("raid5", 1),
            ("rs:4+2", 2),
            ("lrc:12+2+2", 3),
            ("grid:4x4", 3),
            ("drnet", 2),
        ] {
            let g = geometry(layout);
            assert_eq!(g.survives(none, &groups(&g, 1)), Some(any), "{layout}");
        }
        let g = geometry("lrc:12+2+2");
        assert_eq!(g.survived_sets(none, &groups(&g, 1), 4), (1568, 1820));
        let lost: ColumnSet = [0, 1].into_iter().collect();
        let others: Vec<_> = (2..16).map(ColumnSet::of).collect();
        assert_eq!(g.survives(lost, &others), Some(1));
        assert_eq!(g.survives(ColumnSet::first(4), &others), None);
        let g = geometry("grid:4x4");
        assert_eq!(g.survived_sets(none, &groups(&g, 1), 4), (12_550, 12_650));
        let g = geometry("drnet");
        assert_eq!(g.survived_sets(none, &groups(&g, 1), 3), (2200, 2300));
    }

    #[test]
    fn parity_that_waits_bears_nothing() {
        for (layout, with) in [
            ("raid5", &[0, 1][..]),
            ("raid6", &[0, 1, 2]),
            ("rs:6+3", &[0, 1, 2, 3]),
            // Its groups' parities come first: a group's alone bears a loss.
            ("lrc:12+2+2", &[0, 0, 1]),
            ("drnet", &[0]),
        ] {
            let g = geometry(layout);
            for (parities, bears) in with.iter().enumerate() {
                assert_eq!(g.any_losses_with(parities), *bears, "{layout} {parities}");
            }
        }
    }

    /// Four boxes of four columns: a box holds four of one group, or three and one of the next.
    #[test]
    fn whole_boxes() {
        let none = ColumnSet::EMPTY;
        let g = geometry("rs:4+2");
        assert_eq!(g.survives(none, &groups(&g, 2)), Some(1));
        let g = geometry("lrc:12+2+2");
        assert_eq!(g.survives(none, &groups(&g, 4)), Some(0), "four of a group are too many");
        let spread: Vec<ColumnSet> =
            (0..4).map(|b| (0..16).filter(|c| c % 4 == b).collect()).collect();
        assert_eq!(g.survives(none, &spread), Some(1), "two of each group, or with a global one");
        let g = geometry("grid:4x4");
        assert_eq!(g.survives(none, &groups(&g, 5)), Some(1), "a row");
    }
}
