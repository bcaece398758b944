//! `weft trace`: what a block trace is like, and traces in other formats.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use weft_load::Kind;
use weft_load::stats::millis;
use weft_load::trace::{Devices, Format, Options, Reader, Survey, Writer};
use weft_terminal::{Counts, Stage, align_right, bytes, say, say_json, table};

use crate::args;

/// Quantiles of gaps and responses that are shown, in hundredths.
const QUANTILES: [u32; 6] = [10, 50, 75, 90, 95, 99];

/// Sizes of a kind that are shown to people, the most frequent ones.
const SIZES: usize = 5;

/// Devices that are shown to people.
const DEVICES: usize = 16;

/// Commands for traces.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Show requests, sizes, gaps, idle periods and addresses of a trace
    Info(Info),
    /// Write a trace in another format
    Convert(Convert),
}

/// A trace to describe.
#[derive(Debug, Args)]
pub struct Info {
    /// Trace file; may be compressed with gzip
    file: PathBuf,
    /// csv, srt, disksim, ssdsim, msr, vscsi, blkparse, iolog or measured [default: detected]
    #[arg(long)]
    format: Option<Format>,
    /// Bytes per sector, for formats that count in sectors [default: 512; 256 for srt, and csv with its columns]
    #[arg(long, value_parser = args::size)]
    sector_size: Option<u64>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// A trace to write in another format.
#[derive(Debug, Args)]
pub struct Convert {
    /// Trace file; may be compressed with gzip
    input: PathBuf,
    /// Output file, which must not exist; compressed with gzip if the name ends in .gz
    output: PathBuf,
    /// Format of the input, as for `weft trace info --format` [default: detected]
    #[arg(long)]
    from: Option<Format>,
    /// Format of the output [default: by the extension of its name, as in t.iolog.gz; else csv]
    #[arg(long)]
    to: Option<Format>,
    /// Bytes per sector of the input, for formats that count in sectors [default: 512; 256 for srt, and csv with its
    /// columns]
    #[arg(long, value_parser = args::size)]
    sector_size: Option<u64>,
}

impl Trace {
    /// Does it.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Trace::Info(info) => info.run(),
            Trace::Convert(convert) => convert.run(),
        }
    }
}

