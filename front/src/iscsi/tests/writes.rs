//! Data that commands bring along, and commands of several steps.

use proptest::prelude::*;

use super::*;
use crate::iscsi::pdu::{FINAL, Head, NO_TAG, at, opcode};
use crate::{Awaits, Service};

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn write_10(block: u16, count: u16) -> [u8; 9] {
    let ([b0, b1], [c0, c1]) = (block.to_be_bytes(), count.to_be_bytes());
    [0x2a, 0, 0, 0, b0, b1, 0, c0, c1]
}

#[test]
fn data_come_with_the_command_behind_it_and_as_asked_for() {
    let mut i = Initiator::logged_in("InitialR2T=No\0FirstBurstLength=2048\0MaxBurstLength=4096\0");
    let data = pattern(20 * 512, 1);
    let tag = i.command(0x20, &write_10(3, 20), 20 * 512, &data[..1024]);
    assert_eq!((i.take().len(), i.server.awaits()), (0, Awaits::Rest));
    i.data(tag, NO_TAG, (0, 1024), false, &data[1024..1536]);
    i.data(tag, NO_TAG, (1, 1536), true, &data[1536..2048]);
    let mut asked = Vec::new();
    loop {
        let unit = i.one();
        if unit.head.opcode() == opcode::RESPONSE {
            assert_eq!((unit.status(), unit.residual()), (0, (0, 0)));
            break;
        }
        let word = |at| unit.head.word(at);
        let (offset, length) = (word(at::OFFSET), word(at::LENGTH));
        asked.push((word(at::DATA_SN), offset, length));
        let (from, until) = (offset as usize, (offset + length) as usize);
        let middle = from + 700;
        i.data(tag, word(at::TRANSFER_TAG), (0, offset), false, &data[from..middle]);
        i.data(tag, word(at::TRANSFER_TAG), (1, middle as u32), true, &data[middle..until]);
    }
    assert_eq!(asked, [(0, 2048, 4096), (1, 6144, 4096)]);
    assert_eq!(i.disk[3 * 512..23 * 512], data);
    assert_eq!(i.server.awaits(), Awaits::Nothing);
}

#[test]
fn data_that_are_not_due_fail_the_command() {
    let begin = || {
        let mut i = Initiator::logged_in("");
        let tag = i.command(FINAL | 0x20, &write_10(0, 8), 4096, &[]);
        let unit = i.one();
        assert_eq!(unit.head.opcode(), opcode::R2T);
        (i, tag, unit.head.word(at::TRANSFER_TAG))
    };
    for (transfer, number, offset, len) in
        [(1, 0, 0, 4096), (0, 1, 0, 4096), (0, 0, 512, 3584), (0, 0, 0, 512), (0, 0, 0, 4100)]
    {
        let (mut i, tag, ours) = begin();
        i.data(tag, ours + transfer, (number, offset), true, &vec![1; len]);
        assert_eq!(i.one().sense(), (0x0b, 0x0c, 0x0d));
        i.data(tag, ours, (0, 0), true, &[1; 4096]);
        assert!(i.take().is_empty(), "it is over");
        assert!(i.disk.iter().all(|b| *b == 0) && i.server.incoming() == 0);
    }
    let (mut i, _, ours) = begin();
    i.data(4711, ours, (0, 0), true, &[0; 512]);
    assert!(i.take().is_empty(), "nobody knows of it");
}

/// One with a unit in which there is space for several of the longest writes.
fn roomy() -> Initiator {
    let mut i = Initiator::logged_in("");
    i.server.unit.as_mut().unwrap().size = 32 << 20;
    i.disk.resize(32 << 20, 0);
    i
}

