//! Every key of a parameter file: what it means, in which unit and range, what it is if left
//! out, and where the notion comes from.

use std::fmt;

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// A number, from the first to the second, both included.
    Number(f64, f64),
    /// A whole number, from the first to the second, both included.
    Whole(u64, u64),
    /// A whole number, from the first to the second, both included, or this word.
    WholeOr(u64, u64, &'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    YesNo,
    /// Any text.
    Text,
}

impl Range {
    /// Whether the number is in it.
    pub fn holds(&self, number: f64) -> bool {
        match *self {
            Range::Number(least, most) => (least..=most).contains(&number),
            Range::Whole(least, most) | Range::WholeOr(least, most, _) => {
                (least as f64..=most as f64).contains(&number)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Number(least, most) => write!(f, "{least} to {most}"),
            Range::Whole(least, most) => write!(f, "{least} to {most}"),
            Range::WholeOr(least, most, word) => write!(f, "{least} to {most}, or {word}"),
            Range::Word(words) => f.write_str(&words.join(", ")),
            Range::YesNo => f.write_str("true, false"),
            Range::Text => f.write_str("text"),
        }
    }
}

/// A key of a parameter file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, with the tables that it is in.
    pub key: &'static str,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// What it may be.
    pub range: Range,
    /// What it is if left out; `None` if it must be given.
    pub default: Option<&'static str>,
    /// What it means.
    pub meaning: &'static str,
    /// Where the notion comes from.
    pub source: &'static str,
}

/// The parameter of this key.
pub fn describe(key: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|p| p.key == key)
}

/// All parameters.
pub fn parameters() -> &'static [Parameter] {
    PARAMETERS
}

const RW: &str = "Ruemmler and Wilkes, IEEE Computer 27(3), 1994";
const DS: &str = "DiskSim 4.0 manual, CMU-PDL-08-101";
const TT: &str = "TickerTAIP, TOCS 12(3), 1994, section 4.2";
const DN: &str = "DR-net (2000), Table 1; shared storage (ICDCS 2000), Table 2";
const MQ: &str = "MQSim, FAST 2018";
const ME: &str = "MQSim-E, IEEE CAL, 2022";
const DY: &str = "Desnoyers, SYSTOR 2012";
const WEFT: &str = "Weft";

/// Longer than anything in a disk takes.
const MS: Range = Range::Number(0.0, 1000.0);
const EXABYTE: u64 = 1 << 60;

