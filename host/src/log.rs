//! Lines for the operator.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weft_bytes::escape::{cut, one_line};
use weft_core::policy::calendar::{DAY, date};
use weft_core::units::NodeId;

/// The longest line, in bytes; of a longer one the beginning is written.
const LONGEST: usize = 4096;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work that should, and an operator must see to it.
    Error,
    /// Something is not as it should be, or was refused.
    Warning,
    /// Something has changed.
    Info,
}

/// What a line is about, for programs that read the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// A node.
    pub node: Option<u16>,
    /// A process of the cluster.
    pub process: Option<u16>,
    /// The name of a volume.
    pub volume: Option<String>,
    /// How long something took.
    pub milliseconds: Option<f64>,
    /// The name of a host.
    pub host: Option<String>,
    /// Where somebody came from.
    pub from: Option<String>,
    /// What somebody did: `login` or `change`.
    pub action: Option<&'static str>,
    /// What came of it.
    pub result: Option<String>,
}

impl About {
    pub(crate) fn node(n: usize) -> About {
        About { node: u16::try_from(n).ok(), ..About::default() }
    }

    pub(crate) fn process(n: NodeId) -> About {
        About { process: Some(n.0), ..About::default() }
    }

    pub(crate) fn volume(name: &str) -> About {
        About { volume: Some(name.to_string()), ..About::default() }
    }
}

/// What is done with a line.
type Write = dyn Fn(Level, &About, &str) + Send + Sync;

/// Where lines for the operator go.
#[derive(Clone)]
pub struct Log(Arc<Write>);

impl Log {
    /// A log that does this with each line.
    pub fn new(write: impl Fn(Level, &str) + Send + Sync + 'static) -> Log {
        Log::with_fields(move |level, _, line| write(level, line))
    }

    /// A log that does this with each line, and with what that is about.
    pub fn with_fields(write: impl Fn(Level, &About, &str) + Send + Sync + 'static) -> Log {
        Log(Arc::new(write))
    }

    /// This log, with each line also given to somebody else, before it is written.
    pub fn also(self, heard: impl Fn(Level, &About, &str) + Send + Sync + 'static) -> Log {
        Log::with_fields(move |level, about, line| {
            heard(level, about, line);
            (self.0)(level, about, line);
        })
    }

    /// Writes a line about something. Others may have a say in what is in it: it stays one line, and not too long.
    pub fn say(&self, level: Level, about: &About, line: &str) {
        (self.0)(level, about, &one_line(&cut(line, LONGEST)));
    }

    /// This log, for a line about something.
    pub(crate) fn on(&self, about: About) -> On<'_> {
        On { log: self, about }
    }

    /// A log that nobody reads.
    pub fn silent() -> Log {
        Log::new(|_, _| ())
    }

    /// Writes a line about what does not work.
    pub(crate) fn error(&self, line: &str) {
        self.say(Level::Error, &About::default(), line);
    }

    /// Writes a line about what is not as it should be.
    pub(crate) fn warn(&self, line: &str) {
        self.say(Level::Warning, &About::default(), line);
    }

    /// Writes a line about what has changed.
    pub(crate) fn info(&self, line: &str) {
        self.say(Level::Info, &About::default(), line);
    }
}

/// A log, for a line about something.
pub(crate) struct On<'a> {
    log: &'a Log,
    about: About,
}

impl On<'_> {
    /// As [`Log::error`].
    pub(crate) fn error(&self, line: &str) {
        self.log.say(Level::Error, &self.about, line);
    }

    /// As [`Log::warn`].
    pub(crate) fn warn(&self, line: &str) {
        self.log.say(Level::Warning, &self.about, line);
    }

    /// As [`Log::info`].
    pub(crate) fn info(&self, line: &str) {
        self.log.say(Level::Info, &self.about, line);
    }
}

/// So many lines of a kind are written within [`WHILE`]; the rest are counted.
const MOST: u32 = 10;

/// How long lines are counted together.
const WHILE: Duration = Duration::from_secs(10);

