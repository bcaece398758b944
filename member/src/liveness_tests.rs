//! Who is counted dead, shut out or asked to lead, by what the leader and the others hear.

use std::collections::{BTreeMap, BTreeSet};

use weft_core::units::{MILLIS, Nanos};

use crate::hearing::Unheard;
use crate::liveness::{Circle, Liveness};
use crate::message::{Alive, Message};
use crate::{Config, MemberId};

const TICK: Nanos = 50 * MILLIS;
const US: MemberId = MemberId(1);

/// A leader, 1, of five processes, and what has become of the others.
struct Scene {
    liveness: Liveness,
    config: Config,
    now: Nanos,
    said: u64,
    /// The number of the last one that votes.
    voters: u64,
    /// Those that the leader does not hear.
    unheard_here: BTreeSet<u64>,
    /// Those of them whose pings come.
    pings: BTreeSet<u64>,
    /// Of those that do not hear others: whom not, since when.
    unheard: BTreeMap<(u64, u64), Nanos>,
    dead: Vec<u64>,
    shut_out: Vec<u64>,
    back: Vec<u64>,
    heirs: Vec<Vec<u64>>,
    /// Those that start again before the reign begins.
    anew: BTreeSet<u64>,
}

impl Scene {
    fn new() -> Scene {
        let mut scene = Scene::begins();
        scene.pass(2_000);
        assert_eq!((scene.dead.len(), scene.shut_out.len(), scene.heirs.len()), (0, 0, 0));
        scene
    }

    /// The reign begins now.
    fn begins() -> Scene {
        Scene {
            liveness: Liveness::new(3, 0),
            config: Config::default(),
            now: 0,
            said: 0,
            voters: 5,
            unheard_here: BTreeSet::new(),
            pings: BTreeSet::new(),
            unheard: BTreeMap::new(),
            dead: Vec::new(),
            shut_out: Vec::new(),
            back: Vec::new(),
            heirs: Vec::new(),
            anew: BTreeSet::new(),
        }
    }

    /// From now on two do not hear each other; the leader is one of them, or neither.
    fn cut(&mut self, a: u64, b: u64) {
        let now = self.now;
        self.unheard.insert((a, b), now);
        self.unheard.insert((b, a), now);
        if a == US.0 {
            self.unheard_here.insert(b);
        }
    }

    fn mend(&mut self, a: u64, b: u64) {
        self.unheard.retain(|p, _| *p != (a, b) && *p != (b, a));
    }

    /// A process dies.
    fn kill(&mut self, m: u64) {
        (1..=5).filter(|o| *o != m).for_each(|o| _ = self.unheard.insert((o, m), self.now));
        self.unheard_here.insert(m);
    }

    fn report(&self, of: u64) -> Vec<Unheard> {
        let of_it = self.unheard.iter().filter(|((a, _), _)| *a == of);
        let missed = |since: &Nanos| (self.now - since) / self.config.ping_every;
        of_it
            .filter(|(_, since)| missed(since) > 0)
            .map(|((_, m), since)| Unheard {
                member: MemberId(*m),
                age: self.now - since,
                late: missed(since).min(16) as u8,
            })
            .collect()
    }

    fn pass(&mut self, millis: u64) {
        let all: Vec<MemberId> = (1..=5).map(MemberId).collect();
        let voters: Vec<MemberId> = (1..=self.voters).map(MemberId).collect();
        let hosts = BTreeSet::new();
        let circle = Circle { us: US, voters: &voters, hosts: &hosts };
        for _ in 0..millis * MILLIS / TICK {
            self.now += TICK;
            let mut out = Vec::new();
            for m in &self.pings {
                self.liveness.reported(self.now, MemberId(*m), self.report(*m));
            }
            self.liveness.set_group(self.now, &all);
            let fates = self.liveness.tick(self.now, &self.config, &circle, &mut out);
            let numbers = |members: Vec<MemberId>| members.into_iter().map(|m| m.0);
            self.dead.extend(numbers(fates.dead));
            self.shut_out.extend(numbers(fates.shut_out));
            self.heirs.extend(fates.heirs.map(|h| numbers(h).collect::<Vec<_>>()));
            while let Some((to, Message::Probe { round, .. })) = out.pop() {
                if !self.unheard_here.contains(&to.0) {
                    self.answer(to, round);
                }
                let mut more = Vec::new();
                self.liveness.confirm(&voters, &all, &mut more);
                out.extend(more.into_iter().filter(|m| matches!(m.1, Message::Probe { .. })));
            }
        }
    }

