//! Scrubs as an operator asks for them, and what is answered.

use serde_json::{Value, json};
use weft_core::cluster::{ClusterMap, Volume};
use weft_core::node::{HostOp, ScrubFindings, ScrubProgress, Trust};
use weft_core::units::{NodeId, VolumeId};

use crate::control_protocol::Believed;
use crate::error::{Result, fail};

/// Bytes a second that a scrub reads of each disk unless another rate is asked for: half of what a
/// disk with moving parts gives when it reads in order, little for one without.
pub const SCRUB_RATE: u64 = 100 << 20;

/// What an operator may say of a scrub.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    pub from: u64,
    pub rate: Option<u64>,
    pub trust: Option<Believed>,
    pub suspect: Option<u16>,
}

/// The scrub of a volume that is wished for, if that can be.
pub(crate) fn operation(volume: &Volume, wish: Wish) -> Result<HostOp> {
    let (name, stripes, from) = (&volume.name, volume.stripes(), wish.from);
    if from >= stripes {
        return fail(format!("volume '{name}' has only {stripes} stripes; begin before {from}"));
    }
    let rate = wish.rate.unwrap_or(SCRUB_RATE);
    if rate == 0 {
        return fail("the rate cannot be 0; give a rate such as 50M");
    }
    Ok(HostOp::Scrub { from, rate, trust: trust(volume, wish)? })
}

fn trust(volume: &Volume, wish: Wish) -> Result<Trust> {
    let name = &volume.name;
    let k = volume.geometry.data_columns();
    if wish.trust.is_some() && !volume.geometry.is_redundant() {
        return fail(format!("volume '{name}' has no parity; omit --trust"));
    }
    match (wish.trust, wish.suspect) {
        (None, None) => Ok(Trust::Nobody),
        (None | Some(Believed::Data), Some(_)) => {
            fail("--wrong needs --trust parity: it names the node with the wrong data")
        }
        (Some(Believed::Data), None) => Ok(Trust::Data),
        (Some(Believed::Parity), None) if k > 1 => fail(format!(
            "volume '{name}' has {k} data columns, and parity can correct one of them: give the node with the wrong data, with \
             --wrong N"
        )),
        (Some(Believed::Parity), None) => Ok(Trust::Parity(None)),
        (Some(Believed::Parity), Some(node)) => {
            let nodes = volume.nodes();
            if !nodes.contains(&NodeId(node)) {
                let list: Vec<String> = nodes.iter().map(|n| n.0.to_string()).collect();
                return fail(format!(
                    "node {node} holds nothing of volume '{name}'; choose from {}",
                    list.join(", ")
                ));
            }
            Ok(Trust::Parity(Some(NodeId(node))))
        }
    }
}

/// A scrub of a volume, and after it of those below.
#[derive(Debug)]
pub(crate) struct Scrubbing {
    wish: Wish,
    /// The volume in progress, its name, and the bytes of its stripes with their parity.
    volume: VolumeId,
    name: String,
    stripe_bytes: u64,
    stripes: u64,
    /// The volumes that follow, with their names and stripes, the last first.
    left: Vec<(VolumeId, String, u64)>,
    /// The results of those that are done.
    done: Vec<Value>,
}

impl Scrubbing {
    /// One of a volume, and then of those below, the nearest first.
    pub(crate) fn of<'a>(
        volume: &Volume,
        wish: Wish,
        below: impl Iterator<Item = &'a Volume>,
    ) -> Scrubbing {
        let mut left: Vec<_> = below.map(|v| (v.id, v.name.clone(), v.stripes())).collect();
        left.reverse();
        Scrubbing {
            wish,
            volume: volume.id,
            name: volume.name.clone(),
            stripe_bytes: stripe_bytes(volume),
            stripes: volume.stripes(),
            left,
            done: Vec::new(),
        }
    }

    /// The volume in progress.
    pub(crate) fn volume(&self) -> VolumeId {
        self.volume
    }

    /// Whether it is one below.
    pub(crate) fn is_below(&self) -> bool {
        !self.done.is_empty()
    }

    /// The volume in progress is done, which is as given, if it is still there.
    pub(crate) fn with(
        mut self,
        volume: Option<&Volume>,
        progress: &ScrubProgress,
        findings: &ScrubFindings,
    ) -> Scrubbing {
        let name = std::mem::take(&mut self.name);
        self.done.push(found((name, self.stripe_bytes), volume, progress, findings));
        self
    }

    /// The volume in progress has been deleted, and is merged into the one over it, which may have been verified before.
    pub(crate) fn gone(mut self) -> Scrubbing {
        let (stripes, name) = (self.stripes, std::mem::take(&mut self.name));
        let skipped = ScrubProgress { stripes, skipped: stripes, ..ScrubProgress::default() };
        let result = found((name, self.stripe_bytes), None, &skipped, &ScrubFindings::default());
        self.done.push(result);
        self
    }

    /// The next volume that is still there, and its scrub.
    pub(crate) fn next(mut self, map: &ClusterMap) -> (Scrubbing, Option<(VolumeId, HostOp)>) {
        while let Some((id, name, stripes)) = self.left.pop() {
            (self.volume, self.name, self.stripes) = (id, name, stripes);
            let Some(volume) = map.volumes.get(&id).filter(|_| map.shown_in(id) == id) else {
                self = self.gone();
                continue;
            };
            let wish = Wish { from: 0, ..self.wish };
            let unbelieving = Wish { trust: None, suspect: None, ..wish };
            // The suspect may hold nothing of it.
            let op = operation(volume, wish).or_else(|_| operation(volume, unbelieving));
            let Ok(op) = op else { continue };
            self.stripe_bytes = stripe_bytes(volume);
            return (self, Some((id, op)));
        }
        (self, None)
    }

    /// The result of the volume, with those of the volumes below it.
    pub(crate) fn answer(self) -> Value {
        let mut done = self.done.into_iter();
        let mut answer = done.next().unwrap_or_default();
        let below: Vec<Value> = done.collect();
        if !below.is_empty() {
            answer["below"] = json!(below);
        }
        answer
    }
}

