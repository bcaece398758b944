//! The scenarios that come with Weft.

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
