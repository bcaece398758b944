//! Plots of series over an axis, as SVG.

use std::fmt::Write;

use crate::axis::Range;
use crate::number::coordinate as xy;
use crate::style::{self, COLOURS};
use crate::{Axis, escape, short};

/// The whole picture without its legend, and the height of it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// What the legend adds to the width.
const LEGEND: f64 = 250.0;
/// The frame: where it begins and ends.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 340.0;
/// Characters of a legend's line: a name that has more goes on in the next.
const LEGEND_CHARS: usize = 34;
/// From line to line, and from name to name.
const LINE: f64 = 14.0;
const NAME: f64 = 20.0;
/// How wide a character of a mark is, more or less.
const CHARACTER: f64 = 6.6;
/// Names of places that do not fit side by side are turned by so many degrees; that is the sine of it.
const TURN: (f64, f64) = (30.0, 0.5);
/// How much larger than its coordinates a plot is on a page at most: all plots are to the same scale.
const ENLARGED: f64 = 1.04;
/// Which part of the room of a name its series share.
const SHARED: f64 = 0.6;

/// What the points of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What came out here: filled marks, with a line through them unless the axis is one of names.
    Measured,
    /// The same in no order: marks without a line.
    Scattered,
    /// What somebody else published: hollow marks without a line.
    Published,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its place along the horizontal axis.
    pub x: f64,
    /// Its place along the vertical axis.
    pub y: f64,
    /// How far the error bar goes up and down, if it has one. If nothing of a plot is negative, it ends at 0.
    pub error: Option<f64>,
}

impl Point {
    /// The lower end of its interval, which is `least` at least.
    fn low(&self, least: f64) -> f64 {
        (self.y - self.error.unwrap_or(0.0)).max(least)
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is called. Series of the same name have the same colour and are shown and hidden
    /// together: a measured one and the published one beside it.
    pub name: String,
    /// What its points are.
    pub kind: Kind,
    /// The points, in the order in which the line goes through them.
    pub points: Vec<Point>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

impl Plot {
    /// The plot as an SVG file that follows the viewer's choice of light or dark.
    pub fn svg(&self) -> String {
        self.draw(&format!("<style>\n{}</style>\n", style::of_file()))
    }

    /// The plot inside of a page, which has the style.
    pub(crate) fn inline(&self) -> String {
        self.draw("")
    }

    fn draw(&self, style: &str) -> String {
        let names = self.names();
        let width = if names.len() > 1 || self.has_published() { WIDTH + LEGEND } else { WIDTH };
        let turned = self.turned();
        // A turned name ends below its place, and may begin to the left of the picture.
        let aside = (turned / TURN.1 - LEFT).max(0.0);
        let height = (HEIGHT + turned).max(TOP + self.legend_height(&names));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"{} 0 {} {}\" \
             style=\"max-width: {}px\" role=\"img\" aria-label=\"{}\">\n{style}\
             <rect class=\"ground\" x=\"{}\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"title\" x=\"{}\" y=\"22\">{}</text>\n",
            xy(-aside),
            xy(aside + width),
            xy(height),
            xy((aside + width) * ENLARGED),
            escape(&self.title),
            xy(-aside),
            xy(LEFT),
            escape(&self.title),
        );
        let points = || self.series.iter().flat_map(|s| &s.points);
        let x = Range::new(&self.x.scale, points().map(|p| p.x), false);
        let least = self.least();
        let ends = |p: &Point| [p.low(least), p.y + p.error.unwrap_or(0.0), p.y];
        let y = Range::new(&self.y.scale, points().flat_map(ends), true);
        self.axes(&mut out, &x, &y, turned);
        for series in &self.series {
            let n = names.iter().position(|n| *n == series.name).expect("a name of its own");
            // Series of places with names stand side by side, so that none hides another.
            let middle = (names.len() as f64 - 1.0) / 2.0;
            let aside = if x.is_of_names() {
                SHARED * (n as f64 - middle) / names.len() as f64
            } else {
                0.0
            };
            Drawing { out: &mut out, x: &x, y: &y, plot: self, aside }.series(series, n);
        }
        if width > WIDTH {
            self.legend(&mut out, &names);
        }
        out + "</svg>\n"
    }

    /// The names of the series, each once.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for series in &self.series {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        names
    }

    /// Where intervals end at least: what is nowhere negative cannot be.
    fn least(&self) -> f64 {
        let negative = self.series.iter().flat_map(|s| &s.points).any(|p| p.y < 0.0);
        if negative { f64::NEG_INFINITY } else { 0.0 }
    }

