//! What is drawn before a run begins: the cluster, its volume and the hosts.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use weft_core::cluster::{
    EXTENT_COLUMN_BYTES, ONE_EXTENT, Place, Volume, place_thin, place_volume,
};
use weft_core::layout::Geometry;
use weft_core::node::{FillRates, NodeConfig, Rebuilding};
use weft_core::order::Ordering;
use weft_core::order::sequencer::{Limits, SequencerForm};
use weft_core::policy::{
    CalculatedAt, Commands, Commit, Dispatch, Flush, Policy, Preference, Redundancy, Refresh,
    Roles, Setting, Start, Timing,
};
use weft_core::store::StoreConfig;
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, thin_space};

use super::super::options::{Latest, Options};
use super::super::places::Places;
use super::bounds::Bounds;
use super::full::Full;
use super::giving_up::GivingUp;
use super::hosts::{Client, Heard};
use super::lulls::Lulls;
use super::members::Members;
use super::operator::Operator;
use super::rare::Rare;
use super::relapses::Relapses;
use super::repeats::Repeating;
use super::reserving::Reserving;
use super::slow_disks::SlowDisks;
use super::suspects;
use super::{Run, VOLUME};
use super::{choices, erring, ranges};
use crate::world::{Crew, Sizes, World};

impl Run {
    pub(super) fn draw(seed: u64, mut options: Options, story: usize) -> Run {
        let mut wide_rng = Rng::with_seed(seed ^ 0x0071_de00);
        let mut wide_rng = (options.wide && wide_rng.bool()).then_some(wide_rng);
        let mut rng = Rng::with_seed(seed ^ 0x05ee_d0fc_1a55);
        let layouts = [
            "raid5",
            "raid5",
            "raid6",
            "raid1",
            "raid4",
            "rs:2+2",
            "rs:3+1",
            "raid0",
            "raid5:right-asymmetric",
            "rs:2+3",
        ];
        let drawn = layouts[rng.usize(0..layouts.len())];
        let mut rare = Rare::draw(seed, &options);
        let members = Members::draw(seed, &mut options, rare.as_ref());
        let other = draw_drnet(seed).or(draw_grid(seed)).or(draw_local(seed));
        let mut relapses = Relapses::draw(seed, &options, members.is_some());
        let copies = relapses.as_mut().and_then(Relapses::layout);
        let local = copies.or(other.filter(|_| options.local)).unwrap_or(drawn);
        let spec = options.layout.unwrap_or(local.parse().expect("a known name"));
        let nodes = spec.least_nodes().max(2) + rng.usize(0..=2);
        let unit = SECTOR << rng.u64(0..=2);
        let commit = options.commit.unwrap_or_else(|| draw_commit(seed));
        if commit == Commit::Limited {
            // A column that moves counts as lost (see `Run::bears`).
            (options.faults.moves, options.faults.operator) = (false, false);
            options.places = false;
        }
        // With several nodes in a process the columns of an extent are in different ones.
        let hosted = members.as_ref().map_or(1, |m| m.hosted);
        let attached = members.as_ref().map_or(0, |m| usize::from(m.attached));
        let works = options.faults.operator && hosted == 1;
        let mut operator = works.then(|| Operator::draw(seed, unit)).flatten();
        // With an operator some disks come later; where there are processes, processes do, or disks of those.
        let first = nodes;
        let more = operator.as_mut().map_or(0, |o| o.rng.usize(0..=2));
        let later = if members.is_some() && attached == 0 { more } else { 0 };
        let added = later > 0 && Rng::with_seed(seed ^ 0x000a_dded_d15c).bool();
        let nodes = first * usize::from(hosted) + more;
        let geometry = Geometry::new(spec.over(first).expect("enough nodes"), unit);
        let mut other = Rng::with_seed(seed ^ 0x0004_d15b);
        let mut policy = draw_policy(&mut rng, &mut other);
        if policy.dispatch != Dispatch::Commanded && options.columns {
            policy.calculated_at = draw_columns(seed).or(policy.calculated_at);
        }
        let form = SequencerForm::ALL[other.usize(0..SequencerForm::ALL.len())];
        policy.sequencer = options.sequencer.unwrap_or(form);
        policy.ordering = options.ordering.unwrap_or_else(|| draw_ordering(seed));
        policy.journal = wide_rng.as_mut().is_none_or(|r| r.u8(0..4) != 0);
        policy.commit = commit;
        policy.lost_wait = draw_lost_wait(seed);
        if commit == Commit::Limited {
            policy.dispatch = Dispatch::Commanded;
        }
        if let Some(controller) = options.controller.unwrap_or_else(|| draw_controller(seed))
            && commit == Commit::Late
        {
            Setting::Roles(controller).apply(&mut policy);
            if controller == Roles::Controller {
                policy.commands = draw_commands(seed);
            }
            let columns =
                matches!(policy.calculated_at, Some(CalculatedAt::Balanced | CalculatedAt::Tree));
            if columns && controller == Roles::Central {
                policy.calculated_at = None;
            }
        }
        let parities = geometry.code.parity_columns();
        let may_wait = policy.is_journaled() && commit == Commit::Late && parities > 0;
        let redundancy = draw_redundancy(seed, parities, options.deferral).filter(|_| may_wait);
        policy.redundancy = redundancy.unwrap_or_default();
        copy_writes(seed, &options, may_wait, &mut policy);
        if !policy.is_journaled() {
            // Then only the promises of single deaths stand.
            options.faults.power = false;
            options.faults.beyond = false;
        }
        let stripes = rng.u64(3..=20);
        if let Some(op) = &mut operator {
            op.stripes = stripes;
            // A forced strategy may rely on parity that a cleared room does not have yet.
            policy.strategy = None;
        }
        let size = stripes * geometry.stripe_bytes();
        let mut config = NodeConfig {
            store: StoreConfig {
                table_pages: 4,
                overlay_sectors: rng.usize(8..200),
                discards_free: draw_discards(seed).filter(|_| options.discards),
                ..StoreConfig::default()
            },
            detours: draw_detours(seed).filter(|_| options.faults.hangs),
            max_chunk: 256 << 10,
            max_in_flight: 1 << 20,
            notice_delay: rng.u64(MILLIS / 10..2 * MILLIS),
            patience: 40 * MILLIS,
            timestamp_window: 2000 * MILLIS,
            remembered_units: 1 << 18,
            remembered_writes: 1 << 17,
            lock_timeout: 30 * MILLIS,
            lock_servers: if options.divides_locks { draw_lock_servers(seed) } else { 1 },
            lease: draw_lease(seed, options.latest),
            place_after: rng.u64(MILLIS..20 * MILLIS),
            rebuilds: rng.usize(1..=4),
            rebuilds_busy: 1,
            rebuilding: Rebuilding { together: 0, ..Rebuilding::default() },
            fill: operator.as_mut().map_or(FillRates::UNBOUNDED, Operator::fill),
            sequencer: Limits { issue_within: 300 * MILLIS, ..Limits::default() },
            secret: u128::from(seed) << 64 | 0x5ec2e7,
            bug: options.bug,
        };
        // Where several units are rebuilt at once, adjacent ones are rebuilt together in half of all runs.
        if config.rebuilds.is_multiple_of(2) {
            config.rebuilding = Rebuilding::default();
        }
        let repeating = Repeating::draw(seed, &options, members.is_some());
        if let Some(r) = &repeating {
            config.remembered_writes = r.remembered;
        }
        let hosts = wide_rng.as_mut().map_or(5, |r| r.usize(5..=16));
        let hosts = if rare.is_some() { 12 } else { hosts };
        let journal = wide_rng.as_mut().map_or(512, |r| [64, 96, 160, 512][r.usize(0..4)]);
        if let Some(r) = wide_rng.as_mut()
            && r.u8(0..3) == 0
        {
            config.max_chunk = SECTOR << r.u64(1..=4);
        }
        let journal = rare.as_ref().map_or(journal, |r| r.journal);
        if let Some(rare) = &mut rare {
            rare.set(&mut config);
        }
        // Hosts that are their own controllers know nothing of the disks' journals.
        let max_chunk = config.max_chunk.min(journal * SECTOR / 4);
        config.max_chunk = max_chunk;
        let column_bytes = match wide_rng.as_mut() {
            Some(r) => unit * r.u64(2..=8),
            None => EXTENT_COLUMN_BYTES,
        };
        // Volumes as wide as the array had one extent when older seeds were drawn.
        let column_bytes = match &operator {
            _ if hosted > 1 => unit * 3,
            Some(op) => op.column_bytes,
            None if geometry.layout.width() == nodes => ONE_EXTENT,
            None => column_bytes,
        };
        let slot = if options.slots { draw_slot(seed) } else { 0 };
        let thin = options.thin && slot > 0 && policy.is_journaled() && draw_thin(seed);
        let mut volume = None;
        let volumes = |data| {
            let mut disks = Place::apart(&vec![data; first * usize::from(hosted)]);
            for (n, disk) in disks.iter_mut().enumerate() {
                let process = n / usize::from(hosted);
                (disk.domain, disk.in_box) = (process, process);
            }
            let extents = match thin {
                true => {
                    place_thin(thin_space(VOLUME), &geometry, 0..stripes, &disks, &[], column_bytes)
                }
                false => place_volume(&geometry, size, &disks, &[], column_bytes),
            };
            let extents = extents.expect("a volume that fits");
            let made =
                Volume { policy, ..Volume::new(VOLUME, "v", size, &spec, geometry, extents) };
            volume = Some(made.clone());
            vec![made]
        };
        let sizes = Sizes { sectors: 1200, journal, slot };
        let mut world = match &members {
            Some(m) => World::of_processes(
                seed,
                Crew { nodes, hosted, attached, later, added },
                sizes,
                config,
                m.config,
                volumes,
            ),
            None => World::of_sizes(seed, nodes, sizes, config, volumes),
        };
        if options.slots && slot == 0 {
            world.let_new_disks_have_slots(draw_slot_of_new(seed));
        }
        world.story_length = story;
        if rare.is_some() {
            world.tear_superblocks();
        }
        if Rng::with_seed(seed ^ 0x0000_07ea_2512).u8(0..3) == 0 {
            world.tear_in_power_cuts(seed ^ 0x0000_7ea2_5120);
        }
        let can_forge =
            policy.controller.is_some() || policy.calculated_at == Some(CalculatedAt::Tree);
        if can_forge && Rng::with_seed(seed ^ 0x00f0_4635).u8(0..3) == 0 {
            world.let_a_node_forge(seed);
        }
        if Rng::with_seed(seed ^ 0x000c_10c5_5e70).u8(0..4) == 0 {
            world.let_clocks_change();
        }
        let clients: Vec<Client> = (0..rng.usize(2..=hosts))
            .map(|n| NodeId((n % world.size()) as u16))
            .map(Client::new)
            .collect();
        let places = options.places.then(|| Places::draw(seed, policy.ordering, clients.len()));
        let places = places.flatten();
        // Where clocks keep to no bound, a node that is cut off may answer for a while.
        let tame = members.as_ref().is_none_or(|m| !m.wild) && places.is_none();
        let reserving = tame.then(|| Reserving::draw(seed, clients.len(), options.reserves));
        Run {
            world,
            volume: volume.expect("made above"),
            options,
            rng,
            later_rng: Rng::with_seed(seed ^ 0x0001_a7e4),
            move_rng: Rng::with_seed(seed ^ 0x0003_0f3e),
            suspect_rng: suspects::rng(seed, redundancy.is_some()),
            form_rng: Rng::with_seed(seed ^ 0x000f_0235),
            range_rng: redundancy.filter(|_| options.ranges).and_then(|_| ranges::rng(seed)),
            choice_rng: options.choices.then(|| choices::rng(seed)).flatten(),
            giving_up: GivingUp::draw(seed, &options),
            refusal_rng: Rng::with_seed(seed ^ 0x0ef5_5a15),
            hang_rng: Rng::with_seed(seed ^ 0x0000_a4a6),
            start_rng: Rng::with_seed(seed ^ 0x0005_7a47),
            full: Full::draw(seed),
            error_rng: erring::rng(seed, options.faults.errors),
            slow_disks: options.takes_out.then(|| SlowDisks::draw(seed)),
            relapses,
            damage_rng: Rng::with_seed(seed ^ 0x0da3_a6e0_d15c),
            wide_rng,
            repeating: repeating.filter(|_| places.is_none()),
            again: (0, 0),
            operator,
            exposes: redundancy.is_some(),
            bounds: Bounds::default(),
            lacks: false,
            loses: false,
            leaving: false,
            beyond: false,
            max_chunk,
            clients,
            places,
            reserving: reserving.flatten(),
            lulls: options.lulls.then(|| Lulls::draw(seed)).flatten(),
            members,
            rare,
            healing: 0,
            heard: Heard::default(),
            ops: BTreeMap::new(),
            next_op: 1,
            to_issue: 0,
            faults: Vec::new(),
            pending_faults: 0,
            crashes: 0,
            error: None,
            unreadable: BTreeSet::new(),
            losses: None,
            scrub: None,
        }
    }
}

