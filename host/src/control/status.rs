//! How the array is: makes what [`crate::status`] has fields for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use weft_core::cluster::{
    APART, APART_BY_NODE, ClusterMap, Extent, NodeInfo, NodeKind, Volume, plan_balance,
};
use weft_core::node::{NodeConfig, NodeCounters, ScrubProgress, SlowAt};
use weft_core::units::{ColumnSet, NodeId, SECTOR, VolumeId};
use weft_member::node_of;
use weft_net::identity::Clock;

use crate::cluster::Together;
use crate::control::commands::{Commands, seconds_left, time_of_day};
use crate::control::peer_status::PeerStatus;
use crate::control::ways::{detours, links};
use crate::control::{absences, balance, doors, exposed, lineage, space};
use crate::engine::instance::{Instance, Phase};
use crate::engine::{Engine, Tally};
use crate::hosts::Hosts;
use crate::policy;
use crate::sessions::iscsi_target;
use crate::status::{
    ClusterStatus, Counters, LaneStatus, MissingNode, NodeState, NodeStatus, NumberStatus,
    RequestLimits, ScrubStatus, SlowStatus, Status, Totals, VolumeMode, VolumeStatus,
};
use crate::throttle::AllDemands;

/// How everything is.
pub(crate) fn status(commands: &mut Commands<'_>) -> Status {
    let mut volumes = volumes(commands);
    for volume in &mut volumes {
        let id = VolumeId(volume.id);
        volume.latency = commands.hosts.latency(id);
    }
    let commands = &*commands;
    let engine = &*commands.engine;
    let mut nodes = nodes(commands);
    let plan = plan_balance(engine.map(), 1);
    space::fill_in(&mut nodes, &engine.map().used(), &plan.before);
    let balance = balance::evenness(engine.map(), &plan, &nodes);
    let scrubs = nodes.iter_mut().flat_map(|n| std::mem::take(&mut n.scrubs)).collect();
    let config = NodeConfig::default();
    let (given, all) = engine.map().numbers();
    Status {
        epoch: engine.map().epoch,
        settled: engine.is_settled(),
        uptime_seconds: commands.uptime,
        directory: engine.rule.dir().display().to_string(),
        listens: commands.listens.to_vec(),
        limits: RequestLimits {
            max_request_bytes: config.max_chunk,
            max_in_flight_bytes: config.max_in_flight,
        },
        volumes,
        hosts: doors::hosts(commands),
        logins: doors::logins(commands),
        totals: nodes.iter().filter_map(|n| n.counters).map(|c| c.totals).sum(),
        lanes: engine.tallies().iter().map(lane).collect(),
        nodes,
        scrubs,
        balance,
        settings: settings(engine.map()),
        cluster: engine.rule.together().map(|t| cluster(t, commands.peer_status)),
        host_warnings: doors::warnings(engine.map(), Clock::system().now()),
        numbers: NumberStatus { given, all },
        cut_off: cut_off(engine),
    }
}

fn lane(tally: &Tally) -> LaneStatus {
    let Tally { nodes, inputs, checks, borrowed, wakes } = *tally;
    LaneStatus { nodes, inputs, checks, borrowed, wakes }
}

/// What is chosen for the cluster as a whole.
pub(crate) fn settings(map: &ClusterMap) -> BTreeMap<String, String> {
    map.settings.words().into_iter().map(|(key, word)| (key.to_string(), word)).collect()
}

/// The group of processes, as this one knows it.
fn cluster(together: &Together, others: &PeerStatus) -> ClusterStatus {
    let others = together.connected().flat_map(|p| others.detours(p));
    let status = together.status();
    ClusterStatus {
        node: together.us().0,
        nodes: together.ours().iter().map(|n| n.0).collect(),
        leader: together.leader().map(|n| n.0),
        term: status.term,
        serving: together.may_serve(),
        voters: status.voters.iter().map(|m| node_of(*m).0).collect(),
        disowned: together.is_disowned(),
        connected: together.connected().map(|n| n.0).collect(),
        left: together.home().has_left(),
        links: links(together),
        detours: detours(together).into_iter().chain(others).collect(),
        warnings: together.warnings(),
    }
}