/// Else pings would hold the memory of writes whose data never come.
#[test]
fn only_the_data_that_are_owed_longest_are_progress() {
    let mut i = roomy();
    assert_eq!(i.server.begun(), 0, "the login is one thing, however often it asks");
    let write = |i: &mut Initiator, count: u16, data: &[u8]| {
        let tag = i.command(FINAL | 0x20, &write_10(0, count), u32::from(count) * 512, data);
        (tag, i.one())
    };
    let (first, r2t) = write(&mut i, 8, &[]);
    let (begun, transfer) = (i.server.begun(), r2t.head.word(at::TRANSFER_TAG));
    let is_owed = |i: &Initiator| i.server.awaits() == Awaits::Rest && i.server.begun() == begun;
    i.send(Head::new(opcode::NOP_OUT | 0x40).answering(3), &[0; 16]);
    assert_eq!(i.one().head.opcode(), opcode::NOP_IN);
    write(&mut i, 1, &[1; 512]);
    assert!(is_owed(&i), "neither a ping nor a write whose data came with it");
    let (later, r2t) = write(&mut i, 2, &[]);
    i.data(later, r2t.head.word(at::TRANSFER_TAG), (0, 0), true, &[2; 1024]);
    assert_eq!(i.one().status(), 0);
    i.data(first, transfer, (0, 0), false, &[3; 2048]);
    assert!(is_owed(&i), "nor a later one, nor a part");
    let (later, r2t) = write(&mut i, 2, &[]);
    i.data(first, transfer, (1, 2048), true, &[3; 2048]);
    assert_eq!(i.one().status(), 0);
    assert!(i.server.awaits() == Awaits::Rest && i.server.begun() != begun);
    i.data(later, r2t.head.word(at::TRANSFER_TAG), (0, 0), true, &[2; 1024]);
    assert_eq!(i.one().status(), 0);
    let begun = i.server.begun();
    write(&mut i, 1, &[1; 512]);
    assert_ne!(i.server.begun(), begun, "nothing is owed");
}

/// Data that come before they are requested are kept as they are; memory for all is there for few commands.
#[test]
fn a_write_gets_its_memory_when_its_data_are_requested() {
    const LONG: usize = 4 << 20;
    const EARLY: usize = 8192;
    let mut i = roomy();
    let data = pattern(LONG, 5);
    let write = |i: &mut Initiator, n: u16| {
        let cdb = write_10(n * 8192, 8192);
        i.command(FINAL | 0x20, &cdb, LONG as u32, &data[..EARLY])
    };
    let tags: Vec<u32> = (0..4).map(|n| write(&mut i, n)).collect();
    assert_eq!(i.server.incoming(), 2 * LONG + 2 * EARLY);
    let mut asked = Vec::new();
    let mut answers = 0;
    while answers < 4 {
        for unit in i.take() {
            if unit.head.opcode() == opcode::RESPONSE {
                assert_eq!(unit.status(), 0);
                answers += 1;
                continue;
            }
            let word = |at| unit.head.word(at);
            let (from, until) = (word(at::OFFSET), word(at::OFFSET) + word(at::LENGTH));
            asked.push((unit.head.tag(), from));
            for (n, at) in (from..until).step_by(256 << 10).enumerate() {
                let end = until.min(at + (256 << 10));
                let part = &data[at as usize..end as usize];
                i.data(unit.head.tag(), word(at::TRANSFER_TAG), (n as u32, at), end == until, part);
            }
            assert!(i.server.incoming() <= 2 * LONG + 2 * EARLY);
        }
    }
    assert!(i.disk.chunks(LONG).take(4).all(|written| written == data));
    let begun = |tag| asked.iter().position(|(of, _)| *of == tag).unwrap();
    let ended = |tag| asked.iter().rposition(|(of, _)| *of == tag).unwrap();
    let first = ended(tags[0]).min(ended(tags[1]));
    assert!(begun(tags[2]) > first, "the third is asked for when one of two is whole");
    assert_eq!(i.server.incoming(), 0);
}

