use super::*;

#[test]
fn what_is_survived_is_said_of_nodes_and_of_boxes() {
    let of = |survived: Option<usize>, next: Option<f64>, boxes: Option<usize>| {
        survives(&VolumeStatus {
            survives: survived,
            survives_next: next,
            bears: boxes.map(|n| [("box".to_string(), n)].into()),
            ..VolumeStatus::default()
        })
    };
    for (survived, boxes, text) in [
        (0, Some(0), "no more losses"),
        (1, None, "1 more node lost"),
        (1, Some(0), "1 more node lost, no whole box"),
        (2, Some(1), "2 more nodes lost, or 1 box"),
        (2, Some(2), "2 more nodes lost, or 2 boxes"),
    ] {
        assert_eq!(of(Some(survived), None, boxes), text);
    }
    assert_eq!(of(None, None, None), "-");
    let exposed = Some(ExposedStatus { bytes: 49_152, ..ExposedStatus::default() });
    let waiting = VolumeStatus { survives: Some(1), exposed, ..VolumeStatus::default() };
    assert_eq!(survives(&waiting), "1 more node lost, but for 48.00 KiB exposed");
    let some = of(Some(3), Some(1568.0 / 1820.0), Some(1));
    assert_eq!(some, "any 3 more nodes, 86 % of fours, or 1 box");
    assert_eq!(of(Some(0), Some(0.5), None), "50 % of single ones");
}

#[test]
fn what_a_failed_volume_lacks_is_said() {
    let whole = VolumeStatus {
        name: "v".to_string(),
        stripes: 40,
        extents: 4,
        policy: [("lost_wait".to_string(), "20s".to_string())].into(),
        ..VolumeStatus::default()
    };
    let name = Some("n1".to_string());
    let failed = VolumeStatus {
        mode: VolumeMode::Failed,
        stripes_degraded: 10,
        stripes_critical: 10,
        stripes_failed: 30,
        extents_failed: 3,
        missing: vec![
            MissingNode { node: 1, name, up: false, extents: 3 },
            MissingNode { node: 4, name: None, up: true, extents: 2 },
        ],
        ..whole.clone()
    };
    assert_eq!(
        troubles(&failed),
        [
            "volume v: of 40 stripes 10 are degraded, 10 tolerate no more losses",
            "volume v: 3 of 4 extents (30 of 40 stripes) have failed; missing: node 1 (n1, down; 3 \
             extents), node 4 (not caught up; 2 extents); requests that need them fail after 20s \
             (lost-wait: 20s)",
        ]
    );
    let forgetful = VolumeStatus { mode: VolumeMode::Failed, forgot: vec![1, 2], ..whole.clone() };
    assert!(
        troubles(&forgetful)[0].starts_with("volume v waits: the disks of node 1, node 2 have")
    );
    assert!(meanwhile("0s").contains("fail (") && meanwhile("forever").contains("wait ("));
    assert!(troubles(&whole).is_empty());
}

#[test]
fn a_volume_that_is_rolled_back_is_not_told_to_be_deleted() {
    let hidden = |snapshots| VolumeStatus {
        name: "v".to_string(),
        mode: VolumeMode::Unfinished,
        snapshots,
        ..VolumeStatus::default()
    };
    assert!(troubles(&hidden(0))[0].contains("`weft volume delete v` frees its space"));
    let rolled = troubles(&hidden(1));
    assert!(rolled[0].ends_with("repeat `weft volume rollback v SNAPSHOT`"), "{rolled:?}");
}
