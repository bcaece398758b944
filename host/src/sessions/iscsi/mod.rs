//! iSCSI: converts the machine's events and replies to and from node requests.

mod names;
mod reserving;
mod words;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use weft_core::cluster::{Access, Registrant, ReservationAction, ReservationOutcome, Volume};
use weft_core::node::{HostData, HostError};
use weft_core::order::HostId;
use weft_core::units::{NodeId, VolumeId};
use weft_front::iscsi::reservation::{Action, Outcome};
use weft_front::iscsi::{
    self, Challenge, Event, Gate, Nexus, Op, Port, Refusal, Reply, Server, Target, Unit,
};

use reserving::Seen;

use super::connection::Protocol;
use super::link::Bounds;
use super::numbered::Failure;
use super::{Asked, Attach, Parting, Refused, Said};
use crate::doors::vault::random;
use crate::volumes::{Exports, Served};

/// The number of the latest session of this process.
static SESSIONS: AtomicU16 = AtomicU16::new(0);

/// Seconds until a host may come back whose connection was closed.
const COMES_BACK_AFTER: u16 = 2;

/// The name by which the target authenticates itself.
const OUR_NAME: &str = "weft";

/// The state of a connection.
#[derive(Default)]
pub(super) struct Iscsi {
    /// The addresses of this process for hosts.
    portals: Vec<String>,
    /// The addresses of other processes.
    elsewhere: Vec<(NodeId, String)>,
    /// The volumes' addresses.
    at: Served,
    volume: Option<VolumeId>,
    /// The host may only read the volume.
    read_only: bool,
    /// Identifies the session, once it may begin.
    name: Option<String>,
    /// The name by which the host registers with the volume.
    registrant: Option<Arc<Registrant>>,
    /// The volume's reservations as last seen.
    seen: Seen,
    /// The requested volume, while the host waits for admission.
    wanted: Option<String>,
    /// The volume is for one host at a time, and it is not yet known whether it is free.
    applies: bool,
    /// A claim is being judged.
    claims: bool,
    /// The address of another process that takes part, for a host that this one does not serve.
    other: Option<String>,
    /// This process stops; the host has been asked to log out; and it has been told that it is dropped.
    stops: bool,
    is_asked: bool,
    is_dropped: bool,
    /// It has been sent to another process.
    has_moved: bool,
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
    const ANNOUNCED: Option<&'static str> = Some("iscsi_announce");

    fn machine() -> Server {
        Server::new()
    }

    fn comes_in(&mut self, portals: Vec<String>, elsewhere: Vec<(NodeId, String)>) {
        // Only hosts of this machine are told of addresses that only this machine can reach.
        let is_local = portals.first().is_some_and(|at| is_loopback(at));
        let reached = |(_, at): &(NodeId, String)| is_local || !is_loopback(at);
        self.elsewhere = elsewhere.into_iter().filter(reached).collect();
        self.portals = portals;
    }

    fn next(&mut self, machine: &mut Server, exports: Exports<'_>) -> Result<Option<Said>, String> {
        self.at = exports.at();
        machine.count(exports.map().epoch);
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
                    // Initiators log in to all that they find. So snapshots are found by name only.
                    let found = exports.all().filter(|volume| !volume.is_snapshot());
                    let all: Vec<_> = found.map(|volume| self.target(volume, exports)).collect();
                    machine.targets(&all);
                    return Ok(None);
                }
                Some(Event::Login(nexus)) => match names::find(exports, &nexus.target) {
                    Some(_) if self.stops => {
                        let answer = moved(self.other_portal(&nexus, exports));
                        self.has_moved = matches!(answer, Refusal::Moved(_));
                        machine.turn_away(answer);
                    }
                    Some(volume) => {
                        self.other = self.other_portal(&nexus, exports);
                        self.wanted = Some(volume.name.clone());
                        // The old session ends before the new one begins.
                        let name = self.name.insert(name(&nexus)).clone();
                        let host = reserving::registrant(&nexus.transport_id(), exports.host());
                        let port = names::group(self.at.process);
                        self.registrant = Some(Arc::new(Registrant { host, port }));
                        return Ok(Some(Said::Supersede(name)));
                    }
                    None => machine.turn_away(Refusal::NotFound),
                },
                Some(Event::ColdReset) => return Ok(Some(Said::ColdReset)),
                Some(Event::Request(request)) => match (&request.op, self.volume) {
                    (Op::Reserve(action), Some(_)) => match self.change(action, exports) {
                        Ok(change) => {
                            self.seen.acts(request.number, &change);
                            return Ok(Some(Said::Reserve(request.number, change)));
                        }
                        Err(refused) => {
                            machine.reply(request.number, Ok(Reply::Reserved(refused)));
                        }
                    },
                    (Op::Ports, _) => {
                        machine.reply(request.number, Ok(Reply::Ports(self.ports(exports))));
                    }
                    (Op::Reservations, Some(_)) => {
                        return Ok(Some(Said::Registrants(request.number)));
                    }
                    _ => match self.asked(request, exports) {
                        Ok(asked) => return Ok(Some(Said::Ask(asked))),
                        Err(number) => machine.reply(number, Err(iscsi::Failure::Gone)),
                    },
                },
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

