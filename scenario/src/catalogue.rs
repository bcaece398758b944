//! The scenarios that come with Weft.

use anyhow::{Result, anyhow};

use crate::keys;

/// A scenario that comes with Weft.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name: the folder of the paper or topic, and the file without its ending.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

impl Entry {
    /// Where it stands in Weft's source.
    pub fn path(&self) -> String {
        format!("experiments/{}.toml", self.name)
    }
}

macro_rules! entries {
    ($($name:literal),* $(,)?) => {
        &[$(Entry {
            name: $name,
            text: include_str!(concat!("../../experiments/", $name, ".toml")),
        }),*]
    };
}

/// All of them.
pub const ENTRIES: &[Entry] = entries![
    "tickertaip/reads",
    "tickertaip/writes",
    "tickertaip/parity-placement",
    "tickertaip/commit",
    "tickertaip/central-vs-tickertaip",
    "tickertaip/rebuild",
    "tickertaip/scaling",
    "tickertaip/sequencers",
    "drnet/rebuild",
    "drnet/broken-links",
    "drnet/scaling",
    "bst/baseline",
    "bst/scaling",
    "bst/contention",
    "bst/reordering",
    "bst/real",
    "examples/copies",
    "examples/flash",
    "examples/parity-waits",
    "examples/replay",
    "examples/shared-bus",
    "validation/emulated",
    "validation/local",
];

/// The traces that those replay, by where they stand in Weft's source.
const TRACES: &[(&str, &str)] =
    &[("experiments/examples/replay.csv", include_str!("../../experiments/examples/replay.csv"))];

/// The text of the trace of this path.
pub fn trace(path: &str) -> Option<&'static str> {
    TRACES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|e| e.name == name)
}

/// The text of a scenario by its name, or of a trace that one of them replays, such as `examples/replay.csv`.
///
/// # Errors
/// If nothing of that name comes with Weft.
pub fn text(name: &str) -> Result<&'static str> {
    let found = find(name).map(|e| e.text).or_else(|| trace(&format!("experiments/{name}")));
    found
        .ok_or_else(|| anyhow!("no scenario that comes with Weft is called {name}; {}", like(name)))
}

/// What may have been meant by a name that no scenario has.
pub(crate) fn like(name: &str) -> String {
    let like = keys::most_like(name, ENTRIES.iter().map(|e| e.name));
    let meant = like.map_or(String::new(), |n| format!("did you mean {n}? "));
    format!("{meant}`weft sim --list` lists all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_name() {
        assert_eq!(text("tickertaip/reads").unwrap(), find("tickertaip/reads").unwrap().text);
        assert!(text("examples/replay.csv").unwrap().starts_with("time_"));
        let error = text("tickertaip/reeds").unwrap_err().to_string();
        assert!(error.contains("did you mean tickertaip/reads?"), "{error}");
    }
}
