//! `weft.toml`: what an array is and the cluster map in force, for people to read.
//!
//! It has a checksum, of the whole text without the line that holds it, and a version that grows with each
//! time that it is written. So a change by a digit is found, and of several copies one knows which is the newest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_bytes::checksum;

use serde::{Deserialize, Serialize};
use weft_core::cluster::{
    Access, Attendance, Certificate, ClusterMap, ClusterSetting, Deletion, Extent, KnownHost,
    Lineage, NodeInfo, PolicyRange, SealedSecret, Settings, Snapshot, TimeAway, Volume,
};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::policy::{Dispatch, Every, Policy};
use weft_core::store::Reached;
use weft_core::units::{MILLIS, Nanos, NodeId, Timestamp, VolumeId};

use crate::disk::options::DiskOptions;
use crate::error::{Error, Result, fail};
use crate::hex::{hex, unhex};
use crate::policy::PolicyEntry;
use crate::size::require_multiple;
use crate::state::extents::{self, Alike, Extents};
use crate::state::imports::{self, ImportEntry};
use crate::state::reservations::{self, ReservationsEntry};
use crate::volumes::Volumes;

/// The version of the file (and of the directory) that this program writes and reads.
pub(crate) const FORMAT: i64 = 4;

/// The one before, in which every volume's extents are written out.
const WRITTEN_OUT: i64 = 3;

const SECOND: Nanos = 1000 * MILLIS;

/// How the line begins that holds the checksum.
const CHECKSUM: &str = "checksum = ";

/// The file's content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// Grows with each time that the content is written; 0 if it never was.
    pub(crate) version: u64,
    pub(crate) cluster: u128,
    pub(crate) disk_size: u64,
    /// How the disks are worked.
    pub(crate) disk_options: DiskOptions,
    pub(crate) map: ClusterMap,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: i64,
    version: u64,
    cluster: String,
    nodes: usize,
    disk_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue_depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preallocate: Option<bool>,
    next_volume: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    room_used: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    rebalancing: bool,
    /// Seconds after which a node that is down is given up; open for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    give_up_after: Option<u64>,
    /// Rates at which disks are filled, as an operator says them; those that are chosen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rates: BTreeMap<String, String>,
    epoch: u64,
    /// The hosts that are known, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hosts: BTreeMap<String, HostEntry>,
    #[serde(default)]
    node: Vec<Node>,
    #[serde(default)]
    volume: Vec<VolumeEntry>,
}

/// A host that is known.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    /// The digest of the public key of its newest certificate, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Seconds since 1970 until which the certificate is good.
    #[serde(default, skip_serializing_if = "is_zero")]
    until: u64,
    /// The same of its earlier certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<(String, u64)>,
    /// Its sealed CHAP secret, in hexadecimal, and the number of the key that it is sealed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    secret_key: u64,
    /// There is a second secret, by which the target proves itself.
    #[serde(default, skip_serializing_if = "is_false")]
    mutual: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    up: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    given_up: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    draining: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    suspect: bool,
    /// Its disk's incarnation; open before it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
    /// Data sectors of its disk.
    #[serde(default, skip_serializing_if = "is_zero")]
    sectors: u64,
    /// How far its disk had got: epoch, journal frame, superblock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reached: Option<[u64; 3]>,
}

fn is_false(b: &bool) -> bool {
    !*b
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A column that is being filled.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filling {
    extent: usize,
    column: usize,
    from: String,
    /// The node from which it is copied, and the first data sector there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leaving: Option<(u16, u64)>,
}

/// What a volume's nodes have missed; the nodes by their numbers.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct AttendanceEntry {
    away: BTreeSet<u16>,
    stale_since: BTreeMap<String, String>,
    counts_from: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    forgot: BTreeSet<u16>,
    /// When they were away: from and, if they are back, until.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    times_away: BTreeMap<String, Vec<Vec<String>>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeEntry {
    id: u32,
    name: String,
    size: u64,
    layout: String,
    stripe_unit: u64,
    journal: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    commanded: bool,
    /// Open if it is as in most volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyEntry>,
    /// Several hosts may write to it though nothing orders their requests.
    #[serde(default, skip_serializing_if = "is_false")]
    unordered_sharing: bool,
    /// Open if hosts see all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visible: Option<u64>,
    /// Seconds since 1970 when it was deleted; open if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attendance: Option<AttendanceEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extents: Extents,
    /// Open if they are written out here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extents_of: Option<Alike>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filling: Vec<Filling>,
    /// Ranges with a redundancy of their own: first stripe, the one after the last, and what is not usual in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<(u64, u64, PolicyEntry)>,
    /// The hosts that may use it, and whether they may write; open if all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hosts: Option<BTreeMap<String, bool>>,
    /// Open if no host has registered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservations: Option<ReservationsEntry>,
    /// The volume that it lies over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    below: Option<u32>,
    /// Of a snapshot its volume, and when it was taken, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<(u32, u64)>,
    /// Of an imported snapshot the one that it is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// What it will be when its content has been imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    import: Option<ImportEntry>,
    /// If a schedule had it taken: which part of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheduled: Option<String>,
    /// Whether its disks copy what it shows of others.
    #[serde(default, skip_serializing_if = "is_false")]
    flattens: bool,
}