    fn has_published(&self) -> bool {
        self.series.iter().any(|s| s.kind == Kind::Published)
    }

    /// How much higher the picture is since names of places are turned; 0 if they fit side by side.
    fn turned(&self) -> f64 {
        let crate::Scale::Names(names) = &self.x.scale else { return 0.0 };
        let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0) as f64 * CHARACTER;
        match longest + CHARACTER > (RIGHT - LEFT) / names.len().max(1) as f64 {
            true => longest * TURN.1,
            false => 0.0,
        }
    }

    fn marks_of_x(&self, out: &mut String, x: &Range<'_>, turned: bool) {
        for (place, text) in x.marks() {
            let (at, below) = (xy(LEFT + place * (RIGHT - LEFT)), xy(BOTTOM + 18.0));
            let (anchor, turn) = match turned {
                true => ("end", format!(" transform=\"rotate(-{} {at} {below})\"", TURN.0)),
                false => ("middle", String::new()),
            };
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{at} {}V{}\"/><text class=\"mark\" x=\"{at}\" y=\"{below}\" \
                 text-anchor=\"{anchor}\"{turn}>{}</text>",
                xy(TOP),
                xy(BOTTOM),
                escape(&text)
            );
        }
    }

    fn axes(&self, out: &mut String, x: &Range<'_>, y: &Range<'_>, turned: f64) {
        self.marks_of_x(out, x, turned > 0.0);
        for (place, text) in y.marks() {
            let at = BOTTOM - place * (BOTTOM - TOP);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{} {}H{}\"/><text class=\"mark\" x=\"{}\" y=\"{}\" \
                 text-anchor=\"end\">{}</text>",
                xy(LEFT),
                xy(at),
                xy(RIGHT),
                xy(LEFT - 8.0),
                xy(at + 4.0),
                escape(&text)
            );
        }
        let (middle_x, middle_y) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n\
             <text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"label\" transform=\"translate(18 {}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            xy(LEFT),
            xy(TOP),
            xy(BOTTOM),
            xy(RIGHT),
            xy(middle_x),
            xy(BOTTOM + 42.0 + turned),
            escape(&self.x.label),
            xy(middle_y),
            escape(&self.y.label)
        );
    }

    /// How far down the legend reaches from the top of the frame.
    fn legend_height(&self, names: &[&str]) -> f64 {
        let name = |name: &&str| NAME + LINE * (lines(name).len() as f64 - 1.0);
        names.iter().map(name).sum::<f64>() + NAME * 2.0
    }

    fn legend(&self, out: &mut String, names: &[&str]) {
        let mut at = TOP + 8.0;
        let has_lines = self.series.iter().any(|s| s.kind == Kind::Measured);
        let line = match &self.x.scale {
            crate::Scale::Names(_) => |_: f64| String::new(),
            _ if !has_lines => |_: f64| String::new(),
            _ => |at: f64| format!("<path class=\"line\" d=\"M{} {}h22\"/>", xy(WIDTH), xy(at)),
        };
        for (n, name) in names.iter().enumerate() {
            let _ = write!(
                out,
                "<g class=\"legend {}\" data-s=\"{n}\">{}<path class=\"dot\" d=\"{}\"/>",
                class(n),
                line(at),
                shape(n, WIDTH + 11.0, at, 3.5),
            );
            let lines = lines(name);
            for (n, line) in lines.iter().enumerate() {
                let (x, y) = (xy(WIDTH + 28.0), xy(at + 4.0 + LINE * n as f64));
                let _ = write!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", escape(line));
            }
            out.push_str("</g>\n");
            at += NAME + LINE * (lines.len() as f64 - 1.0);
        }
        if self.has_published() {
            let _ = writeln!(
                out,
                "<g class=\"note\"><path class=\"dot\" d=\"{}\"/><text x=\"{}\" y=\"{}\">hollow: published</text></g>",
                shape(0, WIDTH + 11.0, at, 4.5),
                xy(WIDTH + 28.0),
                xy(at + 4.0)
            );
        }
    }
}

/// A name in lines of the legend, cut at spaces where there are some.
fn lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split(' ') {
        let last = lines.last_mut().expect("there is one");
        let so_far = last.chars().count();
        if so_far > 0 && so_far + 1 + word.chars().count() > LEGEND_CHARS {
            lines.push(word.to_string());
        } else {
            last.push_str(if so_far > 0 { " " } else { "" });
            last.push_str(word);
        }
    }
    lines
}

