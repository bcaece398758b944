//! NBD: its machine's events and replies, in the words of nodes.

mod words;

use std::sync::Arc;

use weft_core::cluster::{Access, Volume};
use weft_core::node::HostData;
use weft_core::order::HostId;
use weft_core::units::VolumeId;
use weft_front::Tls;
use weft_front::nbd::server::{Command, Cookie, Event, Reply, Server};
use weft_front::nbd::{Export, Snapshot};

use super::connection::Protocol;
use super::link::Bounds;
use super::numbered::Failure;
use super::{Asked, Attach, Refused, Said};
use crate::volumes::Exports;

/// What a connection knows.
#[derive(Default)]
pub(super) struct Nbd {
    volume: Option<VolumeId>,
    /// The host wants a volume that is for one host at a time, and the machine waits for the answer.
    applies: bool,
    /// It may only read the volume that it wants.
    read_only: bool,
    /// What the volume that it wants can be compared with.
    snapshots: Vec<Snapshot>,
}

impl Protocol for Nbd {
    type Machine = Server;

    const KEY: &'static str = "nbd";
    const PREFIX: &'static str = "";
    const SPOKEN_BY: &'static str = "NBD clients";
    const SOCKET: Option<&'static str> = Some("nbd.sock");
    const SCHEME: &'static str = "nbd";
    const BOUNDS: Bounds = Bounds { bytes: 16 << 20, requests: 256 };
    const IS_NUMBERED: bool = false;

    const SPEAKS_OF_TLS: bool = true;

    fn machine() -> Server {
        Server::new()
    }

    fn machine_with(tls: Tls) -> Server {
        Server::with_tls(tls)
    }

    fn next(&mut self, machine: &mut Server, exports: Exports<'_>) -> Result<Option<Said>, String> {
        while !self.applies {
            match machine.poll().map_err(|e| e.to_string())? {
                None => return Ok(None),
                Some(Event::List) => {
                    // A list does not name what volumes can be compared with.
                    let listed =
                        |v: &Arc<Volume>| words::export(v, reads_only(exports, v), Vec::new());
                    let list: Vec<_> = exports.all().map(listed).collect();
                    machine.exports(&list);
                    return Ok(None);
                }
                Some(Event::Open { name, settles }) => match exports.wanted(&name) {
                    None if settles && exports.refusal(&name).is_some() => {
                        self.applies = true;
                        return Ok(Some(Said::Attach(Attach {
                            volume: name,
                            host: None,
                            resumes: false,
                        })));
                    }
                    None if exports.refusal(&name).is_some() => {
                        machine.forbid_without_tls(exports.refusal(&name).unwrap_or_default());
                    }
                    Some(volume) if settles && volume.takes_one_writer() => {
                        self.read_only = reads_only(exports, volume);
                        self.snapshots = words::snapshots(exports.map(), volume);
                        self.applies = true;
                        let volume = volume.name.clone();
                        return Ok(Some(Said::Attach(Attach {
                            volume,
                            host: None,
                            resumes: false,
                        })));
                    }
                    volume => {
                        machine.export(volume.map(|v| export(exports, v)));
                        self.volume = volume.filter(|_| settles).map(|v| v.id);
                    }
                },
                Some(Event::Command(command)) => match asked(&command) {
                    Some(asked) => return Ok(Some(Said::Ask(asked))),
                    None => machine.reply(command.cookie, Ok(Reply::Done)),
                },
            }
        }
        Ok(None)
    }

    fn holds(&self) -> bool {
        self.applies
    }

    fn let_in(&mut self, machine: &mut Server, volume: &Volume, _: bool) {
        (self.applies, self.volume) = (false, Some(volume.id));
        let snapshots = std::mem::take(&mut self.snapshots);
        machine.export(Some(words::export(volume, self.read_only, snapshots)));
    }

    fn turn_away(&mut self, machine: &mut Server, why: Refused, text: String) -> bool {
        self.applies = false;
        match why {
            Refused::NotAllowed => machine.forbid_without_tls(text),
            Refused::NoVolume => machine.lacks(text),
            // It may have the volume later, or at another process.
            Refused::NotServing | Refused::SecondWriter | Refused::OtherVolume => {
                machine.puts_off(text);
            }
        }
        true
    }

    fn answer(
        &mut self,
        machine: &mut Server,
        number: u64,
        result: Result<HostData, Failure>,
    ) -> Option<String> {
        let failure = result.as_ref().err().map(ToString::to_string);
        machine.reply(Cookie::of_number(number), words::reply(result));
        failure
    }

    fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    fn host(&self) -> Option<HostId> {
        None
    }
}

/// What the host is told of a volume.
fn export(exports: Exports<'_>, volume: &Volume) -> Export {
    let snapshots = words::snapshots(exports.map(), volume);
    words::export(volume, reads_only(exports, volume), snapshots)
}

/// Whether the host may only read a volume.
fn reads_only(exports: Exports<'_>, volume: &Volume) -> bool {
    exports.access(volume.id) == Some(Access::ReadOnly)
}

