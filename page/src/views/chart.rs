//! Small charts, drawn as SVG by the server.

use std::fmt::Write;

use maud::{Markup, html};

use crate::samples::{EVERY, MOST};

/// The height of a chart; its width is the number of samples. The browser stretches both.
const HEIGHT: f64 = 40.0;

/// A bar that is filled so far, in percent.
pub(super) fn bar(label: &str, percent: f64) -> Markup {
    let width = format!("{:.1}", percent.clamp(0.0, 100.0));
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect width=(width) height="10" {}
        }
    }
}

/// The course of a number in the last hour, and the most that it was. Where it is not known there is a gap.
pub(super) fn course(label: &str, values: &[Option<f64>], shown: impl Fn(f64) -> String) -> Markup {
    let known = || values.iter().flatten().copied();
    let most = known().fold(0.0, f64::max);
    let scale = if most > 0.0 { (HEIGHT - 2.0) / most } else { 0.0 };
    let time = match values.len() as u64 * EVERY.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    // The newest is at the right.
    let first = MOST.saturating_sub(values.len());
    let mut line = String::new();
    let mut areas = String::new();
    let mut from: Option<usize> = None;
    for (n, value) in values.iter().enumerate() {
        let x = first + n;
        match value {
            Some(value) => {
                let y = HEIGHT - 1.0 - value * scale;
                let (verb, area) = match from {
                    Some(_) => ("L", String::new()),
                    None => ("M", format!("M{x} {HEIGHT}")),
                };
                let _ = write!(line, "{verb}{x} {y:.1}");
                let _ = write!(areas, "{area}L{x} {y:.1}");
                from.get_or_insert(x);
            }
            None => close(&mut areas, &mut from, x),
        }
    }
    close(&mut areas, &mut from, first + values.len());
    let said = match known().next() {
        None => format!("{label}: no values yet"),
        Some(_) => format!("{label} in the last {time}: at most {}", shown(most)),
    };
    html! {
        svg.spark viewBox={ "0 0 " (MOST) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(said) {
            path.area d=(areas) {}
            path.line d=(line) {}
            line.base x1="0" y1=(HEIGHT) x2=(MOST) y2=(HEIGHT) {}
        }
        p.faint { (said) }
    }
}

/// An area ends at the one before `x`.
fn close(areas: &mut String, from: &mut Option<usize>, x: usize) {
    if from.take().is_some() {
        let _ = write!(areas, "L{} {HEIGHT}Z", x.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_has_gaps_and_ends_at_the_right() {
        let values = [Some(1.0), Some(2.0), None, Some(0.0)];
        let svg = course("x", &values, |v| format!("{v}")).into_string();
        assert!(svg.contains("d=\"M356 20.0L357 1.0M359 39.0\""), "{svg}");
        assert!(
            svg.contains("d=\"M356 40L356 20.0L357 1.0L357 40ZM359 40L359 39.0L359 40Z\""),
            "{svg}"
        );
        assert!(svg.contains("at most 2"));
        let none = course("<x>", &[None; 3], |v| format!("{v}")).into_string();
        assert!(none.contains("&lt;x&gt;: no values yet") && none.contains("d=\"\""));
        assert!(bar("b", 170.0).into_string().contains("width=\"100.0\""));
    }
}
