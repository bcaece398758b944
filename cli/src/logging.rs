//! The log of a process that serves hosts: lines on standard error, for people, for programs, or for systemd's journal.
//!
//! Lines come from `weft-host` with a level and go through `tracing`, whose subscriber leaves out those below the level
//! that is wanted and writes the others. A thread writes them, so that nothing waits for whoever reads the log, or for the
//! file system that it is on.

use std::fmt;
use std::io;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use weft_host::{About, Level, Log, stamp};

/// Options of the log.
#[derive(Clone, Copy, Debug, Args)]
pub struct Logging {
    /// Log format: text, JSON, or with level numbers for systemd's journal
    #[arg(
        long = "log",
        env = "WEFT_LOG",
        value_name = "FORM",
        default_value = "text",
        hide_short_help = true
    )]
    form: Form,
    /// Lowest level to log
    #[arg(
        long = "log-level",
        env = "WEFT_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info",
        hide_short_help = true
    )]
    least: Least,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Time, level and line
    Text,
    /// One object per line: timestamp, level, message, and fields for node, process, volume, milliseconds, and for logins and changes host, from, action and result
    Json,
    /// Level number and message, without time
    Journald,
}

/// The lowest level to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Least {
    /// Errors only
    Error,
    /// Also warnings
    Warning,
    /// Also changes of state
    Info,
}

/// Lines that may wait for the thread that writes them; others are dropped.
const LINES: usize = 10_000;

/// How long the process waits at its end until all lines are written.
const FINISH: Duration = Duration::from_secs(1);

/// The thread that writes lines.
static WRITER: OnceLock<Lines> = OnceLock::new();

/// Waits until the lines are written, for [`FINISH`] at most. To be called before the process ends.
pub fn finish() {
    let Some(Lines { to: Some(to) }) = WRITER.get() else { return };
    let (tell, written) = channel();
    if to.try_send(Job::Finish(tell)).is_ok() {
        // Whoever reads them may have stopped.
        let _ = written.recv_timeout(FINISH);
    }
}

/// What the thread is to do.
enum Job {
    Write(Vec<u8>),
    Finish(Sender<()>),
}

/// Where lines go.
#[derive(Clone)]
struct Lines {
    /// To the thread; if there is none, they are written where they come up.
    to: Option<SyncSender<Job>>,
}

impl Lines {
    fn start() -> Lines {
        let (to, jobs) = sync_channel(LINES);
        let thread = thread::Builder::new().name("weft-lines".to_string());
        let started = thread.spawn(move || write_lines(&jobs));
        Lines { to: started.is_ok().then_some(to) }
    }
}

fn write_lines(jobs: &Receiver<Job>) {
    for job in jobs {
        // A line that cannot be written is lost, and so is the word to a process that has waited long enough.
        match job {
            Job::Write(line) => drop(io::stderr().write_all(&line)),
            Job::Finish(tell) => drop(tell.send(())),
        }
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.to {
            Some(to) => drop(to.try_send(Job::Write(bytes.to_vec()))),
            None => io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Logging {
    /// Begins the log of this process.
    ///
    /// # Errors
    /// If it has been begun already.
    pub fn start(self) -> Result<Log> {
        let lines = WRITER.get_or_init(Lines::start);
        let subscriber = self.subscriber(|| lines.clone());
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|e| anyhow!("cannot start the log: {e}"))?;
        Ok(Log::with_fields(write))
    }

    fn subscriber<W>(self, to: W) -> Box<dyn Subscriber + Send + Sync>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let least = match self.least {
            Least::Error => tracing::Level::ERROR,
            Least::Warning => tracing::Level::WARN,
            Least::Info => tracing::Level::INFO,
        };
        // A line that cannot be written is lost: who reads the log is gone, or there is no room for it. To complain of
        // that where it cannot be written either would end the process.
        let lines = tracing_subscriber::fmt()
            .with_max_level(least)
            .with_writer(to)
            .log_internal_errors(false);
        match self.form {
            Form::Json => Box::new(
                lines.json().flatten_event(true).with_target(false).with_timer(Utc).finish(),
            ),
            Form::Text => Box::new(lines.event_format(Plain { numbered: false }).finish()),
            Form::Journald => Box::new(lines.event_format(Plain { numbered: true }).finish()),
        }
    }
}

fn write(level: Level, about: &About, line: &str) {
    let About { node, process, volume, milliseconds, host, from, action, result } = about;
    let volume = volume.as_deref();
    let (host, from, result) = (host.as_deref(), from.as_deref(), result.as_deref());
    // The level must be a constant. Fields without a value are left out.
    macro_rules! say {
        ($at:expr) => {
            tracing::event!(
                $at,
                node,
                process,
                volume,
                milliseconds,
                host,
                from,
                action,
                result,
                "{line}"
            )
        };
    }
    match level {
        Level::Error => say!(tracing::Level::ERROR),
        Level::Warning => say!(tracing::Level::WARN),
        Level::Info => say!(tracing::Level::INFO),
    }
}

/// The line of an event, without its fields: for people they are in the line.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// The time of day, UTC.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        w.write_str(&stamp(SystemTime::now()))
    }
}

