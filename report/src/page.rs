//! A page of results: one HTML file that needs nothing from anywhere.

use crate::{Plot, Table, escape, style};

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Paragraph(String),
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
}

/// A page of results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// What it is called.
    pub title: String,
    /// What is on it, from top to bottom.
    pub blocks: Vec<Block>,
}

impl Page {
    /// The page as an HTML file. Pointing at a plot shows the nearest point's values; a click on
    /// its legend hides a series or shows it again; it is light or dark as the viewer likes.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{}{PAGE_STYLE}</style>\n</head>\n<body>\n\
             <button id=\"theme\" type=\"button\">light / dark</button>\n<h1>{title}</h1>\n",
            style::of_page()
        );
        for block in &self.blocks {
            out += &match block {
                Block::Heading(text) => format!("<h2>{}</h2>\n", escape(text)),
                Block::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
                Block::Table(table) => table.html(),
                Block::Plot(plot) => format!("<figure>\n{}</figure>\n", plot.inline()),
            };
        }
        out + &format!("<div id=\"tip\"></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
    }
}