/// The file's text.
pub(crate) fn write(content: &Content) -> Result<String> {
    let map = &content.map;
    let (queue, queue_depth) = content.disk_options.queue.words();
    let mut written = Vec::new();
    let file = File {
        format: FORMAT,
        version: content.version,
        cluster: format!("{:032x}", content.cluster),
        nodes: map.nodes.len(),
        disk_size: content.disk_size,
        queue,
        queue_depth,
        preallocate: content.disk_options.preallocate.then_some(true),
        next_volume: map.next_volume,
        room_used: map.room_used,
        rebalancing: map.rebalancing,
        give_up_after: map.settings.give_up_after.map(|after| after / SECOND),
        rates: map.settings.chosen_rates().map(|(key, word)| (key.to_string(), word)).collect(),
        epoch: map.epoch,
        hosts: map.hosts.iter().map(|(name, host)| (name.clone(), host_entry(host))).collect(),
        node: map.nodes.iter().map(node_entry).collect(),
        volume: map.volumes.values().map(|v| volume_entry(v, map, &mut written)).collect(),
    };
    let text = toml::to_string(&file).map_err(|e| Error(format!("cannot write the state: {e}")))?;
    Ok(sealed(&format!("{HEADLINE}\n{text}")))
}

const HEADLINE: &str =
    "# The state of a Weft array. Do not edit: the checksum would no longer match.";

/// The text with its checksum, in a line of its own after the first one.
pub(crate) fn sealed(text: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!("{first}\n{CHECKSUM}\"{:08x}\"\n{rest}", checksum::crc32c(text.as_bytes()))
}

/// Whether a text is as it was sealed; nothing if it has no checksum.
fn is_whole(text: &str) -> Option<bool> {
    text.lines().find(|line| line.starts_with(CHECKSUM))?;
    let without = text.split_inclusive('\n').filter(|line| !line.starts_with(CHECKSUM));
    Some(sealed(&without.collect::<String>()) == text)
}

/// Whether a text has a checksum that fits: then it is what some program wrote, perhaps another version's.
pub(crate) fn is_sealed(text: &str) -> bool {
    is_whole(text) == Some(true)
}

/// The version that a text names, whatever is wrong with it otherwise.
pub(crate) fn version_named(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("version = ")?.trim().parse().ok())
}

fn host_entry(host: &KnownHost) -> HostEntry {
    let (newest, secret) = (host.newest(), host.secret.as_ref());
    let key = |certificate: &Certificate| format!("{:032x}", certificate.key);
    let earlier = host.certificates.iter().filter(|one| Some(**one) != newest);
    HostEntry {
        key: newest.as_ref().map(key),
        until: newest.map_or(0, |certificate| certificate.until),
        earlier: earlier.map(|one| (key(one), one.until)).collect(),
        secret: secret.map(|sealed| hex(&sealed.bytes)),
        // Numbers of TOML have 63 bits.
        secret_key: secret.map_or(0, |sealed| sealed.key),
        mutual: secret.is_some_and(|sealed| sealed.mutual),
    }
}

fn known_host(entry: &HostEntry) -> Result<KnownHost> {
    let certificate = |(text, until): (&String, u64)| -> Result<Certificate> {
        let key = u128::from_str_radix(text, 16)
            .map_err(|_| Error(format!("key '{text}' is not a hexadecimal number")))?;
        Ok(Certificate { key, until })
    };
    let earlier = entry.earlier.iter().map(|(text, until)| (text, *until));
    let all = earlier.chain(entry.key.iter().map(|text| (text, entry.until)));
    let sealed = |text: &String| match unhex(text) {
        Some(bytes) => Ok(SealedSecret { key: entry.secret_key, mutual: entry.mutual, bytes }),
        None => fail("the secret of a host is not in hexadecimal"),
    };
    Ok(KnownHost {
        certificates: all.map(certificate).collect::<Result<_>>()?,
        secret: entry.secret.as_ref().map(sealed).transpose()?,
    })
}

