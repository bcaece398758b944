//! What a command says that serves hosts: how to use the volumes when it has begun, and how things stand when it ends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use weft_host::status::{Status, VolumeMode, VolumeStatus};
use weft_host::{Listen, Metrics, Stopped};
use weft_terminal::{bytes, say};

use crate::args;
use crate::output::{own_name, quoted, uri, uris};
use crate::volume::survives;

/// How long to wait between looks whether the nodes agree on a map.
const PAUSE: Duration = Duration::from_millis(20);

/// What is to be said at the end.
pub fn farewell(stopped: &Stopped) -> String {
    match removed(&stopped.removed) {
        Some(lost) => format!("{}\n{lost}", state_of_the_rest(stopped)),
        None => state_of_the_rest(stopped),
    }
}

/// The loss of disks whose files were removed while nodes used them, in words.
fn removed(nodes: &[usize]) -> Option<String> {
    let names: Vec<String> = nodes.iter().map(usize::to_string).collect();
    Some(match nodes {
        [] => return None,
        [node] => format!(
            "The file of node {node}'s disk had been removed, and its content is lost: after the next start, \
             `weft disk replace {node}` rebuilds it on an empty disk."
        ),
        _ => format!(
            "The files of the disks of nodes {} had been removed, and their content is lost: after the next start, \
             `weft disk replace` rebuilds what the others can.",
            names.join(", ")
        ),
    })
}

/// How things stand on the disks whose files are still there.
fn state_of_the_rest(stopped: &Stopped) -> String {
    let down: Vec<String> = stopped.down.iter().map(usize::to_string).collect();
    let all = if stopped.removed.is_empty() { "everything" } else { "everything else" };
    if down.len() == stopped.nodes && stopped.removed.is_empty() {
        return "stopped; no node was running. All acknowledged writes are on the disks"
            .to_string();
    }
    let absent = match down.len() {
        0 => String::new(),
        _ => format!(", except those of nodes that were down ({})", down.join(", ")),
    };
    if stopped.unfinished.is_empty() {
        return format!("stopped; {all} is on the disks{absent}");
    }
    let mut out = "stopped, without these, which did not finish:\n".to_string();
    for line in &stopped.unfinished {
        out += &format!("  {line}\n");
    }
    out += match stopped.removed.is_empty() {
        true => {
            "All acknowledged writes are safe; with the journal the next start finishes the rest."
        }
        false => "With the journal the next start finishes the rest.",
    };
    if !stopped.without_journal.is_empty() {
        out += &format!(
            "\nWithout journal, an unacknowledged write may be partly applied, with wrong parity: after the next start run \
             `weft scrub` on {}.",
            stopped.without_journal.join(", ")
        );
    }
    out
}

/// The longest path that a Unix socket can have.
const LONGEST_PATH: usize = 107;

/// A socket's whole path, so that it can be told to whoever asks from another directory. One
/// that is too long then is better used as it was given.
pub fn absolute(listen: Listen) -> Listen {
    match listen.path().map(std::path::absolute) {
        Some(Ok(whole)) if whole.as_os_str().len() <= LONGEST_PATH => listen.at_path(whole),
        _ => listen,
    }
}

/// Serves metrics of what runs on `dir`, should that be wanted, from before it runs: an address that is taken is found
/// then.
pub fn serve_metrics(at: Option<SocketAddr>, dir: &Path) -> Result<()> {
    let Some(at) = at else { return Ok(()) };
    let (metrics, dir) = (Metrics::bind(at)?, dir.to_path_buf());
    let ask = move || {
        let mut control = args::connect(&dir).map_err(|e| weft_host::Error(format!("{e:#}")))?;
        control.status()
    };
    Ok(metrics.serve(ask)?)
}

/// A running array whose user is to see how it is used.
#[derive(Clone, Debug)]
pub struct Greeted {
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it has just been created: only then are commands shown that write to a volume.
    pub is_new: bool,
}

/// Waits until the array serves, then says how to use it.
pub fn greet(array: &Greeted) -> Result<()> {
    greet_when(&array.dir, array, |status| status.settled)
}

