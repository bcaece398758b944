//! The state directory: `weft.toml`, the disks `disk-0.img` and so on, the lock
//! `weft.lock`, and the control socket `control.sock`. What the disks keep copies of is what `weft.toml` holds;
//! the two are compared before anything is done with either.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::cluster::{ClusterMap, NodeInfo, Volume};
use weft_core::policy::choice;
use weft_core::store::map_area::MapCopy;
use weft_core::units::{NodeId, VolumeId};

use self::file::{self as state_file, Content};
use crate::disk::claim::{Claim, Claimer};
use crate::disk::format::{Own, data_sectors, format_disk};
use crate::disk::options::DiskOptions;
use crate::disk::{Disk, refuse_among_devices};
use crate::durable;
use crate::error::{Result, at, fail};
use crate::size::Size;
use crate::socket::{CONTROL, require_short};
use crate::spec::Spec;
use crate::volumes;

mod extents;
mod file;
mod imports;
mod recover;
mod reservations;
pub use recover::{Findings, recover};

const FILE: &str = "weft.toml";

/// The file that the next `weft.toml` is written to.
const SPARE: &str = "weft.toml.new";

/// An open state directory, locked against other processes for as long as it lives.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    _lock: File,
    pub(crate) content: Content,
    /// The file as it was read or written last.
    text: String,
    /// Names of volumes that were being made when the array last stopped.
    pub(crate) given_up: Vec<String>,
}

impl State {
    /// Opens the array in `dir` and checks it against `spec`; makes it if there is none.
    pub fn open(dir: &Path, spec: &Spec) -> Result<State> {
        if !State::is_in(dir)? {
            return State::create(dir, spec);
        }
        let mut state = State::load(dir)?;
        state.check(spec)?;
        let disk_options = spec.disk_options_over(state.content.disk_options);
        if disk_options != state.content.disk_options {
            state.save(Content { disk_options, ..state.content.clone() })?;
        }
        durable::keep_ahead(&dir.join(FILE), &dir.join(SPARE), state.text.as_bytes());
        Ok(state)
    }

    /// Makes a new array in `dir`, which is made if need be.
    pub fn create(dir: &Path, spec: &Spec) -> Result<State> {
        spec.validate()?;
        require_short(&dir.join(CONTROL))?;
        let info = NodeInfo::new(0, data_sectors(spec.disk_size())?);
        let mut map = ClusterMap { nodes: vec![info; spec.nodes()], ..ClusterMap::default() };
        // What cannot be is refused before there is anything.
        volumes::place_first(spec, &mut map)?;
        refuse_among_devices(&dir.join(FILE))?;
        durable::make_private_directory(dir).map_err(at("create the directory", dir))?;
        let lock = durable::lock(dir)?;
        if State::is_in(dir)? {
            return fail(format!(
                "{} already holds an array; open it, or choose another directory",
                dir.display()
            ));
        }
        recover::refuse_orphans(dir)?;
        let content = Content {
            version: 0,
            cluster: durable::random(),
            disk_size: spec.disk_size(),
            disk_options: spec.disk_options_over(DiskOptions::default()),
            map,
        };
        let mut state = State {
            dir: dir.to_path_buf(),
            _lock: lock,
            content,
            text: String::new(),
            given_up: Vec::new(),
        };
        state.make_disks().and_then(|()| state.save(state.content.clone()))?;
        Ok(state)
    }

