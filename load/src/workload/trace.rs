//! Requests of a trace instead of drawn ones.

use std::io::Read;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::Ask;
use crate::trace::{Extent, Fit, Format, Mapping, Options, Pace, Reader, Replay, TraceError};

/// What wraps, scales or begins a device keeps its place within so many bytes.
const ALIGN: u64 = 4096;
/// The longest request, in bytes.
const LONGEST: u64 = 1 << 30;
/// The longest replay, in seconds: about 32 years.
const LONGEST_REPLAY: f64 = 1e9;

/// The requests of a trace, one after the other, for a volume.
pub type Asks = Box<dyn Iterator<Item = Result<Ask, TraceError>>>;

/// A trace that takes the place of drawn requests: it says what is asked and where, and with
/// [`Arrivals::Traced`](super::Arrivals::Traced) also when.
///
/// It is read twice: once to be surveyed ([`survey`](Trace::survey)), by whoever opens files, and
/// then as it is replayed ([`replay`](Trace::replay)). Neither holds more than a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file, as the scenario names it.
    pub file: String,
    /// Its format; if not said, it is told from how the file begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Bytes of a sector, of formats that count in sectors; if not said,
    /// [`Format::sector_bytes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sector_bytes: Option<u64>,
    /// At most so many of its requests, from the beginning, 1 or more; if not said, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// So many at its beginning are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
    /// What becomes of one that reaches beyond the volume.
    #[serde(default)]
    pub fit: Fit,
    /// What was found in the file; `None` until it has been surveyed. A scenario cannot say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surveyed: Option<Extent>,
    /// Where the file is found from here; no result depends on it.
    #[serde(skip)]
    pub path: Option<String>,
}

impl Trace {
    /// All of this file.
    pub fn of(file: impl Into<String>) -> Trace {
        Trace {
            file: file.into(),
            format: None,
            sector_bytes: None,
            requests: None,
            skip: None,
            fit: Fit::default(),
            surveyed: None,
            path: None,
        }
    }

    fn skipped(&self) -> usize {
        self.skip.unwrap_or(0) as usize
    }

    fn at_most(&self) -> u64 {
        self.requests.unwrap_or(u64::MAX)
    }

