//! Members in a world where everything goes wrong, over many seeds.
//!
//! `WEFT_MEMBER_SEEDS=A..B` chooses the seeds; a failure names its seed and ends with the story
//! of what happened.

mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_core::cluster::{NodeInfo, NodeKind};
use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::{Bug, Config, Input, MemberId, node_of};
use world::{Event, World, check, faults, first_map};

const SECOND: u64 = 1000 * MILLIS;

/// One seed: a cluster grows, suffers, is mended and must be well again.
fn run(seed: u64, bug: Option<Bug>) -> World {
    let size = 3 + (seed % 5) as usize;
    let mut world = World::new(seed, size, bug);
    world.run_until(5 * SECOND);
    world.faults = true;
    world.volumes = true;
    world.push(0, Event::Fault);
    let result = catch_unwind(AssertUnwindSafe(|| {
        world.run_until(35 * SECOND);
        faults::heal(&mut world);
        world.run_until(60 * SECOND);
        check::converged(&world);
    }));
    if let Err(why) = result {
        let from = world.story.len().saturating_sub(60);
        let story = world.story[from..].join("\n");
        let why = why.downcast_ref::<String>().cloned();
        let why = why.unwrap_or_else(|| "something was assumed that is not so".into());
        panic!("seed {seed}, {size} processes: {why}\n{story}");
    }
    world
}

fn seeds() -> std::ops::Range<u64> {
    let chosen = std::env::var("WEFT_MEMBER_SEEDS").ok();
    let (a, b) = chosen.as_deref().and_then(|s| s.split_once("..")).unwrap_or(("0", "300"));
    a.parse().expect("A..B")..b.parse().expect("A..B")
}

#[test]
fn nothing_goes_wrong_whatever_goes_wrong() {
    let (mut outputs, mut deaths, mut maps, mut terms, mut damaged) = (0, 0, 0, 0, 0);
    for seed in seeds() {
        let checks = run(seed, None).checks;
        outputs += checks.outputs;
        deaths += checks.deaths;
        maps += checks.agreed.len();
        terms += checks.terms;
        damaged += checks.damaged;
    }
    println!(
        "{outputs} outputs, {deaths} declared dead, {maps} maps, {terms} terms, {damaged} logs damaged"
    );
    assert!(damaged > 0);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3] {
        let (a, b) = (run(seed, None), run(seed, None));
        assert_eq!(a.checks.fingerprint, b.checks.fingerprint);
        assert_eq!(a.story, b.story);
    }
    assert_ne!(run(1, None).checks.fingerprint, run(6, None).checks.fingerprint);
}

/// The seeds that find a bug, of the first so many.
fn found(bug: Bug, seeds: u64) -> Vec<u64> {
    (0..seeds).filter(|s| catch_unwind(|| run(*s, Some(bug))).is_err()).collect()
}

#[test]
fn deliberate_bugs_are_found() {
    let lease = found(Bug::NoLeaseWait, 20);
    let early = found(Bug::ActBeforePersisted, 200);
    let believed = found(Bug::BelievesAnyLog, 100);
    println!(
        "found: no lease wait by {lease:?}, acting before persisted by {early:?}, believing any log by \
         {believed:?}"
    );
    assert!(
        !lease.is_empty() && !early.is_empty() && !believed.is_empty(),
        "{lease:?} {early:?} {believed:?}"
    );
}

/// Cuts a side off from the rest, both ways.
fn cut_off(world: &mut World, side: &[u64]) {
    for a in 1..=world.processes.len() as u64 {
        for b in 1..=world.processes.len() as u64 {
            if side.contains(&a) != side.contains(&b) {
                world.cut.insert((MemberId(a), MemberId(b)));
            }
        }
    }
}

/// How many leases run out in an hour in which now this process and now that one, also the leader, is
/// stopped for a moment, or what it says and hears is lost, for no longer than a round lasts.
fn cut_off_in_an_hour(processes: usize, probe_every: Nanos) -> u64 {
    let config = Config { seed: 3, probe_every, ..Config::default() };
    let round = Config::default().probe_every;
    let mut world = World::set(first_map(processes), config);
    world.run_until(10 * SECOND);
    check::converged(&world);
    world.checks.suspended = 0;
    while world.now < 3_610 * SECOND {
        let whom = world.rng.u64(1..=processes as u64);
        match world.rng.bool() {
            true => world.pause(MemberId(whom), round),
            false => cut_off(&mut world, &[whom]),
        }
        world.run_until(world.now + round);
        world.cut.clear();
        let quiet = world.rng.u64(1000 * MILLIS..3000 * MILLIS);
        world.run_until(world.now + quiet);
    }
    world.checks.suspended
}