    /// Makes all disks, or leaves none behind.
    fn make_disks(&self) -> Result<()> {
        for node in 0..self.nodes() {
            let was_there = durable::is_there(&self.disk_path(node))?;
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

    /// Whether there is an array in `dir`.
    ///
    /// # Errors
    /// If that cannot be seen.
    pub fn is_in(dir: &Path) -> Result<bool> {
        durable::is_there(&dir.join(FILE))
    }

    /// Opens the array that is in `dir`.
    pub fn load(dir: &Path) -> Result<State> {
        let path = dir.join(FILE);
        if !State::is_in(dir)? {
            recover::refuse_orphans(dir)?;
            return fail(format!("there is no array in {} (no {FILE})", dir.display()));
        }
        let lock = durable::lock(dir)?;
        let text = fs::read(&path).map_err(at("read", &path))?;
        // What is not text is damaged, and does not fit its checksum.
        let text = String::from_utf8_lossy(&text).into_owned();
        let content = state_file::read(&text).map_err(|e| recover::damaged(dir, &text, &e))?;
        recover::refuse_older(dir, &content, &text)?;
        let given_up = Vec::new();
        let mut state = State { dir: dir.to_path_buf(), _lock: lock, content, text, given_up };
        state.given_up = give_up_half_made(&mut state.content);
        Ok(state)
    }

    /// Refuses what contradicts the array that is there.
    pub fn check(&self, spec: &Spec) -> Result<()> {
        let there = self.content.map.nodes.len();
        if let Some(asked) = spec.nodes.filter(|asked| *asked != there) {
            return fail(format!("the array has {there} nodes, not {asked}; {OTHERWISE}"));
        }
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

    /// Makes the map durable. If that fails, the old one is still in force.
    pub(crate) fn store(&mut self, map: &ClusterMap) -> Result<()> {
        self.save(Content { map: map.clone(), ..self.content.clone() })
    }

    /// Looks whether this map could be stored now, and a larger one when nodes go and come after that.
    ///
    /// # Errors
    /// If not, and why.
    pub(crate) fn can_store(&self, map: ClusterMap) -> Result<()> {
        let version = self.content.version + 1;
        let next = state_file::write(&Content { map, version, ..self.content.clone() })?.len();
        durable::write_spare(&self.dir.join(SPARE), self.text.as_bytes(), next as u64)
    }

    /// What the disks are to keep copies of: the file, and its version.
    pub(crate) fn copy(&self) -> MapCopy {
        let Content { cluster, version, .. } = self.content;
        MapCopy { cluster, version, payload: self.text.clone().into_bytes() }
    }

    fn make_disk(&self, node: usize) -> Result<()> {
        let disk = Disk::create(&self.disk_path(node), self.content.disk_size)?;
        if self.content.disk_options.preallocate {
            disk.allocate_all()?;
        }
        let whose = (self.content.cluster, NodeId(node as u16));
        format_disk(&disk, self.content.disk_size, whose, 0)
    }

    /// How a node's disk is claimed, to put an empty one in its place.
    pub(crate) fn claimer(&self, node: usize, force: bool) -> Claimer {
        let own = Own { cluster: self.content.cluster, node: NodeId(node as u16) };
        let (path, size) = (self.disk_path(node), self.content.disk_size);
        let preallocate = self.content.disk_options.preallocate;
        Box::new(move || Claim::new(&path, Some(size), Some(own), force)?.allocated(preallocate))
    }

    /// Writes the next version. If that fails, the old one is still in force.
    fn save(&mut self, content: Content) -> Result<()> {
        let content = Content { version: self.content.version + 1, ..content };
        let (path, spare) = (self.dir.join(FILE), self.dir.join(SPARE));
        let text = state_file::write(&content)?;
        durable::replace(&path, &spare, text.as_bytes())?;
        (self.content, self.text) = (content, text);
        Ok(())
    }
}

/// Volumes that were being made have not been answered for: nobody misses them, and what a
/// deleted volume left in their room must not be seen. Those that were being deleted are gone, too. But a snapshot that was
/// being deleted, and a volume with snapshots, which was being rolled back or imported into, are as they were.
fn give_up_half_made(content: &mut Content) -> Vec<String> {
    let map = &mut content.map;
    let is_hidden = |v: &Volume| v.visible == 0 && !v.is_deleted();
    let hidden = map.volumes.values().filter(|v| is_hidden(v)).map(|v| v.id);
    let (kept, given_up): (Vec<VolumeId>, Vec<VolumeId>) =
        hidden.partition(|id| map.volumes[id].is_snapshot() || map.has_any_snapshot(*id));
    for id in kept {
        let volume = map.volumes.get_mut(&id).map(Arc::make_mut).expect("just seen");
        volume.visible = volume.size;
    }
    let mut names = Vec::new();
    for id in given_up {
        names.extend(map.volumes.remove(&id).map(|volume| volume.name.clone()));
        map.attendance.remove(&id);
    }
    let cut = |v: &&mut Arc<Volume>| v.visible < v.size && !v.is_deleted();
    for volume in content.map.volumes.values_mut().filter(cut) {
        Arc::make_mut(volume).cut_to_visible();
        content.map.room_used = true;
    }
    names
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
    for asked in &spec.policy {
        let there = choice(asked.key()).map(|c| c.word_of(&volume.policy)).unwrap_or_default();
        differ(&of(asked.key()), Some(asked.word()), there, String::clone)?;
    }
    Ok(())
}

/// What to do where an option contradicts the array.
const OTHERWISE: &str = "omit the option, or create a new array in another directory";

fn differ<T: PartialEq>(
    what: &str,
    asked: Option<T>,
    there: T,
    show: impl Fn(&T) -> String,
) -> Result<()> {
    match asked {
        Some(asked) if asked != there => fail(format!(
            "the array has {what} {}, not {}; {OTHERWISE}",
            show(&there),
            show(&asked)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
