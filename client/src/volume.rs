//! A volume that is open.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use weft_front::native::wire::flag;
use weft_front::native::{Limits, NumberedRequest, Verb};

use crate::address::Address;
use crate::completion::{Completion, Promise};
use crate::error::{Error, ErrorKind};
use crate::id::Id;
use crate::io::{Io, Shared};
use crate::options::Options;

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read so many bytes from this offset on.
    Read(u64, u32),
    /// Write these bytes at this offset.
    Write(u64, Bytes),
    /// The same, and it has ended only when it is safe from a power cut. (With the journal on, as
    /// volumes have it unless they were made without, every write is.)
    WriteDurable(u64, Bytes),
    /// So many bytes from this offset on are not needed; they may read as anything until they
    /// are written.
    Trim(u64, u64),
    /// So many bytes from this offset on are to read as zeros.
    WriteZeroes(u64, u64),
    /// What has ended before, and what this comes after, is to be safe from a power cut.
    Flush,
}

impl Op {
    fn request(self) -> NumberedRequest {
        let (verb, flags, offset, length, data) = match self {
            Op::Read(offset, length) => (Verb::Read, 0, offset, length.into(), Bytes::new()),
            Op::Write(offset, data) => (Verb::Write, 0, offset, data.len() as u64, data),
            Op::WriteDurable(offset, data) => {
                (Verb::Write, flag::DURABLE, offset, data.len() as u64, data)
            }
            Op::Trim(offset, length) => (Verb::Trim, 0, offset, length, Bytes::new()),
            Op::WriteZeroes(offset, length) => (Verb::WriteZeroes, 0, offset, length, Bytes::new()),
            Op::Flush => (Verb::Flush, 0, 0, 0, Bytes::new()),
        };
        NumberedRequest {
            verb,
            flags,
            number: 0,
            oldest: 0,
            offset,
            length,
            after: Vec::new(),
            data,
        }
    }
}

/// A volume that is open. Clones are handles of the same: they may be used from several threads,
/// and requests of one may come after requests of another.
///
/// **Order.** A request is done as if it began after those that it comes after have ended. If one
/// of them is not done, neither is it, nor what comes after it in turn. After a crash or a power
/// cut, whatever is there of a request, all that it comes after is there too. Requests that do not
/// name one another may be done in any order, except that changes of the same bytes by one host
/// are done in the order in which they were taken.
///
/// **Room.** A node says how much it takes ([`Limits`]). When as much is outstanding, the next
/// request waits in [`Volume::submit`] and its like until something has ended;
/// [`Volume::try_submit`] says so instead, and [`Volume::room`] can be awaited. Nothing else makes
/// taking a request wait.
///
/// **When the connection breaks** it is made again, to any of the addresses, and what was not
/// answered is repeated under the same numbers. None of it is done twice, unless the process that
/// had done it has died: then a change that it had done and not answered may be done a second
/// time. To this host that is no difference. To others it is one only if they changed the same
/// bytes in between: theirs may be overwritten.
///
/// **When it is dropped** what was taken is still done, as long as the process runs. Wait for
/// completions to know.
#[derive(Clone)]
pub struct Volume(Arc<Handle>);

/// Closes the volume when the last handle is gone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// A volume that is being opened: wait for it, or await it.
#[must_use]
pub struct Opening {
    opened: Arc<Promise<Result<(), Error>>>,
    volume: Volume,
}

impl Opening {
    /// Waits until it is open.
    ///
    /// # Errors
    ///
    /// If no node could be reached, if there is no such volume, or if it takes no other host.
    pub fn wait(self) -> Result<Volume, Error> {
        self.opened.wait()?;
        Ok(self.volume)
    }
}

impl Future for Opening {
    type Output = Result<Volume, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.opened.poll(context).map(|opened| opened.map(|()| self.volume.clone()))
    }
}

impl Volume {
    /// Opens the volume of this name (the empty name means the first) at the first of the
    /// addresses where a node answers. The others are for when that fails later.
    ///
    /// # Errors
    ///
    /// If an address is none, if no node could be reached, if there is no such volume, or if it
    /// takes no other host.
    pub fn open<A: AsRef<str>>(addresses: &[A], name: &str) -> Result<Volume, Error> {
        Volume::opening(addresses, name, Options::default())?.wait()
    }

