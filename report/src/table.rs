//! Columns and rows.

use crate::{escape, short};

/// What a row has in a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A word, or more.
    Text(String),
    /// A number.
    Number(f64),
    /// Nothing.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Cell {
        number.map_or(Cell::Empty, Cell::Number)
    }
}

/// Columns and rows. Every row has a cell for every column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the columns are called, with their units.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = T>) -> Table {
        Table { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not a cell for every column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(row);
    }

    /// As comma-separated values (RFC 4180, but with plain newlines): a line of headings, numbers
    /// with all their digits.
    pub fn csv(&self) -> String {
        let mut out = line(self.columns.iter().map(|c| quote(c)));
        for row in &self.rows {
            out += &line(row.iter().map(|cell| match cell {
                Cell::Text(text) => quote(text),
                Cell::Number(number) => number.to_string(),
                Cell::Empty => String::new(),
            }));
        }
        out
    }

    /// As HTML's `<table>`, numbers with four digits that count.
    pub(crate) fn html(&self) -> String {
        let mut out = String::from("<div class=\"table\"><table>\n<thead><tr>");
        for (n, column) in self.columns.iter().enumerate() {
            let class = if self.is_of_numbers(n) { " class=\"n\"" } else { "" };
            out += &format!("<th{class}>{}</th>", escape(column));
        }
        out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for cell in row {
                out += &match cell {
                    Cell::Text(text) => format!("<td>{}</td>", escape(text)),
                    Cell::Number(number) => format!("<td class=\"n\">{}</td>", short(*number)),
                    Cell::Empty => "<td></td>".to_string(),
                };
            }
            out += "</tr>\n";
        }
        out + "</tbody>\n</table></div>\n"
    }

    /// Whether nothing but numbers stands in a column: its head stands above them.
    fn is_of_numbers(&self, column: usize) -> bool {
        let is_text = |cell: &Cell| matches!(cell, Cell::Text(text) if !text.is_empty());
        let is_number = |cell: &Cell| matches!(cell, Cell::Number(_));
        let mut cells = self.rows.iter().map(|row| &row[column]);
        cells.clone().any(is_number) && !cells.any(is_text)
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// A text as a field: in quotes if it must be.
fn quote(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_it_must_and_keeps_every_digit() {
        let mut table = Table::new(["name", "MB/s, mean"]);
        table.row(["a \"b\", c".into(), (0.1 + 0.2).into()]);
        table.row(["plain".into(), Cell::Empty]);
        assert_eq!(
            table.csv(),
            "name,\"MB/s, mean\"\n\"a \"\"b\"\", c\",0.30000000000000004\nplain,\n"
        );
    }

    #[test]
    fn html_rounds_and_escapes() {
        let mut table = Table::new(["a<b"]);
        table.row([Cell::Number(12.345_67)]);
        table.row(["x&y".into()]);
        let html = table.html();
        assert!(html.contains("<th>a&lt;b</th>"), "{html}");
        assert!(html.contains("<td class=\"n\">12.35</td>"), "{html}");
        assert!(html.contains("<td>x&amp;y</td>"), "{html}");
        let mut numbers = Table::new(["n", "empty"]);
        numbers.row([Cell::Number(1.0), Cell::Empty]);
        let html = numbers.html();
        assert!(html.contains("<th class=\"n\">n</th><th>empty</th>"), "{html}");
    }

    #[test]
    #[should_panic(expected = "a cell for every column")]
    fn rows_are_full() {
        Table::new(["a", "b"]).row([Cell::Empty]);
    }
}
