//! What parity that waits has exposed so far on the disks of this process, kept over restarts.
//!
//! A disk counts while its node runs. What it has counted is written to a file in the directory every minute, and soon after a node stops.
//! A node that starts on the same disk counts on from there. After a crash up to a minute is missing, of the time and
//! of the exposure in it alike. Nothing else depends on the file: if it is damaged, counting restarts.
//!
//! A thread of its own writes the file, since the directory's file system may not answer. Only the end of the process waits for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use weft_core::cluster::{Area, ClusterMap, Volume};
use weft_core::node::{Exposed, Node};
use weft_core::units::{MILLIS, Nanos, NodeId, VolumeId};

use super::{Engine, Seat};
use crate::durable;
use crate::error::{Error, Result, at};

const FILE: &str = "exposed.toml";
const SPARE: &str = "exposed.toml.new";

/// The version of the file. The first had no ranges, and is read.
const FORMAT: i64 = 2;

/// How often it is written.
const EVERY: Nanos = 60_000 * MILLIS;

/// A volume as a whole, or a range of it.
type Counted = (VolumeId, Area);

/// A node, the incarnation of its disk, and what of it is counted.
type Key = (NodeId, u64, Counted);

/// The measurements so far, and their file.
pub(super) struct Measures {
    dir: PathBuf,
    known: BTreeMap<Key, Exposed>,
    /// The known content of the file.
    written: String,
    next: Nanos,
    /// Writes it while nodes go on.
    writer: Option<JoinHandle<Result<()>>>,
    /// It has been said that it cannot be written.
    told: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: i64,
    #[serde(default)]
    exposed: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    node: u16,
    disk: String,
    volume: u32,
    /// Of a range, the stripe with which it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_stripe: Option<u64>,
    most_bytes: u64,
    watched_ns: u64,
    unprotected_ns: u64,
    /// Longer than what TOML's numbers hold.
    byte_ns: String,
}

impl Measures {
    /// The content of the file in a directory, and any problem with it.
    pub(super) fn open(dir: &Path) -> (Measures, Option<Error>) {
        let (written, known, problem) = match read(&dir.join(FILE)) {
            Ok((text, known)) => (text, known, None),
            Err(e) => (String::new(), BTreeMap::new(), Some(e)),
        };
        let dir = dir.to_path_buf();
        (Measures { dir, known, written, next: EVERY, writer: None, told: false }, problem)
    }

    /// The measurements of a node's disk.
    fn of(&self, node: NodeId, disk: u64) -> Vec<(Counted, Exposed)> {
        let (first, last) =
            ((VolumeId(0), Area::Whole), (VolumeId(u32::MAX), Area::Range(u64::MAX)));
        let all = self.known.range((node, disk, first)..=(node, disk, last));
        all.map(|(key, exposed)| (key.2, *exposed)).collect()
    }

    /// Takes what a node has counted by now.
    fn take(&mut self, node: &Node) {
        let whole = node.exposed().map(|(volume, exposed)| ((volume, Area::Whole), exposed));
        let areas = node.exposed_areas().filter(|((_, area), _)| *area != Area::Rest);
        let measured = whole.chain(areas).filter(|(_, exposed)| exposed.is_measured());
        let key = |counted| (node.id(), node.disk(), counted);
        self.known.extend(measured.map(|(counted, exposed)| (key(counted), exposed)));
    }

    /// Forgets measurements of removed disks, of volumes that no longer have content on them, and of removed ranges.
    fn forget(&mut self, map: &ClusterMap) {
        if map.epoch == 0 {
            return;
        }
        let disk = |node: NodeId| map.nodes.get(usize::from(node.0)).map(|info| info.disk);
        self.known.retain(|(node, of, (volume, area)), _| {
            let is_on = || map.volumes.get(volume).filter(|v| v.nodes().contains(node));
            disk(*node) == Some(*of) && is_on().is_some_and(|v| has(v, *area))
        });
    }

    /// The text that the file is to have, unless it has.
    fn next_text(&mut self) -> Option<String> {
        let text = in_words(&self.known);
        let is_new = match self.known.is_empty() {
            true => !self.written.is_empty() && text != self.written,
            false => text != self.written,
        };
        is_new.then(|| {
            self.written.clone_from(&text);
            text
        })
    }