    fn answer(&mut self, from: MemberId, round: u64) {
        self.said += 1;
        let alive = Alive {
            term: 3,
            round,
            start: 1,
            number: self.said,
            stamp: self.now,
            opening: false,
            nodes: Vec::new(),
            unheard: self.report(from.0),
            failed: Vec::new(),
        };
        let anew = self.anew.contains(&from.0);
        if self.liveness.heard(self.now, from, alive, anew) == Some(true) {
            self.back.push(from.0);
        }
    }
}

#[test]
fn two_that_are_silent_to_all_are_dead_in_time_and_the_leader_stays() {
    let mut s = Scene::new();
    s.kill(3);
    s.kill(5);
    s.pass(500);
    assert!(s.dead.is_empty());
    s.pass(1_100);
    assert_eq!(s.dead, [3, 5]);
    assert!(s.heirs.is_empty() && s.shut_out.is_empty());
}

/// Its links may come back one after the other.
#[test]
fn what_a_leader_does_not_hear_while_it_hears_nobody_makes_nobody_dead() {
    let mut s = Scene::new();
    (2..=5).for_each(|m| s.kill(m));
    s.pass(3_000);
    s.unheard_here.retain(|m| *m > 3);
    s.pass(300);
    assert_eq!(s.dead, [0; 0], "4 and 5 have not been asked since");
    s.unheard_here.clear();
    s.unheard.clear();
    s.pass(3_000);
    assert_eq!(s.dead, [0; 0]);
    s.kill(4);
    s.pass(1_600);
    assert_eq!(s.dead, [4]);
}

#[test]
fn who_only_the_leader_does_not_hear_is_not_dead_and_another_is_to_lead() {
    let mut s = Scene::new();
    s.cut(1, 4);
    s.cut(1, 5);
    s.pass(1_600);
    assert_eq!(s.dead, [0; 0]);
    assert_eq!(s.heirs[0], [2, 3], "a majority is left, and the cut-off cannot be asked");
    s.pass(1_600);
    assert_eq!(s.dead, [4, 5], "nobody took over: hosts must not wait for ever");
}

#[test]
fn who_the_leader_alone_does_not_hear_is_dead_if_its_links_are_the_worse_ones() {
    let mut s = Scene::new();
    s.cut(1, 4);
    s.pass(1_600);
    assert_eq!((&s.dead[..], s.heirs.is_empty()), (&[][..], false), "another may see more");
    s.pass(1_600);
    assert_eq!(s.dead, [4], "nobody took over");
    let mut s = Scene::new();
    s.cut(3, 4);
    s.pass(500);
    s.cut(1, 4);
    s.pass(1_600);
    assert_eq!((&s.dead[..], s.heirs.len()), (&[4][..], 0));
}

/// Of three voters one is dead: without the leader there is no majority.
#[test]
fn who_is_heard_and_does_not_answer_has_longer_if_nobody_else_can_lead() {
    for (pings, after, dead) in
        [(false, 2_600, vec![3, 5]), (true, 2_600, vec![3]), (true, 4_600, vec![3, 5])]
    {
        let mut s = Scene { voters: 3, ..Scene::new() };
        s.kill(3);
        s.pass(1_600);
        s.unheard.insert((5, 1), s.now);
        s.unheard_here.insert(5);
        s.pings.extend(pings.then_some(5));
        s.pass(after);
        assert_eq!((s.dead, s.heirs.len()), (dead, 0), "pings come: {pings}, {after} ms");
    }
}

