//! How a new node comes in with a token.
//!
//! A node that keeps the authority's key listens at its `admit` address, on a thread of its own:
//! connections there are few, short, and from strangers. The new node dials, trusts the
//! authority whose fingerprint the token bears, and sends one line: the token's secret, its
//! name, its public key, its address and labels. The token is good for the first name and key that it is
//! shown with, so the new node keeps its key until it knows what became of it. If the token is good, the cluster is asked for a
//! number like by any other request to the control socket ([`ControlRequest::NodeAdd`]), and the new
//! node gets one line back: its certificate, its number, and where the others are.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mio::Waker;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_bytes::escape::cut;
use weft_member::{Stored, listed};
use weft_net::identity::{
    CertificateAuthority, Clock, JoinToken, LIFE, NodeName, PublicKey, TokenBook, describe,
    joining_config,
};

use super::certificate::{KEY, forget_waiting_key, waiting_key};
use super::config::Configuration;
use super::found::Invitation;
use super::home::{Home, Known};
use super::new_process::NewProcess;
use crate::control_protocol::{ControlRequest, NewHome};
use crate::error::{Error, Result, denied_to};
use crate::log::{Log, Sparing};
use crate::unauthenticated::{Hurried, Place, Places};

/// How long one side may take for what it has to say, however it comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the cluster may take to find a number.
const DECIDING: Duration = Duration::from_secs(60);

/// The longest line.
const LONGEST: u64 = 64 << 10;

/// Of a longer name than anybody has the beginning is shown.
const LONGEST_NAME: usize = 64;

const TOKENS: &str = "tokens";

/// What a new node says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plea {
    token: String,
    name: String,
    key: Vec<u8>,
    home: NewHome,
    /// The volume without which it need not join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    /// Others of which the same is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more_volumes: Vec<String>,
}

impl Plea {
    fn read(line: &[u8]) -> std::result::Result<Plea, No> {
        serde_json::from_slice(line)
            .map_err(|e| Error(format!("the request is invalid: {e}")).into())
    }
}

/// Why a node does not come in.
struct No {
    why: Error,
    /// Perhaps it has: it is to ask again with the same token, and with the same key.
    again: bool,
}

impl No {
    fn yet(why: Error) -> No {
        No { why, again: true }
    }
}

impl From<Error> for No {
    fn from(why: Error) -> No {
        No { why, again: false }
    }
}

/// A request to the control socket from the thread.
pub(crate) struct Application {
    /// The request.
    pub(crate) question: Vec<u8>,
    /// Where the answer goes.
    pub(crate) answer: Sender<Vec<u8>>,
    /// How long the thread waits for it. After that it must not be taken up.
    pub(crate) until: Instant,
}

/// Where new nodes are let in.
pub(crate) struct Admission {
    address: SocketAddr,
    keeper: Arc<Keeper>,
    applications: Receiver<Application>,
}

struct Keeper {
    authority: CertificateAuthority,
    tokens: Mutex<TokenBook>,
    path: std::path::PathBuf,
}

/// The cluster's authority, for a process that admits nodes.
pub(super) fn authority(config: &Configuration) -> Result<CertificateAuthority> {
    CertificateAuthority::load(&config.dir).map_err(|e| {
        let address = config.admit.map(|address| format!(" at {address}")).unwrap_or_default();
        let key = config.dir.join("ca-key.pem");
        Error(format!(
            "cannot admit nodes{address}: {e}{}; omit `admit` where the authority's key is missing",
            denied_to(&key).unwrap_or_default()
        ))
    })
}

impl Admission {
    /// Lets nodes in at the address of the configuration, if there is one. Without the authority's key it lets nobody in, and
    /// the process serves. `waker` is woken when there is an application; `complaints` is the log for what
    /// strangers do.
    pub(crate) fn start(
        home: &Home,
        waker: Arc<Waker>,
        log: Log,
        complaints: Arc<Sparing>,
    ) -> Result<Option<Admission>> {
        let Some(address) = home.config.admit else { return Ok(None) };
        let wrong = |e: weft_net::identity::IdentityError| Error(e.to_string());
        let authority = match authority(&home.config) {
            Ok(authority) => authority,
            Err(e) => {
                log.warn(&e.0);
                return Ok(None);
            }
        };
        let path = home.dir().join(TOKENS);
        let tokens = Mutex::new(TokenBook::load(&path).map_err(wrong)?);
        let keeper = Arc::new(Keeper { authority, tokens, path });
        let config = home.identity.admitting_config().map_err(wrong)?;
        let listener = TcpListener::bind(address).map_err(|e| {
            Error(format!("cannot listen at {address}: {e}; choose another address for `admit`"))
        })?;
        let (sender, applications) = channel();
        let server =
            AdmissionServer { keeper: keeper.clone(), config, sender, waker, log, complaints };
        thread::Builder::new()
            .name("weft-admission".to_string())
            .spawn(move || server.keep(&listener))
            .map_err(|e| Error(format!("cannot start a thread: {e}")))?;
        Ok(Some(Admission { address, keeper, applications }))
    }

