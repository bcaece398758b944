//! Certificates are renewed while their processes run.
//!
//! A process whose certificate is due ([`is_due`]) shows it to the processes that it is connected to, once
//! an hour and whenever a connection comes about. Those that have the authority's key answer with a new one,
//! for the same name and key, if the asker is who the certificate names; the others do not answer. It takes
//! the place of the old one at once, for connections to come. Where the key is the process does it
//! itself.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use weft_core::units::{MILLIS, Nanos};
use weft_net::identity::{CertificateAuthority, Identity, LAPSED, LIFE, date, is_due};

use crate::error::{Error, Result, fail};

/// How often a process looks after its certificate.
const EVERY: Nanos = 3_600_000 * MILLIS;

/// How often its operator is told that it is not renewed.
const COMPLAINS_EVERY: Nanos = 24 * EVERY;

/// With less left than this a certificate has been due for a month, in seconds.
const LITTLE: u64 = LIFE - 60 * 86_400;

/// What an answer begins with.
const RENEWED: u8 = 0;
const REFUSED: u8 = 1;

/// What a process does about certificates.
pub(super) struct Renewal {
    dir: PathBuf,
    identity: Arc<Identity>,
    /// When to look after it, and when to complain, by the time since the machine was started.
    next: Nanos,
    complains: Nanos,
}

