//! The thread of a volume that is open: it connects, receives answers, and connects again.
//!
//! Whoever takes a request sends it at once, as far as the socket takes it; the rest is sent from
//! here.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use weft_front::native::client::{Client, Event, ProtocolError};
use weft_front::native::wire::VERSION;
use weft_front::native::{Code, Hello, NumberedRequest, Verb};

use crate::address::Address;
use crate::completion::Promise;
use crate::error::{Error, ErrorKind};
use crate::id::Id;
use crate::options::Options;
use crate::state::State;
use crate::wire::{Lost, Wire};

/// How long a node may take to answer a hello.
const HELLO: Duration = Duration::from_secs(10);

/// How long a server of NBD may take to greet.
const GREETING: Duration = Duration::from_secs(1);

/// How long to wait before the addresses are tried again, at first and at most.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection.
struct Link {
    machine: Client,
    wire: Wire,
    /// When the node was heard or asked last.
    heard: Instant,
}

/// What a volume's handles and its thread share.
pub(crate) struct Shared {
    inside: Mutex<Inside>,
    /// Something has ended, so that there may be room.
    room: Condvar,
    /// Wakes the thread.
    bell: OwnedFd,
}

struct Inside {
    state: State,
    link: Option<Link>,
    /// Nobody holds the volume any more.
    closing: bool,
    wakers: Vec<Waker>,
    /// Readable while the state has ends to tell, once somebody wants to know of them.
    ended: Option<Arc<OwnedFd>>,
}

impl Inside {
    /// Makes the descriptor of ends readable if there are any.
    fn tell_ended(&self) {
        let any = self.state.told.as_ref().is_some_and(|told| !told.is_empty());
        if let Some(ended) = self.ended.as_ref().filter(|_| any) {
            ring(ended);
        }
    }

    /// Sends what may be sent, as much as the socket takes. Says whether something is left.
    fn send(&mut self) -> bool {
        let Some(link) = &mut self.link else { return false };
        if self.state.send(&mut link.machine) {
            link.heard = Instant::now();
        }
        // Whatever is wrong is seen when it is read from.
        link.wire.send(&mut link.machine).unwrap_or(true)
    }
}

impl Shared {
    pub(crate) fn new(host: u64) -> Result<Shared, Error> {
        let inside = Inside {
            state: State::new(host),
            link: None,
            closing: false,
            wakers: Vec::new(),
            ended: None,
        };
        Ok(Shared { inside: Mutex::new(inside), room: Condvar::new(), bell: bell()? })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the state.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.lock().state)
    }

    /// Takes a request once there is room, or, if not `patient`, if there is.
    pub(crate) fn submit<T>(
        &self,
        patient: bool,
        take: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut inside = self.lock();
        while inside.state.is_full() && inside.state.dead.is_none() {
            if !patient {
                let text = "the node accepts no more requests in flight; wait for a completion";
                return Err(Error::new(ErrorKind::Full, text));
            }
            inside = self.room.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = take(&mut inside.state)?;
        inside.tell_ended();
        if inside.send() {
            drop(inside);
            self.ring();
        }
        Ok(taken)
    }

    /// Whether there is room; if not, the waker is woken when there may be.
    pub(crate) fn has_room(&self, waker: &Waker) -> bool {
        let mut inside = self.lock();
        let full = inside.state.is_full() && inside.state.dead.is_none();
        if full {
            inside.wakers.push(waker.clone());
        }
        !full
    }

    /// A descriptor that is readable while there are ends that [`Shared::next_ended`] has not given.
    pub(crate) fn ended(&self) -> Result<Arc<OwnedFd>, Error> {
        let mut inside = self.lock();
        if let Some(ended) = &inside.ended {
            return Ok(ended.clone());
        }
        let ended = Arc::new(bell()?);
        inside.ended = Some(ended.clone());
        inside.state.told = Some(VecDeque::new());
        Ok(ended)
    }

    /// The next request that has ended.
    pub(crate) fn next_ended(&self) -> Option<Id> {
        let mut inside = self.lock();
        let told = inside.state.told.as_mut()?;
        let next = told.pop_front();
        if told.is_empty() {
            let ended = inside.ended.as_ref()?;
            let _ = rustix::io::read(ended, &mut [0_u8; 8]);
        }
        next
    }

    /// Nobody holds the volume any more: the thread ends when everything has ended.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.ring();
    }

    fn ring(&self) {
        ring(&self.bell);
    }

    /// After something has ended.
    fn tell_room(&self, inside: MutexGuard<'_, Inside>) {
        let mut inside = inside;
        let wakers = std::mem::take(&mut inside.wakers);
        inside.tell_ended();
        drop(inside);
        self.room.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn die(&self, why: Error) {
        let mut inside = self.lock();
        inside.link = None;
        inside.state.die(why);
        self.tell_room(inside);
    }
}

