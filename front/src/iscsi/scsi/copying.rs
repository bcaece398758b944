//! EXTENDED COPY and RECEIVE COPY RESULTS (SPC-4, 6.3 and 6.24, with list identifiers of one byte): from a list of
//! segments to reads and writes, and the state of copies.

use bytes::Bytes;

use super::commands::Cdb;
use super::unit::{Designator, Unit};
use super::{MOST_PARAMETERS, Sense, Step, Stretch, Then, Work, long};
use crate::iscsi::Op;

/// Most descriptors of devices and of segments in a list.
const MOST_DEVICES: usize = 8;
const MOST_SEGMENTS: usize = 64;
/// Most bytes of them all.
const MOST_LIST: usize = MOST_DEVICES * DEVICE + MOST_SEGMENTS * LONGEST_SEGMENT;
/// Most bytes of a segment.
const MOST_SEGMENT: u64 = 32 << 20;
/// Bytes that are read, and then written, by one request each.
const AT_ONCE: u64 = 1 << 20;
/// Concurrent copies.
const MOST_COPIES: u8 = 64;

/// Bytes before the descriptors, and of a descriptor of a device.
const HEAD: usize = 16;
const DEVICE: usize = 32;
/// Bytes of a segment's descriptor that all have, and of the longest one.
const SEGMENT_HEAD: usize = 4;
const LONGEST_SEGMENT: usize = 32;

/// Kinds of descriptors: of a device by what identifies it, of blocks, and of bytes at an offset into blocks.
const IDENTIFIED: u8 = 0xe4;
const BLOCKS: u8 = 0x02;
const BYTES: u8 = 0x0a;

/// The state of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::iscsi) enum CopyState {
    InWork,
    Done { segments: u16 },
    Failed,
}

/// EXTENDED COPY.
pub(super) fn copy(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    const LENGTH: usize = 10;
    match cdb.number(LENGTH, 4) {
        0 => Ok(Work::Nothing),
        list if list <= MOST_PARAMETERS => Ok(Work::Copy { list }),
        _ => Err(Sense::field(LENGTH as u16, None)),
    }
}

/// RECEIVE COPY RESULTS, COPY STATUS.
pub(super) fn status(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    Ok(Work::CopyStatus { name: cdb.0[2], most: cdb.number(10, 4).min(MOST_PARAMETERS) as usize })
}

/// RECEIVE COPY RESULTS, OPERATING PARAMETERS.
pub(super) fn parameters(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    const KINDS: [u8; 3] = [BLOCKS, BYTES, IDENTIFIED];
    let mut data = vec![0; 44];
    let mut set = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
    set(0, &(40 + KINDS.len() as u32).to_be_bytes());
    // Lists without a name are taken.
    set(4, &[1]);
    set(8, &limits());
    set(16, &(MOST_SEGMENT as u32).to_be_bytes());
    set(34, &u16::from(MOST_COPIES).to_be_bytes());
    set(36, &[MOST_COPIES, unit.block.ilog2() as u8]);
    set(43, &[KINDS.len() as u8]);
    data.extend_from_slice(&KINDS);
    Ok(cdb.answered(data, 10, 4))
}

/// How many descriptors there may be of devices and of segments, and how many bytes they may have.
fn limits() -> [u8; 8] {
    let [devices, segments] = [MOST_DEVICES, MOST_SEGMENTS].map(|n| (n as u16).to_be_bytes());
    let list = (MOST_LIST as u32).to_be_bytes();
    [devices[0], devices[1], segments[0], segments[1], list[0], list[1], list[2], list[3]]
}

/// The page of vital product data about copies (SPC-4, 7.8.17).
pub(super) fn page(unit: &Unit) -> Vec<u8> {
    let commands = [0x83, 1, 0x00, 0x84, 2, 0x00, 0x03];
    let mut parameters = vec![0; 28];
    parameters[4..12].copy_from_slice(&limits());
    let mut general = vec![0; 32];
    general[..4].copy_from_slice(&u32::from(MOST_COPIES).to_be_bytes());
    general[4..8].copy_from_slice(&u32::from(MOST_COPIES).to_be_bytes());
    general[8..12].copy_from_slice(&(MOST_SEGMENT as u32).to_be_bytes());
    general[12] = unit.block.ilog2() as u8;
    let descriptors = [
        (0x0001_u16, [&[commands.len() as u8], &commands[..]].concat()),
        (0x0004, parameters),
        (0x0008, vec![3, BLOCKS, BYTES, IDENTIFIED]),
        (0x8001, general),
    ];
    let one = |(kind, body): (u16, Vec<u8>)| {
        [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), &body].concat()
    };
    descriptors.into_iter().flat_map(one).collect()
}

