//! Connections of processes that want to join, of readers of metrics and of browsers, before they authenticate. Anyone
//! may open one, so each has a time limit, and their number is bounded. When all places are taken, the oldest
//! connection of the machine that has most is closed, of those that have not said what they want. If all have, one is closed
//! that has not taken its answer for a second, or one of another machine that has more than half of the places.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections at a time.
const MOST: usize = 16;

/// How long one may take its answer when others wait for its place.
const GRACE: Duration = Duration::from_secs(1);

/// The places.
#[derive(Default)]
pub struct Places(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    /// In the order in which they came.
    callers: BTreeMap<u64, Caller>,
    next: u64,
}

struct Caller {
    socket: Arc<TcpStream>,
    from: Option<IpAddr>,
    stage: Stage,
}

/// How far a caller is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has yet to say what it wants.
    Unheard,
    /// It has said it, and its answer is being made.
    Heard,
    /// It is sent its answer since then.
    Answered(Instant),
}

/// A place of a caller, as long as this lives.
pub struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a caller, if there is one or somebody gives way.
    pub fn take(self: &Arc<Self>, socket: &Arc<TcpStream>) -> Option<Place> {
        let mut taken = self.taken();
        let from = socket.peer_addr().ok().map(|a| a.ip().to_canonical());
        if taken.callers.len() >= MOST {
            let last = taken.gives_way(from, Instant::now())?;
            let last = taken.callers.remove(&last)?;
            // Whoever serves it finds that it has ended.
            let _ = last.socket.shutdown(Shutdown::Both);
        }
        let number = taken.next;
        taken.next += 1;
        let caller = Caller { socket: socket.clone(), from, stage: Stage::Unheard };
        taken.callers.insert(number, caller);
        Some(Place { places: self.clone(), number })
    }
}

impl Taken {
    /// Who gives way to one that comes from there.
    fn gives_way(&self, newcomer: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut of = BTreeMap::new();
        self.callers.values().for_each(|c| *of.entry(c.from).or_insert(0) += 1);
        let may = |c: &Caller| match c.stage {
            Stage::Unheard | Stage::Heard => false,
            Stage::Answered(since) => {
                let has_too_many = c.from != newcomer && of[&c.from] > MOST / 2;
                has_too_many || now.saturating_duration_since(since) >= GRACE
            }
        };
        let unheard = self.oldest_of_most(|c| c.stage == Stage::Unheard);
        unheard.or_else(|| self.oldest_of_most(may))
    }

    /// Of such callers, the oldest of the machine that has most of them.
    fn oldest_of_most(&self, is: impl Fn(&Caller) -> bool) -> Option<u64> {
        let mut most: BTreeMap<Option<IpAddr>, (usize, u64)> = BTreeMap::new();
        for (number, caller) in self.callers.iter().filter(|(_, c)| is(c)) {
            most.entry(caller.from).or_insert((0, *number)).0 += 1;
        }
        most.into_values().max_by_key(|(count, _)| *count).map(|(_, oldest)| oldest)
    }
}

impl Place {
    /// The caller has said what it wants: it need not give way while its answer is made.
    pub fn is_heard(&self) {
        self.is_at(Stage::Heard);
    }

    /// The caller is sent its answer from now on. If it does not take it soon, it may have to give way again.
    pub fn is_answered(&self) {
        self.is_at(Stage::Answered(Instant::now()));
    }

    fn is_at(&self, stage: Stage) {
        if let Some(caller) = self.places.taken().callers.get_mut(&self.number) {
            caller.stage = stage;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().callers.remove(&self.number);
    }
}

/// A socket of which everything must be over at some time, however little comes at a time.
pub struct Hurried<'a> {
    socket: &'a TcpStream,
    until: Cell<Instant>,
}

impl<'a> Hurried<'a> {
    /// It has so much time.
    pub fn new(socket: &'a TcpStream, time: Duration) -> Hurried<'a> {
        Hurried { socket, until: Cell::new(Instant::now() + time) }
    }

    /// From now on it has so much time.
    pub fn give(&self, time: Duration) {
        self.until.set(Instant::now() + time);
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.get().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(too_late()) } else { Ok(left) }
    }
}

fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it took too long")
}

