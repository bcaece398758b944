//! Deferred parities of writes that were cut into jobs before their volume chose that.

use std::sync::Arc;

use crate::Buffer;
use crate::cluster::{Attendance, ClusterMap, Extent, PolicyChange, Volume};
use crate::layout::{Geometry, LayoutSpec};
use crate::node::test_bench::{Bench, THIRD, UNIT, VOLUME, at, map};
use crate::node::{Body, Header, HostOp, Input};
use crate::plan::Range;
use crate::policy::{Setting, Timing};
use crate::units::{Epoch, NodeId};

/// The usual map, or one with two parities, changed in this way.
fn with(epoch: Epoch, layout: &str, change: impl Fn(&mut ClusterMap)) -> Arc<ClusterMap> {
    let mut map = ClusterMap::clone(&map(epoch, Attendance::default()));
    let spec: LayoutSpec = layout.parse().unwrap();
    let nodes = if layout == "raid5" { 3 } else { 4 };
    let geometry = Geometry::new(spec.over(nodes).unwrap(), UNIT);
    let columns = (0..nodes as u16).map(|n| (NodeId(n), 0)).collect();
    map.nodes.resize(nodes, map.nodes[0].clone());
    let volume = Volume::new(VOLUME, "v", 8 * UNIT, &spec, geometry, vec![Extent::new(0, columns)]);
    map.volumes.insert(VOLUME, Arc::new(volume));
    change(&mut map);
    Arc::new(map)
}

fn set(map: &mut ClusterMap, change: &PolicyChange) {
    change.apply(Arc::make_mut(map.volumes.get_mut(&VOLUME).unwrap()));
}

/// A write that waited for a node begins in this map.
fn begun(layout: &str, range: Range, then: impl Fn(&mut ClusterMap)) -> Header {
    let mut bench = Bench::new();
    bench.enter(with(2, layout, |map| map.nodes[usize::from(THIRD.0)].up = false), at(50));
    let data = Buffer::Length(range.len as usize);
    bench.handle(Input::Host(1, VOLUME, HostOp::Write(range.offset, data)));
    assert!(!bench.has_sent(|b| matches!(b, Body::Write { .. })), "the volume rests");
    bench.enter(with(3, layout, then), at(60));
    let begun = |b: &Body| if let Body::Write { header, .. } = b { Some(*header) } else { None };
    bench.sent.iter().find_map(begun).expect("it begins")
}

/// If one disk dies with its parity marked, of two units nobody can say which were written.
#[test]
fn a_write_that_was_not_cut_defers_nothing() {
    let deferred = PolicyChange::to([Setting::Redundancy(Timing::Deferred)]);
    for (units, defers) in [(1, true), (2, false)] {
        let range = Range { offset: UNIT, len: units * UNIT };
        let header = begun("raid5", range, |map| set(map, &deferred));
        assert_eq!(!header.waits.parities.is_empty(), defers, "{units} units");
    }
}

#[test]
fn a_write_that_passes_into_another_range_defers_nothing() {
    let deferred =
        PolicyChange::to([Setting::Redundancy(Timing::Deferred), Setting::ImmediateParities(1)]);
    let stripe = 2 * UNIT;
    let range = Some(Range { offset: stripe, len: stripe });
    let immediate = Setting::Redundancy(Timing::Immediate);
    let of_second = PolicyChange { range, ..PolicyChange::to([immediate]) };
    for (len, defers) in [(UNIT, true), (2 * UNIT, false)] {
        let header = begun("raid6", Range { offset: UNIT, len }, |map| {
            set(map, &deferred);
            set(map, &of_second);
        });
        assert_eq!(!header.waits.parities.is_empty(), defers, "{len} bytes");
    }
}
