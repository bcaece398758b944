//! The erasure codes of Weft and the XOR and GF(2^8) kernels they run on.
//!
//! A [`Code`] turns `k` data units of a stripe into `m` parity units, each
//! the sum of those data units that it covers. Its columns are numbered
//! `0..k` for data and `k..k + m` for parity. Which sets of columns may be
//! lost, and what each lost column is computed from, the code alone knows. The free functions
//! ([`xor_sources`], [`dot`], [`mul_add`], …) are the loops over bytes, for
//! callers that update parity piecemeal.
//!
//! This is the only pure crate of Weft that uses `unsafe`: the kernels use the
//! vector instructions that the CPU is found to have when the program runs.
//!
//! ```
//! use weft_code::{Code, ColumnSet};
//!
//! let code = Code::new(2, 2)?;
//! let (a, b) = ([1u8; 512], [2u8; 512]);
//! let (mut p, mut q) = ([0; 512], [0; 512]);
//! code.encode(&[&a, &b], &mut [&mut p, &mut q]);
//!
//! // Both data columns are lost; the parity columns are 2 and 3.
//! assert!(code.is_recoverable(ColumnSet::first(2)));
//! let decoder = code.decoder([2, 3].into_iter().collect(), 0)?;
//! let mut restored = [0; 512];
//! decoder.decode(&[&p, &q], &mut restored);
//! assert_eq!(restored, a);
//! # Ok::<(), weft_code::CodeError>(())
//! ```

mod code;
mod columns;
mod decoder;
mod error;
pub mod gf;
mod kernel;
mod recovery;

pub use code::Code;
pub use columns::ColumnSet;
pub use decoder::Decoder;
pub use error::CodeError;
pub use kernel::{delta, dot, kernel_name, mul_add, mul_into, xor_into, xor_sources};
