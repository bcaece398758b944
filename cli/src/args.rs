//! What several commands take: sizes, layouts, switches, addresses, the directory.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use weft_core::layout::LayoutSpec;
use weft_host::status::Status;
use weft_host::{Control, ControlRequest, DiskQueue, Limits, LimitsInWords, parse_size};

/// The running array to use.
#[derive(Clone, Debug, Args)]
pub struct Target {
    #[arg(
        long,
        env = "WEFT_DIR",
        value_name = "DIR",
        help = "Directory of the array, or of a node of a cluster [default: ./weft-data]"
    )]
    dir: Option<PathBuf>,
}

/// Where an array is if nothing else is said.
const USUAL: &str = "./weft-data";

impl Target {
    /// Connects to the array, or to the first of the nodes below the directory that runs.
    pub fn connect(&self) -> anyhow::Result<Control> {
        let without = "; name the array with --dir or the variable WEFT_DIR; the default is ./weft-data in the \
         current directory";
        connect(self.dir()).map_err(|e| match self.dir {
            Some(_) => e,
            None => anyhow::anyhow!("{e:#}{without}"),
        })
    }

    /// Where the array is.
    pub fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new(USUAL))
    }
}

/// Where an array is, if `dir` does not say it: where the variable says, or where one is usually.
pub fn usual_dir(dir: Option<&Path>) -> PathBuf {
    let variable = || std::env::var_os("WEFT_DIR").filter(|v| !v.is_empty()).map(PathBuf::from);
    dir.map(Path::to_path_buf).or_else(variable).unwrap_or(USUAL.into())
}

/// Connects to the array on `dir`, or to the first of the nodes below it that runs.
pub fn connect(dir: &Path) -> anyhow::Result<Control> {
    let own = Control::connect(dir);
    let below = || (0..).map(|n| node_dir(dir, n)).take_while(|d| d.is_dir());
    let control = match own {
        Err(e) => {
            let mut found = Err(e.into());
            for (control, dir) in below().filter_map(|d| Some((Control::connect(&d).ok()?, d))) {
                found = answering(control, &dir);
                if found.is_ok() {
                    break;
                }
            }
            found?
        }
        Ok(control) => answering(control, dir)?,
    };
    Ok(control.telling(|what| eprintln!("weft: waiting for {what}")))
}

/// How long a process may take for an answer that it gives at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a process that answers. The system accepts connections for one that is stopped.
fn answering(control: Control, dir: &Path) -> anyhow::Result<Control> {
    let began = Instant::now();
    let mut control = control.within(Some(PATIENCE))?;
    let answer = control.request(&ControlRequest::ClusterShow);
    if answer.is_err() && began.elapsed() >= PATIENCE {
        anyhow::bail!(
            "the process of {} does not answer: it is stopped, or its machine is overloaded",
            dir.display()
        );
    }
    Ok(control.within(None)?)
}

/// The directory of a node of `weft up --processes`.
pub fn node_dir(dir: &Path, node: usize) -> PathBuf {
    dir.join(format!("node-{node}"))
}

/// The running array, and the format of the answer.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The array.
    #[command(flatten)]
    pub target: Target,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// Limits on hosts.
#[derive(Clone, Debug, Args)]
pub struct HostLimits {
    /// Maximum host connections per listening address [default: 1024]
    #[arg(long, value_name = "N", value_parser = count::<usize>, hide_short_help = true)]
    max_connections: Option<usize>,
    /// Maximum TCP connections from one machine [default: 256]
    #[arg(long, value_name = "N", value_parser = count::<usize>, hide_short_help = true)]
    max_connections_per_address: Option<usize>,
    /// Time limit for a host's handshake [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = handshake, hide_short_help = true)]
    handshake_timeout: Option<String>,
    /// Time limit to receive a request once it has begun [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = request, hide_short_help = true)]
    request_timeout: Option<String>,
    /// Memory for partly received requests, all hosts together [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = incomplete, hide_short_help = true)]
    max_incomplete: Option<String>,
    /// Log requests slower than this, with a breakdown of the time; or never [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = slow, hide_short_help = true)]
    slow_requests: Option<String>,
    /// Memory for requests in progress and unsent replies of all hosts [default: a quarter of the machine's, 4G at most]
    #[arg(long, value_name = "SIZE", value_parser = memory, hide_short_help = true)]
    memory: Option<String>,
}

impl HostLimits {
    /// As they were given.
    pub fn words(&self) -> LimitsInWords {
        LimitsInWords {
            connections: self.max_connections,
            connections_per_address: self.max_connections_per_address,
            handshake: self.handshake_timeout.clone(),
            request: self.request_timeout.clone(),
            incomplete: self.max_incomplete.clone(),
            slow: self.slow_requests.clone(),
            memory: self.memory.clone(),
        }
    }
}

