//! `weft mirror`: keeps a copy of a volume in another array up to date, from snapshot to snapshot.
//!
//! Each round takes a snapshot, and sends what has changed since the newest one that both arrays have. The newest pair is
//! kept at both ends for the next round; nothing else is remembered. So an interrupted mirror goes on where it was, also
//! from another machine, and in the other direction after the copy was used.

use std::collections::BTreeSet;
use std::io::{BufReader, BufWriter, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weft_core::cluster::Identity;
use weft_host::{Control, ControlRequest, stamp};
use weft_terminal::{bytes, say, say_json};

use super::export::{Export, Exported};
use super::import::{Import, left_over};
use super::{Stopped, listed};
use crate::args::{self, Common};

/// What the names of its snapshots begin with.
const PREFIX: &str = "mirror-";

/// Where an error comes from.
const THERE: &str = "the other array";

/// How often a mirror that waits looks for a signal.
const LOOK: Duration = Duration::from_millis(200);

/// The volume to mirror.
#[derive(Debug, Args)]
pub struct Mirror {
    /// Name of the volume
    volume: String,
    /// Directory of the other array, or of one that holds its forwarded control socket
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Name of the volume there [default: the same]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Repeat at this interval, such as 5m; without it, one round. A first round that fails ends the command
    #[arg(long, value_name = "TIME", value_parser = interval)]
    every: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

fn interval(text: &str) -> Result<Duration, String> {
    match weft_host::parse_seconds(text).map_err(|e| e.to_string())? {
        0 => Err("the time cannot be 0; give one such as 30s or 5m".to_string()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

/// A round that is complete.
struct Sent {
    snapshot: String,
    since: Option<String>,
    content: Exported,
    seconds: f64,
}

/// Both ends.
struct Ends {
    here: Control,
    there: Control,
}

impl Mirror {
    /// Mirrors once, or until a signal.
    pub fn run(&self) -> Result<ExitCode> {
        let stopped = Stopped::by_signals(false)?;
        let mut has_worked = false;
        loop {
            let begun = Instant::now();
            match self.round(&stopped) {
                Ok(sent) => {
                    has_worked = true;
                    self.say(&sent)?;
                }
                Err(_) if self.every.is_some() && stopped.is_set() => {}
                // The arguments may be wrong, and would be in each round.
                Err(e) if !has_worked => return Err(e),
                Err(e) => eprintln!("weft: {}: {e:#}", stamp(SystemTime::now())),
            }
            let Some(every) = self.every else { return Ok(ExitCode::SUCCESS) };
            while begun.elapsed() < every && !stopped.is_set() {
                thread::sleep(LOOK);
            }
            if stopped.is_set() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    /// One round.
    fn round(&self, stopped: &Stopped) -> Result<Sent> {
        let here = self.common.target.connect()?;
        let there = args::connect(&self.to).context(THERE)?;
        let mut ends = Ends { here, there };
        let prefix = self.prefix(&mut ends)?;
        let begun = Instant::now();
        let export = match self.interrupted(&mut ends)? {
            Some(export) => export,
            None => self.new_snapshot(&mut ends, &prefix)?,
        };
        let content = self.send(&mut ends, &export, stopped);
        let content = content.inspect_err(|_| self.delete_useless(&mut ends, &export))?;
        let Export { snapshot, since, .. } = export;
        self.delete_earlier(&mut ends, (&prefix, &snapshot), since.as_deref())?;
        Ok(Sent { snapshot, since, content, seconds: begun.elapsed().as_secs_f64() })
    }

    fn say(&self, Sent { snapshot, since, content, seconds }: &Sent) -> Result<()> {
        let [here, there] =
            [self.volume.as_str(), self.name()].map(|name| format!("{name}@{snapshot}"));
        if self.common.json {
            let since = since.as_ref().map(|since| format!("{}@{since}", self.volume));
            let mut answer = content.described(&here, since.as_deref());
            answer["copy"] = there.into();
            answer["seconds"] = (*seconds).into();
            return say_json(answer);
        }
        let since = since.as_ref().map_or(String::new(), |since| format!(" since {since}"));
        let sent = bytes(content.data);
        say(format!("{here} is in the other array as {there}: {sent}{since}, {seconds:.1} s"))
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.volume)
    }

    /// What its snapshots' names begin with: the arrays of two mirrors differ, or the volumes there.
    fn prefix(&self, ends: &mut Ends) -> Result<String> {
        let number = |control: &mut Control| -> Result<String> {
            let answer = control.request(&ControlRequest::ClusterShow)?;
            Ok(answer["id"].as_str().unwrap_or_default().to_string())
        };
        let (here, there) = (number(&mut ends.here)?, number(&mut ends.there)?);
        ensure!(
            here != there || self.name() != self.volume,
            "a volume cannot be mirrored to itself; give the directory of another array with --to, or another name with --as"
        );
        let target = weft_bytes::checksum::crc32c(format!("{there} {}", self.name()).as_bytes());
        Ok(format!("{PREFIX}{target:08x}-"))
    }

    /// Takes a snapshot, to be sent from the newest pair on.
    fn new_snapshot(&self, ends: &mut Ends, prefix: &str) -> Result<Export> {
        let since = match self.has_copy(ends)? {
            true => Some(self.newest_pair(ends, prefix)?),
            // Earlier snapshots are kept until the full copy is there: the volume there may only have another name now.
            false => None,
        };
        let snapshot = format!("{prefix}{}", time_in_names(SystemTime::now()));
        let (volumes, name) = (vec![self.volume.clone()], snapshot.clone());
        ends.here.request(&ControlRequest::VolumeSnapshot { volumes, snapshot: name })?;
        Ok(Export { volume: self.volume.clone(), snapshot, since, from: 0 })
    }

    /// Whether the volume is there. One that was deleted is not replaced while it can be restored.
    fn has_copy(&self, ends: &mut Ends) -> Result<bool> {
        let all = listed(&mut ends.there, false).context(THERE)?;
        let mut named = all.iter().filter(|v| v.name == self.name()).peekable();
        let was_there = named.peek().is_some();
        let is_there = named.any(|v| v.deleted_seconds_left.is_none());
        ensure!(
            is_there || !was_there,
            "volume '{name}' of the other array is deleted, and can be restored there with `weft volume undelete {name}`; for a \
             new copy of it, delete it permanently there (`weft volume delete {name} --now`), or give another name with --as",
            name = self.name()
        );
        Ok(is_there)
    }

    /// The newest snapshot here that the volume there has, too, and that is not larger than the volume is now. Deletes
    /// the snapshots of later rounds that failed.
    fn newest_pair(&self, ends: &mut Ends, prefix: &str) -> Result<String> {
        let there = snapshots(&mut ends.there, self.name()).context(THERE)?;
        let there = there.into_iter().filter_map(|snapshot| snapshot.identity).collect();
        let here = snapshots(&mut ends.here, &self.volume)?;
        let volumes = listed(&mut ends.here, false)?;
        let volume = volumes.iter().find(|v| v.name == self.volume);
        let size = volume.map_or(u64::MAX, |volume| volume.size);
        let Some(pair) = here.iter().rposition(|s| s.is_in(&there) && s.size <= size) else {
            return Err(self.no_pair(here.iter().any(|s| s.is_in(&there))));
        };
        let unsent = here[pair + 1..].iter().filter(|s| !s.is_in(&there));
        for Taken { name, .. } in unsent.filter(|s| s.name.starts_with(prefix)) {
            delete_unless_needed(&mut ends.here, &self.volume, name);
        }
        Ok(here[pair].name.clone())
    }

    /// Why only a full copy can be sent.
    fn no_pair(&self, are_larger: bool) -> anyhow::Error {
        let (name, volume) = (self.name(), &self.volume);
        let why = match are_larger {
            false => format!("has no snapshot in common with volume '{volume}' here"),
            true => format!(
                "and volume '{volume}' here, which was rolled back, have only snapshots in common that are larger than it is now"
            ),
        };
        anyhow::anyhow!(
            "volume '{name}' of the other array {why}, so changes cannot be sent; give another name with --as, or delete it \
             there (`weft volume delete {name} --now`)"
        )
    }

    /// Deletes the snapshot of a full copy that has failed, unless the other array keeps a part to continue with.
    /// Otherwise each round would leave one.
    fn delete_useless(&self, ends: &mut Ends, export: &Export) {
        if export.since.is_none() && self.is_kept(ends, export).is_ok_and(|is_kept| !is_kept) {
            delete_unless_needed(&mut ends.here, &self.volume, &export.snapshot);
        }
    }

    /// Whether the other array keeps a part of a snapshot.
    fn is_kept(&self, ends: &mut Ends, export: &Export) -> Result<bool> {
        let left = left_over(&mut ends.there, self.name())?;
        let Some(part) = left.and_then(|left| left.transfer) else { return Ok(false) };
        let here = snapshots(&mut ends.here, &self.volume)?;
        Ok(here.iter().any(|s| s.name == export.snapshot && s.identity == part.identity))
    }

    /// The rest of a round that was interrupted, if its snapshots are still there.
    fn interrupted(&self, ends: &mut Ends) -> Result<Option<Export>> {
        let left = left_over(&mut ends.there, self.name()).context(THERE)?;
        let left = left.filter(|left| left.clients == 0);
        let Some(transfer) = left.and_then(|left| left.transfer) else { return Ok(None) };
        if transfer.base.is_none() && self.has_copy(ends)? {
            // A full copy could not get its name.
            return Ok(None);
        }
        let here = snapshots(&mut ends.here, &self.volume)?;
        let named = |identity: &Option<String>| {
            let is_it = |its: &Option<String>| its.is_some() && its == identity;
            here.iter().find(|s| is_it(&s.identity)).map(|s| s.name.clone())
        };
        let (Some(from), Some(snapshot)) =
            (transfer.done.filter(|done| *done > 0), named(&transfer.identity))
        else {
            return Ok(None);
        };
        let since = match &transfer.base {
            None => None,
            base => match named(base) {
                Some(since) => Some(since),
                None => return Ok(None),
            },
        };
        Ok(Some(Export { volume: self.volume.clone(), snapshot, since, from }))
    }

    /// Sends a snapshot, or its changes since another.
    fn send(&self, ends: &mut Ends, export: &Export, stopped: &Stopped) -> Result<Exported> {
        let import = Import::of(self.name());
        let (input, output) = std::io::pipe()?;
        let Ends { here, there } = ends;
        thread::scope(|scope| {
            let reader = thread::Builder::new().spawn_scoped(scope, || {
                import.read(there, BufReader::with_capacity(1 << 20, input), stopped)
            })?;
            let out = BufWriter::with_capacity(1 << 20, output);
            let written = export.write(here, out, stopped);
            let read = reader.join().unwrap_or_else(|_| bail!("the import ended unexpectedly"));
            match (written, read) {
                (Ok(_), Ok((_, imported))) => Ok(imported),
                // The other end is why.
                (Err(e), Err(why)) if is_broken_pipe(&e) => Err(why.context(THERE)),
                (Err(e), _) => Err(e),
                (Ok(_), Err(e)) => Err(e.context(THERE)),
            }
        })
    }

    /// Deletes the snapshots of earlier rounds at both ends.
    fn delete_earlier(
        &self,
        ends: &mut Ends,
        (prefix, newest): (&str, &str),
        base: Option<&str>,
    ) -> Result<()> {
        // The last pair of the other direction is not needed any more either.
        let is_earlier = |name: &str| {
            let is_base = base == Some(name) && name.starts_with(PREFIX);
            (name.starts_with(prefix) || is_base) && name != newest
        };
        let Ends { here, there } = ends;
        for (control, volume) in [(here, self.volume.as_str()), (there, self.name())] {
            for Taken { name, .. } in snapshots(control, volume)? {
                if is_earlier(&name) {
                    delete_unless_needed(control, volume, &name);
                }
            }
        }
        Ok(())
    }
}

/// The time as names of snapshots have it.
fn time_in_names(now: SystemTime) -> String {
    stamp(now).chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_it = |e: &std::io::Error| e.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_it))
}

/// A snapshot of a volume.
struct Taken {
    /// Its name without the volume's.
    name: String,
    /// What identifies its content in both arrays.
    identity: Option<String>,
    size: u64,
}

impl Taken {
    fn is_in(&self, there: &BTreeSet<String>) -> bool {
        self.identity.as_ref().is_some_and(|identity| there.contains(identity))
    }
}

/// The snapshots of a volume in the order in which they were taken.
fn snapshots(control: &mut Control, volume: &str) -> Result<Vec<Taken>> {
    let mut all = listed(control, true)?;
    all.sort_by_key(|v| v.id);
    let its = all.into_iter().filter_map(|v| {
        let name = v.name.strip_prefix(volume)?.strip_prefix('@')?.to_string();
        let identity = v.transfer.and_then(|t| t.identity);
        // Of a later version, perhaps.
        let identity = identity.filter(|text| text.parse::<Identity>().is_ok());
        Some(Taken { name, identity, size: v.size })
    });
    Ok(its.collect())
}

/// Deletes a snapshot. One that has a clone stays.
fn delete_unless_needed(control: &mut Control, volume: &str, snapshot: &str) {
    let name = format!("{volume}@{snapshot}");
    if let Err(e) = control.request(&ControlRequest::VolumeDelete { name, now: true }) {
        eprintln!("weft: {volume}@{snapshot} is kept: {e:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_can_be_in_names() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_735_689_599_250);
        assert_eq!(time_in_names(at), "20241231T235959250Z");
    }

    #[test]
    fn an_interval_is_not_zero() {
        assert_eq!(interval("5m"), Ok(Duration::from_secs(300)));
        assert!(interval("0s").unwrap_err().contains("30s"));
        assert!(interval("often").is_err());
    }
}