/// Lines of text.
struct Plain {
    /// With the level as syslog counts it in front, and without the time.
    numbered: bool,
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut w: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (number, word) = match *event.metadata().level() {
            tracing::Level::ERROR => (3, "error"),
            tracing::Level::WARN => (4, "warning"),
            _ => (6, "info"),
        };
        match self.numbered {
            true => write!(w, "<{number}>")?,
            false => write!(w, "{} {word}: ", stamp(SystemTime::now()))?,
        }
        let mut line = Line::default();
        event.record(&mut line);
        writeln!(w, "{}", line.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Of a pipe whose reader is gone, say.
    struct Gone;

    impl io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Child: its standard error cannot be written either, which a complaint would not survive.
    #[test]
    fn a_line_that_cannot_be_written_is_lost_and_nothing_else() {
        const CHILD: &str = "WEFT_TEST_LOG_IS_GONE";
        let line = || write(Level::Error, &About::default(), "nobody reads this");
        if std::env::var_os(CHILD).is_some() {
            let logging = Logging { form: Form::Text, least: Least::Info };
            return tracing::subscriber::with_default(logging.subscriber(|| Gone), line);
        }
        let name = "logging::tests::a_line_that_cannot_be_written_is_lost_and_nothing_else";
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let this = std::env::current_exe().unwrap();
        let args = [name, "--exact", "--nocapture", "--test-threads=1"];
        let child =
            std::process::Command::new(this).args(args).env(CHILD, "1").stderr(full).output();
        let child = child.unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"));
    }

    #[test]
    fn a_line_never_waits_for_the_thread_that_writes_it() {
        let (to, jobs) = sync_channel(2);
        let mut lines = Lines { to: Some(to) };
        for line in ["one\n", "two\n", "three\n"] {
            assert_eq!(lines.write(line.as_bytes()).unwrap(), line.len());
        }
        let there: Vec<String> = jobs
            .try_iter()
            .map(|job| match job {
                Job::Write(line) => String::from_utf8(line).unwrap(),
                Job::Finish(_) => unreachable!("nobody has asked for it"),
            })
            .collect();
        assert_eq!(there, ["one\n", "two\n"], "the third is dropped");
    }

    fn written(form: Form, least: Least) -> Vec<String> {
        let kept = Kept::default();
        let to = kept.clone();
        let subscriber = Logging { form, least }.subscriber(move || to.clone());
        tracing::subscriber::with_default(subscriber, || {
            let about = About { node: Some(1), ..About::default() };
            write(Level::Info, &about, "node 1 is up");
            write(Level::Warning, &About::default(), "node 2 is down");
            let (volume, milliseconds) = (Some("v".to_string()), Some(2.5));
            let (host, action) = (Some("web".to_string()), Some("login"));
            let (from, result) = (Some("10.0.0.7:1".to_string()), Some("tls".to_string()));
            let about = About {
                node: Some(3),
                process: Some(2),
                volume,
                milliseconds,
                host,
                from,
                action,
                result,
            };
            write(Level::Error, &about, "node 3 stays down: {no \"disk\"}");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn lines_have_their_levels_in_each_form() {
        let text = written(Form::Text, Least::Info);
        assert!(text[0].ends_with("Z info: node 1 is up"), "{text:?}");
        assert!(text[1].ends_with("Z warning: node 2 is down"), "{text:?}");
        assert!(text[2].ends_with("Z error: node 3 stays down: {no \"disk\"}"), "{text:?}");
        let journal = written(Form::Journald, Least::Warning);
        assert_eq!(journal, ["<4>node 2 is down", "<3>node 3 stays down: {no \"disk\"}"]);
        let json = written(Form::Json, Least::Error);
        let line: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
        assert_eq!((json.len(), &line["level"]), (1, &"ERROR".into()));
        assert_eq!(line["message"], "node 3 stays down: {no \"disk\"}");
        let fields = ["node", "process", "volume", "milliseconds"].map(|field| line[field].clone());
        assert_eq!(serde_json::Value::from_iter(fields), serde_json::json!([3, 2, "v", 2.5]));
        let fields = ["host", "from", "action", "result"].map(|field| line[field].clone());
        let expected = serde_json::json!(["web", "10.0.0.7:1", "login", "tls"]);
        assert_eq!(serde_json::Value::from_iter(fields), expected);
        let other = &written(Form::Json, Least::Warning)[0];
        assert!(!other.contains("node\":") && !other.contains("null"), "{other}");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}
