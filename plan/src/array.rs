//! A design as an array: its layout, its units, and how long what is lost is rebuilt.

use weft_core::cluster::column_bytes;
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::units::ColumnSet;

use crate::markov::Waiting;
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
    /// Hours that the rebuild of a disk takes, once it has begun; nothing where there is no redundancy.
    pub rebuild_h: Option<f64>,
    /// Hours until a disk's content is on another one.
    pub disk_repair_h: f64,
    /// Hours until the content of a box's disks is on others.
    pub box_repair_h: f64,
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
        if !design.unit_bytes.is_multiple_of(weft_core::SECTOR) {
            let problem = format!(
                "{} is not a multiple of {}; give one such as 65536",
                design.unit_bytes,
                weft_core::SECTOR
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
            rebuild_h: None,
            disk_repair_h: spec.repair.replace_h.max(1e-3),
            box_repair_h: 1.0,
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

    /// Finds out how long repairs take; that of a disk may be known.
    fn time(&mut self, spec: &Spec, known: Option<f64>) {
        let repair = &spec.repair;
        let replace_box = spec.boxes.as_ref().map_or(0.0, |b| b.replace_h);
        let rebuild =
            |lost: f64| helpers(&self.unit.geometry).map(|reads| self.rebuild(spec, reads, lost));
        let rebuild_h = rebuild(1.0).map(|h| known.unwrap_or(h));
        let of_box = rebuild(self.unit.disks_in_box().max(1.0)).unwrap_or(0.0);
        self.rebuild_h = rebuild_h;
        let of_disk = repair.replace_h + self.rebuild_h.unwrap_or(0.0);
        self.disk_repair_h = repair.mttr_h.unwrap_or(of_disk).max(1e-3);
        self.box_repair_h = (replace_box + of_box).max(1e-3);
    }

    /// Hours in which so many disks of a unit are rebuilt, each from so many others. In a group the new disk is
    /// written from end to end. Where extents are spread all disks that are left share reads and writes.
    fn rebuild(&self, spec: &Spec, reads: f64, lost: f64) -> f64 {
        let bytes = spec.disks.size_gb * 1e9;
        let per_h = |mb_s: f64| mb_s * 1e6 * 3600.0;
        let spread = self.unit.disks > self.unit.width();
        let share =
            if spread { (reads + 1.0) * lost / (self.unit.disks as f64 - lost) } else { 1.0 };
        let by_disks = bytes * share / per_h(spec.repair.disk_mb_s);
        let by_array = |mb_s: f64| bytes * lost * (reads + 1.0) / per_h(mb_s);
        by_disks.max(spec.repair.array_mb_s.map_or(0.0, by_array))
    }
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
    // As a cluster cuts a volume that takes all the room.
    let data = disks as f64 * disk_bytes * geometry.data_columns() as f64 / width as f64;
    let column = column_bytes(&geometry, data as u64) as f64;
    let extents = (disks as f64 * disk_bytes / width as f64 / column).ceil().max(1.0);
    let column_bytes = disks as f64 * disk_bytes / width as f64 / extents;
    Ok((Unit { geometry, disks, boxes, extents: extents as usize, column_bytes }, 1))
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
        let before =
            "[disks]\nsize_gb = 1800\nmttf_h = 1e6\n[repair]\nreplace_h = 2\ndisk_mb_s = 50\n";
        Spec::parse(&format!("{before}{text}")).unwrap()
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
        ] {
            let problem = problem(text);
            assert!(problem.contains(why), "{problem}");
        }
    }

    #[test]
    fn a_group_is_rebuilt_as_fast_as_its_new_disk_is_written() {
        let array = Array::new(&spec("[[designs]]\nlayout = \"rs:4+2\"\ndisks = 12"), 0).unwrap();
        assert_eq!((array.units, array.disks()), (2, 12));
        assert_eq!((array.rebuild_h, array.disk_repair_h), (Some(10.0), 12.0));
        assert_eq!(array.data_bytes(), 8.0 * 1.8e12);
    }

    /// Spread over 21 disks, 4 reads and a write for each byte are shared by 20: a fourth of the time.
    #[test]
    fn what_is_spread_is_rebuilt_by_all() {
        let text = "[[designs]]\nlayout = \"rs:4+2\"\ndisks = 21\nplacement = \"spread\"";
        let array = Array::new(&spec(text), 0).unwrap();
        assert_eq!(array.rebuild_h, Some(2.5));
        assert!((array.data_bytes() / (14.0 * 1.8e12) - 1.0).abs() < 1e-9);
        assert!(array.unit.extents > 256 && array.unit.extents <= 512, "{}", array.unit.extents);
    }

    #[test]
    fn a_rebuild_that_was_measured_takes_as_long() {
        let of = |layout: &str| {
            let text = format!("[[designs]]\nlayout = \"{layout}\"\ndisks = 5\nrebuild_h = 7");
            Array::new(&spec(&text), 0).unwrap()
        };
        let raid5 = of("raid5");
        assert_eq!((raid5.rebuild_h, raid5.disk_repair_h), (Some(7.0), 9.0));
        assert_eq!(of("raid0").rebuild_h, None);
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
