//! What members send one another, and its bytes.

use std::sync::Arc;

use weft_core::cluster::Arrival;
use weft_core::node::{MapMessage, MemberReport, Memory, Undescribed};
use weft_core::store::Reached;
use weft_core::units::{Epoch, Nanos, NodeId, Timestamp, VolumeId};

use crate::MapCodec;
use crate::MemberId;
use crate::decision::{Life, read_map};
use crate::hearing::Unheard;
use weft_bytes::{BytesError, Read, Reader, Writer, at_most};

/// Since version 4 a message says which members it is from and for.
const VERSION: u8 = 7;

/// A message between members.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// Raft's own.
    Raft(Vec<u8>),
    /// The leader: are you alive?
    Probe { term: u64, round: u64 },
    /// The answer, and the news of a process's nodes. Each tells everything.
    Alive(Alive),
    /// The leader: a majority stood behind me after you sent this stamp.
    Grant { start: u64, stamp: Nanos },
    /// The leader's word to a node.
    Word(Word),
    /// The leader: the others may have gone on without this life of a node.
    Outlived { term: u64, node: NodeId, life: Life },
    /// I am here, and did not always hear these: to all others, so that each knows whom it hears, and
    /// the leader whom others do, also if its probes do not reach them.
    Ping(Vec<Unheard>),
}

/// A process shows itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alive {
    /// Its member's term.
    pub term: u64,
    /// The last probe that it has seen in this term.
    pub round: u64,
    /// Which of the process's starts this is, and which of its messages; later is higher.
    pub start: u64,
    pub number: u64,
    /// Its clock.
    pub stamp: Nanos,
    /// Nodes of it are still opening their disks.
    pub opening: bool,
    pub nodes: Vec<NodeState>,
    /// The others that it did not always hear.
    pub unheard: Vec<Unheard>,
    /// Nodes of it that are down because their disks have failed.
    pub failed: Vec<NodeId>,
}

/// A node that is ready.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeState {
    /// The node, and its disk.
    pub arrival: Arrival,
    pub life: Life,
    /// The last word that it was given: term and number.
    pub heard: (u64, u64),
    pub frozen: Option<MemberReport>,
    pub caught_up: Option<MemberReport>,
    pub wakes: Option<MemberReport>,
    pub parity_done: Option<MemberReport>,
}

/// A word of the authority on its way to a life of a node.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub term: u64,
    pub number: u64,
    pub node: NodeId,
    pub life: Life,
    pub message: MapMessage,
}

const RAFT: u8 = 1;
const PROBE: u8 = 2;
const ALIVE: u8 = 3;
const GRANT: u8 = 4;
const WORD: u8 = 5;
const OUTLIVED: u8 = 6;
const PING: u8 = 7;

const FREEZE: u8 = 1;
const ENTER: u8 = 2;

const FROZEN: u8 = 1;
const CAUGHT_UP: u8 = 2;
const WAKE: u8 = 3;
const MERGED: u8 = 5;
const PARITY_DONE: u8 = 6;

impl Message {
    pub fn encode(&self, from: MemberId, to: MemberId, codec: &dyn MapCodec) -> Vec<u8> {
        let mut w = Writer::default();
        w.u8(VERSION);
        w.u64(from.0);
        w.u64(to.0);
        match self {
            Message::Raft(bytes) => {
                w.u8(RAFT);
                w.bytes(bytes);
            }
            Message::Probe { term, round } => {
                w.u8(PROBE);
                w.u64(*term);
                w.u64(*round);
            }
            Message::Alive(alive) => {
                w.u8(ALIVE);
                alive.write(&mut w);
            }
            Message::Grant { start, stamp } => {
                w.u8(GRANT);
                w.u64(*start);
                w.u64(*stamp);
            }
            Message::Word(word) => {
                w.u8(WORD);
                word.write(&mut w, codec);
            }
            Message::Outlived { term, node, life } => {
                w.u8(OUTLIVED);
                w.u64(*term);
                w.u16(node.0);
                life.write(&mut w);
            }
            Message::Ping(unheard) => {
                w.u8(PING);
                write_unheard(&mut w, unheard);
            }
        }
        w.finish()
    }

