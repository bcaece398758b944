//! What several commands take: sizes, layouts, switches, addresses, the directory.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weft_core::layout::LayoutSpec;
use weft_host::{Control, Listen, parse_size};

/// Which running array is meant.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Directory of the array
    #[arg(long, default_value = "./weft-data")]
    pub dir: PathBuf,
}

impl Target {
    /// Connects to the array.
    pub fn connect(&self) -> anyhow::Result<Control> {
        Ok(Control::connect(&self.dir)?)
    }
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

/// Something that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
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

/// Reads a layout by its name.
pub fn layout(text: &str) -> Result<LayoutSpec, String> {
    text.parse().map_err(|e: weft_core::layout::LayoutError| e.to_string())
}

/// Reads an address: a path (with a slash, or ending in `.sock`), or `HOST:PORT`.
pub fn listen(text: &str) -> Result<Listen, String> {
    if text.contains('/') || text.ends_with(".sock") {
        return Ok(Listen::Unix(PathBuf::from(text)));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(Listen::Tcp(text.to_string()))
        }
        _ => Err(format!(
            "'{text}' is neither HOST:PORT (such as 127.0.0.1:10809) nor the path of a socket \
             (with a slash, or ending in .sock)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_ports() {
        assert_eq!(listen("x.sock"), Ok(Listen::Unix("x.sock".into())));
        assert_eq!(listen("/run/weft"), Ok(Listen::Unix("/run/weft".into())));
        assert_eq!(listen("[::1]:9"), Ok(Listen::Tcp("[::1]:9".into())));
        for bad in ["", "host", "host:", ":9", "host:99999"] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn volumes_are_names_with_sizes() {
        assert_eq!(volume("a:1G"), Ok(("a".into(), 1 << 30)));
        assert_eq!(volume("a:all"), Ok(("a".into(), 0)));
        assert!(volume("a:0").unwrap_err().contains("'all'"));
        assert!(volume("a").unwrap_err().contains("NAME:SIZE"));
    }
}
