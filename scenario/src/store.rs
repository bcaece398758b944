//! The directory in which a study is kept: what it is (`study.json`) and the points that are done
//! (`points.jsonl`), so that it can be interrupted, resumed and put together from parts.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_sim::perf::System;

use crate::overload::Offered;
use crate::result::Measured;

/// The version whose results these are. Others' are not taken up.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is run: enough to write the results without the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The version that wrote it.
    pub weft: String,
    /// What the scenario is called.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// How each point was measured, for people.
    pub method: String,
    /// The keys that vary.
    pub axes: Vec<String>,
    /// All points.
    pub points: Vec<Place>,
}

/// A point of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The hash of its description.
    pub key: String,
    /// The values of the axes.
    pub at: Vec<Value>,
    /// What hosts offer, if they do not wait for answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,
}

/// A line of `points.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    result: Measured,
}

/// What is known of each point, by key.
pub type Done = BTreeMap<String, Measured>;

/// The key of a point: a hash of all that its result depends on, the program's version with it.
/// `place` is where it is run, and empty if it is simulated.
pub fn key(place: &str, system: &System) -> String {
    let description = serde_json::to_string(system).expect("a system has only values");
    format!("{:032x}", fnv1a(format!("{place}{VERSION}\n{description}").as_bytes()))
}

/// FNV-1a with 128 bits (Fowler, Noll, Vo; RFC 9923).
fn fnv1a(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let begin = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(begin, |hash, b| (hash ^ u128::from(*b)).wrapping_mul(PRIME))
}

/// A directory that is being written.
pub struct Store {
    file: File,
    path: PathBuf,
}

impl Store {
    /// Opens a directory, making it if there is none, and says which points are done.
    ///
    /// # Errors
    /// If another process writes to it, or what is there cannot be read.
    pub fn open(dir: &Path) -> Result<(Store, Done)> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let path = dir.join("points.jsonl");
        let open = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = open.with_context(|| path.display().to_string())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "{}: another process is writing there; give each its own --out",
                    dir.display()
                )
            }
            Err(TryLockError::Error(e)) => return Err(e).context(path.display().to_string()),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| path.display().to_string())?;
        // The last line may have been cut off in the middle.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64)?;
        }
        let done = parse(&path, &text[..whole])?;
        Ok((Store { file, path }, done))
    }

    /// Keeps a point.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&mut self, key: &str, result: &Measured) -> Result<()> {
        let line = Line { key: key.to_string(), result: result.clone() };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).with_context(|| self.path.display().to_string())
    }
}

fn parse(path: &Path, text: &str) -> Result<Done> {
    let mut done = Done::new();
    for (n, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line).with_context(|| {
            format!("{}:{}: this is not a result; delete the line", path.display(), n + 1)
        })?;
        done.insert(line.key, line.result);
    }
    Ok(done)
}

/// Writes a file of a directory.
///
/// # Errors
/// If it cannot be written.
pub fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

impl Study {
    /// Writes it to its directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let path = dir.join("study.json");
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Reads a study and the points of it that are done.
    ///
    /// # Errors
    /// If the directory has none.
    pub fn load(dir: &Path) -> Result<(Study, Done)> {
        let path = dir.join("study.json");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{}: `weft sim --out DIR` writes it", path.display()))?;
        let study: Study =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let path = dir.join("points.jsonl");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        Ok((study, parse(&path, &text[..whole])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the RFC's vectors: of nothing, and of "a".
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
