//! What plots look like. Colours stand in plain rules, not in variables, so that programs that know
//! little of CSS show plots as browsers do, if only light.

use std::fmt::Write;

/// How many series have colours of their own.
pub(crate) const COLOURS: usize = 12;

/// A set of colours.
struct Palette {
    ground: &'static str,
    ink: &'static str,
    faint: &'static str,
    grid: &'static str,
    series: [&'static str; COLOURS],
}

/// Told apart by those who do not see all colours, too: after Okabe and Ito (2008), those of
/// little contrast darkened.
const LIGHT: Palette = Palette {
    ground: "#ffffff",
    ink: "#1c1c1c",
    faint: "#5f5f5f",
    grid: "#e4e4e4",
    series: [
        "#0072b2", "#d55e00", "#00845f", "#b0508c", "#8a6d00", "#6a4c93", "#555555", "#3a8fc4",
        "#a0282d", "#5b8c00", "#00808a", "#c7458f",
    ],
};

/// The same, lightened.
const DARK: Palette = Palette {
    ground: "#16181b",
    ink: "#e8e8e8",
    faint: "#a0a4aa",
    grid: "#2f3338",
    series: [
        "#56b4e9", "#ff9f5a", "#35cfa0", "#e79ac4", "#ffca58", "#bd9be0", "#c4c4c4", "#9fd3f5",
        "#ff8a8a", "#b4d94f", "#4fd6e0", "#ff9ad5",
    ],
};

/// What does not depend on light or dark.
const SHAPES: &str = "\
.plot { font: 12px system-ui, 'DejaVu Sans', sans-serif; }
.plot .title { font-size: 14px; font-weight: 600; }
.plot path { fill: none; stroke-width: 1.8; }
.plot .grid, .plot .axis { stroke-width: 1; }
.plot .error { stroke-width: 1.2; }
.plot .dashed .line { stroke-dasharray: 6 4; }
.plot .dot { stroke-width: 1.8; }
";

/// The rules for the colours, below `scope`.
fn rules(scope: &str, palette: &Palette) -> String {
    let Palette { ground, ink, faint, grid, series } = palette;
    let mut out = format!(
        "{scope}.plot .ground {{ fill: {ground}; }}\n\
         {scope}.plot text {{ fill: {ink}; }}\n\
         {scope}.plot .mark {{ fill: {faint}; }}\n\
         {scope}.plot .grid {{ stroke: {grid}; }}\n\
         {scope}.plot .axis {{ stroke: {faint}; }}\n\
         {scope}.plot .note .dot {{ fill: none; stroke: {ink}; }}\n"
    );
    for (n, colour) in series.iter().enumerate() {
        let _ = write!(
            out,
            "{scope}.plot .c{n} path {{ stroke: {colour}; }}\n\
             {scope}.plot .c{n} .dot {{ fill: {colour}; }}\n"
        );
    }
    let _ = writeln!(out, "{scope}.plot .published .dot {{ fill: none; }}");
    out
}

/// The style of a plot in a file of its own.
pub(crate) fn of_file() -> String {
    let (light, dark) = (rules("", &LIGHT), rules("", &DARK));
    format!("{SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

/// The style of a page, which can also be made light or dark by its attribute `data-theme`.
pub(crate) fn of_page() -> String {
    let page = |scope: &str, palette: &Palette| {
        let Palette { ground, ink, faint, grid, .. } = palette;
        let variables = format!(
            "{} {{ --ground: {ground}; --ink: {ink}; --faint: {faint}; --grid: {grid}; }}\n",
            scope.trim_end()
        );
        variables + &rules(scope, palette)
    };
    let light = page(":root ", &LIGHT);
    let by_system = page(":root:not([data-theme=\"light\"]) ", &DARK);
    let by_hand = page(":root[data-theme=\"dark\"] ", &DARK);
    format!("{SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{by_system}}}\n{by_hand}")
}