#[test]
fn what_was_not_agreed_on_is_rejected() {
    let mut i = Initiator::logged_in("ImmediateData=No\0");
    i.command(FINAL | 0x20, &write_10(0, 1), 512, &[1; 512]);
    assert_eq!(i.one().head.0[2], 4, "no data come with commands");
    i.command(0x20, &write_10(0, 1), 512, &[]);
    assert_eq!(i.one().head.0[2], 4, "nor unasked for");
    let mut i = Initiator::logged_in("FirstBurstLength=512\0");
    i.command(FINAL | 0x20, &write_10(0, 4), 2048, &[1; 1024]);
    assert_eq!(i.one().head.0[2], 9);
    assert!(i.disk.iter().all(|b| *b == 0));
}

/// As libiscsi's suite has it: what fits is written, in whole blocks.
#[test]
fn lengths_that_differ_are_told_and_whole_blocks_written() {
    let mut i = Initiator::logged_in("");
    let mut write = |blocks, expected: u32| {
        i.disk[..1024].fill(b'a');
        i.command(FINAL | 0x20, &write_10(0, blocks), expected, &vec![b'b'; expected as usize]);
        let unit = i.one();
        (unit.status(), unit.residual(), i.disk[511], i.disk[512])
    };
    assert_eq!(write(1, 0), (0, (4, 512), b'a', b'a'));
    assert_eq!(write(1, 10_000), (0, (2, 9488), b'b', b'a'));
    assert_eq!(write(1, 200), (2, (4, 312), b'a', b'a'));
    assert_eq!(write(2, 512), (0, (4, 512), b'b', b'a'));
}

#[test]
fn commands_of_several_steps_go_through_them() {
    let mut i = Initiator::logged_in("");
    let mut with = |cdb: &[u8], data: &[u8]| {
        i.command(FINAL | 0x20, cdb, data.len() as u32, data);
        let unit = i.one();
        let sense = if unit.status() == 2 { unit.sense() } else { (0, 0, 0) };
        (sense, i.disk.clone())
    };
    // WRITE AND VERIFY, and VERIFY of what was written and of something else.
    let block = pattern(512, 9);
    let (sense, disk) = with(&[0x2e, 2, 0, 0, 0, 5, 0, 0, 1], &block);
    assert_eq!((sense, &disk[5 * 512..6 * 512]), ((0, 0, 0), &block[..]));
    assert_eq!(with(&[0x2f, 2, 0, 0, 0, 5, 0, 0, 1], &block).0, (0, 0, 0));
    let mut other = block.clone();
    other[17] ^= 1;
    assert_eq!(with(&[0x2f, 2, 0, 0, 0, 5, 0, 0, 1], &other).0, (0x0e, 0x1d, 0));
    assert_eq!(with(&[0x2f, 2, 0, 0, 0, 9, 0, 0, 1], &block).0, (0x0e, 0x1d, 0), "zeros");
    // WRITE SAME of more than one piece.
    let (sense, disk) = with(&[0x41, 0, 0, 0, 0, 0, 0, 8, 0], &block);
    assert_eq!(sense, (0, 0, 0));
    assert!(disk.chunks(512).all(|b| b == block));
    // UNMAP of two stretches, and WRITE SAME that unmaps one more.
    assert_eq!(with(&[0x41, 0, 0, 0, 0, 0, 0, 8, 0], &[1; 1024]).0, (5, 0x0e, 3));
    let list = |first: u8| [&[0; 7][..], &[first, 0, 0, 0, 2], &[0; 4]].concat();
    let unmap = [&[0, 38, 0, 32, 0, 0, 0, 0], &list(1)[..], &list(7)].concat();
    let (sense, disk) = with(&[0x42, 0, 0, 0, 0, 0, 0, 0, 40], &unmap);
    assert_eq!(sense, (0, 0, 0));
    let is_zero = |disk: &[u8], n: usize| disk[n * 512..(n + 1) * 512].iter().all(|b| *b == 0);
    let zeros: Vec<usize> = (0..2048).filter(|n| is_zero(&disk, *n)).collect();
    assert_eq!(zeros, [1, 2, 7, 8]);
    let (_, disk) = with(&[0x41, 8, 0, 0, 0, 11, 0, 0, 2], &[0; 512]);
    assert!(is_zero(&disk, 11) && is_zero(&disk, 12) && !is_zero(&disk, 13));
    // A stretch past the end: nothing is done of the others.
    let past = [
        &[0, 38, 0, 32, 0, 0, 0, 0],
        &list(20)[..],
        &[0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    ]
    .concat();
    let (sense, disk) = with(&[0x42, 0, 0, 0, 0, 0, 0, 0, 40], &past);
    assert!(sense == (5, 0x21, 0) && !is_zero(&disk, 20));
}

#[test]
fn holes_are_looked_for_further_on() {
    let mut i = Initiator::logged_in("");
    i.server.unit.as_mut().unwrap().size = 100 << 30;
    i.holds = true;
    let status = [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24];
    let mut looks = |found: &[(u64, bool)]| {
        i.command(FINAL | 0x40, &status, 24, &[]);
        i.server.poll().unwrap();
        let mut lengths = Vec::new();
        while let Some(request) = i.held.pop() {
            lengths.push(request.length >> 10);
            i.server.reply(request.number, Ok(crate::iscsi::Reply::Extents(found.to_vec())));
            i.send_bytes(&[]).unwrap();
            i.work().unwrap();
        }
        (lengths, u32::from_be_bytes(i.one().data[16..20].try_into().unwrap()))
    };
    assert_eq!(looks(&[(1 << 20, false), (100 << 30, true)]), (vec![256], 512));
    assert_eq!(looks(&[(1 << 17, true), (100 << 30, false)]), (vec![256], 256));
    assert_eq!(looks(&[(100 << 30, true)]), (vec![256, 4096, 65_536, 1 << 20], 2 << 20));
}

/// An initiator with several reads in progress asks before each.
#[test]
fn among_many_commands_less_is_looked_at() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    let status = [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24];
    for _ in 0..6 {
        i.command(FINAL | 0x40, &status, 24, &[]);
    }
    i.work().unwrap();
    let lengths: Vec<u64> = i.held.iter().map(|request| request.length >> 10).collect();
    assert_eq!(lengths, [256, 256, 256, 256, 64, 64]);
}

