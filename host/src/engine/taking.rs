//! Disks that are taken for nodes. A disk may not answer for minutes, so a thread of its own opens, judges and formats it,
//! and the nodes go on meanwhile.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use weft_core::units::NodeId;

use super::Engine;
use crate::disk::claim::{Claim, Claimer};
use crate::disk::handle::Aside;
use crate::error::{Result, fail};

/// How long a disk may take to be opened and judged.
const CLAIMS_WITHIN: Duration = Duration::from_secs(20);

/// How long it may take to be made an empty one.
const MAKES_WITHIN: Duration = Duration::from_secs(300);

/// How long it is waited until a claim is given back.
const GIVES_BACK_WITHIN: Duration = Duration::from_millis(300);

/// A node's disk is being exchanged: the node does not start as long as this lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<()>);

/// Whether a disk is being taken for a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct IsTaken(Weak<()>);

impl IsTaken {
    /// Whether it is at this moment.
    pub(crate) fn now(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// A disk that was claimed for a node. If it is not kept, a thread of its own gives it back.
#[derive(Debug)]
pub(crate) struct Held {
    claim: Option<Claim>,
    taken: Taken,
}

impl Held {
    /// Where the disk is.
    pub(crate) fn path(&self) -> PathBuf {
        self.claim().path().to_path_buf()
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.claim().size()
    }

    /// Leaves there what has been made.
    pub(super) fn keep(mut self) {
        if let Some(claim) = self.claim.take() {
            claim.keep();
        }
    }

    fn claim(&self) -> &Claim {
        self.claim.as_ref().expect("it is not kept yet")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let held = Mutex::new(Some((claim, self.taken.clone())));
        let give_back = move || drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
        Aside::begin(give_back).within(GIVES_BACK_WITHIN);
    }
}

/// A disk that is being claimed, or made an empty one.
#[derive(Debug)]
pub(crate) struct Taking {
    aside: Aside<Result<Held>>,
    path: PathBuf,
    since: Instant,
    /// Whether it has been claimed, and is being made an empty one.
    pub(crate) makes: bool,
}

impl Taking {
    /// Begins to claim the disk at a path.
    fn claim(path: &Path, claimer: Claimer, taken: Taken) -> Taking {
        let claim = move || {
            let claim = claimer()?;
            Ok(Held { claim: Some(claim), taken: taken.clone() })
        };
        Taking {
            aside: Aside::begin(claim),
            path: path.to_path_buf(),
            since: Instant::now(),
            makes: false,
        }
    }

    /// Begins to make a disk that was claimed the empty one of a node.
    fn make(held: Held, cluster: u128, node: NodeId, needed: u64) -> Taking {
        let path = held.path();
        let held = Mutex::new(Some(held));
        let make = move || {
            let taken = held.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut held) = taken else { return fail("it is made once") };
            if let Some(claim) = &mut held.claim {
                claim.make(cluster, node, needed)?;
            }
            Ok(held)
        };
        Taking { aside: Aside::begin(make), path, since: Instant::now(), makes: true }
    }

    /// Where the disk is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What came of it, if that is known; an error, if it takes too long.
    pub(crate) fn result(&self) -> Option<Result<Held>> {
        if let Some(result) = self.aside.within(Duration::ZERO) {
            return Some(result);
        }
        let (most, what) = match self.makes {
            false => (CLAIMS_WITHIN, "nothing was changed"),
            true => (MAKES_WITHIN, "it may be an empty disk by now"),
        };
        let path = self.path.display();
        let late = format!(
            "{path} has not answered for {} s, and {what}; choose another disk, or try again when it answers",
            most.as_secs()
        );
        (self.since.elapsed() >= most).then(|| fail(late))
    }
}

impl Engine {
    /// Begins to claim the disk at a path: for this node, which is down or to be added, or for one without a number yet.
    pub(crate) fn claim_disk(&mut self, n: Option<usize>, path: &Path, claimer: Claimer) -> Taking {
        let taken = Taken::default();
        let is_taken = IsTaken(Arc::downgrade(&taken.0));
        match n.map(|n| self.instances.get_mut(n)) {
            Some(Some(instance)) => instance.is_taken = is_taken,
            Some(None) => self.is_adding = is_taken,
            None => {}
        }
        Taking::claim(path, claimer, taken)
    }

    /// Whether a disk is being taken for a node that will be added. Another would get the same number.
    pub(crate) fn is_adding(&self) -> bool {
        self.is_adding.now()
    }

    /// Begins to make a disk that was claimed the empty one of a node that is down, or of a new one.
    pub(crate) fn make_disk(&mut self, n: usize, held: Held) -> Taking {
        if let Some(instance) = self.instances.get_mut(n) {
            instance.is_taken = IsTaken(Arc::downgrade(&held.taken.0));
        }
        let node = NodeId(n as u16);
        let needed = self.map().needed_on(node);
        Taking::make(held, self.rule.cluster(), node, needed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const SIZE: u64 = 16 << 20;

    fn wait(taking: &Taking) -> Result<Held> {
        loop {
            match taking.result() {
                Some(result) => return result,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Waits until nobody holds it any more: a claim may be given back late.
    fn is_over(taken: &IsTaken) {
        let since = Instant::now();
        while taken.now() {
            assert!(since.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_disk_is_claimed_made_and_kept_or_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        for kept in [false, true] {
            let taken = Taken::default();
            let is_taken = IsTaken(Arc::downgrade(&taken.0));
            let there = path.clone();
            let claimer: Claimer = Box::new(move || Claim::new(&there, Some(SIZE), None, false));
            let held = wait(&Taking::claim(&path, claimer, taken)).unwrap();
            assert!(is_taken.now() && !path.exists());
            let held = wait(&Taking::make(held, 7, NodeId(2), 0)).unwrap();
            assert!(is_taken.now() && held.size() == SIZE);
            match kept {
                true => held.keep(),
                false => drop(held),
            }
            is_over(&is_taken);
            assert_eq!(path.exists(), kept);
        }
    }

    #[test]
    fn what_answers_too_late_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let (go, hangs) = channel::<()>();
        let (there, hangs) = (path.clone(), Mutex::new(hangs));
        let claimer: Claimer = Box::new(move || {
            let _ = hangs.lock().unwrap().recv();
            Claim::new(&there, Some(SIZE), None, false)
        });
        let taken = Taken::default();
        let is_taken = IsTaken(Arc::downgrade(&taken.0));
        let mut taking = Taking::claim(&path, claimer, taken);
        assert!(taking.result().is_none());
        let Some(long_ago) = Instant::now().checked_sub(CLAIMS_WITHIN) else { return };
        taking.since = long_ago;
        let late = taking.result().unwrap().unwrap_err().to_string();
        assert!(late.contains("has not answered for 20 s, and nothing was changed"), "{late}");
        drop(taking);
        assert!(is_taken.now(), "its thread is not done");
        go.send(()).unwrap();
        is_over(&is_taken);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