fn access(writes: bool) -> Access {
    if writes { Access::Full } else { Access::ReadOnly }
}

fn node_entry(info: &NodeInfo) -> Node {
    Node {
        up: info.up,
        given_up: info.given_up,
        draining: info.draining,
        suspect: info.suspect,
        disk: (info.disk != 0).then(|| format!("{:016x}", info.disk)),
        sectors: info.sectors,
        reached: (info.reached.disk != 0).then_some([
            info.reached.life,
            info.reached.frame,
            info.reached.sequence,
        ]),
    }
}

fn node_info(entry: &Node) -> Result<NodeInfo> {
    let text = entry.disk.as_deref().unwrap_or("0");
    let disk = u64::from_str_radix(text, 16)
        .map_err(|_| Error(format!("disk '{text}' is not a hexadecimal number")))?;
    let Node { up, given_up, draining, suspect, sectors, .. } = *entry;
    let of = |[life, frame, sequence]: [u64; 3]| Reached { disk, life, frame, sequence };
    let reached = entry.reached.map(of).unwrap_or_default();
    Ok(NodeInfo { up, given_up, draining, suspect, reached, ..NodeInfo::new(disk, sectors) })
}

fn filling_entries(v: &Volume) -> Vec<Filling> {
    let of = |(n, e): (usize, &Extent)| {
        let entry = move |(column, from): (&usize, &Timestamp)| Filling {
            extent: n,
            column: *column,
            from: from.to_string(),
            leaving: e.leaving.get(column).map(|l| (l.0.0, l.1)),
        };
        e.filling.iter().map(entry).collect::<Vec<_>>()
    };
    v.extents.iter().enumerate().flat_map(of).collect()
}

fn attendance_entry(a: &Attendance) -> AttendanceEntry {
    let times = |of: &BTreeMap<NodeId, Timestamp>| {
        of.iter().map(|(n, t)| (n.0.to_string(), t.to_string())).collect()
    };
    let away = |times: &Vec<TimeAway>| {
        let ends = |t: &TimeAway| [Some(t.from), t.until].into_iter().flatten();
        times.iter().map(|t| ends(t).map(|t| t.to_string()).collect()).collect()
    };
    AttendanceEntry {
        away: a.away.iter().map(|n| n.0).collect(),
        stale_since: times(&a.stale_since),
        counts_from: times(&a.counts_from),
        forgot: a.forgot.iter().map(|n| n.0).collect(),
        times_away: a.times_away.iter().map(|(n, t)| (n.0.to_string(), away(t))).collect(),
    }
}

fn range_entry(range: &PolicyRange) -> (u64, u64, PolicyEntry) {
    let policy = Policy { redundancy: range.redundancy, ..Policy::default() };
    (range.first, range.end, PolicyEntry::of(&policy).unwrap_or_default())
}

fn volume_entry<'a>(v: &'a Volume, map: &ClusterMap, written: &mut Vec<&'a Volume>) -> VolumeEntry {
    let (extents, extents_of) = extents::entry(v, written);
    VolumeEntry {
        id: v.id.0,
        name: v.name.clone(),
        size: v.size,
        layout: v.layout.clone(),
        stripe_unit: v.geometry.unit,
        journal: v.policy.journal,
        commanded: v.policy.dispatch == Dispatch::Commanded,
        policy: PolicyEntry::of(&v.policy),
        unordered_sharing: v.unordered_sharing,
        visible: (v.visible < v.size).then_some(v.visible),
        deleted: v.deletion.since,
        attendance: map.attendance.get(&v.id).map(attendance_entry),
        extents,
        extents_of,
        filling: filling_entries(v),
        ranges: v.ranges.iter().map(range_entry).collect(),
        hosts: v
            .hosts
            .as_ref()
            .map(|list| list.iter().map(|(name, a)| (name.clone(), *a == Access::Full)).collect()),
        reservations: reservations::entry(&v.reservations),
        below: v.lineage.below.map(|below| below.0),
        snapshot: v.lineage.snapshot.map(|s| (s.of.0, s.taken)),
        source: v.lineage.snapshot.and_then(|s| s.source).map(|s| s.to_string()),
        import: v.import.as_ref().map(ImportEntry::of),
        scheduled: v.lineage.snapshot.and_then(|s| s.scheduled).map(|every| every.word().into()),
        flattens: v.lineage.flattens,
    }
}