/// Said by a process that reaches no majority.
const CUT_OFF: &str = "this process is cut off from a majority of the cluster's processes (or has just started) and serves no host; the \
                 following is its last known state";

/// Whether this process serves nobody, because the cluster may have gone on without it.
fn is_cut_off(engine: &Engine) -> bool {
    engine.rule.together().is_some_and(|t| !t.may_serve())
}

fn cut_off(engine: &Engine) -> Option<String> {
    is_cut_off(engine).then(|| CUT_OFF.to_string())
}

/// An answer that says so, if it is to be taken with care.
pub(crate) fn with_cut_off(engine: &Engine, mut answer: Value) -> Value {
    if let Some(text) = cut_off(engine) {
        answer["cut_off"] = json!(text);
    }
    answer
}

/// The scrubs in work at a node.
fn scrubs(engine: &Engine, n: usize, scrubs: &[(VolumeId, ScrubProgress)]) -> Vec<ScrubStatus> {
    let of = |(volume, p): &(VolumeId, ScrubProgress)| ScrubStatus {
        volume: engine.map().volumes.get(volume).map(|v| v.name.clone()),
        node: n as u16,
        stripes: p.stripes,
        from: p.from,
        verified: p.verified,
        rebuilt: p.rebuilt,
        mismatched: p.mismatched,
        unclear: p.unclear,
        skipped: p.skipped,
    };
    scrubs.iter().map(of).collect()
}

/// All nodes that have not left.
pub(crate) fn nodes(commands: &Commands<'_>) -> Vec<NodeStatus> {
    let engine = &*commands.engine;
    let there =
        |(n, _): &(usize, &Instance)| engine.map().nodes.get(*n).is_some_and(|i| !i.removed);
    let shown = |(n, instance): (usize, &Instance)| match instance.phase {
        Phase::Elsewhere => elsewhere(commands, n),
        _ => node(engine, n, instance),
    };
    let mut absences = absences::all(engine, commands.peer_status);
    let slow = |n: u16| {
        let at = |at| engine.slow_node(usize::from(n), at);
        let (reads, writes) = (at(SlowAt::Reads), at(SlowAt::Writes));
        (reads.is_some() || writes.is_some()).then(|| SlowStatus {
            read_microseconds: reads.map(|s| s.takes / 1000),
            others_microseconds: reads.map(|s| s.others / 1000),
            write_microseconds: writes.map(|s| s.takes / 1000),
            others_write_microseconds: writes.map(|s| s.others / 1000),
        })
    };
    let as_seen_here = |status: NodeStatus| NodeStatus {
        absence: absences.remove(&status.node),
        slow: slow(status.node),
        ..status
    };
    let all = engine.instances.iter().enumerate().filter(there).map(shown);
    all.map(as_seen_here).collect()
}

/// What the others are told of this process and its nodes.
pub(crate) fn for_peers(engine: &Engine, hosts: &Hosts, demands: AllDemands) -> Option<Value> {
    let ours = engine.rule.together()?.ours().into_iter().map(|n| usize::from(n.0));
    let known = ours.filter(|n| engine.map().nodes.get(*n).is_some());
    let nodes: Vec<NodeStatus> = known.map(|n| node(engine, n, &engine.instances[n])).collect();
    let ids = engine.map().volumes.keys();
    let clients = ids.map(|v| (v.0.to_string(), json!(hosts.users_of(*v)))).collect();
    Some(json!({
        "nodes": nodes,
        "clients": Value::Object(clients),
        "demands": demands,
        "quiet": engine.is_quiet(),
        "admits": engine.rule.together()?.home().config.admit.is_some(),
        "epoch": engine.map().epoch,
        "detours": detours(engine.rule.together()?),
        "slow": engine.sightings(),
        "rotating": engine.rotating(),
        "absences": absences::ours(engine),
    }))
}

