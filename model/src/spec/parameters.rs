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
    row("name", "", Range::Text, None, WEFT, "What the device is called."),
    row("about", "", Range::Text, Some(""), WEFT, "One line on what it is."),

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
        "Bad tracks that are passed over, counted from the zone's beginning."),

    row("mechanics.rpm", "revolutions/min", Range::Number(60.0, 1_000_000.0), None, RW,
        "Rotation speed."),
    row("mechanics.head_switch_ms", "ms", MS, None, RW,
        "From one track of a cylinder to another; also the least for a move of the arm."),
    row("mechanics.write_settle_ms", "ms", Range::Number(-10.0, 100.0), Some("0"), TT,
        "How much longer the arm takes to settle before a write than before a read. Negative where \
         it was extracted together with an overhead of writes that is too long by as much."),
    row("mechanics.seek.table", "[cylinders, ms]", Range::Number(0.0, 1_000_000.0), Some("[]"), DS,
        "Measured seek times by distance; straight lines in between. Used up to its last \
         distance, and beyond if there are no pieces."),
    row("mechanics.seek.pieces.up_to", "cylinders", Range::Whole(1, 1_000_000), Some("all"), RW,
        "The longest distance for which the piece holds."),
    row("mechanics.seek.pieces.constant_ms", "ms", Range::Number(-1000.0, 1000.0), Some("0"), RW,
        "The constant part of a seek."),
    row("mechanics.seek.pieces.sqrt_ms", "ms", Range::Number(-100.0, 100.0), Some("0"), RW,
        "Times the square root of the distance."),
    row("mechanics.seek.pieces.linear_ms", "ms", Range::Number(-1.0, 10.0), Some("0"), RW,
        "Times the distance."),

    row("controller.read_miss_ms", "ms", MS, Some("0"), RW,
        "From a read's arrival until the arm moves, if the buffer has not its data."),
    row("controller.read_miss_after_write_ms", "ms", MS, Some("read_miss_ms"), DS,
        "The same, if the access before was a write."),
    row("controller.read_hit_ms", "ms", MS, Some("0"), RW,
        "From a read's arrival until its data can cross the bus, if the buffer has them."),
    row("controller.read_hit_after_write_ms", "ms", MS, Some("read_hit_ms"), DS,
        "The same, if the access before was a write."),
    row("controller.write_ms", "ms", MS, Some("0"), RW,
        "From a write's arrival until the arm moves and its data begin to cross the bus."),
    row("controller.write_after_write_ms", "ms", MS, Some("write_ms"), DS,
        "The same, if the access before was a write."),
    row("controller.write_data_delay_ms", "ms", MS, Some("0"), DS,
        "How much later than the arm's move a write's data begin to cross the bus."),
    row("controller.read_completion_ms", "ms", MS, Some("0"), DS,
        "From a read's last byte on the bus until it is complete."),
    row("controller.write_completion_ms", "ms", MS, Some("0"), DS,
        "From a write's last sector on the platter until it is complete."),
    row("controller.flush_ms", "ms", MS, Some("0"), WEFT,
        "A flush. Writes complete only when on the platter, so there is nothing else to it."),

    row("buffer.bytes", "bytes", Range::Whole(0, 1 << 40), Some("0"), RW,
        "The buffer for reads: what it holds is one run of sectors. 0: nothing is kept, and \
         the disk does not read on."),
    row("buffer.read_ahead_bytes", "bytes", Range::Whole(0, 1 << 40), Some("0"), RW,
        "How far beyond the last read an idle disk reads on."),
    row("buffer.read_ahead_to", "", Range::Word(&["track", "cylinder", "disk"]), Some("disk"), DS,
        "The end of what it reads on to, if it gets so far."),
    row("buffer.write_keeps_reads", "", Range::YesNo, Some("false"), DS,
        "Whether a write elsewhere leaves the reads' buffer as it is, having a segment of its own."),

    row("fixed.capacity_bytes", "bytes", Range::Whole(512, EXABYTE), None, DN, "Its size."),
    row("fixed.sector_bytes", "bytes", Range::Whole(128, 65536), None, DN, "Bytes in a sector."),
    row("fixed.positioning_ms", "ms", MS, None, DN, "What each access takes before it transfers."),
    row("fixed.bytes_per_s", "bytes/s", Range::Whole(1, 1 << 50), None, DN, "Transfer rate."),
    row("fixed.flush_ms", "ms", MS, Some("0"), WEFT, "A flush."),

    row("flash.capacity_bytes", "bytes", Range::Whole(512, EXABYTE), None, MQ, "Its size."),
    row("flash.sector_bytes", "bytes", Range::Whole(128, 65536), None, MQ, "Bytes in a sector."),
    row("flash.channels", "channels", Range::Whole(1, 65536), None, MQ,
        "Parts that work at the same time, each on one unit."),
    row("flash.unit_bytes", "bytes", Range::Whole(128, 1 << 30), None, MQ,
        "What one channel reads or writes at a time; the next unit is on the next channel."),
    row("flash.read_latency.quantile", "", Range::Number(0.0, 1.0), None, WEFT,
        "The share of unit reads that take no longer than `ms`; straight lines in between."),
    row("flash.read_latency.ms", "ms", Range::Number(0.0, 1e6), None, MQ, "See quantile."),
    row("flash.write_latency.quantile", "", Range::Number(0.0, 1.0), None, WEFT,
        "The share of unit writes that take no longer than `ms`."),
    row("flash.write_latency.ms", "ms", Range::Number(0.0, 1e6), None, MQ, "See quantile."),
    row("flash.flush_latency.quantile", "", Range::Number(0.0, 1.0), None, WEFT,
        "The share of flushes that take no longer than `ms`, once earlier writes are done."),
    row("flash.flush_latency.ms", "ms", Range::Number(0.0, 1e6), None, WEFT, "See quantile."),

    row("flash.collection.raw_bytes", "bytes", Range::Whole(512, EXABYTE), None, DY,
        "Bytes of flash memory. What it has beyond `flash.capacity_bytes` is over-provisioning."),
    row("flash.collection.page_bytes", "bytes", Range::Whole(128, 1 << 30), None, ME,
        "The unit of the mapping. A write of a part of a page counts as a page."),
    row("flash.collection.block_bytes", "bytes", Range::Whole(128, 1 << 40), None, MQ,
        "What one channel erases at a time. The blocks of all channels that are written together \
         are a superblock, the unit of garbage collection."),
    row("flash.collection.reserve_superblocks", "superblocks", Range::Whole(2, 1024), Some("2"), WEFT,
        "Garbage is collected while fewer superblocks are free."),
    row("flash.collection.erase_ms", "ms", MS, None, MQ, "How long a channel erases a block."),
    row("flash.collection.suspend_ms", "ms", MS, Some("to its end"), MQ,
        "The longest that a read waits for a program, copy or erase in progress on its channel: \
         after that time it is suspended, and goes on after the read."),
    row("flash.collection.command_ms", "ms", MS, Some("0"), WEFT,
        "What a read, write or discard takes in the controller."),
    row("flash.collection.write_buffer_bytes", "bytes", Range::Whole(128, 1 << 40), None, ME,
        "The buffer for writes, which outlasts a loss of power. A write is complete when it is there; \
         its room is free again when the unit has been programmed."),
    row("flash.collection.start", "", Range::Word(&["preconditioned", "fresh"]), Some("preconditioned"), WEFT,
        "What it holds when a run begins: all pages, after random overwrites to the steady state; \
         or nothing."),

    row("bus.read_bytes_per_s", "bytes/s", Range::Whole(0, 1 << 50), Some("0"), TT,
        "The rate from device to host; 0: no time."),
    row("bus.write_bytes_per_s", "bytes/s", Range::Whole(0, 1 << 50), Some("0"), TT,
        "The rate from host to device; 0: no time."),
    row("bus.setup_ms", "ms", MS, Some("0"), TT,
        "What each piece costs on the bus before its bytes: arbitration and set-up."),
    row("bus.reselect_ms", "ms", MS, Some("0"), DS,
        "What a read costs once, when it takes the bus after the mechanism had its turn."),
    row("bus.piece_bytes", "bytes", Range::Whole(1, 1 << 30), Some("4096"), TT,
        "Bytes that cross in one go. A piece of a read can go as soon as it is in the buffer, \
         while the disk reads the next."),
    row("bus.read_watermark", "", Range::Number(0.0, 1.0), Some("0"), DS,
        "The share of a read that must be in the buffer before its first piece goes."),
    row("bus.write_watermark", "", Range::Number(0.0, 1.0), Some("0"), WEFT,
        "The share of a write that must have arrived before its first sector goes to the platter. \
         If 0, that begins as early as it can without running dry."),
];
