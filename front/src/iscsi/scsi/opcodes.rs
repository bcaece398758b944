//! The commands that there are: which bits of each mean something, and what it comes to.

use super::commands::{self, Cdb};
use super::unit::Unit;
use super::{Sense, Work, copying, reserving};

/// A command.
pub(super) struct Command {
    pub(super) opcode: u8,
    /// Which of those that share the opcode.
    pub(super) action: Option<u16>,
    /// The CDB usage data: the bits that are evaluated, for each byte of the command.
    pub(super) usage: &'static [u8],
    pub(super) plan: fn(&Cdb<'_>, &Unit) -> Result<Work, Sense>,
}

/// The bits of the byte that has the service action.
const ACTION: u8 = 0x1f;

const fn plain(
    opcode: u8,
    usage: &'static [u8],
    plan: fn(&Cdb<'_>, &Unit) -> Result<Work, Sense>,
) -> Command {
    Command { opcode, action: None, usage, plan }
}

const fn action(
    opcode: u8,
    action: u16,
    usage: &'static [u8],
    plan: fn(&Cdb<'_>, &Unit) -> Result<Work, Sense>,
) -> Command {
    Command { opcode, action: Some(action), usage, plan }
}

/// A command of six bytes about blocks.
const BLOCKS_6: [u8; 6] = [0xff, 0x1f, 0xff, 0xff, 0xff, 0];

/// One of ten bytes with these flags; 12 and 16 alike. A group's number is taken and means nothing.
const fn blocks_10(flags: u8) -> [u8; 10] {
    [0xff, flags, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0]
}
const fn blocks_12(flags: u8) -> [u8; 12] {
    [0xff, flags, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0]
}
const fn blocks_16(flags: u8) -> [u8; 16] {
    let x = 0xff;
    [x, flags, x, x, x, x, x, x, x, x, x, x, x, x, 0x3f, 0]
}

/// DPO and FUA.
const READ_WRITE: u8 = 0x18;
/// DPO and BYTCHK.
const VERIFY: u8 = 0x16;
/// IMMED.
const IMMEDIATE: u8 = 0x02;
/// IMMED, and what was SYNC_NV.
const SYNCHRONIZE: u8 = 0x06;
/// UNMAP; the long form knows NDOB, too.
const SAME_10: u8 = 0x08;
const SAME_16: u8 = 0x09;

/// PERSISTENT RESERVE IN and OUT.
const RESERVE_IN: [u8; 10] = [0xff, ACTION, 0, 0, 0, 0, 0, 0xff, 0xff, 0];
const RESERVE_OUT: [u8; 10] = [0xff, ACTION, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0];

/// RESERVE(6) and RELEASE(6), of the whole unit for the initiator itself. The identification and the length of a list are of
/// extents, which there are none of.
const HOLD: [u8; 6] = [0xff, 0, 0xff, 0xff, 0xff, 0];

/// All of them, by opcode.
#[rustfmt::skip]
pub(super) static COMMANDS: &[Command] = &[
    plain(0x00, &[0xff, 0, 0, 0, 0, 0], commands::test_unit_ready),
    plain(0x03, &[0xff, 0x01, 0, 0, 0xff, 0], commands::request_sense),
    plain(0x08, &BLOCKS_6, commands::read),
    plain(0x0a, &BLOCKS_6, commands::write),
    plain(0x12, &[0xff, 0x01, 0xff, 0xff, 0xff, 0], commands::inquiry),
    plain(0x15, &[0xff, 0x11, 0, 0, 0xff, 0], commands::mode_select),
    plain(0x16, &HOLD, reserving::hold),
    plain(0x17, &HOLD, reserving::unhold),
    plain(0x1a, &[0xff, 0x08, 0xff, 0xff, 0xff, 0], commands::mode_sense),
    plain(0x25, &[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0], commands::read_capacity_10),
    plain(0x28, &blocks_10(READ_WRITE), commands::read),
    plain(0x2a, &blocks_10(READ_WRITE), commands::write),
    plain(0x2e, &blocks_10(VERIFY), commands::write_and_verify),
    plain(0x2f, &blocks_10(VERIFY), commands::verify),
    plain(0x34, &blocks_10(IMMEDIATE), commands::pre_fetch),
    plain(0x35, &blocks_10(SYNCHRONIZE), commands::synchronize_cache),
    plain(0x41, &blocks_10(SAME_10), commands::write_same),
    plain(0x42, &[0xff, 0, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0], commands::unmap),
    plain(0x55, &[0xff, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0], commands::mode_select),
    plain(0x5a, &[0xff, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0], commands::mode_sense),
    action(0x5e, 0x00, &RESERVE_IN, reserving::read_keys),
    action(0x5e, 0x01, &RESERVE_IN, reserving::read_reservation),
    action(0x5e, 0x02, &RESERVE_IN, reserving::report_capabilities),
    action(0x5e, 0x03, &RESERVE_IN, reserving::read_full_status),
    action(0x5f, 0x00, &RESERVE_OUT, reserving::register),
    action(0x5f, 0x01, &RESERVE_OUT, reserving::reserve),
    action(0x5f, 0x02, &RESERVE_OUT, reserving::release),
    action(0x5f, 0x03, &RESERVE_OUT, reserving::clear),
    action(0x5f, 0x04, &RESERVE_OUT, reserving::preempt),
    action(0x5f, 0x05, &RESERVE_OUT, reserving::preempt),
    action(0x5f, 0x06, &RESERVE_OUT, reserving::register_and_ignore),
    action(0x5f, 0x07, &RESERVE_OUT, reserving::register_and_move),
    action(0x83, 0x00, &[0xff, ACTION, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], copying::copy),
    action(0x84, 0x00, &[0xff, ACTION, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], copying::status),
    action(0x84, 0x03, &[0xff, ACTION, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], copying::parameters),
    plain(0x88, &blocks_16(READ_WRITE), commands::read),
    plain(0x89, &[0xff, READ_WRITE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0x3f, 0], commands::compare_and_write),
    plain(0x8a, &blocks_16(READ_WRITE), commands::write),
    plain(0x8b, &blocks_16(READ_WRITE), commands::or_write),
    plain(0x8e, &blocks_16(VERIFY), commands::write_and_verify),
    plain(0x8f, &blocks_16(VERIFY), commands::verify),
    plain(0x90, &blocks_16(IMMEDIATE), commands::pre_fetch),
    plain(0x91, &blocks_16(SYNCHRONIZE), commands::synchronize_cache),
    plain(0x93, &blocks_16(SAME_16), commands::write_same),
    plain(0x9c, &[0xff, READ_WRITE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], commands::write_atomic),
    action(0x9e, 0x10, &[0xff, ACTION, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], commands::read_capacity_16),
    action(0x9e, 0x12, &[0xff, ACTION, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0], commands::get_lba_status),
    plain(0xa0, &[0xff, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], commands::report_luns),
    action(0xa3, 0x0a, &[0xff, 0xe0 | ACTION, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], commands::report_port_groups),
    action(0xa3, 0x0c, &[0xff, ACTION, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0], report),
    action(0xa3, 0x0d, &[0xff, ACTION, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], commands::report_task_management),
    plain(0xa8, &blocks_12(READ_WRITE), commands::read),
    plain(0xaa, &blocks_12(READ_WRITE), commands::write),
    plain(0xae, &blocks_12(VERIFY), commands::write_and_verify),
    plain(0xaf, &blocks_12(VERIFY), commands::verify),
];

/// The command that these bytes are, if none of its bits is set that means nothing.
pub(super) fn find(bytes: &[u8; 16]) -> Result<&'static Command, Sense> {
    let with_opcode = || COMMANDS.iter().filter(|c| c.opcode == bytes[0]);
    let is_meant = |c: &&Command| c.action.is_none_or(|a| a == u16::from(bytes[1] & ACTION));
    let Some(command) = with_opcode().find(is_meant) else {
        return Err(match with_opcode().next() {
            Some(_) => Sense::field(1, Some(4)),
            None => Sense::OPCODE,
        });
    };
    let strays = command.usage.iter().zip(bytes).map(|(usage, byte)| byte & !usage);
    match strays.enumerate().find(|(_, stray)| *stray != 0) {
        Some((byte, stray)) => Err(Sense::field(byte as u16, Some(stray.ilog2() as u8))),
        None => Ok(command),
    }
}

/// A command as REPORT SUPPORTED OPERATION CODES lists it: an entry, and the time that it takes if that is asked for.
fn entry(command: &Command, timeouts: bool) -> Vec<u8> {
    let action = command.action.unwrap_or(0).to_be_bytes();
    let flags = u8::from(command.action.is_some()) | if timeouts { 0x02 } else { 0 };
    let mut bytes = vec![command.opcode, 0, action[0], action[1], 0, flags, 0];
    bytes.push(command.usage.len() as u8);
    if timeouts {
        bytes.extend_from_slice(&TIMEOUTS);
    }
    bytes
}

/// The commands of a unit: some have no COMPARE AND WRITE and ORWRITE, or no WRITE ATOMIC.
fn offered(unit: &Unit) -> impl Iterator<Item = &'static Command> {
    let (modifies, is_atomic) = (unit.modifies, unit.atomic > 0);
    COMMANDS.iter().filter(move |command| match command.opcode {
        0x89 | 0x8b => modifies,
        0x9c => is_atomic,
        _ => true,
    })
}

/// No time is said.
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// REPORT SUPPORTED OPERATION CODES.
fn report(cdb: &Cdb<'_>, unit: &Unit) -> Result<Work, Sense> {
    let (options, timeouts) = (cdb.0[2] & 0x07, cdb.0[2] & 0x80 != 0);
    let (opcode, wanted) = (cdb.0[3], cdb.number(4, 2) as u16);
    if options == 0 {
        let all = offered(unit).flat_map(|c| entry(c, timeouts)).collect::<Vec<u8>>();
        let bytes = [&(all.len() as u32).to_be_bytes(), &all[..]].concat();
        return Ok(cdb.answered(bytes, 6, 4));
    }
    let with_opcode = || offered(unit).filter(|c| c.opcode == opcode);
    let has_actions = with_opcode().any(|c| c.action.is_some());
    let found = match (options, has_actions) {
        (1, true) | (2, false) if with_opcode().next().is_some() => {
            return Err(Sense::field(2, Some(2)));
        }
        (1, _) => with_opcode().next(),
        (2, _) => with_opcode().find(|c| c.action == Some(wanted)),
        (3, true) => with_opcode().find(|c| c.action == Some(wanted)),
        (3, false) => with_opcode().find(|_| wanted == 0),
        _ => return Err(Sense::field(2, Some(2))),
    };
    let flags = if timeouts { 0x80 } else { 0 };
    let Some(command) = found else {
        return Ok(cdb.answered(vec![0, 0x01, 0, 0], 6, 4));
    };
    let length = command.usage.len() as u8;
    let mut usage = command.usage.to_vec();
    // The opcode and the service action stand there as they are.
    usage[0] = command.opcode;
    if let Some(action) = command.action {
        usage[1] = usage[1] & !ACTION | action as u8;
    }
    let mut bytes = [&[0, flags | 0x03, 0, length], &usage[..]].concat();
    if timeouts {
        bytes.extend_from_slice(&TIMEOUTS);
    }
    Ok(cdb.answered(bytes, 6, 4))
}
