//! Hosts that prove who they are, and those that do not, against a whole array.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weft_client::{Certificates, Error, ErrorKind, Options, Volume};
use weft_host::{
    Array, Control, ControlRequest, Doors, Handle, HostAction, Listen, Log, NodeKey, Spec, Tls,
};

/// An array that requires TLS by TCP, and where certificates of hosts go.
struct Scene {
    place: tempfile::TempDir,
    array: Handle,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        let array = start(&place.path().join("array"));
        Scene { place, array }
    }

    fn do_to_hosts(&self, action: HostAction) -> serde_json::Value {
        let mut control = Control::connect(self.array.dir()).unwrap();
        control.request(&ControlRequest::Hosts { action }).unwrap()
    }

    /// Makes a host known, if it is not, and its certificate in a directory of this name.
    fn certify(&self, name: &str, dir: &str) -> PathBuf {
        let known = self.do_to_hosts(HostAction::List)["known"].clone();
        if !known.as_array().unwrap().iter().any(|k| k["name"] == name) {
            self.do_to_hosts(HostAction::Create { name: name.into() });
        }
        let key = NodeKey::generate().unwrap();
        let public = key.public().as_bytes().to_vec();
        let signed = self.do_to_hosts(HostAction::Sign { name: name.into(), key: public });
        let text = |field: &str| signed[field].as_str().unwrap().to_string();
        let until = signed["until"].as_u64().unwrap();
        let action =
            HostAction::Certify { name: name.into(), key: text("key"), until, revoke_others: true };
        self.do_to_hosts(action);
        let dir = self.place.path().join(dir);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("ca-cert.pem"), text("ca")).unwrap();
        fs::write(dir.join("client-cert.pem"), text("certificate")).unwrap();
        fs::write(dir.join("client-key.pem"), key.to_pem()).unwrap();
        dir
    }

    fn allow(&self, volume: &str, host: &str, read_only: bool) {
        let (volume, host) = (volume.to_string(), Some(host.to_string()));
        self.do_to_hosts(HostAction::Allow { volume, host, read_only });
    }

    fn address(&self) -> String {
        let tcp = self.array.listens().iter().find(|at| at.starts_with("weft://")).unwrap();
        tcp.to_string()
    }

    fn open(&self, volume: &str, certificates: Option<&Path>) -> Result<Volume, Error> {
        open(&self.address(), volume, certificates)
    }
}

fn start(dir: &Path) -> Handle {
    let spec = Spec {
        disk_size: Some(16 << 20),
        volumes: vec![("a".into(), 8 << 20), ("b".into(), 4 << 20)],
        ..Spec::default()
    };
    let listens = [Listen::native_unix(dir.join("weft.sock")), Listen::native_tcp("127.0.0.1:0")];
    let doors = Doors { tls: Tls::Require, ..Doors::default() };
    let array = Array::start(dir, &spec, &listens, Log::silent()).unwrap();
    array.with_doors(&doors).unwrap().spawn().unwrap()
}

fn open(address: &str, volume: &str, certificates: Option<&Path>) -> Result<Volume, Error> {
    let certificates = certificates.map(|dir| Certificates::load(dir).unwrap());
    let options = Options {
        certificates,
        open_patience: Duration::from_secs(2),
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    Volume::opening(&[address], volume, options)?.wait()
}

/// Why it is not opened.
fn refused(opened: Result<Volume, Error>) -> (ErrorKind, String) {
    let Err(error) = opened else { panic!("it is opened") };
    (error.kind(), error.to_string())
}

#[test]
fn a_host_with_its_certificate_reads_and_writes_what_it_may() {
    let scene = Scene::new();
    let web = scene.certify("web", "web");
    let data: Vec<u8> = (0..3 << 20).map(|n| (n / 7) as u8).collect();
    let volume = scene.open("a", Some(&web)).unwrap();
    let writes: Vec<_> = data
        .chunks(1 << 20)
        .enumerate()
        .map(|(n, piece)| volume.write((n as u64) << 20, piece.to_vec(), &[]).unwrap())
        .collect();
    writes.into_iter().for_each(|write| drop(write.wait().unwrap()));
    let read = volume.read(0, 3 << 20, &[]).unwrap().wait().unwrap();
    assert!(read[..] == data[..], "it is what was written");
    scene.allow("b", "web", true);
    let only_read = scene.open("b", Some(&web)).unwrap();
    only_read.read(0, 4096, &[]).unwrap().wait().unwrap();
    let error = only_read.write(0, vec![1; 4096], &[]).unwrap().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAllowed);
    let zeroes = only_read.write_zeroes(0, 4096, &[]).unwrap().wait().unwrap_err();
    assert_eq!(zeroes.kind(), ErrorKind::NotAllowed);
    drop((volume, only_read));
    scene.array.shutdown().unwrap();
}

