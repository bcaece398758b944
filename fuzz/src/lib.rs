//! What the fuzz targets share. Each target reads an input as bytes from outside: of a host, a process, a disk.

pub mod disk;
pub mod log;

use weft_front::Machine;

/// What came of a conversation: what was heard, what was sent, and how it broke.
#[derive(Debug, Default, PartialEq)]
pub struct Talk {
    pub heard: Vec<String>,
    pub sent: Vec<u8>,
    pub broken: Option<String>,
}

/// Hands a machine all these bytes, in pieces of at most `most`. `next` asks it what it has heard, and answers: it
/// returns that in words, nothing if the machine waits for more, or how the conversation broke.
pub fn talk<M: Machine>(
    mut machine: M,
    mut bytes: &[u8],
    most: usize,
    next: impl Fn(&mut M) -> Result<Option<String>, String>,
) -> Talk {
    let mut talk = Talk::default();
    loop {
        loop {
            match next(&mut machine) {
                Ok(None) => break,
                Ok(Some(heard)) => talk.heard.push(heard),
                Err(error) => {
                    talk.broken = Some(error);
                    break;
                }
            }
        }
        take(&mut machine, &mut talk.sent);
        if bytes.is_empty() || talk.broken.is_some() {
            return talk;
        }
        bytes = hand(&mut machine, bytes, most);
    }
}

/// Hands a machine what it has room for, at most `most` bytes, and returns the rest.
fn hand<'a>(machine: &mut impl Machine, bytes: &'a [u8], most: usize) -> &'a [u8] {
    let space = machine.space();
    assert!(!space.is_empty(), "there is always room");
    let n = bytes.len().min(space.len()).min(most);
    let (now, later) = bytes.split_at(n);
    space[..n].copy_from_slice(now);
    machine.filled(n);
    later
}

/// Takes what a machine has to send.
fn take(machine: &mut impl Machine, into: &mut Vec<u8>) {
    let before = into.len();
    into.extend(machine.output().flatten());
    assert_eq!(into.len() - before, machine.output_len());
    machine.sent(machine.output_len());
}
