//! What counts as stale.

use super::*;

fn behind(sectors: Range<u64>, since: u64, from: u64) -> Behind {
    Behind {
        sectors,
        since: Timestamp(since),
        from: Timestamp(from),
        copied: false,
        runs_since: false,
        times_away: Vec::new(),
        merged: Vec::new(),
    }
}

/// A row that all columns but this one have been written to.
fn listed(version: u64) -> Listed {
    let by = ColumnSet::first(8);
    Listed { version: Timestamp(version), by, since_it_came: by, ..Listed::default() }
}

fn place(n: usize) -> Place {
    (VolumeId(1), n)
}

/// Of columns whose parity says nothing.
fn conclude(c: &mut Catchup) {
    c.conclude(|_, _, _, _| false, |_, _, _| false, |_, _, _, _| false);
}

/// Enters a map in which all volumes are awake.
fn enter<const N: usize>(c: &mut Catchup, behind: [(Place, Behind); N]) -> bool {
    c.enter(behind.into(), BTreeSet::new())
}

#[test]
fn only_what_was_missed_is_stale() {
    let mut c = Catchup::default();
    let first = [(place(0), behind(0..1, 10, 0)), (place(1), behind(3..8, 10, 0))];
    assert!(enter(&mut c, first.clone()));
    c.asking().unwrap().waiting.insert(NodeId(1));
    assert!(c.is_stale(0..1) && !c.is_stale(1..3) && c.stale_sectors().is_none());
    c.wrote(5..6);
    assert!(!c.is_stale(5..6));
    let a = c.asking().unwrap();
    a.listed.extend([4, 5, 6, 7].map(|s| (s, listed(20))));
    a.own = [(6, Timestamp(20)), (7, Timestamp(15))].into();
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    assert_eq!(c.stale_sectors(), None, "the other may know of more");
    c.asking().unwrap().waiting.clear();
    conclude(&mut c);
    assert_eq!(c.stale_sectors(), Some(2));
    assert!(c.is_stale(4..5) && !c.is_stale(5..7) && c.is_stale(7..8));
    assert!(!enter(&mut c, first), "what is known stays known");
    assert_eq!(c.left_behind(&BTreeSet::new()), None, "it is being put back");
    assert_eq!(c.wrote(0..8), 2);
    assert_eq!(c.left_behind(&BTreeSet::new()), Some(BTreeSet::new()));
    c.reported([VolumeId(1)]);
    assert!(!c.is_behind());
    assert!(!enter(&mut c, []) && c.known.is_empty());
}

#[test]
fn a_volume_that_sleeps_keeps_no_other_behind() {
    let (awake, asleep) = (VolumeId(1), VolumeId(2));
    let mut c = Catchup::default();
    let all = [((awake, 0), behind(0..4, 10, 0)), ((asleep, 0), behind(4..8, 10, 0))];
    assert!(c.enter(all.clone().into(), [asleep].into()));
    assert_eq!(c.asked_about().map(|(place, _)| place.0).collect::<Vec<_>>(), [awake]);
    c.wrote(5..6);
    let a = c.asking().unwrap();
    a.listed = [(2, listed(20))].into();
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    assert!(!c.will_know() && c.is_asking_about(asleep) && !c.is_asking_about(awake));
    assert!(c.is_stale(2..3) && !c.is_stale(3..4), "its missed writes are known");
    assert!(c.is_stale(4..5) && !c.is_stale(5..6), "all else of the other may be missed");
    assert_eq!(c.left_behind(&BTreeSet::new()), None);
    c.wrote(2..3);
    assert_eq!(c.left_behind(&BTreeSet::new()), Some([asleep].into()));
    c.reported([awake]);
    assert!(c.is_behind() && c.unreported().is_empty());
    let rest = [all[1].clone()];
    assert!(!c.enter(rest.clone().into(), [asleep].into()), "nobody can say more");
    assert!(enter(&mut c, rest), "it is awake");
    assert!(c.is_stale(4..5) && !c.is_stale(5..6));
}

#[test]
fn a_volume_without_space_keeps_no_other_behind() {
    let (full, other) = (VolumeId(1), VolumeId(2));
    let mut c = Catchup::default();
    enter(&mut c, [((full, 0), behind(0..4, 10, 0)), ((other, 0), behind(4..8, 10, 0))]);
    let a = c.asking().unwrap();
    a.listed = [(2, listed(20)), (6, listed(20))].into();
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    assert_eq!(c.left_behind(&[full].into()), None, "the other is being put back");
    c.wrote(6..7);
    assert_eq!(c.left_behind(&BTreeSet::new()), None);
    assert_eq!(c.left_behind(&[full].into()), Some([full].into()));
    assert_eq!(c.unreported(), [full, other].into());
    c.reported([other]);
    assert_eq!(c.unreported(), [full].into());
}

