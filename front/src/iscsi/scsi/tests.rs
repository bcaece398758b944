use bytes::Bytes;
use proptest::prelude::*;

use super::unit::sample;
use super::*;

fn cdb(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|n| bytes.get(n).copied().unwrap_or(0))
}

fn planned(bytes: &[u8]) -> Result<Work, Sense> {
    plan(&cdb(bytes), &sample())
}

fn data(bytes: &[u8]) -> Vec<u8> {
    match planned(bytes) {
        Ok(Work::Data(data)) => data,
        other => panic!("{other:?}"),
    }
}

/// Of a volume of 2048 blocks.
#[test]
fn reads_and_writes_of_all_lengths_say_the_same() {
    let at = Stretch { offset: 3 * 512, length: 2 * 512 };
    for read in [
        &[0x08, 0, 0, 3, 2][..],
        &[0x28, 0x10, 0, 0, 0, 3, 7, 0, 2],
        &[0xa8, 0x18, 0, 0, 0, 3, 0, 0, 0, 2],
        &[0x88, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2],
    ] {
        assert_eq!(planned(read), Ok(Work::Read(at)), "{read:?}");
    }
    for (write, durable) in [
        (&[0x0a, 0, 0, 3, 2][..], false),
        (&[0x2a, 0x08, 0, 0, 0, 3, 0, 0, 2], true),
        (&[0xaa, 0, 0, 0, 0, 3, 0, 0, 0, 2], false),
        (&[0x8a, 0x08, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2], true),
    ] {
        let work = Work::Write { at, durable, then: Check::Nothing };
        assert_eq!(planned(write), Ok(work), "{write:?}");
    }
    let most = Stretch { offset: 0, length: 256 * 512 };
    assert_eq!(planned(&[0x08, 0, 0, 0, 0]), Ok(Work::Read(most)), "no number means 256");
    assert_eq!(planned(&[0x28, 0, 0, 0, 8, 0, 0, 0, 0]), Ok(Work::Nothing), "up to the end");
}

#[test]
fn what_cannot_be_is_refused_and_pointed_at() {
    for (bytes, wrong) in [
        (&[0x28, 0, 0, 0, 7, 0xff, 0, 0, 2][..], Sense::OUT_OF_RANGE),
        (&[0x28, 0, 0, 0, 8, 1, 0, 0, 0], Sense::OUT_OF_RANGE),
        (&[0x88, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 1], Sense::OUT_OF_RANGE),
        // Protection is not offered.
        (&[0x28, 0x20, 0, 0, 0, 0, 0, 0, 1], Sense::field(1, Some(5))),
        (&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 4], Sense::field(9, Some(2))),
        (&[0x12, 0, 0x80, 0, 255], Sense::field(2, None)),
        (&[0x12, 1, 0x86, 0, 255], Sense::field(2, None)),
        (&[0x2f, 0x06, 0, 0, 0, 0, 0, 0, 1], Sense::field(1, Some(2))),
        (&[0x9e, 0x11], Sense::field(1, Some(4))),
        (&[0x1a, 0, 0xc8, 0, 255], Sense::NOT_SAVED),
        (&[0x1a, 0, 0x05, 0, 255], Sense::field(2, Some(5))),
        (&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], Sense::field(13, None)),
        (&[0x89, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1], Sense::OUT_OF_RANGE),
        (&[0x83, 1], Sense::field(1, Some(4))),
        (&[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1], Sense::field(10, None)),
        // Reservations of before: of ten bytes, for a third party, of an extent.
        (&[0x56], Sense::OPCODE),
        (&[0x57], Sense::OPCODE),
        (&[0x16, 0x10], Sense::field(1, Some(4))),
        (&[0x17, 0x01], Sense::field(1, Some(0))),
    ] {
        assert_eq!(planned(bytes), Err(wrong), "{bytes:02x?}");
    }
}