/// A log for lines that strangers can cause as often as they like: some are written, and of the others
/// how many there were.
pub struct Sparing {
    log: Log,
    /// What the lines are about.
    about: &'static str,
    /// How many are written in a while.
    most: u32,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    /// Since when lines are counted.
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Count {
    fn is_over(&self, now: Instant) -> bool {
        self.since.is_none_or(|since| now.saturating_duration_since(since) >= WHILE)
    }
}

impl Sparing {
    /// One whose lines, about something, go to this log.
    pub fn new(log: Log, about: &'static str) -> Sparing {
        Sparing { log, about, most: MOST, count: Mutex::default() }
    }

    /// The same that writes more lines.
    pub(crate) fn writing(self, most: u32) -> Sparing {
        Sparing { most, ..self }
    }

    /// Writes a line, unless there were many lately.
    pub(crate) fn say(&self, now: Instant, line: &str) {
        self.say_of(now, About::default(), line);
    }

    /// Writes a line about something, unless there were many lately.
    pub fn say_of(&self, now: Instant, about: About, line: &str) {
        self.say_at(now, Level::Warning, about, line);
    }

    /// Writes a line of some weight about something, unless there were many lately.
    pub(crate) fn say_at(&self, now: Instant, level: Level, about: About, line: &str) {
        self.sum_up(now);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if count.is_over(now) {
            *count = Count { since: Some(now), ..Count::default() };
        }
        if count.written == self.most {
            count.left_out += 1;
            return;
        }
        count.written += 1;
        self.log.say(level, &about, line);
    }

    /// When it is to be said how many lines were left out, if any were.
    pub(crate) fn due(&self) -> Option<Instant> {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.since.filter(|_| count.left_out > 0).map(|since| since + WHILE)
    }

    /// Says how many lines were left out, if it is time.
    pub fn sum_up(&self, now: Instant) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if count.left_out > 0 && count.is_over(now) {
            let Count { left_out, .. } = std::mem::take(&mut *count);
            self.log.warn(&format!(
                "{left_out} more lines about {} were omitted within {} s",
                self.about,
                WHILE.as_secs()
            ));
        }
    }
}

/// A time as the log has it: the date and the time of day, UTC.
pub fn stamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = date(seconds / DAY);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_some_are_written_and_the_others_counted() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Log::new(move |_, line| kept.lock().unwrap().push(line.to_string()));
        let log = Sparing::new(log, "connections");
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let said = || std::mem::take(&mut *lines.lock().unwrap());
        (0..MOST).for_each(|n| log.say(at(u64::from(n)), "x"));
        assert_eq!((said().len(), log.due()), (MOST as usize, None));
        (0..1000).for_each(|n| log.say(at(100 + n), "x"));
        assert_eq!(log.due(), Some(at(10_000)));
        log.sum_up(at(9_999));
        assert!(said().is_empty());
        log.sum_up(at(10_000));
        assert_eq!(said(), ["1000 more lines about connections were omitted within 10 s"]);
        assert_eq!(log.due(), None);
        (0..MOST + 3).for_each(|_| log.say(at(30_000), "y"));
        assert_eq!(said().len(), MOST as usize);
        log.say(at(40_000), "z");
        let said = said();
        assert!(said[0].starts_with("3 more") && said[1] == "z", "{said:?}");
    }

    #[test]
    fn what_others_have_a_say_in_stays_one_line_and_not_too_long() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Log::new(move |_, line| kept.lock().unwrap().push(line.to_string()));
        log.info("x wanted\n2026-01-01T00:00:00.000Z info: node 1 is up \x1b[2J");
        log.on(About::node(1)).warn(&"n".repeat(100_000));
        let lines = lines.lock().unwrap();
        assert_eq!(lines[0], "x wanted\\n2026-01-01T00:00:00.000Z info: node 1 is up \\u001b[2J");
        assert!(lines[1].len() < LONGEST + 40 && lines[1].ends_with("(95904 more bytes)"));
    }

    #[test]
    fn stamps_are_dates() {
        let at = |s| stamp(UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59.000Z");
    }
}