/// The thread.
pub(crate) struct Io {
    pub(crate) shared: Arc<Shared>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) volume: String,
    pub(crate) options: Options,
    /// What [`Volume::open`](crate::Volume::open) waits for.
    pub(crate) opened: Arc<Promise<Result<(), Error>>>,
    /// The address to try next.
    pub(crate) next: usize,
}

/// Why a connection is over.
enum Over {
    /// It broke, or the node does not serve: another may.
    Broken(String),
    /// There is no use in trying again.
    Fatal(Error),
    /// Everything has ended.
    Closed,
}

impl Io {
    pub(crate) fn run(mut self) {
        let mut resumes = false;
        let mut since = Instant::now();
        let (mut pause, mut tried) = (PAUSE, 0);
        loop {
            let over = self.connect(resumes).err().unwrap_or_else(|| {
                (resumes, pause, tried) = (true, PAUSE, 0);
                self.opened.fill(Ok(()));
                let over = self.serve();
                since = Instant::now();
                let mut inside = self.shared.lock();
                inside.link = None;
                inside.state.unsend();
                self.shared.tell_room(inside);
                over
            });
            let why = match over {
                Over::Broken(why) => why,
                Over::Fatal(e) => return self.end(e),
                Over::Closed => return,
            };
            let mut inside = self.shared.lock();
            if inside.closing && inside.state.is_idle() {
                return;
            }
            inside.link = None;
            drop(inside);
            let patience = if resumes { self.options.patience } else { self.options.open_patience };
            if since.elapsed() >= patience {
                let tried: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
                return self.end(Error::new(
                    ErrorKind::Unreachable,
                    format!("no node could be reached at {} ({why})", tried.join(", ")),
                ));
            }
            self.next = (self.next + 1) % self.addresses.len();
            tried += 1;
            if tried >= self.addresses.len() {
                tried = 0;
                thread::sleep(pause.min(patience.saturating_sub(since.elapsed())));
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }

    fn end(&self, why: Error) {
        self.shared.die(why.clone());
        self.opened.fill(Err(why));
    }

    /// Connects to the next address and greets.
    fn connect(&mut self, resumes: bool) -> Result<(), Over> {
        let address = &self.addresses[self.next];
        let broken = |e: &dyn std::fmt::Display| Over::Broken(format!("{address}: {e}"));
        let certificates = self.options.certificates.as_ref();
        let socket = address.connect().map_err(|e| broken(&e))?;
        let mut wire = Wire::new(socket, certificates).map_err(|e| broken(&e))?;
        let (host, oldest) = self.shared.with(|s| (s.host, s.oldest()));
        let (from, to) = (VERSION, VERSION);
        let volume = self.volume.clone();
        let hello = Hello { from, to, host, oldest, resumes, volume };
        let mut machine = Client::new(&hello);
        let since = Instant::now();
        let lost = |e: Lost| match e {
            // To try again would not help: a certificate is missing or not good.
            Lost::Tls(why) if !resumes => {
                Over::Fatal(Error::new(ErrorKind::NotAllowed, format!("{address}: TLS: {why}")))
            }
            Lost::System(_) if !resumes && greets_as_nbd(address, &hello) => {
                protocol(address, ProtocolError::Nbd)
            }
            e => broken(&e),
        };
        loop {
            let rest = wire.send(&mut machine).map_err(lost)?;
            match machine.poll().map_err(|e| protocol(address, e))? {
                Some(Event::Welcome(welcome)) if welcome.code == Code::Done => {
                    let mut inside = self.shared.lock();
                    inside.state.welcome = Some(welcome);
                    inside.link = Some(Link { machine, wire, heard: Instant::now() });
                    let rest = inside.send();
                    drop(inside);
                    if rest {
                        self.shared.ring();
                    }
                    return Ok(());
                }
                Some(Event::Welcome(welcome))
                    if welcome.code == Code::NotServing
                        // What is taken for another host may be what is left of this one.
                        || (resumes && welcome.code == Code::SecondWriter) =>
                {
                    return Err(broken(&welcome.text));
                }
                Some(Event::Welcome(welcome)) => {
                    return Err(Over::Fatal(Error::of_hello(welcome.code, welcome.text)));
                }
                Some(Event::Answer(_)) => {}
                None => {
                    let left = HELLO.saturating_sub(since.elapsed());
                    let out = if rest { PollFlags::OUT } else { PollFlags::empty() };
                    wait(&[(&*wire.socket, PollFlags::IN | out)], left);
                    wire.receive(&mut machine).map_err(lost)?;
                    if since.elapsed() >= HELLO {
                        return Err(broken(&"it does not answer"));
                    }
                }
            }
        }
    }

    /// Receives answers until the connection is over.
    fn serve(&mut self) -> Over {
        loop {
            let mut inside = self.shared.lock();
            let rest = inside.send();
            if inside.closing && inside.state.is_idle() {
                self.say_good_bye(&mut inside);
                return Over::Closed;
            }
            let idle = inside.state.is_idle();
            let Some(link) = &inside.link else {
                return Over::Broken("the connection is closed".into());
            };
            let socket = link.wire.socket.clone();
            let stalled = link.heard.elapsed();
            drop(inside);
            if !idle && stalled >= self.options.stall {
                let address = &self.addresses[self.next];
                return Over::Broken(format!("{address}: no data for {stalled:.0?}"));
            }
            let events = if rest { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let time = if idle { Duration::MAX } else { self.options.stall - stalled };
            wait(&[(&*socket, events), (&self.shared.bell, PollFlags::IN)], time);
            let _ = rustix::io::read(&self.shared.bell, &mut [0_u8; 8]);
            if let Err(over) = self.take_answers() {
                return over;
            }
        }
    }

    /// Takes what has come.
    fn take_answers(&self) -> Result<(), Over> {
        let address = &self.addresses[self.next];
        let mut inside = self.shared.lock();
        let Inside { state, link: Some(link), .. } = &mut *inside else { return Ok(()) };
        let mut any = false;
        let received = link.wire.receive(&mut link.machine);
        let polled = loop {
            match link.machine.poll() {
                Ok(Some(Event::Answer(answer))) if answer.code == Code::NotServing => {
                    break Err(Over::Broken(format!("{address}: {}", answer.text)));
                }
                Ok(Some(Event::Answer(answer))) => {
                    any = true;
                    state.ended(answer);
                }
                Ok(Some(Event::Welcome(_))) => {}
                Ok(None) => break Ok(()),
                Err(e) => break Err(protocol(address, e)),
            }
        };
        if any {
            link.heard = Instant::now();
            // What may be sent now goes at once.
            if inside.send() {
                self.shared.ring();
            }
            self.shared.tell_room(inside);
        }
        polled?;
        received.map_err(|e| Over::Broken(format!("{address}: {e}")))
    }

    /// The node need not remember the host.
    fn say_good_bye(&self, inside: &mut Inside) {
        let Some(link) = &mut inside.link else { return };
        link.machine.request(&NumberedRequest {
            verb: Verb::Bye,
            flags: 0,
            number: 0,
            oldest: 0,
            offset: 0,
            length: 0,
            after: Vec::new(),
            data: bytes::Bytes::new(),
        });
        // If it is not heard the node forgets the host all the same, later.
        send_all(&mut link.wire, &mut link.machine);
    }
}

/// Whether a server of NBD is at an address that has closed a connection upon a hello. Its greeting can be lost with that
/// connection, since the hello was left unread. So nothing is said on this one, and a node of Weft then says nothing either.
fn greets_as_nbd(address: &Address, hello: &Hello) -> bool {
    let Ok(socket) = address.connect() else { return false };
    let Ok(mut wire) = Wire::new(socket, None) else { return false };
    let (mut machine, since) = (Client::new(hello), Instant::now());
    while let Some(left) = GREETING.checked_sub(since.elapsed()) {
        wait(&[(&*wire.socket, PollFlags::IN)], left);
        let received = wire.receive(&mut machine);
        match machine.poll() {
            Ok(None) if received.is_ok() => {}
            said => return matches!(said, Err(ProtocolError::Nbd)),
        }
    }
    false
}

fn protocol(address: &Address, why: impl std::fmt::Display) -> Over {
    Over::Fatal(Error::new(ErrorKind::Protocol, format!("{address}: {why}")))
}

/// A descriptor that can be made readable.
fn bell() -> Result<OwnedFd, Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags)
        .map_err(|e| Error::new(ErrorKind::Failed, format!("cannot wait for events: {e}")))
}

fn ring(bell: &OwnedFd) {
    // If it cannot be counted further it has been rung often enough.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Sends everything, waiting if need be, as long as the connection stands.
fn send_all(wire: &mut Wire, machine: &mut Client) {
    while wire.send(machine).unwrap_or(false) {
        wait(&[(&*wire.socket, PollFlags::OUT)], HELLO);
    }
}

/// Waits until one of these is ready, or for so long.
fn wait(what: &[(&OwnedFd, PollFlags)], time: Duration) {
    let mut fds: Vec<PollFd<'_>> =
        what.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), *flags)).collect();
    let time = (time != Duration::MAX).then(|| Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    // If it was interrupted the caller looks, and waits again.
    let _ = poll(&mut fds, time.as_ref());
}
