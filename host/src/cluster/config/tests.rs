//! What a configuration may say, and what is refused.

use super::*;

const GOOD: &str = "name = 'n1'\ndir = 'state'\ndisk = '/dev/vdb'\n\
                    address = '10.0.0.1:10810'\nnbd = ['nbd.sock', '127.0.0.1:10809']\n\
                    native = ['weft.sock', '127.0.0.1:10812']\n\
                    [labels]\nbox = 'b1'\n";

#[test]
fn a_configuration_is_read_and_written() {
    let base = Path::new("/etc/weft");
    let read = Configuration::parse(GOOD, base).unwrap();
    assert_eq!(read.dir, Path::new("/etc/weft/state"));
    assert_eq!(read.listens[0], Listen::unix("/etc/weft/nbd.sock"));
    assert_eq!(read.listens[2], Listen::native_unix("/etc/weft/weft.sock"));
    assert_eq!(read.listens[3], Listen::native_tcp("127.0.0.1:10812"));
    assert_eq!(read.labels["box"], "b1");
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
}

#[test]
fn other_addresses_can_be_announced_than_are_listened_at() {
    let parse = |lines: &str| Configuration::parse(&format!("{lines}\n{GOOD}"), Path::new("/"));
    let read =
        parse("iscsi = ['127.0.0.1:3260']\niscsi_announce = ['san-1.example:3260', '10.0.0.9:1']");
    let read = read.unwrap();
    let told: Vec<String> = read.announced.iter().map(Listen::to_string).collect();
    assert_eq!(told, ["iscsi://san-1.example:3260", "iscsi://10.0.0.9:1"]);
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
    let error = parse("iscsi_announce = ['10.0.0.9:1']").unwrap_err().0;
    assert!(error.contains("iscsi_announce: this process has no address"), "{error}");
    let error = parse("iscsi = ['127.0.0.1:1']\niscsi_announce = ['0.0.0.0:1']").unwrap_err().0;
    assert!(error.contains("iscsi_announce: '0.0.0.0:1' cannot be announced"), "{error}");
    let error = parse("nbd_announce = ['10.0.0.9:1']").unwrap_err().0;
    assert!(error.contains("unknown field") && error.contains("`iscsi_announce`"), "{error}");
}

#[test]
fn metrics_have_an_address_of_their_own() {
    let parse = |metrics: &str| {
        Configuration::parse(&format!("metrics = '{metrics}'\n{GOOD}"), Path::new("/"))
    };
    assert_eq!(parse("0.0.0.0:9810").unwrap().metrics, Some("0.0.0.0:9810".parse().unwrap()));
    for (wrong, why) in [
        ("box1:9810", "write it like 192.168.1.11:9810"),
        ("10.0.0.1:0", "write it like"),
        ("10.0.0.1:10810", "also used by address"),
    ] {
        let said = parse(wrong).unwrap_err().0;
        assert!(said.contains("metrics") && said.contains(why), "{said}");
    }
}

