//! When parity is computed, and within which bounds it may wait (AFRAID), as scenarios say it.

use serde::{Deserialize, Serialize};
use weft_core::policy::{Dispatch, Ordering, Redundancy, Refresh, Start, Timing, Valued};
use weft_load::workload::Problem;

use super::fit::within;
use super::{RangeSpec, Store, System};
use crate::perf::{by_word, setup};

/// When parity is computed. Bounds that are left out there are none; volumes have some if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedundancySpec {
    /// With each write, later, later with copies until then, or not at all.
    #[serde(with = "by_word")]
    pub timing: Timing,
    /// When parity that waits is computed.
    #[serde(with = "by_word")]
    pub refresh: Refresh,
    /// For how many milliseconds a disk must have been idle before.
    pub idle_ms: f64,
    /// Whether parity waits from the beginning on.
    #[serde(with = "by_word")]
    pub start: Start,
    /// Exposed stripes from which on it is computed whatever the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_stripes: Option<u64>,
    /// For how many seconds a stripe may be exposed before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_s: Option<f64>,
    /// Hours until disks lose data that are to be achieved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mttdl_h: Option<u64>,
    /// Hours until a disk fails that nobody foresaw.
    pub disk_mttf_h: u64,
}

impl Default for RedundancySpec {
    fn default() -> Self {
        RedundancySpec {
            timing: Timing::Immediate,
            refresh: Refresh::Idle,
            idle_ms: 100.0,
            start: Start::Eager,
            exposed_stripes: None,
            exposed_s: None,
            mttdl_h: None,
            disk_mttf_h: Redundancy::DISK_MTTF,
        }
    }
}

impl RedundancySpec {
    /// As a volume's policy has it.
    pub(super) fn policy(&self) -> Redundancy {
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        Redundancy {
            timing: self.timing,
            refresh: self.refresh,
            idle: nanos(self.idle_ms / 1e3),
            start: self.start,
            exposed_stripes: self.exposed_stripes.unwrap_or(Redundancy::UNBOUNDED),
            exposed_bytes: Redundancy::UNBOUNDED,
            exposed_for: self.exposed_s.map_or(Redundancy::UNBOUNDED, nanos),
            mttdl: self.mttdl_h.unwrap_or(Redundancy::UNBOUNDED),
            disk_mttf: self.disk_mttf_h,
            ..Redundancy::default()
        }
    }

    fn check_values(&self) -> Result<(), Problem> {
        within("volume.redundancy.idle_ms", self.idle_ms)?;
        within("volume.redundancy.disk_mttf_h", self.disk_mttf_h as f64)?;
        let given = [
            ("volume.redundancy.exposed_stripes", self.exposed_stripes.map(|n| n as f64)),
            ("volume.redundancy.exposed_s", self.exposed_s),
            ("volume.redundancy.mttdl_h", self.mttdl_h.map(|n| n as f64)),
        ];
        given.into_iter().try_for_each(|(key, value)| value.map_or(Ok(()), |v| within(key, v)))
    }
}

impl System {
    /// Refuses parity that comes later where there is none, or where no mark or copy would last, and what disks cannot achieve.
    pub(super) fn check_redundancy(&self) -> Result<(), Problem> {
        let spec = &self.volume.redundancy;
        spec.check_values()?;
        let volume = setup::volume(self, self.data_bytes()?)?;
        self.check_ranges(&volume)?;
        let mut defers = false;
        for (key, timing) in self.timings() {
            let expected = match timing {
                Timing::Immediate => None,
                _ if !volume.geometry.is_redundant() => {
                    Some("volume.layout has no parity; give a layout with parity, or immediate")
                }
                Timing::Copied => self.no_copies_because(),
                Timing::Deferred | Timing::Never => {
                    defers = true;
                    self.no_marks_because()
                }
            };
            if let Some(expected) = expected {
                return Err(Problem::new(&key, timing.word(), expected));
            }
        }
        let most = volume.rates().protected_h;
        match spec.mttdl_h.filter(|hours| defers && *hours as f64 > most) {
            Some(hours) => {
                let expected = format!("immediate parity achieves {most:.0}; give at most that");
                Err(Problem::new("volume.redundancy.mttdl_h", hours, expected))
            }
            None => Ok(()),
        }
    }

