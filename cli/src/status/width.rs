//! That a status fits the terminal.

use super::*;

/// Twelve disks of six boxes, four of which are away for long reasons.
#[test]
fn nothing_is_wider_than_the_terminal() {
    let why = "there is no connection to its process, and there was none in the last two minutes";
    let hindrance =
        "no other box has enough free space for its content; add a disk, or delete something";
    let node = |n: u16| NodeStatus {
        node: n,
        process: Some(n / 2),
        name: Some(format!("storage-box-{}", n / 2)),
        state: if n < 8 { NodeState::Up } else { NodeState::Down },
        why: (n >= 8).then(|| why.to_string()),
        absence: (n >= 8).then(|| AbsenceStatus {
            down_seconds: 93,
            hindrance: Some(hindrance.to_string()),
            ..AbsenceStatus::default()
        }),
        disk: Some("/dev/disk/by-id/ata-ST20000NM007D-3DJ103_ZVT0A1B2".to_string()),
        disk_bytes: Some(20_000_588_955_648),
        used_bytes: Some(7 << 40),
        free_bytes: Some(11 << 40),
        backend: Some("io_uring".to_string()),
        stale_sectors: Some(123_456),
        rebuilt_bytes_per_second: Some(200 << 20),
        rebuild_seconds_left: Some(4711),
        ..NodeStatus::default()
    };
    let volume = VolumeStatus {
        name: "a-volume-with-a-long-name".to_string(),
        size: 12 << 40,
        layout: "lrc:12+2+2".to_string(),
        stripe_unit: 65536,
        survives: Some(3),
        survives_next: Some(0.86),
        bears: Some([("box".to_string(), 1)].into()),
        nodes: (0..12).collect(),
        ..VolumeStatus::default()
    };
    let nodes = (0..12).map(node).collect();
    let status = ArrayStatus { nodes, volumes: vec![volume], ..Default::default() };
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for width in [60, 80, 100, 200] {
        let text = describe(&status, Some(width));
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        let flat = flat(&text);
        for n in 9..12 {
            let reason = format!("degraded: node {n} has been down for 93s ({why})");
            assert!(flat.contains(&reason), "{text}");
            assert!(flat.contains(&format!("node {n} is not given up: {hindrance}")), "{text}");
        }
        for heading in ["in flight", "survives", "writes", "backend"] {
            assert!(text.contains(heading), "{heading}: {text}");
        }
    }
    let whole = describe(&status, None);
    assert!(whole.lines().any(|l| l.contains("ZVT0A1B2") && l.contains("11.00 TiB")), "{whole}");
}
