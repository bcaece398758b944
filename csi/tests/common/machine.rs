//! A machine that only remembers. Its devices are files in a directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tonic::Status;
use weft_csi::node::machine::{Machine, Mount};

/// A device at a path, and whether it can only be read.
#[derive(Clone, Debug)]
struct Shown {
    at: PathBuf,
    device: PathBuf,
    reads_only: bool,
}

/// The device of a volume.
#[derive(Clone, Debug)]
struct Attached {
    device: PathBuf,
    grant: Option<String>,
    is_abandoned: bool,
}

#[derive(Debug, Default)]
struct State {
    attached: BTreeMap<String, Attached>,
    /// What a program uses: it cannot be unmounted.
    used: Option<PathBuf>,
    /// Unmounts of devices that were not abandoned before: the kernel has written all that it had in memory.
    written: usize,
    file_systems: BTreeMap<PathBuf, String>,
    shown: Vec<Shown>,
    formatted: usize,
    steps: usize,
    breaks_at: Option<(usize, bool)>,
}

/// The machine.
pub struct Remembering {
    dir: PathBuf,
    state: Mutex<State>,
}

impl Remembering {
    pub fn new(dir: &Path) -> Remembering {
        Remembering { dir: dir.to_path_buf(), state: Mutex::default() }
    }

    /// Has the step of this number fail: before it is done, or after.
    pub fn break_at(&self, step: usize, when_done: bool) {
        let mut state = self.state.lock().unwrap();
        (state.steps, state.breaks_at) = (0, Some((step, when_done)));
    }

    /// Has all steps succeed; whether one has failed since.
    pub fn mend(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let broke = state.breaks_at.take().is_some_and(|(step, _)| state.steps > step);
        state.steps = 0;
        broke
    }

    /// How often a file system was made.
    pub fn formatted(&self) -> usize {
        self.state.lock().unwrap().formatted
    }

    /// Has a program use a path, or none.
    pub fn use_path(&self, path: Option<PathBuf>) {
        self.state.lock().unwrap().used = path;
    }

    /// How often the kernel has written what it had in memory of a device.
    pub fn written(&self) -> usize {
        self.state.lock().unwrap().written
    }

    /// Whether nothing is attached or mounted.
    pub fn is_clean(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.attached.is_empty() && state.shown.is_empty()
    }

    /// A change, which may be the one that fails.
    fn step<T>(&self, change: impl FnOnce(&mut State) -> Result<T, Status>) -> Result<T, Status> {
        let mut state = self.state.lock().unwrap();
        let step = state.steps;
        state.steps += 1;
        match state.breaks_at {
            Some((at, false)) if at == step => Err(Status::internal("stopped before it was done")),
            Some((at, true)) if at == step => {
                change(&mut state)?;
                Err(Status::internal("stopped when it was done"))
            }
            _ => change(&mut state),
        }
    }
}

impl Machine for Remembering {
    fn attached(&self, volume: &str) -> Result<Option<PathBuf>, Status> {
        let state = self.state.lock().unwrap();
        Ok(state.attached.get(volume).map(|attached| attached.device.clone()))
    }

    fn serves(&self, volume: &str, grant: Option<&str>) -> Result<bool, Status> {
        let state = self.state.lock().unwrap();
        let attached = state.attached.get(volume).filter(|attached| !attached.is_abandoned);
        Ok(attached.is_some_and(|attached| grant.is_none() || attached.grant.as_deref() == grant))
    }

    fn abandon(&self, volume: &str) -> Result<(), Status> {
        self.step(|state| {
            state.attached.get_mut(volume).unwrap().is_abandoned = true;
            Ok(())
        })
    }

    fn attach(&self, volume: &str, grant: Option<&str>) -> Result<PathBuf, Status> {
        self.step(|state| {
            assert!(!state.attached.contains_key(volume), "attached twice");
            let device = self.dir.join(format!("device-of-{volume}"));
            File::options().create(true).append(true).open(&device).unwrap();
            let grant = grant.map(str::to_string);
            let attached = Attached { device: device.clone(), grant, is_abandoned: false };
            state.attached.insert(volume.to_string(), attached);
            Ok(device)
        })
    }

    fn detach(&self, volume: &str, device: &Path) -> Result<(), Status> {
        self.step(|state| {
            assert!(state.shown.iter().all(|shown| shown.device != device), "still in use");
            state.attached.remove(volume);
            Ok(())
        })
    }

    fn set_size(&self, _: &str, device: &Path, bytes: u64) -> Result<(), Status> {
        self.step(|_| {
            File::options().write(true).open(device).unwrap().set_len(bytes).unwrap();
            Ok(())
        })
    }

    fn size(&self, device: &Path) -> Result<u64, Status> {
        Ok(fs::metadata(device).unwrap().len())
    }

    fn most_volumes(&self) -> usize {
        16
    }

    fn file_system(&self, device: &Path) -> Result<Option<String>, Status> {
        Ok(self.state.lock().unwrap().file_systems.get(device).cloned())
    }

    fn format(&self, device: &Path, file_system: &str) -> Result<(), Status> {
        self.step(|state| {
            let earlier = state.file_systems.insert(device.to_path_buf(), file_system.to_string());
            assert_eq!(earlier, None, "a file system is overwritten");
            state.formatted += 1;
            Ok(())
        })
    }

    fn grow(&self, _: &Path, mounted_at: &Path, _: &str) -> Result<(), Status> {
        self.step(|state| {
            assert!(state.shown.iter().any(|shown| shown.at == mounted_at));
            Ok(())
        })
    }

    fn mounted(&self, at: &Path) -> Result<Option<Mount>, Status> {
        let state = self.state.lock().unwrap();
        let last = state.shown.iter().rfind(|shown| shown.at == at);
        Ok(last.map(|shown| Mount { reads_only: shown.reads_only }))
    }

    fn shown_at(&self, device: &Path) -> Result<Vec<PathBuf>, Status> {
        let state = self.state.lock().unwrap();
        let its = state.shown.iter().filter(|shown| shown.device == device);
        Ok(its.map(|shown| shown.at.clone()).collect())
    }

    fn mount(
        &self,
        device: &Path,
        at: &Path,
        file_system: &str,
        options: &[String],
    ) -> Result<(), Status> {
        self.step(|state| {
            assert_eq!(state.file_systems.get(device).map(String::as_str), Some(file_system));
            fs::create_dir_all(at).unwrap();
            let reads_only = options.iter().any(|option| option == "ro");
            state.shown.push(Shown { at: at.into(), device: device.into(), reads_only });
            Ok(())
        })
    }

    fn bind(&self, from: &Path, at: &Path, reads_only: bool) -> Result<(), Status> {
        self.step(|state| {
            assert!(at.exists(), "there is nothing to mount at");
            let staged = state.shown.iter().find(|shown| shown.at == from);
            let device = staged.map_or(from, |shown| &shown.device).to_path_buf();
            state.shown.push(Shown { at: at.into(), device, reads_only });
            Ok(())
        })
    }

    fn unmount(&self, at: &Path) -> Result<(), Status> {
        self.step(|state| {
            if state.used.as_deref() == Some(at) {
                return Err(Status::internal("busy"));
            }
            let last = state.shown.iter().rposition(|shown| shown.at == at);
            let shown = state.shown.remove(last.expect("something is mounted there"));
            let mut attached = state.attached.values();
            let its = attached.find(|attached| attached.device == shown.device);
            state.written += usize::from(its.is_some_and(|attached| !attached.is_abandoned));
            Ok(())
        })
    }
}
