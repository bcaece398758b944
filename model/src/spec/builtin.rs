//! The parameter files that come with Weft.

use super::{Spec, SpecError};

const FILES: [(&str, &str); 11] = [
    ("hp97560-tickertaip", include_str!("../../specs/hp97560-tickertaip.toml")),
    ("hp97560", include_str!("../../specs/hp97560.toml")),
    ("hp-c3325", include_str!("../../specs/hp-c3325.toml")),
    ("hp-c3323a", include_str!("../../specs/hp-c3323a.toml")),
    ("hp-c2247a", include_str!("../../specs/hp-c2247a.toml")),
    ("hp-c2490a", include_str!("../../specs/hp-c2490a.toml")),
    ("hdd-20tb", include_str!("../../specs/hdd-20tb.toml")),
    ("drnet", include_str!("../../specs/drnet.toml")),
    ("shared-storage", include_str!("../../specs/shared-storage.toml")),
    ("flash", include_str!("../../specs/flash.toml")),
    ("ssd-2tb", include_str!("../../specs/ssd-2tb.toml")),
];

/// The names of the devices that come with Weft, and their parameter files.
pub fn builtins() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.into_iter()
}

/// The device of this name.
pub fn builtin(name: &str) -> Result<Spec, SpecError> {
    match FILES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Spec::parse(text),
        None => Err(SpecError::Unknown {
            name: name.into(),
            known: FILES.map(|(known, _)| known).join(", "),
        }),
    }
}