#[test]
fn of_two_that_do_not_hear_each_other_one_is_out_until_they_do() {
    let mut s = Scene::new();
    s.cut(2, 4);
    s.pass(1_700);
    assert_eq!((&s.shut_out[..], &s.dead[..]), (&[4][..], &[][..]), "not yet dead");
    s.pass(1_600);
    assert_eq!(s.dead, [4]);
    s.pass(5_000);
    assert_eq!((&s.back[..], s.dead.len()), (&[][..], 1), "it answers all the time");
    s.mend(2, 4);
    s.pass(1_100);
    assert_eq!(s.back, [4]);
    s.pass(5_000);
    assert_eq!((s.dead.len(), s.shut_out.len()), (1, 1));
    assert!(s.heirs.is_empty());
}

#[test]
fn nobody_is_shut_out_if_no_majority_would_remain() {
    let mut s = Scene::new();
    s.kill(5);
    s.pass(1_600);
    s.cut(2, 3);
    s.cut(2, 4);
    s.cut(3, 4);
    s.pass(5_000);
    assert_eq!((s.dead, s.shut_out.len()), (vec![5], 0));
}

#[test]
fn who_was_dead_and_runs_again_counts_for_whom_others_would_follow() {
    let mut s = Scene::new();
    s.kill(4);
    s.kill(5);
    s.pass(1_600);
    assert_eq!(s.dead, [4, 5]);
    for (a, b) in [(2, 4), (3, 4), (4, 5), (2, 5), (3, 5)] {
        s.mend(a, b);
    }
    s.cut(1, 3);
    s.pass(1_600);
    assert_eq!((s.dead.len(), &s.heirs[0][..]), (2, &[2][..]), "2 leads with 3, 4 and 5");
}

/// The time for which nobody heard a process counts from before it started: a leader that was not there then
/// would take it for a broken link, and leave out whoever has not heard the newcomer yet.
#[test]
fn who_starts_as_a_reign_begins_has_time_to_be_heard() {
    for (anew, left_out) in [(vec![2], vec![]), (vec![], vec![4])] {
        let mut s = Scene::begins();
        s.now = 10_000 * MILLIS;
        s.unheard.insert((4, 2), 0);
        s.unheard.insert((2, 4), 0);
        s.anew.extend(anew);
        s.pass(1_000);
        assert_eq!(s.shut_out, left_out);
        s.pass(1_500);
        assert_eq!(s.shut_out, [4], "it does not hear it by now");
    }
}

/// A later leader may have been elected when a process said what it did after the round had begun: that majority answered
/// before it elected. With a lease from then the process would serve on when the new leader takes it for dead.
#[test]
fn a_lease_counts_from_what_was_heard_before_the_round_began() {
    let voters: Vec<MemberId> = (1..=3).map(MemberId).collect();
    let (hosts, config) = (BTreeSet::new(), Config::default());
    let circle = Circle { us: US, voters: &voters, hosts: &hosts };
    let mut liveness = Liveness::new(3, 0);
    liveness.set_group(0, &voters);
    let begin = |l: &mut Liveness, now| drop(l.tick(now, &config, &circle, &mut Vec::new()));
    let say = |l: &mut Liveness, from: u64, round, number, stamp| {
        let alive = Alive {
            term: 3,
            round,
            start: 1,
            number,
            stamp,
            opening: false,
            nodes: Vec::new(),
            unheard: Vec::new(),
            failed: Vec::new(),
        };
        l.heard(stamp, MemberId(from), alive, false);
    };
    let granted = |l: &mut Liveness| -> Vec<(u64, Nanos)> {
        let mut out = Vec::new();
        l.confirm(&voters, &voters, &mut out);
        let grant = |(to, m): (MemberId, Message)| match m {
            Message::Grant { start: 1, stamp } => (to.0, stamp),
            other => panic!("no grant: {other:?}"),
        };
        out.into_iter().map(grant).collect()
    };
    begin(&mut liveness, 0);
    (1..=3).for_each(|m| say(&mut liveness, m, 1, 1, 10 + m));
    assert_eq!(granted(&mut liveness), [], "nothing had been heard before");
    begin(&mut liveness, config.probe_every);
    let later = config.probe_every + 5;
    say(&mut liveness, 2, 1, 2, later);
    assert_eq!(granted(&mut liveness), [], "no majority has answered");
    (1..=3).for_each(|m| say(&mut liveness, m, 2, 3, later + m));
    assert_eq!(granted(&mut liveness), [(1, 11), (2, 12), (3, 13)]);
}