/// The mark of the `n`-th series at a place: forms take turns, so that colour is not all that tells series apart.
fn shape(n: usize, x: f64, y: f64, radius: f64) -> String {
    let (x, y, r) = (xy(x), xy(y), radius);
    let (twice, small) = (xy(2.0 * r), xy(0.9 * r));
    let wide = xy(1.8 * r);
    // Each time that colours come again the form is another.
    match (n + n / COLOURS) % 4 {
        0 => format!("M{x} {y}m-{r} 0a{r} {r} 0 1 0 {twice} 0a{r} {r} 0 1 0 -{twice} 0z"),
        1 => format!("M{x} {y}m-{small} -{small}h{wide}v{wide}h-{wide}z"),
        2 => format!("M{x} {y}m0 -{r}l{r} {wide}h-{twice}z"),
        _ => format!("M{x} {y}m0 -{r}l{r} {r}l-{r} {r}l-{r} -{r}z"),
    }
}

/// The class that gives the `n`-th series its colour; when colours come again, lines are dashed.
fn class(n: usize) -> String {
    let dashed = if n / COLOURS % 2 == 1 { " dashed" } else { "" };
    format!("c{}{dashed}", n % COLOURS)
}

struct Drawing<'a> {
    out: &'a mut String,
    x: &'a Range<'a>,
    y: &'a Range<'a>,
    plot: &'a Plot,
    /// How far to the right of their places its points are.
    aside: f64,
}

impl Drawing<'_> {
    /// Where a point is; `None` if it cannot be shown.
    fn place(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        if !x.is_finite() || !y.is_finite() {
            return None;
        }
        let (x, y) = (self.x.place(x + self.aside)?, self.y.place(y)?);
        Some((LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP)))
    }

    fn series(&mut self, series: &Series, colour: usize) {
        let kind = match series.kind {
            Kind::Measured | Kind::Scattered => "series",
            Kind::Published => "series published",
        };
        let _ = writeln!(self.out, "<g class=\"{kind} {}\" data-s=\"{colour}\">", class(colour));
        // Between names there is nothing that a line could pass.
        if series.kind == Kind::Measured && !self.x.is_of_names() {
            self.line(series);
        }
        for point in &series.points {
            self.point(series, point, colour);
        }
        self.out.push_str("</g>\n");
    }

    fn line(&mut self, series: &Series) {
        let places = series.points.iter().filter_map(|p| self.place(p.x, p.y));
        let places: Vec<String> = places.map(|(x, y)| format!("{} {}", xy(x), xy(y))).collect();
        if places.len() > 1 {
            let _ = writeln!(self.out, "<path class=\"line\" d=\"M{}\"/>", places.join("L"));
        }
    }

    fn point(&mut self, series: &Series, point: &Point, n: usize) {
        let Some((x, y)) = self.place(point.x, point.y) else { return };
        if let Some(error) = point.error {
            // What reaches below a logarithmic axis ends at the bottom.
            let high = self.place(point.x, point.y + error).map_or(y, |p| p.1);
            let low = self
                .place(point.x, point.low(self.plot.least()))
                .map_or(BOTTOM, |p| p.1.min(BOTTOM));
            let _ = writeln!(
                self.out,
                "<path class=\"error\" d=\"M{} {}V{}M{} {}h6M{} {}h6\"/>",
                xy(x),
                xy(high),
                xy(low),
                xy(x - 3.0),
                xy(high),
                xy(x - 3.0),
                xy(low)
            );
        }
        let radius = if series.kind == Kind::Published { 4.5 } else { 3.5 };
        let _ = writeln!(
            self.out,
            "<path class=\"dot\" d=\"{}\"><title>{}</title></path>",
            shape(n, x, y, radius),
            escape(&self.tip(series, point))
        );
    }

    /// What is said of a point.
    fn tip(&self, series: &Series, point: &Point) -> String {
        let at = match &self.plot.x.scale {
            crate::Scale::Names(names) => names[point.x as usize].clone(),
            _ => format!("{}: {}", self.plot.x.label, short(point.x)),
        };
        let error = point.error.map_or(String::new(), |e| format!(" ± {}", short(e)));
        let who = match series.kind {
            Kind::Measured | Kind::Scattered => series.name.clone(),
            Kind::Published => format!("{} (published)", series.name),
        };
        let who = if who.is_empty() { who } else { format!("{who}\n") };
        format!("{who}{at}\n{}: {}{error}", self.plot.y.label, short(point.y))
    }
}
