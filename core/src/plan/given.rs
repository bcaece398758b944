//! What the endpoint gives to the columns of a row: where others plan, a column has to fetch it.

use super::{Cell, Destination, Part, Role, Send, Spans, WriteRow};
use crate::layout::Geometry;
use crate::policy::CalculatedAt;

impl WriteRow {
    /// What a seat gets of the endpoint, or of a calculator that waits for no column: so much of it as can be had at once.
    pub fn given(&self, g: &Geometry, seat: usize) -> impl Iterator<Item = (Part, Spans)> {
        let of =
            move |send: &Send| send.to.columns().contains(seat).then_some((send.part, send.spans));
        let cells = self.giving_cells(g);
        cells.into_iter().flat_map(move |cell| cell.sends().filter_map(of).collect::<Vec<_>>())
    }

    /// Whether a seat gets anything of endpoint or calculator, at once or later.
    pub fn gets(&self, g: &Geometry, seat: usize) -> bool {
        let cells = [self.cell(g, Role::Endpoint), self.cell(g, Role::Calculator)];
        cells.iter().flat_map(Cell::sends).any(|send| send.to.columns().contains(seat))
    }

    /// How many parts the endpoint gives the calculator, where a column is that.
    pub fn given_to_calculator(&self, g: &Geometry) -> usize {
        let to = Destination::Role(Role::Calculator);
        match self.calculated_at {
            CalculatedAt::Balanced => {
                self.cell(g, Role::Endpoint).sends().filter(|s| s.to == to).count()
            }
            _ => 0,
        }
    }

    /// The cells from which columns get something at once: the endpoint's, and the calculator's if no column is that and
    /// it waits for none.
    pub fn giving_cells(&self, g: &Geometry) -> Vec<Cell> {
        let of_column = self.calculated_at == CalculatedAt::Balanced;
        let calculator = (!of_column).then(|| self.cell(g, Role::Calculator));
        let calculator = calculator.filter(|cell| !cell.gathers());
        std::iter::once(self.cell(g, Role::Endpoint)).chain(calculator).collect()
    }
}
