//! Names of targets and units. They follow from the cluster's number and the volume, so they are the same at all
//! processes and after every start.

use weft_core::cluster::{Registrant, Volume};
use weft_core::units::NodeId;

use crate::volumes::{Exports, SNAPSHOT_MARK, Served};

/// The prefix of all names, before the cluster's number.
const PREFIX: &str = "iqn.2026-11.weft";

/// The name of a volume's target.
///
/// Names of targets have small letters, digits, dots and dashes. Other names of volumes are converted, and get the
/// volume's number after a colon, which no volume's name has.
pub(super) fn of(volume: &Volume, at: Served) -> String {
    let cluster = (at.cluster >> 64) as u64;
    let name = &volume.name;
    let folded = name.to_ascii_lowercase().replace('_', "-").replace(SNAPSHOT_MARK, ".");
    match folded == *name {
        true => format!("{PREFIX}.{cluster:016x}:{name}"),
        false => format!("{PREFIX}.{cluster:016x}:{folded}:{}", volume.id.0),
    }
}

/// The volume of a target.
pub(super) fn find<'a>(exports: Exports<'a>, target: &str) -> Option<&'a Volume> {
    let is_meant = |volume: &&Volume| of(volume, exports.at()).eq_ignore_ascii_case(target);
    exports.all().map(|volume| &**volume).find(is_meant)
}

/// The portal group of a process.
pub(super) fn group(process: u16) -> u16 {
    Registrant::port_of(NodeId(process))
}

/// A number unique to the volume.
pub(super) fn id(volume: &Volume, at: Served) -> u128 {
    at.cluster ^ u128::from(volume.id.0)
}

/// A number of 60 bits, unique to the volume in its cluster.
pub(super) fn short_id(volume: &Volume, at: Served) -> u64 {
    const CLUSTER: u64 = (1 << 28) - 1;
    ((at.cluster >> 64) as u64 & CLUSTER) << 32 | u64::from(volume.id.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use weft_core::cluster::ClusterMap;
    use weft_core::layout::Geometry;
    use weft_core::units::VolumeId;

    use super::*;

    fn volume(id: u32, name: &str) -> Volume {
        let layout: weft_core::layout::LayoutSpec = "raid1".parse().unwrap();
        let geometry = Geometry::new(layout.over(2).unwrap(), 4096);
        Volume::new(VolumeId(id), name, 1 << 20, &layout, geometry, Vec::new())
    }

    #[test]
    fn each_volume_has_names_of_its_own() {
        let names = ["vol0", "Vol0", "vol-a", "vol_a", "VOL_A", "a.b", "a@b"];
        let volumes: Vec<Volume> = names.iter().zip(0..).map(|(n, id)| volume(id, n)).collect();
        let map = ClusterMap {
            volumes: volumes.iter().map(|v| (v.id, Arc::new(v.clone()))).collect(),
            ..ClusterMap::default()
        };
        let at = Served { cluster: 0x0123_4567_89ab_cdef << 64 | 0xffff, process: 3 };
        let exports = Exports::of(&map).served(at);
        assert_eq!(of(&volumes[0], at), "iqn.2026-11.weft.0123456789abcdef:vol0");
        assert_eq!(of(&volumes[4], at), "iqn.2026-11.weft.0123456789abcdef:vol-a:4");
        for volume in &volumes {
            let name = of(volume, at);
            assert!(
                name.bytes()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b".-:".contains(&c))
            );
            assert_eq!(find(exports, &name).map(|v| v.id), Some(volume.id));
            assert_eq!(find(exports, &name.to_uppercase()).map(|v| v.id), Some(volume.id));
        }
        assert!(find(exports, "iqn.2026-11.weft.0123456789abcdef:vol9").is_none());
        let ids = |of: fn(&Volume, Served) -> u128| {
            volumes.iter().map(|v| of(v, at)).collect::<BTreeSet<u128>>().len()
        };
        assert_eq!(ids(id), volumes.len());
        assert_eq!(ids(|v, at| short_id(v, at).into()), volumes.len());
        assert_eq!((group(at.process), group(u16::MAX)), (4, 1));
        let elsewhere = Served { process: 0, ..at };
        assert_eq!(id(&volumes[1], at), id(&volumes[1], elsewhere), "the same everywhere");
    }
}