/// A time limit of a socket shows as one that would block.
fn in_time(result: io::Result<usize>) -> io::Result<usize> {
    result.map_err(|e| if e.kind() == ErrorKind::WouldBlock { too_late() } else { e })
}

impl Read for Hurried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        in_time(self.socket.read(buffer))
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        in_time(self.socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(listener: &TcpListener) -> (TcpStream, Arc<TcpStream>) {
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (theirs, Arc::new(listener.accept().unwrap().0))
    }

    #[test]
    fn whoever_has_been_there_longest_gives_way_unless_it_was_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let places = Arc::new(Places::default());
        let come = || {
            let (theirs, ours) = pair(&listener);
            (theirs, places.take(&ours))
        };
        let mut inside: Vec<_> = (0..MOST).map(|_| come()).collect();
        inside[0].1.as_ref().unwrap().is_heard();
        inside.push(come());
        assert!(inside.iter().all(|(_, place)| place.is_some()));
        let mut end = [0; 1];
        assert_eq!(inside[1].0.read(&mut end).unwrap(), 0, "the second had to go");
        inside[0].0.set_nonblocking(true).unwrap();
        assert_eq!(inside[0].0.read(&mut end).unwrap_err().kind(), ErrorKind::WouldBlock);
        inside.iter().for_each(|(_, place)| place.as_ref().unwrap().is_heard());
        assert!(come().1.is_none(), "all are being served");
        inside.clear();
        assert!(come().1.is_some());
        assert!(places.taken().callers.is_empty());
    }

    #[test]
    fn of_several_machines_the_one_that_has_most_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_theirs, socket) = pair(&listener);
        let caller = |n: u8| Caller {
            socket: socket.clone(),
            from: Some(IpAddr::from([10, 0, 0, n])),
            stage: Stage::Unheard,
        };
        let from = [1, 2, 3, 2, 3, 2];
        let callers = from.iter().enumerate().map(|(n, ip)| (n as u64, caller(*ip))).collect();
        let taken = Taken { callers, next: 6 };
        assert_eq!(taken.gives_way(None, Instant::now()), Some(1));
    }

    /// Strangers who ask and do not take their answers.
    #[test]
    fn who_does_not_take_its_answer_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_theirs, socket) = pair(&listener);
        let ip = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
        let begun = Instant::now();
        let taken = |from: &[u8], stage| {
            let caller = |n: &u8| Caller { socket: socket.clone(), from: ip(*n), stage };
            let callers = from.iter().enumerate().map(|(n, ip)| (n as u64, caller(ip))).collect();
            Taken { callers, next: MOST as u64 }
        };
        let all_of_one = taken(&[7; MOST], Stage::Answered(begun));
        assert_eq!(all_of_one.gives_way(ip(1), begun), Some(0), "it has more than half");
        assert_eq!(all_of_one.gives_way(ip(7), begun), None, "it comes from there itself");
        assert_eq!(all_of_one.gives_way(ip(7), begun + GRACE), Some(0));
        let each_another: Vec<u8> = (1..=MOST as u8).collect();
        let of_many = taken(&each_another, Stage::Answered(begun));
        assert_eq!(of_many.gives_way(ip(99), begun + GRACE / 2), None);
        assert!(of_many.gives_way(ip(99), begun + GRACE).is_some());
        let asking = taken(&[7; MOST], Stage::Heard);
        assert_eq!(asking.gives_way(ip(1), begun + 9 * GRACE), None, "its answer is being made");
    }

    #[test]
    fn what_drips_ends_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut theirs, ours) = pair(&listener);
        let begun = Instant::now();
        let mut hurried = Hurried::new(&ours, Duration::from_millis(200));
        let drips = std::thread::spawn(move || while theirs.write_all(b"x").is_ok() {});
        let mut byte = [0; 1];
        let error = loop {
            match hurried.read(&mut byte) {
                Ok(n) => assert_eq!(n, 1, "it goes on and on"),
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= Duration::from_millis(200));
        hurried.give(Duration::from_secs(60));
        assert_eq!(hurried.read(&mut byte).unwrap(), 1);
        drop(ours);
        drips.join().unwrap();
        // One that says nothing.
        let (_theirs, ours) = pair(&listener);
        let mut hurried = Hurried::new(&ours, Duration::from_millis(20));
        assert_eq!(hurried.read(&mut byte).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
