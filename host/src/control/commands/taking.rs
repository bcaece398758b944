//! Disks that are taken for nodes: what each step leads to. The disk itself is worked aside (`engine::taking`).

use std::path::{Path, PathBuf};
use std::time::Instant;

use weft_core::cluster::{Change, NewNodes};
use weft_core::units::NodeId;

use super::{Commands, NewDisk, Outcome, Wait};
use crate::disk::claim::{Claim, Claimer};
use crate::engine::taking::{Held, Taking};
use crate::error::{Result, fail};

/// What a disk is taken for.
#[derive(Clone, Debug)]
pub(crate) enum Taker {
    /// A node that is down, whose disk it replaces: where that is, or elsewhere. The loss of these volumes is accepted.
    Down { node: usize, elsewhere: bool, accepted: Vec<String> },
    /// A new node of an array in one process.
    New(usize),
    /// A new node of this process of a cluster, whose number the leader gives.
    Unnumbered,
    /// A node of this process of a cluster that has no disk yet.
    Numbered(usize),
}

/// Why an array in one process takes no disk.
pub(super) const CREATES_ITS_OWN: &str = "an array in one process creates its own disks, of the same size as the others; omit \
     --path and --size";

impl Commands<'_> {
    /// The disk that a request names, if it names one.
    pub(super) fn new_disk(
        &self,
        path: Option<PathBuf>,
        size: Option<u64>,
    ) -> Result<Option<NewDisk>> {
        if path.is_none() && size.is_some() {
            return fail(match self.engine.rule.together() {
                None => CREATES_ITS_OWN,
                Some(_) => "a size is that of a new file; give its path with --path",
            });
        }
        Ok(path.map(|path| NewDisk { path, size }))
    }

    /// How a disk is claimed for `node` or for a new one.
    pub(super) fn claimer(
        &self,
        new: &NewDisk,
        node: Option<usize>,
        force: bool,
    ) -> Result<Claimer> {
        let Some(together) = self.engine.rule.together() else {
            return fail(CREATES_ITS_OWN);
        };
        let (home, path) = (together.home(), new.path.display());
        if !new.path.is_absolute() {
            return fail(format!("{path} is not an absolute path; begin it with /"));
        }
        if home.config().disks.is_empty() {
            return fail("this process is a controller or an attached host, and has no disks");
        }
        let (own, disks) = (node.map(|n| home.own(NodeId(n as u16))), home.disks());
        let (path, given, config) = (new.path.clone(), new.size, home.config());
        let (usual, preallocate) = (config.disk_size, config.disk_options.preallocate);
        Ok(Box::new(move || {
            // A new file is as large as those of the configuration.
            let size = given.or_else(|| usual.filter(|_| !path.exists()));
            let other = disks.on(&path).filter(|n| Some(usize::from(n.0)) != node);
            if let Some(other) = other {
                return fail(format!("{} is the disk of {other}; choose another", path.display()));
            }
            Claim::new(&path, size, own, force)?.allocated(preallocate)
        }))
    }

    /// Begins to take the disk at a path.
    pub(super) fn take(&mut self, path: &Path, claimer: Claimer, taker: Taker) -> Wait {
        let node = match &taker {
            Taker::Down { node, .. } | Taker::New(node) | Taker::Numbered(node) => Some(*node),
            Taker::Unnumbered => None,
        };
        Wait::Taking(Box::new(self.engine.claim_disk(node, path, claimer)), taker)
    }

    /// Looks whether a disk has answered, and goes on with it.
    pub(super) fn check_taking(
        &mut self,
        conn: usize,
        taking: Box<Taking>,
        taker: Taker,
    ) -> Result<Outcome> {
        match taking.result() {
            None => Ok(Outcome::Wait(Wait::Taking(taking, taker))),
            Some(held) if taking.makes => self.made(held?, taker).map(Outcome::Wait),
            Some(held) => self.claimed(conn, held?, taker),
        }
    }

    /// A disk has been claimed: it is made an empty one, if there is a node for it.
    fn claimed(&mut self, conn: usize, held: Held, taker: Taker) -> Result<Outcome> {
        let node = match &taker {
            Taker::Unnumbered => return self.ask_for_number(conn, held),
            Taker::Down { node, accepted, .. } => {
                self.engine.may_replace(*node, held.size(), accepted)?;
                *node
            }
            Taker::New(node) | Taker::Numbered(node) => *node,
        };
        let taking = self.engine.make_disk(node, held);
        Ok(Outcome::Wait(Wait::Taking(Box::new(taking), taker)))
    }

    /// A disk has been made an empty one.
    fn made(&mut self, held: Held, taker: Taker) -> Result<Wait> {
        match taker {
            Taker::Down { node, elsewhere, accepted } => {
                // Volumes may have got places there meanwhile.
                self.engine.known(node)?;
                self.engine.may_replace(node, held.size(), &accepted)?;
                match elsewhere {
                    true => self.engine.start_on(node, held)?,
                    false => self.engine.replace_disk(node, held)?,
                }
                Ok(Wait::NodeUp(node))
            }
            Taker::New(node) => {
                self.engine.add_slot(node, held)?;
                let change = Change::AddNodes(NewNodes::one(NodeId(node as u16)));
                Ok(Wait::DiskAdded(node, self.engine.change(change)))
            }
            Taker::Numbered(node) => {
                self.engine.known(node)?;
                self.engine.start_on(node, held)?;
                Ok(Wait::NodeUp(node))
            }
            Taker::Unnumbered => fail("a disk is made for a node whose number is known"),
        }
    }

    /// A disk has been claimed for a node whose number is not known yet.
    fn ask_for_number(&mut self, conn: usize, held: Held) -> Result<Outcome> {
        let ticket = self.admit_one(conn)?;
        Ok(Outcome::Wait(Wait::DiskAdmitted(Box::new(held), ticket, Instant::now())))
    }
}
