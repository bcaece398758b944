//! Reading the stream of an exported snapshot into a volume.

use std::collections::VecDeque;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use weft_client::{Completion, Op, Volume};
use weft_host::status::VolumeStatus;
use weft_host::{Control, ControlRequest, ImportOf, VolumeCreation};
use weft_terminal::{Counts, Stage, bytes};

use super::export::Exported;
use super::stream::{Header, Piece, Reader};
use super::{Stopped, listed, open};

/// Bytes of content after which progress is recorded.
const RECORDED: u64 = 128 << 20;

/// Writes in flight.
const AT_ONCE: usize = 8;

/// Where a stream is imported to.
pub struct Import {
    /// The volume's name.
    pub volume: String,
    /// How to create it if it is new: all but its name, its size and that it is thin.
    pub create: VolumeCreation,
}

impl Import {
    /// To a volume of this name, with the usual layout if it is new.
    pub fn of(volume: &str) -> Import {
        Import { volume: volume.to_string(), create: VolumeCreation::default() }
    }

    /// Reads the stream, and writes to the array. Nobody sees anything of it before all of it is there. What an interrupted
    /// import has written is used.
    ///
    /// # Errors
    /// If the stream is damaged or does not fit the volume, or the array cannot be written.
    pub fn read(
        &self,
        control: &mut Control,
        input: impl Read,
        stopped: &Stopped,
    ) -> Result<(Header, Exported)> {
        let (header, reader) = Reader::new(input)?;
        let hidden = self.hidden(control, &header)?;
        let mut work = Work {
            name: &self.volume,
            source: &header.identity,
            done: done(&hidden),
            since: 0,
            control,
            stopped,
            volume: None,
            in_flight: VecDeque::new(),
            total: Exported::default(),
        };
        let written = work.write(&hidden.name, (&header, reader));
        let (kept, total) = (work.done, work.total);
        drop(work);
        let placed = written.and_then(|()| {
            let (name, source) = (self.volume.clone(), header.identity.clone());
            Ok(control.request(&ControlRequest::VolumeImported { name, source })?)
        });
        match placed {
            Ok(_) => Ok((header, total)),
            Err(e) if kept == 0 => {
                // If this does not succeed now, the next import does it.
                let _ = delete(control, hidden.name);
                Err(e)
            }
            Err(e) => Err(e.context(format!(
                "{} are kept; import the same snapshot again to continue, or delete them with `weft volume delete {}`",
                bytes(kept),
                hidden.name
            ))),
        }
    }

    /// The hidden volume: that of an interrupted import of the same content, or a new one.
    fn hidden(&self, control: &mut Control, header: &Header) -> Result<VolumeStatus> {
        let left = left_over(control, &self.volume)?;
        if let Some(left) = &left
            && left.clients > 0
        {
            bail!(
                "another import to volume '{}' is in progress; wait until it is done",
                self.volume
            );
        }
        let base = header.base.as_ref().map(|base| &base.identity);
        let continues = |left: &VolumeStatus| {
            let its = left.transfer.as_ref();
            let is_same = its.is_some_and(|its| {
                its.identity.as_ref() == Some(&header.identity) && its.base.as_ref() == base
            });
            is_same && left.size >= header.size && done(left) > 0 && done(left) >= header.from
        };
        match left {
            Some(left) if continues(&left) => return Ok(left),
            _ if header.from > 0 => bail!(
                "the stream begins at byte {}, and the content before that is missing; export the whole snapshot",
                header.from
            ),
            Some(left) => drop(delete(control, left.name)?),
            None => {}
        }
        self.begin(control, header)
    }

    /// Makes the hidden volume.
    fn begin(&self, control: &mut Control, header: &Header) -> Result<VolumeStatus> {
        let import = ImportOf {
            snapshot: header.snapshot.clone(),
            taken: header.taken,
            source: header.identity.clone(),
            size: Some(header.size),
        };
        let name = self.volume.clone();
        let request = match &header.base {
            Some(base) => {
                ControlRequest::VolumeImport { name, base: base.identity.clone(), import }
            }
            None => self.creation(header.size, import),
        };
        let answer = control.request(&request).map_err(|e| match &header.base {
            Some(base) => anyhow::anyhow!("{e} (it has the changes since '{}')", base.name),
            None => e.into(),
        })?;
        let hidden: VolumeStatus = serde_json::from_value(answer["volume"].clone())?;
        if hidden.size < header.size {
            let (name, size) = (hidden.name.clone(), header.size);
            let grown = control.request(&ControlRequest::VolumeResize { name, size, force: false });
            if let Err(e) = grown {
                let _ = delete(control, hidden.name);
                bail!("the volume has {} bytes in the stream, and cannot grow: {e}", header.size);
            }
        }
        Ok(hidden)
    }

