//! Having a process admitted again whose member has lost its log.
//!
//! The process gets a new member, which has promised nothing. The others admit it when they hear of it
//! (docs/internals/membership.md); until then it has no say. The nodes stay, with the content of their disks.

use std::time::{SystemTime, UNIX_EPOCH};

use weft_core::units::NodeId;
use weft_member::{MemberId, Stored, member_anew};

use super::config::Configuration;
use super::home::Home;
use super::memory::{Memory, Trouble};
use super::new_process::write_first_log;
use crate::error::{Result, fail};

/// Has the process of a configuration come back with a new member when it is started the next time. Refused if
/// its log is as it should be. Returns the number of the process.
///
/// # Errors
///
/// If the process runs, or there is no process, or its log is not lost, or something cannot be written.
pub fn readmit(config: Configuration) -> Result<NodeId> {
    let mut home = Home::open(config)?;
    match Memory::open(home.dir()) {
        Ok(_) => {
            return fail(format!(
                "the member's log in {} is intact: start the process with `weft node`",
                home.dir().display()
            ));
        }
        Err(Trouble::Other(error)) => return Err(error),
        Err(Trouble::Lost(_)) => {}
    }
    let member = next_member(&mut home)?;
    write_first_log(home.dir(), Stored::anew(member))?;
    Ok(home.process)
}

/// A number that no member of the process has had: the seconds since 1970 go up, and where the clock has been
/// put back the last number does.
pub(super) fn next_member(home: &mut Home) -> Result<MemberId> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let incarnation = seconds.max(u64::from(home.incarnation()) + 1).min(u64::from(u32::MAX));
    home.set_incarnation(incarnation as u32)?;
    Ok(member_anew(home.process, incarnation))
}