/// With a sequencer in one of six seeds. Of the others by timestamps in half, which makes the same
/// runs of them as when there was no other ordering.
fn draw_ordering(seed: u64) -> Ordering {
    if Rng::with_seed(seed ^ 0x0005_e90e_4ce5).u8(0..6) == 0 {
        return Ordering::Sequencer;
    }
    let mut rng = Rng::with_seed(seed ^ 0x0000_06de_5000);
    let others = [Ordering::DeviceLocks, Ordering::LockServer, Ordering::CallbackLocks];
    match rng.bool() {
        true => Ordering::Timestamps,
        false => others[rng.usize(0..others.len())],
    }
}

/// In half of the runs locks last hardly longer than a request takes.
fn draw_lease(seed: u64, latest: Latest) -> Nanos {
    let mut rng = Rng::with_seed(seed ^ 0x0001_ea5e_0510);
    match latest >= Latest::ShortLeases && rng.bool() {
        true => rng.u64(1..=40) * MILLIS,
        false => 500 * MILLIS,
    }
}

/// In one run of eight, a code whose parities cover different data.
fn draw_local(seed: u64) -> Option<&'static str> {
    let mut rng = Rng::with_seed(seed ^ 0x0010_ca15);
    let layouts = ["lrc:4+2+1", "lrc:4+2+1", "lrc:4+2+2", "lrc:4+2+0"];
    (rng.u8(0..8) == 0).then(|| layouts[rng.usize(0..layouts.len())])
}

