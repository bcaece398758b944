//! A design as an array: its layout, its units, and how long what is lost is rebuilt.

use weft_core::SECTOR;
use weft_core::cluster::column_bytes;
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::store::Superblock;
use weft_core::units::ColumnSet;

use crate::markov::Waiting;
use crate::repair::RepairTime;
use crate::spec::{Design, Problem, Spec};
use crate::unit::{Placement, Unit};

/// An array of a design.
#[derive(Clone, Debug)]
pub struct Array {
    /// What fails together.
    pub unit: Unit,
    /// How many such there are.
    pub units: usize,
    /// Boxes, of all units.
    pub boxes: usize,
    /// Parity that waits.
    pub waiting: Waiting,
    /// The share of a disk that its store offers for data: the rest is journal, checksums and free slots.
    pub offered: f64,
    /// Hours that the rebuild of a disk takes, once it has begun; nothing where there is no redundancy, or where a repair
    /// is given as a whole.
    pub rebuild_h: Option<f64>,
    /// Until a disk's content is on another one.
    pub disk_repair: RepairTime,
    /// Until the content of a box's disks is on others.
    pub box_repair: RepairTime,
}

impl Array {
    /// The array of design `n` of a plan.
    ///
    /// # Errors
    /// If the layout, the disks and the boxes do not go together, with what would.
    pub fn new(spec: &Spec, n: usize) -> Result<Array, Problem> {
        let design = &spec.designs[n];
        let fail =
            |key: &str, problem: String| Problem::new(format!("designs[{n}].{key}"), problem);
        let layout: LayoutSpec =
            design.layout.parse().map_err(|e| fail("layout", format!("{e}")))?;
        let layout = layout.over(design.disks).map_err(|e| fail("disks", format!("{e}")))?;
        if !design.unit_bytes.is_multiple_of(SECTOR) {
            let problem = format!(
                "{} is not a multiple of {}; give one such as 65536",
                design.unit_bytes, SECTOR
            );
            return Err(fail("unit_bytes", problem));
        }
        let geometry = Geometry::new(layout, design.unit_bytes);
        let boxes = boxes(spec, design, &geometry).map_err(|(key, problem)| fail(key, problem))?;
        let (unit, units) =
            units(spec, design, geometry, boxes).map_err(|(key, problem)| fail(key, problem))?;
        check_copied(design, &unit.geometry).map_err(|(key, problem)| fail(key, problem))?;
        let waiting = waiting(design, &unit, units).map_err(|(key, problem)| fail(key, problem))?;
        let mut array = Array {
            unit,
            units,
            boxes,
            waiting,
            offered: offered(spec.disks.size_gb)?,
            rebuild_h: None,
            disk_repair: RepairTime::default(),
            box_repair: RepairTime::default(),
        };
        array.time(spec, design.rebuild_h);
        Ok(array)
    }

    /// Disks of all units.
    pub fn disks(&self) -> usize {
        self.unit.disks * self.units
    }

    /// Bytes of data on all disks.
    pub fn data_bytes(&self) -> f64 {
        self.unit.data_bytes() * self.units as f64
    }

    /// The same without what disks keep for themselves.
    pub fn usable_bytes(&self) -> f64 {
        self.data_bytes() * self.offered
    }

    /// Finds out how long repairs take; the rebuild of a disk may be known. It says more than what holds for all designs.
    fn time(&mut self, spec: &Spec, known: Option<f64>) {
        let replace_box = spec.boxes.as_ref().map_or(0.0, |b| b.replace_h);
        let reads = helpers(&self.unit.geometry);
        let rebuild = |lost: f64| {
            reads.map_or(RepairTime::default(), |reads| self.rebuild(spec, reads, lost))
        };
        let (of_disk, of_box) = (rebuild(1.0), rebuild(self.unit.disks_in_box().max(1.0)));
        let known = known.filter(|_| reads.is_some());
        let whole = spec.repair.mttr_h.filter(|_| known.is_none());
        let given = known.or(whole).filter(|_| reads.is_some());
        // The ratio of a box's time to a disk's is the computed one.
        let factor = given.map_or(1.0, |h| h / of_disk.rebuild_h(1));
        let (of_disk, of_box) = (of_disk.times(factor), of_box.times(factor));
        let after = |before_h: f64, rebuild: RepairTime| RepairTime { before_h, ..rebuild };
        (self.disk_repair, self.box_repair) = match whole {
            Some(hours) => (
                RepairTime::constant(hours),
                RepairTime::constant(replace_box + of_box.rebuild_h(1)),
            ),
            None => (after(spec.repair.replace_h, of_disk), after(replace_box, of_box)),
        };
        self.rebuild_h = reads.filter(|_| whole.is_none()).map(|_| of_disk.rebuild_h(1));
    }

