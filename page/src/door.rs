//! The threads that serve the page, one for each of a bounded number of connections, as those of the metrics. Whoever is
//! slow or says too much is sent away, and whoever says nothing gives way to the next. The array is asked over its control
//! socket, so that nobody who looks holds up its reactor.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ServerConnection, Stream};
use weft_host::unauthenticated::{Hurried, Place, Places};
use weft_host::{About, Control, Error, Level, Log, PageDoor, Result};

use crate::ask::Asker;
use crate::events::Events;
use crate::http::{Method, Refused, Request, Response};
use crate::samples::EVERY;
use crate::site::{Caller, Site};
use crate::tls::Shown;

/// How long one may take to say what it wants, and for the answer.
const HEARS: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// An address at which the page is served.
pub struct Page {
    listener: TcpListener,
    address: SocketAddr,
    shown: Option<Shown>,
    events: Events,
}

impl Page {
    /// Takes the address, so that it is known to be free before anything else is done.
    ///
    /// # Errors
    /// If it is in use, or none of this machine, or the certificate cannot be used.
    pub fn bind(door: &PageDoor) -> Result<Page> {
        let shown = door.tls.as_ref().map(Shown::load).transpose()?;
        let address = door.address;
        let at =
            |e| Error(format!("page: cannot listen at {address}: {e}; choose another address"));
        let listener = TcpListener::bind(address).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        Ok(Page { listener, address, shown, events: Events::default() })
    }

    /// Where it is served: with the port, should that have been left open.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A log whose lines are shown on the page.
    pub fn heard(&self, log: Log) -> Log {
        self.events.heard(log)
    }

    /// Serves it from threads of its own, as long as this process runs. The users are those of the directory `dir`, and
    /// `connect` connects to the array.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn serve(
        self,
        dir: std::path::PathBuf,
        log: Log,
        connect: impl Fn() -> Result<Control> + Send + Sync + 'static,
    ) -> Result<()> {
        let Page { listener, address, shown, events } = self;
        let scheme = if shown.is_some() { "https" } else { "http" };
        let asker = Arc::new(Asker::new(connect));
        let site = Site::new(asker, events, log.clone(), dir, address.port(), shown.is_some());
        let at = format!("page at {scheme}://{address}/");
        match site.users() {
            Ok(users) if users.all().is_empty() => {
                let text = format!("{at}; add a user with `weft user add` before logging in");
                log.say(Level::Info, &About::default(), &text);
            }
            Ok(_) => log.say(Level::Info, &About::default(), &at),
            // The array is there for those who store, whoever can log in.
            Err(e) => {
                log.say(Level::Warning, &About::default(), &format!("{at}; nobody can log in: {e}"))
            }
        }
        let site = Arc::new(site);
        let sampled = site.clone();
        let sample = move || {
            loop {
                sampled.sample();
                thread::sleep(EVERY);
            }
        };
        let cannot = |e: io::Error| Error(format!("cannot start a thread: {e}"));
        named().spawn(sample).map_err(cannot)?;
        let door = Arc::new(Door { site, shown, log });
        named().spawn(move || door.receive(&listener)).map(drop).map_err(cannot)
    }
}

fn named() -> thread::Builder {
    thread::Builder::new().name("page".to_string())
}

/// What those who come in are served.
struct Door {
    site: Arc<Site>,
    shown: Option<Shown>,
    log: Log,
}

impl Door {
    fn receive(self: &Arc<Door>, listener: &TcpListener) {
        let places = Arc::new(Places::default());
        for caller in listener.incoming() {
            let Ok(caller) = caller else {
                // Of descriptors there are none left, or it ended at once.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let caller = Arc::new(caller);
            let Some(place) = places.take(&caller) else { continue };
            let (door, place) = (self.clone(), Arc::new(place));
            // One that is gone before it has its answer does not need it.
            let serve = move || drop(door.serve(&caller, &place));
            if named().spawn(serve.clone()).is_err() {
                // Without a thread they come one after the other.
                serve();
            }
        }
    }

    fn serve(&self, caller: &TcpStream, place: &Place) -> io::Result<()> {
        let from = caller.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |a| a.ip());
        let mut socket = Hurried::new(caller, HEARS);
        let Some(shown) = &self.shown else {
            return self.answer(&mut Plain(&mut socket), place, from);
        };
        let config = shown.config(Instant::now(), &self.log);
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut secured = Secured(Stream::new(&mut tls, &mut socket));
        self.answer(&mut secured, place, from)?;
        tls.send_close_notify();
        while tls.wants_write() {
            tls.write_tls(&mut socket)?;
        }
        Ok(())
    }

    fn answer(&self, line: &mut impl Line, place: &Place, from: IpAddr) -> io::Result<()> {
        let request = match Request::read(line) {
            Ok(request) => request,
            Err(refused) => {
                line.give(PATIENCE);
                return refuse(line, &refused);
            }
        };
        place.is_heard();
        let response = self.site.respond(&request, &Caller { from, now: Instant::now() });
        place.is_answered();
        line.give(PATIENCE);
        response.send(line, request.method != Method::Head)
    }
}

fn refuse(line: &mut impl Line, refused: &Refused) -> io::Result<()> {
    match Response::refused(refused) {
        Some(response) => response.send(line, true),
        None => Ok(()),
    }
}

/// A connection with a time until which all must be over.
trait Line: Read + Write {
    /// Gives it more time, from now on.
    fn give(&self, time: Duration);
}

struct Plain<'a, 'b>(&'a mut Hurried<'b>);

struct Secured<'a, 'b>(Stream<'a, ServerConnection, Hurried<'b>>);

impl Read for Plain<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Plain<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Line for Plain<'_, '_> {
    fn give(&self, time: Duration) {
        self.0.give(time);
    }
}

impl Read for Secured<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Secured<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Line for Secured<'_, '_> {
    fn give(&self, time: Duration) {
        self.0.sock.give(time);
    }
}
