//! iSCSI: its machine's events and replies, in the words of nodes.

mod names;
mod words;

use std::sync::atomic::{AtomicU16, Ordering};

use weft_core::cluster::Volume;
use weft_core::node::HostData;
use weft_core::order::HostId;
use weft_core::units::VolumeId;
use weft_front::iscsi::{Challenge, Event, Gate, Nexus, Refusal, Server, Target};

use super::connection::Protocol;
use super::link::Bounds;
use super::numbered::Failure;
use super::{Asked, Attach, Refused, Said};
use crate::doors::vault::random;
use crate::volumes::{Exports, Served};

/// The number of the latest session of this process.
static SESSIONS: AtomicU16 = AtomicU16::new(0);

/// By what name the target proves itself.
const OUR_NAME: &str = "weft";

/// What a connection knows.
#[derive(Default)]
pub(super) struct Iscsi {
    /// Where hosts can connect.
    portals: Vec<String>,
    /// Where volumes are served.
    at: Served,
    volume: Option<VolumeId>,
    /// What tells the session from others, once it may begin.
    name: Option<String>,
    /// The host wants this volume, and waits to be let in.
    wanted: Option<String>,
    /// It is for one host at a time, and nobody has said yet whether it is free.
    applies: bool,
    /// It claims to be somebody, and is not believed yet.
    claims: bool,
}

impl Protocol for Iscsi {
    type Machine = Server;

    const KEY: &'static str = "iscsi";
    const PREFIX: &'static str = "iscsi:";
    const SPOKEN_BY: &'static str = "iSCSI initiators";
    const SOCKET: Option<&'static str> = None;
    const SCHEME: &'static str = "iscsi";
    const BOUNDS: Bounds = Bounds { bytes: 16 << 20, requests: 256 };
    const IS_NUMBERED: bool = false;
    const HAS_CHAP: bool = true;

    fn machine() -> Server {
        Server::new()
    }

    fn comes_in(&mut self, portals: Vec<String>) {
        self.portals = portals;
    }

    fn next(&mut self, machine: &mut Server, exports: Exports<'_>) -> Result<Option<Said>, String> {
        self.at = exports.at();
        self.guard(machine, exports)?;
        if let Some(wanted) = self.wanted.take()
            && let Some(attach) = self.begin(machine, exports, &wanted)
        {
            return Ok(Some(attach));
        }
        while !self.holds() {
            match machine.poll().map_err(|e| e.to_string())? {
                None => return Ok(None),
                Some(Event::Prove(claim)) => {
                    self.claims = true;
                    return Ok(Some(Said::Prove(Box::new(claim))));
                }
                Some(Event::Unproved(why)) => return Ok(Some(Said::Unproved(why.to_string()))),
                Some(Event::List) => {
                    let all: Vec<_> = exports.all().map(|volume| self.target(volume)).collect();
                    machine.targets(&all);
                }
                Some(Event::Login(nexus)) => match names::find(exports, &nexus.target) {
                    Some(volume) => {
                        self.wanted = Some(volume.name.clone());
                        // The old session is over before the new one begins.
                        let name = self.name.insert(name(&nexus)).clone();
                        return Ok(Some(Said::Supersede(name)));
                    }
                    None => machine.turn_away(Refusal::NotFound),
                },
                Some(Event::Request(request)) => return Ok(Some(Said::Ask(asked(request)))),
            }
        }
        Ok(None)
    }

    fn holds(&self) -> bool {
        self.applies || self.claims
    }

    fn proved(&mut self, machine: &mut Server, proof: Option<Vec<u8>>) {
        self.claims = false;
        machine.proved(proof.as_ref().map(|proof| (OUR_NAME, &proof[..])));
    }

    fn disproved(&mut self, machine: &mut Server) {
        self.claims = false;
        machine.disproved();
    }

    fn let_in(&mut self, machine: &mut Server, volume: &Volume, _: bool) {
        self.applies = false;
        self.admit(machine, volume);
    }

    fn turn_away(&mut self, machine: &mut Server, why: Refused, _: String) -> bool {
        self.applies = false;
        machine.turn_away(match why {
            Refused::NoVolume => Refusal::NotFound,
            Refused::NotServing => Refusal::Unavailable,
            Refused::SecondWriter | Refused::OtherVolume | Refused::NotAllowed => {
                Refusal::Forbidden
            }
        });
        true
    }

    fn answer(
        &mut self,
        machine: &mut Server,
        number: u64,
        result: Result<HostData, Failure>,
    ) -> Option<String> {
        let failure = result.as_ref().err().map(ToString::to_string);
        machine.reply(number, words::reply(result));
        failure
    }

    fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    fn host(&self) -> Option<HostId> {
        None
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Iscsi {
    /// Says how the door is kept, as long as the login has not begun: TLS may have come before it.
    fn guard(&mut self, machine: &mut Server, exports: Exports<'_>) -> Result<(), String> {
        if machine.is_begun() {
            return Ok(());
        }
        let [identifier, bytes @ ..] = random::<33>().map_err(|e| e.to_string())?;
        let challenge = Challenge { identifier, bytes };
        machine.guard(Gate { chap: exports.chap(), challenge, group: names::group(self.at) });
        Ok(())
    }

    /// Begins a session with a volume, or says that it is to be asked for.
    fn begin(&mut self, machine: &mut Server, exports: Exports<'_>, wanted: &str) -> Option<Said> {
        match exports.all().find(|volume| volume.name == wanted) {
            Some(volume) if volume.takes_one_writer() => {
                self.applies = true;
                let volume = volume.name.clone();
                return Some(Said::Attach(Attach { volume, host: None, resumes: false }));
            }
            Some(volume) => self.admit(machine, volume),
            None => machine.turn_away(Refusal::NotFound),
        }
        None
    }

    fn admit(&mut self, machine: &mut Server, volume: &Volume) {
        self.volume = Some(volume.id);
        // Zero stands for no session.
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed) % u16::MAX + 1;
        machine.admit(words::unit(volume, self.at), number);
    }

    /// A volume as it is listed.
    fn target(&self, volume: &Volume) -> Target {
        let group = names::group(self.at);
        let portals = self.portals.iter().map(|portal| (portal.clone(), group)).collect();
        Target { name: names::of(volume, self.at), portals }
    }
}

/// The name of a volume's target.
pub(super) fn target(volume: &Volume, at: Served) -> String {
    names::of(volume, at)
}

/// What tells a session from others of this process.
fn name(nexus: &Nexus) -> String {
    let Nexus { initiator, isid, target } = nexus;
    format!("{initiator} {isid:02x?} {target}")
}

fn asked(request: weft_front::iscsi::Request) -> Asked {
    let (number, durable) = (request.number, request.durable);
    let bytes = words::bytes(&request);
    Asked { number, op: words::host_op(request), bytes, durable, order: None }
}
