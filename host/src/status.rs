//! The array's state as JSON.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_core::cluster::{APART, ClusterMap, Extent, Fullness, Volume, plan_balance};
use weft_core::node::{NodeConfig, NodeCounters, ScrubProgress};
use weft_core::order::Ordering;
use weft_core::units::{NodeId, SECTOR, VolumeId};

use crate::desk::Desk;
use crate::engine::Engine;
use crate::policy;
use crate::slot::{Phase, Slot};

/// How many hosts are connected to a volume.
pub(crate) type Clients<'a> = &'a dyn Fn(VolumeId) -> usize;

/// How everything is.
pub(crate) fn status(desk: &Desk<'_>) -> Value {
    let engine = &*desk.engine;
    let nodes = nodes(desk);
    let sum = |f: &str| nodes.iter().filter_map(|n| n["counters"][f].as_u64()).sum::<u64>();
    let config = NodeConfig::default();
    let mut value = json!({
        "epoch": engine.map().epoch,
        "settled": engine.is_settled(),
        "uptime_seconds": desk.uptime,
        "directory": engine.rule.dir(),
        "listens": desk.listens,
        "limits": {
            "max_request_bytes": config.max_chunk,
            "max_in_flight_bytes": config.max_in_flight,
        },
        "volumes": volumes(desk),
        "totals": {
            "requests": sum("requests"),
            "messages": sum("messages"),
            "order_messages": sum("order_messages"),
            "wire_bytes": sum("wire_bytes"),
            "round_trips": sum("round_trips"),
            "disk_reads": sum("disk_reads"),
            "disk_writes": sum("disk_writes"),
            "journal_writes": sum("journal_writes"),
            "notices": sum("notices"),
            "retries": sum("retries"),
        },
    });
    value["nodes"] = Value::from(nodes);
    value["scrubs"] = scrubs(engine);
    value["balance"] = evenness(engine.map());
    if let Some(together) = engine.rule.together() {
        let status = together.status();
        value["cluster"] = json!({
            "node": together.us().0,
            "nodes": together.ours().iter().map(|n| n.0).collect::<Vec<u16>>(),
            "leader": together.leader().map(|n| n.0),
            "term": status.term,
            "serving": together.may_serve(),
            "voters": status.voters.iter().map(|m| m.0 - 1).collect::<Vec<u64>>(),
            "disowned": together.is_disowned(),
            "connected": together.connected().map(|n| n.0).collect::<Vec<u16>>(),
        });
    }
    value
}

/// The scrubs in work at the nodes of this process.
fn scrubs(engine: &Engine) -> Value {
    let of = |(volume, p): &(VolumeId, ScrubProgress)| {
        let name = engine.map().volumes.get(volume).map(|v| &v.name);
        json!({
            "volume": name,
            "from": p.from,
            "stripes": p.stripes,
            "verified": p.verified,
            "rebuilt": p.rebuilt,
            "mismatched": p.mismatched,
            "skipped": p.skipped,
        })
    };
    let at = |slot: &Slot| slot.status().map(|s| s.scrubs).unwrap_or_default();
    engine.slots.iter().flat_map(at).map(|s| of(&s)).collect()
}

/// How full the disks are, and whether they could be more equally so.
fn evenness(map: &ClusterMap) -> Value {
    let plan = plan_balance(map, 1);
    let percent = |f: &Fullness| f.used as f64 * 100.0 / f.size.max(1) as f64;
    let full: Vec<f64> = plan.before.iter().map(percent).collect();
    json!({
        "rebalancing": map.rebalancing,
        "uneven": !plan.moves.is_empty(),
        "fullest_percent": full.iter().copied().fold(0.0, f64::max),
        "emptiest_percent": full.iter().copied().reduce(f64::min).unwrap_or(0.0),
    })
}

