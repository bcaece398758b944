//! Makes requests for a volume of the records of a trace.

use serde::{Deserialize, Serialize};

use super::Record;
use crate::{Ask, Kind, Nanos};

/// When the requests of a trace are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// As they were, answered or not; twice as fast with a speed of 2. A trace in which time goes
    /// back somewhere is replayed in its order: what comes late is made at once.
    AsTimed {
        /// How much faster than it was, 10^-6 to 10^6.
        speed: f64,
    },
    /// Each as soon as there is room among those that are outstanding: how many may be so is for
    /// who runs the replay.
    AsFast,
    /// Each so long after the reply to the one before as it was: one is outstanding at a time. The
    /// trace must say how long requests took.
    AsThought,
}

/// What becomes of a trace that is larger than the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// It is refused.
    #[default]
    Refuse,
    /// Offsets are taken modulo the volume's size.
    Wrap,
    /// Offsets are scaled down, so that the trace covers the volume; one that is smaller than the
    /// volume is scaled up.
    Scale,
}

/// Why a trace cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It reaches beyond the volume.
    #[error(
        "the trace covers {needed} bytes and the volume has {volume}; give a larger volume, or let \
         it wrap or scale"
    )]
    TooLarge {
        /// Bytes up to the end of its last request, of all devices together.
        needed: u128,
        /// Bytes of the volume.
        volume: u64,
    },
    /// One request is longer than the volume.
    #[error("a request of {len} bytes does not fit on a volume of {volume}")]
    TooLong {
        /// Its length.
        len: u64,
        /// Bytes of the volume.
        volume: u64,
    },
    /// The trace is not the one that was surveyed.
    #[error("a request exceeds the range that the survey of the trace found on device {0}")]
    Unseen(u32),
    /// There is nothing to tell the gaps from.
    #[error("the trace has no response times; choose another replay than as-thought")]
    NoResponse,
    /// The speed is out of range.
    #[error("speed = {0}: give 0.000001 to 1000000")]
    Speed(String),
}

/// Where the devices of a trace lie on a volume: one behind the other.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Where each device begins; and where the last one ends.
    starts: Vec<u128>,
    volume: u64,
    fit: Fit,
    align: u64,
}

impl Mapping {
    /// Puts devices that reach up to these offsets ([`Survey::ends`](super::Survey::ends)) on a
    /// volume. Each begins at a multiple of `align` bytes, and so do scaled and wrapped requests
    /// that were so aligned.
    ///
    /// # Errors
    /// If they do not fit and [`Fit::Refuse`] is asked for.
    pub fn new(ends: &[u64], volume: u64, fit: Fit, align: u64) -> Result<Self, ReplayError> {
        let align = align.max(1);
        let mut starts = vec![0u128];
        for end in ends {
            let last = starts[starts.len() - 1];
            starts.push((last + u128::from(*end)).next_multiple_of(u128::from(align)));
        }
        // What is added behind the last device to align it is not needed.
        let last = starts.len() - 1;
        if let Some(end) = ends.last() {
            starts[last] = starts[last - 1] + u128::from(*end);
        }
        let needed = starts[last];
        if fit == Fit::Refuse && needed > u128::from(volume) {
            return Err(ReplayError::TooLarge { needed, volume });
        }
        Ok(Mapping { starts, volume, fit, align })
    }

    /// Where on the volume a range of a device begins.
    ///
    /// # Errors
    /// If it is longer than the volume, or was not surveyed.
    pub fn place(&self, device: u32, offset: u64, len: u64) -> Result<u64, ReplayError> {
        let room = match self.volume.checked_sub(len) {
            Some(room) => room,
            None => return Err(ReplayError::TooLong { len, volume: self.volume }),
        };
        let index = device as usize;
        let (Some(start), Some(next)) = (self.starts.get(index), self.starts.get(index + 1)) else {
            return Err(ReplayError::Unseen(device));
        };
        let at = start + u128::from(offset);
        if at + u128::from(len) > *next {
            return Err(ReplayError::Unseen(device));
        }
        let align = u128::from(self.align);
        let down = |n: u128| n - n % align;
        let (volume, room) = (u128::from(self.volume), u128::from(room));
        let placed = match self.fit {
            Fit::Refuse => at,
            // Whole alignments wrap; what would cross the end is moved back before it.
            Fit::Wrap if volume < align => at % volume,
            Fit::Wrap => at % down(volume),
            Fit::Scale => {
                let total = self.starts[self.starts.len() - 1].max(1);
                down(at) * volume / total / align * align + at % align
            }
        };
        let placed = if placed > room { down(room) } else { placed };
        Ok(placed as u64)
    }
}

/// The requests of a trace, for a volume. Errors of the records go through.
#[derive(Debug)]
pub struct Replay<I> {
    records: I,
    mapping: Mapping,
    pace: Pace,
    /// Time of the trace's first request.
    first: Option<Nanos>,
    /// When the one before was made (by the replay's clock) or ended (by the trace's).
    before: Nanos,
}

impl<I> Replay<I> {
    /// Replays records on a volume.
    ///
    /// # Errors
    /// If the speed is out of range.
    pub fn new(records: I, mapping: Mapping, pace: Pace) -> Result<Self, ReplayError> {
        match pace {
            Pace::AsTimed { speed } if !(1e-6..=1e6).contains(&speed) => {
                Err(ReplayError::Speed(speed.to_string()))
            }
            _ => Ok(Replay { records, mapping, pace, first: None, before: 0 }),
        }
    }