/// In one run of sixteen, data with parities that cover it twice and more.
fn draw_grid(seed: u64) -> Option<&'static str> {
    let mut rng = Rng::with_seed(seed ^ 0x0096_1d2e);
    (rng.u8(0..16) == 0).then_some("grid:2x2")
}

/// In one run of 64, columns that may hold two units: there are many, so it takes longer than others.
fn draw_drnet(seed: u64) -> Option<&'static str> {
    let mut rng = Rng::with_seed(seed ^ 0x00d4_2e70);
    (rng.u8(0..64) == 0).then_some("drnet")
}

/// Limited atomicity in one of eight seeds.
fn draw_commit(seed: u64) -> Commit {
    match Rng::with_seed(seed ^ 0x0011_3173_d000).u8(0..8) {
        0 => Commit::Limited,
        _ => Commit::Late,
    }
}

/// A controller coordinates in one of six seeds.
fn draw_controller(seed: u64) -> Option<Roles> {
    let mut rng = Rng::with_seed(seed ^ 0x00c0_4712_011e);
    (rng.u8(0..6) == 0).then(|| if rng.bool() { Roles::Central } else { Roles::Controller })
}

/// Among how many nodes the locks of a lock server are divided.
fn draw_lock_servers(seed: u64) -> usize {
    [1, 1, 2, 3][Rng::with_seed(seed ^ 0x0010_c5e2).usize(0..4)]
}

