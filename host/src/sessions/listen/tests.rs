//! Listening sockets, and who must prove who they are.

use super::*;

#[test]
fn dead_sockets_are_replaced_and_living_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(StdUnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a dead process leaves its socket");
    let listener = Listener::bind(&Listen::unix(path.clone())).unwrap();
    listener.set_mode(0o600).unwrap();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    listener.share(None).unwrap();
    assert_eq!(mode(), 0o660);
    let err = Listener::bind(&Listen::unix(path.clone())).unwrap_err();
    assert!(err.0.contains("another process listens"), "{err}");
    drop(listener);
    assert!(!path.exists());
    fs::write(&path, "x").unwrap();
    let err = Listener::bind(&Listen::unix(path.clone())).unwrap_err();
    assert!(err.0.contains("not a socket"), "{err}");
    let err = Listener::bind(&Listen::unix(path.join("below.sock"))).unwrap_err();
    assert!(err.0.contains("for a socket") && err.0.contains("another path"), "{err}");
}

#[test]
fn beyond_loopback_iscsi_initiators_prove_who_they_are() {
    let of = |text: &str| text.parse::<Listen>().unwrap();
    let asks = |text: &str, doors: &Doors| {
        let asks = of(text).asks_for_proof(doors);
        assert!(!asks || of(text).check_door(doors, "iscsi", How::File).is_ok());
        asks
    };
    let doors = |tls, no_auth| Doors { tls, no_auth, socket_group: None };
    let (near, far) = ("iscsi:127.0.0.1:3260", "iscsi:0.0.0.0:3260");
    for tls in [Tls::Allow, Tls::Off] {
        assert!(asks(far, &doors(tls, false)) && !asks(near, &doors(tls, false)));
        assert!(!asks(far, &doors(tls, true)));
        assert!(of(far).check_door(&doors(tls, true), "iscsi", How::File).is_ok());
        assert!(!asks("0.0.0.0:10809", &doors(tls, false)), "NBD is refused there");
        let refused = of("0.0.0.0:10809").check_door(&doors(tls, false), "nbd", How::File);
        assert!(refused.is_err());
    }
    for text in [near, far, "127.0.0.1:10809"] {
        assert!(asks(text, &doors(Tls::Require, true)), "{text}");
    }
    assert!(!asks("iscsi:./x.sock", &doors(Tls::Require, false)));
}

#[test]
fn addresses_that_hosts_are_told_name_one_machine() {
    let of = |text: &str| Listen::announced("iscsi", text);
    for good in ["203.0.113.7:3260", "[2001:db8::7]:3260", "san-1.example:3260", "127.0.0.1:1"] {
        assert_eq!(of(good).map(|l| l.to_string()), Ok(format!("iscsi://{good}")));
        assert_eq!(of(&format!("iscsi:{good}")), of(good));
    }
    for bad in [
        "0.0.0.0:3260",
        "[::]:3260",
        "10.0.0.1:0",
        "san:0",
        "10.0.0.256:3260",
        "2001:db8::7:3260",
        "a b:3260",
        "./x.sock",
    ] {
        let error = of(bad).unwrap_err().0;
        assert!(error.contains(bad) && error.contains("203.0.113.7:3260"), "{error}");
    }
    assert!(of("san").unwrap_err().0.contains("HOST:PORT"));
    let listens = |text: &str| vec![text.parse::<Listen>().unwrap()];
    let check = |text: &str| {
        Listen::check_announced(&[of("san:3260").unwrap()], &listens(text), "iscsi_announce")
    };
    assert_eq!(check("iscsi:0.0.0.0:3260"), Ok(()));
    for other in ["0.0.0.0:10809", "iscsi:./x.sock"] {
        let error = check(other).unwrap_err().0;
        assert!(error.contains("iscsi_announce: ") && error.contains("iSCSI initiators"));
    }
}

#[test]
fn the_directory_of_a_socket_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let mistyped = Listener::bind(&Listen::unix(dir.path().join("run/weft/s")));
    assert!(mistyped.is_err() && !dir.path().join("run").exists(), "one directory at most");
    let path = dir.path().join("weft/s");
    let listener = Listener::bind(&Listen::unix(path.clone())).unwrap();
    assert!(Listen::unix(path.clone()).check().is_err(), "it is in use");
    drop(listener);
    assert!(!path.exists() && path.parent().unwrap().is_dir());
    assert_eq!(Listen::native_unix(dir.path().join("none/s")).check(), Ok(()));
    assert!(!dir.path().join("none").exists(), "a look changes nothing");
}

#[test]
fn addresses_of_disks_are_paths_and_name_volumes() {
    let of = |text: &str| text.parse::<Listen>();
    for (text, path, volume) in [
        ("vhost-user:./a.sock=vol0", "./a.sock", Some("vol0")),
        ("vhost-user:/run/a=vol0@s1", "/run/a", Some("vol0@s1")),
        ("vhost-user:a.sock", "a.sock", None),
        ("vhost-user:/a=b/c.sock", "/a=b/c.sock", None),
    ] {
        let read = of(text).unwrap();
        assert_eq!((read.path(), read.volume.as_deref()), (Some(Path::new(path)), volume));
        assert_eq!(of(&format!("vhost-user:{}", read.place())), Ok(read));
    }
    assert_ne!(of("vhost-user:a.sock=v"), of("vhost-user:a.sock"));
    let uri = of("vhost-user:/a.sock=v").unwrap().to_string();
    assert_eq!(uri, "vhost-user+unix:///v?socket=/a.sock");
    for bad in ["vhost-user:127.0.0.1:1", "vhost-user:./a.sock=", "vhost-user:", "vhost-user:v"] {
        assert!(of(bad).unwrap_err().0.contains("./vm.sock=vol0"), "{bad}");
    }
}

#[test]
fn addresses_are_paths_or_ports() {
    assert_eq!("x.sock".parse(), Ok(Listen::unix("x.sock")));
    assert_eq!("/run/weft".parse(), Ok(Listen::unix("/run/weft")));
    assert_eq!("[::1]:9".parse(), Ok(Listen::tcp("[::1]:9")));
    assert_eq!("native:/x".parse(), Ok(Listen::native_unix("/x")));
    assert_eq!("nbd:/x".parse(), Ok(Listen::unix("/x")));
    assert_eq!("nbd:[::1]:9".parse(), Ok(Listen::tcp("[::1]:9")));
    assert_eq!("nbd:9".parse(), Ok(Listen::tcp("nbd:9")), "a machine of this name");
    assert_eq!("native:[::1]:9".parse(), Ok(Listen::native_tcp("[::1]:9")));
    for bad in [
        "nbd:unix:/tmp/a.sock",
        "unix:/tmp/a.sock",
        "",
        "host",
        "host:",
        ":9",
        "host:99999",
        "native:",
        "native:native:a:1x",
        "native:nbd:/x",
        "nbd:",
    ] {
        assert!(bad.parse::<Listen>().is_err(), "{bad}");
    }
}

#[test]
fn tcp_ports_are_told_and_bad_addresses_refused() {
    let listener = Listener::bind(&Listen::tcp("127.0.0.1:0")).unwrap();
    let uri = listener.at.to_string();
    assert!(uri.starts_with("nbd://127.0.0.1:") && !uri.ends_with(":0"), "{uri}");
    let err = Listener::bind(&Listen::tcp("nonsense")).unwrap_err();
    assert!(err.0.contains("host:port"), "{err}");
}