/// One node by its number, or all nodes of a process by its name.
#[derive(Clone, Debug, Args)]
pub struct Whose {
    /// Node number, from 0; or the name of a process, for all its nodes
    #[arg(value_name = "NODE|BOX")]
    whose: String,
    /// The array, and the format of the answer.
    #[command(flatten)]
    pub common: Common,
}

impl Whose {
    /// The nodes that are meant; `node` is the number if one was given.
    pub fn nodes(&self, status: &Status) -> anyhow::Result<Vec<usize>> {
        Ok(status.nodes_of(&self.whose)?)
    }
}

/// Nodes by their numbers, in words.
pub fn numbered<N: ToString>(nodes: &[N]) -> String {
    let numbers: Vec<String> = nodes.iter().map(N::to_string).collect();
    format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// Reads the number of a node.
pub fn node(text: &str) -> Result<usize, String> {
    let why = "`weft node list` shows the numbers of nodes and the names of processes";
    text.parse().map_err(|_| format!("'{text}' is not a node number; {why}"))
}

/// Reads a number of things, 1 or more.
pub fn count<N: FromStr>(text: &str) -> Result<N, String> {
    let number = text.parse::<u64>().ok().filter(|n| *n > 0).and_then(|_| text.parse().ok());
    number.ok_or_else(|| format!("'{text}' is not a count; give a whole number from 1 on"))
}

/// Reads the address of a socket, whose host may be a name.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let like = || format!("'{text}' is not HOST:PORT; write it like 127.0.0.1:9810");
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    port.and_then(|port| port.parse::<u16>().ok()).ok_or_else(like)?;
    let found = text.to_socket_addrs().map_err(|e| format!("{}: {e}", like()))?;
    let found: Vec<SocketAddr> = found.collect();
    // Those who ask by a number mean the older kind.
    found.iter().find(|a| a.is_ipv4()).or(found.first()).copied().ok_or_else(like)
}

/// Reads the order of a disk's operations.
pub fn queue(text: &str) -> Result<String, String> {
    DiskQueue::new(Some(text), None).map(|_| text.to_string()).map_err(|e| without_key(&e))
}

/// Reads how many operations a disk is given at a time.
pub fn queue_depth(text: &str) -> Result<u32, String> {
    let depth = count(text)?;
    DiskQueue::new(None, Some(depth)).map(|_| depth).map_err(|e| without_key(&e))
}

/// Reads a switch.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("give on or off".to_string()),
    }
}

/// An error about a value, without the key that files have for it.
fn without_key(error: &weft_host::Error) -> String {
    error.0.split_once(": ").map_or(error.0.as_str(), |(_, why)| why).to_string()
}

/// Reads a limit on hosts. An error is reported by the option's name.
fn limit(text: &str, said: impl Fn(String) -> LimitsInWords) -> Result<String, String> {
    let checked = said(text.to_string()).over(Limits::default());
    checked.map(|_| text.to_string()).map_err(|e| without_key(&e))
}

fn handshake(text: &str) -> Result<String, String> {
    limit(text, |text| LimitsInWords { handshake: Some(text), ..LimitsInWords::default() })
}

fn request(text: &str) -> Result<String, String> {
    limit(text, |text| LimitsInWords { request: Some(text), ..LimitsInWords::default() })
}

fn incomplete(text: &str) -> Result<String, String> {
    limit(text, |text| LimitsInWords { incomplete: Some(text), ..LimitsInWords::default() })
}

fn slow(text: &str) -> Result<String, String> {
    limit(text, |text| LimitsInWords { slow: Some(text), ..LimitsInWords::default() })
}

fn memory(text: &str) -> Result<String, String> {
    limit(text, |text| LimitsInWords { memory: Some(text), ..LimitsInWords::default() })
}

/// Reads a size such as `64K`.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|e| e.to_string())
}

/// Reads the size of a volume: as [`size`], or `all` (0) for all the room that is left.
pub fn volume_size(text: &str) -> Result<u64, String> {
    match text {
        "all" => Ok(0),
        _ => match size(text)? {
            0 => {
                Err("a volume cannot have 0 bytes; give a size, or 'all' for all free space".into())
            }
            bytes => Ok(bytes),
        },
    }
}

/// Reads a volume as `NAME:SIZE`.
pub fn volume(text: &str) -> Result<(String, u64), String> {
    let Some((name, bytes)) = text.rsplit_once(':') else {
        return Err(format!("'{text}' is not NAME:SIZE; write it like vol0:1G, or vol0:all"));
    };
    Ok((name.to_string(), volume_size(bytes)?))
}

