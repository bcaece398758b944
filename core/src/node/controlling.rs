//! The controller: takes requests from endpoints and has its originator carry them out. It keeps what became of a
//! write until the endpoint has heard it, so that a request that comes twice happens once.
//!
//! All of that is of one epoch. In the next one, every endpoint asks the controller of that again for what it has
//! not heard the end of, and it is found out first what became of it ([`super::originator`], recalling). So the
//! next controller needs nothing of what this one knows.

use std::collections::BTreeMap;

use super::outbox::{FOR_ENDPOINTS, ForEndpoint, Outbox};
use super::{Ask, Body, Holder, HostData, HostError, HostOp, Stage, Wish};
use crate::Buffer;
use crate::cluster::ClusterMap;
use crate::order::Origin;
use crate::policy::Controller;
use crate::units::{NodeId, Timestamp, VolumeId};

/// Requests in work at a controller.
pub const MOST_REQUESTS: usize = 4096;
/// How far an endpoint's numbers may be ahead of the oldest that it has not heard the end of.
pub const AHEAD: u64 = 4096;

/// A node's controller.
#[derive(Clone, Default, Hash)]
pub(crate) struct Controlling {
    asking: BTreeMap<(NodeId, VolumeId), Asking>,
    /// By the originator's number.
    open: BTreeMap<u64, Open>,
    next: u64,
}

/// What an endpoint asks of a volume.
#[derive(Clone, Default, Hash)]
struct Asking {
    /// It has heard the end of all before.
    oldest: u64,
    /// The originator's numbers of those that are in work.
    in_work: BTreeMap<u64, u64>,
    /// What became of writes, and of which attempts the endpoint has to look at the pieces.
    ended: BTreeMap<u64, Ended>,
}

type Ended = (Result<(), HostError>, Vec<Timestamp>);

#[derive(Clone, Copy, Hash)]
struct Open {
    endpoint: NodeId,
    volume: VolumeId,
    number: u64,
    writes: bool,
    /// Its data is to stay at the endpoint.
    stays: bool,
}

/// A request for the originator.
pub(super) struct Taken {
    pub id: u64,
    pub volume: VolumeId,
    pub op: HostOp,
    pub origin: Origin,
    /// Who holds its bytes, or gets them, if that is the endpoint; and whether they are here, too.
    pub holder: Option<Holder>,
    pub is_inline: bool,
}

/// What is to be done about a request of an endpoint.
pub(super) enum Answer {
    Begin(Taken),
    /// Nothing of it is to begin any more.
    Abandon(u64),
    /// It is in work, over, or none of this node's business.
    Nothing,
}

impl Controlling {
    /// A new epoch: the endpoints ask anew. Says what is not to begin any more.
    pub fn enter(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.asking.clear();
        std::mem::take(&mut self.open).into_keys()
    }

    /// How many requests are in work.
    pub fn in_work(&self) -> usize {
        self.open.len()
    }

    /// An endpoint asks for something.
    pub fn on_request(
        &mut self,
        from: NodeId,
        ask: Ask,
        map: &ClusterMap,
        outbox: &mut Outbox,
    ) -> Answer {
        let policy = map.volumes.get(&ask.volume).map(|v| v.policy);
        let controller = policy.and_then(|p| p.controller);
        let most = policy.filter(|p| p.sees_no_data()).map_or(u64::MAX, |p| p.inline);
        let fits = match &ask.wish {
            Wish::Write(range, Some(data)) => data.len() as u64 == range.len && range.len <= most,
            Wish::Write(_, None) if ask.stage == Stage::New => {
                controller == Some(Controller::OutOfBand)
            }
            Wish::Write(_, None) => true,
            Wish::Read(_) => true,
        };
        if map.server() != Some(outbox.node()) || controller.is_none() || !fits {
            outbox.refuse(from, || {
                "sends a request that this node does not control, or one with data".into()
            });
            return Answer::Nothing;
        }
        let Ask { number, volume, .. } = ask;
        let asking = self.asking.entry((from, volume)).or_default();
        asking.hear(ask.oldest.min(number));
        if number < asking.oldest {
            return Answer::Nothing;
        }
        if let Some(id) = asking.in_work.get(&number) {
            let is_gone = ask.stage == Stage::Abandoned;
            return if is_gone { Answer::Abandon(*id) } else { Answer::Nothing };
        }
        let ended = asking.ended.get(&number).cloned();
        let gone = (ask.stage == Stage::Abandoned).then_some((Err(HostError::Gone), Vec::new()));
        if let Some((ended, counted)) = ended.or(gone) {
            // A message from before the host was gone may come after this one.
            asking.ended.insert(number, (ended.clone(), counted.clone()));
            let result = ended.map(|()| Vec::new());
            outbox.send(from, Body::Done { volume, number, result, counted });
            return Answer::Nothing;
        }
        if number - asking.oldest >= AHEAD || self.open.len() >= MOST_REQUESTS {
            // It is asked for again.
            outbox.counters.refused_strangers += 1;
            return Answer::Nothing;
        }
        if ask.stage == Stage::Repeated {
            // It was lost, or its answer was: that would come before this one.
            outbox.send(from, Body::Resend { volume, number });
            return Answer::Nothing;
        }
        self.next += 1;
        let id = FOR_ENDPOINTS | self.next;
        asking.in_work.insert(number, id);
        let writes = ask.wish.writes();
        let stays = controller == Some(Controller::OutOfBand);
        self.open.insert(id, Open { endpoint: from, volume, number, writes, stays });
        let holder = stays.then_some(Holder { node: from, number, key: ask.key });
        let is_inline = matches!(ask.wish, Wish::Write(_, Some(_)));
        let op = match ask.wish {
            Wish::Read(range) => HostOp::Read(range),
            Wish::Write(range, data) => {
                HostOp::Write(range.offset, data.unwrap_or(Buffer::Length(range.len as usize)))
            }
        };
        Answer::Begin(Taken { id, volume, op, origin: ask.origin, holder, is_inline })
    }

    /// The originator has done with a request.
    pub fn answered(&mut self, over: ForEndpoint, outbox: &mut Outbox) {
        let ForEndpoint { id, result, hops, counted } = over;
        let Some(open) = self.open.remove(&id) else { return };
        let Open { endpoint, volume, number, writes, stays } = open;
        let result = result.map(|data| match data {
            HostData::Bytes(pieces) => pieces,
            _ => Vec::new(),
        });
        if let (true, Ok(pieces)) = (stays, &result) {
            let bytes = pieces.iter().map(|p| p.len() as u64).sum::<u64>();
            outbox.counters.controlled_bytes += bytes;
        }
        if let Some(asking) = self.asking.get_mut(&(endpoint, volume)) {
            asking.in_work.remove(&number);
            // What has only been read can be read again.
            if writes {
                let ended = result.as_ref().map(|_| ()).map_err(Clone::clone);
                asking.ended.insert(number, (ended, counted.clone()));
            }
        }
        outbox.send_after(endpoint, Body::Done { volume, number, result, counted }, hops + 2);
    }
}

impl Asking {
    /// The endpoint has heard the end of all before.
    fn hear(&mut self, oldest: u64) {
        if oldest > self.oldest {
            self.oldest = oldest;
            self.ended = self.ended.split_off(&oldest);
        }
    }
}