#[test]
fn an_extent_that_came_is_missed_as_a_whole() {
    let mut c = Catchup::default();
    enter(&mut c, [(place(2), behind(0..6, 0, 100))]);
    let a = c.asking().unwrap();
    a.listed.extend([(0, listed(50)), (1, listed(120)), (2, listed(50))]);
    // 0 has been rebuilt; 2 and 3 hold what another extent left, 4 is older than nothing.
    a.own.extend([(0, Timestamp(110)), (2, Timestamp(90)), (3, Timestamp(90))]);
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    let stale: Vec<u64> = c.stale().iter().copied().collect();
    assert_eq!(stale, [1, 2, 3]);
}

#[test]
fn what_is_written_after_it_came_is_not_copied_over() {
    let mut c = Catchup::default();
    let copied = Behind { copied: true, ..behind(0..6, 0, 100) };
    enter(&mut c, [(place(2), copied)]);
    let a = c.asking().unwrap();
    a.listed.extend([0, 1, 2, 3].map(|s| (s, listed(u64::MAX))));
    a.own.extend([(0, Timestamp(120)), (1, Timestamp(90)), (4, Timestamp(90)), (5, LOST)]);
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    let stale: Vec<u64> = c.stale().iter().copied().collect();
    assert_eq!(stale, [1, 2, 3, 4, 5]);
    assert!(c.is_lost(5) && !c.is_lost(4));
}

#[test]
fn what_is_lost_is_copied_if_it_is_known_not_to_have_been_written_since() {
    let mut c = Catchup::default();
    let copied = Behind { copied: true, ..behind(0..6, 0, 100) };
    enter(&mut c, [(place(2), copied)]);
    let a = c.asking().unwrap();
    a.own.extend([0, 1, 2].map(|s| (s, LOST)));
    a.listed.insert(1, listed(120));
    a.witnesses.insert(place(2), ColumnSet::of(3));
    a.to_look_at = Some(Vec::new());
    let covered = |w: ColumnSet, l: ColumnSet| w.minus(l).contains(3);
    c.conclude(|_, sector, w, l| covered(w, l) && sector < 2, |_, _, _| false, |_, _, _, _| false);
    assert_eq!(c.stale_sectors(), Some(3));
    let lost: Vec<u64> = (0..3).filter(|s| c.is_lost(*s)).collect();
    assert_eq!(lost, [1, 2], "1 was written, and of 2 no parity is known");
}

/// A row that was written to, but not by what covers this column: it cannot have changed here.
#[test]
fn what_a_witness_has_not_written_is_not_stale() {
    let mut c = Catchup::default();
    enter(&mut c, [(place(0), behind(0..4, 10, 0))]);
    let a = c.asking().unwrap();
    let by = |columns: [usize; 2]| Listed {
        version: Timestamp(20),
        by: columns.into_iter().collect(),
        ..Listed::default()
    };
    a.listed.extend([(0, by([1, 4])), (1, by([2, 5])), (2, by([2, 3]))]);
    a.witnesses.insert(place(0), [1, 2, 4].into_iter().collect());
    a.to_look_at = Some(Vec::new());
    // Column 4 covers this one.
    c.conclude(
        |_, _, witnesses, by| witnesses.minus(by).contains(4),
        |_, _, _| false,
        |_, _, _, _| false,
    );
    let stale: Vec<u64> = c.stale().iter().copied().collect();
    assert_eq!(stale, [0], "4 has written to 0; to 1 and 2 only others have");
}

/// 0 and 3 are what another extent left, 1 is what others have, 2 was written by others since.
#[test]
fn what_a_disk_that_forgot_has_is_believed_if_others_have_it() {
    let mut c = Catchup::default();
    enter(&mut c, [(place(0), behind(0..5, 0, 0))]);
    let a = c.asking().unwrap();
    a.listed.extend([(1, listed(50)), (2, listed(60)), (3, listed(20))]);
    a.own.extend([(0, 30), (1, 50), (2, 40), (3, 30)].map(|(s, v)| (s, Timestamp(v))));
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    let stale: Vec<u64> = c.stale().iter().copied().collect();
    assert_eq!(stale, [0, 2, 3]);
}