#[test]
fn aborted_steps_are_not_gone_on_with() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    let tag = i.command(FINAL | 0x20, &[0x2e, 2, 0, 0, 0, 5, 0, 0, 1], 512, &[3; 512]);
    i.manage(1, tag);
    let write = i.held.pop().unwrap();
    i.server.reply(write.number, Ok(crate::iscsi::Reply::Done));
    assert_eq!(i.one().head.opcode(), opcode::TASK_MANAGEMENT_RESPONSE);
    assert!(!i.server.has_more(), "it is not verified");
}

/// Memory for data that are asked for is bounded; what is aborted gives others their turn.
#[test]
fn not_all_are_asked_for_data_at_once() {
    let mut i = Initiator::logged_in("");
    i.server.unit.as_mut().unwrap().size = 1 << 40;
    let write = [0x2a, 0, 0, 0, 0, 0, 0, 0x20, 0];
    let tags: Vec<u32> = (0..4).map(|_| i.command(FINAL | 0x20, &write, 4 << 20, &[])).collect();
    let asked: Vec<u32> = i.take().iter().map(|u| u.head.tag()).collect();
    assert_eq!(asked, tags[..2], "8 MiB at a time");
    assert_eq!(i.server.incoming(), 8 << 20);
    i.manage(1, tags[0]);
    let kinds: Vec<(u8, u32)> = i.take().iter().map(|u| (u.head.opcode(), u.head.tag())).collect();
    assert_eq!(kinds[1], (opcode::R2T, tags[2]));
    i.manage(5, 0);
    assert_eq!((i.take().len(), i.server.incoming()), (1, 0));
    assert_eq!(i.server.awaits(), Awaits::Nothing);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Random reads and writes of random lengths, with the data on random ways, against a model.
    #[test]
    fn what_is_read_is_what_was_written(
        steps in proptest::collection::vec((any::<bool>(), 0_u16..2000, 1_u16..48, any::<u8>(), 0_usize..70_000), 1..40),
        segment in 512_u32..20_000,
        burst in 512_u32..40_000,
        first in 512_u32..40_000,
        digests: bool,
    ) {
        let digests = if digests { "HeaderDigest=CRC32C\0DataDigest=CRC32C\0" } else { "" };
        let keys = format!("MaxRecvDataSegmentLength={segment}\0MaxBurstLength={burst}\0FirstBurstLength={first}\0InitialR2T=No\0{digests}");
        let mut i = Initiator::logged_in(&keys);
        let mut model = i.disk.clone();
        for (writes, block, count, seed, cut) in steps {
            let (offset, len) = (usize::from(block) * 512, usize::from(count) * 512);
            if !writes {
                let [b0, b1] = block.to_be_bytes();
                let (data, last) = i.read(&[0x28, 0, 0, 0, b0, b1, 0, 0, count as u8], len as u32);
                prop_assert_eq!(last.status(), 0);
                prop_assert!(data == model[offset..offset + len]);
                continue;
            }
            let data = pattern(len, seed);
            model[offset..offset + len].copy_from_slice(&data);
            let unsolicited = (first.min(burst) as usize).min(len);
            let cut = cut % (unsolicited + 1);
            let tag = i.command(if cut < unsolicited { 0x20 } else { 0xa0 }, &write_10(block, count), len as u32, &data[..cut]);
            if cut < unsolicited {
                i.data(tag, NO_TAG, (0, cut as u32), true, &data[cut..unsolicited]);
            }
            loop {
                let unit = i.one();
                if unit.head.opcode() == opcode::RESPONSE {
                    prop_assert_eq!((unit.status(), unit.residual()), (0, (0, 0)));
                    break;
                }
                let (from, n) = (unit.head.word(at::OFFSET), unit.head.word(at::LENGTH));
                let part = &data[from as usize..(from + n) as usize];
                i.data(tag, unit.head.word(at::TRANSFER_TAG), (0, from), true, part);
            }
        }
        prop_assert!(i.disk == model);
    }

    /// Whatever comes, in whatever pieces, the machine says something or ends the connection.
    #[test]
    fn no_bytes_upset_it(
        units in proptest::collection::vec((0_u8..0x40, any::<[u8; 48]>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..30),
        in_turn: bool,
        logged_in: bool,
    ) {
        let mut i = if logged_in { Initiator::logged_in("InitialR2T=No\0") } else { Initiator::new() };
        for (kind, bytes, data) in units {
            let mut head = Head(bytes).with_byte(4, 0).with_byte(0, kind);
            if in_turn {
                head = head.with_word(at::CMD_SN, i.server.exp_cmd_sn).with_byte(9, 0);
                head.0[10..16].fill(0);
            }
            if i.try_send(head, &data).is_err() {
                break;
            }
        }
        i.take();
    }
}

#[test]
fn a_block_is_written_if_it_is_as_expected_and_bits_are_added() {
    let mut i = Initiator::logged_in("");
    let block = |byte: u8| vec![byte; 512];
    let compare = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0];
    i.command(FINAL | 0x20, &compare, 1024, &[block(0), block(7)].concat());
    assert_eq!((i.one().status(), &i.disk[1024..1536]), (0, &block(7)[..]));
    let mut wrong = block(7);
    wrong[300] = 8;
    i.command(FINAL | 0x20, &compare, 1024, &[wrong, block(9)].concat());
    let answer = i.one();
    assert_eq!(answer.sense(), (0x0e, 0x1d, 0));
    assert_eq!(answer.data[5..9], [0, 0, 1, 44], "where they differ");
    assert_eq!(i.disk[1024..1536], block(7));
    i.command(FINAL | 0x20, &compare, 512, &block(7));
    assert_eq!(i.one().sense().0, 5, "half of it is missing");
    let or = [0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0];
    i.command(FINAL | 0x20, &or, 512, &block(0x18));
    assert_eq!((i.one().status(), &i.disk[1024..1536]), (0, &block(0x1f)[..]));
}