    /// Waits until the write in progress is done. Says what went wrong, once.
    fn join(&mut self) -> Option<Error> {
        let ended = self.writer.take()?.join();
        self.tell(ended.unwrap_or_else(|_| Err(Error("the thread that writes it panicked".into()))))
    }

    fn tell(&mut self, result: Result<()>) -> Option<Error> {
        let error = result.err()?;
        self.written.clear();
        (!std::mem::replace(&mut self.told, true)).then_some(error)
    }
}

fn read(path: &Path) -> Result<(String, BTreeMap<Key, Exposed>)> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Default::default()),
        text => text.map_err(at("read", path))?,
    };
    let wrong = |why: String| Error(format!("{}: {why}", path.display()));
    let file: File = toml::from_str(&text).map_err(|e| wrong(e.message().to_string()))?;
    if file.format != FORMAT {
        return Err(wrong(format!("it has format {}; this program reads {FORMAT}", file.format)));
    }
    let known = file.exposed.iter().map(measured).collect::<Result<_>>();
    Ok((text, known.map_err(|Error(why)| wrong(why))?))
}

fn measured(entry: &Entry) -> Result<(Key, Exposed)> {
    let Entry { node, disk, volume, most_bytes, watched_ns, unprotected_ns, byte_ns, .. } = entry;
    let disk = u64::from_str_radix(disk, 16)
        .map_err(|_| Error(format!("disk '{disk}' is not a hexadecimal number")))?;
    let byte_time: u128 =
        byte_ns.parse().map_err(|_| Error(format!("byte_ns '{byte_ns}' is not a number")))?;
    let (watched, unprotected) = (*watched_ns, *unprotected_ns);
    let most = u128::from(*most_bytes) * u128::from(unprotected);
    if unprotected > watched || byte_time > most || watched > i64::MAX as u64 {
        return Err(Error(format!("the values of volume {volume} on node {node} are impossible")));
    }
    let exposed =
        Exposed { most_bytes: *most_bytes, watched, unprotected, byte_time, ..Exposed::default() };
    let area = entry.first_stripe.map_or(Area::Whole, Area::Range);
    Ok(((NodeId(*node), disk, (VolumeId(*volume), area)), exposed))
}

/// Whether a volume has such an area.
fn has(volume: &Volume, area: Area) -> bool {
    match area {
        Area::Whole => true,
        Area::Rest => false,
        Area::Range(first) => volume.ranges.iter().any(|range| range.first == first),
    }
}

fn in_words(known: &BTreeMap<Key, Exposed>) -> String {
    let entry = |((node, disk, (volume, area)), e): (&Key, &Exposed)| Entry {
        node: node.0,
        disk: format!("{disk:016x}"),
        volume: volume.0,
        first_stripe: match area {
            Area::Range(first) => Some(*first),
            Area::Whole | Area::Rest => None,
        },
        most_bytes: e.most_bytes,
        watched_ns: e.watched,
        unprotected_ns: e.unprotected,
        byte_ns: e.byte_time.to_string(),
    };
    let file = File { format: FORMAT, exposed: known.iter().map(entry).collect() };
    let text = toml::to_string(&file).expect("plain values");
    format!("# Exposure by deferred parity so far. Do not edit it while the array runs.\n{text}")
}

impl Engine {
    /// A node continues counting from the earlier measurements of its disk.
    pub(super) fn count_on(&mut self, n: usize) {
        let node = |seat: &Seat| seat.node.as_ref().map(|node| (node.id(), node.disk()));
        let Some((id, disk)) = self.seat(n).and_then(node) else { return };
        let before = self.measures.of(id, disk);
        if let Some(node) = self.seat_mut(n).and_then(|seat| seat.node.as_mut()) {
            node.measured_before(before);
        }
    }

    /// Keeps what the nodes here have measured, if it is time.
    pub(super) fn follow_measures(&mut self) {
        let now = self.clock.now();
        if now < self.measures.next
            || self.measures.writer.as_ref().is_some_and(|w| !w.is_finished())
        {
            return;
        }
        self.measures.next = now + EVERY;
        let failed = self.measures.join();
        self.look_at_measures();
        if let Some(text) = self.measures.next_text() {
            let dir = self.measures.dir.clone();
            match thread::Builder::new().spawn(move || write(&dir, &text)) {
                Ok(writer) => self.measures.writer = Some(writer),
                // It is tried again in a minute.
                Err(e) => {
                    let unkept = self.measures.tell(Err(Error(format!("no thread starts: {e}"))));
                    self.say_unkept(unkept);
                }
            }
        }
        self.say_unkept(failed);
    }

