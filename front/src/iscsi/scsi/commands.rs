//! What each command comes to: its fields, and what cannot be.

use super::mode::{self, Asked};
use super::opcodes::find;
use super::unit::Unit;
use super::{
    Check, FIRST_STATUS, MOST_COMPARED, MOST_PARAMETERS, MOST_SAME, Sense, Stretch, Work, inquiry,
    long,
};

/// What a command is to do.
pub(in crate::iscsi) fn plan(bytes: &[u8; 16], unit: &Unit) -> Result<Work, Sense> {
    let command = find(bytes)?;
    (command.plan)(&Cdb(bytes), unit)
}

/// A command's bytes.
pub(super) struct Cdb<'a>(pub(super) &'a [u8; 16]);

/// Where the fields of a command about blocks lie.
struct Fields {
    address: (usize, usize),
    count: (usize, usize),
}

impl Cdb<'_> {
    /// The big-endian number in `len` bytes.
    pub(super) fn number(&self, at: usize, len: usize) -> u64 {
        long(&self.0[at..at + len])
    }

    /// Data, truncated to the allocation length in the field.
    pub(super) fn answered(&self, mut data: Vec<u8>, at: usize, len: usize) -> Work {
        let most = usize::try_from(self.number(at, len)).unwrap_or(usize::MAX);
        data.truncate(most);
        Work::Data(data)
    }

    fn has(&self, bit: u8) -> bool {
        self.0[1] & bit != 0
    }

    fn is_six(&self) -> bool {
        self.0[0] < 0x20
    }

    fn fields(&self) -> Fields {
        match self.0[0] >> 5 {
            1 | 2 => Fields { address: (2, 4), count: (7, 2) },
            4 => Fields { address: (2, 8), count: (10, 4) },
            _ => Fields { address: (2, 4), count: (6, 4) },
        }
    }

    /// The blocks that it is about, and where the field of their number is.
    fn blocks(&self, unit: &Unit) -> Result<(u64, u64, usize), Sense> {
        let (first, count, at) = if self.is_six() {
            let count = match self.0[4] {
                0 => 256,
                n => n.into(),
            };
            (long(&[self.0[1] & 0x1f, self.0[2], self.0[3]]), count, 4)
        } else {
            let Fields { address, count } = self.fields();
            (self.number(address.0, address.1), self.number(count.0, count.1), count.0)
        };
        if first.checked_add(count).is_none_or(|end| end > unit.blocks()) {
            return Err(Sense::OUT_OF_RANGE);
        }
        Ok((first, count, at))
    }

    /// The bytes of these blocks, if they are no more than a limit.
    fn stretch(&self, unit: &Unit, most: u64) -> Result<Stretch, Sense> {
        let (first, count, at) = self.blocks(unit)?;
        if count > most {
            return Err(Sense::field(at as u16, None));
        }
        Ok(unit.stretch(first, count))
    }

    /// The BYTCHK field.
    fn check(&self) -> Result<Check, Sense> {
        match self.0[1] >> 1 & 0x03 {
            0 => Ok(Check::Readable),
            1 => Ok(Check::Equal),
            _ => Err(Sense::field(1, Some(2))),
        }
    }
}

/// Nothing is read or written of no blocks.
fn unless_empty(at: Stretch, work: Work) -> Work {
    if at.length == 0 { Work::Nothing } else { work }
}

pub(super) fn test_unit_ready(_: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    Ok(Work::Nothing)
}

/// Sense data came with what they are about, so that there are none.
pub(super) fn request_sense(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    let data = match cdb.has(0x01) {
        true => vec![0x72, 0, 0, 0, 0, 0, 0, 0],
        false => [&[0x70, 0, 0, 0, 0, 0, 0, 10], &[0; 10][..]].concat(),
    };
    Ok(cdb.answered(data, 4, 1))
}

pub(super) fn inquiry(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let data = match (cdb.has(0x01), cdb.0[2]) {
        (true, page) => inquiry::vital(page, unit)?,
        (false, 0) => inquiry::standard(),
        (false, _) => return Err(Sense::field(2, None)),
    };
    Ok(cdb.answered(data, 3, 2))
}

pub(super) fn report_luns(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    let luns = match cdb.0[2] {
        0 | 2 => 1,
        // Well-known units: there are none.
        1 => 0,
        _ => return Err(Sense::field(2, None)),
    };
    if cdb.number(6, 4) < 16 {
        return Err(Sense::field(6, None));
    }
    let mut data = vec![0; 8 + 8 * luns];
    data[3] = 8 * luns as u8;
    Ok(cdb.answered(data, 6, 4))
}

pub(super) fn report_port_groups(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    let extended = match cdb.0[1] >> 5 {
        0 => false,
        1 => true,
        _ => return Err(Sense::field(1, Some(7))),
    };
    Ok(Work::Ports { extended, most: cdb.number(6, 4).min(MOST_PARAMETERS) as usize })
}

pub(super) fn report_task_management(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    if cdb.number(6, 4) < 4 {
        return Err(Sense::field(6, None));
    }
    // Abort of a task and of a set, clearing of a set, and reset of the unit.
    let functions = 0x80 | 0x40 | 0x10 | 0x08;
    let extended = cdb.0[2] & 0x80 != 0;
    let mut data = vec![functions, 0, 0, 0];
    if extended {
        data[3] = 12;
        data.extend_from_slice(&[0; 12]);
    }
    Ok(cdb.answered(data, 6, 4))
}

pub(super) fn read_capacity_10(_: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    Ok(Work::Data(inquiry::capacity_10(unit)))
}

pub(super) fn read_capacity_16(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    Ok(cdb.answered(inquiry::capacity_16(unit), 10, 4))
}

