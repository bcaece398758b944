//! Connecting to a node of the cluster by NBD: the part before requests, which the kernel leaves to others.

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a node may take until it serves the volume.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the other side may be silent until it is asked whether it is there, and then again and again.
const SILENT: Duration = Duration::from_secs(5);

/// How often it is asked in vain.
const PROBES: u32 = 3;

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION: &[u8; 8] = b"IHAVEOPT";
const REPLY: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u16 = 1;
/// Of the client: the new style, and no zeros at the end of an older one.
const CLIENT_FLAGS: u32 = 1 | 2;

const START_TLS: u32 = 5;
const GO: u32 = 7;

const ACKNOWLEDGED: u32 = 1;
const INFO: u32 = 3;
const REFUSED: u32 = 1 << 31;
/// The host has no right to use the volume.
const NO_RIGHT: u32 = REFUSED + 2;
const INFO_EXPORT: u16 = 0;

/// The longest reply that is read.
const LONGEST: u32 = 4096;

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to a volume, on which requests may be sent.
pub struct Link {
    /// The connection.
    pub stream: Box<dyn Stream>,
    /// Bytes of the volume.
    pub size: u64,
    /// What the server can do.
    pub flags: u16,
}

/// Why a volume is reached at no address.
#[derive(Debug, Default)]
pub struct Unreached {
    /// What the last address has failed with; a refusal for want of a right goes before others.
    why: Option<String>,
    /// How many addresses have refused for want of a right.
    refusals: usize,
    /// How many have failed in another way.
    others: usize,
}

impl Unreached {
    fn add(&mut self, address: &str, failed: &io::Error) {
        let is_refusal = failed.kind() == ErrorKind::PermissionDenied;
        if is_refusal || self.refusals == 0 {
            self.why = Some(format!("{address}: {failed}"));
        }
        match is_refusal {
            true => self.refusals += 1,
            false => self.others += 1,
        }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why.as_deref().unwrap_or("no address is given"))
    }
}

/// How long some addresses may refuse, while none serves the volume, until they are believed.
const BELIEVED_AFTER: Duration = Duration::from_secs(30);

/// Since when a host is refused a volume.
#[derive(Debug, Default)]
pub struct Refusals {
    since: Option<Instant>,
}

impl Refusals {
    /// Whether the host has lost its right, after one more failure: all addresses say so, or some have for a while. A
    /// single process may know an old map.
    pub fn are_final(&mut self, failed: &Unreached, now: Instant) -> bool {
        if failed.refusals == 0 {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        failed.others == 0 || now.saturating_duration_since(since) >= BELIEVED_AFTER
    }
}

/// Connects to a volume, at the first of several addresses that serves it.
///
/// # Errors
/// Why none does.
pub async fn connect(
    addresses: &[String],
    tls: Option<&Arc<ClientConfig>>,
    volume: &str,
) -> Result<Link, Unreached> {
    let mut unreached = Unreached::default();
    for address in addresses {
        let link = timeout(PATIENCE, connect_to(address, tls, volume)).await;
        match link.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(link) => return Ok(link),
            Err(e) => unreached.add(address, &e),
        }
    }
    Err(unreached)
}

async fn connect_to(
    address: &str,
    tls: Option<&Arc<ClientConfig>>,
    volume: &str,
) -> io::Result<Link> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    watch(&stream)?;
    greet(&mut stream).await?;
    let Some(tls) = tls else { return go(stream, volume).await };
    send_option(&mut stream, START_TLS, &[]).await?;
    match reply(&mut stream, START_TLS).await? {
        (ACKNOWLEDGED, _) => {}
        (_, why) => return Err(refused("does not support TLS", &why)),
    }
    // Nodes are known by the cluster's authority, and not by their addresses.
    let anybody = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    let stream = TlsConnector::from(tls.clone()).connect(anybody, stream).await?;
    go(stream, volume).await
}

/// Has a connection end whose other side is gone without a word.
fn watch(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT)?;
    sockopt::set_tcp_keepintvl(stream, SILENT)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    let all = SILENT * (PROBES + 1);
    sockopt::set_tcp_user_timeout(stream, u32::try_from(all.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

async fn greet(stream: &mut (impl Stream + ?Sized)) -> io::Result<()> {
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting).await?;
    let flags = stream.read_u16().await?;
    if greeting != *GREETING || flags & FIXED_NEWSTYLE == 0 {
        return Err(invalid("the other end does not use NBD"));
    }
    stream.write_u32(CLIENT_FLAGS).await?;
    stream.flush().await
}

/// Asks for a volume.
async fn go(mut stream: impl Stream + 'static, volume: &str) -> io::Result<Link> {
    let mut asked = Vec::new();
    asked.extend((volume.len() as u32).to_be_bytes());
    asked.extend(volume.as_bytes());
    asked.extend(0_u16.to_be_bytes());
    send_option(&mut stream, GO, &asked).await?;
    let mut export = None;
    loop {
        match reply(&mut stream, GO).await? {
            (ACKNOWLEDGED, _) => break,
            (INFO, said) => export = read_export(&said).or(export),
            (NO_RIGHT, why) => {
                let why = refused("does not allow this host to use the volume", &why);
                return Err(io::Error::new(ErrorKind::PermissionDenied, why));
            }
            (_, why) => return Err(refused("does not serve the volume", &why)),
        }
    }
    let (size, flags) = export.ok_or_else(|| invalid("the size of the volume is missing"))?;
    Ok(Link { stream: Box::new(stream), size, flags })
}

/// The size and the flags, if the server says those.
fn read_export(said: &[u8]) -> Option<(u64, u16)> {
    let kind = u16::from_be_bytes(*said.first_chunk()?);
    let size = u64::from_be_bytes(*said.get(2..)?.first_chunk()?);
    let flags = u16::from_be_bytes(*said.get(10..)?.first_chunk()?);
    (kind == INFO_EXPORT).then_some((size, flags))
}

async fn send_option(
    stream: &mut (impl Stream + ?Sized),
    option: u32,
    data: &[u8],
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16 + data.len());
    bytes.extend(OPTION);
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// The kind of a reply to an option, and what it says.
async fn reply(stream: &mut (impl Stream + ?Sized), option: u32) -> io::Result<(u32, Vec<u8>)> {
    let magic = stream.read_u64().await?;
    let (to, kind, length) =
        (stream.read_u32().await?, stream.read_u32().await?, stream.read_u32().await?);
    if magic != REPLY || to != option || length > LONGEST {
        return Err(invalid("the answer is not valid NBD"));
    }
    let mut said = vec![0; length as usize];
    stream.read_exact(&mut said).await?;
    let is_known = kind == ACKNOWLEDGED || kind == INFO || kind & REFUSED != 0;
    match is_known {
        true => Ok((kind, said)),
        false => Err(invalid("the answer is not valid NBD")),
    }
}

fn refused(what: &str, why: &[u8]) -> io::Error {
    io::Error::other(format!("it {what}: {}", String::from_utf8_lossy(why)))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