/// Reads the file's text. The checksum is looked at first, then the format, so that a file of another version
/// is called that and not nonsense.
pub(crate) fn read(text: &str) -> Result<Content> {
    let whole = is_whole(text);
    if whole == Some(false) {
        return fail("its checksum does not match: it is damaged, or has been edited");
    }
    let table: toml::Table = text.parse().map_err(|e| Error(format!("it is not TOML: {e}")))?;
    match table.get("format").and_then(toml::Value::as_integer) {
        Some(FORMAT | WRITTEN_OUT) if whole.is_none() => {
            return fail("its checksum is missing: it is damaged");
        }
        Some(FORMAT | WRITTEN_OUT) => {}
        Some(other) => {
            return fail(format!(
                "it has format version {other}, and this program reads versions {WRITTEN_OUT} and {FORMAT}; use the program that wrote it"
            ));
        }
        None => return fail("it has no format version, so it is not a Weft state file"),
    }
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with(CHECKSUM))
        .fold(String::new(), |text, line| text + line + "\n");
    let file: File = toml::from_str(&without).map_err(|e| Error(e.to_string()))?;
    if file.node.len() != file.nodes {
        return fail(format!("it declares {} nodes but lists {}", file.nodes, file.node.len()));
    }
    let nodes = file.node.iter().map(node_info).collect::<Result<_>>()?;
    let mut volumes = Volumes::new();
    let mut attendances = BTreeMap::new();
    let mut read = extents::Read::default();
    for mut entry in file.volume {
        entry.extents =
            read.next(entry.id, std::mem::take(&mut entry.extents), entry.extents_of)?;
        if let Some(entry_of) = entry.attendance.take() {
            attendances.insert(VolumeId(entry.id), attendance(&entry_of, file.nodes)?);
        }
        let volume = volume(entry, file.nodes)?;
        volumes.insert(volume.id, Arc::new(volume));
    }
    let cluster = u128::from_str_radix(&file.cluster, 16)
        .map_err(|_| Error(format!("cluster '{}' is not a hexadecimal number", file.cluster)))?;
    let map = ClusterMap {
        epoch: file.epoch,
        nodes,
        volumes,
        next_volume: file.next_volume,
        room_used: file.room_used,
        rebalancing: file.rebalancing,
        attendance: attendances,
        settings: settings(file.give_up_after, &file.rates)?,
        hosts: file
            .hosts
            .iter()
            .map(|(name, entry)| Ok((name.clone(), known_host(entry)?)))
            .collect::<Result<_>>()?,
    };
    map.check().map_err(Error)?;
    let disk_options = DiskOptions::read(&file.queue, file.queue_depth, file.preallocate)?;
    Ok(Content { version: file.version, cluster, disk_size: file.disk_size, disk_options, map })
}

fn settings(give_up_after: Option<u64>, rates: &BTreeMap<String, String>) -> Result<Settings> {
    let give_up_after = give_up_after.map(|after| after.saturating_mul(SECOND));
    let mut settings = Settings { give_up_after, ..Settings::default() };
    for (key, word) in rates {
        let setting = ClusterSetting::parse(key, word).map_err(|e| Error(e.to_string()))?;
        settings.set(setting);
    }
    Ok(settings)
}

fn attendance(entry: &AttendanceEntry, nodes: usize) -> Result<Attendance> {
    let node = |text: &str| match text.parse() {
        Ok(n) if usize::from(n) < nodes => Ok(NodeId(n)),
        _ => fail(format!("there is no node '{text}'; choose from {nodes}")),
    };
    let times = |of: &BTreeMap<String, String>| {
        of.iter().map(|(n, t)| Ok((node(n)?, timestamp(t)?))).collect::<Result<_>>()
    };
    Ok(Attendance {
        away: entry.away.iter().map(|n| node(&n.to_string())).collect::<Result<_>>()?,
        stale_since: times(&entry.stale_since)?,
        counts_from: times(&entry.counts_from)?,
        forgot: entry.forgot.iter().map(|n| node(&n.to_string())).collect::<Result<_>>()?,
        times_away: {
            let of = |(n, t): (&String, &Vec<Vec<String>>)| {
                Ok((node(n)?, t.iter().map(|t| time_away(t)).collect::<Result<_>>()?))
            };
            entry.times_away.iter().map(of).collect::<Result<_>>()?
        },
    })
}

