//! `weft volume export` and `weft volume import`.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weft_terminal::{bytes, say, say_json};

use super::creating::Kind;
use crate::args::Common;
use crate::transfer::{self, Stopped};

/// Stands for standard input or output.
const STANDARD: &str = "-";

/// The snapshot to export.
#[derive(Debug, Args)]
pub struct Export {
    /// Name of the snapshot, such as data@tuesday
    #[arg(value_name = "VOLUME@SNAPSHOT")]
    snapshot: String,
    /// File to write, which does not exist yet [default: standard output]
    #[arg(value_name = "FILE", default_value = STANDARD, hide_default_value = true)]
    file: PathBuf,
    /// Export only changes since this earlier snapshot, such as monday
    #[arg(long, value_name = "SNAPSHOT")]
    since: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// The stream to import.
#[derive(Debug, Args)]
pub struct Import {
    /// Name of the volume: a new one, or the one that has the snapshot that the stream is based on
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// File to read [default: standard input]
    #[arg(value_name = "FILE", default_value = STANDARD, hide_default_value = true)]
    file: PathBuf,
    #[command(flatten)]
    kind: Kind,
    #[command(flatten)]
    common: Common,
}

impl Export {
    /// Writes the stream.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let Some((volume, snapshot)) = self.snapshot.split_once('@') else {
            let name = &self.snapshot;
            bail!(
                "'{name}' is not a snapshot; give one, such as {name}@monday (`weft volume snapshot {name} monday` takes it)"
            );
        };
        let export = transfer::Export {
            volume: volume.to_string(),
            snapshot: snapshot.to_string(),
            since: self.since.clone(),
            from: 0,
        };
        let mut control = self.common.target.connect()?;
        let stopped = Stopped::by_signals(true)?;
        if self.file == Path::new(STANDARD) {
            let out = io::stdout();
            ensure!(
                !self.common.json,
                "the stream and its description cannot both go to standard output; give a file, or leave out --json"
            );
            ensure!(
                !out.is_terminal(),
                "the stream cannot be written to a terminal; give a file, or pipe it to another command"
            );
            export.write(&mut control, out.lock(), &stopped)?;
        } else {
            let exported = to_file(&self.file, |out| export.write(&mut control, out, &stopped))?;
            if self.common.json {
                let full = |name: &String| match name.contains('@') {
                    true => name.clone(),
                    false => format!("{volume}@{name}"),
                };
                let since = self.since.as_ref().map(full);
                say_json(exported.described(&self.snapshot, since.as_deref()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Has a file written that is only there when it is whole and durable.
fn to_file<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let shown = path.display();
    ensure!(!path.exists(), "{shown} exists; give another file, or remove it first");
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let file = File::create(&part).with_context(|| format!("cannot create {}", part.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = write(&mut out).and_then(|written| {
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all().with_context(|| format!("cannot write {}", part.display()))?;
        let placed = fs::rename(&part, path).and_then(|()| sync_directory_of(path));
        placed.with_context(|| format!("cannot create {shown}"))?;
        Ok(written)
    });
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Makes the name of a file durable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

impl Import {
    /// Reads the stream.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let input: Box<dyn Read> = if self.file == Path::new(STANDARD) {
            let input = io::stdin();
            ensure!(
                !input.is_terminal(),
                "the stream cannot be read from a terminal; give a file, or pipe it from `weft volume export`"
            );
            Box::new(input.lock())
        } else {
            let shown = self.file.display();
            Box::new(File::open(&self.file).with_context(|| format!("cannot read {shown}"))?)
        };
        let mut control = self.common.target.connect()?;
        let import = transfer::Import {
            volume: self.volume.clone(),
            create: self.kind.creation(self.volume.clone(), 0, true),
        };
        let input = BufReader::with_capacity(1 << 20, input);
        let (header, imported) = import.read(&mut control, input, &Stopped::by_signals(true)?)?;
        let snapshot = format!("{}@{}", self.volume, header.snapshot);
        let since = header.base.as_ref().map(|base| base.name.as_str());
        match self.common.json {
            true => say_json(imported.described(&snapshot, since))?,
            false => say(format!("{snapshot} is imported: {}", bytes(imported.data)))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
