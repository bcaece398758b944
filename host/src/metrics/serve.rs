//! The threads that serve the page, one for each of a bounded number of connections. They speak as much HTTP as those who fetch metrics need: one question a connection,
//! without a body. Whoever is slow or says too much is sent away, and whoever says nothing gives way to the next.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::page;
use crate::error::{Error, Result};
use crate::status::Status;
use crate::unauthenticated::{Hurried, Place, Places};

/// The type of the page.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long one may take to say what it wants.
const HEARS: Duration = Duration::from_secs(2);

/// How long one may take for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest question.
const MOST: usize = 8 << 10;

/// An address at which metrics are served.
pub struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Takes the address, so that it is known to be free before anything else is done.
    ///
    /// # Errors
    /// If it is in use, or none of this machine.
    pub fn bind(address: SocketAddr) -> Result<Metrics> {
        let at =
            |e| Error(format!("metrics: cannot listen at {address}: {e}; choose another address"));
        let listener = TcpListener::bind(address).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        Ok(Metrics { listener, address })
    }

    /// Where it is served: with the port, should that have been left open.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves them from threads of its own, as long as this process runs. `ask` says how the array is.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn serve(self, ask: impl Fn() -> Result<Status> + Send + Sync + 'static) -> Result<()> {
        let (ask, places) = (Arc::new(ask), Arc::new(Places::default()));
        let serve = move || {
            for caller in self.listener.incoming() {
                let Ok(caller) = caller else {
                    // Of descriptors there are none left, or it ended at once.
                    thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let caller = Arc::new(caller);
                let Some(place) = places.take(&caller) else { continue };
                let (ask, place) = (ask.clone(), Arc::new(place));
                // One that is gone before it has its answer does not need it.
                let serve = move || drop(answer(&caller, &place, &*ask));
                if named().spawn(serve.clone()).is_err() {
                    // Without a thread they come one after the other.
                    serve();
                }
            }
        };
        let started = named().spawn(serve).map(drop);
        started.map_err(|e| Error(format!("cannot start a thread: {e}")))
    }
}

fn named() -> thread::Builder {
    thread::Builder::new().name("metrics".to_string())
}

/// Hears one question and answers it.
fn answer(
    caller: &TcpStream,
    place: &Place,
    ask: &impl Fn() -> Result<Status>,
) -> std::io::Result<()> {
    let mut caller = Hurried::new(caller, HEARS);
    let question = question(&mut caller)?;
    place.is_heard();
    let (status, kind, body) = respond(&question, ask);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    place.is_answered();
    caller.give(PATIENCE);
    caller.write_all(head.as_bytes())?;
    match question.starts_with("HEAD ") {
        true => Ok(()),
        false => caller.write_all(body.as_bytes()),
    }
}

/// What is asked, as far as the empty line.
fn question(caller: &mut impl Read) -> std::io::Result<String> {
    let mut said = Vec::new();
    let mut buffer = [0; 1024];
    while !said.windows(4).any(|w| w == b"\r\n\r\n") {
        if said.len() > MOST {
            return Err(ErrorKind::InvalidData.into());
        }
        match caller.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => said.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The answer: how it went, what it is, and itself.
fn respond(
    question: &str,
    ask: &impl Fn() -> Result<Status>,
) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let mut words = question.split_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    if !["GET", "HEAD"].contains(&method) {
        return ("405 Method Not Allowed", TEXT, "only GET is answered\n".to_string());
    }
    if path.split('?').next() != Some("/metrics") {
        return ("404 Not Found", TEXT, "metrics are at /metrics\n".to_string());
    }
    match ask().and_then(|status| page(&status)) {
        Ok(page) => ("200 OK", OPENMETRICS, page),
        Err(e) => ("503 Service Unavailable", TEXT, format!("{e}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::fail;

    fn fetch(address: SocketAddr, question: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_served_and_nothing_else() {
        let metrics = Metrics::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        let taken = Metrics::bind(address).err().unwrap().0;
        assert!(taken.contains("choose another address"), "{taken}");
        metrics.serve(|| Ok(Status { epoch: 7, ..Status::default() })).unwrap();
        let page = fetch(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with(
            "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0"
        ));
        assert!(page.contains("\nweft_map_epoch 7.0\n") && page.ends_with("# EOF\n"), "{page}");
        let head = fetch(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(fetch(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(fetch(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n", "x".repeat(MOST));
        assert!(!fetch_what_comes(address, &long).contains("200 OK"));
        assert!(
            fetch(address, "GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"),
            "the next is answered"
        );
    }

    /// More than there are places, and they stay as long as they are let.
    #[test]
    fn those_who_say_nothing_keep_nobody_waiting() {
        let metrics = Metrics::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        metrics.serve(|| Ok(Status::default())).unwrap();
        let begun = std::time::Instant::now();
        let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let page = fetch(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
        assert!(
            begun.elapsed() < Duration::from_secs(20 * 2),
            "one after the other they take 80 s"
        );
        drop(silent);
    }

    /// All places are taken by clients that ask for more than sockets hold, and read none of it.
    #[test]
    fn those_who_do_not_read_keep_nobody_waiting() {
        let metrics = Metrics::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        let long = "x".repeat(16 << 20);
        metrics.serve(move || fail(long.clone())).unwrap();
        let ask = || {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may have been sent away already.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
            stream
        };
        let deaf: Vec<_> = (0..16).map(|_| ask()).collect();
        let begun = std::time::Instant::now();
        let answer = loop {
            let mut answer = Vec::new();
            let _ = ask().take(16).read_to_end(&mut answer);
            if !answer.is_empty() {
                break answer;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "all places stay taken");
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(answer, b"HTTP/1.1 503 Ser", "{}", String::from_utf8_lossy(&answer));
        drop(deaf);
    }

    /// The other end may end it before all has been said.
    fn fetch_what_comes(address: SocketAddr, question: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut answer = Vec::new();
        let _ = stream.write_all(question.as_bytes());
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn an_array_that_does_not_answer_is_said() {
        let (status, _, body) = respond("GET /metrics HTTP/1.1", &|| fail("it is stopping"));
        assert_eq!((status, body.as_str()), ("503 Service Unavailable", "it is stopping\n"));
    }
}
