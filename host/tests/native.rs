//! An array over its socket for hosts that name their requests.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use weft_front::native::{Code, Hello, Name, NumberedRequest, Verb, Welcome};
use weft_host::{Array, Control, ControlRequest as Command, Handle, Listen, Spec};

fn start(dir: &Path) -> Handle {
    let volumes = vec![("a".into(), 8 << 20)];
    let spec = Spec { disk_size: Some(16 << 20), volumes, ..Spec::default() };
    let listens = [Listen::native_unix(dir.join("weft.sock"))];
    Array::start(dir, &spec, &listens, weft_host::Log::silent()).unwrap().spawn().unwrap()
}

/// A host that has been let in.
struct Host {
    stream: UnixStream,
    number: u64,
    remembered: bool,
}

impl Host {
    fn new(dir: &Path, number: u64) -> Host {
        let mut stream = UnixStream::connect(dir.join("weft.sock")).unwrap();
        let (oldest, volume) = (1, "a".to_string());
        let hello = Hello { from: 1, to: 1, host: number, oldest, resumes: false, volume };
        stream.write_all(&hello.encode()).unwrap();
        let mut welcome = [0; Welcome::LEN];
        stream.read_exact(&mut welcome).unwrap();
        let (welcome, text) = Welcome::decode(&welcome).unwrap();
        assert_eq!((welcome.code, text), (Code::Done, 0));
        Host { stream, number, remembered: welcome.remembered }
    }

    fn say(&mut self, verb: Verb, number: u64, data: Vec<u8>, after: &[u64]) {
        let name = |n: &u64| Name { host: self.number, number: *n };
        let request = NumberedRequest {
            verb,
            flags: 0,
            number,
            oldest: number.min(1),
            offset: number * 4096 * u64::from(number > 0),
            length: data.len() as u64,
            after: after.iter().map(name).collect(),
            data: data.into(),
        };
        self.stream.write_all(&request.encode_head()).unwrap();
        self.stream.write_all(&request.data).unwrap();
    }

    fn write(&mut self, number: u64, after: &[u64]) {
        self.say(Verb::Write, number, vec![number as u8; 4096], after);
    }

    /// Says good-bye and waits until the node has closed; this end stays open.
    fn good_bye(mut self) {
        self.say(Verb::Bye, 0, Vec::new(), &[]);
        self.stream.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn a_host_that_says_good_bye_is_gone_whatever_it_has_outstanding() {
    let dir = tempfile::tempdir().unwrap();
    let array = start(dir.path());
    let mut control = Control::connect(array.dir()).unwrap();
    for ordering in ["timestamps", "sequencer"] {
        let mut host = Host::new(dir.path(), 7);
        let set = [("ordering".to_string(), ordering.to_string())].into();
        control
            .request(&Command::VolumeSet { name: "a".into(), set, force: false, range: None })
            .unwrap();
        host.write(1, &[1000]);
        (2..300).for_each(|n| host.write(n, &[]));
        host.good_bye();
        let shown = control.request(&Command::VolumeShow { name: "a".into() }).unwrap();
        assert_eq!(shown["volume"]["clients"], 0, "{ordering}");
        control.request(&Command::Quiesce).unwrap();
    }
    let again = Host::new(dir.path(), 7);
    assert!(!again.remembered);
    again.good_bye();
    control.request(&Command::VolumeDelete { name: "a".into(), now: true }).unwrap();
    array.shutdown().unwrap();
}