    fn disproved(&mut self, machine: &mut Server, was_judged: bool) {
        self.claims = false;
        machine.disproved(was_judged);
    }

    fn let_in(&mut self, machine: &mut Server, volume: &Volume, _: bool) {
        self.applies = false;
        self.admit(machine, volume);
    }

    fn turn_away(&mut self, machine: &mut Server, why: Refused, _: String) -> bool {
        self.applies = false;
        machine.turn_away(match why {
            Refused::NoVolume => Refusal::NotFound,
            Refused::NotServing => moved(self.other.take()),
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

    fn registrant(&self) -> Option<Arc<Registrant>> {
        self.registrant.clone()
    }

    fn reserved(
        &mut self,
        machine: &mut Server,
        number: u64,
        result: Result<ReservationOutcome, HostError>,
    ) {
        let made = !matches!(&result, Ok(outcome) if *outcome != ReservationOutcome::Done);
        if let Some(attention) = self.seen.acted(number, made) {
            machine.attend(attention);
        }
        let result = result.map(|outcome| Reply::Reserved(reserving::outcome(outcome)));
        machine.reply(number, result.map_err(words::failure));
    }

    fn registrants(
        &mut self,
        machine: &mut Server,
        number: u64,
        volume: Result<&Volume, HostError>,
    ) {
        let state = volume.and_then(|v| match v.reservations.hold {
            // Whose it is: what it excludes is any use of the other kind of reservations.
            Some(_) => Err(HostError::Reserved),
            None => Ok(Reply::Reservations(reserving::state(&v.reservations))),
        });
        machine.reply(number, state.map_err(words::failure));
    }

    fn part(&mut self, machine: &mut Server, how: Parting) -> bool {
        match how {
            Parting::Now if self.is_dropped => {}
            Parting::Now => {
                self.is_dropped = machine.part(iscsi::Parting::Drop(COMES_BACK_AFTER));
            }
            Parting::Asked(within) if !self.is_asked => {
                self.stops = true;
                let within = u16::try_from(within.as_secs()).unwrap_or(u16::MAX);
                self.is_asked = machine.part(iscsi::Parting::Logout(within));
            }
            Parting::Asked(_) => {}
        }
        self.is_asked
    }

    fn has_moved(&self) -> bool {
        self.has_moved
    }

    fn is_heard_out(&self) -> bool {
        !self.is_dropped
    }

    fn look_at(&mut self, machine: &mut Server, volume: &Volume) {
        machine.update(self.unit(volume));
        if let Some(by_itself) = self.seen.look_for_reset(&volume.reservations) {
            machine.is_reset(by_itself);
        }
        let Some(registrant) = &self.registrant else { return };
        if let Some(attention) = self.seen.look(&volume.reservations, registrant) {
            machine.attend(attention);
        }
    }
}

impl Iscsi {
    /// Sets the address's settings, until the login begins: TLS may have come before it.
    fn guard(&mut self, machine: &mut Server, exports: Exports<'_>) -> Result<(), String> {
        if machine.is_begun() {
            return Ok(());
        }
        let [identifier, bytes @ ..] = random::<33>().map_err(|e| e.to_string())?;
        let challenge = Challenge { identifier, bytes };
        machine.guard(Gate {
            chap: exports.chap(),
            challenge,
            group: names::group(self.at.process),
        });
        Ok(())
    }

    /// Begins a session with a volume, or asks for admission.
    fn begin(&mut self, machine: &mut Server, exports: Exports<'_>, wanted: &str) -> Option<Said> {
        let volume = exports.all().find(|volume| volume.name == wanted);
        self.read_only = volume.is_some_and(|v| exports.access(v.id) == Some(Access::ReadOnly));
        match volume {
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

    /// The unit that a volume is for this session.
    fn unit(&self, volume: &Volume) -> Unit {
        let held = reserving::held(&volume.reservations, self.registrant.as_deref());
        Unit { held, ..words::unit(volume, self.at, self.read_only) }
    }

    fn admit(&mut self, machine: &mut Server, volume: &Volume) {
        self.volume = Some(volume.id);
        self.seen.begin(&volume.reservations, self.registrant.as_deref());
        // Zero means no session.
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed) % u16::MAX + 1;
        machine.admit(self.unit(volume), number);
    }

    /// The node request. Fails with the request's number if its volume does not exist.
    fn asked(&self, request: iscsi::Request, exports: Exports<'_>) -> Result<Asked, u64> {
        let (number, durable, came) = (request.number, request.durable, Some(request.came));
        let elsewhere = match &request.unit {
            None => None,
            Some(unit) => {
                let is_meant = |v: &&Arc<Volume>| words::unit(v, self.at, false).is(unit);
                Some(exports.all().find(is_meant).ok_or(number)?.id)
            }
        };
        let elsewhere = elsewhere.filter(|volume| Some(*volume) != self.volume);
        let bytes = words::bytes(&request);
        let op = words::host_op(request).ok_or(number)?;
        Ok(Asked { number, op, elsewhere, bytes, durable, came, order: None })
    }

    /// Another process that takes part, for a host: of several each gets some of the hosts.
    fn other_portal(&self, nexus: &Nexus, exports: Exports<'_>) -> Option<String> {
        let up = self.elsewhere.iter().filter(|(process, _)| exports.is_up(*process));
        let up: Vec<&String> = up.map(|(_, portal)| portal).collect();
        let sum: usize = nexus.transport_id().bytes().map(usize::from).sum();
        up.get(sum % up.len().max(1)).map(|portal| (*portal).clone())
    }

    /// A volume in the list of targets.
    fn target(&self, volume: &Volume, exports: Exports<'_>) -> Target {
        let group = names::group(self.at.process);
        let ours = self.portals.iter().map(|portal| (portal.clone(), group));
        let up = self.elsewhere.iter().filter(|(process, _)| exports.is_up(*process));
        let others = up.map(|(process, portal)| (portal.clone(), names::group(process.0)));
        Target { name: names::of(volume, self.at), portals: ours.chain(others).collect() }
    }

    /// The change of reservations that the initiator asks for.
    fn change(&self, asked: &Action, exports: Exports<'_>) -> Result<ReservationAction, Outcome> {
        reserving::action(asked.clone(), |name, port| {
            if !self.ports(exports).iter().any(|p| p.group == port) {
                return Err(Outcome::NoPort);
            }
            let volume = exports.all().find(|v| Some(v.id) == self.volume);
            let known = volume.zip(self.registrant.as_ref()).ok_or(Outcome::NoInitiator);
            let (volume, us) = known?;
            reserving::destination(&volume.reservations, us, exports.host(), (name, port))
        })
    }

    /// The ports of all processes that serve initiators.
    fn ports(&self, exports: Exports<'_>) -> Vec<Port> {
        let others: BTreeSet<NodeId> = self.elsewhere.iter().map(|(process, _)| *process).collect();
        let other = |process: NodeId| Port {
            group: names::group(process.0),
            is_available: exports.is_up(process),
        };
        let ours = Port { group: names::group(self.at.process), is_available: true };
        std::iter::once(ours).chain(others.into_iter().map(other)).collect()
    }
}

/// The name of a volume's target.
pub(super) fn target(volume: &Volume, at: Served) -> String {
    names::of(volume, at)
}

/// The answer to a login that another process is to serve, if there is one.
fn moved(to: Option<String>) -> Refusal {
    to.map_or(Refusal::Unavailable, Refusal::Moved)
}

/// Whether only this machine can reach an address.
fn is_loopback(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_loopback())
}

/// Identifies a session within this process.
fn name(nexus: &Nexus) -> String {
    let Nexus { initiator, isid, target } = nexus;
    format!("{initiator} {isid:02x?} {target}")
}
