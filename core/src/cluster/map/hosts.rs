//! Hosts that the cluster knows by name, what proves who they are, and which volumes they may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ClusterMap, Volume};
use crate::units::VolumeId;

/// The most hosts that a map knows.
pub const MOST_HOSTS: usize = 1024;

/// The most bytes that one sealed secret has.
pub const LONGEST_SEALED: usize = 640;

/// The most bytes that the sealed secrets of all hosts have together: a copy of the map must fit on a disk.
pub const MOST_SEALED: usize = 64 << 10;

/// The most certificates by which one host is known.
pub const MOST_CERTIFICATES: usize = 4;

/// The longest name of a host.
const LONGEST_NAME: usize = 32;

/// A host that the cluster knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KnownHost {
    /// The certificates by which a caller proves that it is this host: the one that expires first comes first.
    pub certificates: Vec<Certificate>,
    /// The CHAP secret by which it does so over iSCSI, if it has one.
    pub secret: Option<SealedSecret>,
}

/// A CHAP secret, encrypted with a key that no map has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SealedSecret {
    /// The number of the key.
    pub key: u64,
    /// There is a second secret, by which the target proves itself to the host.
    pub mutual: bool,
    /// The encrypted bytes, which end with an authentication tag.
    pub bytes: Vec<u8>,
}

impl SealedSecret {
    /// What tells it from others, also from one with the same secret that was sealed at another time: its tag.
    pub fn mark(&self) -> u128 {
        self.bytes.last_chunk().map_or(0, |tag| u128::from_le_bytes(*tag))
    }
}

impl KnownHost {
    /// Its certificate for a key, if it is known by that one.
    pub fn certificate_of(&self, key: u128) -> Option<Certificate> {
        self.certificates.iter().copied().find(|certificate| certificate.key == key)
    }

    /// The certificate that expires last, if it has any.
    pub fn newest(&self) -> Option<Certificate> {
        self.certificates.last().copied()
    }

    /// A host is known by one more certificate. If there are too many, the one that expires first is no longer valid. Returns
    /// whether one that was valid is not any more.
    fn certify(&mut self, certificate: Certificate) -> bool {
        let before = self.certificates.clone();
        self.certificates.retain(|other| other.key != certificate.key);
        self.certificates.push(certificate);
        self.certificates.sort_by_key(|one| (one.until, one.key));
        let surplus = self.certificates.len().saturating_sub(MOST_CERTIFICATES);
        self.certificates.drain(..surplus);
        before.iter().any(|one| !self.certificates.contains(one))
    }
}

/// A certificate by which a host is known. Others of its name are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Certificate {
    /// A digest of its public key.
    pub key: u128,
    /// Until when it is good, in seconds since 1970.
    pub until: u64,
}

/// What a host may do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Read it.
    ReadOnly,
    /// Read and write it.
    Full,
}

impl Access {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Access::ReadOnly => "read-only",
            Access::Full => "read-write",
        }
    }
}

/// The hosts that may use a volume, by name, and what they may do.
pub type HostList = BTreeMap<String, Access>;

/// What an operator changes of known hosts and their rights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostChange {
    /// A host gets a name. It is not done if there is one of that name.
    Create(String),
    /// A host is known by this certificate, too. It is not done if there is no such host.
    Certify(String, Certificate),
    /// A host is known by this certificate from now on, and by no other. It is not done if there is no such host.
    CertifyAlone(String, Certificate),
    /// A host has this CHAP secret from now on, or none. It is not done if there is no such host, or no room for it.
    Secret(String, Option<SealedSecret>),
    /// A host is known no more, and is on no volume's list.
    Delete(String),
    /// A host may use a volume, which from then on serves nobody who is not on its list. It is not done if there is no
    /// such host or volume.
    Allow(VolumeId, String, Access),
    /// A host may not use a volume with a list any more, nor its snapshots. The list stays, though it be empty.
    Deny(VolumeId, String),
    /// A volume serves all again, and has no list.
    AllowAll(VolumeId),
}

