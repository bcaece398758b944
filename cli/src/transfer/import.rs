//! Reading the stream of an exported snapshot into a volume.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use weft_client::{Completion, Op, Volume};
use weft_host::status::VolumeStatus;
use weft_host::{Control, ControlRequest, ImportOf};
use weft_terminal::{Counts, Stage};

use super::export::Exported;
use super::stream::{Header, Piece, Reader};
use super::{Stopped, open};

/// Writes in flight.
const AT_ONCE: usize = 8;

/// Where a stream is imported to.
pub struct Import {
    /// The volume's name.
    pub volume: String,
    /// How to create it if it is new: all but its name, its size and that it is thin.
    pub create: ControlRequest,
}

impl Import {
    /// To a volume of this name, with the usual layout if it is new.
    pub fn of(volume: &str) -> Import {
        let create = ControlRequest::VolumeCreate {
            name: String::new(),
            size: 0,
            thin: true,
            layout: None,
            stripe_unit: None,
            journal: None,
            commanded: false,
            apart: None,
            ordering: None,
            sequencer: None,
            commit: None,
            lost_wait: None,
            set: BTreeMap::new(),
            import: None,
        };
        Import { volume: volume.to_string(), create }
    }

    /// Reads the stream, and writes to the array. Nobody sees anything of it before all of it is there.
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
        let name = &self.volume;
        delete_left_over(control, name)?;
        let hidden = self.begin(control, &header)?;
        let written = write(control, &hidden, (&header, reader), stopped);
        let written = written.and_then(|written| {
            stopped.check("the import")?;
            control.request(&ControlRequest::VolumeImported { name: name.clone() })?;
            Ok(written)
        });
        match written {
            Ok(written) => Ok((header, written)),
            Err(e) => {
                // What does not succeed now, the next import does.
                let _ = delete(control, hidden.name);
                Err(e)
            }
        }
    }

    /// Makes the hidden volume.
    fn begin(&self, control: &mut Control, header: &Header) -> Result<VolumeStatus> {
        let import = ImportOf {
            snapshot: header.snapshot.clone(),
            taken: header.taken,
            source: header.identity.clone(),
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
        let mut request = self.create.clone();
        if let ControlRequest::VolumeCreate { name, size, thin, import, .. } = &mut request {
            (*name, *size, *thin) = (self.volume.clone(), bytes, true);
            *import = Some(import_of);
        }
        request
    }
}

/// Writes the content of a stream to a hidden volume.
fn write(
    control: &Control,
    hidden: &VolumeStatus,
    (header, mut reader): (&Header, Reader<impl Read>),
    stopped: &Stopped,
) -> Result<Exported> {
    let volume = open(control, &hidden.name)?;
    let name = format!("importing {}@{}", header.volume, header.snapshot);
    let stage = stopped.shows.then(|| Stage::new(name, header.size, Counts::Bytes));
    let mut writes = Writes { volume: &volume, in_flight: VecDeque::new() };
    let mut done = Exported::default();
    while let Some(piece) = reader.next()? {
        stopped.check("the import")?;
        stage.iter().for_each(|stage| stage.at(piece.range().0));
        match &piece {
            Piece::Data(_, bytes) => done.data += bytes.len() as u64,
            Piece::Zeros(_, length) => done.zeros += length,
        }
        writes.begin(piece)?;
    }
    while writes.end()? {}
    volume.flush(&[])?.wait().context("the volume cannot be flushed")?;
    if let Some(stage) = stage {
        stage.done(super::in_words(done.data, done.zeros));
    }
    Ok(done)
}

/// Writes in flight.
struct Writes<'a> {
    volume: &'a Volume,
    in_flight: VecDeque<(u64, Completion)>,
}

impl Writes<'_> {
    fn begin(&mut self, piece: Piece) -> Result<()> {
        let offset = piece.range().0;
        let op = match piece {
            Piece::Data(offset, bytes) => Op::Write(offset, bytes),
            Piece::Zeros(offset, length) => Op::WriteZeroes(offset, length),
        };
        self.in_flight.push_back((offset, self.volume.submit(op, &[])?));
        if self.in_flight.len() > AT_ONCE {
            self.end()?;
        }
        Ok(())
    }

    /// Waits for the first. Says whether there was one.
    fn end(&mut self) -> Result<bool> {
        let Some((offset, write)) = self.in_flight.pop_front() else { return Ok(false) };
        write.wait().with_context(|| format!("the volume at byte {offset}"))?;
        Ok(true)
    }
}

/// Deletes what an interrupted import to the volume has left, unless another is under way.
fn delete_left_over(control: &mut Control, name: &str) -> Result<()> {
    let answer = control.request(&ControlRequest::VolumeList { snapshots: false })?;
    let all: Vec<VolumeStatus> =
        serde_json::from_value::<Vec<VolumeStatus>>(answer["volumes"].clone())?;
    let is_it = |v: &&VolumeStatus| {
        v.transfer.as_ref().is_some_and(|t| t.imports_to.as_deref() == Some(name))
    };
    let Some(left) = all.iter().find(is_it) else { return Ok(()) };
    if left.clients > 0 {
        bail!("another import to volume '{name}' is under way; wait until it is done");
    }
    delete(control, left.name.clone())?;
    Ok(())
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
