//! Hosts that register with a volume or reserve it. The leading process makes the change; the host is told when the map
//! here says what became of it, so that what the host asks next is judged by it.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use serde_json::Value;
use weft_core::cluster::{
    Access, Registrant, ReservationAction, ReservationChange, ReservationOutcome,
};
use weft_core::node::HostError;
use weft_core::units::{Epoch, VolumeId};

use super::Hosts;
use crate::control_protocol::ControlRequest;
use crate::durable::random;
use crate::engine::Engine;
use crate::reserving::Reserving;

/// A question for the leading process, where its answer goes, and who asks.
pub(crate) struct Question {
    pub(crate) question: Vec<u8>,
    pub(crate) answer: Sender<Vec<u8>>,
    pub(crate) peer: String,
}

/// What a host waits for.
struct Waiting {
    conn: usize,
    number: u64,
    volume: VolumeId,
    stamp: u64,
    answer: Receiver<Vec<u8>>,
    /// The epoch of the map that has the change.
    epoch: Option<Epoch>,
}

/// Changes of reservations that hosts wait for.
#[derive(Default)]
pub(super) struct Reservings {
    waiting: Vec<Waiting>,
    questions: Vec<Question>,
}

impl Hosts {
    /// A host asks for a change.
    pub(super) fn reserve(&mut self, id: usize, number: u64, action: ReservationAction) {
        let Some(session) = self.connections.get(id) else { return };
        let (Some(volume), Some(who)) = (session.volume(), session.registrant()) else { return };
        if session.access() != Some(Access::Full) {
            return self.tell_reserved(id, number, Err(HostError::ReadOnly));
        }
        let peer = session.peer().to_string();
        let (who, stamp) = (Registrant::clone(&who), random() as u64);
        let change = ReservationChange { volume, who, action, stamp };
        let Some(change) = Reserving::of(&change) else { return };
        let (sender, answer) = channel();
        let question = ControlRequest::Reserve { change };
        let question = serde_json::to_vec(&question).expect("a question has words for all it says");
        self.reservings.questions.push(Question { question, answer: sender, peer });
        let epoch = None;
        self.reservings.waiting.push(Waiting { conn: id, number, volume, stamp, answer, epoch });
    }

    /// What is to be asked of the leading process.
    pub(crate) fn take_questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.reservings.questions)
    }

    /// Tells hosts what has become of what they asked for. Says whether there was anything to tell.
    pub(crate) fn step_reservings(&mut self, engine: &Engine) -> bool {
        let map = engine.map();
        let mut told = Vec::new();
        self.reservings.waiting.retain_mut(|waiting| {
            if waiting.epoch.is_none() {
                match next_answer(&waiting.answer) {
                    Err(TryRecvError::Empty) => return true,
                    Err(TryRecvError::Disconnected) => {
                        told.push((waiting.conn, waiting.number, Err(HostError::NotServing)));
                        return false;
                    }
                    Ok(answer) => match epoch_of(&answer) {
                        Some(epoch) => waiting.epoch = Some(epoch),
                        None => {
                            told.push((waiting.conn, waiting.number, Err(HostError::NotServing)));
                            return false;
                        }
                    },
                }
            }
            let volume = map.volumes.get(&waiting.volume);
            let outcome = volume.map(|v| v.reservations.outcome(waiting.stamp));
            let result = match outcome {
                None => Err(HostError::NoVolume),
                Some(Some(outcome)) => Ok(outcome),
                // The map here is older; or so many changes came after it that its outcome is forgotten.
                Some(None) if waiting.epoch.is_some_and(|epoch| epoch > map.epoch) => return true,
                Some(None) => Err(HostError::NotServing),
            };
            told.push((waiting.conn, waiting.number, result));
            false
        });
        let any = !told.is_empty();
        if any {
            // What they know is as new as what they are told.
            self.connections.look_at(map);
        }
        for (conn, number, result) in told {
            self.tell_reserved(conn, number, result);
        }
        any
    }

    fn tell_reserved(
        &mut self,
        conn: usize,
        number: u64,
        result: Result<ReservationOutcome, HostError>,
    ) {
        self.connections.reserved(conn, number, result);
    }

    /// A connection is over.
    pub(super) fn forget_reservings(&mut self, conn: usize) {
        self.reservings.waiting.retain(|waiting| waiting.conn != conn);
    }
}

/// The answer, if it has come. What is said of what it waits for is for people.
fn next_answer(answers: &Receiver<Vec<u8>>) -> Result<Value, TryRecvError> {
    loop {
        let answer = serde_json::from_slice(&answers.try_recv()?).unwrap_or(Value::Null);
        if answer.get("waits_for").is_none() {
            return Ok(answer);
        }
    }
}

/// The epoch of the map that has the change, if it was made.
fn epoch_of(answer: &Value) -> Option<Epoch> {
    answer["epoch"].as_u64().filter(|_| answer["ok"] == true)
}