#[test]
fn who_proves_nothing_or_something_else_is_refused() {
    let scene = Scene::new();
    let (web, other) = (scene.certify("web", "web"), scene.certify("other", "other"));
    scene.allow("b", "other", false);
    let (kind, text) = refused(scene.open("a", None));
    assert_eq!(kind, ErrorKind::NotAllowed);
    assert!(text.contains("by TLS only"), "{text}");
    let (kind, text) = refused(scene.open("b", Some(&web)));
    assert_eq!(kind, ErrorKind::NotAllowed);
    assert!(text.contains("'web' is not on the list of volume 'b'"), "{text}");
    drop(scene.open("b", Some(&other)).unwrap());
    // At the Unix socket nothing is asked, but a list is a list.
    let socket = scene.array.dir().join("weft.sock");
    let socket = socket.to_str().unwrap();
    drop(open(socket, "a", None).unwrap());
    assert_eq!(refused(open(socket, "b", None)).0, ErrorKind::NotAllowed);
    drop(open(socket, "b", Some(&other)).unwrap());
    // Certificates of another authority: of the same name, or of one that is known here.
    let stranger = Scene::new();
    let strange = stranger.certify("web", "web");
    assert!(scene.open("a", Some(&strange)).is_err(), "it does not know the node");
    fs::copy(web.join("ca-cert.pem"), strange.join("ca-cert.pem")).unwrap();
    let (kind, _) = refused(scene.open("a", Some(&strange)));
    assert!(matches!(kind, ErrorKind::NotAllowed | ErrorKind::Unreachable), "{kind:?}");
    let error = Certificates::load(scene.place.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Certificates);
    stranger.array.shutdown().unwrap();
    scene.array.shutdown().unwrap();
}

#[test]
fn a_revoked_certificate_ends_connections_and_is_refused_also_after_a_restart() {
    let scene = Scene::new();
    let old = scene.certify("web", "old");
    let volume = scene.open("a", Some(&old)).unwrap();
    volume.read(0, 4096, &[]).unwrap().wait().unwrap();
    let new = scene.certify("web", "new");
    let since = Instant::now();
    // It connects again, and is told.
    while volume.read(0, 4096, &[]).is_ok_and(|read| read.wait().is_ok()) {
        assert!(since.elapsed() < Duration::from_secs(1), "it goes on");
    }
    let (kind, text) = refused(scene.open("a", Some(&old)));
    assert_eq!(kind, ErrorKind::NotAllowed);
    assert!(text.contains("has been revoked"), "{text}");
    drop(scene.open("a", Some(&new)).unwrap());
    let Scene { place, array } = scene;
    let dir = array.dir().to_path_buf();
    array.shutdown().unwrap();
    let scene = Scene { place, array: start(&dir) };
    assert!(refused(scene.open("a", Some(&old))).1.contains("has been revoked"));
    let volume = scene.open("a", Some(&new)).unwrap();
    scene.do_to_hosts(HostAction::Delete { name: "web".into() });
    let since = Instant::now();
    while volume.read(0, 4096, &[]).is_ok_and(|read| read.wait().is_ok()) {
        assert!(since.elapsed() < Duration::from_secs(1), "it goes on");
    }
    assert!(refused(scene.open("a", Some(&new))).1.contains("has been revoked"));
    drop(volume);
    scene.array.shutdown().unwrap();
}
