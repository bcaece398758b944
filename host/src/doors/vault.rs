//! Keys that seal the CHAP secrets of hosts, so that copies of the map do not disclose them.
//!
//! The map is on every disk; a key is only in the directories of the cluster's processes, and travels between them
//! over their own connections. The process at which the first secret is set makes one, and the others ask for it
//! when they see a secret that is sealed with it. All secrets are sealed with the same key, unless two processes have
//! made one each at the same time: so there may be several.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use weft_core::cluster::{ClusterMap, SealedSecret};

use super::secret::Secrets;
use crate::durable::{is_there, replace};
use crate::error::{Error, Result, at, fail};
use crate::hex::{hex, unhex};

/// The file with the keys, and its spare.
const FILE: &str = "secrets.key";
const SPARE: &str = "secrets.key.new";

/// Digested with a key to get its number.
const NUMBER: &[u8] = b"weft: the number of a key for secrets of hosts";

type Key = [u8; 32];

/// The keys of a process.
pub(crate) struct Vault {
    dir: PathBuf,
    cluster: u128,
    keys: Mutex<BTreeMap<u64, Key>>,
}

impl Vault {
    /// The keys in the directory of a process.
    pub(crate) fn open(dir: &Path, cluster: u128) -> Result<Vault> {
        let path = dir.join(FILE);
        let text = match is_there(&path)? {
            true => std::fs::read_to_string(&path).map_err(at("read", &path))?,
            false => String::new(),
        };
        let key = |line: &str| {
            let key: Option<Key> = unhex(line).and_then(|bytes| bytes.try_into().ok());
            key.map(|key| (number(&key), key)).ok_or_else(|| {
                Error(format!(
                    "{} is damaged: a line of it is not a key; remove it, and the other processes give theirs, or set the secrets of \
                     hosts again (`weft host secret`)",
                    path.display()
                ))
            })
        };
        let keys = text.lines().map(key).collect::<Result<_>>()?;
        Ok(Vault { dir: dir.to_path_buf(), cluster, keys: Mutex::new(keys) })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key by its number, for another process.
    pub(crate) fn key(&self, number: u64) -> Option<String> {
        self.lock().get(&number).map(|key| hex(key))
    }

    /// Keeps a key received from another process. Returns whether it is new here.
    pub(crate) fn keep(&self, asked: u64, text: &str) -> Result<bool> {
        let Some(key) = unhex(text).and_then(|bytes| Key::try_from(bytes).ok()) else {
            return fail("what a process gave is not a key for secrets");
        };
        if number(&key) != asked {
            return fail("a process gave another key for secrets than it was asked for");
        }
        let mut keys = self.lock();
        let is_new = !keys.contains_key(&asked);
        if is_new {
            self.add(&mut keys, key)?;
        }
        Ok(is_new)
    }

    fn add(&self, keys: &mut BTreeMap<u64, Key>, key: Key) -> Result<u64> {
        let number = number(&key);
        let all = keys.values().chain([&key]);
        let text: String = all.map(|key| hex(key) + "\n").collect();
        replace(&self.dir.join(FILE), &self.dir.join(SPARE), text.as_bytes())?;
        keys.insert(number, key);
        Ok(number)
    }

    /// The numbers of missing keys: those that secrets of the map are sealed with.
    pub(crate) fn missing(&self, map: &ClusterMap) -> BTreeSet<u64> {
        let keys = self.lock();
        let used = map.hosts.values().filter_map(|host| Some(host.secret.as_ref()?.key));
        used.filter(|key| !keys.contains_key(key)).collect()
    }

    /// Seals a host's secrets, with the map's key if it is here, else with another key of this process or a new one.
    pub(crate) fn seal(
        &self,
        map: &ClusterMap,
        host: &str,
        secrets: &Secrets,
    ) -> Result<SealedSecret> {
        let mut keys = self.lock();
        let used = map.hosts.values().filter_map(|host| Some(host.secret.as_ref()?.key));
        let usual = used.filter(|key| keys.contains_key(key)).min();
        let number = match usual.or(keys.keys().next().copied()) {
            Some(number) => number,
            None => self.add(&mut keys, random()?)?,
        };
        let (mutual, nonce) = (secrets.is_mutual(), random::<NONCE_LEN>()?);
        let mut bytes = secrets.to_bytes();
        let aad = Aad::from(self.bound_to(host, mutual));
        let sealed = cipher(&keys[&number]).seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            aad,
            &mut bytes,
        );
        sealed.map_err(|_| Error("the secret cannot be sealed".to_string()))?;
        Ok(SealedSecret { key: number, mutual, bytes: [&nonce[..], &bytes].concat() })
    }