/// Whether a host can have this name: 1 to 32 lower-case letters, digits and hyphens, as processes' names.
pub fn is_host_name(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(known)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

impl Volume {
    /// What a host may do with it: one that the cluster knows under this name, or one that it does not know. None if
    /// it may not use it. Snapshots are only read.
    pub fn access_of(&self, host: Option<&str>) -> Option<Access> {
        let access = match &self.hosts {
            None => Access::Full,
            Some(list) => *list.get(host?)?,
        };
        Some(access.min(self.most_access()))
    }

    /// A host gets a place on the list, or another right there. If others may do less from then on, or the host
    /// itself, earlier permissions are void.
    fn allow(&mut self, name: &str, access: Access) {
        let is_first = self.hosts.is_none();
        let before = self.hosts.get_or_insert_default().insert(name.to_string(), access);
        if is_first || before > Some(access) {
            self.reservations.version += 1;
        }
    }

    /// A host loses its place on the list, and earlier permissions are void.
    fn deny(&mut self, name: &str) {
        let was = self.hosts.as_mut().and_then(|list| list.remove(name));
        self.reservations.version += u64::from(was.is_some());
    }

    /// The most that any host may do with it.
    pub fn most_access(&self) -> Access {
        match self.is_snapshot() {
            true => Access::ReadOnly,
            false => Access::Full,
        }
    }
}

impl HostChange {
    /// Makes it, if it makes sense.
    pub fn apply(&self, map: &mut ClusterMap) {
        match self {
            HostChange::Create(name) => {
                if is_host_name(name) && map.hosts.len() < MOST_HOSTS {
                    map.hosts.entry(name.clone()).or_default();
                }
            }
            HostChange::Certify(name, certificate) => {
                let known = map.hosts.get_mut(name);
                if known.is_some_and(|host| host.certify(*certificate)) {
                    map.void_permissions_of(name);
                }
            }
            HostChange::CertifyAlone(name, certificate) => {
                if let Some(host) = map.hosts.get_mut(name) {
                    let had_others = host.certificates.iter().any(|one| one != certificate);
                    host.certificates = vec![*certificate];
                    if had_others {
                        map.void_permissions_of(name);
                    }
                }
            }
            HostChange::Secret(name, secret) => {
                if !map.has_room_for(name, secret.as_ref()) {
                    return;
                }
                if let Some(host) = map.hosts.get_mut(name) {
                    let had_another = host.secret.is_some() && host.secret != *secret;
                    host.secret = secret.clone();
                    if had_another {
                        map.void_permissions_of(name);
                    }
                }
            }
            HostChange::Delete(name) => {
                if map.hosts.remove(name).is_some() {
                    map.void_permissions_of(name);
                }
                let lists = |v: &&mut Arc<Volume>| {
                    v.hosts.as_ref().is_some_and(|list| list.contains_key(name))
                };
                for volume in map.volumes.values_mut().filter(lists) {
                    Arc::make_mut(volume).deny(name);
                }
            }
            HostChange::Allow(id, name, access) => {
                if map.hosts.contains_key(name) {
                    map.allow(*id, name, *access);
                }
            }
            HostChange::Deny(id, name) => {
                let concerns = |v: &&mut Arc<Volume>| v.id == *id || v.is_snapshot_of(*id);
                for volume in map.volumes.values_mut().filter(concerns) {
                    Arc::make_mut(volume).deny(name);
                }
            }
            HostChange::AllowAll(id) => {
                if let Some(volume) = map.volumes.get_mut(id) {
                    Arc::make_mut(volume).hosts = None;
                }
            }
        }
    }
}

impl ClusterMap {
    /// A host may use a volume. With the first on its list the volume serves nobody else, and its snapshots likewise: they show
    /// what it had.
    fn allow(&mut self, id: VolumeId, name: &str, access: Access) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let is_first = volume.hosts.is_none();
        Arc::make_mut(volume).allow(name, access);
        let follows = |v: &&mut Arc<Volume>| is_first && v.is_snapshot_of(id) && v.hosts.is_none();
        for snapshot in self.volumes.values_mut().filter(follows) {
            Arc::make_mut(snapshot).allow(name, access);
        }
    }

    /// Whether a host can get this secret: the map does not become too large by it.
    pub fn has_room_for(&self, name: &str, secret: Option<&SealedSecret>) -> bool {
        let others = self.hosts.iter().filter(|(other, _)| *other != name);
        let others: usize = others.map(|(_, host)| sealed_bytes(host.secret.as_ref())).sum();
        let new = sealed_bytes(secret);
        new <= LONGEST_SEALED && others + new <= MOST_SEALED
    }

    /// A proof of a host is no longer valid. Permissions given for it are void, on each volume that the host may use: requests
    /// begun before are looked at again.
    fn void_permissions_of(&mut self, name: &str) {
        let may_use = |v: &&mut Arc<Volume>| v.access_of(Some(name)).is_some();
        for volume in self.volumes.values_mut().filter(may_use) {
            Arc::make_mut(volume).reservations.version += 1;
        }
    }

    /// The first fault found in the hosts, if any.
    pub(super) fn wrong_with_hosts(&self) -> Option<String> {
        if let Some(name) = self.hosts.keys().find(|name| !is_host_name(name)) {
            return Some(format!("'{name}' is not a valid name of a host"));
        }
        if self.hosts.len() > MOST_HOSTS {
            return Some(format!("there are {} hosts, and {MOST_HOSTS} at most", self.hosts.len()));
        }
        let secrets = self.hosts.values().map(|host| sealed_bytes(host.secret.as_ref()));
        if secrets.sum::<usize>() > MOST_SEALED {
            return Some(format!("the secrets of hosts have more than {MOST_SEALED} bytes"));
        }
        let listed = self.volumes.values().flat_map(|v| v.hosts.iter().flat_map(|l| l.keys()));
        let mut unknown = listed.filter(|name| !self.hosts.contains_key(*name));
        unknown.next().map(|name| format!("a volume lists the host '{name}', which is not known"))
    }
}

