//! The state directory: `weft.toml`, the disks `disk-0.img` and so on, the lock
//! `weft.lock`, and the control socket `control.sock`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    CWD, FallocateFlags, FlockOperation, RenameFlags, fallocate, flock, renameat_with,
};
use weft_core::SECTOR;
use weft_core::cluster::{ClusterMap, NodeInfo, Volume};
use weft_core::store::{Store, Superblock};
use weft_core::units::VolumeId;

use crate::disk::Disk;
use crate::error::{Error, Result, at, fail};
use crate::size::Size;
use crate::spec::Spec;
use crate::state_file::{self, Content};
use crate::volumes::{self, NewVolume};

/// Sectors of a disk's journal, on disks that are large enough (64 MiB).
const JOURNAL: u64 = 16384;

const FILE: &str = "weft.toml";

/// The file that the next `weft.toml` is written to.
const SPARE: &str = "weft.toml.new";

/// Room that `weft.toml` may grow by on a file system that is full otherwise.
const GROWTH: u64 = 16 << 10;

/// An open state directory, locked against other processes for as long as it lives.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    _lock: File,
    pub(crate) content: Content,
    /// Names of volumes that were being made when the array last stopped.
    pub(crate) given_up: Vec<String>,
}

impl State {
    /// Opens the array in `dir` and checks it against `spec`; makes it if there is none.
    pub fn open(dir: &Path, spec: &Spec) -> Result<State> {
        if !dir.join(FILE).exists() {
            return State::create(dir, spec);
        }
        let state = State::load(dir)?;
        state.check(spec)?;
        Ok(state)
    }

    /// Makes a new array in `dir`, which is made if need be.
    pub fn create(dir: &Path, spec: &Spec) -> Result<State> {
        spec.validate()?;
        fs::create_dir_all(dir).map_err(at("make the directory", dir))?;
        let lock = lock(dir)?;
        if dir.join(FILE).exists() {
            return fail(format!(
                "there is an array in {} already; open it, or choose another directory",
                dir.display()
            ));
        }
        let content = Content {
            cluster: random(),
            disk_size: spec.disk_size(),
            next_volume: 0,
            clearing: BTreeMap::new(),
            map: ClusterMap {
                epoch: 0,
                nodes: vec![NodeInfo::unseen(); spec.nodes()],
                ..ClusterMap::default()
            },
        };
        let mut state =
            State { dir: dir.to_path_buf(), _lock: lock, content, given_up: Vec::new() };
        for volume in state.first_volumes(spec)? {
            state.content.map.volumes.insert(volume.id, Arc::new(volume));
        }
        state.make_disks().and_then(|()| state.save(&state.content))?;
        Ok(state)
    }