    /// The next application that somebody still waits for.
    pub(crate) fn next(&self) -> Option<Application> {
        let now = Instant::now();
        self.applications.try_iter().find(|a| now < a.until)
    }

    /// A token that is good for so many seconds, and where to go with it.
    pub(crate) fn issue(&self, seconds: u64) -> Result<(JoinToken, SocketAddr)> {
        let wrong = |e: weft_net::identity::IdentityError| Error(e.to_string());
        let fingerprint = self.keeper.authority.fingerprint().map_err(wrong)?;
        let mut tokens = self.keeper.tokens();
        let mut next = tokens.clone();
        let token = next.issue(fingerprint, now(), seconds).map_err(wrong)?;
        next.save(&self.keeper.path).map_err(wrong)?;
        *tokens = next;
        Ok((token, self.address))
    }
}

fn now() -> u64 {
    Clock::system().now()
}

impl Keeper {
    fn tokens(&self) -> MutexGuard<'_, TokenBook> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses a token up, for a name and a key. Says whether it had not been used before. That is on disk
    /// before anything comes of it.
    fn redeem(&self, token: &JoinToken, name: &NodeName, key: &PublicKey) -> Result<bool> {
        let mut tokens = self.tokens();
        let mut next = tokens.clone();
        let fresh = next.redeem(token.id, &token.secret, name, key, now()).map_err(said)?;
        next.save(&self.path).map_err(said)?;
        *tokens = next;
        Ok(fresh)
    }

    /// Who used a token was refused.
    fn give_back(&self, token: &JoinToken, key: &PublicKey) -> Result<()> {
        let mut tokens = self.tokens();
        let mut next = tokens.clone();
        next.give_back(token.id, key);
        next.save(&self.path).map_err(said)?;
        *tokens = next;
        Ok(())
    }
}

/// The thread's side.
struct AdmissionServer {
    keeper: Arc<Keeper>,
    config: Arc<ServerConfig>,
    sender: Sender<Application>,
    waker: Arc<Waker>,
    log: Log,
    complaints: Arc<Sparing>,
}