/// A node of another process: what the map says, and what it has said itself.
fn elsewhere(commands: &Commands<'_>, n: usize) -> NodeStatus {
    let (engine, id) = (&*commands.engine, NodeId(n as u16));
    let said = commands.peer_status.of_node(engine.map().process_of(id), id).cloned();
    let said = said.and_then(|value| serde_json::from_value::<NodeStatus>(value).ok());
    let mut status = said.unwrap_or_default();
    // Its word about itself may be old, and it may be the only one to believe it.
    let said = Some(status.state).filter(|s| matches!(s, NodeState::Hung | NodeState::Slow));
    let said = said.filter(|_| is_in_touch(engine, id));
    let info = &engine.map().nodes[n];
    status.node = id.0;
    status.state = match (info.up, info.given_up, info.disk) {
        (false, true, _) => NodeState::Lost,
        (false, _, 0) => NodeState::Expected,
        (false, ..) => said.unwrap_or(NodeState::Down),
        _ if engine.map().is_stale(id) => NodeState::CatchingUp,
        _ if info.draining => NodeState::Draining,
        _ if info.suspect => NodeState::Suspect,
        _ => NodeState::Up,
    };
    if info.up {
        status.why = None;
    } else if status.why.is_none() || !is_in_touch(engine, id) {
        // What a process said last of a node says nothing any more once that process is gone.
        status.why = Some(why_down(engine, id).to_string());
    }
    status.columns = engine.map().columns_on(id);
    tell_home(&mut status, engine, n);
    status
}

fn is_in_touch(engine: &Engine, node: NodeId) -> bool {
    let process = engine.map().process_of(node);
    engine.rule.together().is_some_and(|t| t.is_connected(process))
}

/// Why a node of another process is down, if that process does not say it.
fn why_down(engine: &Engine, node: NodeId) -> &'static str {
    let replaced = engine.map().nodes.get(usize::from(node.0)).is_some_and(NodeInfo::is_replaced);
    match is_in_touch(engine, node) {
        _ if replaced => "another process has replaced its own",
        true => "its process runs, but the node is not up yet",
        false => "there is no connection to its process",
    }
}

fn tell_home(status: &mut NodeStatus, engine: &Engine, n: usize) {
    let Some(info) = engine.map().nodes.get(n) else { return };
    if !info.has_disk() {
        status.disk = None;
    }
    status.host = info.is_host();
    status.controller = info.kind == NodeKind::Controller;
    let Some(home) = info.home.as_ref() else { return };
    status.name = Some(home.name.clone());
    status.address = (!info.is_replaced()).then(|| home.address.clone());
    status.labels = Some(home.labels.clone());
    status.process = Some(engine.map().process_of(NodeId(n as u16)).0);
}

/// A node of this process.
fn node(engine: &Engine, n: usize, instance: &Instance) -> NodeStatus {
    let (info, id) = (&engine.map().nodes[n], NodeId(n as u16));
    let state = match instance.phase {
        Phase::Opening => NodeState::Opening,
        Phase::Down if instance.trouble.is_some() => NodeState::Hung,
        Phase::Down if instance.failures.are_waited_out() => NodeState::Down,
        Phase::Down if instance.is_out_as_slow() => NodeState::Slow,
        Phase::Down if instance.wanted => NodeState::Opening,
        Phase::Down if info.given_up => NodeState::Lost,
        Phase::Down => NodeState::Down,
        Phase::Draining => NodeState::Stopping,
        _ if engine.map().is_stale(id) || !info.up => NodeState::CatchingUp,
        _ if info.draining => NodeState::Draining,
        _ if info.suspect => NodeState::Suspect,
        _ => NodeState::Up,
    };
    let is_down =
        matches!(state, NodeState::Hung | NodeState::Slow | NodeState::Lost | NodeState::Down);
    let backend = engine.seat(n).and_then(|seat| seat.disk.as_ref());
    let mut status = NodeStatus {
        node: id.0,
        state,
        why: is_down.then(|| instance.why.clone()),
        trouble: engine.trouble_in_words(n),
        columns: engine.map().columns_on(id),
        disk: Some(instance.path.display().to_string()),
        disk_bytes: Some(instance.size),
        backend: backend.map(|d| format!("{:?}", d.backend()).to_lowercase()),
        queue: Some(instance.disk_options.queue.order().to_string()),
        queue_depth: Some(instance.disk_options.queue.depth()),
        queued: Some(engine.disk_waiting(n)),
        lane: Some(engine.lane_of(n)),
        ..NodeStatus::default()
    };
    status.errors = info.has_disk().then(|| engine.errors_of(n));
    tell_life(&mut status, engine, n, instance);
    tell_home(&mut status, engine, n);
    status
}

