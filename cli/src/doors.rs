//! Options of who may come in at a process.

use anyhow::Result;
use clap::Args;
use weft_host::{Doors, How, Listen, Tls};

/// Authentication of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct DoorOptions {
    /// TLS with hosts: require (of all hosts by TCP, or CHAP over iSCSI), allow or off [default: the configuration's value, or allow]
    #[arg(long, value_name = "require|allow|off")]
    tls: Option<Tls>,
    /// Serve hosts of other machines without authentication, except volumes with a list of hosts
    #[arg(long)]
    no_auth: bool,
    /// Group whose members may use the Unix sockets for hosts [default: the group of this process]
    #[arg(long, value_name = "GROUP", hide_short_help = true)]
    socket_group: Option<String>,
}

impl DoorOptions {
    /// These, where they are given, instead of others.
    pub fn over(&self, before: Doors) -> Doors {
        Doors {
            tls: self.tls.unwrap_or(before.tls),
            no_auth: self.no_auth || before.no_auth,
            socket_group: self.socket_group.clone().or(before.socket_group),
        }
    }

    /// Refuses to serve strangers of other machines at addresses that an option gives, and a group that does not exist.
    pub fn check(&self, listens: &[Listen], option: &str) -> Result<()> {
        let doors = self.over(Doors::default());
        listens.iter().try_for_each(|listen| listen.check_door(&doors, option, How::Options))?;
        Ok(doors.check_group()?)
    }
}