#[test]
fn limits_that_are_announced_are_kept() {
    let large = Unit { size: 1 << 40, ..sample() };
    let count = |opcode, flags, n: u64| {
        let mut bytes = [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[10..14].copy_from_slice(&(n as u32).to_be_bytes());
        plan(&bytes, &large)
    };
    for (opcode, most) in [(0x88, MOST_BYTES), (0x8a, MOST_BYTES), (0x93, MOST_SAME * BLOCK)] {
        let most = most / BLOCK;
        assert!(count(opcode, 0, most).is_ok());
        assert_eq!(count(opcode, 0, most + 1), Err(Sense::field(10, None)));
    }
    let mut list = vec![0, 0, 0, 16, 0, 0, 0, 0];
    list.extend(
        [0; 8].iter().chain(&((MOST_UNMAPPED / BLOCK) as u32).to_be_bytes()).chain(&[0; 4]),
    );
    let unmap = |list: &[u8]| {
        let work = Work::Unmap { list: list.len() as u64 };
        steps(&work, Bytes::copy_from_slice(list), &large)
    };
    assert_eq!(unmap(&list).unwrap()[0].at.length, MOST_UNMAPPED);
    let more = [&[0, 0, 0, 32], &list[4..], &[0; 11], &[1, 0, 0, 0, 0]].concat();
    assert_eq!(unmap(&more), Err(Sense::parameter(8 + 16 + 8)));
    let many = [&[0, 0, 4, 16, 0, 0, 0, 0][..], &[0; 65 * 16]].concat();
    assert_eq!(unmap(&many), Err(Sense::parameter(2)));
}

type Unit = unit::Unit;

#[test]
fn a_unit_says_who_it_is() {
    let standard = data(&[0x12, 0, 0, 0, 255]);
    assert_eq!((standard.len(), standard[0], &standard[8..13]), (96, 0, &b"WEFT "[..]));
    assert_eq!(data(&[0x12, 0, 0, 0, 5]).len(), 5);
    let listed = data(&[0x12, 1, 0, 0, 255]);
    for page in &listed[4..] {
        let bytes = data(&[0x12, 1, *page, 4, 0]);
        assert_eq!(bytes[1], *page);
        assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len() - 4);
    }
    let mut designators = &data(&[0x12, 1, 0x83, 4, 0])[4..];
    let mut kinds = Vec::new();
    while let [_, kind, _, length, rest @ ..] = designators {
        let (body, rest) = rest.split_at(usize::from(*length));
        kinds.push((kind & 0x3f, body.to_vec()));
        designators = rest;
    }
    assert_eq!(kinds[0], (0x03, 0x3fff_ffff_ffff_fff7_u64.to_be_bytes().to_vec()));
    assert_eq!((kinds[1].0, kinds[1].1.len()), (0x0a, 18));
    assert_eq!(kinds[4], (0x15, vec![0, 0, 0, 1]), "the port group");
    assert!(kinds[5].1.starts_with(b"iqn.2026-11.weft.example:vol0,t,0x0001\0"));
    assert_eq!(data(&[0x25]), [0, 0, 7, 0xff, 0, 0, 2, 0]);
    let capacity = data(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32]);
    assert_eq!(
        (&capacity[..8], capacity[13], capacity[14]),
        (&[0, 0, 0, 0, 0, 0, 7, 0xff][..], 3, 0xc0)
    );
}

