//! What a new process needs: its directory and its disks. All that can be said against it is said
//! before a disk is touched or another process asked; what has been made is taken back unless it is
//! kept.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::units::NodeId;
use weft_member::{Config, Input, Member, Output, Stored, member_of};
use weft_net::identity::{Identity, NodeKey, date};

use super::codec::Codec;
use super::config::Configuration;
use super::disks::{Kept, refuse_same};
use super::found::Invitation;
use super::home;
use super::memory::Memory;
use crate::disk::claim::Claim;
use crate::disk::refuse_among_devices;
use crate::durable::{self, LOCK};
use crate::error::{Error, Result, at, fail};

/// A process that is to be.
pub(super) struct NewProcess<'a> {
    config: &'a Configuration,
    // Goes before the directory that a disk may be in.
    disks: Vec<Claim>,
    dir: NewDirectory,
}

impl<'a> NewProcess<'a> {
    /// Makes the directory, and claims the disks. With `force` also such as hold something.
    pub(super) fn prepare(config: &'a Configuration, force: bool) -> Result<NewProcess<'a>> {
        home::refuse_taken(&config.dir)?;
        refuse_same(&config.disks)?;
        let dir = NewDirectory::make(&config.dir)?;
        let claim = |path: &PathBuf| {
            Claim::new(path, config.disk_size, None, force)?
                .allocated(config.disk_options.preallocate)
        };
        let disks = config.disks.iter().map(claim).collect::<Result<_>>()?;
        Ok(NewProcess { config, disks, dir })
    }

    /// The sizes of its disks.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.disks.iter().map(Claim::size)
    }

    /// Makes the disks of a process that has been admitted, and writes what it must know.
    pub(super) fn settle(
        &mut self,
        invitation: &Invitation,
        stored: Stored,
        key: &NodeKey,
        cluster: u128,
    ) -> Result<()> {
        let (process, nodes) = (NodeId(invitation.node), invitation.nodes());
        if !self.disks.is_empty() && self.disks.len() != nodes.len() {
            return fail(format!(
                "the configuration names {} disks, but the cluster expects {}; repeat it with that many",
                self.disks.len(),
                nodes.len()
            ));
        }
        check_certificate(invitation, key)?;
        let dir = &self.config.dir;
        let empty = || Stored::first(member_of(process));
        write_first_log(dir, if stored.is_empty() { empty() } else { stored })?;
        let kept = Kept::of(&nodes, &self.config.disks);
        home::write_known(dir, process, kept, invitation.peers.clone())?;
        for (disk, node) in self.disks.iter_mut().zip(nodes) {
            disk.make(cluster, NodeId(node), 0)?;
        }
        // The identity comes last: it says that the rest is there.
        Identity::save(dir, &invitation.ca, &invitation.certificate, key)
            .map_err(|e| Error(e.to_string()))
    }

    /// Takes it all back but for a file of the directory.
    pub(super) fn keep_only(self, name: &str) {
        // Those may be in the directory.
        drop(self.disks);
        self.dir.keep_only(name);
    }

    /// Leaves it as it has been made.
    pub(super) fn keep(self) {
        self.disks.into_iter().for_each(Claim::keep);
        self.dir.keep();
    }
}

/// Refuses a certificate that nothing could be done with.
fn check_certificate(invitation: &Invitation, key: &NodeKey) -> Result<()> {
    let identity = Identity::new(&invitation.ca, &invitation.certificate, key)
        .map_err(|e| Error(e.to_string()))?;
    let (until, now) = (identity.until(), identity.now());
    match until <= now {
        true => fail(format!(
            "the certificate for this node expired on {}, and the clock here is at {}: correct the wrong clock, here or where \
             the authority's key is",
            date(until),
            date(now)
        )),
        false => Ok(()),
    }
}

/// The log of a member that has not run yet. From now on its absence means that it is lost.
pub(super) fn write_first_log(dir: &Path, stored: Stored) -> Result<()> {
    let Some(id) = stored.member() else { return fail("a log has an owner") };
    let mut member = Member::new(id, &[], stored, Config::default(), Arc::new(Codec))
        .map_err(|e| Error(e.to_string()))?;
    let mut out = Vec::new();
    member.handle(0, Input::Tick, &mut out);
    let first = out.iter().find_map(|o| match o {
        Output::Persist(_, persist) => Some(persist),
        _ => None,
    });
    match first {
        Some(persist) => Memory::new(dir, id)?.write(persist),
        None => fail("a new member has no entries"),
    }
}