fn stripe_bytes(volume: &Volume) -> u64 {
    volume.geometry.layout.width() as u64 * volume.geometry.unit
}

fn found(
    (name, stripe_bytes): (String, u64),
    volume: Option<&Volume>,
    p: &ScrubProgress,
    findings: &ScrubFindings,
) -> Value {
    json!({
        "volume": name,
        "ordering": volume.map(|v| v.policy.ordering.to_string()),
        "journal": volume.map(|v| v.policy.journal),
        "stripes": p.stripes,
        "from": p.from,
        "read_bytes": p.verified.saturating_sub(p.unwritten) * stripe_bytes,
        "verified": p.verified,
        "rebuilt": p.rebuilt,
        "mismatched": p.mismatched,
        "unclear": p.unclear,
        "data_lost": p.data_lost,
        "unclear_ranges": findings.unclear.iter().map(|r| [r.offset, r.len]).collect::<Vec<_>>(),
        "mended": findings.mended.iter().map(|(node, units)| json!({ "node": node.0, "units": units })).collect::<Vec<_>>(),
        "skipped": p.skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::cluster::Extent;
    use weft_core::layout::{Geometry, LayoutSpec};

    fn volume(layout: &str, nodes: usize) -> Volume {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(nodes).unwrap(), 4096);
        let columns = (0..nodes as u16).map(|n| (NodeId(n), 0)).collect();
        let extents = vec![Extent::new(0, columns)];
        Volume::new(VolumeId(1), "v", 4 * 4096, &spec, geometry, extents)
    }

    #[test]
    fn the_volumes_below_follow_and_those_that_have_gone_count_as_skipped() {
        let whole = volume("raid5", 3);
        let mut map = ClusterMap::default();
        let below = [(2, "v@c"), (3, "v@b"), (4, "v@a")].map(|(id, name)| {
            let id = VolumeId(id);
            Volume { id, name: name.into(), ..whole.clone() }
        });
        for volume in [&below[0], &below[2]] {
            map.volumes.insert(volume.id, volume.clone().into());
        }
        let wish = Wish { from: 1, trust: Some(Believed::Data), ..Wish::default() };
        let mut scrubbing = Scrubbing::of(&whole, wish, below.iter());
        let progress = ScrubProgress { verified: 4, unwritten: 1, ..ScrubProgress::default() };
        let mut order = Vec::new();
        loop {
            scrubbing = scrubbing.with(Some(&whole), &progress, &ScrubFindings::default());
            let next;
            (scrubbing, next) = scrubbing.next(&map);
            let Some((id, op)) = next else { break };
            assert!(matches!(op, HostOp::Scrub { from: 0, trust: Trust::Data, .. }));
            assert!(scrubbing.is_below() && scrubbing.volume() == id);
            order.push(id.0);
        }
        assert_eq!(order, [2, 4]);
        let answer = scrubbing.answer();
        assert_eq!((&answer["volume"], &answer["read_bytes"]), (&json!("v"), &json!(3 * 3 * 4096)));
        let names: Vec<&Value> =
            answer["below"].as_array().unwrap().iter().map(|b| &b["volume"]).collect();
        assert_eq!(names, ["v@c", "v@b", "v@a"]);
        assert_eq!(answer["below"][1]["skipped"], whole.stripes(), "what it had was not looked at");
    }

    #[test]
    fn what_is_trusted_must_make_sense() {
        let refused = |layout, nodes, trust, suspect| {
            let wish = Wish { trust, suspect, ..Wish::default() };
            operation(&volume(layout, nodes), wish).map(|_| ()).map_err(|e| e.to_string())
        };
        let parity = Some(Believed::Parity);
        assert!(refused("raid5", 3, parity, None).unwrap_err().contains("--wrong N"));
        assert!(refused("raid5", 3, parity, Some(7)).unwrap_err().contains("0, 1, 2"));
        assert!(refused("raid5", 3, Some(Believed::Data), Some(1)).is_err());
        assert!(refused("raid0", 3, Some(Believed::Data), None).unwrap_err().contains("no parity"));
        assert_eq!(refused("raid1", 2, parity, None), Ok(()));
        assert_eq!(refused("raid5", 3, parity, Some(2)), Ok(()));
        assert_eq!(refused("raid5", 3, Some(Believed::Data), None), Ok(()));
    }
}
