//! Tables for a terminal: no wider than one can read there.

use std::collections::BTreeSet;

use weft_terminal::{align_right, table};

/// The most characters of a line.
pub(crate) const WIDTH: usize = 120;

/// Cells of a table, of which the first columns say what a row is of.
pub(crate) struct Grid {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many columns say what a row is of.
    pub keys: usize,
    /// Which columns have numbers.
    pub numbers: Vec<bool>,
}

impl Grid {
    /// With shorter names of what rows are of, if it is too wide with the whole ones: the last words of keys, if they differ.
    pub fn shortened(mut self, keys: usize) -> Grid {
        let last = |head: &String| head.rsplit('.').next().unwrap_or(head).to_string();
        let short: Vec<String> = self.heads[..keys].iter().map(last).collect();
        let differ = short.iter().collect::<BTreeSet<_>>().len() == keys;
        if differ && width(&self.part(self.keys, self.heads.len())) > WIDTH {
            self.heads.splice(..keys, short);
        }
        self
    }

    /// As one table if it is narrow enough; or with rows as columns, if that is; or in several tables, each with some of the
    /// columns.
    pub fn text(&self) -> String {
        let whole = self.part(self.keys, self.heads.len());
        if width(&whole) <= WIDTH {
            return whole;
        }
        let turned = self.turned();
        if width(&turned) <= WIDTH {
            return turned;
        }
        let mut parts = Vec::new();
        let mut from = self.keys;
        while from < self.heads.len() {
            let fits = |to: &usize| width(&self.part(from, *to)) <= WIDTH;
            let to = (from + 2..=self.heads.len()).take_while(fits).last().unwrap_or(from + 1);
            parts.push(self.part(from, to));
            from = to;
        }
        parts.join("\n")
    }

    /// What rows are of, and some of the other columns.
    fn part(&self, from: usize, to: usize) -> String {
        let columns = || (0..self.keys).chain(from..to);
        let mut table = table(columns().map(|n| &self.heads[n]));
        for row in &self.rows {
            table.add_row(columns().map(|n| &row[n]));
        }
        let right = columns().enumerate().filter(|(_, n)| self.numbers[*n]);
        align_right(&mut table, right.map(|(at, _)| at).collect::<Vec<_>>());
        table.to_string()
    }

    /// Each column as a row.
    fn turned(&self) -> String {
        let line = |n: usize| self.rows.iter().map(move |row| row[n].as_str());
        let first = usize::from(self.keys > 0);
        let mut table = match first {
            0 => table(["measure", "value"].into_iter().take(1 + self.rows.len())),
            _ => table(std::iter::once(self.heads[0].as_str()).chain(line(0))),
        };
        for n in first..self.heads.len() {
            table.add_row(std::iter::once(self.heads[n].as_str()).chain(line(n)));
        }
        align_right(&mut table, 1..=self.rows.len());
        table.to_string()
    }
}

fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(columns: usize, rows: usize, keys: usize) -> Grid {
        let cells = |row: usize| (0..columns).map(|n| format!("cell {n} of {row}")).collect();
        Grid {
            heads: (0..columns).map(|n| format!("head {n}")).collect(),
            rows: (0..rows).map(cells).collect(),
            keys,
            numbers: vec![false; columns],
        }
    }

    #[test]
    fn no_table_is_wider_than_a_terminal_and_none_lacks_a_cell() {
        for (columns, rows, keys) in
            [(5, 40, 1), (30, 3, 1), (30, 1, 0), (30, 40, 2), (9, 40, 2), (200, 12, 1)]
        {
            let grid = grid(columns, rows, keys);
            let text = grid.text();
            assert!(width(&text) <= WIDTH, "{text}");
            for cell in grid.heads.iter().chain(grid.rows.iter().flatten()) {
                assert!(text.contains(&format!(" {cell} ")), "{cell} is not in {text}");
            }
        }
    }

    #[test]
    fn keys_are_shortened_where_they_take_the_room() {
        let named = |columns| {
            let mut grid = grid(columns, 40, 2);
            grid.heads[0] = "workload.arrivals.closed.population".to_string();
            grid.heads[1] = "volume.stripe_unit".to_string();
            grid.shortened(2).heads[..2].join(" ")
        };
        assert_eq!(named(30), "population stripe_unit");
        assert_eq!(named(4), "workload.arrivals.closed.population volume.stripe_unit");
        let mut alike = grid(30, 40, 2);
        alike.heads[..2].clone_from_slice(&["a.x".to_string(), "b.x".to_string()]);
        assert_eq!(alike.shortened(2).heads[..2], ["a.x", "b.x"]);
    }

    #[test]
    fn few_rows_with_many_columns_are_turned_and_many_are_split() {
        let first = |grid: &Grid| grid.text().lines().nth(1).unwrap_or_default().to_string();
        let few = first(&grid(30, 3, 1));
        assert!(few.contains("head 0") && few.contains("cell 0 of 2"), "{few}");
        let many = grid(30, 40, 1).text();
        assert!(many.lines().filter(|line| line.contains("head 0 ")).count() > 2, "{many}");
        let narrow = first(&grid(5, 40, 1));
        assert!(narrow.contains("head 4"), "{narrow}");
    }
}
