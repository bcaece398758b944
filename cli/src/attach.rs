//! `weft attach`: has this machine be its own controller for a volume. A node without a disk joins
//! the cluster, holds the stripe map, and reads and writes the disks of the other nodes by itself;
//! programs here reach the volume through it by NBD.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use rustix::process::{Signal, getpid, kill_process};
use weft_core::node::FillRates;
use weft_host::status::{Status, VolumeMode, VolumeStatus};
use weft_host::{
    Array, Configuration, DiskOptions, Doors, Home, HostProtocol, JoinToken, Limits, Listen,
    NewDirectory, join_as_host, replace_private,
};
use weft_terminal::{bytes, say};

use crate::args;
use crate::doors::DoorOptions;
use crate::logging::Logging;
use crate::notify;
use crate::output::{NO_THREAD, uris};
use crate::page::{PageOptions, bind_page};
use crate::serving::{absolute, farewell, serve_metrics};
use crate::token::{self, TokenFile};

/// How long to wait between looks whether the cluster has let the host in.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it may take until all of a cluster know who has just joined.
const KNOWN: Duration = Duration::from_secs(3);
/// How long a cluster may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serve volumes of a cluster on this machine, as its own controller. The first run needs a token (`weft cluster
/// token`); later runs need only the directory
#[derive(Debug, Args)]
pub struct Attach {
    /// Names of the volumes to serve
    #[arg(required = true)]
    volumes: Vec<String>,
    /// Directory of this host: its identity and sockets
    #[arg(long, default_value = "./weft-host")]
    dir: PathBuf,
    /// Token, for the first run; visible to other users of this machine, so prefer --token-file or the variable WEFT_TOKEN
    #[arg(long, requires = "at", value_parser = token::argument, conflicts_with = "token_file")]
    token: Option<JoinToken>,
    #[command(flatten)]
    file: TokenFile,
    /// Admission address of the cluster, as printed by `weft cluster token`
    #[arg(long, value_parser = args::address)]
    at: Option<SocketAddr>,
    /// Unique name for this host, for the first run [default: host-PORT]
    #[arg(long, requires = "at")]
    name: Option<String>,
    /// Address at which the cluster's nodes reach this host, for the first run [default: a free port of its own address]
    #[arg(long, requires = "at", value_parser = args::address)]
    address: Option<SocketAddr>,
    /// Serve OpenMetrics for Prometheus at http://HOST:PORT/metrics [default: off]
    #[arg(long, value_name = "HOST:PORT", value_parser = args::address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    served: Served,
    #[command(flatten)]
    doors: DoorOptions,
    #[command(flatten)]
    logging: Logging,
}

/// Where to serve hosts from now on: a flag for each protocol that they can speak.
#[derive(Debug)]
struct Served(Vec<Listen>);

impl Served {
    fn flag(protocol: HostProtocol) -> Arg {
        let HostProtocol { key, spoken_by, socket, form } = protocol;
        let usual = socket.map_or("none".to_string(), |socket| format!("DIR/{socket}"));
        let help = format!(
            "Address to serve {spoken_by}, now and in later runs; may be repeated [default: {usual}]"
        );
        let read = move |text: &str| Listen::spoken(key, text);
        let flag = Arg::new(key).long(key).value_name(form).help(help);
        flag.action(ArgAction::Append).value_parser(read)
    }
}

