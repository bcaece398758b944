//! Saying things: to people in tables and progress bars, to programs in JSON. Every crate that a person
//! at a terminal waits for says them so.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// Writes a line to standard output. That nobody listens is an error, not a panic.
pub fn say(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Writes JSON to standard output: the content of an answer, without its `ok`.
pub fn say_json(mut value: Value) -> Result<()> {
    if let Some(object) = value.as_object_mut() {
        object.remove("ok");
    }
    say(format!("{value:#}"))
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
