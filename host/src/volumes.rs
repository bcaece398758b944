//! Which volumes hosts can use; making a new one: checking what is asked, and finding room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_core::SECTOR;
use weft_core::cluster::{
    APART, APART_BY_NODE, Access, ClusterMap, Place, PlacementError, Volume, column_bytes,
    place_stripes, place_thin, place_volume, thin_start,
};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::policy::Policy;
use weft_core::units::{LAST_THIN, NodeId, VolumeId, thin_space};
use weft_front::iscsi::Chap;

use crate::doors::who::{No, Who};
use crate::error::{Error, Result, fail};
use crate::size::{Size, exactly, require_multiple, rounded};
use crate::spec::Spec;

/// What stands between the name of a volume and that of a snapshot of it.
pub(crate) const SNAPSHOT_MARK: char = '@';

/// The volumes of a map.
pub(crate) type Volumes = BTreeMap<VolumeId, Arc<Volume>>;

/// The volumes that hosts can use: those of the map whose room is clear.
#[derive(Clone, Copy)]
pub(crate) struct Exports<'a> {
    map: &'a ClusterMap,
    /// The names of those that there are here, if not all are.
    only: Option<&'a BTreeSet<String>>,
    /// The host that is to use them, if it is one.
    who: Option<&'a Who>,
    /// Where they are served.
    at: Served,
}

/// Where volumes are served: what is the same at all processes, and what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// The number of the cluster.
    pub(crate) cluster: u128,
    /// The node that this process is known by.
    pub(crate) process: u16,
}

impl<'a> Exports<'a> {
    /// Those of a map.
    pub(crate) fn of(map: &'a ClusterMap) -> Exports<'a> {
        Exports { map, only: None, who: None, at: Served::default() }
    }

    /// The map.
    pub(crate) fn map(self) -> &'a ClusterMap {
        self.map
    }

    /// The same, served there.
    pub(crate) fn served(self, at: Served) -> Exports<'a> {
        Exports { at, ..self }
    }

    /// Where they are served.
    pub(crate) fn at(self) -> Served {
        self.at
    }

    /// The name of the host, if it has proved who it is.
    pub(crate) fn host(self) -> Option<&'a str> {
        self.who.and_then(Who::name)
    }

    /// Whether a node of a process takes part.
    pub(crate) fn is_up(self, process: NodeId) -> bool {
        self.map.served_by(process).any(|node| self.map.is_up(node))
    }

    /// Of these only those that are named, if any are.
    pub(crate) fn only(self, only: Option<&'a BTreeSet<String>>) -> Exports<'a> {
        Exports { only, ..self }
    }

    /// Of these those that a host may use.
    pub(crate) fn to(self, who: &'a Who) -> Exports<'a> {
        Exports { who: Some(who), ..self }
    }

    /// Whether the host is asked to prove by CHAP who it is. One that has shown a certificate is not.
    pub(crate) fn chap(self) -> Chap {
        let has_secrets = || self.map.hosts.values().any(|host| host.secret.is_some());
        match self.who {
            Some(Who::Unproved) => Chap::Required,
            Some(Who::Stranger | Who::Own(_)) if has_secrets() => Chap::Offered,
            _ => Chap::Off,
        }
    }

    /// What the host may do with a volume, if it may use it.
    pub(crate) fn access(self, id: VolumeId) -> Option<Access> {
        let volume = self.map.volumes.get(&id)?;
        self.who.map_or(Some(volume.most_access()), |who| who.access(self.map, volume).ok())
    }

    /// Why the host may not use the volume of this name, if it is there and that is so. One that has lost its
    /// certificate may use none, whether it is there or not.
    pub(crate) fn refused(self, name: &str) -> Option<No> {
        let who = self.who?;
        if let Err(no) = who.known(self.map) {
            return Some(no);
        }
        let there = Exports { who: None, ..self };
        match self.wanted(name) {
            Some(_) => None,
            None => who.access(self.map, there.wanted(name)?).err(),
        }
    }

    /// The same in words.
    pub(crate) fn refusal(self, name: &str) -> Option<String> {
        self.refused(name).map(|no| no.text)
    }

    /// All of them, by number.
    pub(crate) fn all(self) -> impl Iterator<Item = &'a Arc<Volume>> {
        let is_here = move |v: &Volume| self.only.is_none_or(|names| is_among(names, &v.name));
        let may = move |v: &Volume| self.who.is_none_or(|who| who.access(self.map, v).is_ok());
        self.map.volumes.values().filter(move |v| v.visible > 0 && is_here(v) && may(v))
    }

    /// One by its name.
    pub(crate) fn named(self, name: &str) -> Option<&'a Arc<Volume>> {
        self.all().find(|v| v.name == name)
    }
}