#[test]
fn modes_are_told_and_none_is_changed() {
    let all = data(&[0x1a, 0, 0x3f, 0, 255]);
    assert_eq!((usize::from(all[0]), all[2], all[3]), (all.len() - 1, 0x10, 8));
    assert_eq!(all[12 + 2], 0x04, "there is a write cache");
    let changeable = data(&[0x1a, 8, 0x48, 0, 255]);
    assert!(changeable[6..].iter().all(|b| *b == 0) && changeable.len() == 24);
    let long = data(&[0x5a, 0x10, 0x3f, 0, 0, 0, 0, 1, 0]);
    assert_eq!((long[4], long[7], long.len()), (1, 16, 8 + 16 + 20 + 12 + 12));
    let select = |list: &[u8], long| {
        let work = Work::Modes { list: list.len() as u64, long };
        steps(&work, Bytes::copy_from_slice(list), &sample())
    };
    let mut list = all.clone();
    list[0] = 0;
    assert_eq!(select(&list, false), Ok(vec![]));
    assert_eq!(select(&long, true), Ok(vec![]));
    list[14] = 0;
    assert_eq!(select(&list, false), Err(Sense::parameter(14)), "it is what it is");
    let mut blocks = all.clone();
    blocks[10] = 16;
    assert_eq!(select(&blocks, false), Err(Sense::parameter(8)));
    assert_eq!(select(&all[..14], false), Err(Sense::LIST_LENGTH));
}

#[test]
fn all_commands_that_are_reported_are_there_and_no_others() {
    let listed = data(&[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 255, 255]);
    let entries: Vec<&[u8]> = listed[4..].chunks(8).collect();
    assert_eq!(entries.len(), opcodes::COMMANDS.len());
    for opcode in 0..=255 {
        let there = entries.iter().any(|e| e[0] == opcode);
        let refused = planned(&[opcode]) == Err(Sense::OPCODE);
        assert_eq!(there, !refused, "{opcode:02x}");
    }
    for entry in entries {
        let (option, action) = (if entry[5] & 1 == 0 { 1 } else { 2 }, [entry[2], entry[3]]);
        let one = data(&[0xa3, 0x0c, option, entry[0], action[0], action[1], 0, 0, 1, 0]);
        assert_eq!((one[1], one[3], one[4]), (0x03, entry[7], entry[0]), "{entry:?}");
        assert_eq!(one.len(), 4 + usize::from(entry[7]));
    }
    let none = data(&[0xa3, 0x0c, 1, 0x56, 0, 0, 0, 0, 1, 0]);
    assert_eq!(none[1], 0x01);
    assert_eq!(data(&[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 4]), [0xd8, 0, 0, 0]);
}

#[test]
fn blocks_that_are_the_same_are_written_in_pieces_and_zeros_are_not() {
    let at = Stretch { offset: 512, length: (3 << 20) + 512 };
    let same = |zeros, block: u8| {
        let work = Work::Same { at, block: BLOCK, zeros };
        let mut all = steps(&work, Bytes::from(vec![block; 512]), &sample()).unwrap();
        while let Some(Step { then: Then::Repeat(left), .. }) = all.last()
            && let Some(next) = repeated(all.last().unwrap(), *left)
        {
            all.push(next);
        }
        all
    };
    assert_eq!(same(true, 7).len(), 1);
    assert_eq!(same(false, 0)[0].op, crate::iscsi::Op::WriteZeroes);
    let pieces = same(false, 7);
    assert_eq!(pieces.len(), 4);
    assert_eq!(pieces[3].at, Stretch { offset: 512 + (3 << 20), length: 512 });
    let written = |step: &Step| match &step.op {
        crate::iscsi::Op::Write(bytes) => bytes.len() as u64 == step.at.length,
        _ => false,
    };
    assert!(pieces.iter().all(written));
}