    /// Begins to open a volume.
    ///
    /// # Errors
    ///
    /// If an address is none, or if there are none.
    pub fn opening<A: AsRef<str>>(
        addresses: &[A],
        name: &str,
        options: Options,
    ) -> Result<Opening, Error> {
        let addresses: Vec<Address> =
            addresses.iter().map(|a| a.as_ref().parse()).collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(Error::new(ErrorKind::Address, "give the address of a node"));
        }
        let shared = Arc::new(Shared::new(draw())?);
        let opened = Promise::new();
        let io = Io {
            shared: shared.clone(),
            addresses,
            volume: name.to_string(),
            options,
            opened: opened.clone(),
            next: 0,
        };
        thread::Builder::new()
            .name("weft-client".to_string())
            .spawn(|| io.run())
            .map_err(|e| Error::new(ErrorKind::Failed, format!("cannot start a thread: {e}")))?;
        Ok(Opening { opened, volume: Volume(Arc::new(Handle { shared })) })
    }

    /// Its size in bytes, as the node that is connected said.
    pub fn size(&self) -> u64 {
        self.0.shared.with(|s| s.welcome.as_ref().map_or(0, |w| w.size))
    }

    /// The host's number, in the ids of its requests.
    pub fn host(&self) -> u64 {
        self.0.shared.with(|s| s.host)
    }

    /// What the node takes.
    pub fn limits(&self) -> Limits {
        self.0.shared.with(|s| s.limits())
    }

    /// Takes a request that comes after others; waits for room if there is none.
    ///
    /// # Errors
    ///
    /// If it cannot be sent: it is too long, or no node could be reached for too long. If it was
    /// taken, everything else is told by the completion.
    pub fn submit(&self, op: Op, after: &[Id]) -> Result<Completion, Error> {
        self.0.shared.submit(true, |state| state.take(op.request(), after))
    }

    /// The same, but if there is no room it is not taken.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] if there is no room, or as [`Volume::submit`].
    pub fn try_submit(&self, op: Op, after: &[Id]) -> Result<Completion, Error> {
        self.0.shared.submit(false, |state| state.take(op.request(), after))
    }

    /// Takes a request that comes after all that were taken before it, by any handle of the volume in this
    /// process, and have not ended: a barrier. If one of them is not done, neither is it. What comes
    /// after the barrier names it:
    ///
    /// ```
    /// # fn f(volume: &weft_client::Volume) -> Result<(), weft_client::Error> {
    /// let all = volume.submit_after_all(weft_client::Op::Flush)?;
    /// volume.write(0, "all of that is there", &[all.id()])?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is sent at once, unless it comes after more than [`Limits::after`] that no other names. Then it
    /// waits here until the rest have ended.
    ///
    /// # Errors
    ///
    /// As [`Volume::submit`].
    pub fn submit_after_all(&self, op: Op) -> Result<Completion, Error> {
        self.0.shared.submit(true, |state| state.take_after_all(op.request()))
    }

    /// For event loops: a descriptor that can be polled, and the ids of requests as they end, from now on. All
    /// that ask share one queue, in which ids stay until they are taken.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn ended(&self) -> Result<Ended, Error> {
        Ok(Ended { descriptor: self.0.shared.ended()?, volume: self.clone() })
    }

    /// A future that ends when there may be room.
    pub fn room(&self) -> Room<'_> {
        Room(self)
    }

    /// Reads.
    ///
    /// # Errors
    ///
    /// As [`Volume::submit`].
    pub fn read(&self, offset: u64, length: u32, after: &[Id]) -> Result<Completion, Error> {
        self.submit(Op::Read(offset, length), after)
    }

    /// Writes.
    ///
    /// # Errors
    ///
    /// As [`Volume::submit`].
    pub fn write(
        &self,
        offset: u64,
        data: impl Into<Bytes>,
        after: &[Id],
    ) -> Result<Completion, Error> {
        self.submit(Op::Write(offset, data.into()), after)
    }

    /// Says that bytes are not needed.
    ///
    /// # Errors
    ///
    /// As [`Volume::submit`].
    pub fn trim(&self, offset: u64, length: u64, after: &[Id]) -> Result<Completion, Error> {
        self.submit(Op::Trim(offset, length), after)
    }

    /// Makes bytes read as zeros.
    ///
    /// # Errors
    ///
    /// As [`Volume::submit`].
    pub fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        after: &[Id],
    ) -> Result<Completion, Error> {
        self.submit(Op::WriteZeroes(offset, length), after)
    }

    /// Makes what has ended, and what this comes after, safe from a power cut.
    ///
    /// # Errors
    ///
    /// As [`Volume::submit`].
    pub fn flush(&self, after: &[Id]) -> Result<Completion, Error> {
        self.submit(Op::Flush, after)
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("size", &self.size()).finish_non_exhaustive()
    }
}

/// The ends of requests, for event loops ([`Volume::ended`]).
pub struct Ended {
    descriptor: Arc<OwnedFd>,
    volume: Volume,
}

impl Ended {
    /// The next request that has ended; `None` if no more has until the descriptor is readable again. It may have been
    /// done or not: its completion says so.
    pub fn take(&self) -> Option<Id> {
        self.volume.0.shared.next_ended()
    }
}

impl AsFd for Ended {
    /// Readable while there are ids to take. It is only to be polled, not read from.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Ends when there may be room for a request.
#[must_use = "it does nothing unless it is awaited"]
pub struct Room<'a>(&'a Volume);

impl Future for Room<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.0.0.shared.has_room(context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// A host's number: the standard library draws the keys of its hashes from the system's random
/// numbers. Not 0.
fn draw() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}
