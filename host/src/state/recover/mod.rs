//! The state directory made anew from the copies of the map on its disks.
//!
//! Nothing is done in silence: an array whose `weft.toml` is missing, damaged or older than a copy is refused,
//! with what the disks have; [`recover`] is what an operator then asks for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{self as state_file, Content};
use super::{FILE, SPARE};
use crate::disk::handle::Aside;
use crate::disk::map_copies::{Newest, OnDisk, newest};
use crate::disk::{self, Disk};
use crate::durable;
use crate::error::{Error, Result, at, fail};

/// How long a disk that is read is waited for. One that takes longer counts as missing.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// The name that a file gets which another one takes the place of.
const DAMAGED: &str = "weft.toml.damaged";

/// What there was to recover from, and what was made of it.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The directory.
    pub dir: PathBuf,
    /// What is the matter with `weft.toml`, in words.
    pub file: String,
    /// The disks, each with the versions of its copies, the newest first, and what is to be said of it.
    pub disks: Vec<(PathBuf, Vec<u64>, String)>,
    /// Disks that the map names and that are not there.
    pub missing: Vec<PathBuf>,
    /// The version of the newest copy, and the number of disks that have it.
    pub newest: (u64, usize),
}

/// Makes `weft.toml` anew from the newest copy on the disks in `dir`; with `dry_run` it only says what it finds. A
/// file that is as new as any copy is left alone. If the damaged file names a version that no copy
/// has, the map would go back: that takes `accept_older`.
///
/// # Errors
///
/// If the directory or a disk is in use, if there is no copy, if copies of one version differ, or if nothing is wrong.
pub fn recover(dir: &Path, dry_run: bool, accept_older: bool) -> Result<Findings> {
    if !durable::is_there(dir)? {
        return fail(format!("there is no directory {}", dir.display()));
    }
    let _lock = durable::lock(dir)?;
    let disks = disks_in(dir, true)?;
    one_cluster(&disks)?;
    let Some(newest) = newest(&disks) else {
        return fail(format!("{}; restore your own copy of {FILE}", nothing_found(dir, &disks)));
    };
    refuse_disagreement(&newest)?;
    let (content, text) = content_of(&newest)?;
    let file = judge_file(dir, &content, &text, accept_older || dry_run)?;
    let findings = Findings {
        dir: dir.to_path_buf(),
        file,
        disks: disks.iter().map(|d| shown(d, &newest)).collect(),
        missing: missing(dir, &content, &disks),
        newest: (newest.copy.version, newest.on.len()),
    };
    if !dry_run {
        let text = state_file::write(&ahead(content))?;
        let path = dir.join(FILE);
        if durable::is_there(&path)? {
            durable::rename(&path, &dir.join(DAMAGED))?;
        }
        durable::replace(&path, &dir.join(SPARE), text.as_bytes())?;
    }
    Ok(findings)
}

/// The disks in a directory, by their numbers. With `alone` each is refused that somebody has open.
fn disks_in(dir: &Path, alone: bool) -> Result<Vec<OnDisk>> {
    let entries = fs::read_dir(dir).map_err(at("read", dir))?;
    let number = |path: &PathBuf| -> Option<u32> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("disk-")?.strip_suffix(".img")?.parse().ok()
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|path| number(path).is_some());
    paths.sort_by_key(number);
    // At the same time: one that does not answer is waited for once.
    let reads = paths.into_iter().map(|path| {
        let its = path.clone();
        (path, Aside::begin(move || read(&its, alone)))
    });
    let reads: Vec<(PathBuf, Aside<Result<OnDisk>>)> = reads.collect();
    let read = |(path, aside): (PathBuf, Aside<Result<OnDisk>>)| {
        aside.within(ANSWERS_WITHIN).unwrap_or_else(|| Ok(OnDisk::unreadable(&path)))
    };
    reads.into_iter().map(read).collect()
}

/// Reads one. What can be no disk, or cannot be read, is one disk that is missing.
fn read(path: &Path, alone: bool) -> Result<OnDisk> {
    let is_disk = disk::check_kind(path).is_ok();
    let _alone = if alone && is_disk { Some(Disk::alone(path)?) } else { None };
    Ok(OnDisk::read(path).unwrap_or_else(|_| OnDisk::unreadable(path)))
}

fn one_cluster(disks: &[OnDisk]) -> Result<()> {
    let mut of = disks.iter().filter_map(|d| Some((d.of?.0, &d.path)));
    let Some((first, path)) = of.next() else { return Ok(()) };
    match of.find(|(cluster, _)| *cluster != first) {
        Some((_, other)) => fail(format!(
            "{} and {} are disks of different arrays; keep only those of one array in the directory",
            path.display(),
            other.display()
        )),
        None => Ok(()),
    }
}

fn refuse_disagreement(newest: &Newest) -> Result<()> {
    match (newest.on.first(), newest.against.first()) {
        (Some(one), Some(other)) => fail(format!(
            "{} and {} have different maps of version {}; move away the disk that belongs elsewhere or was used elsewhere",
            one.display(),
            other.display(),
            newest.copy.version
        )),
        _ => Ok(()),
    }
}

/// What the newest copy holds.
fn content_of(newest: &Newest) -> Result<(Content, String)> {
    let copy = newest.copy;
    let text = String::from_utf8_lossy(&copy.payload).into_owned();
    let content = state_file::read(&text)
        .map_err(|e| Error(format!("the copy of the map of version {}: {e}", copy.version)))?;
    match (content.cluster, content.version) == (copy.cluster, copy.version) {
        true => Ok((content, text)),
        false => fail(format!("the copy of version {} contradicts its header", copy.version)),
    }
}