impl AdmissionServer {
    fn keep(self, listener: &TcpListener) {
        let server = Arc::new(self);
        let places = Arc::new(Places::default());
        for socket in listener.incoming() {
            let Ok(socket) = socket else {
                // Out of descriptors, perhaps: not for ever.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let socket = Arc::new(socket);
            let Some(place) = places.take(&socket) else { continue };
            let server = server.clone();
            // Without a thread the place is free again, and the connection over.
            drop(thread::Builder::new().spawn(move || server.admit(&socket, &place)));
        }
    }

    fn admit(&self, socket: &TcpStream, place: &Place) {
        let mut who = socket.peer_addr().map_or("someone".to_string(), |a| a.to_string());
        let mut serve = || {
            let tls = ServerConnection::new(self.config.clone()).map_err(tls_failed)?;
            let socket = Hurried::new(socket, PATIENCE);
            let mut stream = BufReader::new(StreamOwned::new(tls, socket));
            let plea = read_line(&mut stream).map_err(in_words)?;
            place.is_heard();
            let decided = Plea::read(&plea).and_then(|plea| {
                who = format!("{who}, which calls itself {},", cut(&plea.name, LONGEST_NAME));
                self.decide(plea)
            });
            stream.get_ref().sock.give(PATIENCE);
            let answer = match &decided {
                Ok(invitation) => json!({ "ok": true, "invitation": invitation }),
                Err(no) => json!({ "ok": false, "error": no.why.to_string(), "again": no.again }),
            };
            write_line(stream.get_mut(), &answer).map_err(in_words)?;
            stream.get_mut().conn.send_close_notify();
            // The answer has been given; that the other side is gone changes nothing.
            let _ = stream.get_mut().flush();
            decided.map_err(|no| no.why)
        };
        match serve() {
            Ok(invitation) => {
                let have = have_joined(&invitation.nodes());
                self.log.info(&format!("{have}, from {}", who.trim_end_matches(',')));
            }
            Err(e) => {
                let why = format!("{who} tried to join and was refused: {e}");
                self.complaints.say(Instant::now(), &why);
            }
        }
    }

    /// What the cluster says to a request.
    fn ask(&self, request: &ControlRequest) -> Result<Value> {
        let (sender, answer) = channel();
        let question = serde_json::to_vec(request).map_err(said)?;
        let until = Instant::now() + DECIDING;
        let application = Application { question, answer: sender, until };
        let gone = || Error("that node is stopping; try again".to_string());
        self.sender.send(application).map_err(|_| gone())?;
        self.waker.wake().map_err(said)?;
        let answer = answer.recv_timeout(DECIDING).map_err(|_| {
            Error("the cluster has not decided in time; try again with the same token".to_string())
        })?;
        serde_json::from_slice(&answer).map_err(said)
    }

    fn decide(&self, plea: Plea) -> std::result::Result<Invitation, No> {
        let token: JoinToken = plea.token.parse().map_err(said)?;
        let name: NodeName = plea.name.parse().map_err(said)?;
        let key = PublicKey::from_bytes(&plea.key).map_err(said)?;
        let fresh = self.keeper.redeem(&token, &name, &key)?;
        for volume in plea.volume.into_iter().chain(plea.more_volumes) {
            let answer = self.ask(&ControlRequest::VolumeShow { name: volume }).map_err(No::yet)?;
            if answer["ok"] != true {
                if fresh {
                    self.keeper.give_back(&token, &key)?;
                }
                return Err(refusal(&answer).into());
            }
        }
        let ip = plea.home.address.ip();
        let (named, shown) = (name.to_string(), key.as_bytes().to_vec());
        let add = ControlRequest::NodeAdd { name: named, home: plea.home, key: shown };
        let answer = self.ask(&add).map_err(No::yet)?;
        if answer["ok"] != true {
            // With one that had been used a node may have been let in before, and so may this one if
            // it is only not known what became of it.
            if answer["refused"] != true {
                return Err(No::yet(refusal(&answer)));
            }
            if fresh {
                self.keeper.give_back(&token, &key)?;
            }
            return Err(refusal(&answer).into());
        }
        self.invite(&answer, (&name, ip), &key).map_err(No::yet)
    }

    /// What a node gets that the cluster has let in.
    fn invite(
        &self,
        answer: &Value,
        (name, ip): (&NodeName, IpAddr),
        key: &PublicKey,
    ) -> Result<Invitation> {
        let peers: Vec<Known> = serde_json::from_value(answer["peers"].clone()).map_err(said)?;
        let node: u16 = serde_json::from_value(answer["node"].clone()).map_err(said)?;
        let disks = serde_json::from_value(answer["disks"].clone()).map_err(said)?;
        Ok(Invitation {
            ca: self.keeper.authority.pem().to_string(),
            certificate: self
                .keeper
                .authority
                .admit_at(name, key, &[ip], now(), LIFE)
                .map_err(said)?,
            node,
            disks,
            peers,
        })
    }
}

fn refusal(answer: &Value) -> Error {
    said(answer["error"].as_str().unwrap_or("it was refused without a reason"))
}

fn said(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

fn tls_failed(error: rustls::Error) -> Error {
    Error(format!("TLS: {error}"))
}

/// An error of a stream with TLS, which may be about that.
fn in_words(error: io::Error) -> Error {
    match error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(tls) => Error(describe(tls)),
        None => said(error),
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(LONGEST).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection broke")),
    }
}

fn write_line(stream: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).and_then(|()| stream.flush())
}

/// Why nothing has come of asking to join.
fn not_asked(error: io::Error) -> Error {
    let given = "the address printed by `weft cluster token` with this token";
    let what = match error.kind() {
        io::ErrorKind::TimedOut => "it did not answer in time",
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "it closed the connection without an answer",
        _ => return Error(format!("{}; give {given}", in_words(error))),
    };
    Error(format!(
        "{what}: it may have too many connections now, or may be stopping. Try again in a moment, with the same token; if \
         that does not help, check that this is {given}"
    ))
}

/// Joins a cluster: asks at `address`, and makes the process's directory and disks. Returns the
/// numbers of its nodes.
pub fn join(
    config: &Configuration,
    token: &JoinToken,
    address: SocketAddr,
    force: bool,
) -> Result<Vec<u16>> {
    be_admitted(config, token, address, force, config.new_home(), &[])
}

/// Takes the place of a process of this name that is lost: the same as [`join`], and what was on that one's disks is
/// rebuilt. Volumes that cannot be rebuilt go if their loss is accepted.
pub fn replace(
    config: &Configuration,
    token: &JoinToken,
    address: SocketAddr,
    force: bool,
    accept_loss: &[String],
) -> Result<Vec<u16>> {
    let accept_loss = accept_loss.to_vec();
    let home = NewHome { replaces: true, accept_loss, ..config.new_home() };
    be_admitted(config, token, address, force, home, &[])
}