/// Whether names are those of a volume, or of the volume that it is a snapshot of.
fn is_among(names: &BTreeSet<String>, name: &str) -> bool {
    let origin = name.split_once(SNAPSHOT_MARK).map(|(origin, _)| origin);
    names.contains(name) || origin.is_some_and(|origin| names.contains(origin))
}

/// What a new volume is to be.
#[derive(Clone, Debug)]
pub(crate) struct NewVolume {
    pub(crate) name: String,
    /// Bytes; 0 takes all the room that is left.
    pub(crate) size: u64,
    /// Whether it takes space when it is written, and reserves none.
    pub(crate) thin: bool,
    pub(crate) layout: LayoutSpec,
    pub(crate) stripe_unit: u64,
    pub(crate) policy: Policy,
    /// The label of the failure domains that its columns are kept apart by.
    pub(crate) apart: String,
}

impl NewVolume {
    /// A volume of a name and a size, the rest as `spec` says.
    pub(crate) fn of(spec: &Spec, name: String, size: u64) -> NewVolume {
        NewVolume {
            name,
            size,
            thin: false,
            layout: spec.layout(),
            stripe_unit: spec.stripe_unit(),
            policy: spec.policy(),
            apart: spec.apart().to_string(),
        }
    }
}

/// Finds room for a volume on the disks of a map.
pub(crate) fn place(new: &NewVolume, map: &ClusterMap) -> Result<Volume> {
    let (id, there) = (VolumeId(map.next_volume), &map.volumes);
    let disks = map.places(&new.apart);
    check_name(&new.name, there)?;
    require_multiple("a stripe unit", new.stripe_unit, SECTOR)?;
    if new.size != 0 {
        require_multiple("a volume size", new.size, new.policy.block)?;
    }
    check_label(&new.apart, map)?;
    let room = disks.iter().map(|d| d.sectors).max().unwrap_or(0) * SECTOR;
    if room > 0 && new.stripe_unit > room {
        return fail(format!(
            "a stripe unit of {} exceeds the free space of every disk, {}; choose a smaller one",
            exactly(new.stripe_unit),
            rounded(room)
        ));
    }
    let (domains, usable) = (domains(&disks), disks.iter().filter(|d| d.sectors > 0).count());
    let layout = new.layout.over(domains).map_err(|_| match new.layout.over(usable) {
        // There are nodes enough, and not apart.
        Ok(_) => {
            let columns = new.layout.least_nodes();
            cannot_place(new, &PlacementError::Domains { columns, domains })
        }
        Err(of_all) => Error(of_all.to_string()),
    })?;
    let geometry = Geometry::new(layout, new.stripe_unit);
    let others: Vec<&Volume> = there.values().map(|v| &**v).collect();
    if new.thin {
        return place_new_thin(new, id, geometry, &disks, &others);
    }
    let size = match new.size {
        0 => largest(new, &geometry, &disks, &others)?,
        size => size,
    };
    // What is asked for beyond all that there is does not make extents larger: less would fit of those.
    let column = column_bytes(&geometry, size.min(all_of(&disks)));
    let extents = place_volume(&geometry, size, &disks, &others, column)
        .map_err(|e| cannot_place(new, &e))?;
    Ok(Volume {
        policy: new.policy,
        apart: new.apart.clone(),
        ..Volume::new(id, &new.name, size, &new.layout, geometry, extents)
    })
}

