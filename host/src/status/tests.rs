//! The page that explains `weft status --json` names the fields that there are.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_core::order::Ordering;
use weft_core::policy::Policy;

use super::*;
use crate::policy;

/// A status in which nothing is left out.
fn full() -> Value {
    let scrub = ScrubStatus::default();
    let node = NodeStatus {
        why: Some(String::new()),
        trouble: Some(String::new()),
        slow: Some(SlowStatus {
            read_microseconds: Some(0),
            others_microseconds: Some(0),
            write_microseconds: Some(0),
            others_write_microseconds: Some(0),
        }),
        absence: Some(AbsenceStatus {
            disk_failed: true,
            given_up_in_seconds: Some(0),
            hindrance: Some(String::new()),
            ..AbsenceStatus::default()
        }),
        slots: Some(SlotsStatus::default()),
        lost_claims: true,
        in_flight: Some(0),
        copied_bytes: Some(0),
        quiet: Some(true),
        waiting: Some(String::new()),
        clock_is_ahead_seconds: Some(0),
        rebuilt_bytes_per_second: Some(0),
        rebuild_seconds_left: Some(0),
        errors: Some(DiskErrors::default()),
        counters: Some(Counters::default()),
        scrubs: vec![scrub.clone()],
        host: true,
        controller: true,
        name: Some(String::new()),
        address: Some(String::new()),
        labels: Some(BTreeMap::new()),
        process: Some(0),
        ..NodeStatus::default()
    };
    let policy = Policy { ordering: Ordering::Sequencer, ..Policy::default() };
    let volume = VolumeStatus {
        iscsi_target: "iqn.2026-11.weft.0123456789abcdef:vol0".into(),
        used_bytes: Some(0),
        exclusive_bytes: Some(0),
        snapshot_of: Some(String::new()),
        taken: Some(String::new()),
        below: Some(String::new()),
        transfer: Some(TransferStatus {
            identity: Some(String::new()),
            imports_to: Some(String::new()),
            base: Some(String::new()),
            done: Some(0),
            imported_until: Some(0),
        }),
        schedule: vec![ScheduleStatus {
            hindrance: Some(String::new()),
            ..ScheduleStatus::default()
        }],
        flattening: Some(FlatteningStatus::default()),
        promise: Some(PromiseStatus::default()),
        missing: vec![MissingNode::default()],
        exposed: Some(ExposedStatus {
            offset: Some(0),
            mttdl_hours: Some(0.0),
            mdlr_bytes_per_hour: Some(0.0),
            ..ExposedStatus::default()
        }),
        ranges: vec![RangeStatus {
            exposed: Some(ExposedStatus::default()),
            policy: policy::words_of_range(&policy),
            ..RangeStatus::default()
        }],
        deleted_seconds_left: Some(0),
        latency: Some(VolumeLatency {
            reads: Some(LatencyStatus::default()),
            ..VolumeLatency::default()
        }),
        controller: Some(0),
        controller_backup: Some(1),
        warning: Some(String::new()),
        policy: policy::words(&policy).into_iter().map(|(k, w)| (k.to_string(), w)).collect(),
        ..VolumeStatus::default()
    };
    json!(Status {
        volumes: vec![volume],
        nodes: vec![node],
        hosts: vec![HostStatus::default()],
        logins: LoginStatus { refused: [("tls".to_string(), 0)].into(), ..LoginStatus::default() },
        lanes: vec![LaneStatus::default()],
        scrubs: vec![scrub],
        cluster: Some(ClusterStatus {
            links: vec![LinkStatus::default()],
            detours: vec![Detour::default()],
            ..ClusterStatus::default()
        }),
        host_warnings: vec![String::new()],
        cut_off: Some(String::new()),
        ..Status::default()
    })
}

/// What a section's heading names: `nodes[].counters` of the status, or all of it.
fn at<'a>(status: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(status, |value, part| {
        match part.strip_suffix("[]") {
            Some(list) => &value[list][0],
            None => &value[part],
        }
    })
}

fn in_backticks(text: &str) -> &str {
    text.split('`').nth(1).unwrap_or_default()
}

#[test]
fn the_page_names_the_fields_that_there_are() {
    let (page, status) = (include_str!("../../../docs/use/status.md"), full());
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(sections.len(), 26);
    for section in sections {
        let (heading, body) = section.split_once('\n').unwrap();
        let rows = body.lines().filter(|line| line.starts_with("| `"));
        // Fields that mean the same share a row.
        let cells = rows.filter_map(|row| row.split(" | ").next());
        let said: BTreeSet<&str> =
            cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        // It is said of nodes and of volumes.
        let path = match heading {
            "Exposure by deferred parity" => "volumes[].exposed",
            heading => in_backticks(heading),
        };
        let fields = at(&status, path).as_object().expect(heading);
        let there: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
        assert_eq!(said, there, "{heading}");
    }
}

#[test]
fn states_and_modes_are_named_on_the_page_and_written_as_they_are_shown() {
    use NodeState as N;
    use VolumeMode as V;
    let page = include_str!("../../../docs/use/status.md");
    let named = |word: &str| assert!(page.contains(&format!("`{word}`")), "{word}");
    let states = [
        N::Up,
        N::CatchingUp,
        N::Draining,
        N::Suspect,
        N::Opening,
        N::Stopping,
        N::Expected,
        N::Hung,
        N::Slow,
        N::Down,
        N::Lost,
    ];
    for state in states {
        assert_eq!(json!(state), state.to_string());
        named(&state.to_string());
    }
    let modes = [
        V::NotServed,
        V::Unfinished,
        V::Deleted,
        V::Failed,
        V::Degraded,
        V::Reconstructing,
        V::Migrating,
        V::FaultFree,
    ];
    for mode in modes {
        assert_eq!(json!(mode), mode.to_string());
        named(&mode.to_string());
    }
}

#[test]
fn what_is_said_is_read_back_and_what_is_not_said_is_not_known() {
    let status: Status = serde_json::from_value(full()).unwrap();
    assert_eq!(json!(status), full());
    let other: Status = serde_json::from_value(json!({ "epoch": 3, "later": true })).unwrap();
    assert_eq!(other, Status { epoch: 3, ..Status::default() });
}