/// What only a node that runs can say.
fn tell_life(status: &mut NodeStatus, engine: &Engine, n: usize, instance: &Instance) {
    let Some(life) = engine.status_of(n) else { return };
    status.stale_sectors = life.stale_sectors;
    status.copied_bytes = Some(life.copied_bytes).filter(|bytes| *bytes > 0);
    space::tell(status, &life);
    status.in_flight = Some(life.in_flight);
    status.quiet = Some(life.quiet);
    status.exposed = exposed::on_disk(engine.map(), &life);
    status.waiting = Some(life.waiting);
    status.counters = Some(counters(&life.counters));
    status.scrubs = scrubs(engine, n, &life.scrubs);
    if life.clock_is_ahead > 0 {
        status.clock_is_ahead_seconds = Some(life.clock_is_ahead / 1_000_000_000);
    }
    if let (Some(rate), Some(left)) = (instance.pace.rate, life.stale_sectors) {
        status.rebuilt_bytes_per_second = Some(rate as u64);
        status.rebuild_seconds_left = Some(((left * SECTOR) as f64 / rate).ceil() as u64);
    }
}

fn counters(c: &NodeCounters) -> Counters {
    Counters {
        totals: Totals {
            requests: c.requests,
            messages: c.totals.messages,
            order_messages: c.order_messages,
            wire_bytes: c.totals.wire_bytes,
            round_trips: c.totals.round_trips,
            disk_reads: c.totals.disk_reads,
            disk_writes: c.totals.disk_writes,
            journal_writes: c.totals.journal_writes,
            notices: c.notices,
            retries: c.retries,
        },
        journal_frames: c.store.journal_frames,
        checkpoints: c.store.checkpoints,
        erasures: c.store.erasures,
        damaged: c.store.damaged,
        rebuilt_sectors: c.rebuilt_sectors,
        refused_strangers: c.refused_strangers,
    }
}

/// All volumes, also those that are being made or deleted: they have their room.
pub(crate) fn volumes(commands: &Commands<'_>) -> Vec<VolumeStatus> {
    let nodes = nodes(commands);
    commands.engine.map().volumes.values().map(|v| of(commands, v, &nodes)).collect()
}

/// All volumes without the snapshots, or the snapshots that hosts see.
pub(crate) fn listed(commands: &Commands<'_>, snapshots: bool) -> Vec<VolumeStatus> {
    let nodes = nodes(commands);
    let is_listed = |v: &&Arc<Volume>| match snapshots {
        true => v.is_snapshot() && v.visible > 0,
        false => !v.is_snapshot(),
    };
    let all = commands.engine.map().volumes.values().filter(is_listed);
    all.map(|v| of(commands, v, &nodes)).collect()
}

/// One volume.
pub(crate) fn volume(commands: &Commands<'_>, volume: &Volume) -> VolumeStatus {
    of(commands, volume, &nodes(commands))
}

