//! Those who are logged in. A session has a number that nobody can guess, and ends after a time.

use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use weft_host::Result;

use crate::users::{Role, User, Users, random};

/// How long a session lasts, and how long without a request.
pub(crate) const LONGEST: Duration = Duration::from_secs(12 * 3600);
const IDLE: Duration = Duration::from_secs(3600);

/// The most sessions, and of one user.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 8;

/// What a user is told once, about what they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The command that it equals.
    pub(crate) command: String,
    /// What came of it.
    pub(crate) text: String,
    pub(crate) is_good: bool,
}

struct Session {
    /// The digest of the number: comparing digests tells nothing about the number itself.
    key: [u8; 32],
    csrf: String,
    name: String,
    /// The hash of the password with which they came in.
    hash: String,
    since: Instant,
    last: Instant,
    notice: Option<Notice>,
}

/// Somebody with a session, for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What each form of theirs has to say.
    pub(crate) csrf: String,
    key: [u8; 32],
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Session>);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn key(number: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, number.as_bytes()).as_ref());
    key
}

impl Sessions {
    /// A session begins. Its number is for the cookie.
    pub(crate) fn begin(&mut self, user: &User, now: Instant) -> Result<String> {
        let (number, csrf) = (hex(&random::<32>()?), hex(&random::<32>()?));
        self.forget_old(now);
        let of_user = |s: &Session| s.name == user.name;
        if self.0.iter().filter(|s| of_user(s)).count() >= MOST_OF_ONE {
            self.remove_oldest(of_user);
        }
        if self.0.len() >= MOST {
            self.remove_oldest(|_| true);
        }
        let (name, hash) = (user.name.clone(), user.hash.clone());
        let key = key(&number);
        self.0.push(Session { key, csrf, name, hash, since: now, last: now, notice: None });
        Ok(number)
    }

    fn remove_oldest(&mut self, such: impl Fn(&Session) -> bool) {
        let those = self.0.iter().enumerate().filter(|(_, s)| such(s));
        if let Some(oldest) = those.min_by_key(|(_, s)| s.last).map(|(n, _)| n) {
            self.0.remove(oldest);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        self.0.retain(|s| now < s.since + LONGEST && now < s.last + IDLE);
    }

    /// Whose session this is. It is over if the user is gone or has another password.
    pub(crate) fn find(&mut self, number: &str, users: &Users, now: Instant) -> Option<Who> {
        self.forget_old(now);
        let key = key(number);
        let n = self.0.iter().position(|s| s.key == key)?;
        let user = users.find(&self.0[n].name).filter(|user| user.hash == self.0[n].hash);
        let Some(user) = user else {
            self.0.remove(n);
            return None;
        };
        self.0[n].last = now;
        let (name, csrf) = (user.name.clone(), self.0[n].csrf.clone());
        Some(Who { name, role: user.role, csrf, key })
    }

    /// A session ends.
    pub(crate) fn end(&mut self, who: &Who) {
        self.0.retain(|s| s.key != who.key);
    }

    /// Keeps something to tell somebody, on the next page that they see.
    pub(crate) fn tell(&mut self, who: &Who, notice: Notice) {
        if let Some(session) = self.0.iter_mut().find(|s| s.key == who.key) {
            session.notice = Some(notice);
        }
    }

    /// What there is to tell somebody.
    pub(crate) fn told(&mut self, who: &Who) -> Option<Notice> {
        self.0.iter_mut().find(|s| s.key == who.key)?.notice.take()
    }
}

impl Who {
    /// Whether a form is one that they were given.
    pub(crate) fn gave(&self, csrf: &str) -> bool {
        // Of digests, how far two are alike tells nothing.
        digest(&SHA256, csrf.as_bytes()).as_ref() == digest(&SHA256, self.csrf.as_bytes()).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> (tempfile::TempDir, Users) {
        let dir = tempfile::tempdir().unwrap();
        let mut users = Users::load(dir.path()).unwrap();
        users.add("ann", Role::Read, "correct horse").unwrap();
        users.add("ben", Role::Act, "correct horse").unwrap();
        (dir, users)
    }

    #[test]
    fn a_session_ends_in_time_and_with_its_user() {
        let (_dir, mut users) = users();
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let begin = |sessions: &mut Sessions, users: &Users| {
            sessions.begin(users.find("ben").unwrap(), now).unwrap()
        };
        let number = begin(&mut sessions, &users);
        assert!(number.len() == 64 && sessions.find("", &users, now).is_none());
        let who = sessions.find(&number, &users, now).unwrap();
        assert_eq!((who.name.as_str(), who.role), ("ben", Role::Act));
        assert!(who.gave(&who.csrf) && !who.gave("") && who.csrf != number);
        let notice = Notice { command: "x".into(), text: "y".into(), is_good: true };
        sessions.tell(&who, notice.clone());
        assert_eq!((sessions.told(&who), sessions.told(&who)), (Some(notice), None));
        for n in 1..=12 {
            let later = now + (IDLE - Duration::from_secs(1)) * n;
            assert!(sessions.find(&number, &users, later).is_some(), "{n}");
        }
        assert!(sessions.find(&number, &users, now + LONGEST).is_none());
        let number = begin(&mut sessions, &users);
        assert!(sessions.find(&number, &users, now + IDLE).is_none(), "nobody was there");
        let number = begin(&mut sessions, &users);
        let who = sessions.find(&number, &users, now).unwrap();
        sessions.end(&who);
        assert!(sessions.find(&number, &users, now).is_none());
        let number = begin(&mut sessions, &users);
        users.set_role("ben", Role::Read).unwrap();
        assert_eq!(sessions.find(&number, &users, now).unwrap().role, Role::Read);
        users.set_password("ben", "another password").unwrap();
        assert!(sessions.find(&number, &users, now).is_none());
    }

    #[test]
    fn sessions_have_a_bound() {
        let (_dir, mut users) = users();
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let ann = sessions.begin(users.find("ann").unwrap(), now).unwrap();
        let bens: Vec<String> = (1..=20)
            .map(|n| {
                let at = now + Duration::from_secs(n);
                sessions.begin(users.find("ben").unwrap(), at).unwrap()
            })
            .collect();
        assert_eq!(sessions.0.len(), 1 + MOST_OF_ONE);
        let later = now + Duration::from_secs(30);
        assert!(sessions.find(&ann, &users, later).is_some());
        assert!(sessions.find(&bens[11], &users, later).is_none());
        assert!(sessions.find(&bens[19], &users, later).is_some());
        for n in 0..MOST {
            users.users_for_tests(&format!("u{n}"));
            sessions.begin(users.find(&format!("u{n}")).unwrap(), later).unwrap();
        }
        assert_eq!(sessions.0.len(), MOST);
    }
}
