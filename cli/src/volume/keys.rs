//! What may have been meant by a key that `weft volume set` does not know.

use anyhow::{Error, anyhow};
use weft_core::policy::{CHOICES, choice};
use weft_scenario::keys::most_like;

use super::{Set, Volume};

impl Volume {
    /// What went wrong, and what may have been meant.
    pub(super) fn explained(&self, error: weft_host::Error) -> Error {
        let hint = match self {
            Volume::Set(set) => set.hint(),
            _ => None,
        };
        hint.map_or_else(|| error.clone().into(), |hint| anyhow!("{error}; {hint}"))
    }
}

impl Set {
    fn hint(&self) -> Option<String> {
        let (key, value) = self.set.iter().find(|(key, _)| choice(key).is_none())?;
        let name = &self.name;
        Some(match key.as_str() {
            "size" => format!("`weft volume resize {name} {value}` changes the size"),
            "name" => format!("`weft volume rename {name} {value}` changes the name"),
            "layout" | "stripe-unit" | "apart" => {
                format!("{key} is chosen when a volume is created, and cannot change")
            }
            key => {
                let keys = CHOICES.iter().filter(|c| c.in_use).map(|c| c.key);
                format!("did you mean {}?", most_like(&key.replace('_', "-"), keys)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        volume: super::Volume,
    }

    #[test]
    fn what_may_have_been_meant_is_said() {
        for (key, said) in [
            ("size=2G", "no; `weft volume resize db 2G` changes the size"),
            ("name=x", "no; `weft volume rename db x` changes the name"),
            ("layout=raid6", "no; layout is chosen when a volume is created, and cannot change"),
            ("comit=late", "no; did you mean commit?"),
            ("lost_wait=1m", "no"),
            ("lost_wiat=1m", "no; did you mean lost-wait?"),
            ("commit=maybe", "no"),
            ("entirely-different=1", "no"),
        ] {
            let line = Line::try_parse_from(["weft", "set", "db", key]).unwrap();
            let error = weft_host::Error("no".to_string());
            assert_eq!(line.volume.explained(error).to_string(), said, "{key}");
        }
    }
}