    /// Takes what the nodes have counted by now, since one is about to end. The file has it soon.
    pub(super) fn take_measures(&mut self) {
        self.look_at_measures();
        self.measures.next = 0;
    }

    /// Keeps it at once: the process is about to end.
    pub(crate) fn keep_measures(&mut self) {
        let before = self.measures.join();
        self.look_at_measures();
        let now = match self.measures.next_text() {
            Some(text) => {
                let written = write(&self.measures.dir, &text);
                self.measures.tell(written)
            }
            None => None,
        };
        self.say_unkept(before.or(now));
    }

    fn look_at_measures(&mut self) {
        let running = (0..self.instances.len()).filter(|n| self.instances[*n].runs());
        let seats = running.filter_map(|n| self.lanes.seat(n));
        seats.filter_map(|s| s.node.as_ref()).for_each(|node| self.measures.take(node));
        self.measures.forget(self.rule.map());
    }

    fn say_unkept(&self, error: Option<Error>) {
        if let Some(e) = error {
            self.log.warn(&format!("cannot save the exposure by deferred parity: {e}"));
        }
    }
}

fn write(dir: &Path, text: &str) -> Result<()> {
    durable::replace(&dir.join(FILE), &dir.join(SPARE), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(factor: u64) -> Exposed {
        Exposed {
            most_bytes: 8192 * factor,
            watched: 100 * factor,
            unprotected: 40 * factor,
            byte_time: u128::from(u64::MAX) * 3,
            ..Exposed::default()
        }
    }

    fn key(node: u16, disk: u64, volume: u32) -> Key {
        (NodeId(node), disk, (VolumeId(volume), Area::Whole))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut measures, problem) = Measures::open(dir.path());
        assert!(problem.is_none() && measures.next_text().is_none(), "there is nothing to write");
        let one = Exposed { byte_time: 234_567, ..exposed(1) };
        let far =
            Exposed { most_bytes: 1 << 50, watched: 1 << 60, unprotected: 1 << 50, ..exposed(1) };
        measures.known =
            BTreeMap::from([(key(1, 0xfedc_ba98_7654_3210, 2), one), (key(2, 7, 2), far)]);
        let range = (VolumeId(2), Area::Range(1 << 40));
        measures.known.insert((NodeId(2), 7, range), one);
        let text = measures.next_text().unwrap();
        assert!(measures.next_text().is_none(), "it is written once");
        write(dir.path(), &text).unwrap();
        let (again, problem) = Measures::open(dir.path());
        assert!(problem.is_none(), "{problem:?}");
        assert_eq!(again.known, measures.known);
        assert_eq!(again.of(NodeId(2), 7), [((VolumeId(2), Area::Whole), far), (range, one)]);
        assert_eq!(again.of(NodeId(2), 8), [], "that is another disk");
    }

    #[test]
    fn a_damaged_file_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let entry = |disk: &str, watched: u64, byte_ns: &str| {
            format!(
                "format = 2\n[[exposed]]\nnode = 1\ndisk = \"{disk}\"\nvolume = 2\nmost_bytes = 4096\n\
                 watched_ns = {watched}\nunprotected_ns = 5\nbyte_ns = \"{byte_ns}\"\n"
            )
        };
        for (text, says) in [
            ("format = 3\n".to_string(), "format 3"),
            ("fo".to_string(), "exposed.toml"),
            (entry("0x", 9, "7"), "hexadecimal"),
            (entry("07", 9, "many"), "'many' is not a number"),
            (entry("07", 4, "7"), "are impossible"),
            (entry("07", 9, "20481"), "are impossible"),
        ] {
            fs::write(dir.path().join(FILE), text).unwrap();
            let (measures, problem) = Measures::open(dir.path());
            assert!(measures.known.is_empty());
            let said = problem.expect(says).to_string();
            assert!(said.contains(says), "{said}");
        }
        fs::write(dir.path().join(FILE), entry("07", 9, "20480")).unwrap();
        assert!(Measures::open(dir.path()).1.is_none());
    }
}
