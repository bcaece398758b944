//! A calculator: gathers what columns show of a stripe, sums it up and solves for what is lost, and says what is to be
//! sent to whom. The originator has one for each stripe that it computes for, and so has the worker of a column that
//! the plan names. Messages are theirs.

use smallvec::SmallVec;

use super::{Header, Item};
use crate::Buffer;
use crate::cluster::Volume;
use crate::plan::{Cell, Execution, Part, Role, Sending, WriteRow};

/// The calculator's part in one stripe of a write.
#[derive(Clone, Hash)]
pub(super) struct Calculator {
    header: Header,
    stripe: u64,
    execution: Execution,
    /// How many parts the endpoint gives it.
    given: usize,
    /// The number in a chain of messages of what a column sends as the calculator.
    sent_at: u8,
}

impl Calculator {
    /// The calculator of a row; `cell` is that role's.
    pub fn new(volume: &Volume, header: Header, row: &WriteRow, cell: Cell) -> Calculator {
        let new_at = header.task.new_at(volume, header.holder.is_some());
        let sent_at = match row.columns_compute() {
            true => row.sent_at(&volume.geometry, Role::Calculator, new_at),
            false => 3,
        };
        let given = row.given_to_calculator(&volume.geometry);
        Calculator { header, stripe: row.stripe, execution: Execution::new(cell), given, sent_at }
    }

    /// The write.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The stripe that it calculates for.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// How many parts the endpoint gives it.
    pub fn given(&self) -> usize {
        self.given
    }

    /// See [`Calculator`].
    pub fn sent_at(&self) -> u8 {
        self.sent_at
    }

    /// Whether it waits for what columns show.
    pub fn gathers(&self) -> bool {
        self.execution.cell().gathers()
    }

    /// Whether all is here that it waits for.
    pub fn has_gathered(&self) -> bool {
        self.execution.has_gathered()
    }

    /// Whether it has said all that there is to send.
    pub fn is_done(&self) -> bool {
        self.execution.is_done()
    }

    /// Takes in something. What comes twice counts once.
    pub fn take(&mut self, part: Part, data: Buffer) {
        self.execution.take(part, data);
    }

    /// What is to be sent, as far as that is known now and was not before.
    pub fn advance(&mut self) -> SmallVec<[(Role, Item); 2]> {
        let mut out = SmallVec::new();
        for Sending { to, part, data } in self.execution.advance() {
            let item = Item { stripe: self.stripe, part, data };
            out.extend(to.roles().map(|role| (role, item.clone())));
        }
        out
    }

    /// Bytes that have been added up since this was last asked.
    pub fn take_added(&mut self) -> u64 {
        self.execution.take_added()
    }
}
