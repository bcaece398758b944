//! A disk on which anything may stand. The first byte of the input says which disk and whether its checksums are
//! mended, the rest what is changed on it. The disk is refused, or it is opened, whatever is lost on it. What is written to it
//! then is there and takes the place of nothing else; and what was opened once opens again and reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::disk::{DISKS, Open};

const MENDED: u8 = 4;
const SLOTTED: u8 = 8;

fuzz_target!(|input: &[u8]| {
    let Some((how, changes)) = input.split_first() else { return };
    let which = if how & SLOTTED == 0 { how & 3 } else { 4 + (how & 1) };
    let mut disk = DISKS[usize::from(which)].clone();
    disk.change(changes);
    if how & MENDED != 0 {
        disk.mend();
    }
    let Some(mut open) = Open::new(&mut disk) else { return };
    if open.has_counted_out() {
        return;
    }
    let (mut read, forgot) = (open.read(), open.forgot());
    open.put_in_place();
    for (sector, content) in open.write() {
        read[sector as usize] = Some(content);
    }
    for (sector, (before, now)) in read.iter().zip(open.read()).enumerate() {
        assert!(*before == now, "sector {sector} is something else when others have been written");
    }
    open.put_in_place();
    let mut again = Open::new(&mut disk).expect("it could be opened before");
    for (sector, (before, now)) in read.iter().zip(again.read()).enumerate() {
        // Of a disk that forgot what it promised more may be given up, and older pages of the table may be believed, since its
        // index is not: the others rebuild all that they have later versions of.
        let is_rebuilt = forgot && (before.is_none() || now.is_none());
        assert!(*before == now || is_rebuilt, "sector {sector} reads otherwise now");
    }
});
