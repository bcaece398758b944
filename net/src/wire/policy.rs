//! The encoding of a volume's policy. A new choice has a flag, so that policies without it keep their bytes.

use weft_core::policy::{
    CalculatedAt, Commands, Commit, Controller, Dispatch, Every, Flush, Ordering, Policy,
    Preference, Redundancy, Refresh, Schedule, SequencerForm, Start, Timing, Valued, VolumeLimits,
};

use weft_bytes::{BytesError, Read, at_most};

use super::code::{Reader, Wire, Writer, wire_enum, wire_struct};
use super::map::{WITH_BLOCKS, WITH_SCHEDULES};

/// Policies may have limits since this version.
const WITH_LIMITS: u8 = 19;

/// Policies may promise how long requests take since this version.
const WITH_P99: u8 = 21;

/// What a policy says besides whether there is a journal: that it says when parity is computed, too. A policy by which
/// that is always at once has the bytes that it had before there was a choice.
const DEFERS: u8 = 2;
/// The same: that it says which controller there is.
const CONTROLLED: u8 = 4;
/// A flag of a policy: its controller commands nodes block by block.
const BY_BLOCK: u8 = 8;
/// The same: that it says how much hosts may ask.
const LIMITED: u8 = 16;
/// The same: that it says how long requests may take.
const PROMISED: u8 = 32;
/// The same: that it says when snapshots are taken.
const SCHEDULED: u8 = 64;
/// A flag of a policy: its logical blocks have 4,096 bytes.
const LONG_BLOCKS: u8 = 128;

impl Wire for Policy {
    fn put(&self, w: &mut Writer) {
        self.strategy.put(w);
        self.calculated_at.put(w);
        self.dispatch.put(w);
        self.commit.put(w);
        self.ordering.put(w);
        self.sequencer.put(w);
        let says = self.redundancy != Redundancy::default();
        let controlled = self.controller.is_some() || self.inline > 0;
        let by_block = self.commands == Commands::Block;
        let limited = self.limits != VolumeLimits::default();
        let promised = self.p99 != Policy::UNPROMISED;
        let scheduled = !self.snapshots.is_none();
        let flags = [
            (self.journal, 1),
            (says, DEFERS),
            (controlled, CONTROLLED),
            (by_block, BY_BLOCK),
            (limited, LIMITED),
            (promised, PROMISED),
            (scheduled, SCHEDULED),
            (self.block != Policy::BLOCK, LONG_BLOCKS),
        ];
        flags.iter().filter(|f| f.0).map(|f| f.1).sum::<u8>().put(w);
        self.lost_wait.put(w);
        if says {
            self.redundancy.put(w);
        }
        if controlled {
            self.controller.put(w);
            self.inline.put(w);
        }
        if limited {
            self.limits.put(w);
        }
        if promised {
            self.p99.put(w);
        }
        if scheduled {
            self.snapshots.put(w);
        }
    }

    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let (strategy, calculated_at) = (Wire::take(r)?, Wire::take(r)?);
        let (dispatch, commit) = (Wire::take(r)?, Wire::take(r)?);
        let (ordering, sequencer) = (Wire::take(r)?, Wire::take(r)?);
        let flags = u8::take(r)?;
        let since = |version: u8, flag: u8| if r.version < version { 0 } else { flag };
        let later = since(WITH_LIMITS, LIMITED)
            | since(WITH_P99, PROMISED)
            | since(WITH_SCHEDULES, SCHEDULED)
            | since(WITH_BLOCKS, LONG_BLOCKS);
        let all = 1 | DEFERS | CONTROLLED | BY_BLOCK | later;
        at_most("the flags of a policy", flags.into(), all.into())?;
        let lost_wait = Wire::take(r)?;
        let redundancy = match flags & DEFERS {
            0 => Redundancy::default(),
            _ => Wire::take(r)?,
        };
        let (controller, inline) = match flags & CONTROLLED {
            0 => (None, 0),
            _ => (Wire::take(r)?, Wire::take(r)?),
        };
        at_most("the bytes of a write that are inline", inline, Policy::MOST_INLINE)?;
        let limits = match flags & LIMITED {
            0 => VolumeLimits::default(),
            _ => Wire::take(r)?,
        };
        let p99 = match flags & PROMISED {
            0 => Policy::UNPROMISED,
            _ => {
                let p99 = Wire::take(r)?;
                at_most("the time that a policy promises", p99, Policy::LONGEST_P99)?;
                p99
            }
        };
        let snapshots = match flags & SCHEDULED {
            0 => Schedule::NONE,
            _ => Wire::take(r)?,
        };
        let journal = flags & 1 != 0;
        let block = match flags & LONG_BLOCKS {
            0 => Policy::BLOCK,
            _ => Policy::LONG_BLOCK,
        };
        let commands = match flags & BY_BLOCK {
            0 => Commands::Column,
            _ => Commands::Block,
        };
        Ok(Policy {
            strategy,
            calculated_at,
            dispatch,
            commit,
            ordering,
            sequencer,
            journal,
            lost_wait,
            redundancy,
            controller,
            inline,
            commands,
            limits,
            p99,
            snapshots,
            block,
        })
    }
}

