//! Running an array, or a node of a cluster: in this thread until it is stopped, or in the background.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use mio::Poll;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cluster::{Home, Together};
use crate::disk::emulated::Emulation;
use crate::disk_timeout::DiskTimeout;
use crate::doors::Doors;
use crate::engine::Rule;
use crate::error::{Error, Result};
use crate::lanes::Lanes;
use crate::limits::Limits;
use crate::log::Log;
use crate::polling::Polling;
use crate::reactor::{PEERS, Reactor, Stopped, Stopper};
use crate::sessions::listen::Listen;
use crate::slow_disk_timeout::SlowDiskTimeout;
use crate::spec::Spec;
use crate::state::State;

/// An array that is ready to run.
pub struct Array {
    reactor: Reactor,
    dir: PathBuf,
}

impl Array {
    /// Opens the array in `dir`, or makes one as `spec` says if there is none, and listens
    /// for hosts. Lines for the operator go to `log`.
    pub fn start(dir: &Path, spec: &Spec, listens: &[Listen], log: Log) -> Result<Array> {
        // Before anything is made: of an array that runs already, opening it says more.
        if !State::is_in(dir)? {
            listens.iter().try_for_each(Listen::check)?;
        }
        Array::of(State::open(dir, spec)?, listens, log)
    }

    /// An array of a state directory that is open.
    pub fn of(state: State, listens: &[Listen], log: Log) -> Result<Array> {
        let dir = state.dir().to_path_buf();
        let reactor = Reactor::new(poll()?, Rule::alone(state), listens, log)?;
        Array { reactor, dir }.with_doors(&Doors::default())
    }

    /// The node of a cluster, in a process of its own.
    pub fn node(home: Home, log: Log) -> Result<Array> {
        let (dir, config) = (home.dir().to_path_buf(), home.config());
        let (limits, polling, lanes) = (config.limits, config.polling, config.lanes);
        let (disk_timeout, slow_disk_timeout) = (config.disk_timeout, config.slow_disk_timeout);
        let listens = config.listens.clone();
        let (doors, own) = (config.doors.clone(), config.own_host());
        let announced = config.announced.clone();
        let poll = poll()?;
        let together = Together::start(home, poll.registry(), PEERS, log.clone())?;
        let rule = Rule::Together(Box::new(together));
        let array = Array { reactor: Reactor::new(poll, rule, &listens, log)?, dir };
        let array = array.kept(&doors, own)?.announcing(announced);
        let array = array.limited(limits).polling(polling).lanes(lanes);
        Ok(array.disk_timeout(disk_timeout).slow_disk_timeout(slow_disk_timeout))
    }

    /// The array asking this of hosts that come in; nothing of those that come by Unix sockets and loopback, usually.
    /// Where it is a host's own controller, whoever comes is taken for the host `own`.
    ///
    /// # Errors
    /// If there is no such group, or no certificate can be made.
    fn kept(mut self, doors: &Doors, own: Option<String>) -> Result<Array> {
        self.reactor.keep_doors(doors, own)?;
        Ok(self)
    }

    /// The array asking this of hosts that come in.
    ///
    /// # Errors
    /// If there is no such group, or no certificate can be made.
    pub fn with_doors(self, doors: &Doors) -> Result<Array> {
        self.kept(doors, None)
    }

    /// The array telling hosts these addresses, instead of those at which their protocols are spoken.
    pub fn announcing(mut self, addresses: Vec<Listen>) -> Array {
        self.reactor.announce(addresses);
        self
    }

    /// The array with other limits for hosts than the usual ones, or than the configuration's.
    pub fn limited(mut self, limits: Limits) -> Array {
        self.reactor.limit(limits);
        self
    }

    /// The array looking for input for a while before it sleeps, or not.
    pub fn polling(mut self, polling: Polling) -> Array {
        self.reactor.poll(polling);
        self
    }