/// Joins a cluster as a host that is its own controller, if the cluster has these volumes.
pub fn join_as_host(
    config: &Configuration,
    token: &JoinToken,
    address: SocketAddr,
    volumes: &[String],
) -> Result<()> {
    be_admitted(config, token, address, false, config.new_home(), volumes).map(drop)
}

fn be_admitted(
    config: &Configuration,
    token: &JoinToken,
    address: SocketAddr,
    force: bool,
    home: NewHome,
    volumes: &[String],
) -> Result<Vec<u16>> {
    config.check_here()?;
    let mut process = NewProcess::prepare(config, force)?;
    let key = waiting_key(config)?;
    let plea = Plea {
        token: token.to_string(),
        name: config.name.to_string(),
        key: key.public().as_bytes().to_vec(),
        home,
        volume: volumes.first().cloned(),
        more_volumes: volumes.iter().skip(1).cloned().collect(),
    };
    let settled = ask(&plea, token, address).and_then(|invitation| {
        let (cluster, _) = weft_net::identity::cluster_of(&invitation.certificate).map_err(said)?;
        process.settle(&invitation, Stored::empty(), &key, cluster.0).map_err(|e| {
            No::yet(Error(format!(
                "{e}. The cluster now expects {}, and nothing was changed here: fix that, and \
                 repeat the command with the \
             same token",
                config.name
            )))
        })?;
        Ok(invitation.nodes())
    });
    match settled {
        Ok(nodes) => {
            process.keep();
            forget_waiting_key(config)?;
            Ok(nodes)
        }
        // The token is good for this key alone.
        Err(No { why, again: true }) => {
            process.keep_only(KEY);
            Err(why)
        }
        Err(no) => Err(no.why),
    }
}

fn ask(plea: &Plea, token: &JoinToken, address: SocketAddr) -> std::result::Result<Invitation, No> {
    let cannot = |e: Error| Error(format!("cannot join at {address}: {e}"));
    let socket = TcpStream::connect_timeout(&address, PATIENCE).map_err(|e| cannot(said(e)))?;
    let name = ServerName::try_from("join.weft").map_err(said)?;
    let config = joining_config(token.fingerprint).map_err(said)?;
    let tls = ClientConnection::new(config, name).map_err(tls_failed)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, Hurried::new(&socket, PATIENCE)));
    greet(stream.get_mut()).map_err(|e| cannot(not_asked(e)))?;
    let unheard = |e: Error| {
        No::yet(cannot(Error(format!(
            "{e}. The cluster may or may not have admitted this node: repeat the command with the same token"
        ))))
    };
    let in_doubt = |e: io::Error| unheard(in_words(e));
    write_line(stream.get_mut(), plea).map_err(in_doubt)?;
    stream.get_ref().sock.give(DECIDING + PATIENCE);
    let answer = read_line(&mut stream).map_err(in_doubt)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|e| unheard(said(e)))?;
    if answer["ok"] != true {
        let why = answer["error"].as_str().unwrap_or("no reason given");
        let why = Error(format!("{address} refuses: {why}"));
        return Err(No { why, again: answer["again"] == true });
    }
    serde_json::from_value(answer["invitation"].clone()).map_err(|e| unheard(said(e)))
}

/// Finds out whether the other side is who the token says, before anything is said to it.
fn greet(stream: &mut StreamOwned<ClientConnection, Hurried<'_>>) -> io::Result<()> {
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(())
}

/// That these nodes have joined.
fn have_joined(nodes: &[u16]) -> String {
    match nodes {
        [node] => format!("node {node} has joined"),
        nodes => format!("nodes {} have joined", listed(nodes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_joined_is_said_in_a_sentence() {
        assert_eq!(have_joined(&[4]), "node 4 has joined");
        assert_eq!(have_joined(&[2, 3]), "nodes 2 and 3 have joined");
    }

    #[test]
    fn one_that_is_not_answered_hears_that_it_may_be_for_too_many_connections() {
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset] {
            let said = not_asked(kind.into()).0;
            assert!(said.contains("closed the connection"), "{said}");
            assert!(said.contains("too many connections") && said.contains("same token"), "{said}");
        }
        assert!(not_asked(io::ErrorKind::TimedOut.into()).0.contains("in time"));
        let tls = io::Error::other(rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownIssuer,
        ));
        let said = not_asked(tls).0;
        assert!(said.contains("; give the address") && !said.contains("too many"), "{said}");
    }
}