#[test]
fn the_same_block_is_written_to_the_end_if_no_number_is_given() {
    let blocks = sample().blocks();
    let same = |at, length, zeros| {
        Ok(Work::Same { at: Stretch { offset: at, length }, block: BLOCK, zeros })
    };
    let size = sample().size;
    assert_eq!(planned(&[0x41]), same(0, size, false));
    assert_eq!(planned(&[0x41, 0, 0, 0, 7, 0xff]), same(size - 512, 512, false));
    let long = [0x93, 1, 0, 0, 0, 0, 0, 0, 7, 0xff, 0, 0, 0, 0, 0, 0];
    assert_eq!(planned(&long), same(size - 512, 512, true));
    assert_eq!((blocks, planned(&[0x41, 0, 0, 0, 8, 0])), (2048, Ok(Work::Nothing)));
    assert_eq!(planned(&[0x41, 0, 0, 0, 8, 1]), Err(Sense::OUT_OF_RANGE));
    // Also then no more than was announced.
    let large = Unit { size: (MOST_SAME + 1) * BLOCK, ..sample() };
    assert_eq!(plan(&cdb(&[0x41]), &large), Err(Sense::field(7, None)));
    let all = Stretch { offset: 512, length: MOST_SAME * BLOCK };
    let work = Work::Same { at: all, block: BLOCK, zeros: false };
    assert_eq!(plan(&cdb(&[0x41, 0, 0, 0, 0, 1]), &large), Ok(work));
    assert_eq!(data(&[0x12, 1, 0xb0, 0, 255])[4], 0, "WSNZ");
}

#[test]
fn allocation_is_told_in_whole_blocks() {
    let at = Stretch { offset: 1024, length: 4096 };
    let told =
        allocation(at, BLOCK, &[(1000, false), (2000, true), (1096, false), (512, true)], 4096);
    let words: Vec<u32> =
        told.chunks(4).map(|w| u32::from_be_bytes(w.try_into().unwrap())).collect();
    // Length; block, count, state of each.
    assert_eq!(words[0], 52);
    assert_eq!(words[2..6], [0, 2, 2, 0]);
    assert_eq!(words[6..10], [0, 4, 3, 0x0100_0000]);
    assert_eq!(words[10..14], [0, 7, 3, 0]);
    assert_eq!(allocation(at, BLOCK, &[(4096, true)], 20).len(), 20, "cut off");
}

proptest! {
    /// Whatever is asked for lies in the volume, brings along no more than there is room for, and has steps.
    #[test]
    fn no_command_upsets_it(
        opcode in prop_oneof![any::<u8>(), (0..opcodes::COMMANDS.len()).prop_map(|n| opcodes::COMMANDS[n].opcode)],
        rest: [u8; 15],
        mask: [bool; 15],
        list in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = std::array::from_fn(|n| match n {
            0 => opcode,
            n if mask[n - 1] => 0,
            n => rest[n - 1],
        });
        let unit = sample();
        if let Ok(work) = plan(&bytes, &unit) {
            prop_assert!(work.data_out() <= MOST_BYTES);
            let data = list.repeat(1 + work.data_out() as usize / list.len().max(1));
            let cut = data.len().min(work.data_out() as usize);
            for step in steps(&work, Bytes::from(data).slice(..cut), &unit).unwrap_or_default() {
                prop_assert!(step.at.offset + step.at.length <= unit.size);
            }
        }
    }

    #[test]
    fn lists_of_modes_do_not_upset_it(list: Vec<u8>, long: bool) {
        mode::select(&list, long, &sample()).ok();
    }

    #[test]
    fn allocation_covers_what_was_found(
        lengths in proptest::collection::vec((0_u64..5000, any::<bool>()), 0..20),
        blocks in 1_u64..40,
    ) {
        let at = Stretch { offset: 512, length: blocks * 512 };
        let told = allocation(at, BLOCK, &lengths, 1 << 20);
        let mut next = 1;
        for d in told[8..].chunks_exact(16) {
            prop_assert_eq!(long(&d[..8]), next);
            next += long(&d[8..12]);
        }
        prop_assert!(next <= 1 + blocks);
    }
}