fn said(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

impl Renewal {
    /// Of the process in `dir`.
    pub(super) fn new(dir: PathBuf, identity: Arc<Identity>) -> Renewal {
        Renewal { dir, identity, next: 0, complains: 0 }
    }

    /// When [`Renewal::turn`] is to be called.
    pub(super) fn due(&self) -> Nanos {
        self.next
    }

    /// Looks after the certificate: renews it, if the authority's key is here. Returns what to show
    /// all others for that, if it is not, and what the operator is to know.
    pub(super) fn turn(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<String>) {
        self.next = now + EVERY;
        if !self.is_due() {
            return (None, None);
        }
        if let Some(authority) = self.authority() {
            return (None, Some(self.renew_here(authority)));
        }
        let warning = self.warning().filter(|_| now >= self.complains);
        if warning.is_some() {
            self.complains = now + COMPLAINS_EVERY;
        }
        (self.question(), warning)
    }

    /// What to show a process that may have the authority's key, if there is a need.
    pub(super) fn question(&self) -> Option<Vec<u8>> {
        self.is_due().then(|| self.identity.certificate())
    }

    fn is_due(&self) -> bool {
        is_due(self.identity.until(), self.identity.now()) || self.identity.lacks_addresses()
    }

    /// The answer to another process, which the map calls `name` and has at this address, and which shows its
    /// certificate; none where the authority's key is not. And what to log.
    pub(super) fn answer(
        &self,
        (name, address): (&str, Option<IpAddr>),
        certificate: &[u8],
    ) -> Option<(Vec<u8>, String)> {
        let renewed = self.authority()?.and_then(|authority| {
            let now = self.identity.now();
            let (of, pem) =
                authority.renew(certificate, address.as_ref(), now, LIFE).map_err(said)?;
            match of.as_str() == name {
                true => Ok(pem),
                false => fail(format!("this is the certificate for {of}, not for {name}")),
            }
        });
        Some(match renewed {
            Ok(pem) => (
                [&[RENEWED], pem.as_bytes()].concat(),
                format!("has renewed the certificate of {name}"),
            ),
            Err(e) => (
                [&[REFUSED], e.to_string().as_bytes()].concat(),
                format!("has not renewed the certificate of {name}: {e}"),
            ),
        })
    }

    /// Takes an answer. Returns what to log.
    pub(super) fn take(&self, answer: &[u8]) -> Option<String> {
        // Another may have answered sooner.
        self.question()?;
        let (kind, text) = answer.split_first()?;
        let text = String::from_utf8_lossy(text);
        match *kind {
            RENEWED => Some(self.put(&text)),
            _ => Some(format!("this process's certificate is not renewed: {text}")),
        }
    }

    /// What the operator should know of the certificate.
    pub(super) fn warning(&self) -> Option<String> {
        let (until, now) = (self.identity.until(), self.identity.now());
        let day = date(until);
        if until <= now {
            return Some(format!(
                "the certificate of this process expired on {day}, and the clock here is at {}: existing connections continue, but \
                 new ones fail; {LAPSED}",
                date(now)
            ));
        }
        (until < now + LITTLE).then(|| {
            format!(
                "the certificate of this process is valid until {day} and its renewal has been due for a month: no process with the \
                 authority's key has renewed it. Start the one that has `ca-key.pem`, or copy that file next to the `ca.pem` \
                 of another; or, if the clock here is fast, correct it"
            )
        })
    }

    /// The cluster's authority, if its key is here.
    fn authority(&self) -> Option<Result<CertificateAuthority>> {
        match CertificateAuthority::is_at(&self.dir) {
            Ok(false) => None,
            Ok(true) => Some(CertificateAuthority::load(&self.dir).map_err(said)),
            Err(e) => Some(Err(said(e))),
        }
    }

    fn renew_here(&self, authority: Result<CertificateAuthority>) -> String {
        let (now, own) = (self.identity.now(), self.identity.certificate());
        match authority.and_then(|a| a.renew(&own, None, now, LIFE).map_err(said)) {
            Ok((_, pem)) => self.put(&pem),
            Err(e) => format!("this process's certificate is not renewed: {e}"),
        }
    }

    fn put(&self, pem: &str) -> String {
        match self.identity.renew(&self.dir, pem) {
            Ok(until) => {
                format!("this process's certificate is renewed, and valid until {}", date(until))
            }
            Err(e) => format!("this process's certificate is not renewed: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use weft_net::identity::{Clock, ClusterId, NodeKey};

    use super::*;

    /// In 2033.
    const NOW: u64 = 2_000_000_000;
    const DAY: u64 = 86_400;

    struct Scene {
        time: Arc<AtomicU64>,
        clock: Clock,
        authority: CertificateAuthority,
        place: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Scene {
            let time = Arc::new(AtomicU64::new(NOW));
            let shown = time.clone();
            let clock = Clock::of(move || shown.load(Ordering::Relaxed));
            let authority = CertificateAuthority::create(ClusterId(7)).unwrap();
            Scene { time, clock, authority, place: tempfile::tempdir().unwrap() }
        }

        fn dir(&self, name: &str) -> PathBuf {
            self.place.path().join(name)
        }

        /// A process with a directory of its own.
        fn process(&self, name: &str, life: u64) -> Renewal {
            let key = NodeKey::generate().unwrap();
            let named = name.parse().unwrap();
            let certificate =
                self.authority.admit(&named, &key.public(), self.clock.now(), life).unwrap();
            let dir = self.dir(name);
            std::fs::create_dir(&dir).unwrap();
            Identity::save(&dir, self.authority.pem(), &certificate, &key).unwrap();
            self.again(&dir)
        }

        /// As after a start.
        fn again(&self, dir: &Path) -> Renewal {
            let identity = Identity::load(dir).unwrap().with_clock(self.clock.clone());
            Renewal::new(dir.to_path_buf(), Arc::new(identity))
        }

        fn pass(&self, days: u64) {
            self.time.fetch_add(days * DAY, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_certificate_is_renewed_each_month_by_who_has_the_key() {
        let scene = Scene::new();
        let (keeper, mut other) = (scene.process("n0", LIFE), scene.process("n1", LIFE));
        scene.authority.save(&scene.dir("n0")).unwrap();
        assert_eq!(other.turn(5), (None, None));
        assert_eq!(other.due(), 5 + EVERY);
        scene.pass(32);
        let (question, warning) = other.turn(EVERY);
        assert_eq!(warning, None);
        let question = question.unwrap();
        assert_eq!(other.answer(("n1", None), &question), None, "it has no key");
        let (answer, line) = keeper.answer(("n1", None), &question).unwrap();
        assert!(line.contains("renewed the certificate of n1"), "{line}");
        let before = other.identity.until();
        let line = other.take(&answer).unwrap();
        assert!(line.contains("valid until 2034-06-20"), "{line}");
        assert_eq!(other.identity.until(), before + 32 * DAY);
        assert_eq!(other.take(&answer), None, "a second answer");
        assert_eq!(other.turn(2 * EVERY), (None, None));
        let again = scene.again(&scene.dir("n1"));
        assert_eq!(again.identity.until(), other.identity.until(), "it is kept");
    }

    /// Also if it has been off for so long that its certificate has lapsed.
    #[test]
    fn who_has_the_key_renews_its_own() {
        let scene = Scene::new();
        let mut keeper = scene.process("n0", LIFE);
        scene.authority.save(&scene.dir("n0")).unwrap();
        scene.pass(800);
        let (question, line) = keeper.turn(0);
        assert!(question.is_none() && line.unwrap().contains("is renewed, and valid until"));
        assert_eq!(keeper.turn(EVERY), (None, None));
    }

    #[test]
    fn nobody_gets_a_certificate_of_another() {
        let scene = Scene::new();
        let (keeper, other) = (scene.process("n0", LIFE), scene.process("n1", LIFE));
        scene.authority.save(&scene.dir("n0")).unwrap();
        scene.pass(40);
        let stolen = scene.process("n2", LIFE).identity.certificate();
        let (answer, line) = keeper.answer(("n1", None), &stolen).unwrap();
        assert!(line.contains("has not renewed") && line.contains("for n2, not for n1"), "{line}");
        let line = other.take(&answer).unwrap();
        assert!(line.contains("is not renewed: this is the certificate for n2"), "{line}");
        assert_eq!(keeper.answer(("n1", None), b"nothing").unwrap().0[0], REFUSED);
    }

    #[test]
    fn old_certificates_are_renewed_soon_and_the_operator_is_told_in_time() {
        let scene = Scene::new();
        let mut old = scene.process("n1", 187 * LIFE);
        let (question, warning) = old.turn(0);
        assert!(question.is_some() && warning.is_none(), "it is good for long enough");
        let mut other = scene.process("n2", LIFE);
        scene.pass(70);
        let warning = other.turn(0).1.unwrap();
        assert!(
            warning.contains("until 2034-05-19") && warning.contains("ca-key.pem"),
            "{warning}"
        );
        assert_eq!(other.turn(EVERY).1, None, "it was said today");
        assert!(other.turn(COMPLAINS_EVERY).1.is_some());
        scene.pass(300);
        let warning = other.warning().unwrap();
        assert!(
            warning.contains("expired on 2034-05-19") && warning.contains("weft cluster renew")
        );
    }
}