/// What the file has from now on: the copy may be older than the map that is lost, so the numbers that volumes may have had since
/// are not given again. It is another map than the copies then, so it has the next version.
fn ahead(mut content: Content) -> Content {
    content.map.pass_over_forgotten_numbers();
    content.version += 1;
    content
}

/// Says what is the matter with the file that is there; refuses if it is the better one.
fn judge_file(dir: &Path, copy: &Content, text: &str, accept_older: bool) -> Result<String> {
    let path = dir.join(FILE);
    if !durable::is_there(&path)? {
        return Ok("missing".to_string());
    }
    let there = String::from_utf8_lossy(&fs::read(&path).map_err(at("read", &path))?).into_owned();
    let newer = |version: u64| version > copy.version && !accept_older;
    match state_file::read(&there) {
        Ok(content) if content.version > copy.version || there == text => fail(format!(
            "{} is intact, with version {}: there is nothing to recover",
            path.display(),
            content.version
        )),
        Ok(content) => Ok(format!("intact but older: version {}", content.version)),
        Err(e) if state_file::is_sealed(&there) => fail(format!("{}: {e}", path.display())),
        Err(_) if state_file::version_named(&there).is_some_and(newer) => fail(format!(
            "{} is damaged and had version {}; the newest copy has version {}. With the older \
             map, a node that has been down since may wrongly count as up to date. Look for \
             missing disks; if there are none, use the older map with \
             --accept-older, and then run `weft scrub`",
            path.display(),
            state_file::version_named(&there).unwrap_or(0),
            copy.version
        )),
        Err(e) => Ok(format!("damaged: {e}")),
    }
}

fn shown(disk: &OnDisk, newest: &Newest) -> (PathBuf, Vec<u64>, String) {
    let versions: Vec<u64> = disk.copies.iter().map(|c| c.version).collect();
    let said = match versions.first() {
        Some(version) if *version == newest.copy.version => "has the newest",
        Some(_) => "has older ones only: it was down",
        None => what_of(disk),
    };
    (disk.path.clone(), versions, said.to_string())
}

fn what_of(disk: &OnDisk) -> &'static str {
    match (disk.of, disk.keeps) {
        (None, _) => "is not a readable Weft disk",
        (_, false) => "has no copies: it is too small",
        (_, true) => "has no intact copy",
    }
}

fn missing(dir: &Path, content: &Content, disks: &[OnDisk]) -> Vec<PathBuf> {
    let all = (0..content.map.nodes.len()).map(|n| dir.join(format!("disk-{n}.img")));
    all.filter(|path| disks.iter().all(|d| d.path != *path)).collect()
}

fn nothing_found(dir: &Path, disks: &[OnDisk]) -> String {
    if disks.is_empty() {
        return format!("there are no disks in {}", dir.display());
    }
    let each = disks.iter().map(|d| format!("{} {}", d.path.display(), what_of(d)));
    format!("no disk has a copy of the map: {}", each.collect::<Vec<_>>().join("; "))
}

/// What the disks have, for whoever cannot use `weft.toml`.
fn hint(dir: &Path, disks: &[OnDisk]) -> String {
    match newest(disks) {
        Some(newest) => format!(
            "{} of {} disks have a copy, of version {}: `weft recover --dir {}` rebuilds it from that",
            newest.on.len(),
            disks.len(),
            newest.copy.version,
            dir.display()
        ),
        None => format!("{}; restore your own copy of {FILE}", nothing_found(dir, disks)),
    }
}

/// Refuses to make an array where there are disks of one whose map is missing.
pub(super) fn refuse_orphans(dir: &Path) -> Result<()> {
    if !durable::is_there(dir)? {
        return Ok(());
    }
    let disks = disks_in(dir, false)?;
    match newest(&disks) {
        Some(_) => {
            fail(format!("{FILE} is missing in {}, and {}", dir.display(), hint(dir, &disks)))
        }
        None => Ok(()),
    }
}

/// What to say of a file that cannot be used.
pub(super) fn damaged(dir: &Path, text: &str, why: &Error) -> Error {
    let path = dir.join(FILE);
    if state_file::is_sealed(text) {
        return Error(format!("cannot use {}: {why}", path.display()));
    }
    let hint = disks_in(dir, false).map_or_else(|e| e.to_string(), |disks| hint(dir, &disks));
    Error(format!("cannot use {}: {why}. {hint}", path.display()))
}

/// Refuses a file that is older than what disks have, or is another map of the same version.
pub(super) fn refuse_older(dir: &Path, content: &Content, text: &str) -> Result<()> {
    let mut disks = disks_in(dir, false)?;
    disks.retain(|d| d.of.is_some_and(|of| of.0 == content.cluster));
    let Some(newest) = newest(&disks) else { return Ok(()) };
    let (ours, theirs) = (content.version, newest.copy.version);
    if theirs < ours || (theirs == ours && newest.copy.payload == text.as_bytes()) {
        return Ok(());
    }
    let what = if theirs > ours { "an older copy of itself" } else { "damaged" };
    fail(format!(
        "{} is {what}: it has version {ours}. {}",
        dir.join(FILE).display(),
        hint(dir, &disks)
    ))
}

#[cfg(test)]
mod tests;
