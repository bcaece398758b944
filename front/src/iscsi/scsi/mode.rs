//! Mode pages (SPC-4, 7.5; SBC-3, 6.5): what a unit is set to. Nothing of it can be set differently.

use super::unit::Unit;
use super::{Sense, long};

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;
const ALL: u8 = 0x3f;
/// Subpages: none, or all.
const ALL_SUBPAGES: u8 = 0xff;

/// Which values of pages are asked for.
const CHANGEABLE: u8 = 1;
const SAVED: u8 = 3;

/// All pages, as they are.
pub(super) fn pages(unit: &Unit) -> Vec<Vec<u8>> {
    let mut caching = page(CACHING, 20);
    caching[2] = if unit.write_cache { 0x04 } else { 0 };
    let mut control = page(CONTROL, 12);
    // Each host has a task set of its own, nothing is logged, and commands may be reordered.
    (control[2], control[3]) = (0x22, 0x10);
    vec![caching, control, page(EXCEPTIONS, 12)]
}

fn page(code: u8, len: usize) -> Vec<u8> {
    let mut page = vec![0; len];
    (page[0], page[1]) = (code, (len - 2) as u8);
    page
}

/// The fields of MODE SENSE.
pub(super) struct Asked {
    pub(super) page: u8,
    pub(super) subpage: u8,
    /// Current, changeable, default or saved.
    pub(super) control: u8,
    /// Without the descriptor of blocks.
    pub(super) bare: bool,
    /// That descriptor in its long form.
    pub(super) long_blocks: bool,
    /// By the command of ten bytes.
    pub(super) long: bool,
}

/// The answer to MODE SENSE.
pub(super) fn sense(asked: &Asked, unit: &Unit) -> Result<Vec<u8>, Sense> {
    if asked.control == SAVED {
        return Err(Sense::NOT_SAVED);
    }
    if !(asked.subpage == 0 || asked.subpage == ALL_SUBPAGES) {
        return Err(Sense::field(3, None));
    }
    let is_asked = |page: &Vec<u8>| asked.page == ALL || page[0] == asked.page;
    let mut chosen: Vec<_> = pages(unit).into_iter().filter(is_asked).collect();
    if chosen.is_empty() {
        return Err(Sense::field(2, Some(5)));
    }
    if asked.control == CHANGEABLE {
        chosen.iter_mut().for_each(|page| page[2..].fill(0));
    }
    let blocks = match (asked.bare, asked.long && asked.long_blocks) {
        (true, _) => Vec::new(),
        (false, true) => {
            [&unit.blocks().to_be_bytes()[..], &[0; 4], &(unit.block as u32).to_be_bytes()].concat()
        }
        (false, false) => {
            let count = u32::try_from(unit.blocks()).unwrap_or(u32::MAX);
            [count.to_be_bytes(), (unit.block as u32).to_be_bytes()].concat()
        }
    };
    let (body, described) = ([&blocks[..], &chosen.concat()].concat(), blocks.len() as u8);
    // It knows of DPO and FUA.
    let parameter = if unit.read_only { 0x90 } else { 0x10 };
    let head = match asked.long {
        false => vec![(3 + body.len()) as u8, 0, parameter, described],
        true => {
            let length = ((6 + body.len()) as u16).to_be_bytes();
            let long_blocks = u8::from(asked.long_blocks && !asked.bare);
            vec![length[0], length[1], 0, parameter, long_blocks, 0, 0, described]
        }
    };
    Ok([head, body].concat())
}

/// Takes the list of a MODE SELECT, if it asks for nothing that is not so already.
pub(super) fn select(list: &[u8], long: bool, unit: &Unit) -> Result<(), Sense> {
    if list.is_empty() {
        return Ok(());
    }
    let head = if long { 8 } else { 4 };
    let Some(described) = list.get(..head).map(|h| usize::from(h[head - 1])) else {
        return Err(Sense::LIST_LENGTH);
    };
    let blocks = list.get(head..head + described).ok_or(Sense::LIST_LENGTH)?;
    check_blocks(blocks, long && list[4] & 1 != 0, head, unit)?;
    let pages = pages(unit);
    let mut at = head + described;
    while at < list.len() {
        let [code, length, ..] = list[at..] else { return Err(Sense::LIST_LENGTH) };
        let page = list.get(at..at + 2 + usize::from(length)).ok_or(Sense::LIST_LENGTH)?;
        // The bit that says whether a page can be saved is not one of those that are sent.
        let Some(ours) = pages.iter().find(|ours| ours[0] == code & 0x7f) else {
            return Err(Sense::parameter(at));
        };
        if ours.len() != page.len() {
            return Err(Sense::parameter(at + 1));
        }
        if let Some(n) = (2..page.len()).find(|n| ours[*n] != page[*n]) {
            return Err(Sense::parameter(at + n));
        }
        at += page.len();
    }
    Ok(())
}

/// Refuses a block descriptor that differs from the unit. A count of 0 stands for the current one.
fn check_blocks(blocks: &[u8], is_long: bool, head: usize, unit: &Unit) -> Result<(), Sense> {
    let (count, length) = match (blocks.len(), is_long) {
        (0, _) => return Ok(()),
        (8, false) => (long(&blocks[..4]), long(&blocks[4..])),
        (16, true) => (long(&blocks[..8]), long(&blocks[12..])),
        _ => return Err(Sense::parameter(head - 1)),
    };
    let most = if is_long { u64::MAX } else { u32::MAX.into() };
    if ![0, most, unit.blocks()].contains(&count) {
        return Err(Sense::parameter(head));
    }
    // The first byte of the short form is reserved.
    if ![0, unit.block].contains(&length) {
        return Err(Sense::parameter(head + blocks.len() - 4));
    }
    Ok(())
}
