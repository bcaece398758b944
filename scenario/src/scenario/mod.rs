//! A scenario: a system, and what of it is varied.
//!
//! A scenario file is the TOML of a [`System`] with three more keys: `title`, `about`, and a
//! table `[sweep]` of lists. Each key of that table is an axis, and the points of the scenario are
//! the product of all axes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};
use weft_sim::perf::{Problem, System};

use crate::catalogue;
use crate::document::{Document, Origin, Place};
use crate::keys::{self, join, plain};
use crate::traces::Traces;

/// The most points of a scenario.
const MOST_POINTS: usize = 1_000_000;

/// What is run.
#[derive(Debug)]
pub struct Scenario {
    /// What it is called.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// What is varied, the last the fastest.
    pub axes: Vec<Axis>,
    document: Document,
    /// Keys that the command line gave one value.
    set: Vec<String>,
    traces: Traces,
}

/// Something that is varied.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The key; of cases, any name.
    pub key: String,
    /// Its values.
    pub choices: Vec<Choice>,
}

/// A value of an axis.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What it is called in results: the value, or a case's name.
    pub label: Value,
    /// What it sets.
    sets: Vec<(String, Value)>,
    origin: Origin,
}

/// One point of a scenario.
#[derive(Clone, Debug)]
pub struct Point {
    /// The values of the axes.
    pub labels: Vec<Value>,
    /// The system there.
    pub system: System,
}

/// `KEY=VALUE`, from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// What is behind the equals sign.
    pub value: String,
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Setting { key: key.trim().into(), value: value.trim().into() })
            }
            _ => Err(format!(
                "'{text}' is not KEY=VALUE; write it like links.mb_s=10, and the scenario before it"
            )),
        }
    }
}

/// The text of a file.
fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    weft_bytes::text::of_file(bytes).with_context(|| name.to_string())
}

/// A value from the command line: TOML, or else a word.
fn value(text: &str) -> Value {
    let table: Option<Table> = toml::from_str(&format!("v = {text}")).ok();
    table.and_then(|mut t| t.remove("v")).unwrap_or_else(|| Value::String(text.into()))
}

/// Values from the command line, with commas between them.
fn values(text: &str) -> Vec<Value> {
    match value(&format!("[{text}]")) {
        Value::Array(values) => values,
        _ => text.split(',').map(|v| value(v.trim())).collect(),
    }
}

impl Scenario {
    /// Reads a scenario: a file, or one that comes with Weft, by its name.
    ///
    /// # Errors
    /// If there is no such scenario, or it cannot be understood.
    pub fn open(name: &str) -> Result<Scenario> {
        match fs::read(name) {
            Ok(bytes) => Scenario::parse(name, text(name, &bytes)?),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => match catalogue::find(name) {
                Some(entry) => Scenario::parse(&entry.path(), entry.text),
                None => bail!(
                    "{name}: this is neither a file nor a built-in scenario; {}",
                    catalogue::like(name)
                ),
            },
            Err(e) => Err(e).with_context(|| name.to_string()),
        }
    }

    /// Reads the text of a scenario; `file` is what errors call it.
    ///
    /// # Errors
    /// With the line, if it is not TOML or its sweep is none.
    pub fn parse(file: &str, text: &str) -> Result<Scenario> {
        let mut document = Document::parse(file, text)?;
        let mut text_of = |key: &str| match document.take(key) {
            Some(Value::String(text)) => Ok(text.trim().to_string()),
            Some(_) => Err(anyhow!("{}: {key}: give a text", document.place(key))),
            None => Ok(String::new()),
        };
        let (title, about) = (text_of("title")?, text_of("about")?);
        let axes = match document.take("sweep") {
            Some(Value::Table(table)) => axes(&document, &table)?,
            Some(_) => bail!("{}: sweep: give a table of lists", document.place("sweep")),
            None => Vec::new(),
        };
        let title = if title.is_empty() { file.to_string() } else { title };
        Ok(Scenario { title, about, axes, document, set: Vec::new(), traces: Traces::default() })
    }

    /// Gives a key one value, whether it was varied or not. Of cases, one is chosen by its name.
    ///
    /// # Errors
    /// If there is no such key or case.
    pub fn set(&mut self, setting: &Setting, argument: &str) -> Result<()> {
        let place = format!("{argument} {}={}", setting.key, setting.value);
        let value = value(&setting.value);
        if let Some(axis) = self.axes.iter_mut().find(|a| a.key == setting.key) {
            if axis.is_cases() {
                axis.choices = vec![axis.case(&value).map_err(|e| anyhow!("{place}: {e}"))?];
                return Ok(());
            }
            self.axes.retain(|a| a.key != setting.key);
        }
        keys::known(&setting.key).map_err(|e| anyhow!("{place}: {e}"))?;
        self.set.push(setting.key.clone());
        self.document.set(&setting.key, value, Origin::Argument(place))
    }

