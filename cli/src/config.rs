//! `weft config check`: whether a process of a cluster can run with a configuration, before it is to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use weft_host::{Configuration, Home};
use weft_terminal::{say, say_json};

/// A command for a configuration.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Check that a process can run with a configuration on this machine: keys, disks and addresses. Nothing is changed
    Check(Check),
}

/// Which one.
#[derive(Debug, Args)]
pub struct Check {
    /// Configuration file, such as /etc/weft/box1.toml
    file: PathBuf,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Config {
    /// Does it.
    pub fn run(&self) -> Result<ExitCode> {
        let Config::Check(check) = self;
        let wrong = wrong_with(&check.file);
        match check.json {
            true => {
                say_json(json!({ "file": check.file, "good": wrong.is_empty(), "wrong": wrong }))?
            }
            false if wrong.is_empty() => {
                say(format!("{}: a process can run with it", check.file.display()))?;
            }
            false => wrong.iter().try_for_each(say)?,
        }
        Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// All that is wrong with a configuration.
fn wrong_with(file: &Path) -> Vec<String> {
    let config = match Configuration::load(file) {
        Ok(config) => config,
        Err(e) => return vec![e.to_string()],
    };
    let all = Home::check(&config).into_iter();
    all.map(|e| format!("{}: {e}", file.display())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn said(disks: &str, more: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("box1.toml");
        fs::write(dir.path().join("there"), [0; 4096]).unwrap();
        fs::write(dir.path().join("used"), [1; 4096]).unwrap();
        let text =
            format!("name = 'box1'\ndir = 'state'\n{disks}\naddress = '127.0.0.1:39471'\n{more}");
        fs::write(&file, text).unwrap();
        let wrong = wrong_with(&file);
        assert!(!dir.path().join("state").exists(), "nothing is changed");
        wrong.into_iter().map(|w| w.replace(&dir.path().display().to_string(), "D")).collect()
    }

    #[test]
    fn all_that_is_wrong_is_said() {
        assert_eq!(said("disk = 'there'\ndisk_size = '1G'", ""), [""; 0]);
        assert_eq!(said("disk = 'new'\ndisk_size = '1G'", ""), [""; 0]);
        assert_eq!(
            said("disks = ['new', 'there', 'other']", ""),
            ["new is not there", "there is not a block device", "other is not there"].map(
                |disk| format!(
                    "D/box1.toml: D/{disk}; give disk_size (or --size) to make a file of that size"
                )
            )
        );
        let size = "disk_size = '1G'";
        let used = said(&format!("disk = 'used'\n{size}"), "");
        assert!(used.len() == 1 && used[0].contains("used holds something; choose"), "{used:?}");
        let typo = said(&format!("disk = '/dev/weft-none'\n{size}"), "");
        assert!(
            typo.len() == 1 && typo[0].contains("there is no device /dev/weft-none"),
            "{typo:?}"
        );
        let unknown = said("disk = 'there'", "colour = 'red'");
        assert!(unknown.len() == 1 && unknown[0].contains("unknown field `colour`"), "{unknown:?}");
        let foreign = said(&format!("disk = 'there'\n{size}"), "admit = '192.0.2.1:10811'");
        assert!(foreign.len() == 1 && foreign[0].contains("admit"), "{foreign:?}");
    }
}