    /// A message, the member that it is from and that which it is for.
    pub fn decode(bytes: &[u8], codec: &dyn MapCodec) -> Read<(MemberId, MemberId, Message)> {
        let mut r = Reader::new(bytes);
        at_most("the version of a message", r.u8()?.abs_diff(VERSION).into(), 0)?;
        let (from, to) = (MemberId(r.u64()?), MemberId(r.u64()?));
        let message = match r.u8()? {
            RAFT => Message::Raft(r.bytes()?.to_vec()),
            PROBE => Message::Probe { term: r.u64()?, round: r.u64()? },
            ALIVE => Message::Alive(Alive::read(&mut r)?),
            GRANT => Message::Grant { start: r.u64()?, stamp: r.u64()? },
            WORD => Message::Word(Word::read(&mut r, codec)?),
            OUTLIVED => Message::Outlived {
                term: r.u64()?,
                node: NodeId(r.u16()?),
                life: Life::read(&mut r)?,
            },
            PING => Message::Ping(read_unheard(&mut r)?),
            value => return Err(BytesError::Unknown { what: "message of members", value }),
        };
        r.end()?;
        Ok((from, to, message))
    }
}

impl Alive {
    fn write(&self, w: &mut Writer) {
        for n in [self.term, self.round, self.start, self.number, self.stamp] {
            w.u64(n);
        }
        w.bool(self.opening);
        w.list(self.nodes.iter(), |w, node| {
            w.u16(node.arrival.node.0);
            w.u64(node.arrival.disk);
            w.u64(node.arrival.sectors);
            node.life.write(w);
            w.u64(node.heard.0);
            w.u64(node.heard.1);
            w.option(node.frozen.as_ref(), write_report);
            w.option(node.caught_up.as_ref(), write_report);
            w.option(node.wakes.as_ref(), write_report);
            w.option(node.parity_done.as_ref(), write_report);
        });
        write_unheard(w, &self.unheard);
        w.list(self.failed.iter(), |w, node| w.u16(node.0));
    }

    fn read(r: &mut Reader) -> Read<Alive> {
        Ok(Alive {
            term: r.u64()?,
            round: r.u64()?,
            start: r.u64()?,
            number: r.u64()?,
            stamp: r.u64()?,
            opening: r.bool()?,
            nodes: r.list(53, |r| {
                let node = NodeId(r.u16()?);
                let (disk, sectors) = (r.u64()?, r.u64()?);
                Ok(NodeState {
                    arrival: Arrival { node, disk, sectors },
                    life: Life::read(r)?,
                    heard: (r.u64()?, r.u64()?),
                    frozen: r.option(read_report)?,
                    caught_up: r.option(read_report)?,
                    wakes: r.option(read_report)?,
                    parity_done: r.option(read_report)?,
                })
            })?,
            unheard: read_unheard(r)?,
            failed: r.list(2, |r| Ok(NodeId(r.u16()?)))?,
        })
    }
}

fn write_unheard(w: &mut Writer, unheard: &[Unheard]) {
    w.list(unheard.iter(), |w, Unheard { member, age, late }| {
        w.u64(member.0);
        w.u64(*age);
        w.u8(*late);
    });
}

fn read_unheard(r: &mut Reader) -> Read<Vec<Unheard>> {
    r.list(17, |r| Ok(Unheard { member: MemberId(r.u64()?), age: r.u64()?, late: r.u8()? }))
}