    /// Varies a key over values, instead of those it had. Of cases, some are chosen by name.
    ///
    /// # Errors
    /// If there is no such key or case.
    pub fn sweep(&mut self, setting: &Setting) -> Result<()> {
        let place = format!("--sweep {}={}", setting.key, setting.value);
        let values = values(&setting.value);
        if let Some(axis) = self.axes.iter_mut().find(|a| a.key == setting.key && a.is_cases()) {
            let chosen = values.iter().map(|v| axis.case(v));
            axis.choices = chosen.collect::<Result<_>>().map_err(|e| anyhow!("{place}: {e}"))?;
            return Ok(());
        }
        keys::known(&setting.key).map_err(|e| anyhow!("{place}: {e}"))?;
        // An axis of the key itself comes instead of its one value, and results name what counts.
        self.set.retain(|key| *key != setting.key);
        let choice = |value: Value| Choice {
            label: value.clone(),
            sets: vec![(setting.key.clone(), value)],
            origin: Origin::Argument(place.clone()),
        };
        let choices = values.into_iter().map(choice).collect();
        match self.axes.iter_mut().find(|a| a.key == setting.key) {
            Some(axis) => axis.choices = choices,
            None => self.axes.push(Axis { key: setting.key.clone(), choices }),
        }
        Ok(())
    }

    /// Puts the values of a file in the place of its own: all of those about hardware, as
    /// `weft probe` writes them, or any others. What is varied stays so.
    ///
    /// # Errors
    /// If the file cannot be read, or has a key that there is none.
    pub fn replace(&mut self, file: &Path) -> Result<()> {
        let name = file.display().to_string();
        let bytes = fs::read(file).with_context(|| name.clone())?;
        let values = Document::parse(&name, text(&name, &bytes)?)?;
        values.check()?;
        let mut found = Vec::new();
        flatten("", &values.table, &mut |key, value| found.push((key, value.clone())));
        // Disks that are emulated are those of the scenario, whatever the machine has.
        let key = "disks.emulated";
        let emulated = self.document.get(key).and_then(Value::as_bool) == Some(true)
            || self.axes.iter().any(|a| a.key == key);
        found.retain(|(key, _)| !(emulated && key.starts_with("disks.")));
        for (key, value) in found {
            let place = values.place(&key).to_string();
            // A disk's file lies beside the one that names it.
            let value = match value.as_str() {
                Some(model) if key == "disks.model" => beside(file, model),
                _ => value,
            };
            self.document.set(&key, value, Origin::Argument(place))?;
        }
        Ok(())
    }