fn time_away(text: &[String]) -> Result<TimeAway> {
    match text {
        [from] => Ok(TimeAway { from: timestamp(from)?, until: None }),
        [from, until] => Ok(TimeAway { from: timestamp(from)?, until: Some(timestamp(until)?) }),
        _ => fail("an absence of a node has a start, and possibly an end".to_string()),
    }
}

fn timestamp(text: &str) -> Result<Timestamp> {
    let parts = text.split_once('.');
    let numbers = parts.and_then(|(m, n)| Some((m.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((micros, node)) if micros < 1 << 52 && node < 4096 => {
            Ok(Timestamp::new(micros, NodeId(node)))
        }
        _ => fail(format!("'{text}' is not a timestamp (microseconds.node)")),
    }
}

fn volume(entry: VolumeEntry, nodes: usize) -> Result<Volume> {
    let spec: LayoutSpec = entry.layout.parse().map_err(|e| Error(format!("{e}")))?;
    // RAID 0, 4, 5 and 6 are as wide as there were nodes when they were made.
    let width = entry.extents.first().map_or(nodes, |e| e.1.len());
    let layout = spec.over(width).map_err(|e| Error(e.to_string()))?;
    require_multiple("a stripe unit", entry.stripe_unit, weft_core::SECTOR)?;
    let geometry = Geometry::new(layout, entry.stripe_unit);
    let fits = |(_, columns): &(u64, Vec<(u16, u64)>)| {
        columns.len() == layout.width() && columns.iter().all(|c| usize::from(c.0) < nodes)
    };
    let stripes = entry.size.div_ceil(geometry.stripe_bytes());
    let ends = entry.extents.iter().skip(1).map(|e| e.0).chain([stripes]);
    let extents_fit = entry.extents.first().is_some_and(|e| e.0 == 0)
        && entry.extents.iter().zip(ends).all(|(e, end)| e.0 < end);
    if !extents_fit || !entry.extents.iter().all(fits) {
        return fail(format!(
            "the extents of volume '{}' do not match its size and layout",
            entry.name
        ));
    }
    let extent = |(first, columns): (u64, Vec<(u16, u64)>)| {
        Extent::new(first, columns.into_iter().map(|(n, sector)| (NodeId(n), sector)).collect())
    };
    let mut extents: Vec<Extent> = entry.extents.into_iter().map(extent).collect();
    for Filling { extent, column, from, leaving } in entry.filling {
        let Some(extent) = extents.get_mut(extent).filter(|e| column < e.columns.len()) else {
            return fail(format!("volume '{}' has no such column to rebuild", entry.name));
        };
        extent.filling.insert(column, timestamp(&from)?);
        if let Some((node, sector)) = leaving.filter(|l| usize::from(l.0) < nodes) {
            extent.leaving.insert(column, (NodeId(node), sector));
        }
    }
    let mut ranges = Vec::with_capacity(entry.ranges.len());
    for (first, end, policy) in entry.ranges {
        let begins = ranges.last().map_or(0, |before: &PolicyRange| before.end);
        if first < begins || end <= first || end > stripes {
            return fail(format!("the ranges of volume '{}' do not match its size", entry.name));
        }
        let redundancy = policy.policy(true, false)?.redundancy;
        ranges.push(PolicyRange { first, end, redundancy });
    }
    let source = entry.source.map(|text| imports::source(&text)).transpose()?;
    let scheduled = match &entry.scheduled {
        None => None,
        Some(word) => Some(Every::named(word).ok_or_else(|| {
            Error(format!("'{word}' is not a kind of scheduled snapshot of '{}'", entry.name))
        })?),
    };
    Ok(Volume {
        ranges,
        reservations: reservations::reservations(entry.reservations)?,
        lineage: Lineage {
            below: entry.below.map(VolumeId),
            snapshot: entry.snapshot.map(|(of, taken)| Snapshot {
                of: VolumeId(of),
                taken,
                source,
                scheduled,
            }),
            flattens: entry.flattens,
        },
        import: entry.import.map(ImportEntry::import).transpose()?,
        hosts: entry.hosts.map(|list| list.into_iter().map(|(n, w)| (n, access(w))).collect()),
        policy: entry.policy.unwrap_or_default().policy(entry.journal, entry.commanded)?,
        visible: entry.visible.unwrap_or(entry.size),
        deletion: Deletion { since: entry.deleted },
        unordered_sharing: entry.unordered_sharing,
        ..Volume::new(VolumeId(entry.id), &entry.name, entry.size, &spec, geometry, extents)
    })
}