/// EXTENDED COPY of some blocks, with this list identifier.
fn copy(i: &mut Initiator, name: u8, naa: u64, blocks: (u16, u64, u64)) -> Unit {
    start_copy(i, name, naa, blocks);
    i.one()
}

/// The same, without waiting for it.
fn start_copy(i: &mut Initiator, name: u8, naa: u64, (count, from, to): (u16, u64, u64)) {
    let mut list = vec![name, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    let mut device = [0; 32];
    (device[0], device[4], device[5], device[7]) = (0xe4, 1, 3, 8);
    device[8..16].copy_from_slice(&naa.to_be_bytes());
    list.extend_from_slice(&device);
    list.extend_from_slice(&[0x02, 0, 0, 24, 0, 0, 0, 0, 0, 0]);
    list.extend_from_slice(&count.to_be_bytes());
    list.extend_from_slice(&from.to_be_bytes());
    list.extend_from_slice(&to.to_be_bytes());
    let length = list.len() as u8;
    let cdb = [0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, length, 0, 0];
    i.command(FINAL | 0x20, &cdb, length.into(), &list);
}

#[test]
fn copies_are_made_without_the_initiator() {
    let mut i = Initiator::logged_in("");
    let ours = sample_naa();
    let data = pattern(100 * 512, 9);
    i.disk[..data.len()].copy_from_slice(&data);
    assert_eq!(copy(&mut i, 7, ours, (100, 0, 500)).status(), 0);
    assert_eq!(i.disk[500 * 512..600 * 512], data);
    let status = |i: &mut Initiator, name: u8| {
        i.read(&[0x84, 0, name, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0], 12)
    };
    assert_eq!(status(&mut i, 7).0, [0, 0, 0, 8, 1, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(status(&mut i, 8).1.sense(), (5, 0x24, 0));
    // A hole, which no write may fill with zeros.
    i.disk[700 * 512] = 7;
    assert_eq!(copy(&mut i, 10, ours, (8, 1000, 700)).status(), 0);
    assert_eq!(i.disk[700 * 512], 0);
    // An aborted copy has failed.
    i.holds = true;
    start_copy(&mut i, 10, ours, (8, 0, 700));
    assert_eq!(status(&mut i, 10).0[4], 0);
    i.manage(2, NO_TAG);
    i.release();
    i.one();
    assert_eq!(status(&mut i, 10).0[4], 2);
    // A unit that is not there.
    assert_eq!(copy(&mut i, 9, ours ^ 1, (1, 0, 500)).sense(), (0x0a, 0x0d, 0x02));
    assert_eq!(status(&mut i, 9).0[4], 2);
    // One that ends before the copy does.
    assert_eq!(copy(&mut i, 9, ours, (2, 0, (1 << 11) - 1)).sense(), (0x0a, 0, 0));
}

/// The last read of a copy is at a node when another session resets the unit: what it has read is not written.
#[test]
fn a_copy_whose_unit_is_reset_writes_no_more() {
    let mut i = Initiator::logged_in("");
    let ours = sample_naa();
    let data = pattern(8 * 512, 9);
    i.disk[..data.len()].copy_from_slice(&data);
    i.holds = true;
    start_copy(&mut i, 10, ours, (8, 0, 700));
    i.server.is_reset(false);
    i.release();
    assert_eq!(i.one().sense(), (0x0b, 0, 0), "it is cut off");
    assert!(i.disk[700 * 512..708 * 512].iter().all(|byte| *byte == 0));
}

/// WRITE SAME goes on where the write before it ended, unless it is aborted or the unit is reset.
#[test]
fn the_same_block_is_written_further_until_a_reset() {
    let begin = || {
        let mut i = Initiator::logged_in("");
        i.server.unit.as_mut().unwrap().size = 3 << 20;
        i.disk.resize(3 << 20, 0);
        i.holds = true;
        let tag = i.command(FINAL | 0x20, &[0x41], 512, &[3; 512]);
        (i, tag)
    };
    let (mut i, _) = begin();
    assert_eq!(i.held.len(), 1, "one write at a time");
    i.release();
    assert_eq!(i.one().status(), 0);
    assert!(i.disk.iter().all(|byte| *byte == 3));
    let written = |i: &Initiator| i.disk.iter().filter(|byte| **byte == 3).count();
    let (mut i, _) = begin();
    i.server.is_reset(false);
    i.release();
    assert_eq!((i.one().sense(), written(&i)), ((0x0b, 0, 0), 1 << 20), "it is cut off");
    let (mut i, tag) = begin();
    i.manage(1, tag);
    i.release();
    assert_eq!((i.take().len(), written(&i)), (1, 1 << 20));
}

/// Write protection is told before faults of the data, and no data are asked for.
#[test]
fn nothing_writes_to_a_unit_that_is_only_read() {
    let mut i = Initiator::logged_in("");
    i.server.unit.as_mut().unwrap().read_only = true;
    let unmaps = [0x93, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let compares = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let ors = [0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let atomic = [0x9c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    let unmap = [0x42, 0, 0, 0, 0, 0, 0, 0, 24];
    let writes: [&[u8]; 8] = [
        &write_10(0, 1),
        &[0x2e, 2, 0, 0, 0, 0, 0, 0, 1],
        &[0x41, 8, 0, 0, 0, 0, 0, 0, 1],
        &unmaps,
        &compares,
        &ors,
        &atomic,
        &unmap,
    ];
    for cdb in writes {
        for expected in [0, 512, 1024] {
            i.command(FINAL | 0x20, cdb, expected, &[]);
            assert_eq!(i.one().sense(), (7, 0x27, 0), "{cdb:02x?} {expected}");
        }
    }
    assert_eq!(i.read(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512).1.status(), 0);
    i.command(FINAL | 0x20, &[0x2f, 2, 0, 0, 0, 0, 0, 0, 1], 512, &[0; 512]);
    assert_eq!(i.one().status(), 0, "it only compares");
}

/// However late a request is handed out, it has the count that the driver had when its command came.
#[test]
fn requests_say_when_their_command_came() {
    let mut i = Initiator::logged_in("");
    i.holds = true;
    i.server.count(3);
    let came = |i: &mut Initiator| {
        let held = std::mem::take(&mut i.held);
        held.iter().map(|request| (request.number, request.came)).collect::<Vec<_>>()
    };
    // UNMAP of two ranges, and a write whose data come later.
    let mut list = [&[0, 38, 0, 32, 0, 0, 0, 0][..], &[0; 32]].concat();
    (list[19], list[31], list[35]) = (8, 64, 8);
    i.command(FINAL | 0x20, &[0x42, 0, 0, 0, 0, 0, 0, 0, 40], 40, &list);
    let tag = i.command(FINAL | 0x20, &write_10(4, 2), 1024, &[7; 512]);
    let all = came(&mut i);
    let [(first, 3)] = all[..] else { panic!("one request of then: {all:?}") };
    i.server.count(4);
    i.server.reply(first, Ok(crate::iscsi::Reply::Done));
    i.work().expect("nothing is wrong");
    assert_eq!(came(&mut i), [(first, 3)], "the second range");
    let transfer = i.one().head.word(at::TRANSFER_TAG);
    i.data(tag, transfer, (0, 512), true, &[7; 512]);
    assert!(matches!(came(&mut i)[..], [(_, 3)]), "its command came before");
    i.command(FINAL | 0x20, &write_10(0, 1), 512, &[7; 512]);
    assert!(matches!(came(&mut i)[..], [(_, 4)]));
}

fn sample_naa() -> u64 {
    let mut i = Initiator::logged_in("");
    let (page, _) = i.read(&[0x12, 1, 0x83, 0, 255, 0], 255);
    u64::from_be_bytes(page[8..16].try_into().expect("eight bytes"))
}