/// What is asked with a command; `None` if there is nothing to do.
fn asked(command: &Command) -> Option<Asked> {
    let op = words::host_op(command)?;
    let number = command.cookie.number();
    let bytes = words::payload(command);
    let durable = command.fua && words::changes(&command.op);
    Some(Asked { number, op, elsewhere: None, bytes, durable, came: None, order: None })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use weft_core::cluster::ClusterMap;
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_front::nbd::Context;
    use weft_front::nbd::server::Op;
    use weft_front::nbd::wire::{OptionHeader, option};

    use super::*;
    use crate::sessions::Turn;
    use crate::sessions::budget::{Budget, Use};
    use crate::sessions::connection::Connection;
    use crate::sessions::door::Door;
    use crate::sessions::room::Room;
    use crate::sessions::{Arrival, Session};
    use crate::socket::{Ready, Stream};

    /// A client may give up a volume that it has no right to, and tries the rest again.
    #[test]
    fn a_refusal_says_whether_it_is_worth_trying_again() {
        use weft_front::nbd::wire::answer::{ERR_POLICY, ERR_SHUTDOWN, ERR_UNKNOWN};
        for (why, code) in [
            (Refused::NotAllowed, ERR_POLICY),
            (Refused::NoVolume, ERR_UNKNOWN),
            (Refused::NotServing, ERR_SHUTDOWN),
            (Refused::SecondWriter, ERR_SHUTDOWN),
            (Refused::OtherVolume, ERR_SHUTDOWN),
        ] {
            let (mut machine, mut nbd) = (Nbd::machine(), Nbd::default());
            let name = [&1_u32.to_be_bytes()[..], b"v", &[0, 0]].concat();
            let header = OptionHeader { option: option::GO, length: name.len() as u32 };
            let said = [&3_u32.to_be_bytes()[..], &header.encode(), &name].concat();
            machine.space()[..said.len()].copy_from_slice(&said);
            machine.filled(said.len());
            assert!(matches!(machine.poll(), Ok(Some(Event::Open { settles: true, .. }))));
            assert!(nbd.turn_away(&mut machine, why, "for a reason".to_string()));
            let sent: Vec<u8> = machine.output().flatten().copied().collect();
            // Behind the greeting: 8 bytes of magic, the option and the kind.
            let kind = sent[18 + 12..][..4].try_into().unwrap();
            assert_eq!(u32::from_be_bytes(kind), code, "{why:?}");
        }
    }

    /// However many lists a host asks for at once: no more of them wait to be sent than there is room for.
    #[test]
    fn lists_that_are_not_sent_are_bounded() {
        use std::io::{Read, Write};
        const LISTS: usize = 900;
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 1 << 20);
        let volume = |id: u32| {
            let (id, name) = (VolumeId(id), format!("volume-{id}"));
            let volume = Volume::new(id, &name, 0, &spec, geometry.clone(), Vec::new());
            (id, Arc::new(Volume { visible: 1 << 20, ..volume }))
        };
        let map = ClusterMap { volumes: (1..200).map(volume).collect(), ..ClusterMap::default() };
        let (ours, mut host) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        host.set_nonblocking(true).unwrap();
        let budget = Budget::new(1 << 20);
        let mut connection = Connection::<Nbd>::new(Arrival {
            stream: Stream::Unix(mio::net::UnixStream::from_std(ours)),
            peer: String::new(),
            node: 0,
            memory: Use::new(&budget),
            portals: Vec::new(),
            elsewhere: Vec::new(),
            door: Door::default(),
            volume: None,
            watch: None,
        });
        let list = OptionHeader { option: option::LIST, length: 0 }.encode();
        host.write_all(&3_u32.to_be_bytes()).unwrap();
        host.write_all(&list.repeat(LISTS)).unwrap();
        let mut heard = Vec::new();
        loop {
            connection.ready(Ready { readable: true, writable: true, ended: false });
            while connection.wants_to_receive() {
                let (mut said, mut room) = (Vec::new(), Room::new(0));
                let of = Turn { conn: 0, room: &mut room, most: usize::MAX };
                assert!(connection.receive(Exports::of(&map), &mut said, of).is_ok());
                assert!(connection.send().is_ok());
                assert!(budget.used() < (1 << 20) + (64 << 10), "{} bytes", budget.used());
            }
            assert!(connection.send().is_ok());
            let before = heard.len();
            let _ = host.read_to_end(&mut heard);
            if heard.len() == before {
                break;
            }
        }
        let each = (heard.len() - 18) / LISTS;
        assert!(each > 199 * 30 && heard.len() == 18 + each * LISTS, "{}", heard.len());
    }

    /// What needs no memory does not wait for it, however long its range is. A map of much content needs some.
    #[test]
    fn only_content_and_maps_count_as_memory() {
        let command = |op, length| Command {
            cookie: Cookie::of_number(1),
            op,
            offset: 0,
            length,
            fua: false,
        };
        let budget = Budget::new(1 << 20);
        let (mut busy, other) = (Use::new(&budget), Use::new(&budget));
        busy.is(1 << 20);
        let has_room = |op, length| {
            let asked = asked(&command(op, length)).unwrap();
            other.has_room_for(asked.bytes)
        };
        let state = || Op::BlockStatus { context: Context::Allocation, one: false };
        assert!(has_room(Op::Trim, 1 << 30));
        assert!(has_room(Op::WriteZeroes { no_hole: false, fast: false }, 1 << 30));
        assert!(has_room(state(), 64 << 20) && !has_room(state(), u32::MAX));
        assert!(!has_room(Op::Read, 1 << 20));
        assert!(!has_room(Op::Write(vec![0; 1 << 20].into()), 1 << 20));
    }
}