fn place_new_thin(
    new: &NewVolume,
    id: VolumeId,
    geometry: Geometry,
    disks: &[Place],
    others: &[&Volume],
) -> Result<Volume> {
    let (name, size) = (&new.name, new.size);
    if size == 0 {
        return fail(format!(
            "thin volume '{name}' reserves no space, so its size cannot be 'all': give a size, such as 1T"
        ));
    }
    if id > LAST_THIN {
        return fail("no more thin volumes can be created in this cluster".to_string());
    }
    let column = column_bytes(&geometry, size);
    let stripes = 0..size.div_ceil(geometry.stripe_bytes());
    let extents = place_thin(thin_space(id), &geometry, stripes, disks, others, column);
    let extents = extents.map_err(|e| cannot_place_thin(new, &e))?;
    Ok(Volume {
        policy: new.policy,
        apart: new.apart.clone(),
        ..Volume::new(id, name, size, &new.layout, geometry, extents)
    })
}

fn cannot_place_thin(new: &NewVolume, error: &PlacementError) -> Error {
    match error {
        PlacementError::NoRoom { free, .. } => Error(format!(
            "thin volume '{}' can have {} at most with this layout",
            new.name,
            rounded(*free)
        )),
        error => cannot_place(new, error),
    }
}

/// A volume with more room, for this size, or with all the room that is left if that is 0; the rest is
/// as it was.
pub(crate) fn grow(volume: &Volume, size: u64, map: &ClusterMap) -> Result<Volume> {
    let name = &volume.name;
    if size == 0 && volume.is_thin() {
        return fail(format!(
            "thin volume '{name}' reserves no space, so its size cannot be 'all': give a size, such as 1T"
        ));
    }
    if size == 0 {
        return match most(volume, map)? {
            most if most <= volume.size => fail(format!(
                "there is not enough free space to grow volume '{name}'; delete something, or add disks"
            )),
            most => grow(volume, most, map),
        };
    }
    require_multiple("a volume size", size, volume.policy.block)?;
    if size <= volume.size {
        return fail(format!("volume '{name}' already has {}", exactly(volume.size)));
    }
    let stripe = volume.geometry.stripe_bytes();
    let more = volume.stripes()..size.div_ceil(stripe);
    let mut grown = Volume { size, visible: size, ..volume.clone() };
    if more.is_empty() {
        return Ok(grown);
    }
    let disks = map.places(&volume.apart);
    let others: Vec<&Volume> = map.volumes.values().map(|v| &**v).collect();
    let column = column_bytes(&volume.geometry, size.min(all_of(&disks)));
    let placed = match volume.is_thin() {
        true => {
            let column = column_bytes(&volume.geometry, size);
            place_thin(thin_start(volume), &volume.geometry, more, &disks, &others, column)
        }
        false => place_stripes(&volume.geometry, more, &disks, &others, column),
    };
    grown.extents.extend(placed.map_err(|e| match e {
        PlacementError::NoRoom { free, .. } => Error(format!(
            "volume '{name}' cannot grow that far: it can have {} at most; delete something, or add disks",
            exactly(volume.stripes() * stripe + free)
        )),
        e @ (PlacementError::Domains { .. } | PlacementError::Torus(_)) => {
            Error(format!("volume '{name}' cannot grow: {e}"))
        }
    })?);
    Ok(grown)
}

/// The largest size that a volume can have, in whole stripes.
fn most(volume: &Volume, map: &ClusterMap) -> Result<u64> {
    let stripe = volume.geometry.stripe_bytes();
    let disks = map.places(&volume.apart);
    let all = all_of(&disks);
    let more = volume.stripes()..volume.stripes() + all / stripe + 1;
    let others: Vec<&Volume> = map.volumes.values().map(|v| &**v).collect();
    let column = column_bytes(&volume.geometry, all);
    match place_stripes(&volume.geometry, more, &disks, &others, column) {
        Err(PlacementError::NoRoom { free, .. }) => Ok(volume.stripes() * stripe + free),
        Err(e) => fail(format!("volume '{}' cannot grow: {e}", volume.name)),
        Ok(_) => Ok(volume.stripes() * stripe + all),
    }
}

/// Places the volumes that a new array is to have.
pub(crate) fn place_first(spec: &Spec, map: &mut ClusterMap) -> Result<()> {
    for (name, size) in spec.volumes() {
        let volume = place(&NewVolume::of(spec, name, size), map)?;
        map.next_volume += 1;
        map.volumes.insert(volume.id, Arc::new(volume));
    }
    Ok(())
}

