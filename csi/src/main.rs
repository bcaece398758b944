//! `weft-csi`: the driver, as a controller beside a process of the cluster, or on a machine that uses volumes.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use weft_client::Certificates;
use weft_csi::busy::Busy;
use weft_csi::cluster::{Cluster, Socket};
use weft_csi::names::host_name;
use weft_csi::node::devices::{Devices, Reach};
use weft_csi::node::linux::Linux;
use weft_csi::{server, service};

/// The CSI driver of Weft
#[derive(Debug, Parser)]
#[command(name = "weft-csi", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

/// The part of the driver to run.
#[derive(Debug, Subcommand)]
enum Role {
    /// Create, publish, copy and delete volumes: run this next to a process of the cluster
    Controller(Controller),
    /// Attach and mount volumes: run this on each machine that uses them, as root
    Node(Node),
    /// Print the name of a machine for the cluster (`weft host create`)
    HostName {
        /// Name of the machine in the orchestrator
        machine: String,
    },
}

#[derive(Debug, Args)]
struct Controller {
    /// Socket at which the driver listens, such as unix:///csi/csi.sock
    #[arg(long, env = "CSI_ENDPOINT")]
    endpoint: String,
    /// Directory of the process of the cluster on this machine, with its control socket
    #[arg(long, default_value = "/var/lib/weft")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
struct Node {
    /// Socket at which the driver listens, such as unix:///csi/csi.sock
    #[arg(long, env = "CSI_ENDPOINT")]
    endpoint: String,
    /// Name of this machine in the orchestrator
    #[arg(long, env = "NODE_NAME")]
    machine: String,
    /// NBD addresses of the cluster's processes, such as 10.0.0.11:10809,10.0.0.12:10809. When one is down, the next is used
    #[arg(long, required = true, value_delimiter = ',')]
    at: Vec<String>,
    /// Directory of this host's certificate, as `weft host certify` writes it; client-cert.pem and client-key.pem may have the
    /// machine's name and a dot before their names. Without it TLS is not used
    #[arg(long)]
    certificates: Option<PathBuf>,
}

fn main() -> ExitCode {
    match Cli::parse().role.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft-csi: {e:#}");
            ExitCode::FAILURE
        }
    }
}

impl Role {
    fn run(&self) -> Result<()> {
        match self {
            Role::Controller(controller) => Runtime::new()?.block_on(controller.run()),
            Role::Node(node) => Runtime::new()?.block_on(node.run()),
            Role::HostName { machine } => {
                println!("{}", host_name(machine));
                Ok(())
            }
        }
    }
}

impl Controller {
    async fn run(&self) -> Result<()> {
        let listener = server::listen(&server::path_of(&self.endpoint)?)?;
        let router = server::controller(Cluster::new(Socket(self.dir.clone())));
        server::serve(router, listener, stopped()?).await
    }
}

impl Node {
    async fn run(&self) -> Result<()> {
        let certificates = self.certificates.as_deref().map(|dir| load(dir, &self.machine));
        let tls = certificates.transpose()?.map(|certificates| certificates.config());
        let reach = Reach { addresses: self.at.clone(), tls };
        let listener = server::listen(&server::path_of(&self.endpoint)?)?;
        let node = service::node::Service {
            host: host_name(&self.machine),
            machine: Arc::new(Linux(Devices::new(reach, Handle::current()))),
            busy: Busy::default(),
        };
        server::serve(server::node(node), listener, stopped()?).await
    }
}

/// The certificates of a machine: in a directory of its own, or in one with those of all machines, which is what a secret
/// of the orchestrator can be.
fn load(dir: &Path, machine: &str) -> Result<Certificates> {
    let own = |file: &str| dir.join(format!("{machine}.{file}"));
    if !weft_host::is_there(&own("client-cert.pem"))? {
        return Ok(Certificates::load(dir)?);
    }
    let one = std::env::temp_dir().join(format!("weft-csi-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&one).with_context(|| cannot_make(&one))?;
    let link = |from: PathBuf, file: &str| symlink(from, one.join(file));
    let linked = link(dir.join("ca-cert.pem"), "ca-cert.pem")
        .and_then(|()| link(own("client-cert.pem"), "client-cert.pem"))
        .and_then(|()| link(own("client-key.pem"), "client-key.pem"));
    let loaded =
        linked.with_context(|| cannot_make(&one)).and_then(|()| Ok(Certificates::load(&one)?));
    fs::remove_dir_all(&one).with_context(|| format!("cannot remove {}", one.display()))?;
    loaded
}

fn cannot_make(path: &Path) -> String {
    format!("cannot make {}", path.display())
}

/// Is over when the driver is told to stop.
fn stopped() -> Result<impl Future<Output = ()>> {
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    })
}