/// The data of COPY STATUS.
pub(in crate::iscsi) fn result(state: CopyState, most: usize) -> Vec<u8> {
    let (state, segments) = match state {
        CopyState::InWork => (0, 0),
        CopyState::Done { segments } => (1, segments),
        CopyState::Failed => (2, 0),
    };
    let segments = segments.to_be_bytes();
    let mut data = vec![0, 0, 0, 8, state, segments[0], segments[1], 0, 0, 0, 0, 0];
    data.truncate(most);
    data
}

/// The list identifier of a copy whose result is kept.
pub(in crate::iscsi) fn name(list: &[u8]) -> Option<u8> {
    const DISCARD: u8 = 3;
    let usage = list.get(1)? >> 3 & 0x03;
    (usage != DISCARD).then(|| list[0])
}

/// The descriptors of a list.
struct List<'a> {
    devices: Vec<&'a [u8]>,
    segments: Vec<&'a [u8]>,
}

impl List<'_> {
    fn of(list: &[u8]) -> Result<List<'_>, Sense> {
        if list.len() < HEAD {
            return Err(Sense::LIST_LENGTH);
        }
        let devices = long(&list[2..4]) as usize;
        let segments = long(&list[8..12]) as usize;
        if long(&list[12..16]) != 0 {
            return Err(Sense::INLINE_DATA);
        }
        let all = &list[HEAD..];
        let has_room =
            devices.checked_add(segments).is_some_and(|sum| sum <= all.len().min(MOST_LIST));
        if !has_room || !devices.is_multiple_of(DEVICE) {
            return Err(Sense::LIST_LENGTH);
        }
        let (devices, rest) = all.split_at(devices);
        let devices: Vec<&[u8]> = devices.chunks_exact(DEVICE).collect();
        if devices.len() > MOST_DEVICES {
            return Err(Sense::MANY_DEVICES);
        }
        let (mut rest, mut all) = (&rest[..segments], Vec::new());
        while !rest.is_empty() {
            let head = rest.first_chunk::<SEGMENT_HEAD>().ok_or(Sense::LIST_LENGTH)?;
            if !matches!(head[0], BLOCKS | BYTES) {
                return Err(Sense::SEGMENT_KIND);
            }
            let length = SEGMENT_HEAD + long(&head[2..]) as usize;
            if length != length_of(head[0]) {
                return Err(Sense::LIST_LENGTH);
            }
            let (one, others) = rest.split_at_checked(length).ok_or(Sense::LIST_LENGTH)?;
            all.push(one);
            rest = others;
        }
        if all.len() > MOST_SEGMENTS {
            return Err(Sense::MANY_SEGMENTS);
        }
        Ok(List { devices, segments: all })
    }
}

/// Bytes of a segment's descriptor.
fn length_of(kind: u8) -> usize {
    if kind == BYTES { LONGEST_SEGMENT } else { 28 }
}

/// The device of a descriptor.
fn device(descriptor: &[u8], at: usize, unit: &Unit) -> Result<Designator, Sense> {
    /// Where the length of a disk's blocks is. 0 stands for that of this unit.
    const LENGTH: usize = 29;
    if descriptor[0] != IDENTIFIED {
        return Err(Sense::DEVICE_KIND);
    }
    // Another kind of device than a disk. The other bits mean nothing since SPC-4.
    if descriptor[1] & 0x1f != 0 {
        return Err(Sense::UNREACHABLE);
    }
    let length = usize::from(descriptor[7]);
    let bytes = descriptor.get(8..8 + length).filter(|_| length <= 20);
    let bytes = bytes.ok_or(Sense::parameter(at + 7))?;
    // Not the association, which says that it is about the unit.
    let block = match long(&descriptor[LENGTH..DEVICE]) {
        0 => unit.block,
        block @ (512 | 4096) => block,
        _ => return Err(Sense::parameter(at + LENGTH)),
    };
    Ok(Designator { kind: descriptor[5] & 0x0f, bytes: bytes.to_vec(), block })
}

/// The devices of a segment: where it comes from, and where it goes.
fn ends(descriptor: &[u8]) -> [usize; 2] {
    [4, 6].map(|at| long(&descriptor[at..at + 2]) as usize)
}

/// Where a segment begins at both devices, and its length, by the length of their blocks.
fn segment(descriptor: &[u8], source: u64, destination: u64) -> Option<(u64, u64, u64)> {
    /// Blocks are counted in the destination's.
    const COUNTS_THERE: u8 = 0x02;
    let number = |at: usize, len: usize| long(&descriptor[at..at + len]);
    let (from, to) = (number(12, 8).checked_mul(source)?, number(20, 8).checked_mul(destination)?);
    let (from, to, length) = match descriptor[0] {
        BLOCKS => {
            let counted = if descriptor[1] & COUNTS_THERE == 0 { source } else { destination };
            let length = number(10, 2) * counted;
            // No block is written in part.
            let is_whole = length.is_multiple_of(source) && length.is_multiple_of(destination);
            (from, to, Some(length).filter(|_| is_whole)?)
        }
        _ => (from.checked_add(number(28, 2))?, to.checked_add(number(30, 2))?, number(8, 4)),
    };
    (from.checked_add(length).is_some() && to.checked_add(length).is_some())
        .then_some((from, to, length))
}