/// Bytes on all disks together.
fn all_of(disks: &[Place]) -> u64 {
    disks.iter().fold(0_u64, |all, d| all.saturating_add(d.sectors.saturating_mul(SECTOR)))
}

/// In how many failure domains there are disks: the most columns that a layout can have.
fn domains(disks: &[Place]) -> usize {
    disks.iter().filter(|d| d.sectors > 0).map(|d| d.domain).collect::<BTreeSet<_>>().len()
}

fn cannot_place(new: &NewVolume, error: &PlacementError) -> Error {
    let name = &new.name;
    Error(match error {
        PlacementError::NoRoom { asked, free: 0 } => format!(
            "volume '{name}' of {} does not fit: with this layout no space is free; delete \
             another, or add disks (`weft status` shows the free space of each)",
            rounded(*asked)
        ),
        PlacementError::NoRoom { asked, free } => format!(
            "volume '{name}' of {} does not fit: with this layout {} are free; make it smaller or delete another",
            rounded(*asked),
            rounded(*free)
        ),
        PlacementError::Torus(e) => format!("volume '{name}' with layout {}: {e}", new.layout),
        PlacementError::Domains { columns, domains } => format!(
            "volume '{name}' with layout {} needs at least {columns} disks with different values of the \
             label '{}', and there are {domains}; choose another layout, or another label with \
             --apart (`--apart node` allows any nodes)",
            new.layout, new.apart
        ),
    })
}

/// The largest size that fits, in whole stripes.
fn largest(
    new: &NewVolume,
    geometry: &Geometry,
    disks: &[Place],
    others: &[&Volume],
) -> Result<u64> {
    let stripe = geometry.stripe_bytes();
    let all = all_of(disks);
    let column = column_bytes(geometry, all);
    let free = match place_volume(geometry, all.max(stripe), disks, others, column) {
        Ok(_) => all,
        Err(PlacementError::NoRoom { free, .. }) => free,
        Err(e) => return Err(cannot_place(new, &e)),
    };
    match free / stripe {
        0 => fail(format!(
            "there is not enough free space for volume '{}', not even for one stripe of {}; \
             delete another volume or choose larger disks",
            new.name,
            Size(stripe)
        )),
        stripes => Ok(stripes * stripe),
    }
}

/// Refuses a label that no node has: it would be a typing error, and keep apart by process. Without
/// labels there are failure domains by `box` all the same.
fn check_label(label: &str, map: &ClusterMap) -> Result<()> {
    let homes = map.nodes.iter().filter(|i| !i.removed).filter_map(|i| i.home.as_ref());
    let labels = homes.flat_map(|h| h.labels.keys().map(String::as_str));
    let labels: BTreeSet<&str> = labels.chain([APART, APART_BY_NODE]).collect();
    if labels.contains(label) {
        return Ok(());
    }
    let labels: Vec<&str> = labels.into_iter().collect();
    fail(format!("no node has the label '{label}'; there are: {}", labels.join(", ")))
}

/// Refuses what cannot be the name of a volume, or of a snapshot.
pub(crate) fn check_spelling(name: &str, of: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_path = [".", ".."].contains(&name);
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || is_path {
        return fail(format!(
            "'{name}' cannot be a {of}'s name; use 1 to 64 letters, digits, dots, dashes and \
             underscores, but not '.' or '..'"
        ));
    }
    Ok(())
}

