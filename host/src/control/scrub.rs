//! Scrubs as an operator asks for them, and what is answered.

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::{HostOp, ScrubFindings, ScrubProgress, Trust};
use weft_core::units::NodeId;

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

/// What is answered when a scrub of this volume is done; `volume` is as it is then, if it is still there.
pub(crate) fn answer(
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
        "read_bytes": p.verified * stripe_bytes,
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
    use weft_core::units::VolumeId;

    fn volume(layout: &str, nodes: usize) -> Volume {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(nodes).unwrap(), 4096);
        let columns = (0..nodes as u16).map(|n| (NodeId(n), 0)).collect();
        let extents = vec![Extent::new(0, columns)];
        Volume::new(VolumeId(1), "v", 4 * 4096, &spec, geometry, extents)
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