/// The steps of a copy: each reads a piece and writes it.
pub(super) fn steps(list: &Bytes, unit: &Unit) -> Result<Vec<Step>, Sense> {
    let list = List::of(list)?;
    let at = |n: usize| HEAD + n * DEVICE;
    let devices = list.devices.iter().enumerate().map(|(n, d)| device(d, at(n), unit));
    let devices = devices.collect::<Result<Vec<Designator>, Sense>>()?;
    let mut steps = Vec::new();
    for descriptor in list.segments {
        let device = |n: usize| devices.get(n).cloned().ok_or(Sense::UNREACHABLE);
        let [source, destination] = ends(descriptor);
        let (source, destination) = (device(source)?, device(destination)?);
        let (from, to, length) =
            segment(descriptor, source.block, destination.block).ok_or(Sense::COPY_ABORTED)?;
        if length > MOST_SEGMENT {
            return Err(Sense::SEGMENT_LENGTH);
        }
        let fits = |of: &Designator, end: u64| !unit.is(of) || end <= unit.blocks() * unit.block;
        if !fits(&source, from + length) || !fits(&destination, to + length) {
            return Err(Sense::COPY_ABORTED);
        }
        for done in (0..length).step_by(AT_ONCE as usize) {
            let length = (length - done).min(AT_ONCE);
            steps.push(Step {
                op: Op::Read,
                at: Stretch { offset: from + done, length },
                durable: false,
                then: Then::WriteTo(destination.clone(), to + done),
                unit: Some(source.clone()),
            });
        }
    }
    Ok(steps)
}

