//! Front ends of Weft, as byte machines.
//!
//! A front end speaks a storage protocol to a client. Here it does so without
//! sockets, threads or a clock: bytes go in, commands come out, answers go in,
//! bytes come out. Whoever owns the sockets drives the machine; tests drive it
//! from memory.
//!
//! [`nbd`] and [`iscsi`] are spoken by what is there already, [`native`] by `weft-client`.
//! What the socket's owner sees of each is a [`Machine`].

#![forbid(unsafe_code)]

mod intake;
pub mod iscsi;
pub mod native;
pub mod nbd;
mod outbox;

/// One side of a connection, as its socket's owner sees it.
pub trait Machine {
    /// Where received bytes go; never empty.
    fn space(&mut self) -> &mut [u8];
    /// The first `n` bytes of the latest space were received.
    fn filled(&mut self, n: usize);
    /// What is to be sent, as segments for a vectored write, front first.
    fn output(&self) -> impl Iterator<Item = &[u8]>;
    /// Bytes to be sent.
    fn output_len(&self) -> usize;
    /// The first `n` bytes of the output were sent.
    fn sent(&mut self, n: usize);
    /// The other side is done: close once nothing is in work and all is sent.
    fn closing(&self) -> bool;
}

/// What a server cannot go on without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// Nothing: the other side is free to say something or not.
    Nothing,
    /// That the other side says who it is and what it wants.
    Greeting,
    /// The rest of what the other side has begun to say.
    Rest,
}

/// The server's side of a connection: what its socket's owner must know to bound how long, and with
/// how much of its memory, the other side keeps it waiting.
pub trait Service: Machine {
    /// What it cannot go on without.
    fn awaits(&self) -> Awaits;
    /// Length of the data of the request that is being received, all of which is kept until it is
    /// whole; 0 if there is none. Of all such requests, if there are several.
    fn incoming(&self) -> usize;
    /// What stays the same as long as the rest of the same request is awaited: another request that begins to come
    /// changes it.
    fn begun(&self) -> u64;
    /// Whether it has something to ask for though nothing has come: one request of the other side may take several, one
    /// after the other.
    fn has_more(&self) -> bool {
        false
    }
    /// The other side is promised TLS: what is to be sent goes in plain, and nothing is received before it has
    /// begun.
    fn begins_tls(&self) -> bool {
        false
    }
    /// TLS has begun.
    fn secured(&mut self) {}
}

/// Whether a server of NBD speaks TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// No.
    #[default]
    Off,
    /// With clients that ask for it.
    Offered,
    /// With all clients: others are told so, and nothing else.
    Required,
}

impl Service for nbd::server::Server {
    fn awaits(&self) -> Awaits {
        self.awaits()
    }
    fn incoming(&self) -> usize {
        self.incoming()
    }
    fn begun(&self) -> u64 {
        self.begun()
    }
    fn begins_tls(&self) -> bool {
        self.begins_tls()
    }
    fn secured(&mut self) {
        self.secured();
    }
}

impl Machine for nbd::server::Server {
    fn space(&mut self) -> &mut [u8] {
        self.space()
    }
    fn filled(&mut self, n: usize) {
        self.filled(n);
    }
    fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.output()
    }
    fn output_len(&self) -> usize {
        self.output_len()
    }
    fn sent(&mut self, n: usize) {
        self.sent(n);
    }
    fn closing(&self) -> bool {
        self.closing()
    }
}