    /// Makes all disks, or leaves none behind.
    fn make_disks(&self) -> Result<()> {
        for node in 0..self.nodes() {
            let was_there = self.disk_path(node).exists();
            if let Err(e) = self.make_disk(node) {
                let made = if was_there { 0..node } else { 0..node + 1 };
                for path in made.map(|n| self.disk_path(n)).filter(|p| p.is_file()) {
                    // The first error is the one to tell.
                    let _ = fs::remove_file(path);
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Opens the array that is in `dir`.
    pub fn load(dir: &Path) -> Result<State> {
        let path = dir.join(FILE);
        if !path.exists() {
            return fail(format!("there is no array in {} (no {FILE})", dir.display()));
        }
        let lock = lock(dir)?;
        let text = fs::read_to_string(&path).map_err(at("read", &path))?;
        let mut content = state_file::read(&text)
            .map_err(|e| Error(format!("cannot use {}: {e}", path.display())))?;
        let given_up = give_up_half_made(&mut content);
        Ok(State { dir: dir.to_path_buf(), _lock: lock, content, given_up })
    }

    /// Refuses what contradicts the array that is there.
    pub fn check(&self, spec: &Spec) -> Result<()> {
        let there = self.content.map.nodes.len();
        differ("nodes", spec.nodes, there, |n| n.to_string())?;
        differ("disks of", spec.disk_size, self.content.disk_size, |s| Size(*s).to_string())?;
        let mut compared = Vec::new();
        for (name, size) in &spec.volumes {
            let Some(volume) = self.volume(name) else {
                return fail(format!("the array has no volume '{name}'; create it while it runs"));
            };
            let size = Some(*size).filter(|s| *s != 0);
            differ(&format!("volume '{name}' of size"), size, volume.size, |s| {
                Size(*s).to_string()
            })?;
            compared.push(volume);
        }
        if spec.volumes.is_empty() {
            compared.extend(self.content.map.volumes.values().next());
        }
        compared.iter().try_for_each(|v| check_volume(v, spec))
    }

    fn volume(&self, name: &str) -> Option<&Arc<Volume>> {
        self.content.map.volumes.values().find(|v| v.name == name)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.content.map.nodes.len()
    }

    /// The path of a node's disk.
    pub fn disk_path(&self, node: usize) -> PathBuf {
        self.dir.join(format!("disk-{node}.img"))
    }

    /// The path of the control socket of the array in `dir`.
    pub fn control_path(dir: &Path) -> PathBuf {
        dir.join("control.sock")
    }

    /// Makes the map durable. If that fails, the old one is still in force.
    pub(crate) fn store(&mut self, map: &ClusterMap) -> Result<()> {
        let mut content = Content { map: map.clone(), ..self.content.clone() };
        let arrived =
            |id: &VolumeId, size: u64| content.map.volumes.get(id).is_some_and(|v| v.size == size);
        content.clearing.retain(|id, size| !size.is_some_and(|s| arrived(id, s)));
        self.save(&content)?;
        self.content = content;
        Ok(())
    }

    /// Hides a new volume from hosts until its room is cleared. If the process ends before,
    /// the volume is not there at the next start.
    pub(crate) fn begin_clearing(&mut self, id: VolumeId) {
        self.content.clearing.insert(id, None);
    }

    /// The room of a new volume is cleared; the next map that holds it with this size shows
    /// it to hosts.
    pub(crate) fn cleared(&mut self, id: VolumeId, size: u64) {
        self.content.clearing.insert(id, Some(size));
    }

    /// Finds room for a volume besides those of `map`.
    pub(crate) fn place(&mut self, new: &NewVolume, map: &ClusterMap) -> Result<Volume> {
        let disks = vec![self.superblock(0, 0)?.data; self.nodes()];
        let id = VolumeId(self.content.next_volume);
        let volume = volumes::place(new, id, &disks, &map.volumes)?;
        self.content.next_volume += 1;
        Ok(volume)
    }

    /// Whether there has been a volume that is deleted: then room is not fresh.
    pub(crate) fn has_had_more_volumes(&self, map: &ClusterMap) -> bool {
        self.content.next_volume as usize > map.volumes.len()
    }

    fn first_volumes(&mut self, spec: &Spec) -> Result<Vec<Volume>> {
        let mut map = self.content.map.clone();
        for (name, size) in spec.volumes() {
            let new = NewVolume {
                name,
                size,
                layout: spec.layout(),
                stripe_unit: spec.stripe_unit(),
                journal: spec.journal(),
            };
            let volume = self.place(&new, &map)?;
            map.volumes.insert(volume.id, Arc::new(volume));
        }
        Ok(map.volumes.into_values().map(Arc::unwrap_or_clone).collect())
    }

    fn superblock(&self, disk: u16, incarnation: u64) -> Result<Superblock> {
        let sectors = self.content.disk_size / SECTOR;
        Superblock::divide(self.content.cluster, disk, incarnation, sectors, JOURNAL)
            .map_err(|e| Error(format!("disks of {}: {e}", Size(self.content.disk_size))))
    }

    fn make_disk(&self, node: usize) -> Result<()> {
        self.make_disk_at(&self.disk_path(node), node)
    }

    /// Puts an empty disk in the place of a node's, which is deleted.
    pub(crate) fn replace_disk(&self, node: usize) -> Result<()> {
        let (path, new) = (self.disk_path(node), self.dir.join(format!("disk-{node}.img.new")));
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(at("remove", &new)(e));
            }
            _ => {}
        }
        self.make_disk_at(&new, node).inspect_err(|_| {
            // The first error is the one to tell.
            let _ = fs::remove_file(&new);
        })?;
        let sync = || File::open(&self.dir)?.sync_all();
        fs::rename(&new, &path).and_then(|()| sync()).map_err(at("replace", &path))
    }

    fn make_disk_at(&self, path: &Path, node: usize) -> Result<()> {
        let disk = Disk::create(path, self.content.disk_size)?;
        let superblock = self.superblock(node as u16, random() as u64)?;
        for op in Store::format(&superblock) {
            disk.format(op).map_err(Error)?;
        }
        disk.sync().map_err(Error)
    }

    /// Writes `weft.toml` so that a crash leaves the old one or the new one. The file that
    /// was replaced is kept for the next time: writing over it needs no room, so that a disk
    /// can still be found dead, and the map say so, when the file system is full.
    fn save(&self, content: &Content) -> Result<()> {
        let (path, spare) = (self.dir.join(FILE), self.dir.join(SPARE));
        let text = state_file::write(content)?;
        let write = || {
            write_over(&spare, text.as_bytes())?;
            if renameat_with(CWD, &spare, CWD, &path, RenameFlags::EXCHANGE).is_err() {
                // There is nothing to exchange it with, or the file system cannot.
                fs::rename(&spare, &path)?;
            }
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(at("write", &path))
    }
}

/// Volumes that were being made have not been answered for: nobody misses them, and what a
/// deleted volume left in their room must not be seen.
fn give_up_half_made(content: &mut Content) -> Vec<String> {
    let half_made = std::mem::take(&mut content.clearing).into_keys();
    half_made.filter_map(|id| Some(content.map.volumes.remove(&id)?.name.clone())).collect()
}

/// Replaces a file's content in the room that it has, as far as that goes, and keeps some
/// for more.
fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    let len = bytes.len() as u64;
    if file.metadata()?.len() > len {
        file.set_len(len)?;
    }
    // A file system that cannot keep room does without.
    let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, len + GROWTH);
    file.sync_all()
}

fn check_volume(volume: &Volume, spec: &Spec) -> Result<()> {
    let of = |what: &str| format!("volume '{}' with {what}", volume.name);
    differ(
        &of("layout"),
        spec.layout.map(|l| l.to_string()),
        volume.layout.clone(),
        String::clone,
    )?;
    differ(&of("stripe unit"), spec.stripe_unit, volume.geometry.unit, |s| Size(*s).to_string())?;
    let on_or_off = |on: &bool| if *on { "on" } else { "off" }.to_string();
    differ(&of("journal"), spec.journal, volume.policy.journal, on_or_off)
}

fn differ<T: PartialEq>(
    what: &str,
    asked: Option<T>,
    there: T,
    show: impl Fn(&T) -> String,
) -> Result<()> {
    match asked {
        Some(asked) if asked != there => fail(format!(
            "the array has {what} {} and {} was asked for; leave the option out, or make a new \
             array in another directory",
            show(&there),
            show(&asked)
        )),
        _ => Ok(()),
    }
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("weft.lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(at("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        return fail(format!(
            "{} is in use by process {}; stop that one first",
            dir.display(),
            holder.trim()
        ));
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(at("write", &path))?;
    Ok(file)
}

/// A random number, so that no two arrays or disks are taken for one another.
fn random() -> u128 {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    debug_assert_eq!(filled, Ok(bytes.len()), "16 bytes come whole");
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