/// One volume, of these nodes.
pub(crate) fn of(commands: &Commands<'_>, volume: &Volume, nodes: &[NodeStatus]) -> VolumeStatus {
    let engine = &*commands.engine;
    let cut_off = is_cut_off(engine);
    let migrating = volume.extents.iter().filter(|e| !e.leaving.is_empty()).count();
    let reconstructs = |e: &&Extent| e.filling.keys().any(|c| !e.leaving.contains_key(c));
    let [degraded, critical, failed] = Standing::WORSE.map(|s| extents_that(engine, volume, s));
    let lacks = |extent: usize, node: NodeId| lacks(engine, volume, extent, node);
    let survives = engine.map().survives(volume, APART_BY_NODE, lacks);
    // Of one more than that an MDS code survives none.
    let some = !cut_off && !volume.geometry.code.is_mds();
    let next = some.then(|| engine.map().survived_share(volume, survives + 1, lacks)).flatten();
    let words =
        policy::words(&volume.policy).into_iter().map(|(key, word)| (key.to_string(), word));
    let controlled = volume.policy.controller.map(|_| engine.map());
    let is_snapshot = volume.is_snapshot();
    VolumeStatus {
        name: volume.name.clone(),
        id: volume.id.0,
        iscsi_target: iscsi_target(volume, engine.exports().at()),
        size: if volume.visible == 0 { volume.size } else { volume.visible },
        thin: volume.is_thin(),
        snapshot_of: lineage::origin(engine.map(), volume),
        taken: lineage::taken(volume),
        transfer: lineage::transfer(engine.map(), volume, engine.exports().at().cluster),
        below: lineage::below(engine.map(), volume),
        flattening: space::flattening(engine.map(), volume, nodes),
        snapshots: engine.map().snapshots_of(volume.id).len(),
        schedule: commands.schedule(volume, nodes),
        used_bytes: volume.is_thin().then(|| space::used_bytes(volume, nodes)),
        exclusive_bytes: is_snapshot.then(|| space::exclusive_bytes(engine.map(), volume, nodes)),
        layout: volume.layout.clone(),
        stripe_unit: volume.geometry.unit,
        journal: volume.policy.journal,
        mode: mode(engine, volume),
        extents: volume.extents.len(),
        extents_reconstructing: volume.extents.iter().filter(reconstructs).count(),
        extents_migrating: migrating,
        extents_degraded: degraded.0,
        extents_critical: critical.0,
        extents_failed: failed.0,
        stripes: volume.stripes(),
        stripes_degraded: degraded.1,
        stripes_critical: critical.1,
        stripes_failed: failed.1,
        missing: missing(engine, volume),
        forgot: engine.map().forgetful(volume.id).map(|n| n.0).collect(),
        survives: (!cut_off).then_some(survives),
        survives_next: next,
        apart: volume.apart.clone(),
        bears: (!cut_off).then(|| survived(engine, volume)),
        latency: None,
        requests_limited: commands.hosts.waiting_for_limits(volume.id),
        promise: commands.hosts.promise(engine, volume.id),
        deleted_seconds_left: seconds_left(volume, time_of_day()),
        nodes: volume.nodes().into_iter().map(|n| n.0).collect(),
        clients: commands.clients_of(volume.id),
        hosts: volume.hosts.as_ref().map(|list| list.iter().map(doors::access).collect()),
        reservation: doors::reservation(&volume.reservations),
        registrants: volume.reservations.registered.keys().map(doors::registrant).collect(),
        unordered_sharing: volume.unordered_sharing,
        exposed: exposed::of(volume, nodes),
        ranges: exposed::ranges(volume, nodes),
        controller: controlled.and_then(|map| map.server()).map(|n| n.0),
        controller_backup: controlled.and_then(|map| map.next_server()).map(|n| n.0),
        warning: warning(&volume.policy),
        policy: words.collect(),
    }
}

/// What whoever has chosen this must know.
fn warning(policy: &weft_core::policy::Policy) -> Option<String> {
    let warnings: Vec<&str> = policy.warnings().collect();
    (!warnings.is_empty()).then(|| warnings.join(". "))
}

/// What a volume is like: the worst of its extents decides.
fn mode(engine: &Engine, volume: &Volume) -> VolumeMode {
    let losses = losses(engine, volume);
    let borne = |lost: &ColumnSet| volume.geometry.is_always_recoverable(*lost);
    if is_cut_off(engine) {
        VolumeMode::NotServed
    } else if volume.is_deleted() {
        VolumeMode::Deleted
    } else if volume.visible == 0 {
        VolumeMode::Unfinished
    } else if !losses.iter().all(|l| borne(&l.down)) || engine.map().lacks_nodes(volume) {
        VolumeMode::Failed
    } else if losses.iter().any(|l| !l.down.is_empty()) {
        VolumeMode::Degraded
    } else if losses.iter().any(|l| !l.behind.is_empty()) {
        VolumeMode::Reconstructing
    } else if volume.extents.iter().any(|e| !e.leaving.is_empty()) {
        VolumeMode::Migrating
    } else {
        VolumeMode::FaultFree
    }
}

/// How many failure domains by each label may be lost together now.
fn survived(engine: &Engine, volume: &Volume) -> BTreeMap<String, usize> {
    let map = engine.map();
    let homes =
        map.nodes.iter().filter(|i| !i.removed && i.has_disk()).filter_map(|i| i.home.as_ref());
    let labels: BTreeSet<&str> = homes.flat_map(|h| h.labels.keys().map(String::as_str)).collect();
    let processes = map.nodes.iter().any(|i| i.process.is_some());
    let labels = labels.into_iter().chain(processes.then_some(APART));
    let lacks = |extent: usize, node: NodeId| lacks(engine, volume, extent, node);
    labels.map(|label| (label.to_string(), map.survives(volume, label, lacks))).collect()
}