#[test]
fn an_atomic_write_is_done_whole_or_refused() {
    let atomic = |first: u64, boundary: u8, count: u16, unit: &Unit| {
        let mut bytes = [0; 16];
        bytes[0] = 0x9c;
        bytes[2..10].copy_from_slice(&first.to_be_bytes());
        bytes[11] = boundary;
        bytes[12..14].copy_from_slice(&count.to_be_bytes());
        plan(&bytes, unit)
    };
    let unit = sample();
    let most = (unit.atomic / BLOCK) as u16;
    for (first, count) in [(0, most), (most.into(), 1), (u64::from(most) - 1, 1), (5, most - 5)] {
        assert!(matches!(atomic(first, 0, count, &unit), Ok(Work::WriteAtomic { .. })));
    }
    assert_eq!(atomic(0, 0, 0, &unit), Ok(Work::Nothing));
    assert_eq!(atomic(0, 0, most + 1, &unit), Err(Sense::field(12, None)));
    assert_eq!(atomic(1, 0, most, &unit), Err(Sense::field(2, None)), "it would be cut");
    assert_eq!(atomic(0, 8, 1, &unit), Err(Sense::field(10, None)));
    assert_eq!(atomic(unit.blocks(), 0, 1, &unit), Err(Sense::OUT_OF_RANGE));
    let other = Unit { atomic: 0, ..sample() };
    assert_eq!(atomic(0, 0, 1, &other), Err(Sense::OPCODE));
    let limits = |unit: &Unit| {
        let work = plan(&[0x12, 1, 0xb0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], unit);
        let Ok(Work::Data(data)) = work else { panic!("it is told") };
        long(&data[44..48])
    };
    assert_eq!((limits(&unit), limits(&other)), (most.into(), 0));
}

#[test]
fn a_unit_of_long_blocks_says_so_everywhere() {
    let unit = Unit { block: 4096, ..sample() };
    let of = |bytes: &[u8]| {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        plan(&cdb, &unit)
    };
    let told = |bytes: &[u8]| match of(bytes) {
        Ok(Work::Data(data)) => data,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&[0x25]), [0, 0, 0, 255, 0, 0, 16, 0]);
    let capacity = told(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32]);
    assert_eq!((long(&capacity[..8]), long(&capacity[8..12]), capacity[13]), (255, 4096, 0));
    let limits = told(&[0x12, 1, 0xb0, 0, 255]);
    assert_eq!((long(&limits[6..8]), long(&limits[8..12]), long(&limits[12..16])), (1, 2048, 256));
    assert_eq!((long(&limits[20..24]), long(&limits[28..32])), (128 << 10, 1));
    assert_eq!((long(&limits[36..44]), long(&limits[44..48])), (32 << 10, 16));
    assert_eq!(long(&told(&[0x1a, 0, 0x08, 0, 255])[4..12]), 256 << 32 | 4096);
    let at = |first: u64, count: u64| Stretch { offset: first * 4096, length: count * 4096 };
    assert_eq!(of(&[0x28, 0, 0, 0, 0, 5, 0, 0, 7]), Ok(Work::Read(at(5, 7))));
    assert_eq!(of(&[0x28, 0, 0, 0, 0, 255, 0, 0, 2]), Err(Sense::OUT_OF_RANGE));
    let same = Work::Same { at: at(1, 3), block: 4096, zeros: false };
    assert_eq!((of(&[0x41, 0, 0, 0, 0, 1, 0, 0, 3]), same.data_out()), (Ok(same), 4096));
    let compared = Work::CompareAndWrite { at: at(2, 1), durable: false };
    assert_eq!(compared.data_out(), 8192);
    assert_eq!(of(&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Ok(compared));
    let status = of(&[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 1, 0]);
    assert_eq!(status, Ok(Work::Status { at: at(9, 64), most: 256 }));
    let told = allocation(at(9, 2), 4096, &[(4096, false), (1000, true), (3096, false)], 4096);
    // A block that is a hole only in part has room.
    let runs: Vec<(u64, u64, u8)> =
        told[8..].chunks(16).map(|d| (long(&d[..8]), long(&d[8..12]), d[12])).collect();
    assert_eq!(runs, [(9, 1, 0), (10, 1, 0)]);
    let unmapped =
        [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0]]
            .concat();
    let steps = steps(&Work::Unmap { list: 24 }, Bytes::from(unmapped), &unit).unwrap();
    assert_eq!(steps.iter().map(|step| step.at).collect::<Vec<_>>(), [at(3, 2)]);
}