pub(super) fn mode_sense(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let long = !cdb.is_six();
    let asked = Asked {
        page: cdb.0[2] & 0x3f,
        subpage: cdb.0[3],
        control: cdb.0[2] >> 6,
        bare: cdb.has(0x08),
        long_blocks: cdb.has(0x10),
        long,
    };
    let data = mode::sense(&asked, unit)?;
    Ok(if long { cdb.answered(data, 7, 2) } else { cdb.answered(data, 4, 1) })
}

pub(super) fn mode_select(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    if !cdb.has(0x10) {
        return Err(Sense::field(1, Some(4)));
    }
    if cdb.has(0x01) {
        return Err(Sense::field(1, Some(0)));
    }
    let (at, len) = if cdb.is_six() { (4, 1) } else { (7, 2) };
    Ok(Work::Modes { list: list(cdb, at, len)?, long: !cdb.is_six() })
}

/// The length of a list of parameters.
fn list(cdb: &Cdb<'_>, at: usize, len: usize) -> Result<u64, Sense> {
    match cdb.number(at, len) {
        list if list <= MOST_PARAMETERS => Ok(list),
        _ => Err(Sense::field(at as u16, None)),
    }
}

pub(super) fn read(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let at = cdb.stretch(unit, unit.most_blocks())?;
    Ok(unless_empty(at, Work::Read(at)))
}

pub(super) fn write(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let at = cdb.stretch(unit, unit.most_blocks())?;
    let durable = !cdb.is_six() && cdb.has(0x08);
    Ok(unless_empty(at, Work::Write { at, durable, then: Check::Nothing }))
}

/// WRITE ATOMIC: refused where the write might be cut.
pub(super) fn write_atomic(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    const ADDRESS: u16 = 2;
    const BOUNDARY: usize = 10;
    const COUNT: usize = 12;
    if unit.atomic == 0 {
        return Err(Sense::OPCODE);
    }
    let (first, count) = (cdb.number(2, 8), cdb.number(COUNT, 2));
    if first.checked_add(count).is_none_or(|end| end > unit.blocks()) {
        return Err(Sense::OUT_OF_RANGE);
    }
    if cdb.number(BOUNDARY, 2) != 0 {
        return Err(Sense::field(BOUNDARY as u16, None));
    }
    let most = unit.atomic / unit.block;
    if count > most {
        return Err(Sense::field(COUNT as u16, None));
    }
    let at = unit.stretch(first, count);
    if count > 0 && first / most != (first + count - 1) / most {
        return Err(Sense::field(ADDRESS, None));
    }
    Ok(unless_empty(at, Work::WriteAtomic { at, durable: cdb.has(0x08) }))
}

pub(super) fn write_and_verify(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let then = cdb.check()?;
    let at = cdb.stretch(unit, unit.most_blocks())?;
    Ok(unless_empty(at, Work::Write { at, durable: true, then }))
}

pub(super) fn verify(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let check = cdb.check()?;
    let at = cdb.stretch(unit, unit.most_blocks())?;
    Ok(unless_empty(at, Work::Verify { at, check }))
}

/// What only some units offer.
fn modifies(unit: &Unit) -> Result<(), Sense> {
    if unit.modifies { Ok(()) } else { Err(Sense::OPCODE) }
}

pub(super) fn compare_and_write(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    const COUNT: usize = 13;
    modifies(unit)?;
    let (first, count) = (cdb.number(2, 8), cdb.number(COUNT, 1));
    if first.checked_add(count).is_none_or(|end| end > unit.blocks()) {
        return Err(Sense::OUT_OF_RANGE);
    }
    if count > MOST_COMPARED {
        return Err(Sense::field(COUNT as u16, None));
    }
    let at = unit.stretch(first, count);
    Ok(Work::CompareAndWrite { at, durable: cdb.has(0x08) })
}

pub(super) fn or_write(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    modifies(unit)?;
    let at = cdb.stretch(unit, unit.most_blocks())?;
    Ok(unless_empty(at, Work::OrWrite { at, durable: cdb.has(0x08) }))
}

/// Nothing is kept in memory for later, so there is nothing to fetch: success says that not all of it is there.
pub(super) fn pre_fetch(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    cdb.blocks(unit)?;
    Ok(Work::Nothing)
}

/// A flush is about the whole volume. One that may be answered at once is answered when it is done.
pub(super) fn synchronize_cache(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    cdb.blocks(unit)?;
    Ok(Work::Flush)
}

pub(super) fn write_same(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let (first, count, field) = cdb.blocks(unit)?;
    let count = match count {
        // All to the end of the unit.
        0 => unit.blocks() - first,
        count => count,
    };
    if count > MOST_SAME {
        return Err(Sense::field(field as u16, None));
    }
    let at = unit.stretch(first, count);
    Ok(unless_empty(at, Work::Same { at, block: unit.block, zeros: cdb.has(0x01) }))
}

pub(super) fn unmap(cdb: &Cdb<'_>, _: &Unit) -> Result<Work, Sense> {
    let list = list(cdb, 7, 2)?;
    Ok(if list == 0 { Work::Nothing } else { Work::Unmap { list } })
}

pub(super) fn get_lba_status(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let first = cdb.number(2, 8);
    if first >= unit.blocks() {
        return Err(Sense::OUT_OF_RANGE);
    }
    let most = cdb.number(10, 4).min(MOST_PARAMETERS) as usize;
    let count = (unit.blocks() - first).min(FIRST_STATUS / unit.block);
    let at = unit.stretch(first, count);
    Ok(if most == 0 { Work::Nothing } else { Work::Status { at, most } })
}