/// The number of segments of a list that has been copied.
pub(in crate::iscsi) fn segments(list: &[u8]) -> u16 {
    List::of(list).map_or(0, |list| list.segments.len() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::scsi::unit::{BLOCK, sample};

    /// The descriptor of a device by its number in NAA's form.
    fn device(naa: u64) -> Vec<u8> {
        let mut bytes = vec![0; DEVICE];
        (bytes[0], bytes[4], bytes[5], bytes[7]) = (IDENTIFIED, 1, 3, 8);
        bytes[8..16].copy_from_slice(&naa.to_be_bytes());
        bytes
    }

    fn blocks(devices: (u16, u16), count: u16, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![BLOCKS, 0, 0, 24];
        bytes.extend_from_slice(&devices.0.to_be_bytes());
        bytes.extend_from_slice(&devices.1.to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&count.to_be_bytes());
        bytes.extend_from_slice(&from.to_be_bytes());
        bytes.extend_from_slice(&to.to_be_bytes());
        bytes
    }

    fn list(devices: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
        let (devices, segments) = (devices.concat(), segments.concat());
        let mut bytes = vec![7, 0];
        bytes.extend_from_slice(&(devices.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(segments.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        [bytes, devices, segments].concat()
    }

    fn planned(list: Vec<u8>) -> Result<Vec<Step>, Sense> {
        steps(&Bytes::from(list), &sample())
    }

    #[test]
    fn segments_are_read_and_written_in_pieces() {
        let (ours, other) = (sample().naa(), 0x3000_0000_0000_0001);
        let devices = [device(ours), device(other)];
        // Of the other unit the size is not known here.
        let segments =
            [blocks((0, 1), 2000, 8, 5000), blocks((1, 1), 3000, 0, 9), blocks((1, 0), 9, 0, 2)];
        let steps = planned(list(&devices, &segments)).unwrap();
        let at = |step: &Step| (step.at.offset / BLOCK, step.at.length / BLOCK);
        let pieces = [(8, 2000), (0, 2048), (2048, 952), (0, 9)];
        assert_eq!(steps.iter().map(at).collect::<Vec<_>>(), pieces);
        let unit = sample();
        assert!(unit.is(steps[0].unit.as_ref().unwrap()));
        assert!(!unit.is(steps[1].unit.as_ref().unwrap()));
        let written = |n: usize| match &steps[n].then {
            Then::WriteTo(to, offset) => (unit.is(to), offset / BLOCK),
            _ => panic!("it is written"),
        };
        assert_eq!([written(0), written(2), written(3)], [(false, 5000), (false, 2057), (true, 2)]);
    }

    #[test]
    fn blocks_have_the_length_that_their_device_has() {
        let other = 0x3000_0000_0000_0001;
        let of = |naa, length: u16| {
            let mut device = device(naa);
            device[30..].copy_from_slice(&length.to_be_bytes());
            device
        };
        let devices = [of(sample().naa(), 512), of(other, 4096)];
        let mut counted_there = blocks((0, 1), 2, 8, 5);
        counted_there[1] = 0x02;
        let segments = [blocks((0, 1), 16, 8, 5), blocks((1, 0), 3, 2, 0), counted_there];
        let steps = planned(list(&devices, &segments)).unwrap();
        let at = |step: &Step| match &step.then {
            Then::WriteTo(to, offset) => (step.at.offset, *offset, step.at.length, to.block),
            _ => panic!("it is written"),
        };
        let expected = [
            (8 * 512, 5 * 4096, 16 * 512, 4096),
            (2 * 4096, 0, 3 * 4096, 512),
            (8 * 512, 5 * 4096, 2 * 4096, 4096),
        ];
        assert_eq!(steps.iter().map(at).collect::<Vec<_>>(), expected);
        let refused = |devices: &[Vec<u8>], segment| {
            planned(list(devices, &[segment])).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(&devices, blocks((0, 1), 7, 0, 0)), Sense::COPY_ABORTED, "in part");
        let odd = [of(sample().naa(), 520)];
        assert_eq!(refused(&odd, blocks((0, 0), 1, 0, 1)), Sense::parameter(HEAD + 29));
        // Who takes the unit for another is not told that it is this one.
        let wrong = planned(list(&[of(sample().naa(), 4096)], &[blocks((0, 0), 1, 0, 1)])).unwrap();
        assert!(!sample().is(wrong[0].unit.as_ref().unwrap()));
    }

    #[test]
    fn bytes_may_begin_within_blocks() {
        let mut segment = blocks((0, 0), 0, 2, 9);
        segment[0] = BYTES;
        segment[3] = 28;
        segment[8..12].copy_from_slice(&1000_u32.to_be_bytes());
        segment.extend_from_slice(&[0, 100, 1, 0]);
        let steps = planned(list(&[device(sample().naa())], &[segment])).unwrap();
        assert_eq!((steps[0].at.offset, steps[0].at.length), (2 * BLOCK + 100, 1000));
        assert!(matches!(steps[0].then, Then::WriteTo(_, offset) if offset == 9 * BLOCK + 256));
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        let ours = || device(sample().naa());
        let end = sample().blocks();
        let good = || blocks((0, 0), 1, 0, 1);
        let refused = |devices: &[Vec<u8>], segments: &[Vec<u8>]| {
            planned(list(devices, segments)).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(&vec![ours(); 9], &[good()]), Sense::MANY_DEVICES);
        assert_eq!(refused(&[ours()], &vec![good(); 65]), Sense::MANY_SEGMENTS);
        assert_eq!(refused(&vec![ours(); 9], &vec![good(); 80]), Sense::LIST_LENGTH);
        assert_eq!(refused(&[ours()], &[blocks((0, 1), 1, 0, 1)]), Sense::UNREACHABLE);
        assert_eq!(refused(&[ours()], &[blocks((0, 0), 2, 0, end - 1)]), Sense::COPY_ABORTED);
        assert_eq!(refused(&[ours()], &[blocks((0, 0), 1, u64::MAX / 2, 0)]), Sense::COPY_ABORTED);
        let with = |at: usize, byte: u8| {
            let mut device = ours();
            device[at] = byte;
            refused(&[device], &[good()])
        };
        assert_eq!(with(0, 0xe0), Sense::DEVICE_KIND);
        assert_eq!(with(1, 0x01), Sense::UNREACHABLE);
        assert_eq!(with(7, 21), Sense::parameter(23));
        let mut segment = good();
        segment[0] = 3;
        assert_eq!(refused(&[ours()], &[segment]), Sense::SEGMENT_KIND);
        let whole = list(&[ours()], &[good()]);
        for length in [1, 15, 16, 47, 48, 60, whole.len() - 1] {
            let result = planned(whole[..length].to_vec());
            assert_eq!(result.map(|_| ()), Err(Sense::LIST_LENGTH), "{length}");
        }
        assert_eq!(planned(whole).map(|steps| steps.len()), Ok(1));
    }

    #[test]
    fn only_copies_with_a_name_are_remembered() {
        assert_eq!([[7, 0x00], [7, 0x10], [0, 0x18]].map(|l| name(&l)), [Some(7), Some(7), None]);
        assert_eq!(name(&[7]), None);
        assert_eq!(result(CopyState::Done { segments: 3 }, 7), [0, 0, 0, 8, 1, 0, 3]);
    }
}
