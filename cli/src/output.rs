//! Parts of answers that several commands print.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;
use weft_bytes::escape::{in_uri, is_plain};
use weft_host::epoch_parts;
use weft_host::status::VolumeStatus;
use weft_terminal::say;

/// Why there is no thread.
pub const NO_THREAD: &str =
    "cannot start a thread; is the number of processes limited (`ulimit -u`, `pids.max`)?";

/// The map of an epoch, for people: in a cluster of processes which of the maps of its leader it is.
pub fn map_name(epoch: u64) -> String {
    match epoch_parts(epoch) {
        (0, number) => format!("map {number}"),
        (term, number) => format!("map {number} of term {term}"),
    }
}

/// The map that an answer is of.
pub fn map_of(answer: &Value) -> String {
    map_name(answer["epoch"].as_u64().unwrap_or_default())
}

/// Says first if an answer is the last that a process knew which is cut off.
pub fn say_cut_off(answer: &Value) -> Result<()> {
    match answer["cut_off"].as_str() {
        Some(text) => say(format!("NOT SERVED: {text}")),
        None => Ok(()),
    }
}

/// The addresses at which hosts reach a volume, as URIs. One that is for another volume is left out.
pub fn uris<'a>(
    listens: &'a [String],
    volume: &'a VolumeStatus,
) -> impl Iterator<Item = String> + 'a {
    let of_disks = |listen: &str| listen.starts_with("vhost-user");
    let of_volume = move |listen: &str| {
        let rest = listen.split_once(":///").map_or("", |(_, rest)| rest);
        rest.split_once('?').is_some_and(|(name, _)| name == volume.name)
    };
    let fits = move |listen: &&String| !of_disks(listen) || of_volume(listen);
    listens.iter().filter(fits).map(|listen| uri(listen, volume))
}

/// The URI of a volume at an address, given as URI without its name. By iSCSI it is the first unit of a target; that
/// of a disk by vhost-user has its name.
pub fn uri(listen: &str, volume: &VolumeStatus) -> String {
    let VolumeStatus { name: volume, iscsi_target, .. } = volume;
    if listen.starts_with("iscsi:") {
        return format!("{listen}/{iscsi_target}/0");
    }
    if listen.starts_with("vhost-user") {
        return listen.to_string();
    }
    match listen.split_once("+unix:///?socket=") {
        Some((scheme, path)) => {
            // The path is encoded already.
            let here = std::env::current_dir().unwrap_or_default();
            let before = match path.starts_with('/') {
                true => String::new(),
                false => format!("{}/", in_uri(here.as_os_str().as_bytes())),
            };
            format!("{scheme}+unix:///{volume}?socket={before}{path}")
        }
        None => format!("{listen}/{volume}"),
    }
}

/// How a shell finds this command: by its name where the path of commands has it, else by where it is.
pub fn own_name() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::current_exe() {
        Ok(own) => name_on(&own, std::env::split_paths(&path)),
        Err(_) => "weft".to_string(),
    }
}

fn name_on(own: &Path, path: impl Iterator<Item = PathBuf>) -> String {
    let own_file = own.canonicalize().ok();
    let mut there = path.map(|dir| dir.join("weft").canonicalize().ok()).filter(Option::is_some);
    // The first is the one that a shell takes.
    match there.next() == Some(own_file) {
        true => "weft".to_string(),
        false => quoted(own),
    }
}

/// A path as a shell takes it for one word.
pub fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    match path.bytes().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_named_as_a_shell_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let [own, other, empty] = ["own", "other", "empty"].map(|name| dir.path().join(name));
        for place in [&own, &other, &empty] {
            std::fs::create_dir(place).unwrap();
        }
        for place in [&own, &other] {
            std::fs::write(place.join("weft"), "").unwrap();
        }
        let file = own.join("weft");
        let said = |path: &[&PathBuf]| name_on(&file, path.iter().map(|p| p.to_path_buf()));
        assert_eq!(said(&[&empty, &own, &other]), "weft");
        let whole = file.display().to_string();
        assert_eq!(said(&[&other, &own]), whole, "another one comes first");
        assert_eq!(said(&[&empty]), whole);
    }

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        let quoted = |path| quoted(Path::new(path));
        assert_eq!(quoted("/srv/weft-1"), "/srv/weft-1");
        assert_eq!(quoted("sp ace'é"), r"'sp ace'\''é'");
    }

    #[test]
    fn maps_are_named_by_term_where_there_are_leaders() {
        assert_eq!(map_name(7), "map 7");
        assert_eq!(map_name(2 << 32 | 13), "map 13 of term 2");
        assert_eq!(map_of(&serde_json::json!({ "epoch": 3 })), "map 3");
    }

    #[test]
    fn uris_name_the_volume() {
        let volume = VolumeStatus {
            name: "v".into(),
            iscsi_target: "iqn.x:v".into(),
            ..VolumeStatus::default()
        };
        let uri = |listen| uri(listen, &volume);
        assert_eq!(uri("nbd://127.0.0.1:1"), "nbd://127.0.0.1:1/v");
        assert_eq!(uri("nbd+unix:///?socket=/a%20b/s"), "nbd+unix:///v?socket=/a%20b/s");
        assert_eq!(uri("weft+unix:///?socket=/s"), "weft+unix:///v?socket=/s");
        assert_eq!(uri("iscsi://127.0.0.1:3260"), "iscsi://127.0.0.1:3260/iqn.x:v/0");
        let disks = ["v", "w", ""].map(|name| format!("vhost-user+unix:///{name}?socket=/s"));
        assert_eq!(uris(&disks, &volume).collect::<Vec<_>>(), disks[..1]);
    }
}