/// Sectors of a slot: so few that whole slots are written often, and parts of slots, too.
fn draw_slot(seed: u64) -> u64 {
    [0, 1, 1, 2, 2, 4][Rng::with_seed(seed ^ 0x510_7512e).usize(0..6)]
}

/// The same of empty disks that take the places of disks without slots, if they have any.
fn draw_slot_of_new(seed: u64) -> u64 {
    [0, 1, 2, 4][Rng::with_seed(seed ^ 0x510_71e3).usize(0..4)]
}

/// In a third of the seeds that can have it the volume is thin.
fn draw_thin(seed: u64) -> bool {
    Rng::with_seed(seed ^ 0x0007_4147).u8(0..3) == 0
}

/// In half of the seeds what free slots hold is discarded.
fn draw_discards(seed: u64) -> Option<u32> {
    let mut rng = Rng::with_seed(seed ^ 0xd15_ca4d);
    rng.bool().then(|| rng.u32(1..4))
}

/// In half of the seeds hosts' reads go round slow nodes.
fn draw_detours(seed: u64) -> Option<u64> {
    let mut rng = Rng::with_seed(seed ^ 0x0000_de70);
    rng.bool().then(|| rng.u64(1..8))
}

/// With a controller in one of four seeds each block has its command.
fn draw_commands(seed: u64) -> Commands {
    match Rng::with_seed(seed ^ 0x00c0_b10c_0001).u8(0..4) {
        0 => Commands::Block,
        _ => Commands::Column,
    }
}

