//! Saying things: to people in tables and progress bars, to programs in JSON. Every crate that a person
//! at a terminal waits for says them so.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
pub use weft_bytes::escape::lines;

/// Writes lines to standard output. Others may have a say in what is in them: a terminal does nothing of it. That nobody
/// listens is an error, not a panic.
pub fn say(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", lines(&text.to_string()))?;
    Ok(out.flush()?)
}

/// Writes JSON to standard output: the content of an answer, without its `ok`.
pub fn say_json(mut value: Value) -> Result<()> {
    if let Some(object) = value.as_object_mut() {
        object.remove("ok");
    }
    say(format!("{value:#}"))
}

/// Asks somebody at a terminal for a secret, which is not shown. None if nobody is there.
pub fn ask_secret(question: &str) -> Result<Option<String>> {
    let terminal = Term::stderr();
    if !terminal.is_term() || !io::stdin().is_terminal() {
        return Ok(None);
    }
    terminal.write_str(question)?;
    Ok(Some(terminal.read_secure_line()?))
}

/// How many columns there are for text: those of the terminal, or what `COLUMNS` says, as `watch` sets it. Without
/// either there is no bound: whoever reads a pipe finds a row in a line.
pub fn width() -> Option<usize> {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let said = || std::env::var("COLUMNS").ok()?.trim().parse::<usize>().ok();
    let width = terminal.map(|size| usize::from(size.ws_col)).filter(|n| *n > 0).or_else(said)?;
    Some(width.max(NARROWEST))
}

/// Narrower than this nothing can be read.
const NARROWEST: usize = 40;
/// A column of a folded table is at most this wide; what is longer goes on below.
const WIDEST: usize = 30;

/// A table that is no wider than that, if it is given: what has no room is in further tables below, which begin with the
/// same first column.
pub fn folded(table: &Table, width: Option<usize>) -> String {
    let Some(width) = width else { return table.to_string() };
    let columns = table.column_max_content_widths();
    // With a blank on each side and a line.
    let with_border = |n: usize| usize::from(columns[n]).min(WIDEST) + 3;
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut taken = 1;
    for n in 0..columns.len() {
        let part = parts.last_mut().expect("one at least");
        if taken + with_border(n) > width && part.len() > 1 {
            parts.push(vec![0]);
            taken = 1 + with_border(0);
        }
        parts.last_mut().expect("one at least").push(n);
        taken += with_border(n);
    }
    let render = |shown: &Vec<usize>| {
        let mut part = table.clone();
        part.set_content_arrangement(ContentArrangement::Dynamic);
        part.set_width(width.try_into().unwrap_or(u16::MAX));
        for (n, column) in part.column_iter_mut().enumerate() {
            column.set_constraint(match shown.contains(&n) {
                true => ColumnConstraint::UpperBoundary(Width::Fixed(WIDEST as u16)),
                false => ColumnConstraint::Hidden,
            });
        }
        part.to_string()
    };
    parts.iter().map(render).collect::<Vec<_>>().join("\n")
}

/// Lines of text that are no wider than that, if it is given. What goes on in the next line is set in.
pub fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_string() };
    let mut out = String::new();
    for line in text.lines() {
        let mut taken = 0;
        for word in line.split(' ') {
            let long = word.chars().count();
            if taken > 0 && taken + 1 + long > width {
                out.push_str("\n  ");
                taken = 2;
            } else if taken > 0 {
                out.push(' ');
                taken += 1;
            }
            out.push_str(word);
            taken += long;
        }
        out.push('\n');
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

/// A table with these headings.
pub fn table<T: ToString>(headings: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    let headings: Vec<String> = headings.into_iter().map(|h| h.to_string()).collect();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(headings);
    table
}

/// Draws lines between the rows of a table, as cells of several lines need them.
pub fn with_rules(table: &mut Table) {
    table.load_style(presets::UTF8_FULL);
}

/// Aligns these columns of a table to the right, as numbers are.
pub fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for n in columns {
        if let Some(column) = table.column_mut(n) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A number of bytes, rounded for people.
pub fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}

/// Megabytes (of a million bytes) in a second.
pub fn mb_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds.max(1e-9)
}

/// A stage of a longer run: a progress bar on a terminal, a plain line elsewhere.
pub struct Stage {
    bar: ProgressBar,
    name: String,
}

/// What a stage counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Bytes.
    Bytes,
    /// Anything else.
    Things,
}

impl Stage {
    /// Begins a stage of so many bytes or things.
    pub fn new(name: impl Into<String>, length: u64, counts: Counts) -> Stage {
        let name = name.into();
        let numbers = match counts {
            Counts::Bytes => {
                "{binary_bytes:>11} of {binary_total_bytes:>11}  {binary_bytes_per_sec}"
            }
            Counts::Things => "{human_pos:>7} of {human_len:>7}  {msg}",
        };
        let template = format!("{{prefix:<44}} {{wide_bar}} {numbers}");
        let bar = ProgressBar::new(length).with_prefix(name.clone());
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Stage { bar, name }
    }

    /// So much more is done.
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    /// So much is done in all.
    pub fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// The bar, to write above it.
    pub fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Ends the stage with a word on how it went.
    pub fn done(self, how: impl Display) {
        self.bar.finish_and_clear();
        eprintln!("{:<44} {how}", self.name);
    }
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_wide_table_is_folded() {
        let headings: Vec<String> = (0..9).map(|n| format!("column {n}")).collect();
        let mut all = table(&headings);
        let long = "/dev/disk/by-id/ata-a-disk-with-a-very-long-name-indeed";
        all.add_row((0..9).map(|n| if n == 2 { long.to_string() } else { format!("cell {n}") }));
        let whole = folded(&all, None);
        assert_eq!(whole.lines().count(), 5, "{whole}");
        assert!(widest(&whole) > 130 && whole.contains(long), "{whole}");
        for width in [NARROWEST, 80, 100] {
            let text = folded(&all, Some(width));
            assert!(widest(&text) <= width, "{text}");
            for n in 0..9 {
                let shown = n == 2 || text.contains(&format!("cell {n}"));
                assert!(shown && text.contains(&format!("column {n}")), "{text}");
            }
            let rows = text.lines().filter(|line| line.contains("cell 0")).count();
            assert_eq!(rows, text.lines().filter(|line| line.contains("column 0")).count());
        }
        assert_eq!(folded(&all, Some(1000)).lines().count(), 6, "the long cell goes on below");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("a b\nccc ddd eee", Some(7)), "a b\nccc ddd\n  eee");
        assert_eq!(wrapped("longer than that", Some(4)), "longer\n  than\n  that");
        assert_eq!(wrapped("as it is", None), "as it is");
    }
}