    /// Why parity cannot be marked, and what would do.
    fn no_marks_because(&self) -> Option<&'static str> {
        if !self.volume.commit.is_voted() {
            return Some(
                "without votes no node knows whether parity was marked; give volume.commit = late, or immediate",
            );
        }
        (self.nodes.store == Store::Journalled && !self.volume.journal)
            .then_some("a mark is in the journal first; give volume.journal = true, or immediate")
    }

    /// Why writes cannot be kept as copies, and what would do.
    fn no_copies_because(&self) -> Option<&'static str> {
        let volume = &self.volume;
        if !volume.journal {
            return Some(
                "copies are in the journal; give nodes.store = journalled and volume.journal = true, or immediate",
            );
        }
        if !volume.commit.is_voted() {
            return Some(
                "without votes no node knows whether a copy was kept; give volume.commit = late, or immediate",
            );
        }
        if volume.ordering != Ordering::Timestamps {
            return Some(
                "copies are put into parity at timestamps; give volume.ordering = timestamps, or immediate",
            );
        }
        let is_commanded = volume.dispatch == Dispatch::Commanded;
        (self.nodes.roles.is_controlled() || is_commanded).then_some(
            "the node that a host uses sends the copies; give nodes.roles = array and volume.dispatch = collaborative, \
             or immediate",
        )
    }

    /// When parity is computed in the volume, and in its ranges, each by its key.
    fn timings(&self) -> impl Iterator<Item = (String, Timing)> + '_ {
        let of_volume = ("volume.redundancy.timing".to_string(), self.volume.redundancy.timing);
        let of_range = |(n, range): (usize, &RangeSpec)| {
            range.timing.map(|timing| (format!("volume.ranges[{n}].timing"), timing))
        };
        std::iter::once(of_volume).chain(self.volume.ranges.iter().enumerate().filter_map(of_range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let least =
            "workload.arrivals.closed.population = 1\nworkload.requests.imitation = \"oltp\"\n";
        let system: System = toml::from_str(&format!("{least}{text}")).unwrap();
        system.check().err().map(|p| p.to_string())
    }

    #[test]
    fn what_does_not_go_with_parity_that_waits_is_refused() {
        let deferred = "volume.redundancy.timing = \"deferred\"\n";
        assert_eq!(problem(deferred), None);
        for (more, why) in [
            ("volume.layout = \"raid0\"", "volume.layout has no parity"),
            ("volume.commit = \"none\"", "without votes"),
            ("nodes.store = \"journalled\"", "a mark is in the journal first"),
            ("volume.redundancy.mttdl_h = 1_000_000_000_000", "immediate parity achieves"),
            ("volume.redundancy.exposed_stripes = 0", "volume.redundancy.exposed_stripes = 0"),
            ("volume.redundancy.idle_ms = 0", "volume.redundancy.idle_ms = 0"),
        ] {
            let said = problem(&format!("{deferred}{more}")).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_does_not_go_with_copies_is_refused() {
        let journal = "nodes.store = \"journalled\"\nvolume.journal = true\n";
        let of = |more: &str| problem(&format!("volume.redundancy.timing = \"copied\"\n{more}"));
        assert_eq!(of(journal), None);
        let said = of("").unwrap();
        assert!(
            said.starts_with("volume.redundancy.timing = copied: copies are in the journal"),
            "{said}"
        );
        assert!(said.contains("give nodes.store = journalled and volume.journal = true"), "{said}");
        for (more, why) in [
            ("volume.layout = \"raid0\"", "volume.layout has no parity"),
            ("volume.commit = \"none\"", "with commit=late"),
            ("volume.ordering = \"sequencer\"", "give volume.ordering = timestamps"),
            ("volume.dispatch = \"commanded\"", "give nodes.roles = array"),
            ("nodes.roles = \"central\"\nnodes.originators = 0", "give nodes.roles = array"),
        ] {
            let said = of(&format!("{journal}{more}")).unwrap();
            assert!(said.contains(why), "{said}");
        }
        let range = "nodes.workers = 5\n[[volume.ranges]]\nfrom_bytes = 0\nto_bytes = 16384\ntiming = \"copied\"";
        let said = problem(range).unwrap();
        assert!(said.contains("volume.ranges[0].timing = copied: copies are in"), "{said}");
        assert_eq!(problem(&format!("{journal}{range}")), None);
        let said = problem(&format!("{journal}volume.commit = \"none\"\n{range}")).unwrap();
        assert!(said.contains("without votes"), "{said}");
    }

    /// `[[volume.ranges]]`, with stripes of 16 KiB.
    #[test]
    fn ranges_are_whole_stripes_apart_in_which_parity_can_wait() {
        let five = "nodes.workers = 5\n";
        let of = |ranges: &[&str]| {
            let tables = ranges.iter().map(|keys| format!("[[volume.ranges]]\n{keys}\n"));
            problem(&format!("{five}{}", tables.collect::<String>()))
        };
        let first = "from_bytes = 0\nto_bytes = 163840\ntiming = \"deferred\"";
        assert_eq!(
            of(&[first, "from_bytes = 163840\nto_bytes = 327680\ntiming = \"never\""]),
            None
        );
        assert_eq!(
            of(&["from_bytes = 0\nto_bytes = 16384\nidle_ms = 20\nrefresh = \"busy\""]),
            None
        );
        for (ranges, why) in [
            (
                &["from_bytes = 1024\nto_bytes = 16384"][..],
                "[0].from_bytes = 1024: a range is whole stripes of 16384",
            ),
            (
                &["from_bytes = 0\nto_bytes = 20000"],
                "[0].to_bytes = 20000: a range is whole stripes",
            ),
            (&["from_bytes = 16384\nto_bytes = 16384"], "[0].to_bytes = 16384"),
            (
                &[first, "from_bytes = 147456\nto_bytes = 327680"],
                "[1].from_bytes = 147456: another range has the bytes from 0 to 163840",
            ),
            (&["from_bytes = 0\nto_bytes = 16384\nexposed_stripes = 0"], "exposed_stripes = 0"),
        ] {
            let said = of(ranges).unwrap();
            assert!(said.contains(why), "{said}");
        }
        let said =
            problem(&format!("{five}nodes.store = \"journalled\"\n[[volume.ranges]]\n{first}\n"))
                .unwrap();
        assert!(
            said.contains("volume.ranges[0].timing = deferred: a mark is in the journal"),
            "{said}"
        );
    }
}
