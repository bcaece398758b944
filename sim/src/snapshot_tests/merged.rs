//! Disks that lack content of a volume while a deleted snapshot is merged into it.

use weft_core::cluster::ClusterSetting;
use weft_core::node::ALL;

use super::*;

/// A disk has yet to catch up when a snapshot is taken and deleted again. Writes that need its old content do not wait for
/// the background: they have it rebuilt, in the volume into which the snapshot is merged.
fn write_while_a_disk_is_behind(seed: u64, bug: Option<Bug>) {
    let mut trial = Trial::new(seed, bug);
    trial.put(FIRST, 0..40, 7);
    let node = NodeId(seed as u16);
    trial.world.kill(node, true);
    trial.until("it is missed", |t| !t.world.map().is_up(node));
    trial.put(FIRST, 0..40, 8);
    // In the background nothing is rebuilt.
    let slow = ClusterSetting::RebuildCeiling(Some(0));
    trial.change(&Change::Set(slow), |w| w.map().settings.rebuild_ceiling == Some(0));
    trial.world.start_node(node);
    trial.until("it is back", |t| t.world.map().is_up(node));
    let snapshot = trial.picture("s");
    trial.models.remove(&snapshot);
    trial.change(&Change::DeleteVolume(snapshot, 0), |w| {
        w.map().volumes.get(&snapshot).is_none_or(|v| v.is_deleted())
    });
    assert!(trial.world.map().is_stale(node), "seed {seed}: it has yet to catch up");
    for sector in (0..40).step_by(3) {
        trial.put(FIRST, sector..sector + 1, 9);
    }
    let fast = ClusterSetting::RebuildCeiling(None);
    trial.change(&Change::Set(fast), |w| w.map().settings.rebuild_ceiling.is_none());
    trial.until("all is whole", Trial::is_whole);
    trial.settle_all();
    trial.scrub_all();
}

#[test]
fn writes_have_the_volume_rebuilt_and_not_the_merged_snapshot() {
    (0..3).for_each(|seed| write_while_a_disk_is_behind(seed, None));
    let broken = || write_while_a_disk_is_behind(0, Some(Bug::RebuildsMerged));
    assert!(std::panic::catch_unwind(broken).is_err(), "RebuildsMerged is not found");
}

/// A column moves. The new disk gets copies of the snapshot, with later timestamps than all writes. Then the snapshot
/// is deleted, and the later writes to the volume must be copied, too.
fn move_and_delete(steps: u64, bug: Option<Bug>) {
    let mut trial = Trial::new(4, bug);
    trial.put(FIRST, 0..100, 7);
    let snapshot = trial.picture("s");
    trial.put(FIRST, 0..100, 8);
    trial.until("all is in place", Trial::is_whole);
    let node = trial.world.map().volumes[&FIRST].extents[0].columns[0].0;
    trial.world.drain(node, true);
    for _ in 0..steps {
        trial.world.step();
    }
    trial.models.remove(&snapshot);
    trial.change(&Change::DeleteVolume(snapshot, 0), |w| {
        w.map().volumes.get(&snapshot).is_none_or(|v| v.is_deleted())
    });
    trial.until("all is whole", Trial::is_whole);
    trial.settle_all();
    trial.scrub_all();
}

#[test]
fn copies_of_a_deleted_snapshot_are_not_newer_than_the_volume() {
    let steps = || (0..1200).step_by(100);
    steps().for_each(|steps| move_and_delete(steps, None));
    let is_found = |steps| {
        let broken = || move_and_delete(steps, Some(Bug::BelievesHidden));
        std::panic::catch_unwind(broken).is_err()
    };
    assert!(steps().any(is_found), "BelievesHidden is not found");
}

/// How long it takes until a deleted snapshot is merged while this part of the work that no host waits for goes on.
fn merges_within(part: u64) -> u64 {
    let mut trial = Trial::new(4, None);
    trial.put(FIRST, 0..40, 7);
    let snapshot = trial.picture("s");
    trial.put(FIRST, 3..20, 8);
    trial.models.remove(&snapshot);
    trial.world.give_way(part);
    trial.change(&Change::DeleteVolume(snapshot, 0), |w| {
        w.map().volumes.get(&snapshot).is_none_or(|v| v.is_deleted())
    });
    let begun = trial.world.now();
    trial.until("it is merged", |t| !t.world.map().volumes.contains_key(&snapshot));
    let took = trial.world.now() - begun;
    trial.world.give_way(ALL);
    trial.settle_all();
    trial.scrub_all();
    took
}

#[test]
fn merging_gives_way_to_what_a_volume_promises() {
    let (all, least) = (merges_within(ALL), merges_within(ALL / 64));
    assert!(least > 8 * all, "{all} ns with all, {least} ns with the least");
}

/// A host reads a snapshot while it is deleted and merged. It sees the snapshot or an error, however far each disk is.
fn read_while_it_is_merged(steps: u64, bug: Option<Bug>) {
    let mut trial = Trial::of(3, Draws::FIRST, bug);
    trial.put(FIRST, 0..60, 7);
    let snapshot = trial.picture("s");
    trial.put(FIRST, 0..20, 8);
    trial.put(FIRST, 40..60, 0);
    trial.until("all is in place", Trial::is_whole);
    let delete = Change::DeleteVolume(snapshot, 0);
    trial.world.change(delete);
    for _ in 0..steps {
        trial.world.step();
    }
    if !trial.world.map().volumes.contains_key(&snapshot) {
        return;
    }
    let read = trial.ask(snapshot, HostOp::Read(Range { offset: 0, len: 60 * SECTOR }));
    match trial.answer(read) {
        Ok(HostData::Bytes(pieces)) => {
            assert!(Buffer::join(&pieces).iter().all(|b| *b == 7), "after {steps} steps");
        }
        Err(HostError::NoVolume) => {}
        other => panic!("{other:?}"),
    }
    trial.models.remove(&snapshot);
    trial.until("it is merged", Trial::is_whole);
    trial.settle_all();
    trial.scrub_all();
}

#[test]
fn a_snapshot_is_not_read_while_it_is_merged() {
    let all = |bug| (0..600).step_by(7).for_each(|steps| read_while_it_is_merged(steps, bug));
    all(None);
    let found = std::panic::catch_unwind(|| all(Some(Bug::ReadsMerged)));
    assert!(found.is_err(), "it could be otherwise");
}
