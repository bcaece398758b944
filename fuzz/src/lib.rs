//! What the fuzz targets share. Each target reads an input as bytes from outside: of a host, a process, a disk.

pub mod disk;
pub mod log;

use weft_front::Machine;

/// Hands a machine what it has room for, at most `most` bytes, and returns the rest.
pub fn hand<'a>(machine: &mut impl Machine, bytes: &'a [u8], most: usize) -> &'a [u8] {
    let space = machine.space();
    assert!(!space.is_empty(), "there is always room");
    let n = bytes.len().min(space.len()).min(most);
    let (now, later) = bytes.split_at(n);
    space[..n].copy_from_slice(now);
    machine.filled(n);
    later
}

/// Takes what a machine has to send.
pub fn take(machine: &mut impl Machine, into: &mut Vec<u8>) {
    let before = into.len();
    into.extend(machine.output().flatten());
    assert_eq!(into.len() - before, machine.output_len());
    machine.sent(machine.output_len());
}