    /// Begins to read it; errors call it `name`.
    ///
    /// # Errors
    /// If its first bytes cannot be had, or its format is neither given nor seen from them.
    pub fn reader<'a>(&self, name: &str, input: impl Read + 'a) -> Result<Reader<'a>, TraceError> {
        let options = Options { format: self.format, sector_bytes: self.sector_bytes };
        Reader::new(name, input, options)
    }

    /// Reads as much of a trace as is replayed, and notes what it comes to.
    ///
    /// # Errors
    /// What is wrong with the trace, with its name and the line.
    pub fn survey(&mut self, reader: &mut Reader<'_>) -> Result<(), TraceError> {
        for record in reader.by_ref().take(self.skipped()) {
            record?;
        }
        self.surveyed = Some(Extent::of(reader, self.at_most())?);
        Ok(())
    }

    /// The requests of the trace for a volume of so many bytes, at this pace.
    ///
    /// # Errors
    /// If it cannot be read or does not fit. Errors of single requests come in their place.
    pub fn replay(
        &self,
        name: &str,
        input: impl Read + 'static,
        volume_bytes: u64,
        pace: Pace,
    ) -> Result<Asks, TraceError> {
        let surveyed = self.surveyed.clone().unwrap_or_default();
        let mapping = Mapping::new(&surveyed.ends, volume_bytes, self.fit, ALIGN)?;
        let records = self.reader(name, input)?;
        let records = records.skip(self.skipped()).take(self.at_most() as usize);
        Ok(Box::new(Replay::new(records, mapping, pace)?))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.requests == Some(0) {
            return Err(Problem::new("requests.trace.requests", 0, "give 1 or more"));
        }
        match self.sector_bytes {
            Some(bytes) if !(1..=1 << 20).contains(&bytes) => {
                Err(Problem::new("requests.trace.sector_bytes", bytes, "give 1 to 1048576"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that what was surveyed can be replayed on a volume, so many times as fast as it was if
    /// its times matter.
    ///
    /// # Errors
    /// If it has not been surveyed, has no requests, or does not fit.
    pub(super) fn check_fit(&self, volume_bytes: u64, speed: Option<f64>) -> Result<(), Problem> {
        let wrong =
            |expected: String| Err(Problem::new("requests.trace.file", &self.file, expected));
        let Some(extent) = &self.surveyed else {
            return wrong("this trace has not been read".into());
        };
        if extent.requests == 0 {
            return wrong("this trace has no requests; give another".into());
        }
        let most = LONGEST.min(volume_bytes);
        if extent.longest > most {
            return wrong(format!(
                "a request of this trace has {} bytes, and the volume takes at most {most}",
                extent.longest
            ));
        }
        let replay = |speed: f64| (speed, extent.span as f64 / 1e9 / speed);
        if let Some((speed, seconds)) = speed.map(replay)
            && seconds > LONGEST_REPLAY
        {
            let expected = format!(
                "the replay would take {seconds:.3e} seconds; give a speed that makes it \
                 {LONGEST_REPLAY:e} or less"
            );
            return Err(Problem::new("arrivals.traced.speed", speed, expected));
        }
        match Mapping::new(&extent.ends, volume_bytes, self.fit, ALIGN) {
            Ok(_) => Ok(()),
            Err(e) => wrong(format!("{e} (workload.requests.trace.fit)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::workload::{Arrivals, Generator, Requests, Workload};

    const TEXT: &str = "time_us,op,offset,bytes\n5,read,0,4096\n15,write,8192,512\n10,flush,0,0\n\
                        35,read,1048064,512\n";

    fn surveyed(trace: Trace) -> Trace {
        let mut trace = trace;
        let mut reader = trace.reader("t.csv", TEXT.as_bytes()).unwrap();
        trace.survey(&mut reader).unwrap();
        trace
    }

    fn replayed(trace: &Trace, volume: u64, pace: Pace) -> Vec<Ask> {
        let asks = trace.replay("t.csv", TEXT.as_bytes(), volume, pace).unwrap();
        asks.map(Result::unwrap).collect()
    }

    fn workload(trace: Trace) -> Workload {
        Workload {
            hosts: 2,
            arrivals: Arrivals::Traced { speed: 1.0 },
            requests: Requests::Trace(trace),
            addresses: Default::default(),
            align_bytes: None,
        }
    }

    #[test]
    fn requests_come_as_the_trace_has_them() {
        let trace = surveyed(Trace::of("t.csv"));
        let ask = |kind, offset, len, wait| Ask { kind, offset, len, wait };
        let expected = [
            ask(Kind::Read, 0, 4096, 0),
            ask(Kind::Write, 8192, 512, 5_000),
            ask(Kind::Flush, 0, 0, 0),
            ask(Kind::Read, 1_048_064, 512, 10_000),
        ];
        assert_eq!(replayed(&trace, 1 << 20, Pace::AsTimed { speed: 2.0 }), expected);
        let first = surveyed(Trace { requests: Some(2), ..Trace::of("t.csv") });
        let asks = replayed(&first, 1 << 20, Pace::AsTimed { speed: 2.0 });
        assert_eq!(asks, expected[..2]);
        let rest = surveyed(Trace { skip: Some(2), ..Trace::of("t.csv") });
        assert_eq!(rest.surveyed.as_ref().unwrap().requests, 2);
        let asks = replayed(&rest, 1 << 20, Pace::AsTimed { speed: 2.0 });
        assert_eq!(asks.len(), 2);
        assert_eq!((asks[0].kind, asks[0].wait, asks[1].offset), (Kind::Flush, 0, 1_048_064));
        let wrapped = surveyed(Trace { fit: Fit::Wrap, ..Trace::of("t.csv") });
        let offsets = replayed(&wrapped, 16_384, Pace::AsFast).into_iter().map(|a| a.offset);
        assert_eq!(offsets.collect::<Vec<_>>(), [0, 8192, 0, 15_872]);
    }

    #[test]
    fn what_cannot_be_replayed_is_refused_by_key() {
        let problem = |trace: Trace, volume: u64| {
            let generator = Generator::new(&workload(trace), volume);
            generator.map(|_| ()).map_err(|e| e.to_string())
        };
        let trace = Trace::of("t.csv");
        assert_eq!(problem(surveyed(trace.clone()), 1 << 20), Ok(()));
        for (trace, volume, why) in [
            (trace.clone(), 1 << 20, "requests.trace.file = t.csv: this trace has not been read"),
            (
                surveyed(trace.clone()),
                65_536,
                "requests.trace.file = t.csv: the trace covers 1048576 bytes and the volume has 65536",
            ),
            (
                surveyed(Trace { fit: Fit::Wrap, ..trace.clone() }),
                2048,
                "requests.trace.file = t.csv: a request of this trace has 4096 bytes, and",
            ),
            (
                Trace { requests: Some(0), ..trace.clone() },
                1 << 20,
                "requests.trace.requests = 0: give 1 or more",
            ),
            (
                Trace { sector_bytes: Some(0), ..trace.clone() },
                1 << 20,
                "requests.trace.sector_bytes = 0: give 1 to 1048576",
            ),
        ] {
            let said = problem(trace, volume).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
        let mut long = surveyed(trace);
        long.surveyed.as_mut().unwrap().span = 2_000_000_000_000_000;
        let traced =
            |speed| Workload { arrivals: Arrivals::Traced { speed }, ..workload(long.clone()) };
        assert!(Generator::new(&traced(1.0), 1 << 20).is_ok());
        let said = Generator::new(&traced(0.001), 1 << 20).unwrap_err().to_string();
        let why = "arrivals.traced.speed = 0.001: the replay would take 2.000e9 seconds";
        assert!(said.starts_with(why), "{said}");
    }
}
