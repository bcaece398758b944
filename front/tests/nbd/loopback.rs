//! A stream with a server and a disk at its other end.

use std::io::{self, ErrorKind, Read, Write};

use weft_front::nbd::client::Client;
use weft_front::nbd::server::{Command, Errno, Event, Export, ProtocolError, Reply, Server};

use crate::disk::Disk;

pub struct Loopback {
    pub server: Server,
    pub disk: Disk,
    /// The first is the default.
    pub exports: Vec<Export>,
    /// Bytes that pass at a time.
    pub step: usize,
    /// Let commands gather until the client waits, then do the last first.
    pub hold: bool,
    held: Vec<Command>,
    pub error: Option<ProtocolError>,
}

impl Loopback {
    pub fn new(export: Export) -> Loopback {
        Loopback {
            server: Server::new(),
            disk: Disk::new(export.size as usize),
            exports: vec![export],
            step: usize::MAX,
            hold: false,
            held: Vec::new(),
            error: None,
        }
    }

    pub fn stepping(mut self, step: usize) -> Loopback {
        self.step = step;
        self
    }

    fn pump(&mut self) {
        loop {
            match self.server.poll() {
                Ok(Some(Event::List)) => self.server.exports(&self.exports),
                Ok(Some(Event::Open { name, .. })) => {
                    let found =
                        self.exports.iter().find(|export| name.is_empty() || export.name == name);
                    self.server.export(found.cloned());
                }
                Ok(Some(Event::Command(command))) => {
                    self.held.push(command);
                    if !self.hold {
                        self.release();
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
    }

    /// Answers the latest command held.
    pub fn answer(&mut self, result: Result<Reply, Errno>) {
        let command = self.held.pop().unwrap();
        self.server.reply(command.cookie, result);
    }

    fn release(&mut self) {
        while let Some(command) = self.held.pop() {
            let result = self.disk.carry_out(&command);
            self.server.reply(command.cookie, result);
        }
    }
}

impl Write for Loopback {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        if self.error.is_some() || self.server.closing() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let all = bytes.len();
        while !bytes.is_empty() {
            let space = self.server.space();
            assert!(!space.is_empty());
            let n = bytes.len().min(space.len()).min(self.step);
            space[..n].copy_from_slice(&bytes[..n]);
            self.server.filled(n);
            self.pump();
            bytes = &bytes[n..];
        }
        Ok(all)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Loopback {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.server.output_len() == 0 {
            self.release();
        }
        let n = match self.server.output().next() {
            None => return Ok(0),
            Some(segment) => {
                let n = segment.len().min(out.len()).min(self.step);
                out[..n].copy_from_slice(&segment[..n]);
                n
            }
        };
        self.server.sent(n);
        Ok(n)
    }
}

/// Size of the disk most tests use.
pub const SIZE: u64 = 1 << 20;

pub fn client() -> Client<Loopback> {
    Client::connect(Loopback::new(Export::new("disk", SIZE)), "disk").unwrap()
}

/// Bytes that tell where they are.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mix = |i| {
        let x = (i as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x >> 56) as u8
    };
    (0..length).map(mix).collect()
}