/// In one of four seeds parity may wait.
fn draw_redundancy(seed: u64, parities: usize, waits: Option<bool>) -> Option<Redundancy> {
    let mut rng = Rng::with_seed(seed ^ 0x000a_f4a1_d000);
    let drawn = rng.u8(0..4) == 0;
    if !waits.unwrap_or(drawn) {
        return None;
    }
    let timing = if rng.u8(0..6) == 0 { Timing::Never } else { Timing::Deferred };
    let bounds = [SECTOR, 16 * SECTOR, 256 * SECTOR, Redundancy::UNBOUNDED];
    let times = [MILLIS, 20 * MILLIS, 500 * MILLIS, Redundancy::UNBOUNDED];
    let mut other = Rng::with_seed(seed ^ 0x000a_f4a1_d001);
    let stripes = [1, 4, Redundancy::UNBOUNDED, Redundancy::UNBOUNDED];
    // Later still. These allow some per cent of the time to some disks, and all of it to others.
    let mut later = Rng::with_seed(seed ^ 0x000a_f4a1_d002);
    let targets = [Redundancy::UNBOUNDED, Redundancy::UNBOUNDED, 500_000, 3_000_000];
    let refreshes = [Refresh::Idle, Refresh::Idle, Refresh::Busy, Refresh::First];
    Some(Redundancy {
        timing,
        immediate_parities: rng.usize(0..parities.max(1)) as u8,
        refresh: refreshes[rng.usize(0..refreshes.len())],
        idle: rng.u64(1..=20) * MILLIS,
        exposed_bytes: bounds[rng.usize(0..bounds.len())],
        exposed_for: times[rng.usize(0..times.len())],
        // Later than the others.
        exposed_stripes: stripes[other.usize(0..stripes.len())],
        mttdl: targets[later.usize(0..targets.len())],
        start: if later.u8(0..8) == 0 { Start::Conservative } else { Start::Eager },
        disk_mttf: Redundancy::DISK_MTTF,
        flush: if other.u8(0..3) == 0 { Flush::Redundant } else { Flush::Durable },
    })
}

/// Has small writes copied: where `copies` says, or else in half of the seeds, if they can be.
fn copy_writes(seed: u64, options: &Options, may_wait: bool, policy: &mut Policy) {
    let copies = options.copies;
    if copies == Some(true) && policy.commit == Commit::Late {
        Setting::Roles(Roles::Node).apply(policy);
        (policy.ordering, policy.journal) = (Ordering::Timestamps, true);
        policy.redundancy = Redundancy::default();
    }
    let may_copy = policy.redundancy.timing == Timing::Immediate
        && may_wait
        && policy.is_journaled()
        && policy.ordering == Ordering::Timestamps
        && policy.roles() == Roles::Node;
    if may_copy && copies.unwrap_or_else(|| draw_copies(seed)) {
        policy.redundancy.timing = Timing::Copied;
        if options.latest >= Latest::IdleTimes {
            policy.redundancy.idle = draw_idle(seed, policy.redundancy.idle);
        }
    }
}

/// For how long a disk is idle before it folds copies: the usual time in one of three runs.
fn draw_idle(seed: u64, usual: Nanos) -> Nanos {
    let mut rng = Rng::with_seed(seed ^ 0x0001_d1e0_f01d);
    if rng.u8(0..3) == 0 { usual } else { rng.u64(1..=20) * MILLIS }
}

fn draw_copies(seed: u64) -> bool {
    Rng::with_seed(seed ^ 0x000c_0b1e_d000).bool()
}

/// Requests wait for lost nodes in one of four seeds: for a while, or until they are back.
fn draw_lost_wait(seed: u64) -> Nanos {
    let mut rng = Rng::with_seed(seed ^ 0x0010_5700_a170);
    match rng.u8(0..8) {
        0 => rng.u64(1..=40) * MILLIS,
        1 => Policy::FOREVER,
        _ => 0,
    }
}

/// Columns compute for one another in one of three seeds.
fn draw_columns(seed: u64) -> Option<CalculatedAt> {
    match Rng::with_seed(seed ^ 0x0000_ca1c_01a7).u8(0..6) {
        0 => Some(CalculatedAt::Balanced),
        1 => Some(CalculatedAt::Tree),
        _ => None,
    }
}

/// `other` is for what was not always drawn.
fn draw_policy(rng: &mut Rng, other: &mut Rng) -> Policy {
    let strategies = [None, None, None, Some(Preference::Small), Some(Preference::Large)];
    let places = [
        None,
        None,
        None,
        Some(CalculatedAt::Originator),
        Some(CalculatedAt::Solely),
        Some(CalculatedAt::Parity),
    ];
    Policy {
        strategy: strategies[rng.usize(0..strategies.len())],
        calculated_at: places[rng.usize(0..places.len())],
        dispatch: match other.u8(0..6) {
            0 => Dispatch::Commanded,
            _ => Dispatch::Collaborative,
        },
        ..Policy::default()
    }
}
