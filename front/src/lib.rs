//! Front ends of Weft, as byte machines.
//!
//! A front end speaks a storage protocol to a client. Here it does so without
//! sockets, threads or a clock: bytes go in, commands come out, answers go in,
//! bytes come out. Whoever owns the sockets drives the machine; tests drive it
//! from memory.
//!
//! [`nbd`] is spoken by what is there already, [`native`] by `weft-client`.
//! What the socket's owner sees of either is a [`Machine`].

#![forbid(unsafe_code)]

mod intake;
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
