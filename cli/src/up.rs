//! `weft up`: runs an array until it is stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_core::layout::LayoutSpec;
use weft_host::{
    Array, DiskQueue, DiskTimeout, Doors, Home, Lanes, Limits, Listen, LocalLinks, Polling,
    SlowDiskTimeout, Spec, State,
};
use weft_terminal::say;

use crate::args::{self, HostLimits};
use crate::choices::{Choices, ForVolumes};
use crate::doors::DoorOptions;
use crate::logging::Logging;
use crate::notify;
use crate::output::NO_THREAD;
use crate::page::{PageOptions, bind_page};
use crate::processes::{self, Addresses, Each};
use crate::serving::{Greeted, absolute, farewell, greet, serve_metrics};

/// How disks are worked.
#[derive(Debug, Args)]
struct Disks {
    /// Order of a disk's operations: fcfs, sstf or c-look [default: fcfs, or the array's value]
    #[arg(long, value_name = "ORDER", value_parser = args::queue, hide_short_help = true)]
    queue: Option<String>,
    /// Operations in flight per disk, 1 to 256 [default: 256, or 2 in an order other than fcfs]
    #[arg(long, value_name = "N", value_parser = args::queue_depth, hide_short_help = true)]
    queue_depth: Option<u32>,
    /// Allocate all space of disk files when they are created: on or off [default: off, or the array's value]
    #[arg(long, value_name = "on|off", value_parser = args::on_or_off, hide_short_help = true)]
    preallocate: Option<bool>,
}

impl Disks {
    /// The queue, if anything about it is given.
    fn queue(&self) -> Result<Option<DiskQueue>> {
        let given = self.queue.is_some() || self.queue_depth.is_some();
        let queue = DiskQueue::new(self.queue.as_deref(), self.queue_depth);
        Ok(given.then_some(queue).transpose()?)
    }
}

/// Run an array, creating it if necessary. An option that is not given takes its default in a new array, and keeps
/// its value in an existing one.
#[derive(Debug, Args)]
pub struct Up {
    /// Directory of the array: disks, map and sockets
    #[arg(long, env = "WEFT_DIR", default_value = "./weft-data")]
    dir: PathBuf,
    /// Number of nodes, each with one disk [default: 5]
    #[arg(long, value_parser = args::count::<usize>)]
    nodes: Option<usize>,
    /// Size of each disk [default: 1G]
    #[arg(long, value_parser = args::size)]
    disk_size: Option<u64>,
    #[command(flatten)]
    disks: Disks,
    /// Volume; may be repeated; SIZE 'all' takes all free space [default: vol0:all]
    #[arg(long, value_name = "NAME:SIZE", value_parser = args::volume)]
    volume: Vec<(String, u64)>,
    #[arg(long, value_parser = args::layout, help = args::layout_help_by_default())]
    layout: Option<LayoutSpec>,
    /// Stripe unit: contiguous bytes per disk [default: 64K]
    #[arg(long, value_parser = args::size, hide_short_help = true)]
    stripe_unit: Option<u64>,
    #[command(flatten)]
    choices: Choices<ForVolumes>,
    /// Address to serve hosts: NBD, weft-client's protocol after 'native:', iSCSI after 'iscsi:', or a virtual machine's disk after 'vhost-user:'; may be repeated [default: DIR/nbd.sock, 127.0.0.1:10809 and native:DIR/weft.sock]
    #[arg(long, value_name = "[native:|iscsi:]PATH.sock|HOST:PORT|vhost-user:PATH.sock[=VOLUME]")]
    listen: Vec<Listen>,
    /// Address announced to iSCSI hosts in discovery and when another process redirects them here; may be repeated [default: the iSCSI addresses of --listen]
    #[arg(long, value_name = "HOST:PORT", value_parser = iscsi_announced, hide_short_help = true)]
    iscsi_announce: Vec<Listen>,
    #[command(flatten)]
    doors: DoorOptions,
    /// Run each node in its own process, on loopback
    #[arg(long)]
    processes: bool,
    /// Connections between these processes: unix (sockets) or tls [default: unix, or the array's value]
    #[arg(long, value_name = "unix|tls", requires = "processes", hide_short_help = true)]
    local: Option<LocalLinks>,
    /// Busy polling before sleep, when worthwhile: on or off [default: on, or with --processes the array's value]
    #[arg(long, value_name = "on|off", hide_short_help = true)]
    polling: Option<Polling>,
    /// Lanes: threads that run the nodes of a process, 1 to 64 [default: one per processor but at most one per node, or with --processes the array's value]
    #[arg(long, value_name = "N", hide_short_help = true)]
    lanes: Option<Lanes>,
    /// Time limit for one disk operation before the other nodes continue without the disk, such as 10s [default: 10s, or 30s for rotating disks; or with --processes the array's value]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    disk_timeout: Option<DiskTimeout>,
    /// Time for which a disk may be much slower than the others before they continue without it, such as 5m, or never [default: 5m, and only with redundancy to spare; or with --processes the array's value]
    #[arg(long, value_name = "TIME|never", hide_short_help = true)]
    slow_disk_timeout: Option<SlowDiskTimeout>,
    /// Serve OpenMetrics for Prometheus at http://HOST:PORT/metrics [default: off]
    #[arg(long, value_name = "HOST:PORT", value_parser = args::address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    limits: HostLimits,
    #[command(flatten)]
    logging: Logging,
}