wire_struct!(Redundancy {
    timing,
    immediate_parities,
    refresh,
    idle,
    exposed_stripes,
    exposed_bytes,
    exposed_for,
    flush,
    mttdl,
    start,
    disk_mttf
});

wire_struct!(VolumeLimits { iops, bandwidth, burst } check |limits: &VolumeLimits| {
    // Costs are divided by them.
    if limits.iops == 0 || limits.bandwidth == 0 {
        return Err(BytesError::Bounds { what: "a limit of a volume", value: 0 });
    }
    at_most("the burst of a volume", limits.burst, VolumeLimits::LONGEST_BURST)
});

/// How many snapshots of each kind are kept.
impl Wire for Schedule {
    fn put(&self, w: &mut Writer) {
        self.keep().iter().for_each(|count| count.put(w));
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let mut keep = [0_u16; 4];
        for count in &mut keep {
            *count = Wire::take(r)?;
        }
        let all = keep.iter().map(|count| u64::from(*count)).sum();
        let too_many =
            BytesError::Bounds { what: "the scheduled snapshots of a volume", value: all };
        Schedule::keeping(keep).ok_or(too_many)
    }
}

wire_enum!(Every, "kind of a scheduled snapshot" {
    1 = Hour,
    2 = Day,
    3 = Week,
    4 = Month,
});

/// The encoding of what a policy chooses: its number in the table of choices. What may be left to cost has a
/// number of its own behind whether there is one.
macro_rules! wire_choice {
    ($name:ident, $what:literal, $of:expr, $chosen:pat => $value:ident) => {
        impl Wire for $name {
            fn put(&self, w: &mut Writer) {
                $of(*self).row().tag.put(w);
            }
            fn take(r: &mut Reader<'_>) -> Read<Self> {
                let tag = u8::take(r)?;
                match Valued::numbered(tag) {
                    Some($chosen) => Ok($value),
                    _ => Err(BytesError::Unknown { what: $what, value: tag }),
                }
            }
        }
    };
    ($name:ident, $what:literal) => {
        wire_choice!($name, $what, std::convert::identity, chosen => chosen);
    };
}

