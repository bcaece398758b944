//! A scenario's values, each with the place that it came from, so that errors can name it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, anyhow, bail};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use crate::keys::{self, join, plain};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file, from 1.
    Line(usize),
    /// An argument, as it was given.
    Argument(String),
}

/// Values by key, and where each came from.
#[derive(Clone, Debug)]
pub struct Document {
    file: String,
    /// The values.
    pub table: Table,
    origins: BTreeMap<String, Origin>,
}

impl Document {
    /// Reads TOML; `file` is what errors call it.
    ///
    /// # Errors
    /// With the line, if it is not TOML.
    pub fn parse(file: &str, text: &str) -> Result<Document> {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let fail = |e: toml::de::Error| {
            let at = e.span().map_or(1, |span| line(span.start));
            anyhow!("{file}:{at}: {}", e.message().replace('\n', "; "))
        };
        let table: Table = toml::from_str(text).map_err(fail)?;
        let spans = DeTable::parse(text).map_err(fail)?;
        let mut origins = BTreeMap::new();
        walk("", spans.get_ref(), &mut |key, at| {
            origins.insert(key, Origin::Line(line(at)));
        });
        Ok(Document { file: file.to_string(), table, origins })
    }

    /// The place of a key, or of the nearest above it, as errors begin with it.
    pub fn place(&self, key: &str) -> Place<'_> {
        let mut at = key;
        loop {
            if let Some(origin) = self.origins.get(at) {
                return Place { file: &self.file, origin: Some(origin) };
            }
            match at.rfind(['.', '[']) {
                Some(end) => at = &at[..end],
                None => return Place { file: &self.file, origin: None },
            }
        }
    }

    /// The place of something that came from there.
    pub fn place_of<'a>(&'a self, origin: &'a Origin) -> Place<'a> {
        Place { file: &self.file, origin: Some(origin) }
    }

    /// What errors call the file: its path.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Takes a key of the first level out.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    /// Where a key came from, if it is there.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.table.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.as_table()?.get(part))
    }

    /// Gives a key another value. Where only one of several tables can be (`closed` or `open`),
    /// the others go.
    ///
    /// # Errors
    /// If the key is below one that has no keys below it.
    pub fn set(&mut self, key: &str, value: Value, origin: Origin) -> Result<()> {
        let mut table = &mut self.table;
        let mut above = String::new();
        let (path, last) = key.rsplit_once('.').unwrap_or(("", key));
        for part in path.split('.').filter(|p| !p.is_empty()) {
            if keys::alternatives(&above).is_some() {
                table.retain(|name, _| name == part);
            }
            above = join(&above, part);
            let slot = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            if !slot.is_table() && keys::alternatives(&above).is_some() {
                *slot = Value::Table(Table::new());
            }
            let Value::Table(inner) = slot else {
                bail!("{key}: {above} has no keys below it");
            };
            table = inner;
        }
        if keys::alternatives(&above).is_some() {
            table.clear();
        }
        table.insert(last.to_string(), value);
        let below = format!("{key}.");
        self.origins.retain(|k, _| !k.starts_with(&below));
        self.origins.insert(key.to_string(), origin);
        Ok(())
    }

    /// Checks that all keys are known, and that what this crate knows of their values holds.
    ///
    /// # Errors
    /// The first that is wrong, with its place.
    pub fn check(&self) -> Result<()> {
        check_table(self, "", &self.table)
    }
}

fn check_table(document: &Document, prefix: &str, table: &Table) -> Result<()> {
    if let Some(names) = keys::alternatives(prefix)
        && table.len() != 1
    {
        bail!("{}: {prefix}: give one of {}", document.place(prefix), names.join(", "));
    }
    for (name, value) in table {
        let key = join(prefix, name);
        keys::known(&key).map_err(|e| anyhow!("{}: {e}", document.place(&key)))?;
        match value {
            Value::Table(inner) => check_table(document, &key, inner)?,
            value => keys::check_value(&key, value).map_err(|expected| {
                let place = document.place(&key);
                anyhow!("{place}: {key} = {}: {expected}", plain(value))
            })?,
        }
    }
    Ok(())
}

/// Tells where each key begins, at every depth.
fn walk(prefix: &str, table: &DeTable<'_>, found: &mut impl FnMut(String, usize)) {
    for (name, value) in table.iter() {
        let key = join(prefix, name.get_ref());
        found(key.clone(), name.span().start);
        within(&key, value, found);
    }
}

fn within(key: &str, value: &Spanned<DeValue<'_>>, found: &mut impl FnMut(String, usize)) {
    match value.get_ref() {
        DeValue::Table(inner) => walk(key, inner, found),
        DeValue::Array(values) => {
            for (n, value) in values.iter().enumerate() {
                let key = format!("{key}[{n}]");
                found(key.clone(), value.span().start);
                within(&key, value, found);
            }
        }
        _ => {}
    }
}

