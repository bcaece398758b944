//! What the sequencer knows a host's requests by.
//!
//! The sequencer takes each name once, and counts a request as aborted whose originator was lost:
//! nobody can say whether it will happen. So a request that is given to the nodes a second time, because
//! its host repeats it or its node has stopped, gets another name: the same number, of a host made up
//! for it. What its host says of it is translated here, both ways. To other hosts that name it, it
//! is aborted.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};

use weft_core::node::HostError;
use weft_core::order::{HostId, PlaceError, RequestId};

/// The names of a host's requests.
#[derive(Debug)]
pub(super) struct Names {
    host: HostId,
    /// Whom those belong to that are given to the nodes again from now on.
    alias: HostId,
    /// All that have stood for the host.
    aliases: BTreeSet<HostId>,
    /// The requests that have another name than their host gave them.
    renamed: BTreeMap<u64, HostId>,
}

impl Names {
    pub(super) fn new(host: HostId) -> Names {
        Names { host, alias: host, aliases: BTreeSet::new(), renamed: BTreeMap::new() }
    }

    /// What the nodes know a request by, given what its host calls it.
    pub(super) fn inside(&self, id: RequestId) -> RequestId {
        let ours = Some(id.number).filter(|_| id.host == self.host);
        let host = ours.and_then(|n| self.renamed.get(&n)).copied();
        RequestId { host: host.unwrap_or(id.host), ..id }
    }

    /// What the host calls a request, given what the nodes know it by.
    fn outside(&self, id: RequestId) -> RequestId {
        match self.aliases.contains(&id.host) {
            true => RequestId { host: self.host, ..id },
            false => id,
        }
    }

    /// What the host is told of an error.
    pub(super) fn translate(&self, error: HostError) -> HostError {
        match error {
            HostError::Place(PlaceError::Aborted(id)) => {
                PlaceError::Aborted(self.outside(id)).into()
            }
            HostError::Place(PlaceError::NeverIssued(id)) => {
                PlaceError::NeverIssued(self.outside(id)).into()
            }
            other => other,
        }
    }

    /// A request is given to the nodes again.
    pub(super) fn rename(&mut self, number: u64) {
        let id = self.inside(RequestId { host: self.host, number });
        if id.host == self.alias {
            self.alias = HostId(RandomState::new().build_hasher().finish());
            self.aliases.insert(self.alias);
        }
        self.renamed.insert(number, self.alias);
    }

    /// What is before `oldest` is complete.
    pub(super) fn hear(&mut self, oldest: u64) {
        self.renamed.retain(|number, _| *number >= oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_again_has_another_name_inside_only() {
        let host = HostId(7);
        let id = |number| RequestId { host, number };
        let mut names = Names::new(host);
        assert_eq!(names.inside(id(1)), id(1));
        names.rename(1);
        names.rename(2);
        let (one, two) = (names.inside(id(1)), names.inside(id(2)));
        assert!(one.host != host && one.number == 1 && two.host == one.host);
        assert_eq!(names.inside(id(3)), id(3));
        names.rename(1);
        let again = names.inside(id(1));
        assert!(again.host != one.host && again.host != host, "no name is used twice");
        for inside in [one, two, again] {
            let told = names.translate(PlaceError::Aborted(inside).into());
            assert_eq!(told, PlaceError::Aborted(id(inside.number)).into());
        }
        let stranger = RequestId { host: HostId(8), number: 1 };
        let told = names.translate(PlaceError::NeverIssued(stranger).into());
        assert_eq!(told, PlaceError::NeverIssued(stranger).into());
        names.hear(2);
        assert_eq!((names.inside(id(1)), names.inside(id(2))), (id(1), two));
    }
}
