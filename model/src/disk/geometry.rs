//! Where a sector is: from its address to cylinder, head and angle, and back. Nothing here
//! moves.

use weft_core::units::Nanos;

use crate::spec;

/// Where a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its cylinder, 0 outermost.
    pub cylinder: u32,
    /// Its surface.
    pub head: u32,
    /// Its number on the track, 0 for the lowest address.
    pub sector: u32,
    /// Sectors on this track.
    pub sectors_per_track: u32,
    /// How far round from the index the track's sector 0 is, in sectors.
    skew: u32,
}

/// The layout of a disk's sectors.
#[derive(Clone, Debug)]
pub struct Geometry {
    zones: Vec<Zone>,
    heads: u32,
    sectors: u64,
    /// One revolution, in nanoseconds.
    period: u64,
}

#[derive(Clone, Debug)]
struct Zone {
    /// Address of its first sector.
    first: u64,
    /// Address after its last sector.
    end: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    unused_tracks: u32,
    /// For each slipped track, how many tracks with data lie before it.
    slips: Vec<u32>,
    offset: u32,
    track_skew: u32,
    /// How much further round a cylinder's first track begins than its predecessor's.
    cylinder_step: u64,
}

impl Zone {
    fn new(zone: &spec::Zone, heads: u32, first: u64) -> Self {
        let tracks = (zone.last_cylinder - zone.first_cylinder + 1) * heads;
        let with_data = tracks - zone.unused_tracks - zone.spare_tracks;
        let before = |(earlier, &slip): (usize, &u32)| slip - zone.unused_tracks - earlier as u32;
        Zone {
            first,
            end: first + u64::from(with_data) * u64::from(zone.sectors_per_track),
            first_cylinder: zone.first_cylinder,
            sectors_per_track: zone.sectors_per_track,
            unused_tracks: zone.unused_tracks,
            slips: zone.slipped_tracks.iter().enumerate().map(before).collect(),
            offset: zone.first_sector_offset,
            track_skew: zone.track_skew,
            cylinder_step: u64::from(heads - 1) * u64::from(zone.track_skew)
                + u64::from(zone.cylinder_skew),
        }
    }

    /// The number within the zone of its `nth` track with data.
    fn track(&self, nth: u32) -> u32 {
        let slipped = self.slips.partition_point(|&before| before <= nth);
        self.unused_tracks + nth + slipped as u32
    }
}

impl Geometry {
    /// `period` is one revolution, in nanoseconds.
    pub fn new(spec: &spec::Geometry, period: u64) -> Self {
        let mut zones: Vec<Zone> = Vec::with_capacity(spec.zones.len());
        for zone in &spec.zones {
            let first = zones.last().map_or(0, |z| z.end);
            zones.push(Zone::new(zone, spec.heads, first));
        }
        let sectors = zones.last().map_or(0, |z| z.end);
        Geometry { zones, heads: spec.heads, sectors, period }
    }

    /// Sectors that hold data.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where the sector at `address` is, which must be less than [`sectors`](Self::sectors).
    pub fn locate(&self, address: u64) -> Place {
        assert!(address < self.sectors, "sector {address} of {}", self.sectors);
        let zone = self.zones.iter().find(|z| address < z.end).expect("it is below the last end");
        // Zones and their tracks are small enough for 32 bits; dividing those is faster.
        let within = (address - zone.first) as u32;
        let track = zone.track(within / zone.sectors_per_track);
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let skew = u64::from(zone.offset)
            + u64::from(cylinder) * zone.cylinder_step
            + u64::from(head) * u64::from(zone.track_skew);
        Place {
            cylinder: zone.first_cylinder + cylinder,
            head,
            sector: within % zone.sectors_per_track,
            sectors_per_track: zone.sectors_per_track,
            skew: (skew % u64::from(zone.sectors_per_track)) as u32,
        }
    }