impl Info {
    fn run(&self) -> Result<ExitCode> {
        let options = Options { format: self.format, sector_bytes: self.sector_size };
        let mut reader = open(&self.file, options)?;
        let mut survey = Survey::default();
        for record in &mut reader {
            survey.add(&record?);
        }
        match self.json {
            true => say_json(as_json(&reader, &survey))?,
            false => say(describe(&reader, &survey))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Convert {
    fn run(&self) -> Result<ExitCode> {
        let Convert { input, output, .. } = self;
        if output.exists() {
            bail!("{} already exists; remove it, or give another name", output.display());
        }
        let options = Options { format: self.from, sector_bytes: self.sector_size };
        let mut reader = open(input, options)?;
        // Written beside its place and moved there when it is whole.
        let directory = output.parent().filter(|d| !d.as_os_str().is_empty());
        let unfinished = tempfile::Builder::new()
            .prefix(".weft-trace-")
            // As any file that a command makes: the umask decides.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory.unwrap_or(Path::new(".")))
            .with_context(|| format!("cannot write {}", output.display()))?;
        let plain = BufWriter::new(unfinished.as_file());
        let packed = is_packed(output);
        let to = self.to.unwrap_or_else(|| format_of(output));
        let (requests, left_out) = match packed {
            true => {
                let encoder = GzEncoder::new(plain, Compression::default());
                let (encoder, done) = copy(&mut reader, encoder, to)?;
                encoder.finish().and_then(|mut plain| plain.flush())?;
                done
            }
            false => copy(&mut reader, plain, to)?.1,
        };
        unfinished
            .persist_noclobber(output)
            .with_context(|| format!("cannot write {}", output.display()))?;
        say(format!("{requests} requests, {} to {}", reader.format(), to))?;
        if let Some(sectors) = sectors(&reader) {
            say(sectors)?;
        }
        for (what, count) in left_out {
            say(format!("skipped: {count} {what}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether a name is that of a file compressed with gzip.
fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "gz")
}

/// The format that the name of an output stands for.
fn format_of(output: &Path) -> Format {
    let plain = if is_packed(output) { output.with_extension("") } else { output.to_path_buf() };
    let extension = plain.extension().and_then(|e| e.to_str());
    extension.and_then(|e| e.parse().ok()).unwrap_or(Format::Csv)
}

/// How many requests were written, and what was not.
type Done = (u64, BTreeMap<&'static str, u64>);

fn copy<W: Write>(reader: &mut Reader<'_>, output: W, to: Format) -> Result<(W, Done)> {
    let mut writer = Writer::new(output, to)?;
    let mut requests = 0;
    while let Some(record) = reader.next() {
        writer.write(&record?, reader.devices())?;
        requests += 1;
    }
    let mut left_out = reader.left_out().clone();
    left_out.extend(writer.left_out());
    requests -= writer.left_out().values().sum::<u64>();
    Ok((writer.finish()?, (requests, left_out)))
}

fn open(path: &Path, options: Options) -> Result<Reader<'static>> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let length = file.metadata().map(|m| m.len()).unwrap_or(0);
    let stage = Stage::new(format!("reading {name}"), length, Counts::Bytes);
    Ok(Reader::new(name, Watched { file, stage }, options)?)
}

/// How large the trace's sectors are taken to be, if it counts in sectors.
fn sectors(reader: &Reader<'_>) -> Option<String> {
    let bytes = reader.sector_bytes()?;
    let whence = match reader.sector_is_given() {
        true => "as given",
        false => "not given in the trace; --sector-size overrides it",
    };
    Some(format!("assuming sectors of {bytes} bytes ({whence})"))
}

/// A file that shows how far it is read.
struct Watched {
    file: File,
    stage: Stage,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.stage.advance(read as u64);
        Ok(read)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stage.bar().finish_and_clear();
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Mean size of a kind, in bytes.
fn mean_size(survey: &Survey, kind: Kind) -> Option<f64> {
    let (count, bytes) = survey.of(kind);
    (count > 0).then(|| bytes as f64 / count as f64)
}

fn as_json(reader: &Reader<'_>, survey: &Survey) -> Value {
    let quantiles = |of: &dyn Fn(f64) -> u64| -> Value {
        let pairs = QUANTILES
            .iter()
            .map(|q| (format!("p{q}_ms"), json!(millis(of(f64::from(*q) / 100.0) as f64))));
        Value::Object(pairs.collect())
    };
    let kinds = Kind::ALL.map(|kind| {
        let (count, bytes) = survey.of(kind);
        let responses = survey.responses(kind);
        let response = (responses.count() > 0).then(|| {
            json!({
                "requests": responses.count(),
                "mean_ms": millis(responses.mean()),
                "quantiles": quantiles(&|q| responses.quantile(q)),
            })
        });
        let sizes = survey.sizes(kind).into_iter();
        let value = json!({
            "requests": count,
            "bytes": bytes as u64,
            "mean_bytes": mean_size(survey, kind),
            "sizes": sizes.map(|(b, n)| json!({"bytes": b, "requests": n})).collect::<Vec<_>>(),
            "response": response,
        });
        (kind.name().to_string(), value)
    });
    let requests = survey.requests();
    let span = survey.span();
    let idle = survey.idle().into_iter().map(|i| {
        json!({
            "at_least_ms": millis(i.at_least as f64),
            "periods": i.count,
            "time_share": share(i.total, span),
        })
    });
    let ends = survey.ends();
    let devices = reader.devices().names().iter().zip(survey.device_requests()).zip(ends);
    json!({
        "format": reader.format().name(),
        "requests": requests,
        "span_s": span as f64 / 1e9,
        "read_share": share(survey.of(Kind::Read).0, requests),
        "kinds": Value::Object(kinds.into_iter().collect()),
        "inter_arrival": {
            "mean_ms": millis(survey.gaps().mean()),
            "variation": survey.gaps().relative_standard_deviation(),
            "max_ms": millis(survey.gaps().max()),
            "quantiles": quantiles(&|q| survey.gap_quantile(q)),
        },
        "idle": {
            "from_responses": survey.idle_is_known(),
            "periods": idle.collect::<Vec<_>>(),
        },
        "sequential_share": share(survey.sequential(), requests),
        "footprint_bytes": survey.footprint() as u64,
        "out_of_order": survey.out_of_order(),
        "devices": devices
            .map(|((name, n), end)| json!({"name": name, "requests": n, "end_bytes": end}))
            .collect::<Vec<_>>(),
        "left_out": reader.left_out(),
        "unread_columns": reader.unread_columns(),
        "sector_bytes": reader.sector_bytes(),
        "sector_bytes_given": reader.sector_is_given(),
    })
}

fn describe(reader: &Reader<'_>, survey: &Survey) -> String {
    let (requests, span) = (survey.requests(), survey.span());
    let mut out = format!(
        "{requests} requests in {} ({}), {:.1} % reads, {:.1} % sequential, {} of addresses touched\n",
        time(span as f64),
        reader.format(),
        100.0 * share(survey.of(Kind::Read).0, requests),
        100.0 * share(survey.sequential(), requests),
        bytes(survey.footprint() as u64),
    );
    out += &kinds(survey);
    out += "\n";
    out += &gaps(survey);
    out += "\n";
    out += &idle(survey);
    out += "\n";
    out += &devices(reader.devices(), survey);
    if let Some(sectors) = sectors(reader) {
        out += &format!("\n{sectors}");
    }
    if survey.out_of_order() > 0 {
        out += &format!("\n{} requests are out of order", survey.out_of_order());
    }
    for (what, count) in reader.left_out() {
        out += &format!("\nskipped: {count} {what}");
    }
    if !reader.unread_columns().is_empty() {
        out += &format!("\ncolumns not read: {}", reader.unread_columns().join(", "));
    }
    out
}

fn kinds(survey: &Survey) -> String {
    let headings = ["", "requests", "bytes", "mean size", "sizes", "mean response", "95 % within"];
    let mut table = table(headings);
    for kind in Kind::ALL {
        let (count, total) = survey.of(kind);
        let responses = survey.responses(kind);
        let known = |t: f64| if responses.count() > 0 { time(t) } else { "-".into() };
        if count > 0 {
            table.add_row([
                kind.name().to_string(),
                count.to_string(),
                bytes(total as u64),
                mean_size(survey, kind).map_or("-".into(), |m| format!("{m:.0}")),
                sizes(&survey.sizes(kind), count),
                known(responses.mean()),
                known(responses.quantile(0.95) as f64),
            ]);
        }
    }
    align_right(&mut table, [1, 2, 3, 5, 6]);
    table.to_string()
}

/// The most frequent sizes, with their shares.
fn sizes(sizes: &[(u64, u64)], count: u64) -> String {
    let shown = sizes.iter().take(SIZES);
    let mut parts: Vec<String> = shown
        .map(|(size, n)| format!("{} {:.1} %", bytes(*size), 100.0 * share(*n, count)))
        .collect();
    if sizes.len() > SIZES {
        parts.push(format!("{} more", sizes.len() - SIZES));
    }
    parts.join("\n")
}

fn gaps(survey: &Survey) -> String {
    let names = QUANTILES.iter().map(|q| format!("{q} %"));
    let fixed = ["time between arrivals", "mean", "variation"].map(String::from);
    let mut table = table(fixed.into_iter().chain(names).chain(["max".into()]));
    let gaps = survey.gaps();
    let variation = gaps.relative_standard_deviation();
    let quantiles = QUANTILES.iter().map(|q| survey.gap_quantile(f64::from(*q) / 100.0));
    let first = ["", &time(gaps.mean()), &variation.map_or("-".into(), |v| format!("{v:.2}"))]
        .map(String::from);
    let quantiles = quantiles.map(|q| time(q as f64));
    table.add_row(first.into_iter().chain(quantiles).chain([time(gaps.max())]));
    align_right(&mut table, 1..4 + QUANTILES.len());
    table.to_string()
}

fn idle(survey: &Survey) -> String {
    let name = match survey.idle_is_known() {
        true => "nothing outstanding for",
        false => "no arrival for",
    };
    let mut table = table([name, "periods", "of the time"]);
    for idle in survey.idle() {
        let part = 100.0 * share(idle.total, survey.span());
        let length = format!("{} and more", time(idle.at_least as f64));
        table.add_row([length, idle.count.to_string(), format!("{part:.2} %")]);
    }
    align_right(&mut table, [1, 2]);
    table.to_string()
}

fn devices(devices: &Devices, survey: &Survey) -> String {
    let mut table = table(["device", "requests", "reaches to"]);
    let numbers = survey.device_requests().into_iter().zip(survey.ends());
    for (name, (requests, end)) in devices.names().iter().zip(numbers).take(DEVICES) {
        table.add_row([name.clone(), requests.to_string(), bytes(end)]);
    }
    align_right(&mut table, [1, 2]);
    match devices.names().len().saturating_sub(DEVICES) {
        0 => table.to_string(),
        more => format!("{table}\nand {more} more devices"),
    }
}

/// A length of time for people, to four digits.
fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n if n < 86_400e9 => (n / 1e9, "s"),
        n => (n / 86_400e9, "days"),
    };
    match value {
        v if v < 10.0 => format!("{v:.2} {unit}"),
        v if v < 100.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!([time(0.0), time(179_000.0)], ["0.00 ns", "179 us"]);
        assert_eq!([time(13.5e9), time(603_065e9)], ["13.5 s", "6.98 days"]);
    }
}
