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
    /// A local reconstruction code whose groups cannot be.
    #[error(
        "a local reconstruction code of {data} data columns, {groups} groups and {globals} global \
         parities cannot be: the data must divide into at least 2 groups of as many columns, 2 or \
         more in each, and at most {} global parities are possible",
        Code::MAX_GLOBALS
    )]
    Groups {
        /// Data columns asked for.
        data: usize,
        /// Groups asked for, of one local parity each.
        groups: usize,
        /// Global parities asked for.
        globals: usize,
    },
    /// A grid with a side that is no group.
    #[error(
        "a grid of {rows} by {across} data columns cannot be: each side is 2 or more, such as {} by {}",
        .rows.max(&2), .across.max(&2)
    )]
    Sides {
        /// Rows of data columns asked for.
        rows: usize,
        /// Data columns asked for in a row.
        across: usize,
    },
    /// A decoder was asked for a column that the available ones do not give.
    #[error("column {column} cannot be computed from the columns that are available")]
    NotDetermined {
        /// The column wanted.
        column: usize,
    },
    /// A column that the code does not have was named.
    #[error("there is no column {column}: the code has {columns} columns, numbered from 0")]
    NoSuchColumn {
        /// The column named.
        column: usize,
        /// The columns of the code.
        columns: usize,
    },
}