const fn row(
    key: &'static str,
    unit: &'static str,
    range: Range,
    default: Option<&'static str>,
    source: &'static str,
    meaning: &'static str,
) -> Parameter {
    Parameter { key, unit, range, default, meaning, source }
}

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    row("name", "", Range::Text, None, WEFT, "Name of the device."),
    row("about", "", Range::Text, Some(""), WEFT, "One-line description."),

    row("geometry.sector_bytes", "bytes", Range::Whole(128, 65536), None, RW,
        "Bytes in a sector."),
    row("geometry.cylinders", "cylinders", Range::Whole(1, 1_000_000), None, RW,
        "Cylinders that the arm can reach, whether they hold data or not."),
    row("geometry.heads", "tracks", Range::Whole(1, 256), None, RW,
        "Surfaces that hold data: tracks in a cylinder."),
    row("geometry.zones.first_cylinder", "cylinder", Range::Whole(0, 1_000_000), None, RW,
        "The zone's first cylinder. Cylinders between zones hold no data."),
    row("geometry.zones.last_cylinder", "cylinder", Range::Whole(0, 1_000_000), None, RW,
        "The zone's last cylinder."),
    row("geometry.zones.sectors_per_track", "sectors", Range::Whole(1, 100_000), None, RW,
        "Sectors on each track of the zone."),
    row("geometry.zones.track_skew", "sectors", Range::Whole(0, 100_000), Some("0"), RW,
        "How much further round a track begins than the one before it in the cylinder."),
    row("geometry.zones.cylinder_skew", "sectors", Range::Whole(0, 100_000), Some("0"), RW,
        "How much further round a cylinder's first track begins than the last of the one before."),
    row("geometry.zones.first_sector_offset", "sectors", Range::Whole(0, 100_000), Some("0"), DS,
        "How far round from the index the zone's first track begins."),
    row("geometry.zones.unused_tracks", "tracks", Range::Whole(0, 10_000_000), Some("0"), DS,
        "Tracks at the zone's beginning that hold no data."),
    row("geometry.zones.spare_tracks", "tracks", Range::Whole(0, 10_000_000), Some("0"), DS,
        "Tracks at the zone's end that are kept for slipped ones."),
    row("geometry.zones.slipped_tracks", "track", Range::Whole(0, 10_000_000), Some("[]"), DS,
        "Bad tracks that are skipped, counted from the zone's beginning."),

    row("mechanics.rpm", "revolutions/min", Range::Number(60.0, 1_000_000.0), None, RW,
        "Rotation speed."),
    row("mechanics.head_switch_ms", "ms", MS, None, RW,
        "From one track of a cylinder to another; also the shortest arm movement."),
    row("mechanics.write_settle_ms", "ms", Range::Number(-10.0, 100.0), Some("0"), TT,
        "How much longer the arm takes to settle before a write than before a read. Negative \
         where it was extracted together with an overhead of writes that is too long by the same time."),
    row("mechanics.seek.table", "[cylinders, ms]", Range::Number(0.0, 1_000_000.0), Some("[]"), DS,
        "Measured seek times by distance, interpolated linearly. Used up to the last distance, \
         and beyond if there are no pieces."),
    row("mechanics.seek.pieces.up_to", "cylinders", Range::Whole(1, 1_000_000), Some("all"), RW,
        "The longest distance for which the piece holds."),
    row("mechanics.seek.pieces.constant_ms", "ms", Range::Number(-1000.0, 1000.0), Some("0"), RW,
        "The constant part of a seek."),
    row("mechanics.seek.pieces.sqrt_ms", "ms", Range::Number(-100.0, 100.0), Some("0"), RW,
        "Times the square root of the distance."),
    row("mechanics.seek.pieces.linear_ms", "ms", Range::Number(-1.0, 10.0), Some("0"), RW,
        "Times the distance."),

    row("controller.read_miss_ms", "ms", MS, Some("0"), RW,
        "From a read's arrival until the arm moves, if its data are not in the buffer."),
    row("controller.read_miss_after_write_ms", "ms", MS, Some("read_miss_ms"), DS,
        "The same, if the previous access was a write."),
    row("controller.read_hit_ms", "ms", MS, Some("0"), RW,
        "From a read's arrival until its data can be transferred, if they are in the buffer."),
    row("controller.read_hit_after_write_ms", "ms", MS, Some("read_hit_ms"), DS,
        "The same, if the previous access was a write."),
    row("controller.write_ms", "ms", MS, Some("0"), RW,
        "From a write's arrival until the arm moves and its data begin to cross the bus."),
    row("controller.write_after_write_ms", "ms", MS, Some("write_ms"), DS,
        "The same, if the previous access was a write."),
    row("controller.write_data_delay_ms", "ms", MS, Some("0"), DS,
        "How much later than the arm's move a write's data begin to cross the bus."),
    row("controller.read_completion_ms", "ms", MS, Some("0"), DS,
        "From a read's last byte on the bus until it is complete."),
    row("controller.write_completion_ms", "ms", MS, Some("0"), DS,
        "From a write's last sector on the platter until it is complete."),
    row("controller.flush_ms", "ms", MS, Some("0"), WEFT,
        "Time of a flush. Writes complete only when they are on the platter, so a flush has nothing to write."),

    row("buffer.bytes", "bytes", Range::Whole(0, 1 << 40), Some("0"), RW,
        "The buffer for reads, which holds one run of sectors. 0: no buffer and no read-ahead."),
    row("buffer.read_ahead_bytes", "bytes", Range::Whole(0, 1 << 40), Some("0"), RW,
        "How far an idle disk reads ahead of the last read."),
    row("buffer.read_ahead_to", "", Range::Word(&["track", "cylinder", "disk"]), Some("disk"), DS,
        "Where read-ahead ends at the latest."),
    row("buffer.write_keeps_reads", "", Range::YesNo, Some("false"), DS,
        "Whether a write elsewhere preserves the buffer for reads, because writes have a separate segment."),

    row("fixed.capacity_bytes", "bytes", Range::Whole(512, EXABYTE), None, DN, "Its size."),
    row("fixed.sector_bytes", "bytes", Range::Whole(128, 65536), None, DN, "Bytes in a sector."),
    row("fixed.positioning_ms", "ms", MS, None, DN, "Time of each access before its transfer."),
    row("fixed.bytes_per_s", "bytes/s", Range::Whole(1, 1 << 50), None, DN, "Transfer rate."),
    row("fixed.flush_ms", "ms", MS, Some("0"), WEFT, "A flush."),

    row("flash.capacity_bytes", "bytes", Range::Whole(512, EXABYTE), None, MQ, "Its size."),
    row("flash.sector_bytes", "bytes", Range::Whole(128, 65536), None, MQ, "Bytes in a sector."),
    row("flash.channels", "channels", Range::Whole(1, 65536), None, MQ,
        "Channels that work in parallel, each on one unit."),
    row("flash.unit_bytes", "bytes", Range::Whole(128, 1 << 30), None, MQ,
        "Bytes that one channel reads or writes at a time; the next unit is on the next channel."),
    row("flash.read_latency.quantile", "", Range::Number(0.0, 1.0), None, WEFT,
        "The share of unit reads that take no longer than `ms`, interpolated linearly."),
    row("flash.read_latency.ms", "ms", Range::Number(0.0, 1e6), None, MQ, "See quantile."),
    row("flash.write_latency.quantile", "", Range::Number(0.0, 1.0), None, WEFT,
        "The share of unit writes that take no longer than `ms`."),
    row("flash.write_latency.ms", "ms", Range::Number(0.0, 1e6), None, MQ, "See quantile."),
    row("flash.flush_latency.quantile", "", Range::Number(0.0, 1.0), None, WEFT,
        "The share of flushes that take no longer than `ms`, once earlier writes are done."),
    row("flash.flush_latency.ms", "ms", Range::Number(0.0, 1e6), None, WEFT, "See quantile."),

    row("flash.collection.raw_bytes", "bytes", Range::Whole(512, EXABYTE), None, DY,
        "Bytes of flash memory. The excess over `flash.capacity_bytes` is over-provisioning."),
    row("flash.collection.page_bytes", "bytes", Range::Whole(128, 1 << 30), None, ME,
        "The unit of the mapping. A write of a part of a page counts as a page."),
    row("flash.collection.block_bytes", "bytes", Range::Whole(128, 1 << 40), None, MQ,
        "Bytes that one channel erases at a time. Blocks of all channels that are written \
         together are a superblock, the unit of garbage collection."),
    row("flash.collection.reserve_superblocks", "superblocks", Range::Whole(2, 1024), Some("2"), WEFT,
        "Garbage is collected while fewer superblocks are free."),
    row("flash.collection.erase_ms", "ms", MS, None, MQ, "How long a channel erases a block."),
    row("flash.collection.suspend_ms", "ms", MS, Some("to its end"), MQ,
        "The longest that a read waits for a program, copy or erase in progress on its channel: \
         after that time it is suspended, and continues after the read."),
    row("flash.collection.command_ms", "ms", MS, Some("0"), WEFT,
        "Time of a read, write or discard in the controller."),
    row("flash.collection.write_buffer_bytes", "bytes", Range::Whole(128, 1 << 40), None, ME,
        "The buffer for writes, which survives power loss. A write completes once it is in the \
         buffer; its space is freed once the unit has been programmed."),
    row("flash.collection.start", "", Range::Word(&["preconditioned", "fresh"]), Some("preconditioned"), WEFT,
        "Content when a run begins: all pages, after random overwrites to the steady state; or nothing."),

    row("bus.read_bytes_per_s", "bytes/s", Range::Whole(0, 1 << 50), Some("0"), TT,
        "The rate from device to host; 0: no time."),
    row("bus.write_bytes_per_s", "bytes/s", Range::Whole(0, 1 << 50), Some("0"), TT,
        "The rate from host to device; 0: no time."),
    row("bus.setup_ms", "ms", MS, Some("0"), TT,
        "Time of each piece on the bus before its bytes: arbitration and set-up."),
    row("bus.reselect_ms", "ms", MS, Some("0"), DS,
        "Time that a read needs once to take the bus after its mechanical part."),
    row("bus.piece_bytes", "bytes", Range::Whole(1, 1 << 30), Some("4096"), TT,
        "Bytes per transfer. A piece of a read can be transferred as soon as it is in the buffer, \
         while the disk reads the next."),
    row("bus.read_watermark", "", Range::Number(0.0, 1.0), Some("0"), DS,
        "The share of a read that must be in the buffer before its first piece is transferred."),
    row("bus.write_watermark", "", Range::Number(0.0, 1.0), Some("0"), WEFT,
        "The share of a write that must have arrived before its first sector is written. If 0, \
         that begins as early as it can without an underrun."),
];