    /// The time in which `lost` disks of a unit are rebuilt, each from `reads` others. In a group the new disk is written from end
    /// to end. Where extents are spread all disks that are left share reads and writes.
    fn rebuild(&self, spec: &Spec, reads: f64, lost: f64) -> RepairTime {
        let bytes = self.unit.disk_bytes();
        let hours = |bytes: f64, mb_s: f64| bytes / (mb_s * 1e6 * 3600.0);
        let by_array =
            spec.repair.array_mb_s.map_or(0.0, |mb_s| hours(bytes * lost * (reads + 1.0), mb_s));
        if self.unit.disks == self.unit.width() {
            let alone_h = hours(bytes, spec.repair.disk_mb_s);
            return RepairTime { alone_h, shared_h: by_array, ..RepairTime::default() };
        }
        let share = (reads + 1.0) * lost / (self.unit.disks as f64 - lost);
        let by_disks = hours(bytes * share, spec.repair.disk_mb_s);
        RepairTime { shared_h: by_disks.max(by_array), ..RepairTime::default() }
    }
}

/// The share of a disk of this size that its store offers.
fn offered(size_gb: f64) -> Result<f64, Problem> {
    let sectors = (size_gb * 1e9) as u64 / SECTOR;
    let offered = Superblock::offered_by(sectors)
        .map_err(|e| Problem::new("disks.size_gb", e.to_string()))?;
    Ok(offered as f64 / sectors as f64)
}

