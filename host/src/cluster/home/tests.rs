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
        page: None,
        listens: Vec::new(),
        announced: Vec::new(),
        labels: Default::default(),
        fill: Default::default(),
        disk_options: Default::default(),
        limits: Default::default(),
        only: None,
        local: Default::default(),
        polling: Default::default(),
        disk_timeout: Default::default(),
        slow_disk_timeout: Default::default(),
        doors: Default::default(),
        patience: Default::default(),
        lanes: Default::default(),
        controller: false,
    }
}

/// What the check says of a configuration is what `weft cluster init` and `weft node` would refuse.
#[test]
fn what_would_be_refused_is_said_before() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let said = |config: &Configuration| -> Vec<String> {
        Home::check(config).into_iter().map(|e| e.0).collect()
    };
    let contain = |said: &[String], what: &[&str]| {
        assert_eq!(said.len(), what.len(), "{said:?}");
        assert!(said.iter().zip(what).all(|(s, w)| s.contains(w)), "{said:?}");
    };
    let mut good = config(dir, "b0", 0, &["a", "b"]);
    // Of a port that is free.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    good.address = held.local_addr().unwrap();
    contain(&said(&good), &["address: "]);
    drop(held);
    contain(&said(&good), &[]);
    fs::write(dir.join("b"), "something").unwrap();
    contain(&said(&good), &["b holds something"]);
    fs::remove_file(dir.join("b")).unwrap();
    std::os::unix::fs::symlink(dir.join("a"), dir.join("b")).unwrap();
    fs::write(dir.join("a"), "").unwrap();
    contain(&said(&good), &["are the same disk"]);
    fs::remove_file(dir.join("b")).unwrap();
    assert!(!good.dir.exists(), "nothing is changed");

    found(std::slice::from_ref(&good), None, false).unwrap();
    contain(&said(&good), &[]);
    let other = Configuration { address: "127.0.0.1:1".parse().unwrap(), ..good.clone() };
    contain(&said(&other), &["the configuration has the address 127.0.0.1:1, but"]);
    let stranger = Configuration { only: Some(["x".parse().unwrap()].into()), ..good.clone() };
    assert_eq!(said(&stranger).len(), 1);
    let renamed = Configuration { name: "c0".parse().unwrap(), ..good.clone() };
    contain(&said(&renamed), &["is the directory of node b0"]);
    // While it runs its addresses are in use.
    let home = Home::open(good.clone()).unwrap();
    let held = std::net::TcpListener::bind(good.address).unwrap();
    contain(&said(&good), &[]);
    drop(home);
    contain(&said(&good), &["address: "]);
    drop(held);
    // Disks that were put in each other's places, one that is missing, and a new one.
    fs::rename(dir.join("a"), dir.join("c")).unwrap();
    contain(&said(&good), &["a: No such file"]);
    fs::rename(dir.join("b"), dir.join("a")).unwrap();
    contain(&said(&good), &["a is, or links to, the disk of node 1", "b: No such file"]);
    let moved =
        Configuration { disks: ["a", "c", "d"].map(|d| dir.join(d)).into(), ..good.clone() };
    contain(&said(&moved), &["a is, or links to, the disk of node 1"]);
    fs::remove_file(good.dir.join("member.log")).unwrap();
    contain(&said(&moved), &["a is", "member.log is missing"]);
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
    assert_eq!(home.disks().on(&dir.join("moved")), Some(NodeId(3)));
    assert_eq!(home.unused, [dir.join("new")]);
    assert!(home.has(NodeId(3)) && !home.has(NodeId(0)));
    let mut claim = Claim::new(&dir.join("new"), Some(32 << 20), None, false).unwrap();
    claim.make(cluster, NodeId(7), 0).unwrap();
    home.take_disk(NodeId(7), dir.join("new")).unwrap();
    claim.keep();
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
