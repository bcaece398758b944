//! The array's state as JSON.

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::{NodeConfig, NodeCounters};
use weft_core::units::{NodeId, VolumeId};

use crate::engine::Engine;
use crate::slot::{Phase, Slot};

/// How many hosts are connected to a volume.
pub(crate) type Clients<'a> = &'a dyn Fn(VolumeId) -> usize;

/// How everything is.
pub(crate) fn status(
    engine: &Engine,
    clients: Clients<'_>,
    listens: &[String],
    uptime: f64,
) -> Value {
    let map = engine.map();
    let nodes: Vec<Value> =
        engine.slots.iter().enumerate().map(|(n, slot)| node(engine, n, slot)).collect();
    let counters = || engine.slots.iter().filter_map(Slot::status).map(|s| s.counters);
    let sum = |f: fn(&NodeCounters) -> u64| counters().map(|c| f(&c)).sum::<u64>();
    let config = NodeConfig::default();
    json!({
        "epoch": map.epoch,
        "settled": engine.is_settled(),
        "uptime_seconds": uptime,
        "directory": engine.state.dir(),
        "listens": listens,
        "limits": {
            "max_request_bytes": config.max_chunk,
            "max_in_flight_bytes": config.max_in_flight,
        },
        "nodes": nodes,
        "volumes": volumes(engine, clients),
        "totals": {
            "requests": sum(|c| c.requests),
            "messages": sum(|c| c.totals.messages),
            "wire_bytes": sum(|c| c.totals.wire_bytes),
            "round_trips": sum(|c| c.totals.round_trips),
            "disk_reads": sum(|c| c.totals.disk_reads),
            "disk_writes": sum(|c| c.totals.disk_writes),
            "journal_writes": sum(|c| c.totals.journal_writes),
            "notices": sum(|c| c.notices),
            "retries": sum(|c| c.retries),
        },
    })
}

fn node(engine: &Engine, n: usize, slot: &Slot) -> Value {
    let info = engine.map().nodes[n];
    let status = slot.status();
    let state = match slot.phase {
        Phase::Opening => "opening",
        Phase::Down if slot.wanted => "opening",
        Phase::Down if info.given_up => "lost",
        Phase::Down => "down",
        Phase::Draining => "stopping",
        _ if engine.map().is_stale(NodeId(n as u16)) || !info.up => "catching-up",
        _ => "up",
    };
    let mut value = json!({
        "node": n,
        "state": state,
        "disk": slot.path,
        "disk_bytes": engine.state.content.disk_size,
        "backend": slot.disk.as_ref().map(|d| format!("{:?}", d.backend()).to_lowercase()),
        "stale_sectors": status.as_ref().and_then(|s| s.stale_sectors),
    });
    if slot.phase == Phase::Down && !slot.wanted {
        value["why"] = json!(slot.why);
    }
    if let Some(status) = status {
        value["in_flight"] = json!(status.in_flight);
        value["quiet"] = json!(status.quiet);
        value["waiting"] = json!(status.waiting);
        value["counters"] = counters(&status.counters);
    }
    value
}

fn counters(c: &NodeCounters) -> Value {
    json!({
        "requests": c.requests,
        "messages": c.totals.messages,
        "wire_bytes": c.totals.wire_bytes,
        "round_trips": c.totals.round_trips,
        "disk_reads": c.totals.disk_reads,
        "disk_writes": c.totals.disk_writes,
        "journal_writes": c.totals.journal_writes,
        "journal_frames": c.store.journal_frames,
        "checkpoints": c.store.checkpoints,
        "erasures": c.store.erasures,
        "notices": c.notices,
        "retries": c.retries,
        "rebuilt_sectors": c.rebuilt_sectors,
    })
}

/// All volumes that hosts can use.
pub(crate) fn volumes(engine: &Engine, clients: Clients<'_>) -> Vec<Value> {
    engine.exports().all().map(|v| volume(engine, v, clients(v.id))).collect()
}

/// One volume.
pub(crate) fn volume(engine: &Engine, volume: &Volume, clients: usize) -> Value {
    let parity = volume.geometry.layout.parity;
    let (lost, stale) = losses(engine, volume);
    let reconstructing = volume.extents.iter().filter(|e| !e.filling.is_empty()).count();
    let mode = if lost > parity || engine.map().is_asleep(volume) {
        "failed"
    } else if lost > 0 {
        "degraded"
    } else if stale > 0 {
        "reconstructing"
    } else {
        "fault-free"
    };
    json!({
        "name": volume.name,
        "id": volume.id.0,
        "size": volume.size,
        "layout": volume.layout,
        "stripe_unit": volume.geometry.unit,
        "journal": volume.policy.journal,
        "mode": mode,
        "extents": volume.extents.len(),
        "extents_reconstructing": reconstructing,
        "survives": parity.saturating_sub(stale),
        "clients": clients,
    })
}

/// Of the extent that is worst off: columns that are lost, and columns that are lost or
/// not caught up.
fn losses(engine: &Engine, volume: &Volume) -> (usize, usize) {
    let map = engine.map();
    // When the last node goes nobody is left to agree on a map that says so.
    let runs = |n: NodeId| map.is_up(n) && engine.slots[usize::from(n.0)].runs();
    let of = |n: usize| {
        let columns = &volume.extents[n].columns;
        let is_stale = |node: NodeId| map.behind_since(volume, n, node).is_some();
        let down = columns.iter().filter(|c| !runs(c.0)).count();
        let behind = columns.iter().filter(|c| !runs(c.0) || is_stale(c.0)).count();
        (down, behind)
    };
    let worst = |a: (usize, usize), b: (usize, usize)| (a.0.max(b.0), a.1.max(b.1));
    (0..volume.extents.len()).map(of).fold((0, 0), worst)
}
