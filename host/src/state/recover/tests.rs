//! Recovery from the copies that disks have, read as from areas: small disks have none.

use weft_core::cluster::ClusterMap;
use weft_core::store::map_area::MapCopy;

use super::*;
use crate::spec::Spec;
use crate::state::State;

/// An array's directory, and its file.
fn array() -> (tempfile::TempDir, Content, String) {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
    let mut state = State::create(dir.path(), &spec).unwrap();
    let map = ClusterMap { epoch: 7, ..state.content.map.clone() };
    state.store(&map).unwrap();
    let (content, text) = (state.content.clone(), state.text.clone());
    (dir, content, text)
}

fn copy(content: &Content, version: u64, text: &str) -> MapCopy {
    let payload =
        text.replace(&format!("version = {}", content.version), &format!("version = {version}"));
    let lines = payload.lines().filter(|line| !line.starts_with("checksum"));
    let payload = state_file::sealed(&(lines.collect::<Vec<_>>().join("\n") + "\n")).into_bytes();
    MapCopy { cluster: content.cluster, version, payload }
}

fn disk(n: u16, copies: &[MapCopy]) -> OnDisk {
    let of = copies.first().map(|c| (c.cluster, n));
    OnDisk { path: format!("disk-{n}.img").into(), of, copies: copies.to_vec(), keeps: true }
}

#[test]
fn the_newest_copy_counts_and_copies_that_contradict_it_are_refused() {
    let (_dir, content, text) = array();
    let [old, new, newer] = [3, 4, 5].map(|version| copy(&content, version, &text));
    let disks = [
        disk(0, &[new.clone(), old.clone()]),
        disk(1, &[newer.clone(), new.clone()]),
        disk(2, &[old]),
    ];
    let found = newest(&disks).unwrap();
    assert_eq!((found.copy.version, found.on.len(), found.against.len()), (5, 1, 0));
    let (read, made) = content_of(&found).unwrap();
    assert_eq!((read.version, &read.map), (5, &content.map));
    assert_eq!(made.as_bytes(), newer.payload);
    let said: Vec<String> = disks.iter().map(|d| shown(d, &found).2).collect();
    assert!(said[1].contains("newest") && said[2].contains("was down"), "{said:?}");

    let other = MapCopy { payload: new.payload.clone(), ..newer.clone() };
    let both = [(0, &newer), (1, &other)].map(|(n, copy)| disk(n, std::slice::from_ref(copy)));
    let refused = refuse_disagreement(&newest(&both).unwrap()).unwrap_err().0;
    assert!(refused.contains("different maps of version 5"), "{refused}");
    let liar = [disk(0, &[other])];
    let refused = content_of(&newest(&liar).unwrap()).unwrap_err().0;
    assert!(refused.contains("contradicts its header"), "{refused}");
    let foreign = MapCopy { cluster: 1, ..newer };
    assert!(one_cluster(&[disk(0, &[new]), disk(1, &[foreign])]).is_err());
}

#[test]
fn a_file_gives_way_only_to_what_is_newer_or_where_it_is_damaged() {
    let (dir, content, text) = array();
    let dir = dir.path();
    let judge = |version: u64, accept: bool| {
        let copy = copy(&content, version, &text);
        let copy = String::from_utf8(copy.payload).unwrap();
        judge_file(dir, &state_file::read(&copy).unwrap(), &copy, accept)
    };
    let path = dir.join(FILE);
    let ours = content.version;
    assert!(judge(ours, false).unwrap_err().0.contains("nothing to recover"));
    assert!(judge(ours - 1, false).unwrap_err().0.contains("nothing to recover"));
    assert!(judge(ours + 1, false).unwrap().contains("older"));
    fs::write(&path, text.replace("raid5", "raid6")).unwrap();
    assert!(judge(ours, false).unwrap().contains("damaged"));
    let refused = judge(ours - 1, false).unwrap_err().0;
    assert!(refused.contains("--accept-older") && refused.contains("scrub"), "{refused}");
    assert!(judge(ours - 1, true).unwrap().contains("damaged"));
    // What another version of the program has written is not damaged.
    let lines = text.lines().filter(|line| !line.starts_with("checksum"));
    let foreign = lines.collect::<Vec<_>>().join("\n").replace("format = 4", "format = 9");
    fs::write(&path, state_file::sealed(&(foreign + "\n"))).unwrap();
    assert!(judge(ours, true).unwrap_err().0.contains("version 9"));
    fs::remove_file(&path).unwrap();
    assert_eq!(judge(1, false).unwrap(), "missing");
}

#[test]
fn what_cannot_be_recovered_is_refused_with_words() {
    let (dir, content, text) = array();
    let dir = dir.path();
    let refused = recover(dir, true, false).unwrap_err().0;
    assert!(
        refused.contains("no disk has a copy") && refused.contains("your own copy"),
        "{refused}"
    );
    let held = Disk::alone(&dir.join("disk-3.img")).unwrap();
    let refused = recover(dir, true, false).unwrap_err().0;
    assert!(refused.contains("disk-3.img is in use"), "{refused}");
    drop(held);
    assert!(recover(&dir.join("none"), true, false).unwrap_err().0.contains("no directory"));
    let state = State::load(dir).unwrap();
    assert!(recover(dir, true, false).unwrap_err().0.contains("in use by process"));
    drop(state);
    fs::rename(dir.join(FILE), dir.join("moved")).unwrap();
    let none = missing(dir, &content, &[]);
    assert_eq!(none.len(), 5);
    let hint = hint(Path::new("d"), &[disk(0, &[copy(&content, 4, &text)]), disk(1, &[])]);
    assert!(hint.contains("1 of 2 disks") && hint.contains("weft recover --dir d"), "{hint}");
}

/// Snapshots may have been taken since the copy was written.
#[test]
fn numbers_that_the_lost_map_may_have_given_are_not_given_again() {
    let (_dir, content, _) = array();
    let found = ahead(content.clone());
    assert_eq!(found.version, content.version + 1);
    assert!(found.map.next_volume >= content.map.next_volume + 100_000);
    let rest = ClusterMap { next_volume: content.map.next_volume, ..found.map };
    assert_eq!(rest, content.map);
}