/// What to say of a layout's name.
pub fn layout_help() -> String {
    format!("The layout: {}", LayoutSpec::forms())
}

/// The same where there is a layout that is taken if none is given.
pub fn layout_help_by_default() -> String {
    format!("{} [default: {}]", layout_help(), LayoutSpec::default())
}

/// Reads a layout by its name.
pub fn layout(text: &str) -> Result<LayoutSpec, String> {
    text.parse().map_err(|e: weft_core::layout::LayoutError| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use weft_host::status::NodeStatus;

    use super::*;

    #[test]
    fn nodes_are_meant_by_number_or_by_the_name_of_their_process() {
        let node = |node, name: &str, there: bool| NodeStatus {
            node,
            name: Some(name.into()),
            address: there.then(|| "a:1".into()),
            ..NodeStatus::default()
        };
        let nodes = vec![node(0, "b0", true), node(1, "b1", false), node(2, "b1", true)];
        let status = Status { nodes, ..Status::default() };
        let target = Target { dir: None };
        let said = |whose: &str| {
            let common = Common { target: target.clone(), json: false };
            let whose = Whose { whose: whose.to_string(), common };
            whose.nodes(&status).map_err(|e| e.to_string())
        };
        assert_eq!(said("7"), Ok(vec![7]));
        assert_eq!(said("b1"), Ok(vec![2]), "not what was replaced");
        assert_eq!(said("b7"), Err("no process is called 'b7'; there are: b0, b1".to_string()));
    }

    #[test]
    fn counts_are_whole_numbers_from_1_on() {
        assert_eq!(count::<usize>("5"), Ok(5));
        assert_eq!(count::<NonZeroUsize>("5").map(NonZeroUsize::get), Ok(5));
        for text in ["abc", "1.5", "0", "-1", "", "99999999999999999999"] {
            let error = count::<u32>(text).unwrap_err();
            assert_eq!(error, format!("'{text}' is not a count; give a whole number from 1 on"));
        }
        assert!(count::<u32>("4294967296").is_err());
    }

    #[test]
    fn addresses_have_a_port_and_may_have_a_name() {
        assert_eq!(address("127.0.0.1:9810"), Ok("127.0.0.1:9810".parse().unwrap()));
        assert_eq!(address("[::1]:9810"), Ok("[::1]:9810".parse().unwrap()));
        assert!(address("localhost:9810").unwrap().ip().is_loopback());
        for text in ["127.0.0.1", ":9810", "a:b", "localhost:99999", ""] {
            assert!(address(text).unwrap_err().contains("is not HOST:PORT"), "{text}");
        }
    }

    #[test]
    fn a_limit_is_refused_by_the_name_of_its_option() {
        #[derive(Debug, clap::Parser)]
        struct Command {
            #[command(flatten)]
            limits: HostLimits,
        }
        let parse = |option: &str, value: &str| {
            <Command as clap::Parser>::try_parse_from(["weft", option, value])
        };
        for (option, value, why) in [
            ("--max-incomplete", "1K", "too little"),
            ("--memory", "1K", "too little"),
            ("--handshake-timeout", "5", "not a duration"),
            ("--request-timeout", "0s", "cannot be 0s"),
            ("--slow-requests", "1us", "or never"),
            ("--max-connections", "0", "from 1 on"),
        ] {
            let error = parse(option, value).unwrap_err().to_string();
            assert!(error.contains(option) && error.contains(why), "{error}");
            assert!(!error.contains("incomplete: 1"), "{error}");
        }
        assert!(parse("--slow-requests", "never").is_ok());
    }

    #[test]
    fn orders_of_a_queue_are_those_that_a_disk_can_have() {
        assert_eq!(queue("sstf"), Ok("sstf".to_string()));
        let known = "choose from fcfs, sstf, c-look";
        assert!(queue("fifo").unwrap_err().contains(known), "{:?}", queue("fifo"));
        assert!(queue("sptf").unwrap_err().contains(known));
        assert_eq!(queue_depth("256"), Ok(256));
        assert!(queue_depth("257").unwrap_err().contains("1 to 256"));
        assert!(queue_depth("1.5").unwrap_err().contains("whole number"));
    }

    #[test]
    fn volumes_are_names_with_sizes() {
        assert_eq!(volume("a:1G"), Ok(("a".into(), 1 << 30)));
        assert_eq!(volume("a:all"), Ok(("a".into(), 0)));
        assert!(volume("a:0").unwrap_err().contains("'all'"));
        assert!(volume("a").unwrap_err().contains("NAME:SIZE"));
    }
}