/// Refuses what cannot be the name of a volume that is made, or gets another name.
pub(crate) fn check_name(name: &str, there: &Volumes) -> Result<()> {
    check_spelling(name, "volume")?;
    if there.values().any(|v| v.name == name && v.visible == 0 && !v.is_deleted()) {
        return fail(format!(
            "a volume '{name}' is being created or deleted; wait, or delete it if that was interrupted"
        ));
    }
    if there.values().any(|v| v.name == name && !v.is_deleted()) {
        return fail(format!("there is already a volume '{name}'; choose another name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::{Home, NodeInfo};

    use super::*;

    fn new(name: &str, size: u64, layout: &str) -> NewVolume {
        let layout = layout.parse().unwrap();
        NewVolume {
            name: name.into(),
            size,
            thin: false,
            layout,
            stripe_unit: 65536,
            policy: Policy::default(),
            apart: APART.into(),
        }
    }

    /// Five disks, and these volumes.
    fn map(volumes: &[Volume]) -> ClusterMap {
        ClusterMap {
            nodes: vec![NodeInfo::new(0, 10_000); 5],
            volumes: volumes.iter().map(|v| (v.id, Arc::new(v.clone()))).collect(),
            next_volume: volumes.len() as u32,
            ..ClusterMap::default()
        }
    }

    #[test]
    fn a_volume_of_no_size_takes_the_room() {
        for layout in ["raid0", "raid1", "raid5", "raid6", "rs:2+1"] {
            let v = place(&new("a", 0, layout), &map(&[])).unwrap();
            assert!(v.size > 0 && v.size.is_multiple_of(v.geometry.stripe_bytes()), "{layout}");
            let next = place(&new("b", 256 << 20, "raid0"), &map(&[v]));
            assert!(next.unwrap_err().0.contains("does not fit"));
        }
    }

    /// However much more is asked for: what is said to be free is what `all` gives.
    #[test]
    fn who_asks_for_too_much_is_told_what_could_be_had() {
        for layout in ["raid0", "raid1", "raid5", "rs:2+1"] {
            let first = place(&new("a", 50 << 20, layout), &map(&[])).unwrap();
            let there = map(std::slice::from_ref(&first));
            let all = place(&new("b", 0, layout), &there).unwrap().size;
            let most = grow(&first, 0, &there).unwrap().size;
            for asked in [1 << 30, 9 << 40, 1 << 60] {
                let refused = place(&new("b", asked, layout), &there).unwrap_err().0;
                assert!(refused.contains(&format!("{} are free", rounded(all))), "{refused}");
                let refused = grow(&first, asked, &there).unwrap_err().0;
                assert!(refused.contains(&format!("have {} at most", exactly(most))), "{refused}");
            }
        }
        let large = ClusterMap { nodes: vec![NodeInfo::new(0, u64::MAX / 4096); 5], ..map(&[]) };
        assert!(place(&new("a", 0, "raid5"), &large).is_ok(), "and no sum is too large");
    }

    #[test]
    fn of_all_volumes_those_are_served_that_are_named() {
        let volumes = ["a", "b"].map(|name| place(&new(name, 4096, "raid5"), &map(&[])).unwrap());
        let [a, mut b] = volumes;
        b.id = VolumeId(1);
        let map = map(&[a, b]);
        let all = Exports::of(&map);
        assert!(all.named("").is_none(), "only hosts may leave the choice to us");
        assert_eq!(all.wanted("").map(|v| v.name.as_str()), Some("a"));
        let names = ["b".to_string(), "z".to_string()].into();
        let only = all.only(Some(&names));
        assert_eq!(only.wanted("").map(|v| v.name.as_str()), Some("b"));
        assert!(only.named("a").is_none() && only.all().count() == 1);
        assert_eq!(all.only(None).all().count(), 2);
    }

    #[test]
    fn bad_names_and_sizes_are_refused() {
        let one = place(&new("a", 4096, "raid5"), &map(&[])).unwrap();
        for (name, size, layout, why) in [
            ("a", 4096, "raid5", "already"),
            ("", 4096, "raid5", "letters"),
            ("a/b", 4096, "raid5", "letters"),
            ("b", 1000, "raid5", "nearest are 512 and 1KiB"),
            ("b", 4096, "rs:4+2", "at least 6 nodes"),
        ] {
            let err =
                place(&new(name, size, layout), &map(std::slice::from_ref(&one))).unwrap_err();
            assert!(err.0.contains(why), "{err}");
        }
    }

    #[test]
    fn columns_are_kept_apart_by_a_label() {
        let mut six = ClusterMap { nodes: vec![NodeInfo::new(0, 10_000); 6], ..map(&[]) };
        for (n, info) in six.nodes.iter_mut().enumerate() {
            let labels = [("box".to_string(), format!("b{}", n / 2))].into();
            info.home = Some(Arc::new(Home { labels, ..Home::default() }));
        }
        let volume = place(&new("a", 0, "raid5"), &six).unwrap();
        assert_eq!(volume.geometry.layout.width(), 3, "a column for each box");
        let err = place(&new("a", 4096, "rs:3+1"), &six).unwrap_err();
        assert!(err.0.contains("'box'") && err.0.contains("there are 3"), "{err}");
        let err = place(&new("a", 4096, "raid6"), &six).unwrap_err();
        assert_eq!(
            err.0,
            "volume 'a' with layout raid6 needs at least 4 disks with different values of the label 'box', and \
             there are 3; choose another layout, or another label with --apart (`--apart node` allows any nodes)"
        );
        let any = NewVolume { apart: "node".into(), ..new("a", 4096, "rs:3+1") };
        assert!(place(&any, &six).is_ok());
        for apart in ["bxo", "RA CK", ""] {
            let typo = NewVolume { apart: apart.into(), ..new("a", 4096, "raid1") };
            let err = place(&typo, &six).unwrap_err();
            assert!(err.0.contains("there are: box, node"), "{err}");
        }
    }

    #[test]
    fn a_stripe_unit_must_fit_on_a_disk() {
        let wide = NewVolume { stripe_unit: 1 << 30, ..new("a", 4096, "raid5") };
        let err = place(&wide, &map(&[])).unwrap_err();
        assert!(err.0.contains("a stripe unit of 1 GiB exceeds"), "{err}");
    }

    #[test]
    fn a_thin_volume_may_be_larger_than_all_disks_and_reserves_nothing() {
        let thin = |size| NewVolume { thin: true, ..new("t", size, "raid5") };
        let mut volume = place(&thin(1 << 50), &map(&[])).unwrap();
        volume.name = "there".into();
        assert!(volume.is_thin() && volume.visible == 1 << 50);
        let there = map(std::slice::from_ref(&volume));
        there.assert_sound();
        assert!(there.used().iter().all(|used| *used == 0));
        let all = place(&new("b", 0, "raid5"), &there).unwrap();
        assert_eq!(all.size, place(&new("b", 0, "raid5"), &map(&[])).unwrap().size);
        let grown = grow(&volume, 1 << 51, &there).unwrap();
        assert!(grown.extents[volume.extents.len()].columns[0].1 > volume.extents[0].columns[0].1);
        for (refused, why) in [
            (place(&thin(0), &there), "cannot be 'all': give a size"),
            (grow(&volume, 0, &there), "cannot be 'all': give a size"),
            (place(&thin(1 << 62), &map(&[])), "at most with this layout"),
        ] {
            let err = refused.unwrap_err();
            assert!(err.0.contains(why), "{err}");
        }
    }

    #[test]
    fn a_volume_grows_by_extents_behind_its_own() {
        for layout in ["raid5", "rs:2+1", "raid0"] {
            let mut map = map(&[place(&new("a", 5 << 20, layout), &map(&[])).unwrap()]);
            let volume = map.volumes[&VolumeId(0)].clone();
            let err = grow(&volume, 4 << 20, &map).unwrap_err();
            assert!(err.0.contains("already"), "{err}");
            let err = grow(&volume, 1 << 40, &map).unwrap_err();
            assert!(err.0.contains("cannot grow that far"), "{err}");
            let all = grow(&volume, 0, &map).unwrap();
            let err = grow(&volume, all.size + 512, &map).unwrap_err();
            assert!(err.0.contains(&format!("can have {} at most", exactly(all.size))), "{err}");
            let grown = grow(&volume, 20 << 20, &map).unwrap();
            assert_eq!((grown.size, grown.visible), (20 << 20, 20 << 20));
            assert_eq!(grown.extents[..volume.extents.len()], volume.extents[..]);
            assert_eq!(grown.extents[volume.extents.len()].first, volume.stripes());
            map.volumes.insert(grown.id, Arc::new(grown.clone()));
            map.assert_sound();
            let mut cut = Volume { visible: 5 << 20, ..grown };
            cut.cut_to_visible();
            assert_eq!(cut, *volume);
        }
    }
}