    /// Opens a host's secrets, if the key is here and the sealed form is intact.
    pub(crate) fn open_sealed(&self, host: &str, sealed: &SealedSecret) -> Result<Secrets> {
        let keys = self.lock();
        let Some(key) = keys.get(&sealed.key) else {
            return fail(format!(
                "this process does not have the key that the secret of host '{host}' is sealed with, and gets it from the others; if \
                 none has it, set the secret again (`weft host secret {host}`)"
            ));
        };
        let damaged = || {
            Error(format!(
                "the sealed secret of host '{host}' is damaged; set it again (`weft host secret {host}`)"
            ))
        };
        let (nonce, rest) = sealed.bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        let (mut bytes, aad) = (rest.to_vec(), Aad::from(self.bound_to(host, sealed.mutual)));
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = cipher(key).open_in_place(nonce, aad, &mut bytes).map_err(|_| damaged())?;
        Secrets::from_bytes(opened).ok_or_else(damaged)
    }

    /// The context of a sealed secret: it is useless for another host or cluster.
    fn bound_to(&self, host: &str, mutual: bool) -> Vec<u8> {
        [&self.cluster.to_le_bytes()[..], &[u8::from(mutual)], host.as_bytes()].concat()
    }
}

/// The number of a key, which discloses nothing of it. It has 63 bits, as numbers in `weft.toml`.
fn number(key: &Key) -> u64 {
    let digest = ring::digest::digest(&ring::digest::SHA256, &[NUMBER, key].concat());
    let first = digest.as_ref().first_chunk().expect("a digest has 32 bytes");
    u64::from_le_bytes(*first) >> 1
}

fn cipher(key: &Key) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key has 32 bytes"))
}

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error("the system gives no random bytes".to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use weft_core::cluster::{HostChange, LONGEST_SEALED};

    use super::*;

    fn with(secrets: &[(&str, &SealedSecret)]) -> ClusterMap {
        let mut map = ClusterMap::default();
        for (host, sealed) in secrets {
            HostChange::Create(host.to_string()).apply(&mut map);
            HostChange::Secret(host.to_string(), Some((*sealed).clone())).apply(&mut map);
        }
        map
    }

    #[test]
    fn what_is_sealed_is_opened_by_who_has_the_key() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vault = Vault::open(ours.path(), 7).unwrap();
        let secrets = Secrets::parse("twelve bytes", Some("another secret")).unwrap();
        assert!(!ours.path().join(FILE).exists(), "there is none before it is needed");
        let sealed = vault.seal(&with(&[]), "web", &secrets).unwrap();
        assert!(sealed.mutual && sealed.key <= u64::MAX >> 1);
        assert!(!sealed.bytes.windows(6).any(|w| w == b"twelve"));
        assert!(vault.open_sealed("web", &sealed).unwrap() == secrets);
        let mode = ours.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = vault.seal(&with(&[]), "web", &secrets).unwrap();
        assert_eq!(again.key, sealed.key);
        assert_ne!((again.mark(), &again.bytes), (sealed.mark(), &sealed.bytes));
        // Another process gets the key.
        let other = Vault::open(theirs.path(), 7).unwrap();
        let map = with(&[("web", &sealed)]);
        assert_eq!(other.missing(&map), [sealed.key].into());
        assert!(
            other.open_sealed("web", &sealed).err().unwrap().0.contains("does not have the key")
        );
        let key = vault.key(sealed.key).unwrap();
        assert!(other.keep(sealed.key ^ 1, &key).is_err() && other.keep(sealed.key, "00").is_err());
        assert_eq!(other.keep(sealed.key, &key), Ok(true));
        assert_eq!(other.keep(sealed.key, &key), Ok(false));
        let other = Vault::open(theirs.path(), 7).unwrap();
        assert!(other.missing(&map).is_empty() && other.key(sealed.key ^ 1).is_none());
        assert!(other.open_sealed("web", &sealed).unwrap() == secrets);
        assert_eq!(other.seal(&map, "db", &secrets).unwrap().key, sealed.key);
    }

    #[test]
    fn what_was_changed_or_is_for_another_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::open(dir.path(), 7).unwrap();
        let long = |c: &str| c.repeat(255);
        let secrets = Secrets::parse(&long("a"), Some(&long("b"))).unwrap();
        let sealed = vault.seal(&with(&[]), "web", &secrets).unwrap();
        assert!(sealed.bytes.len() <= LONGEST_SEALED, "{}", sealed.bytes.len());
        let damaged = |host: &str, sealed: &SealedSecret| {
            vault.open_sealed(host, sealed).err().is_some_and(|e| e.0.contains("damaged"))
        };
        assert!(damaged("wea", &sealed), "of another host");
        assert!(damaged("web", &SealedSecret { mutual: false, ..sealed.clone() }));
        for n in [0, 20, sealed.bytes.len() - 1] {
            let mut other = sealed.clone();
            other.bytes[n] ^= 1;
            assert!(damaged("web", &other), "byte {n}");
        }
        assert!(damaged("web", &SealedSecret { bytes: vec![1; 11], ..sealed.clone() }));
        let elsewhere = Vault::open(dir.path(), 8).unwrap();
        assert!(elsewhere.open_sealed("web", &sealed).is_err(), "of another cluster");
        std::fs::write(dir.path().join(FILE), "nonsense\n").unwrap();
        assert!(Vault::open(dir.path(), 7).err().unwrap().0.contains("damaged"));
    }
}