/// Waits until an array is like this, then says how to use it. Asks the process in `asked`.
pub fn greet_when(asked: &Path, array: &Greeted, ready: impl Fn(&Status) -> bool) -> Result<()> {
    let mut control = args::connect(asked)?;
    loop {
        let status = control.status()?;
        if ready(&status) {
            return say(greeting(array, &status));
        }
        thread::sleep(PAUSE);
    }
}

fn greeting(Greeted { dir, is_new }: &Greeted, status: &Status) -> String {
    let Status { nodes, volumes, listens, .. } = status;
    let count = match nodes.len() {
        1 => "1 node".to_string(),
        n => format!("{n} nodes"),
    };
    let mut out = format!("weft serves {} from {count}\n", dir.display());
    let there = || volumes.iter().filter(|v| v.mode != VolumeMode::Deleted);
    for volume in there() {
        let VolumeStatus { name, layout, mode, .. } = volume;
        let size = bytes(volume.size);
        out += &format!("\n  {name}: {size}, {layout}, {mode}; survives: {}\n", survives(volume));
        for uri in uris(listens, volume) {
            out += &format!("    {uri}\n");
        }
    }
    let victim = nodes.len().saturating_sub(1).min(2);
    let by_nbd = listens.iter().find(|listen| listen.starts_with("nbd"));
    if let (Some(volume), Some(listen)) = (there().next(), by_nbd) {
        let (uri, dir, weft) = (uri(listen, volume), quoted(dir), own_name());
        out += &format!("\nTry next:\n  nbdinfo '{uri}'\n");
        if *is_new {
            out += &format!(
                "  head -c 64M /dev/urandom > some.img\n  \
                 nbdcopy some.img '{uri}'     (overwrites the volume)\n  \
                 fio --name=try --ioengine=nbd --uri='{uri}' --rw=randrw --bs=4k --iodepth=32 --size=64m\n"
            );
        }
        out += &format!(
            "  {weft} status --dir {dir}\n  \
             {weft} node kill {victim} --dir {dir}\n"
        );
    }
    out + "\nCtrl-C stops it."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_writes_to_a_volume_is_proposed_for_an_array_that_was_there() {
        let volume = VolumeStatus { name: "v".into(), size: 1 << 20, ..VolumeStatus::default() };
        let listens = vec!["nbd://127.0.0.1:10809".to_string()];
        let status = Status { volumes: vec![volume], listens, ..Status::default() };
        let said = |is_new| greeting(&Greeted { dir: "a".into(), is_new }, &status);
        assert!(said(true).contains("nbdcopy some.img"), "{}", said(true));
        let later = said(false);
        assert!(later.contains("nbdinfo 'nbd://127.0.0.1:10809/v'"), "{later}");
        assert!(!later.contains("nbdcopy") && !later.contains("fio"), "{later}");
    }

    #[test]
    fn last_words_are_true() {
        let clean = Stopped { nodes: 5, ..Stopped::default() };
        assert_eq!(farewell(&clean), "stopped; everything is on the disks");
        let degraded = Stopped { down: vec![1, 3], ..clean.clone() };
        assert!(farewell(&degraded).ends_with("nodes that were down (1, 3)"));
        let none = Stopped { down: vec![0, 1, 2, 3, 4], ..clean.clone() };
        assert!(farewell(&none).contains("no node was running"));
        let removed = Stopped { removed: vec![2], ..clean.clone() };
        let words = farewell(&removed);
        assert!(words.starts_with("stopped; everything else is on the disks\n"), "{words}");
        assert!(words.contains("`weft disk replace 2` rebuilds it"), "{words}");
        let all = Stopped { removed: vec![0, 1], unfinished: vec!["a".into()], ..clean.clone() };
        assert!(farewell(&all).contains("nodes 0, 1 had been removed"));
        assert!(!farewell(&all).contains("are safe"));
        let hasty = Stopped { unfinished: vec!["node 2: 3 requests".to_string()], ..clean };
        let words = farewell(&hasty);
        assert!(!words.contains("everything"), "{words}");
        assert!(words.contains("  node 2: 3 requests\n"), "{words}");
        assert!(!words.contains("scrub"), "{words}");
        let bare = Stopped { without_journal: vec!["scratch".to_string()], ..hasty };
        assert!(farewell(&bare).contains("`weft scrub` on scratch"));
    }
}
