//! Results for people and programs: tables as CSV, plots as SVG, and pages of both as one HTML
//! file that needs nothing from anywhere.
//!
//! - [`Table`]: columns and rows; CSV ([`Table::csv`])
//! - [`Plot`]: series of points over an axis; SVG ([`Plot::svg`])
//! - [`Page`]: headings, paragraphs, tables and plots; HTML ([`Page::html`])
//!
//! The crate is pure, and the same values give the same bytes on every machine: coordinates are
//! rounded to hundredths, and logarithms come from `libm`.

#![forbid(unsafe_code)]

mod axis;
mod number;
mod page;
mod plot;
mod style;
mod table;

pub use axis::{Axis, Scale};
pub use number::short;
pub use page::{Block, Page};
pub use plot::{Kind, Plot, Point, Series};
pub use table::{Cell, Table};

/// Text inside of HTML or SVG, or of an attribute's double quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
