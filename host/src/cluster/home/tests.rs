use super::*;
use crate::cluster::found;

fn config(dir: &Path, name: &str, port: u16, disks: &[&str]) -> Configuration {
    Configuration {
        name: name.parse().unwrap(),
        dir: dir.join(name),
        disks: disks.iter().map(|d| dir.join(d)).collect(),
        disk_size: Some(32 << 20),
        address: format!("127.0.0.1:{port}").parse().unwrap(),
        admit: None,
        metrics: None,
        listens: Vec::new(),
        labels: Default::default(),
        fill: Default::default(),
        queue: Default::default(),
        limits: Default::default(),
        only: None,
        local: Default::default(),
        polling: Default::default(),
        lanes: Default::default(),
        controller: false,
    }
}

fn numbers(home: &Home) -> Vec<u16> {
    home.nodes().iter().map(|n| n.0).collect()
}

/// Two boxes with two disks each are founded. Of the second, a disk moves to another path, one is
/// added, and the first leaves: each start finds every node on its disk.
#[test]
fn a_process_finds_its_disks_again() {
    let dir = std::env::temp_dir().join(format!("weft-home-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let first = config(&dir, "b0", 1, &["a", "b"]);
    let mut second = config(&dir, "b1", 2, &["c", "d"]);
    fs::write(dir.join("d"), "something").unwrap();
    let both = [first.clone(), second.clone()];
    let err = found(&both, None, false).unwrap_err();
    assert!(err.0.contains("holds something"), "{err}");
    assert!(!first.dir.exists() && !dir.join("a").exists(), "nothing has been done");
    fs::remove_file(dir.join("d")).unwrap();
    found(&both, None, false).unwrap();

    let home = Home::open(first).unwrap();
    assert_eq!((home.process, numbers(&home)), (NodeId(0), vec![0, 1]));
    assert_eq!(home.peers.iter().map(|p| p.node).collect::<Vec<_>>(), [2]);
    let cluster = home.cluster();
    drop(home);

    fs::rename(dir.join("d"), dir.join("moved")).unwrap();
    second.disks = vec![dir.join("moved"), dir.join("c"), dir.join("new")];
    let mut home = Home::open(second.clone()).unwrap();
    assert_eq!((home.process, numbers(&home)), (NodeId(2), vec![2, 3]));
    assert_eq!(home.on(&dir.join("moved")), Some(NodeId(3)));
    assert_eq!(home.unused, [dir.join("new")]);
    assert!(home.has(NodeId(3)) && !home.has(NodeId(0)));
    let claim = Claim::new(&dir.join("new"), Some(32 << 20), None, false).unwrap();
    home.take_disk(NodeId(7), claim, 0).unwrap();
    assert_eq!(holder(&dir.join("new"), cluster), Some(7));
    home.forget(NodeId(2)).unwrap();
    drop(home);

    second.disks.clear();
    let home = Home::open(second.clone()).unwrap();
    assert_eq!((home.process, numbers(&home)), (NodeId(2), vec![3, 7]), "what is kept counts");
    assert_eq!(home.path(NodeId(7)), Some(&*dir.join("new")));
    drop(home);
    second.name = "other".parse().unwrap();
    assert!(Home::open(second).is_err());
    fs::remove_dir_all(&dir).unwrap();
}