    /// Where a key's value came from, as errors begin with it.
    pub fn place(&self, key: &str) -> Place<'_> {
        self.document.place(key)
    }

    /// Whether a key, or one below it, is given or varied.
    pub fn says(&self, key: &str) -> bool {
        let below = format!("{key}.");
        let is = |k: &str| k == key || k.starts_with(&below);
        self.document.get(key).is_some()
            || self.axes.iter().flat_map(|a| &a.choices).flat_map(|c| &c.sets).any(|s| is(&s.0))
    }

    /// What a point is called in errors.
    pub fn name_of(&self, point: &Point) -> String {
        let axes = self.axes.iter().zip(&point.labels);
        let parts: Vec<String> =
            axes.map(|(axis, label)| format!("{} = {}", axis.key, plain(label))).collect();
        match parts.is_empty() {
            true => self.title.clone(),
            false => parts.join(", "),
        }
    }

    /// All points, each checked.
    ///
    /// # Errors
    /// With place and range, if one of them cannot be run.
    pub fn points(&self) -> Result<Vec<Point>> {
        let count = self.axes.iter().try_fold(1usize, |n, a| n.checked_mul(a.choices.len()));
        let Some(count) = count.filter(|n| *n <= MOST_POINTS) else {
            bail!("the sweep has more than {MOST_POINTS} points; give fewer values");
        };
        for axis in &self.axes {
            let twice = axis.choices.iter().enumerate().find(|(n, choice)| {
                axis.choices[..*n].iter().any(|earlier| earlier.label == choice.label)
            });
            if let Some((_, choice)) = twice {
                let (key, label) = (&axis.key, plain(&choice.label));
                let place = self.document.place(&join("sweep", key));
                bail!("{place}: sweep.{key}: {label} appears twice; give each once");
            }
        }
        self.check_axes()?;
        (0..count).map(|n| self.point(n)).collect()
    }

    /// Refuses axes that set the same key: of two values one would count, and results would name both.
    fn check_axes(&self) -> Result<()> {
        for (n, axis) in self.axes.iter().enumerate() {
            for other in &self.axes[..n] {
                let both = |key: &&str| other.sets(key);
                if let Some(key) = axis.keys().find(both) {
                    let place = axis.choices.first().map(|c| self.document.place_of(&c.origin));
                    let place = place.map_or(String::new(), |p| format!("{p}: "));
                    bail!(
                        "{place}sweep.{} and sweep.{} both set {key}; set it in one of them only",
                        other.key,
                        axis.key
                    );
                }
            }
        }
        Ok(())
    }

    /// Refuses a choice that sets a key which was given one value.
    fn check_choice(&self, choice: &Choice) -> Result<()> {
        let Some((key, _)) = choice.sets.iter().find(|(key, _)| self.set.contains(key)) else {
            return Ok(());
        };
        let place = self.document.place(key);
        bail!(
            "{place}: {key} is set, but the sweep's {} sets it, too, and would override it; omit one of them",
            plain(&choice.label)
        )
    }

    fn point(&self, index: usize) -> Result<Point> {
        let mut document = self.document.clone();
        let mut chosen = Vec::new();
        let mut rest = index;
        for axis in self.axes.iter().rev() {
            chosen.push(&axis.choices[rest % axis.choices.len()]);
            rest /= axis.choices.len();
        }
        chosen.reverse();
        for choice in &chosen {
            self.check_choice(choice)?;
            for (key, value) in &choice.sets {
                document.set(key, value.clone(), choice.origin.clone())?;
            }
        }
        for (key, _) in chosen.iter().flat_map(|c| &c.sets) {
            if document.get(key).is_none() {
                bail!("{}: {key} is swept, but another key overrides it", document.place(key));
            }
        }
        if let Some(key) = self.set.iter().find(|k| document.get(k).is_none()) {
            let place = document.place(key);
            bail!("{place}: {key} is set, but another key, set later or swept, overrides it");
        }
        let labels = chosen.iter().map(|c| c.label.clone()).collect();
        Ok(Point { labels, system: system(&document, &self.traces)? })
    }
}

impl Axis {
    /// Whether it is a list of named cases.
    fn is_cases(&self) -> bool {
        !self.choices.iter().all(|c| c.sets.len() == 1 && c.sets[0].0 == self.key)
    }

    /// The keys that its choices set.
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.choices.iter().flat_map(|c| &c.sets).map(|(key, _)| key.as_str())
    }

    /// Whether a choice sets this key.
    fn sets(&self, key: &str) -> bool {
        self.keys().any(|k| k == key)
    }

    fn case(&self, name: &Value) -> Result<Choice> {
        let found = self.choices.iter().find(|c| plain(&c.label) == plain(name));
        found.cloned().ok_or_else(|| {
            let names: Vec<String> = self.choices.iter().map(|c| plain(&c.label)).collect();
            anyhow!("this case does not exist; choose from {}", names.join(", "))
        })
    }
}

/// The axes of a `[sweep]` table, in the order in which they stand in the file.
fn axes(document: &Document, table: &Table) -> Result<Vec<Axis>> {
    let mut lists = Vec::new();
    flatten("", table, &mut |key, value| lists.push((key, value.clone())));
    let line = |key: &str| match document.origin(&join("sweep", key)) {
        Some(Origin::Line(line)) => *line,
        _ => 0,
    };
    lists.sort_by_key(|(key, _)| line(key));
    let axis = |(key, value): (String, Value)| {
        let place = document.place(&join("sweep", &key)).to_string();
        let fail = |what: String| anyhow!("{place}: sweep.{key}: {what}");
        let Value::Array(values) = value else {
            return Err(fail("give a list of values".into()));
        };
        if values.is_empty() {
            return Err(fail("give at least one value".into()));
        }
        if !values.iter().any(Value::is_table) {
            keys::known(&key).map_err(|e| anyhow!("{place}: sweep.{e}"))?;
        }
        let choice = |(n, value)| {
            choice(document, &key, n, value).map_err(|(at, e)| {
                anyhow!("{}: sweep.{key}: {e}", document.place(&format!("sweep.{at}")))
            })
        };
        let choices = values.into_iter().enumerate().map(choice).collect::<Result<_>>()?;
        Ok(Axis { key, choices })
    };
    lists.into_iter().map(axis).collect()
}

