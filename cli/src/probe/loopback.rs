//! TCP over loopback between two processes: the round trip of small messages, and bandwidth.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

/// A small message, as large as the simulator's headers.
const SMALL: usize = 64;
/// What is sent at a time when bandwidth is measured.
const LARGE: usize = 1 << 20;

/// What came out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Loopback {
    /// Median time there and back, in microseconds.
    pub round_trip_us: f64,
    /// 10^6 bytes a second, one way.
    pub mb_s: f64,
}

/// Measures it, each for so long, with this program as the other process.
///
/// # Errors
/// If there are no sockets, or the other process does not end well.
pub fn measure(time: Duration) -> Result<Loopback> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut other = Command::new(std::env::current_exe()?)
        .args(["probe", "--echo", &listener.local_addr()?.to_string()])
        .spawn()?;
    let (mut socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    let mut exchange = |bytes: &[u8]| -> Result<Duration> {
        let begun = Instant::now();
        socket.write_all(&(bytes.len() as u64).to_le_bytes())?;
        socket.write_all(bytes)?;
        socket.read_exact(&mut [0; SMALL])?;
        Ok(begun.elapsed())
    };
    let (mut trips, end) = (Vec::new(), Instant::now() + time);
    while trips.is_empty() || Instant::now() < end {
        trips.push(exchange(&[0; SMALL - 8])?);
    }
    trips.sort_unstable();
    let (piece, mut sent, begun) = (vec![0; 64 * LARGE], 0, Instant::now());
    while sent == 0 || begun.elapsed() < time {
        exchange(&piece)?;
        sent += piece.len();
    }
    let mb_s = sent as f64 / 1e6 / begun.elapsed().as_secs_f64();
    drop(socket);
    let status = other.wait()?;
    ensure!(status.success(), "the peer process of the sockets failed ({status})");
    Ok(Loopback { round_trip_us: trips[trips.len() / 2].as_secs_f64() * 1e6, mb_s })
}

/// The other process: takes messages and answers each with a small one.
///
/// # Errors
/// If it cannot connect.
pub fn echo(address: SocketAddr) -> Result<()> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let (mut length, mut piece) = ([0; 8], vec![0; LARGE]);
    while socket.read_exact(&mut length).is_ok() {
        let mut left = u64::from_le_bytes(length);
        while left > 0 {
            let part = left.min(LARGE as u64) as usize;
            socket.read_exact(&mut piece[..part])?;
            left -= part as u64;
        }
        socket.write_all(&[0; SMALL])?;
    }
    Ok(())
}