    /// The address of a sector, or `None` if there are no data there.
    pub fn address(&self, cylinder: u32, head: u32, sector: u32) -> Option<u64> {
        let zone = self.zones.iter().rfind(|z| z.first_cylinder <= cylinder)?;
        let track = (cylinder - zone.first_cylinder) * self.heads + head;
        let from_first = track.checked_sub(zone.unused_tracks)?;
        // Of the tracks before this one, those that were slipped hold nothing.
        let slipped_before = zone
            .slips
            .iter()
            .enumerate()
            .take_while(|(earlier, before)| *before + (*earlier as u32) < from_first)
            .count() as u32;
        let nth = from_first - slipped_before;
        let address =
            zone.first + u64::from(nth) * u64::from(zone.sectors_per_track) + u64::from(sector);
        let there = sector < zone.sectors_per_track && head < self.heads && address < zone.end;
        (there && zone.track(nth) == track).then_some(address)
    }

    /// The angle at which `ahead` sectors from `place` begin, as the time in nanoseconds since
    /// the index passed the head.
    pub fn angle(&self, place: &Place, ahead: u32) -> Nanos {
        let mut sector = place.sector + ahead + place.skew;
        while sector >= place.sectors_per_track {
            sector -= place.sectors_per_track;
        }
        u64::from(sector) * self.period / u64::from(place.sectors_per_track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Device, builtin};

    fn geometry(name: &str) -> Geometry {
        match builtin(name).unwrap().device {
            Device::Mechanical(disk) => Geometry::new(&disk.geometry, 15_000_000),
            _ => unreachable!(),
        }
    }

    #[test]
    fn capacities_are_those_published() {
        // Ruemmler and Wilkes' layout: 36,765 tracks of 72; the others as DiskSim has them.
        assert_eq!(geometry("hp97560-tickertaip").sectors(), 2_647_080);
        assert_eq!(geometry("hp-c2247a").sectors(), 2_054_864);
        assert_eq!(geometry("hp-c2490a").sectors(), 4_165_272);
        assert_eq!(geometry("hp-c3323a").sectors(), 2_056_008);
        // The stand-in is twice a C3323A: 2.1 GB.
        assert_eq!(geometry("hp-c3325").sectors(), 2 * 2_056_008);
    }

    #[test]
    fn the_data_regions_of_the_hp_97560() {
        let g = geometry("hp97560-tickertaip");
        let at = |address| {
            let place = g.locate(address);
            (place.cylinder, place.head, place.sector)
        };
        assert_eq!(at(0), (1, 4, 0));
        assert_eq!(at(72), (1, 5, 0));
        assert_eq!(at(12_255 * 72 - 1), (646, 3, 71));
        assert_eq!(at(12_255 * 72), (654, 0, 0));
        assert_eq!(at(2 * 12_255 * 72), (1308, 0, 0));
        assert_eq!(at(2_647_079), (1952, 18, 71));
        assert_eq!(g.address(1, 3, 0), None);
        assert_eq!(g.address(650, 0, 0), None);
    }

    #[test]
    fn there_and_back() {
        for name in ["hp97560", "hp-c2247a", "hp-c2490a", "hp-c3323a"] {
            let g = geometry(name);
            let mut last = None;
            for address in (0..g.sectors()).step_by(7) {
                let place = g.locate(address);
                let back = g.address(place.cylinder, place.head, place.sector);
                assert_eq!(back, Some(address), "{name}");
                let order = (place.cylinder, place.head, place.sector);
                assert!(last < Some(order), "{name} at {address}");
                last = Some(order);
            }
        }
    }

    #[test]
    fn slipped_tracks_are_passed_over() {
        // The C2247A's first zone begins after 17 tracks, and its track 468 is slipped.
        let g = geometry("hp-c2247a");
        let track_of = |address| {
            let place = g.locate(address);
            place.cylinder * 13 + place.head
        };
        let before = (467 - 17) * 96;
        assert_eq!(track_of(before), 467);
        assert_eq!(track_of(before + 96), 469);
        assert_eq!(g.address(468 / 13, 468 % 13, 0), None);
    }

    #[test]
    fn skews_set_a_track_back() {
        let g = geometry("hp97560");
        let sector = 15_000_000 / 72;
        let angle = |address| g.angle(&g.locate(address), 0);
        let apart = |a: u64, b: u64| (angle(b) + 15_000_000 - angle(a)) % 15_000_000;
        // To the next track 8 sectors, to the next cylinder 18.
        assert!(apart(0, 72).abs_diff(8 * sector) < 72);
        assert!(apart(14 * 72, 15 * 72).abs_diff(18 * sector) < 72);
        assert!(apart(0, 1).abs_diff(sector) < 72);
    }
}