/// A lease bears that a round is lost or late: it is renewed each round, with room for two more.
#[test]
fn one_lost_or_late_round_now_and_then_cuts_nobody_off() {
    for processes in [3, 5] {
        assert_eq!(cut_off_in_an_hour(processes, Config::default().probe_every), 0);
        assert_ne!(cut_off_in_an_hour(processes, 500 * MILLIS), 0, "too seldom: it is seen");
    }
}

fn serves(world: &World, id: u64) -> bool {
    world.processes[&MemberId(id)].member.as_ref().unwrap().may_serve(world.clock(MemberId(id)))
}

fn epoch(world: &World, id: u64) -> u64 {
    world.processes[&MemberId(id)].member.as_ref().unwrap().map().epoch
}

/// Where no other node runs there will be no map without a node that was counted dead: it is told to
/// start anew all the same, or it would never serve again.
#[test]
fn a_node_that_was_silent_comes_back_where_no_other_runs() {
    let mut world = World::new(7, 3, None);
    world.run_until(10 * SECOND);
    check::converged(&world);
    let leader = world.leader().unwrap().0;
    let other = leader % 3 + 1;
    for id in (1..=3).filter(|id| *id != other) {
        assert!(world.end_node(MemberId(id), NodeId(id as u16 - 1)));
    }
    world.run_until(12 * SECOND);
    world.pause(MemberId(other), 3 * SECOND);
    world.run_until(25 * SECOND);
    assert!(serves(&world, other), "{}", world.story.join("\n"));
}

#[test]
fn a_minority_stops_and_the_majority_goes_on_without_it() {
    let mut world = World::new(7, 5, None);
    world.run_until(10 * SECOND);
    check::converged(&world);
    let leader = world.leader().unwrap().0;
    let side = [leader, leader % 5 + 1];
    let before = epoch(&world, leader);
    cut_off(&mut world, &side);
    world.run_until(20 * SECOND);
    for id in 1..=5 {
        let cut = side.contains(&id);
        assert_eq!(serves(&world, id), !cut);
        assert_eq!(epoch(&world, id) > before, !cut, "of {id}");
    }
    let map = world.checks.agreed.last_key_value().unwrap().1.clone();
    for id in 1..=5 {
        assert_eq!(map.is_up(NodeId(id as u16 - 1)), !side.contains(&id));
    }
    faults::heal(&mut world);
    world.run_until(30 * SECOND);
    check::converged(&world);
}

#[test]
fn without_a_majority_nothing_changes_and_nobody_serves() {
    let mut world = World::new(8, 5, None);
    world.run_until(10 * SECOND);
    let before = *world.checks.agreed.last_key_value().unwrap().0;
    [1, 2, 3].into_iter().for_each(|id| world.crash(MemberId(id)));
    world.run_until(30 * SECOND);
    assert!(!serves(&world, 4) && !serves(&world, 5));
    assert_eq!(*world.checks.agreed.last_key_value().unwrap().0, before);
    faults::heal(&mut world);
    world.run_until(45 * SECOND);
    check::converged(&world);
}

#[test]
fn a_dead_process_is_out_within_the_time_that_the_settings_say() {
    let mut world = World::new(9, 5, None);
    world.run_until(10 * SECOND);
    let leader = world.leader().unwrap().0;
    let victim = leader % 5 + 1;
    world.crash(MemberId(victim));
    world.run_until(world.now + world.config.dead_after + 100 * MILLIS);
    let map = world.checks.agreed.last_key_value().unwrap().1.clone();
    assert!(!map.is_up(NodeId(victim as u16 - 1)));
    assert_eq!(map.up().count(), 4);
    let said = |what: &str| world.story.iter().any(|line| line.contains(what));
    let process = node_of(MemberId(victim)).0;
    let dead = format!("warning: process {process} does not answer and is considered failed");
    let named = format!("warning: process {process} (");
    assert!(said(&dead) || said(&named), "{}", world.story.join("\n"));
    assert!(said("info: this process leads the cluster from now on; "));
}

