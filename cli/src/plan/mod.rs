//! `weft plan`: designs of an array, compared by what they cost and what they risk. `weft_plan` computes it.

mod simulate;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::{Value, json};
use weft_plan::outcome::{Outcome, outcomes, outcomes_told};
use weft_plan::spec::{Problem, Spec};
use weft_plan::{EXAMPLE, page};
use weft_report::{Cell, short};
use weft_terminal::{Counts, Stage, align_right, say, say_json, table};

/// A plan to compute.
#[derive(Debug, Args)]
pub struct Plan {
    /// Plan file: properties of disks, boxes and parts, and the designs to compare
    #[arg(required_unless_present = "example")]
    file: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write an HTML page with figures and tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the first figure, availability over performance, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print an example plan with every key, its meaning and the source of its value
    #[arg(long, exclusive = true)]
    example: bool,
}

impl Plan {
    /// Does what is asked.
    pub fn run(&self) -> Result<ExitCode> {
        let Some(file) = &self.file else {
            say(EXAMPLE.trim_end())?;
            return Ok(ExitCode::SUCCESS);
        };
        let (spec, found) = compute(file)?;
        let figures = page::plots(&found);
        for (path, text) in
            [(&self.html, page::page(&spec, &found).html()), (&self.svg, figures[0].svg())]
        {
            if let Some(path) = path {
                fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        match self.json {
            true => say_json(as_json(&spec, &found))?,
            false => say(describe(&spec, &found))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn compute(file: &Path) -> Result<(Spec, Vec<Outcome>)> {
    let name = file.display();
    let bytes = fs::read(file)
        .with_context(|| format!("cannot read {name}; `weft plan --example` prints an example"))?;
    let text = weft_bytes::text::of_file(&bytes).with_context(|| name.to_string())?;
    let mut spec = Spec::parse(text).map_err(|e| anyhow!("{name}: {e}"))?;
    simulate::simulate(&mut spec).with_context(|| name.to_string())?;
    let found = evaluate(&spec).map_err(|e| anyhow!("{name}: {e}"))?;
    Ok((spec, found))
}

/// What becomes of the designs. Simulated missions take their time, so they show how far they are.
fn evaluate(spec: &Spec) -> Result<Vec<Outcome>, Problem> {
    let Some(plays) = &spec.monte_carlo else { return outcomes(spec) };
    let missions = u64::from(plays.trials) * spec.designs.len() as u64;
    let stage = Stage::new("simulated missions", missions, Counts::Things);
    let found = outcomes_told(spec, &mut || stage.advance(1));
    stage.bar().finish_and_clear();
    found
}

fn as_json(spec: &Spec, found: &[Outcome]) -> Value {
    json!({
        "title": spec.title,
        "mission_years": spec.mission.years,
        "designs": found,
        "notes": page::notes(found),
    })
}

/// A row for each property, a column for each design: there are more properties than fit side by side.
fn describe(spec: &Spec, found: &[Outcome]) -> String {
    let all = page::table(found);
    let names = found.iter().map(|o| o.name.clone());
    let mut turned = table([spec.title.clone()].into_iter().chain(names));
    for (n, property) in all.columns.iter().enumerate().skip(1) {
        let cells = all.rows.iter().map(|row| text(&row[n]));
        turned.add_row([property.clone()].into_iter().chain(cells));
    }
    let first = |o: &Outcome| o.causes.first().map_or("nothing", |c| c.name.as_str()).to_string();
    turned.add_row(["most often lost by".to_string()].into_iter().chain(found.iter().map(first)));
    align_right(&mut turned, 1..=found.len());
    let notes = page::notes(found).into_iter().map(|note| format!("\n{note}"));
    format!("{turned}{}", notes.collect::<String>())
}

/// A cell for people. Numbers that are very large or small have an exponent.
fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Empty => "-".to_string(),
        Cell::Number(n) if *n != 0.0 && !(1e-3..1e6).contains(&n.abs()) => format!("{n:.3e}"),
        Cell::Number(n) => short(*n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_described_and_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let small = EXAMPLE.replace("trials = 5000", "trials = 100");
        fs::write(file("p.toml"), small).unwrap();
        let plan = Plan {
            file: Some(file("p.toml")),
            json: false,
            html: Some(file("p.html")),
            svg: Some(file("p.svg")),
            example: false,
        };
        plan.run().unwrap();
        assert!(fs::read_to_string(file("p.html")).unwrap().contains("<svg"));
        assert!(fs::read_to_string(file("p.svg")).unwrap().starts_with("<svg"));
        let (spec, found) = compute(&file("p.toml")).unwrap();
        let text = describe(&spec, &found);
        assert!(text.contains("mirrors") && text.contains("MTTDL, h"), "{text}");
        let value = as_json(&spec, &found);
        assert_eq!(value["designs"].as_array().unwrap().len(), spec.designs.len());
        assert!(value["designs"][0]["mttdl_h"].is_f64(), "{value}");
    }

    #[test]
    fn errors_name_the_file_and_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p.toml");
        let problem = || compute(&file).unwrap_err().to_string();
        assert!(problem().contains("weft plan --example"));
        fs::write(&file, EXAMPLE.replace("disks = 18", "disks = 17")).unwrap();
        assert!(
            problem()
                .contains("p.toml: designs[0].disks: 17 disks cannot be divided into groups of 6"),
            "{}",
            problem()
        );
        fs::write(&file, EXAMPLE.replace("size_gb", "size_tb")).unwrap();
        assert!(problem().contains("unknown field `size_tb`"), "{}", problem());
    }

    #[test]
    fn numbers_are_as_long_as_they_must_be() {
        let of = |n: f64| text(&Cell::Number(n));
        assert_eq!(
            (of(0.0), of(12.5), of(4e9), of(7.5e-12)),
            ("0".into(), "12.5".into(), "4.000e9".into(), "7.500e-12".into())
        );
        assert_eq!(text(&Cell::Empty), "-");
    }
}
