//! Examples of values, for choices that take any number, size or time.

use super::choices::{FOREVER, Value};
use super::{Kind, schedule};

/// Some of the sizes up to which writes are inline.
pub(super) const INLINE: [Value; 3] = [usual("0", "none"), usual("4K", ""), usual("64K", "")];

/// Some of the times that requests can wait.
pub(super) const TIMES: [Value; 4] = [
    Value { word: "0s", help: "fail at once", kind: Kind::Usual },
    Value { word: "20s", help: "", kind: Kind::Usual },
    Value { word: "5m", help: "", kind: Kind::Usual },
    Value { word: FOREVER, help: "until the nodes return", kind: Kind::Usual },
];

const fn usual(word: &'static str, help: &'static str) -> Value {
    Value { word, help, kind: Kind::Usual }
}

/// Some of the numbers of parities.
pub(super) const COUNTS: [Value; 3] = [
    usual("0", "all parity is deferred"),
    usual("1", "the first parity is immediate"),
    usual("2", "the first two are immediate"),
];

/// Some of the times for which a disk must be idle.
pub(super) const IDLE_TIMES: [Value; 3] = [usual("10ms", ""), usual("100ms", ""), usual("1s", "")];

/// Some of the numbers of stripes.
pub(super) const STRIPES: [Value; 3] =
    [usual("20", ""), usual("10000", ""), usual("none", "no bound")];

/// Some bounds on exposed stripes.
pub(super) const BOUNDS: [Value; 3] =
    [usual("64M", ""), usual("1G", ""), usual("none", "no bound")];

/// Some of the times for which it may be.
pub(super) const EXPOSED_TIMES: [Value; 3] =
    [usual("1s", ""), usual("30s", ""), usual("none", "no bound")];

/// Some of the mean times that can be asked for.
pub(super) const TARGETS: [Value; 3] =
    [usual("10000000", ""), usual("100000000", ""), usual("none", "no target")];

/// Some of the mean times of disks.
pub(super) const MTTFS: [Value; 2] =
    [usual("2000000", "1M hours, half of the failures predicted"), usual("1000000", "")];

/// Some of the limits on requests.
pub(super) const IOPS: [Value; 3] =
    [usual("500", ""), usual("10000", ""), usual("none", "no limit")];

/// Some of the limits on bytes.
pub(super) const BANDWIDTHS: [Value; 3] =
    [usual("20M", ""), usual("1G", ""), usual("none", "no limit")];

/// Some of the times for which a volume saves up.
pub(super) const BURSTS: [Value; 3] = [usual("0s", "none"), usual("10s", ""), usual("5m", "")];

/// Some of the schedules of snapshots.
pub(super) const SCHEDULES: [Value; 2] =
    [usual("hourly:24,daily:7", ""), usual(schedule::NONE, "no scheduled snapshots")];

/// Some of the times within which requests are to end.
pub(super) const PROMISES: [Value; 3] =
    [usual("5ms", ""), usual("100ms", ""), usual("none", "no promise")];