/// The election comes at once, because the connections to it have broken; unless a vote is split,
/// and then it comes with the next time-out.
#[test]
fn a_dead_leader_is_out_almost_as_soon() {
    let mut soon = 0;
    for seed in 0..20 {
        let mut world = World::new(seed, 5, None);
        world.run_until(10 * SECOND);
        let leader = world.leader().unwrap();
        let still_up = |world: &World| {
            let map = world.checks.agreed.last_key_value().unwrap().1;
            map.is_up(NodeId(leader.0 as u16 - 1)) || map.up().count() != 4
        };
        world.crash(leader);
        world.run_until(world.now + world.config.dead_after + 350 * MILLIS);
        soon += u32::from(!still_up(&world));
        world.run_until(world.now + 1000 * MILLIS);
        assert!(!still_up(&world), "seed {seed}");
    }
    assert!(soon >= 18, "{soon} of 20");
}

/// A new leader of four that run on does not wait until the fifth has opened its disk.
#[test]
fn hosts_do_not_wait_for_one_that_starts() {
    let mut world = World::new(12, 5, None);
    world.run_until(10 * SECOND);
    let leader = world.leader().unwrap();
    world.crash(leader);
    world.open_for = 5 * SECOND;
    world.restart(leader);
    world.run_until(12 * SECOND);
    let map = world.checks.agreed.last_key_value().unwrap().1.clone();
    assert!(!map.is_up(NodeId(leader.0 as u16 - 1)) && map.up().count() == 4);
    world.run_until(20 * SECOND);
    check::converged(&world);
}

/// Whose connections break, and who then goes on, leads on.
#[test]
fn broken_connections_alone_hurt_nobody() {
    let mut world = World::new(11, 5, None);
    world.run_until(10 * SECOND);
    let (leader, epochs) = (world.leader().unwrap(), world.checks.agreed.len());
    let other = MemberId(leader.0 % 5 + 1);
    world.push(0, Event::Disconnect(other, leader));
    world.run_until(12 * SECOND);
    assert_eq!(world.leader(), Some(leader));
    assert_eq!(world.checks.agreed.len(), epochs);
    check::converged(&world);
}

/// Nor does it while its node does not run.
#[test]
fn a_host_that_is_its_own_controller_never_votes() {
    let mut map = first_map(4);
    map.nodes.push(NodeInfo { kind: NodeKind::Host, ..NodeInfo::unseen() });
    let mut world = World::of(13, map, None);
    let host = MemberId(5);
    for second in 10..20 {
        world.run_until(second * SECOND);
        world.kill_node(host, NodeId(4));
    }
    world.run_until(25 * SECOND);
    let leader = world.leader().unwrap();
    let status = world.processes[&leader].member.as_ref().unwrap().status();
    assert_eq!((status.voters.len(), status.learners.len()), (3, 2), "{status:?}");
    assert!(status.learners.contains(&host) && status.map.is_up(NodeId(4)));
}

/// One without disks that is there to be the controller is like any process: it does not come and go.
#[test]
fn a_controller_without_disks_votes() {
    let mut map = first_map(4);
    map.nodes.push(NodeInfo { kind: NodeKind::Controller, ..NodeInfo::unseen() });
    let mut world = World::of(13, map, None);
    world.run_until(25 * SECOND);
    let leader = world.leader().unwrap();
    let status = world.processes[&leader].member.as_ref().unwrap().status();
    assert!(status.voters.contains(&MemberId(5)) && status.map.is_up(NodeId(4)), "{status:?}");
    assert_eq!(status.map.server(), Some(NodeId(4)));
}