    fn ask(&mut self, record: Record) -> Result<Ask, ReplayError> {
        let Record { device, kind, len, .. } = record;
        let offset = match kind {
            Kind::Flush => 0,
            _ => self.mapping.place(device, record.offset, len)?,
        };
        Ok(Ask { kind, offset, len, wait: self.wait(&record)? })
    }

    fn wait(&mut self, record: &Record) -> Result<Nanos, ReplayError> {
        let first = *self.first.get_or_insert(record.at);
        let since = record.at.saturating_sub(first);
        match self.pace {
            Pace::AsFast => Ok(0),
            Pace::AsTimed { speed } => {
                // A speed of 1 is exact, whatever a float can hold.
                let at = if speed == 1.0 { since } else { (since as f64 / speed).round() as Nanos };
                let wait = at.saturating_sub(self.before);
                self.before = self.before.max(at);
                Ok(wait)
            }
            Pace::AsThought => {
                let response = record.response.ok_or(ReplayError::NoResponse)?;
                let wait = since.saturating_sub(self.before);
                self.before = since.saturating_add(response);
                Ok(wait)
            }
        }
    }
}

impl<I, E> Iterator for Replay<I>
where
    I: Iterator<Item = Result<Record, E>>,
    E: From<ReplayError>,
{
    type Item = Result<Ask, E>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.records.next()?.and_then(|record| Ok(self.ask(record)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(at: Nanos, device: u32, offset: u64, response: Option<Nanos>) -> Record {
        Record { at, device, kind: Kind::Read, offset, len: 4096, response }
    }

    fn replay(records: &[Record], volume: u64, fit: Fit, pace: Pace) -> Vec<(u64, Nanos)> {
        let mapping = Mapping::new(&[1 << 20, 1 << 20], volume, fit, 4096).unwrap();
        Replay::new(records.iter().map(|r| Ok::<_, ReplayError>(*r)), mapping, pace)
            .unwrap()
            .map(|ask| ask.map(|a| (a.offset, a.wait)).unwrap())
            .collect()
    }

    #[test]
    fn requests_come_as_timed_as_fast_or_as_thought() {
        let records = [
            record(1000, 0, 0, Some(300)),
            record(1500, 1, 8192, Some(100)),
            record(1400, 0, 4096, Some(50)),
            record(2000, 0, 0, Some(10)),
        ];
        let waits = |pace| -> Vec<Nanos> {
            replay(&records, 2 << 20, Fit::Refuse, pace).into_iter().map(|(_, w)| w).collect()
        };
        assert_eq!(waits(Pace::AsTimed { speed: 1.0 }), [0, 500, 0, 500]);
        assert_eq!(waits(Pace::AsTimed { speed: 2.0 }), [0, 250, 0, 250]);
        assert_eq!(waits(Pace::AsFast), [0; 4]);
        assert_eq!(waits(Pace::AsThought), [0, 200, 0, 550]);
    }

    #[test]
    fn devices_lie_one_behind_the_other() {
        let records = [record(0, 0, 4096, None), record(0, 1, 4096, None)];
        let places = |volume, fit| -> Vec<u64> {
            replay(&records, volume, fit, Pace::AsFast).into_iter().map(|(o, _)| o).collect()
        };
        assert_eq!(places(2 << 20, Fit::Refuse), [4096, (1 << 20) + 4096]);
        assert_eq!(places(1 << 20, Fit::Wrap), [4096, 4096]);
        assert_eq!(places(1 << 20, Fit::Scale), [0, 1 << 19]);
        assert_eq!(places(4 << 20, Fit::Scale), [8192, (2 << 20) + 8192]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = Mapping::new(&[4096, 4097], 8192, Fit::Refuse, 1).unwrap_err();
        assert!(refused.to_string().contains("8193 bytes") && refused.to_string().contains("8192"));
        let mapping = Mapping::new(&[8192], 4096, Fit::Wrap, 512).unwrap();
        assert_eq!(
            mapping.place(0, 0, 8192).unwrap_err().to_string(),
            "a request of 8192 bytes does not fit on a volume of 4096"
        );
        assert_eq!(mapping.place(0, 8192, 512), Err(ReplayError::Unseen(0)));
        assert_eq!(mapping.place(1, 0, 512), Err(ReplayError::Unseen(1)));
        let none = [Ok::<_, ReplayError>(record(0, 0, 0, None))];
        let mapping = Mapping::new(&[1 << 20], 1 << 20, Fit::Refuse, 1).unwrap();
        let mut replay = Replay::new(none.into_iter(), mapping.clone(), Pace::AsThought).unwrap();
        assert_eq!(replay.next(), Some(Err(ReplayError::NoResponse)));
        let still = Replay::new(
            std::iter::empty::<Result<Record, ReplayError>>(),
            mapping,
            Pace::AsTimed { speed: 0.0 },
        );
        assert!(still.unwrap_err().to_string().contains("speed = 0"));
    }

    proptest! {
        #[test]
        fn every_range_lands_on_the_volume_aligned_as_it_was(
            ends in prop::collection::vec(1..1_000_000u64, 1..4),
            volume in 10_000..2_000_000u64,
            pick in 0..4usize,
            (from, len) in (0.0..1.0f64, 1..10_000u64),
            scale in any::<bool>(),
        ) {
            let fit = if scale { Fit::Scale } else { Fit::Wrap };
            let align = 512;
            let mapping = Mapping::new(&ends, volume, fit, align).unwrap();
            let device = pick % ends.len();
            let len = len.min(ends[device]);
            let offset = ((ends[device] - len) as f64 * from) as u64;
            let placed = mapping.place(device as u32, offset, len).unwrap();
            prop_assert!(placed + len <= volume);
            if offset.is_multiple_of(align) {
                prop_assert_eq!(placed % align, 0);
            }
        }
    }
}