    /// The array with so many threads that run its nodes. Where disks are emulated there is one.
    pub fn lanes(mut self, lanes: Lanes) -> Array {
        self.reactor.lanes(lanes);
        self
    }

    /// The array taking out nodes whose disks are busy with one operation for longer than this.
    pub fn disk_timeout(mut self, timeout: DiskTimeout) -> Array {
        self.reactor.time_out_disks(timeout);
        self
    }

    /// The array taking out nodes whose disks are slow for longer than this.
    pub fn slow_disk_timeout(mut self, after: SlowDiskTimeout) -> Array {
        self.reactor.time_out_slow_disks(after);
        self
    }

    /// The array with disks, files in memory, that take as long as others do, once it is said which.
    ///
    /// # Errors
    /// If the system has no timers for that.
    pub fn emulating(mut self, emulation: Emulation) -> Result<Array> {
        self.reactor.emulate(emulation)?;
        Ok(self)
    }

    /// The array with no volumes for hosts but these. Commands reach all of them.
    pub fn serving(mut self, volumes: impl IntoIterator<Item = String>) -> Array {
        self.reactor.serve_only(volumes.into_iter().collect());
        self
    }

    /// Where hosts can connect, as URIs without the volume's name.
    pub fn listens(&self) -> &[String] {
        self.reactor.listens()
    }

    /// Runs until SIGINT, SIGTERM or a request to shut down, then stops in good order and
    /// says how that went.
    pub fn run(mut self) -> Result<Stopped> {
        let no_signals = |e: std::io::Error| Error(format!("cannot wait for signals: {e}"));
        let (ours, theirs) = UnixStream::pair().map_err(no_signals)?;
        ours.set_nonblocking(true).map_err(no_signals)?;
        let flag = self.reactor.watch_signals(ours.as_raw_fd())?;
        let mut registered = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // The flag first: it must be set when the pipe wakes the reactor.
            let set = signal_hook::flag::register(signal, flag.clone()).map_err(no_signals)?;
            let pipe = theirs.try_clone().map_err(no_signals)?;
            let wake = signal_hook::low_level::pipe::register(signal, pipe).map_err(no_signals)?;
            registered.extend([set, wake]);
        }
        let result = self.reactor.run();
        for id in registered {
            signal_hook::low_level::unregister(id);
        }
        result
    }

    /// Runs in a thread of its own.
    pub fn spawn(self) -> Result<Handle> {
        let (stopper, dir) = (self.reactor.stopper(), self.dir);
        let listens = self.reactor.listens().to_vec();
        let reactor = self.reactor;
        let thread = thread::Builder::new()
            .name("weft".to_string())
            .spawn(move || reactor.run())
            .map_err(|e| Error(format!("cannot start a thread: {e}")))?;
        Ok(Handle { stopper, thread: Some(thread), dir, listens })
    }
}

fn poll() -> Result<Poll> {
    Poll::new().map_err(|e| Error(format!("cannot wait for events: {e}")))
}

/// An array that runs in the background. It is stopped when this is dropped.
pub struct Handle {
    stopper: Stopper,
    thread: Option<JoinHandle<Result<Stopped>>>,
    dir: PathBuf,
    listens: Vec<String>,
}

impl Handle {
    /// Its directory, for [`crate::Control::connect`].
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where hosts can connect, as URIs without the volume's name.
    pub fn listens(&self) -> &[String] {
        &self.listens
    }

    /// Stops it in good order and says how it went.
    pub fn stop(mut self) -> Result<Stopped> {
        self.finish()
    }

    /// Stops it in good order, for those who need not know what was unfinished.
    pub fn shutdown(self) -> Result<()> {
        self.stop().map(drop)
    }

    fn finish(&mut self) -> Result<Stopped> {
        self.stopper.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error("the array's thread panicked".to_string())),
            None => Ok(Stopped::default()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Whoever wants to know how it went calls `stop`.
        let _ = self.finish();
    }
}
