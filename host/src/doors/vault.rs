//! Keys that seal the CHAP secrets of hosts, so that copies of the map do not disclose them.
//!
//! The map is on every disk; a key is only in the directories of the cluster's processes, and travels between them
//! over their own connections. The process at which the first secret is set makes one, and the others ask for it
//! when they see a secret that is sealed with it. All secrets are sealed with the same key, unless two processes have
//! made one each at the same time: so there may be several.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

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

/// Has whoever waits look again.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The keys of a process, and the thread that writes their file.
pub(crate) struct Vault {
    cluster: u128,
    shared: Arc<Shared>,
}

/// What the thread needs.
struct Shared {
    dir: PathBuf,
    inside: Mutex<Inside>,
    wake: OnceLock<Wake>,
}

#[derive(Default)]
struct Inside {
    keys: BTreeMap<u64, Key>,
    /// Those that are in the file.
    durable: BTreeSet<u64>,
    /// The thread writes.
    writes: bool,
    /// Why the latest write failed; and the same until the log has it.
    failed: Option<Error>,
    complaint: Option<Error>,
}

/// The key by which secrets are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SealingKey {
    /// This one, which is durable.
    Ready(u64),
    /// Its file is being written.
    Writing,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the file until it has all keys, or cannot be written.
    fn write(&self) {
        loop {
            let keys = self.lock().keys.clone();
            let text: String = keys.values().map(|key| hex(key) + "\n").collect();
            let written = replace(&self.dir.join(FILE), &self.dir.join(SPARE), text.as_bytes());
            let mut inside = self.lock();
            match written {
                Ok(()) => inside.durable = keys.keys().copied().collect(),
                Err(e) => {
                    (inside.failed, inside.complaint) = (Some(e.clone()), Some(e));
                }
            }
            if inside.failed.is_some() || inside.durable.len() == inside.keys.len() {
                inside.writes = false;
                break;
            }
        }
        self.wake.get().inspect(|wake| wake());
    }
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
                    "{} is damaged: a line of it is not a key; remove it to get the key from \
                     other processes, or set the secrets of hosts again (`weft host secret`)",
                    path.display()
                ))
            })
        };
        let keys: BTreeMap<u64, Key> = text.lines().map(key).collect::<Result<_>>()?;
        let durable = keys.keys().copied().collect();
        let inside = Mutex::new(Inside { keys, durable, ..Inside::default() });
        let shared = Shared { dir: dir.to_path_buf(), inside, wake: OnceLock::new() };
        Ok(Vault { cluster, shared: Arc::new(shared) })
    }

    /// Has `wake` called from now on when the file has been written.
    pub(crate) fn wakes(&self, wake: Wake) {
        // There is one reactor, so the first one stays.
        let _ = self.shared.wake.set(wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.shared.lock()
    }

    /// A key by its number, for another process.
    pub(crate) fn key(&self, number: u64) -> Option<String> {
        self.lock().keys.get(&number).map(|key| hex(key))
    }

    /// Keeps a key received from another process. Returns whether it is new here. It can be used at once, and its file is
    /// written meanwhile.
    pub(crate) fn keep(&self, asked: u64, text: &str) -> Result<bool> {
        let Some(key) = unhex(text).and_then(|bytes| Key::try_from(bytes).ok()) else {
            return fail("a process sent an invalid key for secrets");
        };
        if number(&key) != asked {
            return fail("a process sent another key for secrets than requested");
        }
        let mut inside = self.lock();
        let is_new = inside.keys.insert(asked, key).is_none();
        if is_new {
            self.begin_to_write(&mut inside)?;
        }
        Ok(is_new)
    }

    /// Why the file could not be written, if that has not been said yet.
    pub(crate) fn take_complaint(&self) -> Option<Error> {
        self.lock().complaint.take()
    }

    /// Has the thread write the file, which may take long.
    fn begin_to_write(&self, inside: &mut Inside) -> Result<()> {
        inside.failed = None;
        if inside.writes {
            return Ok(());
        }
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("weft-keys".to_string());
        let started = thread.spawn(move || shared.write());
        started.map_err(|e| Error(format!("cannot start a thread to write {FILE}: {e}")))?;
        inside.writes = true;
        Ok(())
    }

    /// The numbers of keys that the map's secrets are sealed with and that are durable here.
    fn usual(inside: &Inside, map: &ClusterMap) -> Option<u64> {
        let used = map.hosts.values().filter_map(|host| Some(host.secret.as_ref()?.key));
        let used = used.filter(|key| inside.durable.contains(key)).min();
        used.or(inside.durable.first().copied())
    }

    /// Has a durable key for secrets: the map's if it is here, else another of this process, or a new one. Its file is
    /// begun to be written if it is not.
    pub(crate) fn prepare(&self, map: &ClusterMap) -> Result<SealingKey> {
        let mut inside = self.lock();
        if let Some(number) = Vault::usual(&inside, map) {
            return Ok(SealingKey::Ready(number));
        }
        if inside.keys.is_empty() {
            let key = random()?;
            inside.keys.insert(number(&key), key);
        }
        self.begin_to_write(&mut inside)?;
        Ok(SealingKey::Writing)
    }

    /// What has become of that.
    pub(crate) fn prepared(&self, map: &ClusterMap) -> Result<SealingKey> {
        let inside = self.lock();
        match (Vault::usual(&inside, map), &inside.failed) {
            (Some(number), _) => Ok(SealingKey::Ready(number)),
            (None, Some(e)) => Err(e.clone()),
            (None, None) => Ok(SealingKey::Writing),
        }
    }

    /// The numbers of missing keys: those that secrets of the map are sealed with.
    pub(crate) fn missing(&self, map: &ClusterMap) -> BTreeSet<u64> {
        let inside = self.lock();
        let used = map.hosts.values().filter_map(|host| Some(host.secret.as_ref()?.key));
        used.filter(|key| !inside.keys.contains_key(key)).collect()
    }

    /// Seals a host's secrets with a key.
    pub(crate) fn seal(&self, number: u64, host: &str, secrets: &Secrets) -> Result<SealedSecret> {
        let keys = &self.lock().keys;
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
        let inside = self.lock();
        let Some(key) = inside.keys.get(&sealed.key) else {
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
    filled.map_err(|_| Error("the system provides no random bytes".to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
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

    /// Waits until the file is written.
    fn settle(vault: &Vault) {
        while vault.lock().writes {
            thread::yield_now();
        }
    }

    fn seal(vault: &Vault, map: &ClusterMap, host: &str, secrets: &Secrets) -> SealedSecret {
        if vault.prepare(map) == Ok(SealingKey::Writing) {
            settle(vault);
        }
        let Ok(SealingKey::Ready(key)) = vault.prepared(map) else { panic!("there is no key") };
        vault.seal(key, host, secrets).unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_written_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let (vault, map) = (Vault::open(dir.path(), 7).unwrap(), with(&[]));
        // The file system takes the file when somebody opens the other end, and then does not make it durable.
        let spare = dir.path().join(SPARE);
        mknodat(CWD, &spare, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(vault.prepare(&map), Ok(SealingKey::Writing));
        assert_eq!(vault.prepared(&map), Ok(SealingKey::Writing));
        let end = File::open(&spare).unwrap();
        settle(&vault);
        assert!(vault.prepared(&map).unwrap_err().0.contains("cannot write"));
        assert!(vault.take_complaint().is_some() && vault.take_complaint().is_none());
        assert!(!dir.path().join(FILE).exists());
        // It is tried again, with the same key.
        drop(end);
        std::fs::remove_file(&spare).unwrap();
        let numbers: Vec<u64> = vault.lock().keys.keys().copied().collect();
        assert_eq!(vault.prepare(&map), Ok(SealingKey::Writing));
        settle(&vault);
        assert_eq!(vault.prepared(&map), Ok(SealingKey::Ready(numbers[0])));
        assert_eq!((numbers.len(), vault.take_complaint()), (1, None));
    }

    #[test]
    fn what_is_sealed_is_opened_by_who_has_the_key() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vault = Vault::open(ours.path(), 7).unwrap();
        let secrets = Secrets::parse("twelve bytes", Some("another secret")).unwrap();
        assert!(!ours.path().join(FILE).exists(), "there is none before it is needed");
        let sealed = seal(&vault, &with(&[]), "web", &secrets);
        assert!(sealed.mutual && sealed.key <= u64::MAX >> 1);
        assert!(!sealed.bytes.windows(6).any(|w| w == b"twelve"));
        assert!(vault.open_sealed("web", &sealed).unwrap() == secrets);
        let mode = ours.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = seal(&vault, &with(&[]), "web", &secrets);
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
        assert!(other.open_sealed("web", &sealed).unwrap() == secrets, "at once");
        settle(&other);
        let other = Vault::open(theirs.path(), 7).unwrap();
        assert!(other.missing(&map).is_empty() && other.key(sealed.key ^ 1).is_none());
        assert!(other.open_sealed("web", &sealed).unwrap() == secrets);
        assert_eq!(seal(&other, &map, "db", &secrets).key, sealed.key);
    }

    #[test]
    fn what_was_changed_or_is_for_another_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::open(dir.path(), 7).unwrap();
        let long = |c: &str| c.repeat(255);
        let secrets = Secrets::parse(&long("a"), Some(&long("b"))).unwrap();
        let sealed = seal(&vault, &with(&[]), "web", &secrets);
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
