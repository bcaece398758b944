//! Reads and writes volumes of a Weft array, and says which requests must come first.
//!
//! A block device that knows no order between writes makes its user wait: write the log, wait,
//! flush, then write the data. Weft can be told instead that the data come *after* the log. Both
//! are sent at once; the array sees to it that the data are on no disk, after whatever crash,
//! unless the log is (TickerTAIP, section 3.4).
//!
//! ```
//! # use weft_host::{Array, Listen, Spec};
//! # let dir = tempfile::tempdir()?;
//! # let socket = dir.path().join("weft.sock");
//! # let spec = Spec { disk_size: Some(16 << 20), ..Spec::default() };
//! # let listens = [Listen::native_unix(socket.clone())];
//! # let array = Array::start(dir.path(), &spec, &listens, weft_host::Log::silent())?.spawn()?;
//! # let address = socket.to_str().unwrap();
//! use weft_client::Volume;
//!
//! let volume = Volume::open(&[address], "vol0")?;
//! let log = volume.write(0, "put 7 at 1 MiB", &[])?;
//! let data = volume.write(1 << 20, vec![7; 4096], &[log.id()])?;
//! // Nothing has been waited for. Now it is:
//! data.wait()?;
//! log.wait()?;
//! assert_eq!(volume.read(1 << 20, 1, &[])?.wait()?[..], [7]);
//! # drop(volume);
//! # array.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Volume`]: opens a volume and takes requests.
//! - [`Completion`]: a request that was taken. It has an [`Id`] at once, and its end can be waited
//!   for, or awaited: it is a future, of no particular runtime.
//! - [`Error`]: why a request was not done. If that is because another was not, it says which.
//!
//! Each volume that is open has one thread, which receives answers and connects again when the
//! connection breaks: to the same address, or to another of those given. What was not answered is
//! repeated, under the same numbers; see [`Volume`] for what holds then.

#![forbid(unsafe_code)]

mod address;
mod completion;
mod error;
mod id;
mod io;
mod options;
mod ranges;
mod state;
mod tls;
mod volume;
mod wire;

pub use address::Address;
pub use completion::Completion;
pub use error::{Error, ErrorKind};
pub use id::Id;
pub use options::Options;
pub use tls::Certificates;
pub use volume::{Ended, Op, Opening, Room, Volume};
pub use weft_front::native::Limits;