fn runs(engine: &Engine, node: NodeId) -> bool {
    // When the last node goes nobody is left to agree on a map that says so.
    engine.map().is_up(node) && engine.runs(node)
}

/// Whether the column of extent `n` that is on a node is lost or not caught up.
pub(super) fn lacks(engine: &Engine, volume: &Volume, n: usize, node: NodeId) -> bool {
    // What is being copied is not lost while the disk that it leaves has it.
    let extent = &volume.extents[n];
    let copied = || extent.column_of(node).is_some_and(|c| extent.leaving.contains_key(&c));
    let stale = engine.map().behind_since(volume, n, node).is_some();
    !runs(engine, node) || (stale && !copied())
}

/// How an extent is off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A column of it is on a node that is down.
    Degraded,
    /// One loss more and something of it is lost.
    Exposed,
    /// More of it is lost or behind than the layout bears.
    Failed,
}

impl Standing {
    const WORSE: [Standing; 3] = [Standing::Degraded, Standing::Exposed, Standing::Failed];
}

/// What is lost of an extent.
struct Losses {
    /// Columns on nodes that are down.
    down: ColumnSet,
    /// Those, and the ones that are not caught up.
    behind: ColumnSet,
}

fn losses_of(engine: &Engine, volume: &Volume, n: usize) -> Losses {
    let columns = &volume.extents[n].columns;
    let those = |which: &dyn Fn(NodeId) -> bool| {
        (0..columns.len()).filter(|c| which(columns[*c].0)).collect()
    };
    Losses {
        down: those(&|node| !runs(engine, node)),
        behind: those(&|node| lacks(engine, volume, n, node)),
    }
}

/// Whether extent `n` is off like this. One that is exposed may be degraded, too.
fn stands(engine: &Engine, volume: &Volume, n: usize, standing: Standing) -> bool {
    let Losses { down, behind } = losses_of(engine, volume, n);
    let others: Vec<ColumnSet> = (0..volume.extents[n].columns.len())
        .filter(|c| !behind.contains(*c))
        .map(ColumnSet::of)
        .collect();
    let survives = || volume.geometry.survives(behind, &others);
    match standing {
        Standing::Degraded => !down.is_empty() && volume.geometry.is_always_recoverable(behind),
        Standing::Exposed => !behind.is_empty() && survives() == Some(0),
        Standing::Failed => !volume.geometry.is_always_recoverable(behind),
    }
}

/// How many extents, and stripes, of a volume are off like this.
fn extents_that(engine: &Engine, volume: &Volume, standing: Standing) -> (usize, u64) {
    let such = (0..volume.extents.len()).filter(|n| stands(engine, volume, *n, standing));
    such.fold((0, 0), |(extents, stripes), n| {
        let of = volume.extent_stripes(n);
        (extents + 1, stripes + of.end - of.start)
    })
}

/// What the extents of a volume that have failed lack: nodes, and how many extents each.
fn missing(engine: &Engine, volume: &Volume) -> Vec<MissingNode> {
    let mut nodes: BTreeMap<NodeId, usize> = BTreeMap::new();
    let failed = |n: &usize| stands(engine, volume, *n, Standing::Failed);
    for n in (0..volume.extents.len()).filter(failed) {
        let columns = volume.extents[n].columns.iter().map(|c| c.0);
        for node in columns.filter(|node| lacks(engine, volume, n, *node)) {
            *nodes.entry(node).or_default() += 1;
        }
    }
    let missing = |(node, extents): (NodeId, usize)| {
        let home = engine.map().nodes[usize::from(node.0)].home.as_ref();
        MissingNode {
            node: node.0,
            name: home.map(|h| h.name.clone()),
            up: runs(engine, node),
            extents,
        }
    };
    nodes.into_iter().map(missing).collect()
}

/// What is lost of each extent.
fn losses(engine: &Engine, volume: &Volume) -> Vec<Losses> {
    (0..volume.extents.len()).map(|n| losses_of(engine, volume, n)).collect()
}