/// Where something is, for the beginning of an error.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    file: &'a str,
    origin: Option<&'a Origin>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Some(Origin::Line(line)) => write!(f, "{}:{line}", self.file),
            Some(Origin::Argument(argument)) => f.write_str(argument),
            None => f.write_str(self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\n\n[links]\nmb_s = 1\n[workload]\n\
                        requests = { mix = [\n  { kind = \"read\" },\n] }\naddresses = \"uniform\"\n";

    #[test]
    fn every_key_has_a_line() {
        let document = Document::parse("f", TEXT).unwrap();
        let place = |key: &str| document.place(key).to_string();
        assert_eq!((place("title"), place("links.mb_s")), ("f:1".into(), "f:4".into()));
        assert_eq!(place("links.latency_us"), "f:3");
        assert_eq!(place("workload.requests.mix[0].weight"), "f:7");
        assert_eq!(place("nodes.mips"), "f");
        let bad = Document::parse("f", "a = 1\nb = = 2").unwrap_err().to_string();
        assert!(bad.starts_with("f:2: "), "{bad}");
    }

    #[test]
    fn what_is_set_takes_the_place_of_what_cannot_be_beside_it() {
        let mut document = Document::parse("f", TEXT).unwrap();
        let mut set = |key: &str, value: i64| {
            document.set(key, Value::Integer(value), Origin::Argument(format!("--set {key}")))
        };
        set("workload.requests.fixed.bytes", 512).unwrap();
        set("workload.requests.fixed.read_share", 1).unwrap();
        set("workload.addresses.zipf.regions", 9).unwrap();
        set("nodes.path.send", 7).unwrap();
        assert!(set("links.mb_s.fast", 7).is_err());
        assert!(document.get("workload.requests.mix").is_none());
        let bytes = document.get("workload.requests.fixed.bytes");
        assert_eq!(bytes, Some(&Value::Integer(512)));
        assert!(document.get("workload.requests.fixed.read_share").is_some());
        assert!(document.get("workload.addresses.zipf.regions").is_some());
        assert_eq!(document.place("nodes.path.send").to_string(), "--set nodes.path.send");
    }

    fn problem(text: &str) -> String {
        Document::parse("f", text).unwrap().check().unwrap_err().to_string()
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest() {
        assert_eq!(
            problem("[links]\n\nmb_sec = 1"),
            "f:3: links.mb_sec: this key does not exist; did you mean links.mb_s?"
        );
        assert_eq!(
            problem("link.mb_s = 1"),
            "f:1: link: this key does not exist; did you mean links?"
        );
        assert_eq!(
            problem("links.latency = 1"),
            "f:1: links.latency: this key does not exist; its unit is part of its name: links.latency_us"
        );
        assert_eq!(
            problem("workload.requests.fixed.size = 1"),
            "f:1: workload.requests.fixed.size: this key does not exist; workload.requests.fixed has \
             bytes, read_share"
        );
        assert!(problem("disks.model.name = 1").contains("has no keys below it"));
    }

    #[test]
    fn values_of_the_wrong_kind_or_out_of_range_are_refused_with_it() {
        for (text, why) in [
            ("links.mb_s = -1", "f:1: links.mb_s = -1: give 0.001 to 1e9"),
            ("links.mb_s = nan", "f:1: links.mb_s = NaN: give 0.001 to 1e9"),
            (
                "links.mb_s = \"10 MB/s\"",
                "f:1: links.mb_s = 10 MB/s: give a number without unit, 0.001 to 1e9; it counts \
                 10^6 bytes/s",
            ),
            (
                "\nnodes.workers = 1.5",
                "f:2: nodes.workers = 1.5: give a whole number without unit, 1 to 16384; it counts \
                 nodes",
            ),
            (
                "measure.warm_up = \"mser\"",
                "f:1: measure.warm_up = mser: give a whole number without unit, 0 to 1000000000000, \
                 or mser-5; it counts requests",
            ),
            (
                "measure.warm_up = -1",
                "f:1: measure.warm_up = -1: give 0 to 1000000000000, or mser-5",
            ),
            ("nodes.workers = 0", "f:1: nodes.workers = 0: give 1 to 16384"),
            (
                "links.fabric = \"ring\"",
                "f:1: links.fabric = ring: choose from point-to-point, bus, switch, torus, hierarchy",
            ),
            ("disks.synchronized = 1", "f:1: disks.synchronized = 1: give true, false"),
            (
                "workload.arrivals = {}",
                "f:1: workload.arrivals: give one of closed, open, traced, saturating",
            ),
        ] {
            assert_eq!(problem(text), why);
        }
    }
}