fn sealed_bytes(secret: Option<&SealedSecret>) -> usize {
    secret.map_or(0, |sealed| sealed.bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Lineage, Snapshot};
    use crate::layout::{Geometry, LayoutSpec};

    const ID: VolumeId = VolumeId(3);

    fn map() -> ClusterMap {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let volume = Volume::new(ID, "v", 0, &spec, geometry, Vec::new());
        let volumes = [(ID, Arc::new(volume))].into();
        ClusterMap { volumes, ..ClusterMap::default() }
    }

    fn with(changes: &[HostChange]) -> ClusterMap {
        let mut map = map();
        for change in changes {
            change.apply(&mut map);
            assert_eq!(map.wrong_with_hosts(), None);
        }
        map
    }

    fn of(map: &ClusterMap, host: Option<&str>) -> Option<Access> {
        map.volumes[&ID].access_of(host)
    }

    /// A volume and two snapshots: of before it had a list, and of another volume.
    fn with_snapshots() -> ClusterMap {
        let mut map = map();
        for (number, of) in [(4, ID), (5, VolumeId(9))] {
            let id = VolumeId(number);
            let snapshot = Snapshot { of, taken: 0, source: None, scheduled: None };
            let lineage = Lineage { snapshot: Some(snapshot), ..Lineage::default() };
            let volume = Volume { id, lineage, ..Volume::clone(&map.volumes[&ID]) };
            map.volumes.insert(id, Arc::new(volume));
        }
        map
    }

    #[test]
    fn who_may_use_a_volume_may_use_its_snapshots_and_nobody_else() {
        use HostChange::*;
        let name = || "a".to_string();
        let mut map = with_snapshots();
        let access = |map: &ClusterMap, id: u32, host: &str| {
            map.volumes[&VolumeId(id)].access_of(Some(host))
        };
        [Create(name()), Create("b".into()), Allow(ID, name(), Access::Full)]
            .iter()
            .for_each(|change| change.apply(&mut map));
        assert_eq!(access(&map, 4, "a"), Some(Access::ReadOnly));
        assert_eq!(access(&map, 4, "b"), None, "the snapshot has a list, too");
        assert_eq!(access(&map, 5, "b"), Some(Access::ReadOnly), "it is another volume's");
        Allow(ID, "b".into(), Access::Full).apply(&mut map);
        assert_eq!(access(&map, 4, "b"), None, "of before it had a right");
        Allow(VolumeId(4), "b".into(), Access::ReadOnly).apply(&mut map);
        let before = map.volumes[&VolumeId(4)].reservations.version;
        Deny(ID, "b".into()).apply(&mut map);
        assert_eq!([3, 4].map(|id| access(&map, id, "b")), [None, None]);
        assert_eq!(map.volumes[&VolumeId(4)].reservations.version, before + 1);
        assert_eq!(access(&map, 4, "a"), Some(Access::ReadOnly));
    }

    /// Requests that were permitted to whoever had the proof are looked at again.
    #[test]
    fn a_proof_that_is_no_longer_valid_voids_what_it_permitted() {
        use HostChange::*;
        let certificate = |key| Certificate { key, until: 1000 + key as u64 };
        let name = || "a".to_string();
        let version = |changes: &[HostChange]| with(changes).volumes[&ID].reservations.version;
        let mut changes = vec![Create(name())];
        for key in 0..MOST_CERTIFICATES as u128 {
            changes.push(Certify(name(), certificate(key)));
        }
        let before = version(&changes);
        let then = |change| version(&[&changes[..], &[change]].concat());
        assert_eq!(then(Certify(name(), certificate(1))), before, "the same one");
        assert_eq!(then(Certify(name(), certificate(99))), before + 1);
        assert_eq!(then(CertifyAlone(name(), certificate(99))), before + 1);
        assert_eq!(then(Secret(name(), None)), before, "it has none");
        assert_eq!(then(Delete(name())), before + 1);
        assert_eq!(then(Delete("b".to_string())), before, "there is none");
        // Whoever asked for a change sees that it was made by making it again.
        let secret = SealedSecret { key: 1, mutual: false, bytes: vec![1] };
        let secret = Secret(name(), Some(secret));
        assert_eq!(then(secret.clone()), before, "it had none");
        changes.push(secret.clone());
        assert_eq!(version(&[&changes[..], &[Secret(name(), None)]].concat()), before + 1);
        for change in [
            Certify(name(), certificate(99)),
            CertifyAlone(name(), certificate(99)),
            secret,
            Delete(name()),
        ] {
            let once = with(&[&changes[..], std::slice::from_ref(&change)].concat());
            let mut twice = once.clone();
            change.apply(&mut twice);
            assert_eq!(once, twice, "{change:?}");
        }
        // A volume that does not list the host permitted it nothing.
        changes.extend([Create("b".to_string()), Allow(ID, "b".to_string(), Access::Full)]);
        let before = version(&changes);
        assert_eq!(version(&[&changes[..], &[Delete(name())]].concat()), before);
    }

    #[test]
    fn a_volume_with_a_list_serves_nobody_else() {
        use HostChange::*;
        let name = |n: &str| n.to_string();
        let mut changes = vec![Create(name("a")), Create(name("b"))];
        let map = with(&changes);
        assert_eq!((of(&map, None), of(&map, Some("a"))), (Some(Access::Full), Some(Access::Full)));
        changes.push(Allow(ID, name("a"), Access::Full));
        changes.push(Allow(ID, name("b"), Access::ReadOnly));
        let map = with(&changes);
        assert_eq!((of(&map, None), of(&map, Some("c"))), (None, None));
        assert_eq!(of(&map, Some("a")), Some(Access::Full));
        assert_eq!(of(&map, Some("b")), Some(Access::ReadOnly));
        changes.extend([Deny(ID, name("a")), Delete(name("b"))]);
        let map = with(&changes);
        assert_eq!((of(&map, None), of(&map, Some("a"))), (None, None), "an empty list is a list");
        changes.push(AllowAll(ID));
        assert_eq!(of(&with(&changes), None), Some(Access::Full));
    }

    /// So earlier writes are not attempted again before their right has been checked.
    #[test]
    fn what_takes_a_right_away_is_a_new_version_of_the_reservations() {
        use HostChange::*;
        let name = |n: &str| n.to_string();
        let mut map = map();
        let mut is_new = |change: HostChange| {
            let before = map.volumes[&ID].reservations.version;
            change.apply(&mut map);
            map.volumes[&ID].reservations.version > before
        };
        for host in ["a", "b", "c"] {
            assert!(!is_new(Create(name(host))));
        }
        assert!(is_new(Allow(ID, name("a"), Access::ReadOnly)), "it served all before");
        assert!(!is_new(Allow(ID, name("a"), Access::Full)));
        assert!(!is_new(Allow(ID, name("b"), Access::Full)));
        assert!(!is_new(Allow(ID, name("b"), Access::Full)), "nothing has changed");
        assert!(is_new(Allow(ID, name("b"), Access::ReadOnly)));
        assert!(is_new(Deny(ID, name("a"))));
        assert!(!is_new(Deny(ID, name("a"))), "it is not there");
        assert!(!is_new(Delete(name("c"))), "it was on no list");
        assert!(is_new(Delete(name("b"))));
        assert!(!is_new(AllowAll(ID)));
    }

    #[test]
    fn what_makes_no_sense_is_not_done() {
        use HostChange::*;
        let name = |n: &str| n.to_string();
        let certificate = Certificate { key: 7, until: 9 };
        assert_eq!(with(&[Create(name("A b"))]), map());
        assert_eq!(with(&[Allow(ID, name("a"), Access::Full)]), map());
        assert_eq!(with(&[Certify(name("a"), certificate)]), map());
        assert_eq!(with(&[Deny(ID, name("a")), Deny(VolumeId(9), name("a"))]), map());
        let sealed = |len| Some(SealedSecret { key: 1, mutual: false, bytes: vec![3; len] });
        assert_eq!(with(&[Secret(name("a"), sealed(60))]), map());
        assert_eq!(
            with(&[Create(name("a")), Secret(name("a"), sealed(LONGEST_SEALED + 1))]),
            with(&[Create(name("a"))])
        );
        let again = with(&[Create(name("a")), Certify(name("a"), certificate), Create(name("a"))]);
        assert_eq!(again.hosts["a"].certificates, [certificate], "it is not made twice");
    }

    #[test]
    fn a_host_is_known_by_several_certificates_until_the_others_are_revoked() {
        let name = || "a".to_string();
        let one = |n: u64| Certificate { key: u128::from(n), until: 100 + n };
        let certify = |n: u64| HostChange::Certify(name(), one(n));
        let create = HostChange::Create(name());
        let map = with(&[create.clone(), certify(2), certify(1), certify(2)]);
        let host = &map.hosts["a"];
        assert_eq!(
            host.certificates,
            [one(1), one(2)],
            "each once, in the order in which they expire"
        );
        assert_eq!((host.newest(), host.certificate_of(1)), (Some(one(2)), Some(one(1))));
        assert_eq!((KnownHost::default().newest(), host.certificate_of(3)), (None, None));
        // Of too many those stay that are valid for longest.
        let many: Vec<HostChange> = (1..=6).rev().map(certify).collect();
        let map = with(&[&[create.clone()][..], &many].concat());
        assert_eq!(map.hosts["a"].certificates, [one(3), one(4), one(5), one(6)]);
        let alone = HostChange::CertifyAlone(name(), one(2));
        assert_eq!(with(std::slice::from_ref(&alone)).hosts.len(), 0, "there is no such host");
        let map = with(&[&[create][..], &many, &[alone]].concat());
        assert_eq!(map.hosts["a"].certificates, [one(2)]);
    }

    #[test]
    fn a_secret_comes_and_goes_and_all_of_them_have_a_bound() {
        let name = |n: usize| format!("h{n}");
        let sealed = |n: u8| SealedSecret { key: 1, mutual: false, bytes: vec![n; LONGEST_SEALED] };
        let create = HostChange::Create(name(0));
        let given = HostChange::Secret(name(0), Some(sealed(7)));
        let map = with(&[create.clone(), given.clone()]);
        assert_eq!(map.hosts["h0"].secret, Some(sealed(7)));
        assert_ne!(sealed(7).mark(), sealed(8).mark());
        let gone = with(&[create.clone(), given, HostChange::Secret(name(0), None)]);
        assert_eq!(gone.hosts, with(&[create]).hosts);
        let fits = MOST_SEALED / LONGEST_SEALED;
        let of =
            |n: usize| [HostChange::Create(name(n)), HostChange::Secret(name(n), Some(sealed(1)))];
        let full = with(&(0..=fits).flat_map(of).collect::<Vec<_>>());
        assert_eq!(full.hosts.values().filter(|host| host.secret.is_some()).count(), fits);
        assert!(full.has_room_for("h0", Some(&sealed(2))), "instead of its own");
    }
}