wire_choice!(Preference, "strategy", Some, Some(chosen) => chosen);
wire_choice!(CalculatedAt, "place of parity", Some, Some(chosen) => chosen);
wire_choice!(Dispatch, "kind of dispatch");
wire_choice!(Commit, "kind of commit");
wire_choice!(Ordering, "ordering");
wire_choice!(SequencerForm, "form of a sequencer");
wire_choice!(Timing, "timing of redundancy");
wire_choice!(Refresh, "time of refreshing");
wire_choice!(Flush, "form of a flush");
wire_enum!(Controller, "kind of controller" {
    1 = OutOfBand,
    2 = InBand,
});
wire_choice!(Start, "start of parity that waits");

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_core::policy::{CHOICES, Setting};

    use super::*;

    /// What a policy is in a map, which must never change: the default, and each value in it.
    #[test]
    fn policies_have_the_bytes_that_they_always_had() {
        let bytes = |policy: &Policy| {
            let mut w = Writer::new(Vec::new());
            policy.put(&mut w);
            w.finish().0
        };
        let usual = bytes(&Policy::default());
        assert_eq!(usual[..7], [0, 0, 1, 1, 6, 1, 1]);
        assert_eq!(usual[7..], 20_000_000_000_u64.to_le_bytes());
        let head = |setting: Setting| {
            let mut all = bytes(&Policy::default().with([setting]));
            all.truncate(all.len() - 8);
            all
        };
        let others: [(&str, &[&[u8]]); 7] = [
            ("strategy", &[&[0], &[1, 2], &[1, 3]]),
            ("calculator", &[&[0], &[1, 1], &[1, 2], &[1, 3], &[1, 4], &[1, 5]]),
            ("dispatch", &[&[1], &[2]]),
            ("commit", &[&[1], &[3], &[4], &[2]]),
            ("ordering", &[&[1], &[2], &[3], &[4], &[5], &[6]]),
            ("sequencer", &[&[1], &[2], &[3], &[4]]),
            ("journal", &[&[1], &[0]]),
        ];
        for (at, (key, codes)) in others.into_iter().enumerate() {
            let choice = CHOICES.iter().find(|c| c.key == key).expect("a choice");
            let values = choice.values();
            assert!(values.len() >= codes.len(), "{key}: values do not go");
            for (value, code) in values.iter().zip(codes) {
                let mut expected = usual[..usual.len() - 8].to_vec();
                expected.splice(at..=at, code.iter().copied());
                assert_eq!(
                    head(choice.parse(value.word).unwrap()),
                    expected,
                    "{key}={}",
                    value.word
                );
            }
        }
    }

    #[test]
    fn limits_come_last_and_earlier_versions_have_none() {
        let limits = VolumeLimits { iops: 500, burst: 7, ..VolumeLimits::default() };
        let mut w = Writer::new(Vec::new());
        Policy { limits, ..Policy::default() }.put(&mut w);
        let bytes = w.finish().0;
        assert_eq!(bytes[6], 1 | LIMITED);
        let expected = [500_u64, u64::MAX, 7].map(u64::to_le_bytes).concat();
        assert_eq!(bytes[15..], expected);
        let taken = |version, bytes: &[u8]| {
            Policy::take(&mut Reader::new(version, bytes, Bytes::new())).map(|p| p.limits)
        };
        assert_eq!(taken(WITH_LIMITS, &bytes), Ok(limits));
        assert!(taken(WITH_LIMITS - 1, &bytes).is_err());
        let mut none = bytes.clone();
        none[15..23].fill(0);
        assert!(taken(WITH_LIMITS, &none).is_err(), "nothing is divided by 0");
    }

    #[test]
    fn a_promise_comes_last_and_earlier_versions_have_none() {
        let p99 = 5_000_000;
        let mut w = Writer::new(Vec::new());
        Policy { p99, ..Policy::default() }.put(&mut w);
        let bytes = w.finish().0;
        assert_eq!((bytes[6], &bytes[15..]), (1 | PROMISED, &p99.to_le_bytes()[..]));
        let taken = |version, bytes: &[u8]| {
            Policy::take(&mut Reader::new(version, bytes, Bytes::new())).map(|p| p.p99)
        };
        assert_eq!(taken(WITH_P99, &bytes), Ok(p99));
        assert!(taken(WITH_P99 - 1, &bytes).is_err());
        let mut long = bytes.clone();
        long[15..].copy_from_slice(&(Policy::LONGEST_P99 + 1).to_le_bytes());
        assert!(taken(WITH_P99, &long).is_err());
    }
    #[test]
    fn a_schedule_comes_last_and_earlier_versions_have_none() {
        let snapshots = Schedule::keeping([24, 7, 0, 300]).unwrap();
        let mut w = Writer::new(Vec::new());
        Policy { snapshots, ..Policy::default() }.put(&mut w);
        let bytes = w.finish().0;
        assert_eq!((bytes[6], &bytes[15..]), (1 | SCHEDULED, &[24, 0, 7, 0, 0, 0, 44, 1][..]));
        let taken = |version, bytes: &[u8]| {
            Policy::take(&mut Reader::new(version, bytes, Bytes::new())).map(|p| p.snapshots)
        };
        assert_eq!(taken(WITH_SCHEDULES, &bytes), Ok(snapshots));
        assert!(taken(WITH_SCHEDULES - 1, &bytes).is_err());
        let mut many = bytes.clone();
        many[20] = 4;
        assert!(taken(WITH_SCHEDULES, &many).is_err(), "more than a volume can have");
    }
}
