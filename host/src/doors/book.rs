//! Logins and refusals: counters, and a log line for each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::who::{Cause, Who};
use crate::log::{About, Level, Log, Sparing};

/// How many reservations by hosts the log has within 10 s: all those of a cluster of hosts that starts.
const RESERVATIONS: u32 = 50;

/// A login, as the log has it.
pub(crate) struct Entry<'a> {
    pub(crate) who: &'a Who,
    /// The peer's address.
    pub(crate) from: &'a str,
    /// The protocol.
    pub(crate) protocol: &'static str,
    /// The volume or target that it wants, if known.
    pub(crate) volume: Option<&'a str>,
    /// The number of its user, if it is on this machine.
    pub(crate) user: Option<u32>,
}

/// The counts, and the log.
pub(crate) struct Book {
    log: Log,
    /// Limits the log lines that strangers can cause.
    refusals: Sparing,
    /// Limits those that hosts cause which reserve volumes.
    reservations: Sparing,
    logins: AtomicU64,
    /// Logins that were delayed after wrong proofs.
    delayed: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl Entry<'_> {
    fn about(&self, action: &'static str, result: &str) -> About {
        About {
            host: self.who.name().map(str::to_string),
            from: Some(self.from.to_string()),
            volume: self.volume.map(str::to_string),
            action: Some(action),
            result: Some(result.to_string()),
            ..About::default()
        }
    }

    fn words(&self) -> String {
        let volume = self.volume.map(|v| format!(" for volume '{v}'")).unwrap_or_default();
        let user = self.user.map(|user| format!(" of user {user}")).unwrap_or_default();
        let Entry { who, from, protocol, .. } = self;
        format!("{} from {from}{user} by {protocol}{volume}", who.shown())
    }
}

impl Book {
    /// With nothing in it.
    pub(crate) fn new(log: Log) -> Arc<Book> {
        let refusals = Sparing::new(log.clone(), "refused logins");
        let reservations = Sparing::new(log.clone(), "reservations by hosts").writing(RESERVATIONS);
        let (logins, delayed, refused) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Arc::new(Book { log, refusals, reservations, logins, delayed, refused })
    }

    /// A host has begun to use a volume.
    pub(crate) fn login(&self, entry: &Entry<'_>, result: &str) {
        self.logins.fetch_add(1, Ordering::Relaxed);
        let line = format!("login: {}: {result}", entry.words());
        self.log.say(Level::Info, &entry.about("login", result), &line);
    }

    /// A host is refused.
    pub(crate) fn refusal(&self, entry: &Entry<'_>, cause: Cause, why: &str) {
        *self
            .refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(cause.word())
            .or_default() += 1;
        let about = entry.about("login", cause.word());
        let line = format!("login: {} is refused: {why}", entry.words());
        self.refusals.say_of(Instant::now(), about, &line);
    }

    /// A login is delayed, because earlier proofs were wrong.
    pub(crate) fn delayed(&self) {
        self.delayed.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of delayed logins.
    pub(crate) fn delays(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// A connection ends because of a change of the map.
    pub(crate) fn ended(&self, entry: &Entry<'_>, why: &str) {
        let line = format!("login: {}: ended: {why}", entry.words());
        self.log.say(Level::Warning, &entry.about("login", "ended"), &line);
    }

    /// The map is changed, or is not: by an operator's request to the control socket, or by a host that reserves a volume.
    pub(crate) fn change(&self, from: &str, (what, is_by_host): (&str, bool), result: &str) {
        let about = About {
            from: Some(from.to_string()),
            action: Some("change"),
            result: Some(result.to_string()),
            ..About::default()
        };
        let line = format!("change: {what}, from {from}: {result}");
        match is_by_host {
            true => self.reservations.say_at(Instant::now(), Level::Info, about, &line),
            false => self.log.say(Level::Info, &about, &line),
        }
    }

    /// Logins so far, and refusals by cause.
    pub(crate) fn counts(&self) -> (u64, BTreeMap<String, u64>) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |cause: &Cause| {
            (cause.word().to_string(), refused.get(cause.word()).copied().unwrap_or(0))
        };
        (self.logins.load(Ordering::Relaxed), Cause::ALL.iter().map(of).collect())
    }

    /// The time until a line reports the number of omitted lines.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = [self.refusals.due(), self.reservations.due()].into_iter().flatten().min();
        due.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Reports the number of omitted lines, if it is time.
    pub(crate) fn sum_up(&self, now: Instant) {
        self.refusals.sum_up(now);
        self.reservations.sum_up(now);
    }
}

#[cfg(test)]
mod tests {
    use weft_net::identity::ShownHost;

    use super::*;

    #[test]
    fn each_login_is_a_line_and_of_many_refusals_some_are() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Log::with_fields(move |_, about, line| {
            kept.lock().unwrap().push((about.clone(), line.to_string()));
        });
        let book = Book::new(log);
        let who = Who::Proved(ShownHost { name: "web".into(), key: 7 });
        let from = "10.0.0.7:4242";
        let entry = Entry { who: &who, from, protocol: "nbd", volume: Some("db"), user: None };
        book.login(&entry, "read-only");
        for _ in 0..1000 {
            book.refusal(&entry, Cause::NotAllowed, "it is not on the list");
        }
        let lines = lines.lock().unwrap();
        let (about, line) = &lines[0];
        assert_eq!(line, "login: host 'web' from 10.0.0.7:4242 by nbd for volume 'db': read-only");
        assert_eq!((about.host.as_deref(), about.action), (Some("web"), Some("login")));
        assert_eq!(about.result.as_deref(), Some("read-only"));
        assert!(lines[1].1.ends_with("is refused: it is not on the list"));
        assert!(lines.len() < 20, "{}", lines.len());
        let (logins, refused) = book.counts();
        assert_eq!((logins, refused["not-allowed"], refused["tls"]), (1, 1000, 0));
    }

    #[test]
    fn of_many_reservations_some_are_a_line_and_each_change_by_an_operator_is() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Log::with_fields(move |level, _, line| {
            kept.lock().unwrap().push((level, line.to_string()));
        });
        let book = Book::new(log);
        let said = |is_by_host| {
            for _ in 0..1000 {
                book.change("10.0.0.7:4242", ("reserve {}", is_by_host), "done");
            }
            std::mem::take(&mut *lines.lock().unwrap())
        };
        let by_host = said(true);
        assert_eq!(by_host.len(), RESERVATIONS as usize);
        assert!(by_host[0] == (Level::Info, "change: reserve {}, from 10.0.0.7:4242: done".into()));
        assert_eq!(said(false).len(), 1000);
        assert!(book.due().is_some(), "it will be said how many there were");
    }
}
