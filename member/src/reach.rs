//! Who has to go when not all hear one another.
//!
//! Processes that have no good link talk through others (`weft-route`), and so do their members. What is judged
//! here is therefore paths: two do not hear each other if none is left between them.
//!
//! A write needs each pair of the nodes it concerns to hear each other. Where two do not, one of
//! them has to go, or hosts wait; which one is decided so that as few as possible go: of a process
//! with bad links and all others, it is that one, also if it leads.

use std::collections::{BTreeMap, BTreeSet};

use crate::MemberId;

/// What is known of two processes, the lower number first.
pub(crate) type Pair = (MemberId, MemberId);

/// The pair of two processes.
pub(crate) fn pair(a: MemberId, b: MemberId) -> Pair {
    (a.min(b), a.max(b))
}

/// How two processes hear each other, where they do not always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// One has not heard the other for so long that it would be counted dead.
    pub broken: bool,
    /// Rounds of pings in which one did not hear the other, of the last ones.
    pub late: u32,
}

/// What a process is to the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It takes part.
    In,
    /// It takes part, and has to go already.
    Going,
    /// It takes part and has no disk: it needs all that have, and nobody needs it.
    Host,
    /// It does not take part, and would like to.
    Out,
}

/// Those that have to go, or may not come, so that all that remain hear one another: first those with
/// the most broken links; if that leaves a choice, those that have to go already, then those whose
/// other links are worse. If that leaves one it is the leader, which can go without being lost: who
/// leads next sees more.
pub(crate) fn misfits(
    leader: MemberId,
    processes: &BTreeMap<MemberId, Part>,
    links: &BTreeMap<Pair, Link>,
) -> BTreeSet<MemberId> {
    let is = |m: &MemberId, what: Part| processes.get(m) == Some(&what);
    let takes_part = |m: &MemberId| is(m, Part::In) || is(m, Part::Going);
    let mut left: BTreeSet<MemberId> = processes.keys().copied().filter(takes_part).collect();
    let mut gone = BTreeSet::new();
    loop {
        let inside = |p: &Pair| left.contains(&p.0) && left.contains(&p.1);
        // Nobody needs hosts: what they do not hear speaks against nobody else.
        let counts = |m: &MemberId| !gone.contains(m) && !is(m, Part::Host);
        let remains = |p: &Pair| counts(&p.0) && counts(&p.1);
        let worst = left.iter().copied().map(|m| {
            let of_it = links.iter().filter(|(p, _)| (p.0 == m || p.1 == m) && remains(p));
            let (broken, rest): (Vec<_>, Vec<_>) =
                of_it.partition(|(p, link)| link.broken && inside(p));
            let late: u32 = rest.iter().map(|l| l.1.late).sum();
            (broken.len(), is(&m, Part::Going), late, m == leader, m)
        });
        match worst.max() {
            Some((broken, .., worst)) if broken > 0 => {
                left.remove(&worst);
                gone.insert(worst);
            }
            _ => break,
        }
    }
    for what in [Part::Host, Part::Out] {
        let cut_off = |m: &&MemberId| {
            is(m, what) && left.iter().any(|l| links.get(&pair(*l, **m)).is_some_and(|l| l.broken))
        };
        gone.extend(processes.keys().filter(cut_off).copied());
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: Link = Link { broken: true, late: 16 };

    /// Five processes of which the first leads.
    fn five() -> BTreeMap<MemberId, Part> {
        (1..=5).map(|m| (MemberId(m), Part::In)).collect()
    }

    fn links(broken: &[(u64, u64)], late: &[(u64, u64, u32)]) -> BTreeMap<Pair, Link> {
        let broken = broken.iter().map(|(a, b)| (pair(MemberId(*a), MemberId(*b)), BROKEN));
        let late = late.iter().map(|(a, b, late)| {
            (pair(MemberId(*a), MemberId(*b)), Link { broken: false, late: *late })
        });
        broken.chain(late).collect()
    }

    fn gone(
        processes: &BTreeMap<MemberId, Part>,
        broken: &[(u64, u64)],
        late: &[(u64, u64, u32)],
    ) -> Vec<u64> {
        misfits(MemberId(1), processes, &links(broken, late)).iter().map(|m| m.0).collect()
    }

    #[test]
    fn as_few_go_as_possible_and_the_leader_rather_than_another() {
        assert_eq!(gone(&five(), &[], &[(1, 2, 9), (3, 4, 16)]), [0; 0], "late, but heard");
        assert_eq!(gone(&five(), &[(1, 3)], &[]), [1], "one of two: the leader");
        assert_eq!(gone(&five(), &[(2, 4)], &[]), [4], "one of two");
        assert_eq!(gone(&five(), &[(2, 4), (2, 5)], &[]), [2]);
        assert_eq!(gone(&five(), &[(1, 4), (1, 5)], &[]), [1], "the leader itself");
        assert_eq!(gone(&five(), &[(1, 2), (1, 3), (4, 5)], &[]), [1, 5]);
        assert_eq!(gone(&five(), &[(1, 2), (1, 3), (2, 3)], &[]), [1, 3], "none hears another");
    }

    #[test]
    fn of_two_the_one_with_the_worse_links_goes() {
        assert_eq!(gone(&five(), &[(1, 3)], &[(1, 2, 2), (1, 4, 3), (3, 5, 1)]), [1]);
        assert_eq!(gone(&five(), &[(1, 3)], &[(1, 2, 1), (3, 5, 2)]), [3]);
        let mut four_goes = five();
        four_goes.insert(MemberId(2), Part::Going);
        assert_eq!(gone(&four_goes, &[(2, 4)], &[(4, 5, 7)]), [2], "a choice is kept");
        assert_eq!(gone(&four_goes, &[(2, 4), (4, 5)], &[]), [4], "until it proves wrong");
    }

    #[test]
    fn hosts_and_those_that_would_come_must_hear_all_that_remain() {
        let mut processes = five();
        processes.insert(MemberId(6), Part::Host);
        processes.insert(MemberId(7), Part::Host);
        processes.insert(MemberId(8), Part::Out);
        assert_eq!(gone(&processes, &[(2, 6), (2, 7), (6, 7)], &[]), [6, 7], "hosts, not the disk");
        assert_eq!(gone(&processes, &[(6, 7)], &[]), [0; 0], "hosts do not need each other");
        let late = [(4, 6, 9), (4, 7, 9), (2, 5, 3)];
        assert_eq!(gone(&processes, &[(2, 4)], &late), [2], "a host's links are its own");
        assert_eq!(gone(&processes, &[(2, 8), (3, 8)], &[]), [8]);
        assert_eq!(gone(&processes, &[(2, 3), (2, 4), (2, 8)], &[]), [2], "which goes anyway");
        // That others went for their links to one speaks against that one.
        assert_eq!(gone(&processes, &[(2, 3), (2, 8)], &[(3, 4, 9)]), [2]);
    }
}