#[test]
fn who_is_dialled_and_how_can_be_restricted() {
    let parse = |links: &str| Configuration::parse(&format!("{GOOD}{links}"), Path::new("/"));
    assert_eq!(parse("").unwrap().only, None);
    let read = parse("[links]\nonly = ['n2', 'n7']\n").unwrap();
    let names = ["n2", "n7"].map(|n| n.parse().unwrap());
    assert_eq!(read.only, Some(names.into()));
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
    assert_eq!(parse("[links]\nonly = []\n").unwrap().only, Some(BTreeSet::new()));
    assert_eq!(read.local, LocalLinks::Unix);
    let read = parse("[links]\nlocal = 'tls'\n").unwrap();
    assert_eq!((read.local, read.only.clone()), (LocalLinks::Tls, None));
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
    for (links, words) in [
        ("only = ['n1']", "which is this process"),
        ("only = ['N 2']", "links: only"),
        ("local = 'tcp'", "give unix or tls"),
        ("onyl = ['n2']", "unknown field"),
    ] {
        let error = parse(&format!("[links]\n{links}\n")).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn every_front_end_has_a_key_of_its_own() {
    let alone = GOOD.replace("nbd = ['nbd.sock', '127.0.0.1:10809']\n", "");
    let alone = alone.replace("native = ['weft.sock', '127.0.0.1:10812']\n", "");
    for front_end in &FRONT_ENDS {
        let text = format!("{} = ['/x.sock']\n{alone}", front_end.key);
        let read = Configuration::parse(&text, Path::new("/")).unwrap();
        let at: Listen = format!("{}/x.sock", front_end.prefix).parse().unwrap();
        assert_eq!(read.listens, [at]);
        let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
        assert_eq!(again, read);
    }
    let text = GOOD.replace("'weft.sock'", "5");
    let err = Configuration::parse(&text, Path::new("/")).unwrap_err();
    assert!(err.0.contains("line 6") && err.0.contains("expected a string"), "{err}");
}

#[test]
fn a_protocol_is_spoken_where_it_is_said_and_others_where_they_were() {
    let mut read = Configuration::parse(GOOD, Path::new("/etc/weft")).unwrap();
    read.listen_at(vec![Listen::native_unix("/x"), Listen::native_unix("/y")]);
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
    let there: Vec<&str> = read.listens.iter().map(Listen::key).collect();
    assert_eq!(there, ["nbd", "nbd", "native", "native"]);
    assert!(!read.listens.contains(&Listen::native_unix("/etc/weft/weft.sock")));
}

#[test]
fn a_controller_has_neither_disks_nor_hosts() {
    let parse = |text: &str| Configuration::parse(text, Path::new("/"));
    let alone = "name = 'c'\ndir = 'c'\naddress = '10.0.0.9:10810'\n";
    let config = parse(&format!("controller = true\n{alone}")).unwrap();
    assert!(config.controller && !config.is_host() && config.new_home().is_controller);
    assert_eq!(parse(&config.to_toml().unwrap()).unwrap(), config);
    let host = parse(alone).unwrap();
    assert!(host.is_host() && !host.new_home().is_controller && !host.controller);
    for (more, why) in [
        ("disk = 'd'", "has no disks; omit disks"),
        ("nbd = ['x.sock']", "has no nbd; omit nbd"),
        ("native = ['y.sock']", "has no native"),
    ] {
        let said = parse(&format!("controller = true\n{more}\n{alone}")).unwrap_err().0;
        assert!(said.starts_with("controller: ") && said.contains(why), "{said}");
    }
}

#[test]
fn several_disks_are_read_and_written() {
    assert_eq!(Configuration::parse(GOOD, Path::new("/")).unwrap().disks.len(), 1);
    let many = GOOD.replace("disk = '/dev/vdb'", "disks = ['/dev/vdb', 'c.img']");
    let read = Configuration::parse(&many, Path::new("/etc/weft")).unwrap();
    assert_eq!(read.disks, ["/dev/vdb", "/etc/weft/c.img"].map(PathBuf::from));
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
}

#[test]
fn rates_have_a_floor_and_a_ceiling() {
    let read = |more: &str| {
        let text = GOOD.replace("dir = 'state'", &format!("dir = 'state'\n{more}"));
        Configuration::parse(&text, Path::new("/")).unwrap()
    };
    assert_eq!(read("").fill, FillRates::default());
    let slow = read("rebuild_ceiling = '8M'");
    assert_eq!(slow.fill, FillRates { floor: 8 << 20, ceiling: 8 << 20 });
    let both = read("rebuild_floor = '16M'\nrebuild_ceiling = '1G'");
    assert_eq!(both.fill, FillRates { floor: 16 << 20, ceiling: 1 << 30 });
    let again = Configuration::parse(&both.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, both);
}

#[test]
fn a_disk_has_a_queue() {
    let read = |more: &str| {
        let text = GOOD.replace("dir = 'state'", &format!("dir = 'state'\n{more}"));
        Configuration::parse(&text, Path::new("/")).unwrap()
    };
    assert_eq!(read("").disk_options.queue, Default::default());
    let queue = read("queue = 'c-look'").disk_options.queue;
    assert_eq!((queue.order(), queue.depth()), ("c-look", 2));
    let deep = read("queue = 'sstf'\nqueue_depth = 32");
    assert_eq!((deep.disk_options.queue.order(), deep.disk_options.queue.depth()), ("sstf", 32));
    let again = Configuration::parse(&deep.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, deep);
    let allocated = read("preallocate = true");
    assert!(allocated.disk_options.preallocate && !deep.disk_options.preallocate);
    let again = Configuration::parse(&allocated.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, allocated);
    assert_eq!(read("").polling, Polling::On);
    let sleeps = read("polling = 'off'");
    assert_eq!(sleeps.polling, Polling::Off);
    let patient = read("patience = 'long'");
    assert_eq!(patient.patience, FailureTimeouts::Long);
    let again = Configuration::parse(&patient.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, patient);
    assert_eq!(read("lanes = 3").lanes, Lanes::new(3).unwrap());
    let again = Configuration::parse(&sleeps.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, sleeps);
}

#[test]
fn what_hosts_may_take_is_read_and_written() {
    let read = Configuration::parse(GOOD, Path::new("/")).unwrap();
    assert_eq!(read.limits, Limits::default());
    assert!(!read.to_toml().unwrap().contains("limits"));
    let text = format!("{GOOD}\n[limits]\nconnections = 20\nrequest = '5m'\n");
    let read = Configuration::parse(&text, Path::new("/")).unwrap();
    assert_eq!((read.limits.connections, read.limits.request.as_secs()), (20, 300));
    let again = Configuration::parse(&read.to_toml().unwrap(), Path::new("/")).unwrap();
    assert_eq!(again, read);
}

#[test]
fn what_is_wrong_is_named() {
    for (from, to, why) in [
        ("name =", "nmae =", "unknown field `nmae`"),
        ("name =", "nmae =", "expected one of `name`, `nbd`, `native`, `iscsi`, `iscsi_announce`"),
        ("'n1'", "'N 1'", "not a valid name for a node"),
        ("10.0.0.1:10810", "box1:10810", "write it like 192.168.1.11:10810"),
        ("10.0.0.1:10810", "0.0.0.0:10810", "other machines cannot reach"),
        ("'127.0.0.1:10809'", "'10809'", "neither HOST:PORT"),
        ("'127.0.0.1:10812'", "'10812'", "native: '10812' is neither HOST:PORT"),
        ("box = 'b1'", "box = 'B1'", "'box' = 'B1' is not a label"),
        ("disk = '/dev/vdb'\n", "disk_size = '1G'\n", "disk_size needs `disk`"),
        ("dir = 'state'", "dir = 'state'\ndisk_size = '1 apple'", "disk_size"),
        ("dir = 'state'", "dir = 'state'\nlanes = 0", "lanes: a process cannot have 0 lanes"),
        ("dir = 'state'", "dir = 'state'\npatience = 'none'", "patience: 'none' is not a value"),
        ("dir = 'state'", "dir = 'state'\ndisk_timeout = '0s'", "disk_timeout: 0s is not between"),
        (
            "dir = 'state'",
            "dir = 'state'\nslow_disk_timeout = '1s'",
            "slow_disk_timeout: 1s is too short",
        ),
        ("dir = 'state'", "dir = 'state'\npolling = 'never'", "polling: 'never' is not a value"),
        (
            "disk = '/dev/vdb'",
            "disk = '/dev/vdb'\nadmit = '10.0.0.1:10810'",
            "admit: 10.0.0.1:10810 is also used by address",
        ),
        ("'127.0.0.1:10809'", "'0.0.0.0:10810'", "nbd: 0.0.0.0:10810 is also used by address"),
        ("'weft.sock'", "'./nbd.sock'", "nbd.sock is also used by nbd"),
        ("disk = '/dev/vdb'", "disks = []", "disks: the list is empty"),
        ("disk = '/dev/vdb'", "disks = ['/dev/vdb', '/dev/vdb']", "/dev/vdb is given twice"),
        ("dir = 'state'", "dir = 'state'\ndisks = ['/dev/vdc']", "not both"),
        ("dir = 'state'", "dir = 'state'\nrebuild_floor = '10K'", "rebuild_floor: 10 KiB a second"),
        (
            "dir = 'state'",
            "dir = 'state'\nrebuild_floor = '9M'\nrebuild_ceiling = '8M'",
            "less than",
        ),
        ("dir = 'state'", "dir = 'state'\nqueue = 'satf'", "queue: satf needs the platter"),
        (
            "dir = 'state'",
            "dir = 'state'\nqueue = 'elevator'",
            "'elevator' is not an order of disks; choose from fcfs, sstf",
        ),
        ("dir = 'state'", "dir = 'state'\nqueue_depth = 1000", "queue_depth: 1000 operations"),
        ("dir = 'state'", "dir = 'state'\nrebuild_ceiling = 'fast'", "rebuild_ceiling: 'fast'"),
        ("[labels]", "[limits]\nhandshake = '0s'\n[labels]", "limits: handshake cannot be 0s"),
        ("[labels]", "[limits]\nclients = 5\n[labels]", "unknown field `clients`"),
    ] {
        let err = Configuration::parse(&GOOD.replace(from, to), Path::new("/")).unwrap_err();
        assert!(err.0.contains(why), "{err}");
    }
}

#[test]
fn the_examples_are_good() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    for (dir, count) in [("three-boxes", 3), ("five-boxes", 5)] {
        let files = fs::read_dir(packaging.join(dir)).unwrap().map(|f| f.unwrap().path());
        let read: Vec<_> = files.map(|f| Configuration::load(&f).unwrap()).collect();
        assert_eq!(read.len(), count);
        assert_eq!(read.iter().filter(|c| c.admit.is_some()).count(), 1);
    }
}