/// A directory for new files. Unless it is kept, those go, and the directory if it was made too.
pub struct NewDirectory {
    path: PathBuf,
    /// Directories above it that were made, the uppermost first.
    above: Vec<PathBuf>,
    /// What was in it; nothing is known of one that was made.
    before: Option<BTreeSet<OsString>>,
    kept: bool,
}

impl NewDirectory {
    /// The directory at a path, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be made or read.
    pub fn make(path: &Path) -> Result<NewDirectory> {
        refuse_among_devices(&path.join(LOCK))?;
        let before = match names(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            names => Some(names.map_err(at("read", path))?),
        };
        let ancestors = path.ancestors().skip(1);
        let missing = ancestors.take_while(|a| !a.as_os_str().is_empty() && !a.exists());
        let mut above: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        above.reverse();
        let new = NewDirectory { path: path.to_path_buf(), above, before, kept: false };
        durable::make_private_directory(path).map_err(at("create the directory", path))?;
        Ok(new)
    }

    /// Leaves it, and what is in it.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Leaves it and a file of it, and takes back what else is new in it.
    pub(super) fn keep_only(mut self, name: &str) {
        self.before.get_or_insert_default().insert(name.into());
    }

    fn take_back(&self) -> io::Result<()> {
        let Some(before) = &self.before else {
            fs::remove_dir_all(&self.path)?;
            return self.above.iter().rev().try_for_each(fs::remove_dir);
        };
        let mut new = names(&self.path)?.into_iter().filter(|name| !before.contains(name));
        new.try_for_each(|name| fs::remove_file(self.path.join(name)))
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.kept {
            // What went wrong first is what is told.
            let _ = self.take_back();
        }
    }
}

fn names(dir: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(dir)?.map(|entry| entry.map(|e| e.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use weft_net::identity::{CertificateAuthority, Clock, ClusterId, LIFE};

    use super::*;

    #[test]
    fn a_certificate_that_has_lapsed_is_refused_before_anything_is_made() {
        let authority = CertificateAuthority::create(ClusterId(7)).unwrap();
        let key = NodeKey::generate().unwrap();
        let (name, now) = ("n1".parse().unwrap(), Clock::system().now());
        let invitation = |now| Invitation {
            ca: authority.pem().to_string(),
            certificate: authority.admit(&name, &key.public(), now, LIFE).unwrap(),
            node: 1,
            disks: Vec::new(),
            peers: Vec::new(),
        };
        check_certificate(&invitation(now), &key).unwrap();
        let old = check_certificate(&invitation(1_600_000_000), &key).unwrap_err();
        assert!(old.0.contains("expired on 2021-09-14") && old.0.contains("clock"), "{old}");
        let other = NodeKey::generate().unwrap();
        assert!(check_certificate(&invitation(now), &other).is_err(), "for another key");
    }

    #[test]
    fn what_is_not_kept_of_a_directory_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("a/b/one"), dir.path().join("a/b/two"));
        let first = NewDirectory::make(&one).unwrap();
        let second = NewDirectory::make(&two).unwrap();
        fs::write(two.join("new"), "x").unwrap();
        drop(second);
        assert!(one.is_dir() && !two.exists());
        drop(first);
        assert!(!dir.path().join("a").exists());

        fs::write(dir.path().join("old"), "x").unwrap();
        let again = NewDirectory::make(dir.path()).unwrap();
        fs::write(dir.path().join("new"), "x").unwrap();
        drop(again);
        assert_eq!(names(dir.path()).unwrap().into_iter().collect::<Vec<_>>(), ["old"]);
        NewDirectory::make(&one).unwrap().keep();
        assert!(one.is_dir());
        let left = NewDirectory::make(&two).unwrap();
        fs::write(two.join("stays"), "x").unwrap();
        fs::write(two.join("goes"), "x").unwrap();
        left.keep_only("stays");
        assert_eq!(names(&two).unwrap().into_iter().collect::<Vec<_>>(), ["stays"]);
        fs::write(dir.path().join("file"), "x").unwrap();
        assert!(NewDirectory::make(&dir.path().join("file/below")).is_err());
    }
}
