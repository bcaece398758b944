//! `weft recover`: makes the map's file anew from the copies on the disks, and says what there was.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use weft_host::{Configuration, Findings, Remains, recover, refound};
use weft_terminal::{say, say_json};

use crate::args::usual_dir;
use crate::output::map_name;

/// Rebuild an array's weft.toml from the map copies on its disks, or found a cluster again after most voting
/// members have lost their logs. All its processes must be stopped.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whose").multiple(false))]
pub struct Recover {
    /// Directory of the array [default: the variable WEFT_DIR, or ./weft-data]
    #[arg(long, group = "whose")]
    dir: Option<PathBuf>,
    /// Print the copies found, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Use the newest copy even if the damaged weft.toml had a later version
    #[arg(long, conflicts_with = "config")]
    accept_older: bool,
    /// Configuration of a cluster's process: show the maps in its log and on its disks
    #[arg(long, value_name = "FILE", group = "whose")]
    config: Option<PathBuf>,
    /// Found the cluster again with the newest of these maps. All processes must be stopped; then each other process
    /// whose log is lost needs `weft cluster readmit`, and the rest join automatically
    #[arg(long, requires = "config", conflicts_with = "dry_run")]
    found: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Recover {
    /// Does it.
    pub fn run(&self) -> Result<ExitCode> {
        match &self.config {
            Some(config) => self.cluster(config)?,
            None => self.array()?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn array(&self) -> Result<()> {
        let found = recover(&usual_dir(self.dir.as_deref()), self.dry_run, self.accept_older)?;
        let (version, copies) = found.newest;
        if self.json {
            let disks = found.disks.iter().map(|(path, versions, said)| {
                json!({ "disk": path, "versions": versions, "said": said })
            });
            return say_json(json!({
                "directory": found.dir, "file": found.file, "disks": disks.collect::<Vec<_>>(),
                "missing": found.missing, "version": version, "copies": copies,
                "recovered": !self.dry_run,
            }));
        }
        say(format!("{}{}", findings(&found), self.outcome(&found)))
    }

    fn outcome(&self, found: &Findings) -> String {
        let dir = found.dir.display();
        match self.dry_run {
            true => format!(
                "Nothing was changed. `weft recover --dir {dir}` rebuilds weft.toml from it."
            ),
            false => format!(
                "weft.toml is rebuilt{}. Start the array with\n\n  weft up --dir {dir}",
                match found.file == "missing" {
                    true => "",
                    false => "; the old file is now weft.toml.damaged",
                }
            ),
        }
    }

    fn cluster(&self, path: &Path) -> Result<()> {
        let remains = refound(Configuration::load(path)?, self.found)?;
        if self.json {
            let disks = remains.disks.iter();
            let disks = disks.map(|(path, epochs)| json!({ "disk": path, "epochs": epochs }));
            return say_json(json!({
                "log": remains.log, "log_epoch": remains.log_epoch,
                "disks": disks.collect::<Vec<_>>(), "epoch": remains.newest, "founded": self.found,
            }));
        }
        let then = match self.found {
            true => format!(
                "The cluster is founded again with this map. Start this process with\n\n  weft node --config {}\n\n\
                 and then the others; those whose logs are lost first need `weft cluster readmit`.",
                path.display()
            ),
            false => "Nothing was changed. Run this for the other processes, too; then, with all processes stopped, run it with --found \
             for the one with the newest map."
                .to_string(),
        };
        say(format!("{}{then}", remaining(&remains)))
    }
}

/// What there are copies of, the newest first.
fn listed(numbers: &[u64], name: impl Fn(u64) -> String) -> String {
    match numbers.is_empty() {
        true => "none".to_string(),
        false => numbers.iter().map(|n| name(*n)).collect::<Vec<_>>().join(", "),
    }
}

fn findings(found: &Findings) -> String {
    let mut out = format!("weft.toml in {}: {}\n", found.dir.display(), found.file);
    for (path, versions, said) in &found.disks {
        out += &format!(
            "  {}: copies {}; it {said}\n",
            path.display(),
            listed(versions, |n| n.to_string())
        );
    }
    for path in &found.missing {
        out += &format!("  {}: does not exist\n", path.display());
    }
    let (version, copies) = found.newest;
    let disks = if copies == 1 { "disk has" } else { "disks have" };
    out + &format!("The newest copy has version {version}; {copies} {disks} it.\n")
}

fn remaining(remains: &Remains) -> String {
    let map =
        remains.log_epoch.map_or(String::new(), |epoch| format!("; it has {}", map_name(epoch)));
    let mut out = format!("The member's log: {}{map}\n", remains.log);
    for (path, epochs) in &remains.disks {
        out += &format!("  {}: copies of {}\n", path.display(), listed(epochs, map_name));
    }
    out + &format!("The newest here is {}.\n", map_name(remains.newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_the_names_that_they_have_elsewhere() {
        let remains = Remains {
            log: "whole".to_string(),
            log_epoch: Some(2 << 32 | 12),
            disks: vec![("d0".into(), vec![2 << 32 | 12, 11]), ("d1".into(), Vec::new())],
            newest: 2 << 32 | 12,
        };
        assert_eq!(
            remaining(&remains),
            "The member's log: whole; it has map 12 of term 2\n  d0: copies of map 12 of term 2, map 11\n  \
             d1: copies of none\nThe newest here is map 12 of term 2.\n"
        );
    }
}