impl FromArgMatches for Served {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Served, clap::Error> {
        let given = HostProtocol::all().filter_map(|p| matches.get_many::<Listen>(p.key));
        Ok(Served(given.flatten().cloned().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Served::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Served {
    fn augment_args(command: Command) -> Command {
        command.args(HostProtocol::all().map(Served::flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Served::augment_args(command)
    }
}

impl Attach {
    /// Serves until Ctrl-C or SIGTERM.
    pub fn run(&self) -> Result<ExitCode> {
        let dir = std::path::absolute(&self.dir)?;
        let file = dir.join("host.toml");
        match (Home::is_taken(&dir)?, self.at) {
            (false, Some(at)) => self.join(&dir, &file, &self.first_token()?, at)?,
            (false, None) => bail!(
                "{} is not yet the directory of a host; give --token-file and --at as printed by \
             `weft cluster token`, or another --dir",
                dir.display()
            ),
            (true, None) if !self.file.is_given() => self.listen_elsewhere(&file)?,
            (true, _) => bail!(
                "{} is already the directory of a host; omit --token and --at, or choose another --dir",
                dir.display()
            ),
        }
        serve_metrics(self.metrics, &dir)?;
        let page = bind_page(self.page.door()?.as_ref(), &dir)?;
        let home = Home::open(Configuration::load(&file)?)?;
        let array = Array::node(home, page.serve(self.logging.start()?)?)?;
        let array = array.serving(self.volumes.iter().cloned());
        let volumes = self.volumes.clone();
        let (tell, why) = channel();
        let greet = move || {
            if let Err(e) = greet(&dir, &volumes) {
                // Said first: once the array stops, nobody waits for this thread.
                let _ = tell.send(e);
                // The array stops in good order, as at Ctrl-C.
                let _ = kill_process(getpid(), Signal::TERM);
            }
        };
        thread::Builder::new().spawn(greet).context(NO_THREAD)?;
        let stopped = array.run()?;
        notify::stopping();
        if let Ok(e) = why.try_recv() {
            return Err(e);
        }
        say(farewell(&stopped))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The token that lets it in.
    fn first_token(&self) -> Result<JoinToken> {
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None => self.file.read()?,
        };
        token.with_context(|| {
            format!(
                "give a token from `weft cluster token`: in a file (--token-file), on standard input \
             (--token-file -) or in the variable {}",
                token::VARIABLE
            )
        })
    }

    /// Makes the directory a host's of the cluster. What can be wrong here is found before the
    /// cluster is asked, and what the cluster refuses leaves nothing behind.
    fn join(&self, dir: &Path, file: &Path, token: &JoinToken, at: SocketAddr) -> Result<()> {
        // One that has not heard whether it was let in asks again as the same.
        let before = match Home::is_waiting(dir)? && file.try_exists()? {
            true => Some(Configuration::load(file)?),
            false => None,
        };
        let address = match self.address.or(before.as_ref().map(|b| b.address)) {
            Some(address) => address,
            None => free_address(at).with_context(|| format!("cannot reach a cluster at {at}"))?,
        };
        let name = self.name.clone().or(before.map(|b| b.name.to_string()));
        let name = name.unwrap_or_else(|| format!("host-{}", address.port()));
        let mut config = Configuration {
            name: name.parse()?,
            dir: dir.to_path_buf(),
            disks: Vec::new(),
            disk_size: None,
            controller: false,
            address,
            admit: None,
            metrics: None,
            page: None,
            listens: Listen::usual(dir).into_iter().map(absolute).collect(),
            announced: Vec::new(),
            labels: Default::default(),
            fill: FillRates::default(),
            disk_options: DiskOptions::default(),
            limits: Limits::default(),
            only: None,
            local: Default::default(),
            polling: Default::default(),
            disk_timeout: Default::default(),
            slow_disk_timeout: Default::default(),
            doors: self.doors.over(Doors::default()),
            patience: Default::default(),
            lanes: Default::default(),
        };
        config.listen_at(self.listens());
        let place = NewDirectory::make(dir)?;
        Listen::tcp(address.to_string()).check()?;
        store(&config, file)?;
        let joined = join_as_host(&config, token, at, &self.volumes);
        if Home::is_taken(dir)? || Home::is_waiting(dir)? {
            place.keep();
        }
        Ok(joined?)
    }

    /// Where hosts are to reach it, as far as it is said.
    fn listens(&self) -> Vec<Listen> {
        self.served.0.iter().cloned().map(absolute).collect()
    }

    /// A host that has been here before is to be reached elsewhere, if that is said.
    fn listen_elsewhere(&self, file: &Path) -> Result<()> {
        let listens = self.listens();
        if listens.is_empty() && self.doors == DoorOptions::default() {
            return Ok(());
        }
        let before = Configuration::load(file)?;
        let mut config = before.clone();
        config.listen_at(listens);
        config.doors = self.doors.over(config.doors);
        if config == before { Ok(()) } else { store(&config, file) }
    }
}

/// Writes a configuration that hosts can be served by.
fn store(config: &Configuration, file: &Path) -> Result<()> {
    config.listens.iter().try_for_each(Listen::check)?;
    config.check_doors()?;
    replace_private(file, config.to_toml()?.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}

/// A free port of the address from which `to` is reached.
fn free_address(to: SocketAddr) -> Result<SocketAddr> {
    let from = TcpStream::connect_timeout(&to, PATIENCE)?.local_addr()?.ip();
    Ok(TcpListener::bind((from, 0))?.local_addr()?)
}

/// Waits until the cluster has let the host in, then says how to use the volumes.
fn greet(dir: &Path, volumes: &[String]) -> Result<()> {
    let mut control = args::connect(dir)?;
    let (since, mut told) = (Instant::now(), false);
    loop {
        let status = control.status()?;
        if status.settled && status.cut_off.is_none() {
            say(greeting(&status, volumes)?)?;
            notify::ready(&format!("it serves {}", volumes.join(", ")));
            return Ok(());
        }
        let cluster = status.cluster.unwrap_or_default();
        if since.elapsed() >= KNOWN && cluster.disowned {
            bail!(
                "this host was node {} and has been removed from the cluster (`weft node remove`); \
                 choose another --dir than {}, and give --token-file and --at for a new one",
                cluster.node,
                dir.display()
            );
        }
        if since.elapsed() >= PATIENCE && !told {
            eprintln!("{}", waiting(cluster.connected.len()));
            told = true;
        }
        thread::sleep(PAUSE);
    }
}

/// What to say while the cluster has not let the host in.
fn waiting(connected: usize) -> String {
    match connected {
        0 => "no node of the cluster answers; this host waits, and continues automatically when one does"
            .to_string(),
        n => format!(
            "this host is connected to {n} of the cluster's processes and waits until a majority of them run \
                 and agree (see `weft status` at one of them)"
        ),
    }
}

fn greeting(status: &Status, volumes: &[String]) -> Result<String> {
    let said: Vec<String> = volumes.iter().map(|v| of_volume(status, v)).collect::<Result<_>>()?;
    Ok(said.concat() + "\nCtrl-C detaches it.")
}

/// How to use a volume, if the cluster has it.
fn of_volume(status: &Status, volume: &str) -> Result<String> {
    let hidden = [VolumeMode::Unfinished, VolumeMode::Deleted];
    let usable = || status.volumes.iter().filter(|v| !hidden.contains(&v.mode));
    let Some(found) = usable().find(|v| v.name == volume) else {
        let names: Vec<_> = usable().map(|v| v.name.as_str()).collect();
        bail!("the cluster has no volume '{volume}'; it has: {}", names.join(", "));
    };
    let VolumeStatus { layout, mode, .. } = found;
    let is_snapshot = found.snapshot_of.is_some();
    let does = if is_snapshot { "reads" } else { "reads and writes" };
    let mut out = format!(
        "{volume}: {}, {layout}, {mode}; this host {does} the disks itself\n",
        bytes(found.size),
    );
    for uri in uris(&status.listens, found) {
        out += &format!("    {uri}\n");
    }
    if found.choice("dispatch") != "commanded" && !is_snapshot {
        out += &format!(
            "The nodes plan their own parts; with `weft volume set {volume} roles=host` the host \
                 commands each step, and the nodes only read and write.\n"
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_a_flag() {
        let mut command = Served::augment_args(Command::new("attach"));
        let help = command.render_help().to_string();
        for protocol in HostProtocol::all() {
            assert!(help.contains(&format!("--{} ", protocol.key)), "{help}");
            assert!(help.contains(&format!("serve {}, now", protocol.spoken_by)), "{help}");
        }
        let line = "attach --native h:1 --nbd x.sock --native native:y.sock --nbd h:2";
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let served = Served::from_arg_matches(&matches).unwrap();
        let expected = [
            Listen::unix("x.sock"),
            Listen::tcp("h:2"),
            Listen::native_tcp("h:1"),
            Listen::native_unix("y.sock"),
        ];
        assert_eq!(served.0, expected);
        let wrong = Served::augment_args(Command::new("attach"));
        let wrong = wrong.try_get_matches_from(["attach", "--nbd", "nowhere"]).unwrap_err();
        assert!(wrong.to_string().contains("neither HOST:PORT"), "{wrong}");
    }

    #[test]
    fn a_volume_that_is_not_there_is_named_with_those_that_are() {
        let status = Status {
            volumes: vec![VolumeStatus {
                name: "v".to_string(),
                policy: [("dispatch".to_string(), "commanded".to_string())].into(),
                ..VolumeStatus::default()
            }],
            listens: vec!["nbd+unix:///?socket=/x".to_string()],
            ..Status::default()
        };
        let of = |names: &[&str]| {
            greeting(&status, &names.iter().map(|n| n.to_string()).collect::<Vec<_>>())
        };
        let refused = of(&["v", "w"]).unwrap_err().to_string();
        assert!(refused.contains("'w'") && refused.ends_with("it has: v"), "{refused}");
        let said = of(&["v"]).unwrap();
        assert!(said.contains("nbd+unix:///v?socket=/x") && !said.contains("roles=host"), "{said}");
    }
}