/// The newest content that others know of is no proof where parity is marked: a later write may have gone to this disk
/// alone.
#[test]
fn what_a_disk_that_forgot_has_is_not_believed_under_marks() {
    let back = TimeAway { from: Timestamp(5), until: Some(Timestamp(45)) };
    let forgot = behind(0..4, 0, 0);
    let returned = Behind { times_away: vec![back], ..behind(0..4, 0, 0) };
    for (missed, expected) in [
        (forgot, vec![1, 2, 3]),
        // It was given 2 since it is back. What it shows from while it was away counts as older.
        (returned, vec![0, 1, 3]),
        (behind(0..4, 10, 0), vec![]),
    ] {
        let mut c = Catchup::default();
        enter(&mut c, [(place(0), missed)]);
        let a = c.asking().unwrap();
        a.listed.extend([(0, listed(40)), (1, listed(40)), (2, listed(50)), (3, listed(30))]);
        a.own.extend([(0, 40), (1, 40), (2, 50), (3, 30)].map(|(s, v)| (s, Timestamp(v))));
        a.to_look_at = Some(Vec::new());
        c.conclude(|_, _, _, _| false, |_, s, _| s > 0, |_, _, _, _| false);
        assert_eq!(c.stale().iter().copied().collect::<Vec<_>>(), expected);
    }
}

/// Timestamps of content rebuilt on this disk had run ahead of the times known to the other nodes: they went on
/// from 100, and it is back since 200.
#[test]
fn what_it_shows_from_while_it_was_away_was_there_before() {
    let mut c = Catchup::default();
    let time = TimeAway { from: Timestamp(100), until: Some(Timestamp(200)) };
    let missed = Behind { times_away: vec![time], ..behind(0..6, 10, 0) };
    enter(&mut c, [(place(0), missed)]);
    let a = c.asking().unwrap();
    // 0 and 1 were written without it; 2 was written before, 3 since, and 4 and 5 were to change here.
    a.listed.extend([(0, 110), (1, 199), (2, 90), (3, 210)].map(|(s, v)| (s, listed(v))));
    a.listed.extend([4, 5].map(|s| (s, Listed { owed: Timestamp(105), ..Listed::default() })));
    let own = [(0, 150), (1, 199), (2, 150), (3, 210), (4, 99), (5, 120)];
    a.own.extend(own.map(|(s, v)| (s, Timestamp(v))));
    a.to_look_at = Some(Vec::new());
    conclude(&mut c);
    let stale: Vec<u64> = c.stale().iter().copied().collect();
    assert_eq!(stale, [0, 1, 4, 5]);
}

/// A write with an earlier timestamp than the content rebuilt here came to the parity, column 4, later, and was
/// decided without this disk. The column came here at 100, or its node was back at 100.
#[test]
fn what_was_put_back_is_not_believed_where_parity_was_written_since() {
    let time = TimeAway { from: Timestamp(50), until: Some(Timestamp(100)) };
    let came = behind(0..7, 0, 100);
    let back = Behind { times_away: vec![time], ..behind(0..7, 10, 0) };
    for missed in [came, back] {
        let mut c = Catchup::default();
        enter(&mut c, [(place(0), missed)]);
        let a = c.asking().unwrap();
        a.witnesses.insert(place(0), [1, 4].into_iter().collect());
        // 1 was rebuilt when parity had long been as it is, 2 is the last write, the parity of 3 was not written,
        // and that of 4 is deferred.
        a.listed.extend([(0, listed(120)), (1, listed(90)), (2, listed(130)), (4, listed(120))]);
        let by = ColumnSet::of(1);
        a.listed.insert(3, Listed { version: Timestamp(120), by, ..Listed::default() });
        a.own.extend([0, 1, 2, 3, 4].map(|s| (s, Timestamp(130))));
        a.to_look_at = Some(Vec::new());
        c.conclude(
            |_, _, _, _| false,
            |_, s, _| s == 4,
            |_, _, witnesses, by| witnesses.intersection(by).contains(4),
        );
        let stale: Vec<u64> = c.stale().iter().copied().collect();
        assert_eq!(stale, [0]);
    }
}

#[test]
fn what_is_missed_again_is_asked_for_again() {
    let mut c = Catchup::default();
    let first = behind(0..4, 10, 0);
    enter(&mut c, [(place(0), first.clone())]);
    c.asking().unwrap().to_look_at = Some(Vec::new());
    conclude(&mut c);
    let more = behind(8..9, 0, 30);
    assert!(enter(&mut c, [(place(0), first), (place(1), more)]));
    assert!(c.is_stale(8..9) && !c.is_stale(0..4));
    assert!(enter(&mut c, [(place(0), behind(0..4, 40, 0))]));
    assert!(c.is_stale(0..4) && !c.is_stale(8..9));
}
