//! Nodes that are down or have been given up: since when, and what is to become of each. The authority knows, in
//! the process that leads; the others show what that has said last.

use std::collections::BTreeMap;

use weft_core::cluster::{Absence, ClusterMap, Hindrance, Prospect};
use weft_core::units::{MILLIS, NodeId, VolumeId};

use crate::control::peer_status::PeerStatus;
use crate::engine::Engine;
use crate::status::AbsenceStatus;

/// By node, as far as it is known here.
pub(crate) type Absences = BTreeMap<u16, AbsenceStatus>;

/// All of them, as this process knows them or has heard from the one that leads.
pub(crate) fn all(engine: &Engine, others: &PeerStatus) -> Absences {
    match engine.rule.together() {
        Some(t) if !t.is_in_charge() => t.leader().map(|p| others.absences(p)).unwrap_or_default(),
        _ => ours(engine),
    }
}

/// Those that the authority of this process knows of.
pub(crate) fn ours(engine: &Engine) -> Absences {
    let map = engine.map();
    let shown = |a: Absence| (a.node.0, absence(map, &a));
    engine.rule.absences().into_iter().map(shown).collect()
}

fn absence(map: &ClusterMap, a: &Absence) -> AbsenceStatus {
    let seconds = |nanos: u64| nanos / (1000 * MILLIS);
    let (given_up_in_seconds, hindrance) = match a.prospect {
        Prospect::Waits | Prospect::GivenUp => (None, None),
        Prospect::GivenUpIn(left) => (Some(seconds(left)), None),
        Prospect::Hindered(why) => (None, Some(in_words(map, a.node, why))),
    };
    AbsenceStatus {
        down_seconds: seconds(a.down_for),
        disk_failed: a.disk_failed,
        given_up_in_seconds,
        hindrance,
    }
}

/// Why a node is not given up though it is time, and what would do.
fn in_words(map: &ClusterMap, node: NodeId, why: Hindrance) -> String {
    let name = |id: VolumeId| map.volumes.get(&id).map_or("?", |v| v.name.as_str());
    match why {
        Hindrance::Rebuilding => "content of other nodes is being rebuilt first".to_string(),
        Hindrance::Needed(volume) => format!(
            "volume '{}' needs it, because other nodes are down or behind; start other nodes",
            name(volume)
        ),
        Hindrance::NoRoom => {
            "other disks have too little free space for its content, with each column of an \
             extent in another failure domain; add a disk"
                .to_string()
        }
        Hindrance::Exposed(volume) => format!(
            "parity of volume '{}' is out of date, so some data may be only on its disk; start it, or give it up with `weft \
                 disk fail {}`",
            name(volume),
            node.0
        ),
    }
}