/// What is to be moved so that the disks are equally full.
pub(crate) fn balance(map: &ClusterMap) -> Value {
    let plan = plan_balance(map, usize::MAX);
    let disk = |(before, after): (&Fullness, &Fullness)| {
        json!({
            "node": before.node.0,
            "bytes": before.size,
            "used_bytes": before.used,
            "used_bytes_after": after.used,
        })
    };
    let extents = || map.volumes.values().flat_map(|v| &v.extents);
    json!({
        "rebalancing": map.rebalancing,
        "columns": plan.moves.len(),
        "bytes": plan.moves.iter().map(|m| m.sectors * SECTOR).sum::<u64>(),
        "under_way": extents().map(|e| e.leaving.len()).sum::<usize>(),
        "disks": plan.before.iter().zip(&plan.after).map(disk).collect::<Vec<Value>>(),
    })
}

/// All nodes that have not left.
pub(crate) fn nodes(desk: &Desk<'_>) -> Vec<Value> {
    let engine = &*desk.engine;
    let there = |(n, _): &(usize, &Slot)| engine.map().nodes.get(*n).is_some_and(|i| !i.removed);
    let shown = |(n, slot): (usize, &Slot)| match slot.phase {
        Phase::Elsewhere => elsewhere(desk, n),
        _ => node(engine, n, slot),
    };
    engine.slots.iter().enumerate().filter(there).map(shown).collect()
}

/// What the others are told of this process and its nodes.
pub(crate) fn news(engine: &Engine, clients: Clients<'_>) -> Option<Value> {
    let ours = engine.rule.together()?.ours().into_iter().map(|n| usize::from(n.0));
    let known = ours.filter(|n| engine.map().nodes.get(*n).is_some());
    let nodes: Vec<Value> = known.map(|n| node(engine, n, &engine.slots[n])).collect();
    let ids = engine.map().volumes.keys();
    let clients = ids.map(|v| (v.0.to_string(), json!(clients(*v)))).collect();
    Some(json!({
        "nodes": nodes,
        "clients": Value::Object(clients),
        "quiet": engine.is_quiet(),
        "epoch": engine.map().epoch,
    }))
}

/// A node of another process: what the map says, and what it has said itself.
fn elsewhere(desk: &Desk<'_>, n: usize) -> Value {
    let (engine, id) = (&*desk.engine, NodeId(n as u16));
    let said = desk.news.of_node(engine.map().process_of(id), id).cloned();
    let mut value = said.unwrap_or_else(|| json!({ "node": n }));
    // Its word about itself may be old, and it may be the only one to believe it.
    let info = &engine.map().nodes[n];
    value["state"] = json!(match (info.up, info.given_up, info.disk) {
        (false, true, _) => "lost",
        (false, _, 0) => "expected",
        (false, ..) => "down",
        _ if engine.map().is_stale(id) => "catching-up",
        _ if info.draining => "draining",
        _ => "up",
    });
    value["columns"] = json!(engine.map().columns_on(id));
    tell_home(&mut value, engine, n);
    value
}

fn tell_home(value: &mut Value, engine: &Engine, n: usize) {
    if engine.map().nodes.get(n).is_some_and(|i| i.is_host) {
        (value["host"], value["disk"]) = (json!(true), Value::Null);
    }
    let Some(home) = engine.map().nodes.get(n).and_then(|i| i.home.as_ref()) else { return };
    value["name"] = json!(home.name);
    value["address"] = json!(home.address);
    value["labels"] = json!(home.labels);
    value["process"] = json!(engine.map().process_of(NodeId(n as u16)).0);
}