    fn creation(&self, bytes: u64, import_of: ImportOf) -> ControlRequest {
        ControlRequest::VolumeCreate(VolumeCreation {
            name: self.volume.clone(),
            size: bytes,
            thin: true,
            import: Some(import_of),
            ..self.create.clone()
        })
    }
}

/// How far an import is.
fn done(hidden: &VolumeStatus) -> u64 {
    hidden.transfer.as_ref().and_then(|transfer| transfer.done).unwrap_or(0)
}

/// An import in progress.
struct Work<'a> {
    /// The name of the volume that it is for.
    name: &'a str,
    /// The identity of the snapshot whose content it is.
    source: &'a str,
    /// The offset up to which content is durable.
    done: u64,
    /// Bytes written since that was recorded.
    since: u64,
    control: &'a mut Control,
    stopped: &'a Stopped,
    /// The hidden volume.
    volume: Option<Volume>,
    /// Writes, with their offsets.
    in_flight: VecDeque<(u64, Completion)>,
    total: Exported,
}

impl Work<'_> {
    /// Writes the content of a stream to a hidden volume.
    fn write(
        &mut self,
        hidden: &str,
        (header, mut reader): (&Header, Reader<impl Read>),
    ) -> Result<()> {
        self.volume = Some(open(self.control.path(), hidden)?);
        let name = format!("importing {}@{}", header.volume, header.snapshot);
        let stage = self.stopped.shows.then(|| Stage::new(name, header.size, Counts::Bytes));
        while let Some(piece) = reader.next()? {
            self.stopped.check("the import")?;
            let (offset, length) = piece.range();
            stage.iter().for_each(|stage| stage.at(offset));
            if offset + length <= self.done {
                continue;
            }
            self.begin(piece)?;
            if self.since >= RECORDED {
                self.record(offset + length)?;
            }
        }
        self.stopped.check("the import")?;
        self.make_durable()?;
        if let Some(stage) = stage {
            stage.done(super::in_words(self.total.data, self.total.zeros));
        }
        Ok(())
    }

    /// Begins a write; ends the first one if enough are in flight.
    fn begin(&mut self, piece: Piece) -> Result<()> {
        let (offset, length) = piece.range();
        let op = match piece {
            Piece::Data(offset, bytes) => {
                (self.total.data, self.since) = (self.total.data + length, self.since + length);
                Op::Write(offset, bytes)
            }
            Piece::Zeros(offset, length) => {
                self.total.zeros += length;
                Op::WriteZeroes(offset, length)
            }
        };
        let Some(volume) = &self.volume else { bail!("the volume is closed") };
        self.in_flight.push_back((offset, volume.submit(op, &[])?));
        if self.in_flight.len() > AT_ONCE {
            self.end()?;
        }
        Ok(())
    }

    /// Waits for the first write. Says whether there was one.
    fn end(&mut self) -> Result<bool> {
        let Some((offset, write)) = self.in_flight.pop_front() else { return Ok(false) };
        write.wait().with_context(|| format!("the volume at byte {offset}"))?;
        Ok(true)
    }

    fn make_durable(&mut self) -> Result<()> {
        while self.end()? {}
        let Some(volume) = &self.volume else { bail!("the volume is closed") };
        volume.flush(&[])?.wait().context("the volume cannot be flushed")?;
        Ok(())
    }

    /// Makes all up to an offset durable, and records that in the array.
    fn record(&mut self, done: u64) -> Result<()> {
        self.make_durable()?;
        let (name, source) = (self.name.to_string(), self.source.to_string());
        self.control.request(&ControlRequest::VolumeImportedUpTo { name, source, done })?;
        (self.done, self.since) = (done, 0);
        Ok(())
    }
}

/// The hidden volume of an interrupted import, or of one that is under way.
pub(super) fn left_over(control: &mut Control, name: &str) -> Result<Option<VolumeStatus>> {
    let all = listed(control, false)?;
    let is_it = |v: &VolumeStatus| {
        let to = v.transfer.as_ref().and_then(|transfer| transfer.imports_to.as_deref());
        to == Some(name) && v.deleted_seconds_left.is_none()
    };
    Ok(all.into_iter().find(is_it))
}

/// Deletes a hidden volume. The connection to it has just been closed, and the array may not know yet.
fn delete(control: &mut Control, name: String) -> Result<Value> {
    let request = ControlRequest::VolumeDelete { name, now: true };
    let mut tries = 0;
    loop {
        tries += 1;
        match control.request(&request) {
            Err(_) if tries < 20 => std::thread::sleep(Duration::from_millis(100)),
            result => return Ok(result?),
        }
    }
}