/// What is wrong with a key, and which it is.
type Wrong = (&'static str, String);

/// The boxes of a design, 0 if there are none.
fn boxes(spec: &Spec, design: &Design, geometry: &Geometry) -> Result<usize, Wrong> {
    let Some(all) = &spec.boxes else {
        return match design.boxes {
            Some(_) => Err(("boxes", "boxes are not described; add [boxes], or omit this".into())),
            None => Ok(0),
        };
    };
    let (count, width) = (design.boxes.unwrap_or(all.count), geometry.layout.width());
    if all.apart && width > count {
        let problem = format!(
            "{} has {width} columns, each in a separate box, and there are {count} boxes; give {width} or more, \
             a layout with fewer columns, or apart = false in [boxes]",
            design.layout
        );
        return Err(("boxes", problem));
    }
    if count > design.disks {
        return Err((
            "boxes",
            format!("{count} boxes are more than {} disks; give as many at most", design.disks),
        ));
    }
    Ok(count)
}

/// The units of a design, and how many.
fn units(
    spec: &Spec,
    design: &Design,
    geometry: Geometry,
    boxes: usize,
) -> Result<(Unit, usize), Wrong> {
    let (disks, width) = (design.disks, geometry.layout.width());
    let disk_bytes = spec.disks.size_gb * 1e9;
    if design.placement == Placement::Groups || disks == width {
        if design.spare_disks.is_some() {
            let problem = format!(
                "a group is rebuilt onto a new disk; omit this, or give placement = \"spread\" and more than {width} disks"
            );
            return Err(("spare_disks", problem));
        }
        if !disks.is_multiple_of(width) {
            let (less, more) = (disks / width * width, (disks / width + 1) * width);
            let problem = format!(
                "{disks} disks cannot be divided into groups of {width}; give {less} or {more}, \
                 or placement = \"spread\""
            );
            return Err(("disks", problem));
        }
        let boxes = boxes.min(width);
        let unit = Unit { geometry, disks: width, boxes, extents: 1, column_bytes: disk_bytes };
        return Ok((unit, disks / width));
    }
    if boxes > 0 && !disks.is_multiple_of(boxes) {
        let problem =
            format!("{disks} disks cannot be divided equally among {boxes} boxes; give a multiple");
        return Err(("disks", problem));
    }
    if boxes > 0 && width.div_ceil(boxes) > disks / boxes {
        let problem = format!(
            "a box of {} disks has no {} for an extent",
            disks / boxes,
            width.div_ceil(boxes)
        );
        return Err(("disks", problem));
    }
    let spare = spare(design, width)?;
    // As a cluster cuts a volume that takes all the room.
    let room = (disks - spare) as f64 * disk_bytes;
    let data = room * geometry.data_columns() as f64 / geometry.layout.seats() as f64;
    let column = column_bytes(&geometry, data as u64) as f64;
    let extents = (room / width as f64 / column).ceil().max(1.0);
    let column_bytes = room / width as f64 / extents;
    Ok((Unit { geometry, disks, boxes, extents: extents as usize, column_bytes }, 1))
}

/// Disks' worth of room that is left free: lost content is rebuilt onto it.
fn spare(design: &Design, width: usize) -> Result<usize, Wrong> {
    let (spare, most) = (design.spare_disks.unwrap_or(1), design.disks - width);
    if spare == 0 || spare > most {
        let problem = format!(
            "{spare} is not possible: lost content is rebuilt onto this room, and extents need {width} disks of {}; \
             give 1 to {most}",
            design.disks
        );
        return Err(("spare_disks", problem));
    }
    Ok(spare)
}

/// Refuses copies where no parity would take them in, or none is left to do it later.
fn check_copied(design: &Design, geometry: &Geometry) -> Result<(), Wrong> {
    if design.copied.is_none() {
        return Ok(());
    }
    if !geometry.is_redundant() {
        let problem = format!("{} has no parity whose disks keep copies; omit this", design.layout);
        return Err(("copied", problem));
    }
    let conflicts =
        |with: &str| Err(("copied", format!("conflicts with {with}; omit one of them")));
    match (design.deferred, design.requests_s) {
        (Some(_), _) => conflicts("deferred"),
        // It says nothing but what requests cost.
        (None, Some(_)) => conflicts("requests_s"),
        (None, None) => Ok(()),
    }
}

/// What waits for its parity, and what it bears.
fn waiting(design: &Design, unit: &Unit, units: usize) -> Result<Waiting, Wrong> {
    let Some(deferred) = design.deferred else { return Ok(Waiting::default()) };
    let geometry = &unit.geometry;
    if !geometry.is_redundant() {
        let problem = format!("{} has no parity to defer; omit this", design.layout);
        return Err(("deferred", problem));
    }
    let parities = geometry.layout.seats() - geometry.data_columns();
    if deferred.immediate_parities >= parities {
        let problem = format!(
            "{} of {parities} parities are immediate, so none is deferred; give 0 to {}",
            deferred.immediate_parities,
            parities - 1
        );
        return Err(("deferred.immediate_parities", problem));
    }
    let unprotected = deferred.unprotected_share;
    if unprotected == 0.0 && deferred.lag_bytes > 0.0 {
        let problem = "0 means that parity is never deferred, but lag_bytes means that it is; give both as measured";
        return Err(("deferred.unprotected_share", problem.into()));
    }
    if unprotected > 0.0 && deferred.lag_bytes == 0.0 {
        let problem = "0 means that parity is never deferred, but unprotected_share means that it is; give both as measured";
        return Err(("deferred.lag_bytes", problem.into()));
    }
    let all = unit.data_bytes() * units as f64;
    if deferred.lag_bytes > all {
        let problem = format!(
            "{} is more than the {all:.4e} bytes of data in the array; give the mean that was measured",
            deferred.lag_bytes
        );
        return Err(("deferred.lag_bytes", problem));
    }
    let k = geometry.data_columns() as f64;
    let on_disk = unit.width() as f64 / (unit.disks * units) as f64;
    let bytes =
        if unprotected > 0.0 { deferred.lag_bytes / k * on_disk / unprotected } else { 0.0 };
    let bears = bears(geometry, deferred.immediate_parities, parities);
    Ok(Waiting { unprotected, bears, bytes })
}

/// How many columns may be lost, whichever they are, of a stripe whose parities from `immediate` on wait.
fn bears(geometry: &Geometry, immediate: usize, parities: usize) -> usize {
    let waits: ColumnSet =
        (immediate..parities).map(|j| geometry.layout.parity_seat(0, j)).collect();
    let is_borne = |size: &usize| {
        let mut borne = true;
        crate::losses::each_set(ColumnSet::first(geometry.layout.width()), *size, &mut |lost| {
            borne = geometry.determines(0, waits.union(geometry.seats_of(0, lost)));
            borne
        });
        borne
    };
    (1..=immediate).take_while(is_borne).count()
}

/// Columns that are read to rebuild one, on the mean; nothing if that cannot be.
pub fn helpers(geometry: &Geometry) -> Option<f64> {
    let width = geometry.layout.width();
    let of = |column: usize| {
        let avoid = geometry.seats_of(0, ColumnSet::of(column));
        let read = geometry.helpers_of_all(
            0,
            avoid,
            geometry.units_of(0, ColumnSet::of(column)),
            ColumnSet::EMPTY,
        )?;
        // A column that holds two units is as much longer.
        Some(read.len() as f64 / avoid.len() as f64)
    };
    let all: Option<Vec<f64>> = (0..width).map(of).collect();
    Some(all?.iter().sum::<f64>() / width as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        with_repair("repair = { replace_h = 2, disk_mb_s = 50 }\n", text)
    }

    fn with_repair(repair: &str, text: &str) -> Spec {
        let disks = "disks = { size_gb = 1800, mttf_h = 1e6 }\n";
        Spec::parse(&format!("{repair}{disks}{text}")).unwrap()
    }

    fn problem(text: &str) -> String {
        Array::new(&spec(text), 0).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_what_would() {
        for (text, why) in [
            (
                "[[designs]]\nlayout = \"raid7\"\ndisks = 5",
                "designs[0].layout: no layout is called 'raid7'; choose raid0",
            ),
            (
                "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 5",
                "designs[0].disks: layout rs:4+2 needs at least 6 nodes",
            ),
            (
                "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 20",
                "cannot be divided into groups of 6; give 18 or 24, or placement = \"spread\"",
            ),
            (
                "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 12\n[boxes]\ncount = 4",
                "has 6 columns, each in a separate box, and there are 4 boxes; give 6 or more",
            ),
            (
                "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 12\nboxes = 4",
                "add [boxes], or omit this",
            ),
            (
                "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 20\nplacement = \"spread\"\n[boxes]\ncount = 6",
                "20 disks cannot be divided equally among 6 boxes",
            ),
            (
                "[[designs]]\nlayout = \"raid0\"\ndisks = 5\ndeferred = { unprotected_share = 0.1, lag_bytes = 1 }",
                "raid0 has no parity to defer",
            ),
            (
                "[[designs]]\nlayout = \"raid0\"\ndisks = 5\ncopied = {}",
                "raid0 has no parity whose disks keep copies",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\ncopied = {}\n\
                 deferred = { unprotected_share = 0.1, lag_bytes = 1 }",
                "copied: conflicts with deferred",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\ncopied = {}\nrequests_s = 10",
                "copied: conflicts with requests_s",
            ),
            (
                "[[designs]]\nlayout = \"raid6\"\ndisks = 5\n\
                 deferred = { unprotected_share = 0.1, lag_bytes = 1, immediate_parities = 2 }",
                "so none is deferred; give 0 to 1",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\ndeferred = { unprotected_share = 0, lag_bytes = 1 }",
                "give both as measured",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\nunit_bytes = 5000",
                "not a multiple of 4096",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\nspare_disks = 1",
                "a group is rebuilt onto a new disk; omit this, or give placement = \"spread\" and more than 5",
            ),
            (
                "[[designs]]\nlayout = \"rs:4+1\"\ndisks = 7\nplacement = \"spread\"\nspare_disks = 3",
                "designs[0].spare_disks: 3 is not possible: lost content is rebuilt onto this room, and extents need 5 \
                 disks of 7; give 1 to 2",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\n\
                 deferred = { unprotected_share = 0.1, lag_bytes = 1e18 }",
                "designs[0].deferred.lag_bytes: 1000000000000000000 is more than the 7.2000e12 bytes",
            ),
            (
                "[[designs]]\nlayout = \"raid5\"\ndisks = 5\n\
                 deferred = { unprotected_share = 0.1, lag_bytes = 0 }",
                "designs[0].deferred.lag_bytes: 0 means that parity is never deferred",
            ),
        ] {
            let problem = problem(text);
            assert!(problem.contains(why), "{problem}");
        }
    }

    #[test]
    fn a_group_is_rebuilt_as_fast_as_its_new_disk_is_written() {
        let array = Array::new(&spec("[[designs]]\nlayout = \"rs:4+2\"\ndisks = 12"), 0).unwrap();
        assert_eq!((array.units, array.disks()), (2, 12));
        assert_eq!((array.rebuild_h, array.disk_repair.hours(1)), (Some(10.0), 12.0));
        assert_eq!(array.data_bytes(), 8.0 * 1.8e12);
    }

    /// Spread over 21 disks, 4 reads and a write for each byte are shared by 20: a fourth of the time, less the room left
    /// free.
    #[test]
    fn what_is_spread_is_rebuilt_by_all() {
        let text = "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 21\nplacement = \"spread\"";
        let array = Array::new(&spec(text), 0).unwrap();
        assert!((array.rebuild_h.unwrap() / (2.5 * 20.0 / 21.0) - 1.0).abs() < 1e-9);
        assert!((array.data_bytes() / (20.0 * 4.0 / 6.0 * 1.8e12) - 1.0).abs() < 1e-9);
        assert!(array.unit.extents > 256 && array.unit.extents <= 512, "{}", array.unit.extents);
    }

    #[test]
    fn a_rebuild_that_was_measured_takes_as_long() {
        let of = |layout: &str| {
            let text = format!("[[designs]]\nlayout = \"{layout}\"\ndisks = 5\nrebuild_h = 7");
            Array::new(&spec(&text), 0).unwrap()
        };
        let raid5 = of("raid5");
        assert_eq!((raid5.rebuild_h, raid5.disk_repair.hours(1)), (Some(7.0), 9.0));
        assert_eq!(of("raid0").rebuild_h, None);
    }

    /// A box of one disk is rebuilt as fast as a disk, however that is known.
    #[test]
    fn a_box_is_rebuilt_as_fast_as_its_disks() {
        let of = |repair: &str, more: &str| {
            let text = format!(
                "[boxes]\ncount = 5\nreplace_h = 100\nloss_mttf_h = 1e5\n\
                 [[designs]]\nlayout = \"raid5\"\ndisks = 5\n{more}"
            );
            let array = Array::new(&with_repair(repair, &text), 0).unwrap();
            let hours = [array.disk_repair.hours(1), array.box_repair.hours(1)];
            (array.rebuild_h, hours)
        };
        let bandwidth = "repair = { replace_h = 2, disk_mb_s = 50 }\n";
        assert_eq!(of(bandwidth, ""), (Some(10.0), [12.0, 110.0]));
        assert_eq!(of(bandwidth, "rebuild_h = 7"), (Some(7.0), [9.0, 107.0]));
        let whole = "repair = { mttr_h = 48, replace_h = 2 }\n";
        assert_eq!(of(whole, ""), (None, [48.0, 148.0]));
        assert_eq!(of(whole, "rebuild_h = 7"), (Some(7.0), [9.0, 107.0]), "a design says more");
    }

    /// What bounds the whole array bounds all rebuilds together, and so do all disks where extents are spread.
    #[test]
    fn rebuilds_share_what_bounds_all_of_them() {
        let repair = "repair = { replace_h = 2, disk_mb_s = 50, array_mb_s = 100 }\n";
        let hours = |repair: &str, text: &str| {
            let array = Array::new(&with_repair(repair, text), 0).unwrap();
            [1, 2].map(|n| array.disk_repair.hours(n) - 2.0)
        };
        let group = "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 6";
        let spread = "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 21\nplacement = \"spread\"";
        assert_eq!(hours(repair, group), [25.0, 50.0]);
        assert_eq!(hours("repair.replace_h = 2\n", group), [10.0, 10.0]);
        for repair in [repair, "repair.replace_h = 2\n"] {
            let [one, two] = hours(repair, spread);
            assert!((two / one - 2.0).abs() < 1e-9, "{one} {two}");
        }
    }

    /// 5 of the 25 columns of drnet hold two units of a stripe, so 20 of 30 are data.
    #[test]
    fn columns_with_two_units_of_a_stripe_have_no_more_room() {
        let of = |more: &str| {
            let text = format!("[[designs]]\nlayout = \"drnet\"\n{more}");
            Array::new(&spec(&text), 0).unwrap()
        };
        let near = |is: f64, disks: f64| {
            let should = disks * 1.8e12 * 2.0 / 3.0;
            assert!((is / should - 1.0).abs() < 1e-9, "{is}, not {should}");
        };
        near(of("disks = 25").data_bytes(), 25.0);
        near(of("disks = 50\nplacement = \"spread\"").data_bytes(), 49.0);
    }

    /// As `weft` divides a disk of this size: journal, checksums and free slots are no room for data.
    #[test]
    fn disks_keep_some_room_for_themselves() {
        let array = Array::new(&spec("[[designs]]\nlayout = \"raid0\"\ndisks = 1"), 0).unwrap();
        let sectors = 1_800_000_000_000 / SECTOR;
        let offered = Superblock::offered_by(sectors).unwrap() as f64 / sectors as f64;
        assert!((array.usable_bytes() / (1.8e12 * offered) - 1.0).abs() < 1e-9);
        assert!((0.97..0.99).contains(&offered), "{offered}");
        let small =
            "disks = { size_gb = 0.001, mttf_h = 1e6 }\n[[designs]]\nlayout = \"raid0\"\ndisks = 1";
        let problem = Array::new(&Spec::parse(small).unwrap(), 0).unwrap_err().to_string();
        assert!(
            problem.starts_with("disks.size_gb: 244 sectors are too few for a disk; at least"),
            "{problem}"
        );
    }

    #[test]
    fn the_layout_says_what_a_rebuild_reads() {
        let text =
            |layout: &str, disks| format!("[[designs]]\nlayout = \"{layout}\"\ndisks = {disks}");
        for (layout, disks, reads) in [
            ("raid5", 5, Some(4.0)),
            ("raid1", 2, Some(1.0)),
            ("raid0", 3, None),
            ("drnet", 25, Some(4.0)),
        ] {
            let array = Array::new(&spec(&text(layout, disks)), 0).unwrap();
            assert_eq!(helpers(&array.unit.geometry), reads, "{layout}");
        }
    }

    #[test]
    fn parities_that_do_not_wait_bear_losses() {
        let of = |immediate: usize| {
            let text = format!(
                "[[designs]]\nlayout = \"raid6\"\ndisks = 6\n\
                 deferred = {{ unprotected_share = 0.5, lag_bytes = 4e6, immediate_parities = {immediate} }}"
            );
            Array::new(&spec(&text), 0).unwrap().waiting
        };
        assert_eq!((of(0).bears, of(1).bears), (0, 1));
        // A quarter of what waits is on a disk, while any does.
        assert_eq!(of(0).bytes, 2e6);
    }
}
