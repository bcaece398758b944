//! What several commands take: sizes, layouts, switches, addresses, the directory.

use std::path::{Path, PathBuf};

use clap::Args;
use weft_core::layout::LayoutSpec;
use weft_host::{Control, LimitsInWords, parse_size};

/// Which running array is meant.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Directory of the array, or of a node of a cluster
    #[arg(long, default_value = "./weft-data")]
    pub dir: PathBuf,
}

impl Target {
    /// Connects to the array, or to the first of the nodes below the directory that runs.
    pub fn connect(&self) -> anyhow::Result<Control> {
        connect(&self.dir)
    }
}

/// Connects to the array on `dir`, or to the first of the nodes below it that runs.
pub fn connect(dir: &Path) -> anyhow::Result<Control> {
    let own = Control::connect(dir);
    let below = || (0..).map(|n| node_dir(dir, n)).take_while(|d| d.is_dir());
    let control = match own {
        Err(e) => below().find_map(|d| Control::connect(&d).ok()).ok_or(e)?,
        Ok(control) => control,
    };
    Ok(control.telling(|what| eprintln!("weft: waiting for {what}")))
}

/// The directory of a node of `weft up --processes`.
pub fn node_dir(dir: &Path, node: usize) -> PathBuf {
    dir.join(format!("node-{node}"))
}

/// Which running array is meant, and how to answer.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The array.
    #[command(flatten)]
    pub target: Target,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// What hosts may take of what serves them.
#[derive(Clone, Debug, Args)]
pub struct HostLimits {
    /// Connections of hosts at each address [default: 1024]
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Connections over TCP from one machine [default: 256]
    #[arg(long, value_name = "N")]
    max_connections_per_address: Option<usize>,
    /// How long a host may take to say what it wants [default: 10s]
    #[arg(long, value_name = "TIME")]
    handshake_timeout: Option<String>,
    /// How long a host may take to send a request that it has begun [default: 1m]
    #[arg(long, value_name = "TIME")]
    request_timeout: Option<String>,
    /// Memory for requests that have not come whole, of all hosts together [default: 256M]
    #[arg(long, value_name = "SIZE")]
    max_incomplete: Option<String>,
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
        }
    }
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
            0 => Err("a volume of 0 bytes is of no use; give a size, or 'all' for all the room that is left".into()),
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
    use super::*;

    #[test]
    fn volumes_are_names_with_sizes() {
        assert_eq!(volume("a:1G"), Ok(("a".into(), 1 << 30)));
        assert_eq!(volume("a:all"), Ok(("a".into(), 0)));
        assert!(volume("a:0").unwrap_err().contains("'all'"));
        assert!(volume("a").unwrap_err().contains("NAME:SIZE"));
    }
}