#[test]
fn a_voter_leaves_for_good_and_learners_take_its_place() {
    let mut world = World::new(10, 7, None);
    world.run_until(10 * SECOND);
    let leader = world.leader().unwrap();
    let status = world.processes[&leader].member.as_ref().unwrap().status();
    assert_eq!((status.voters.len(), status.learners.len()), (5, 2));
    let settled = |m: &MemberId| world.processes[m].member.as_ref().unwrap().status().settled;
    let settled: Vec<MemberId> = world.processes.keys().copied().filter(settled).collect();
    assert_eq!(settled, [leader], "who leads, and nobody else, takes up changes");
    let leaves = *status.voters.iter().find(|m| **m != leader).unwrap();
    world.input(leader, Input::RemoveMember(1 << 40, leaves));
    world.crash(leaves);
    world.processes.get_mut(&leaves).unwrap().removed = true;
    // Its nodes took part when it was asked for the first time; now they do not.
    world.run_until(13 * SECOND);
    world.input(leader, Input::RemoveMember(1 << 41, leaves));
    world.run_until(16 * SECOND);
    let status = world.processes[&leader].member.as_ref().unwrap().status();
    assert_eq!((status.voters.len(), status.learners.len()), (5, 1), "{status:?}");
    assert!(!status.voters.contains(&leaves));
}

/// The log of a process is damaged while it is down.
fn lose_log(world: &mut World, id: u64) {
    world.crash(MemberId(id));
    world.empty_log(MemberId(id));
}

fn voters(world: &World, id: u64) -> Vec<MemberId> {
    world.processes[&MemberId(id)].member.as_ref().unwrap().status().voters
}

/// The leader's, which is the worst.
#[test]
fn who_lost_its_log_comes_back_without_a_say_in_the_past() {
    let mut world = World::new(14, 3, None);
    world.run_until(10 * SECOND);
    let leader = world.leader().unwrap();
    lose_log(&mut world, leader.0);
    world.run_until(11 * SECOND);
    world.restart(leader);
    let member = |world: &World| world.processes[&leader].member.as_ref().unwrap().id();
    let anew = member(&world);
    assert!(anew != leader && node_of(anew) == node_of(leader));
    world.run_until(20 * SECOND);
    check::converged(&world);
    let voters = voters(&world, leader.0);
    assert!(voters.len() == 3 && voters.contains(&anew) && !voters.contains(&leader));
    // And once more, of the new one.
    lose_log(&mut world, leader.0);
    world.restart(leader);
    world.run_until(30 * SECOND);
    check::converged(&world);
    assert!(member(&world) > anew);
}

/// Where most have forgotten, nothing may be agreed on: one that remembers could have been outvoted.
#[test]
fn where_no_majority_remembers_nobody_goes_on_and_all_say_so() {
    let mut world = World::new(15, 3, None);
    world.run_until(10 * SECOND);
    let before = *world.checks.agreed.last_key_value().unwrap().0;
    for id in 1..=2 {
        lose_log(&mut world, id);
        world.restart(MemberId(id));
    }
    world.run_until(40 * SECOND);
    assert_eq!(*world.checks.agreed.last_key_value().unwrap().0, before);
    let member = |id: u64| world.processes[&MemberId(id)].member.as_ref().unwrap();
    for id in 1..=3 {
        assert!(!serves(&world, id));
        assert_eq!(member(id).waits_for_admission(), id < 3);
    }
    assert!(member(3).is_stuck());
    let said = |words: &str| world.story.iter().filter(|line| line.contains(words)).count();
    assert_eq!(said("2 of 3 voting members have lost their logs"), 1);
    assert_eq!(said("not readmitted yet"), 2);
}

/// Who is left with a log takes up what the new group says, though it had a vote in the old one.
#[test]
fn a_cluster_that_is_founded_anew_takes_in_who_remembers_and_who_does_not() {
    let mut world = World::new(16, 3, None);
    world.run_until(10 * SECOND);
    let newest = *world.checks.agreed.last_key_value().unwrap().0;
    (1..=3).for_each(|id| world.crash(MemberId(id)));
    (1..=2).for_each(|id| world.empty_log(MemberId(id)));
    world.refound(MemberId(1));
    // As the processes of the map are.
    world.to_add = vec![MemberId(2), MemberId(3)];
    world.run_until(15 * SECOND);
    (2..=3).for_each(|id| world.restart(MemberId(id)));
    world.run_until(40 * SECOND);
    check::converged(&world);
    assert!(epoch(&world, 3) > newest);
    let voters = voters(&world, 3);
    assert!(voters.len() == 3 && !voters.contains(&MemberId(1)) && voters.contains(&MemberId(3)));
}