/// The `n`-th value of an axis; an error with the key where it is.
fn choice(
    document: &Document,
    key: &str,
    n: usize,
    value: Value,
) -> Result<Choice, (String, anyhow::Error)> {
    let at = format!("{key}[{n}]");
    let origin = document.origin(&format!("sweep.{at}")).cloned();
    let origin = origin.unwrap_or_else(|| Origin::Argument("sweep".into()));
    let Value::Table(mut case) = value else {
        let sets = vec![(key.to_string(), value.clone())];
        return Ok(Choice { label: value, sets, origin });
    };
    let Some(Value::String(name)) = case.remove("name") else {
        return Err((at, anyhow!("a case needs a name: {{ name = \"...\", KEY = VALUE, ... }}")));
    };
    let mut sets = Vec::new();
    flatten("", &case, &mut |key, value| sets.push((key, value.clone())));
    for (key, _) in &sets {
        keys::known(key).map_err(|e| (format!("{at}.{key}"), e))?;
    }
    Ok(Choice { label: Value::String(name), sets, origin })
}

/// All values of a table that are no tables themselves, with their keys.
pub fn flatten(prefix: &str, table: &Table, found: &mut impl FnMut(String, &Value)) {
    for (name, value) in table {
        match value {
            Value::Table(inner) => flatten(&join(prefix, name), inner, found),
            value => found(join(prefix, name), value),
        }
    }
}

/// The model that a file names: a path from the file's own directory, or a disk that comes with Weft.
fn beside(file: &Path, model: &str) -> Value {
    let path = file.parent().unwrap_or(Path::new("")).join(model);
    let is_file = !is_builtin(model) && path.is_file();
    Value::String(if is_file { path.display().to_string() } else { model.to_string() })
}

fn is_builtin(model: &str) -> bool {
    weft_model::spec::builtins().any(|(name, _)| name == model)
}

/// Reads the disk's parameter file, if the model is none that comes with Weft.
fn read_disk(system: &mut System, document: &Document) -> Result<()> {
    let model = &system.disks.model;
    let Value::String(path) = beside(Path::new(document.file()), model) else { return Ok(()) };
    // From the scenario's directory, or from the current one.
    let found = [path.as_str(), model].into_iter().find(|p| Path::new(p).is_file());
    let Some(path) = found.filter(|_| !is_builtin(model)) else { return Ok(()) };
    let place = || format!("{}: disks.model = {model}", document.place("disks.model"));
    let bytes = fs::read(path).with_context(place)?;
    system.disks.parameters = Some(text(path, &bytes).with_context(place)?.to_string());
    Ok(())
}

/// The system that the values describe.
fn system(document: &Document, traces: &Traces) -> Result<System> {
    document.check()?;
    let value = Value::Table(document.table.clone());
    let mut system: System = serde_path_to_error::deserialize(value).map_err(|e| {
        let path = e.path().to_string();
        misread(document, &path, e.inner().message())
    })?;
    read_disk(&mut system, document)?;
    let trace = system.workload.requests.trace().map(|t| t.file.clone());
    traces.read(document.file(), &mut system).with_context(|| {
        let key = "workload.requests.trace.file";
        format!("{}: {key} = {}", document.place(key), trace.unwrap_or_default())
    })?;
    system.check().map_err(|Problem { key, value, expected }| {
        anyhow!("{}: {key} = {value}: {expected}", document.place(&key))
    })?;
    Ok(system)
}

/// What is wrong where a value is not what its key takes, or is not there.
fn misread(document: &Document, path: &str, message: &str) -> anyhow::Error {
    let path = if path == "." { "" } else { path };
    if let Some(name) = message.strip_prefix("missing field `").and_then(|m| m.strip_suffix('`')) {
        let key = join(path, name);
        return anyhow!(
            "{}: {key} is missing; see `weft sim --describe {key}`",
            document.place(&key)
        );
    }
    let place = document.place(path);
    let below = keys::below(path);
    let is_table = document.get(path).is_some_and(|v| v.is_table() || v.is_array());
    if message.starts_with("invalid type") && !below.is_empty() && !is_table {
        // There is a value where there are only keys below, or a word that has keys of its own.
        return anyhow!("{place}: {path} has keys of its own: give {}", below.join(", "));
    }
    match (document.get(path), keys::expected(path)) {
        (Some(value), Some(expected)) if !value.is_table() && !value.is_array() => {
            anyhow!("{place}: {path} = {}: {expected}", plain(value))
        }
        _ => anyhow!("{place}: {path}: {}", message.replace('\n', "; ")),
    }
}

#[cfg(test)]
mod tests;
