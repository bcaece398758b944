//! How names of the orchestrator become names in Weft: never two of them the same.
//!
//! | the orchestrator's name | in Weft |
//! |---|---|
//! | letters, digits, dots, dashes and underscores, short enough | `csi-NAME` |
//! | any other that is short enough | `csi.x` and its bytes in hexadecimal |
//! | longer ones | `csi.d` and the first 24 bytes of its SHA-256 in hexadecimal |

use std::fmt::Write;

use ring::digest::{SHA256, digest};

/// Bytes of a name: so that a snapshot's full name is no longer than an identifier of the interface may be, 128.
const LONGEST: usize = 63;

/// Bytes of a digest that are kept.
const KEPT: usize = 24;

/// What separates the volume from the snapshot in the full name of a snapshot.
const MARK: char = '@';

/// What a name is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A volume.
    Volume,
    /// A snapshot of one volume: the part of its name behind the `@`.
    Snapshot,
    /// Snapshots of several volumes at one instant: the part of their names behind the `@`.
    Group,
    /// A snapshot that a volume is cloned from, by the name of the clone.
    Clone,
}

impl Use {
    fn prefix(self) -> &'static str {
        match self {
            Use::Volume | Use::Snapshot => "csi",
            Use::Group => "csi-group",
            Use::Clone => "csi-clone",
        }
    }

    /// Whether a name in Weft may be of this use.
    pub fn is_of(self, name: &str) -> bool {
        let rest = name.strip_prefix(self.prefix());
        let is = rest.is_some_and(|rest| rest.starts_with(['-', '.']));
        let longer = [Use::Group, Use::Clone].into_iter();
        is && !longer
            .filter(|other| other.prefix().len() > self.prefix().len())
            .any(|o| o.is_of(name))
    }

    /// The name in Weft.
    pub fn name(self, name: &str) -> String {
        let prefix = self.prefix();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let as_it_is = format!("{prefix}-{name}");
        let is_fit = !name.is_empty() && as_it_is.len() <= LONGEST && name.chars().all(plain);
        // What looks like a name of another use is written otherwise.
        if is_fit && self.is_of(&as_it_is) {
            return as_it_is;
        }
        let in_full = format!("{prefix}.x{}", hex(name.as_bytes()));
        match in_full.len() <= LONGEST {
            true => in_full,
            false => {
                format!("{prefix}.d{}", hex(&digest(&SHA256, name.as_bytes()).as_ref()[..KEPT]))
            }
        }
    }
}

/// Bytes of the longest name of a host.
const LONGEST_HOST: usize = 32;

/// Bytes of the digest in the name of a host that has another name in the orchestrator.
const KEPT_OF_HOST: usize = 4;

/// The name by which the cluster knows a machine: the same, if it is valid there.
pub fn host_name(machine: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inside = |c: char| if is_plain(c) { c } else { '-' };
    let as_it_is = machine.chars().all(|c| is_plain(c) || c == '-')
        && (1..=LONGEST_HOST).contains(&machine.len())
        && !machine.starts_with('-')
        && !machine.ends_with('-');
    if as_it_is {
        return machine.to_string();
    }
    let digits = hex(&digest(&SHA256, machine.as_bytes()).as_ref()[..KEPT_OF_HOST]);
    let begin: String = machine.chars().map(inside).take(LONGEST_HOST - 1 - digits.len()).collect();
    format!("{}-{digits}", begin.trim_matches('-')).trim_matches('-').to_string()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The full name of a snapshot.
pub fn snapshot(volume: &str, name: &str) -> String {
    format!("{volume}{MARK}{name}")
}

/// The volume of a snapshot, and the part behind the `@`.
pub fn parts(snapshot: &str) -> Option<(&str, &str)> {
    snapshot.split_once(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The orchestrator's name, of one that is not a digest.
    fn original(of: Use, name: &str) -> Option<String> {
        let rest = name.strip_prefix(of.prefix())?;
        if let Some(plain) = rest.strip_prefix('-') {
            return Some(plain.to_string());
        }
        let digits = rest.strip_prefix(".x")?;
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        String::from_utf8(bytes?).ok()
    }

    #[test]
    fn names_are_valid_and_can_be_read_back() {
        let uuid = "pvc-5e3c1b6e-8f5a-4c36-9d0a-6f1f7f1c9a57";
        assert_eq!(Use::Volume.name(uuid), format!("csi-{uuid}"));
        for of in [Use::Volume, Use::Snapshot, Use::Group, Use::Clone] {
            for name in [uuid, "a b", "", "é", "csi-a", "group-a", "clone.xa", ".", "x", "-"] {
                let there = of.name(name);
                assert!(there.len() <= LONGEST);
                assert!(there.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)));
                assert!(of.is_of(&there), "{there}");
                assert_eq!(original(of, &there).as_deref(), Some(name), "{there}");
            }
        }
    }

    #[test]
    fn different_names_stay_different_whatever_they_are_for() {
        let long = "n".repeat(127);
        let names = ["a", "A", "61", ".x61", "group-a", "clone-a", "a b", "a_b"];
        let names =
            names.iter().map(|n| n.to_string()).chain(["a", "b"].map(|end| format!("{long}{end}")));
        let names: Vec<String> = names.collect();
        let uses = [Use::Snapshot, Use::Group, Use::Clone];
        let all: Vec<String> =
            uses.iter().flat_map(|of| names.iter().map(|name| of.name(name))).collect();
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
        for name in &all {
            assert_eq!(uses.iter().filter(|of| of.is_of(name)).count(), 1, "{name}");
        }
    }

    #[test]
    fn machines_have_the_names_of_hosts() {
        assert_eq!(host_name("node-1"), "node-1");
        let long = host_name("ip-10-0-1-2.eu-central-1.compute.internal");
        assert!(long.starts_with("ip-10-0-1-2-eu-central-"), "{long}");
        assert_ne!(host_name("a.b"), host_name("a-b"));
        for machine in ["a.b", "A", "", "-a", &"a".repeat(33)] {
            let name = host_name(machine);
            assert!(weft_core::cluster::is_host_name(&name), "{machine}: {name}");
        }
    }

    #[test]
    fn a_snapshots_name_has_two_parts() {
        assert_eq!(parts(&snapshot("a", "b")), Some(("a", "b")));
        assert_eq!(parts("a"), None);
    }
}