/// An address that iSCSI hosts are told.
fn iscsi_announced(text: &str) -> weft_host::Result<Listen> {
    Listen::announced("iscsi", text)
}

impl Up {
    /// Runs until Ctrl-C, SIGTERM or a request to shut down.
    pub fn run(&self) -> Result<ExitCode> {
        let spec = Spec {
            nodes: self.nodes,
            disk_size: self.disk_size,
            queue: self.disks.queue()?,
            preallocate: self.disks.preallocate,
            volumes: self.volume.clone(),
            layout: self.layout,
            stripe_unit: self.stripe_unit,
            policy: self.choices.given.clone(),
            ..Spec::default()
        };
        let limits = self.limits.words().over(Limits::default())?;
        serve_metrics(self.metrics, &self.dir)?;
        let page = bind_page(self.page.door()?.as_ref(), &self.dir)?;
        if self.processes {
            if !page.is_none() {
                page.serve(self.logging.start()?)?;
            }
            let limits = self.limits.words();
            let (local, polling, lanes) = (self.local, self.polling, self.lanes);
            let doors = self.doors.clone();
            let (disk_timeout, slow_disk_timeout) = (self.disk_timeout, self.slow_disk_timeout);
            let each = Each { local, polling, lanes, disk_timeout, slow_disk_timeout, doors };
            let addresses = Addresses { listens: &self.listen, announced: &self.iscsi_announce };
            return processes::run(&self.dir, &spec, addresses, &limits, each);
        }
        if args::node_dir(&self.dir, 0).is_dir() {
            bail!(
                "{} holds nodes in separate processes; add --processes, or choose another directory",
                self.dir.display()
            );
        }
        if Home::is_taken(&self.dir)? || Home::is_waiting(&self.dir)? {
            bail!(
                "{} is the directory of a cluster's process (weft node --config); choose another",
                self.dir.display()
            );
        }
        let listens = self.listens();
        Listen::check_distinct(&listens, "--listen")?;
        self.doors.check(&listens, "--listen")?;
        Listen::check_announced(&self.iscsi_announce, &listens, "--iscsi-announce")?;
        let is_new = !State::is_in(&self.dir)?;
        let array = Array::start(&self.dir, &spec, &listens, page.serve(self.logging.start()?)?)?
            .with_doors(&self.doors.over(Doors::default()))?
            .announcing(self.iscsi_announce.clone())
            .limited(limits)
            .polling(self.polling.unwrap_or_default())
            .lanes(self.lanes.unwrap_or_default())
            .disk_timeout(self.disk_timeout.unwrap_or_default())
            .slow_disk_timeout(self.slow_disk_timeout.unwrap_or_default());
        let greeted = Greeted { dir: self.dir.clone(), is_new };
        let greet = move || match greet(&greeted) {
            Ok(()) => notify::ready("it serves"),
            Err(e) => eprintln!("weft: the array runs, but cannot print its status: {e:#}"),
        };
        thread::Builder::new().spawn(greet).context(NO_THREAD)?;
        let stopped = array.run()?;
        notify::stopping();
        say(farewell(&stopped))?;
        Ok(ExitCode::SUCCESS)
    }

    fn listens(&self) -> Vec<Listen> {
        match self.listen.is_empty() {
            true => {
                let mut listens: Vec<_> =
                    Listen::usual(&self.dir).into_iter().map(absolute).collect();
                listens.insert(1, Listen::tcp("127.0.0.1:10809"));
                listens
            }
            false => self.listen.iter().cloned().map(absolute).collect(),
        }
    }
}