fn write_report(w: &mut Writer, report: &MemberReport) {
    match report {
        MemberReport::Frozen {
            epoch,
            oldest,
            clock,
            written,
            busy,
            memory,
            heard,
            undescribed,
        } => {
            w.u8(FROZEN);
            w.u64(*epoch);
            w.u64(oldest.0);
            w.u64(clock.0);
            w.u64(written.0);
            w.bool(*busy);
            write_reached(w, &memory.found);
            write_reached(w, &memory.reached);
            w.u64(memory.began);
            w.bool(memory.forgot);
            w.list(heard.iter(), |w, (node, reached)| {
                w.u16(node.0);
                write_reached(w, reached);
            });
            let Undescribed { exposed, refreshing, copied } = undescribed;
            [exposed, refreshing, copied].into_iter().for_each(|volumes| write_volumes(w, volumes));
        }
        MemberReport::ParityDone { epoch, volumes } => {
            w.u8(PARITY_DONE);
            w.u64(*epoch);
            write_volumes(w, volumes);
        }
        MemberReport::CaughtUp { epoch, volumes } => {
            w.u8(CAUGHT_UP);
            w.u64(*epoch);
            write_volumes(w, volumes);
        }
        MemberReport::Merged { epoch, merged, flattened } => {
            w.u8(MERGED);
            w.u64(*epoch);
            w.bool(*merged);
            w.bool(*flattened);
        }
        MemberReport::Wake { epoch } => {
            w.u8(WAKE);
            w.u64(*epoch);
        }
    }
}

fn write_reached(w: &mut Writer, reached: &Reached) {
    let Reached { disk, life, frame, sequence } = *reached;
    [disk, life, frame, sequence].into_iter().for_each(|n| w.u64(n));
}

fn read_reached(r: &mut Reader) -> Read<Reached> {
    let (disk, life, frame, sequence) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
    Ok(Reached { disk, life, frame, sequence })
}

fn write_volumes(w: &mut Writer, volumes: &[VolumeId]) {
    w.list(volumes.iter(), |w, volume| w.u32(volume.0));
}

fn read_volumes(r: &mut Reader) -> Read<Vec<VolumeId>> {
    r.list(4, |r| Ok(VolumeId(r.u32()?)))
}

fn read_report(r: &mut Reader) -> Read<MemberReport> {
    let kind = r.u8()?;
    let epoch: Epoch = r.u64()?;
    match kind {
        FROZEN => {
            let (oldest, clock) = (Timestamp(r.u64()?), Timestamp(r.u64()?));
            let written = Timestamp(r.u64()?);
            let busy = r.bool()?;
            let (found, reached) = (read_reached(r)?, read_reached(r)?);
            let memory = Memory { found, reached, began: r.u64()?, forgot: r.bool()? };
            let heard = r.list(34, |r| Ok((NodeId(r.u16()?), read_reached(r)?)))?;
            let (exposed, refreshing) = (read_volumes(r)?, read_volumes(r)?);
            let undescribed = Undescribed { exposed, refreshing, copied: read_volumes(r)? };
            Ok(MemberReport::Frozen {
                epoch,
                oldest,
                clock,
                written,
                busy,
                memory,
                heard,
                undescribed,
            })
        }
        CAUGHT_UP => Ok(MemberReport::CaughtUp { epoch, volumes: read_volumes(r)? }),
        WAKE => Ok(MemberReport::Wake { epoch }),
        PARITY_DONE => Ok(MemberReport::ParityDone { epoch, volumes: read_volumes(r)? }),
        MERGED => Ok(MemberReport::Merged { epoch, merged: r.bool()?, flattened: r.bool()? }),
        value => Err(BytesError::Unknown { what: "report", value }),
    }
}

impl Word {
    fn write(&self, w: &mut Writer, codec: &dyn MapCodec) {
        w.u64(self.term);
        w.u64(self.number);
        w.u16(self.node.0);
        self.life.write(w);
        match &self.message {
            MapMessage::Freeze { epoch } => {
                w.u8(FREEZE);
                w.u64(*epoch);
            }
            MapMessage::Enter { map, floor } => {
                w.u8(ENTER);
                w.u64(floor.0);
                w.bytes(&codec.encode(map));
            }
        }
    }

    fn read(r: &mut Reader, codec: &dyn MapCodec) -> Read<Word> {
        let (term, number) = (r.u64()?, r.u64()?);
        let (node, life) = (NodeId(r.u16()?), Life::read(r)?);
        let message = match r.u8()? {
            FREEZE => MapMessage::Freeze { epoch: r.u64()? },
            ENTER => {
                let floor = Timestamp(r.u64()?);
                MapMessage::Enter { map: Arc::new(read_map(r, codec)?), floor }
            }
            value => return Err(BytesError::Unknown { what: "word", value }),
        };
        Ok(Word { term, number, node, life, message })
    }
}