fn node(engine: &Engine, n: usize, slot: &Slot) -> Value {
    let info = &engine.map().nodes[n];
    let status = slot.status();
    let state = match slot.phase {
        Phase::Opening => "opening",
        Phase::Down if slot.wanted => "opening",
        Phase::Down if info.given_up => "lost",
        Phase::Down => "down",
        Phase::Draining => "stopping",
        _ if engine.map().is_stale(NodeId(n as u16)) || !info.up => "catching-up",
        _ if info.draining => "draining",
        _ => "up",
    };
    let mut value = json!({
        "node": n,
        "state": state,
        "columns": engine.map().columns_on(NodeId(n as u16)),
        "disk": slot.path,
        "disk_bytes": slot.size,
        "backend": slot.disk.as_ref().map(|d| format!("{:?}", d.backend()).to_lowercase()),
        "queue": slot.queue.order(),
        "queue_depth": slot.queue.depth(),
        "queued": engine.disk_waiting(n),
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
    tell_home(&mut value, engine, n);
    value
}

fn counters(c: &NodeCounters) -> Value {
    json!({
        "requests": c.requests,
        "messages": c.totals.messages,
        "order_messages": c.order_messages,
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
pub(crate) fn volumes(desk: &Desk<'_>) -> Vec<Value> {
    desk.engine.exports().all().map(|v| volume(desk, v)).collect()
}

/// One volume.
pub(crate) fn volume(desk: &Desk<'_>, volume: &Volume) -> Value {
    let engine = &*desk.engine;
    let parity = volume.geometry.layout.parity;
    let (lost, stale) = losses(engine, volume);
    let migrating = volume.extents.iter().filter(|e| !e.leaving.is_empty()).count();
    let reconstructs = |e: &&Extent| e.filling.keys().any(|c| !e.leaving.contains_key(c));
    let reconstructing = volume.extents.iter().filter(reconstructs).count();
    let mode = if lost > parity || engine.map().is_asleep(volume) {
        "failed"
    } else if lost > 0 {
        "degraded"
    } else if stale > 0 {
        "reconstructing"
    } else if migrating > 0 {
        "migrating"
    } else {
        "fault-free"
    };
    let mut value = json!({
        "name": volume.name,
        "id": volume.id.0,
        "size": volume.visible,
        "layout": volume.layout,
        "stripe_unit": volume.geometry.unit,
        "journal": volume.policy.journal,
        "mode": mode,
        "extents": volume.extents.len(),
        "extents_reconstructing": reconstructing,
        "extents_migrating": migrating,
        "survives": parity.saturating_sub(stale),
        "apart": volume.apart,
        "bears": bears(engine, volume),
        "clients": desk.clients_of(volume.id),
        "unordered_sharing": volume.unordered_sharing,
    });
    for (key, word) in policy::words(&volume.policy) {
        value[key] = json!(word);
    }
    if volume.policy.ordering == Ordering::None {
        value["warning"] = json!(UNORDERED);
    }
    value
}

/// How many failure domains by each label may be lost together now.
fn bears(engine: &Engine, volume: &Volume) -> Value {
    let map = engine.map();
    let homes =
        map.nodes.iter().filter(|i| !i.removed && !i.is_host).filter_map(|i| i.home.as_ref());
    let labels: BTreeSet<&str> = homes.flat_map(|h| h.labels.keys().map(String::as_str)).collect();
    let processes = map.nodes.iter().any(|i| i.process.is_some());
    let labels = labels.into_iter().chain(processes.then_some(APART));
    let lacks = |extent: usize, node: NodeId| lacks(engine, volume, extent, node);
    labels.map(|label| (label.to_string(), json!(map.bears(volume, label, lacks)))).collect()
}

/// What is said of a volume whose requests nothing orders.
const UNORDERED: &str = "ordering=none: requests that overlap, and writes to one stripe at the same \
                         time, may leave parity that does not fit; it is there for comparison";

fn runs(engine: &Engine, node: NodeId) -> bool {
    // When the last node goes nobody is left to agree on a map that says so.
    engine.map().is_up(node) && engine.runs(node)
}

/// Whether the column of extent `n` that is on a node is lost or not caught up.
fn lacks(engine: &Engine, volume: &Volume, n: usize, node: NodeId) -> bool {
    // What is being copied is not lost while the disk that it leaves has it.
    let extent = &volume.extents[n];
    let copied = || extent.column_of(node).is_some_and(|c| extent.leaving.contains_key(&c));
    let stale = engine.map().behind_since(volume, n, node).is_some();
    !runs(engine, node) || (stale && !copied())
}

/// Of the extent that is worst off: columns that are lost, and columns that are lost or
/// not caught up.
fn losses(engine: &Engine, volume: &Volume) -> (usize, usize) {
    let of = |n: usize| {
        let columns = &volume.extents[n].columns;
        let down = columns.iter().filter(|c| !runs(engine, c.0)).count();
        let behind = columns.iter().filter(|c| lacks(engine, volume, n, c.0)).count();
        (down, behind)
    };
    let worst = |a: (usize, usize), b: (usize, usize)| (a.0.max(b.0), a.1.max(b.1));
    (0..volume.extents.len()).map(of).fold((0, 0), worst)
}
