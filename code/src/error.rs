//! What can be wrong with a request for a code or a decoder.

use thiserror::Error;

use crate::Code;

/// Why a [`Code`] or a [`Decoder`](crate::Decoder) cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodeError {
    /// A code without data columns was asked for.
    #[error(
        "a code of 0 data and {parity} parity columns holds no data; the fewest is 1 data column"
    )]
    NoData {
        /// Parity columns asked for.
        parity: usize,
    },
    /// More columns than [`Code::MAX_COLUMNS`] were asked for.
    #[error(
        "a code of {data} data and {parity} parity columns has {} columns; the most is {}",
        .data.saturating_add(*.parity), Code::MAX_COLUMNS
    )]
    TooManyColumns {
        /// Data columns asked for.
        data: usize,
        /// Parity columns asked for.
        parity: usize,
    },
    /// A decoder was asked for with the wrong number of available columns.
    #[error("{given} available columns were given to decode from; exactly {needed} are needed")]
    WrongHaveCount {
        /// Available columns given.
        given: usize,
        /// The data columns of the code, which is how many are needed.
        needed: usize,
    },
    /// A column that the code does not have was named.
    #[error("there is no column {column}: the code has {columns} columns, numbered from 0")]
    NoSuchColumn {
        /// The column named.
        column: usize,
        /// The columns of the code.
        columns: usize,
    },
    /// An available column was named twice.
    #[error("the available column {column} was given more than once")]
    RepeatedColumn {
        /// The column named twice.
        column: usize,
    },
}
