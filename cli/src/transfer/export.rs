//! Writing the content of a snapshot, or its changes since an earlier one, to a stream.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use weft_client::{Completion, Volume};
use weft_host::{Control, ControlRequest};
use weft_terminal::{Counts, Stage};

use super::stream::{Base, Header, Piece, Writer};
use super::{Stopped, open};

/// Bytes of a read.
const READ: u64 = 1 << 20;

/// Reads in flight.
const AT_ONCE: usize = 8;

/// The amount transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Bytes of content.
    pub data: u64,
    /// Bytes that read as zeros.
    pub zeros: u64,
}

impl Exported {
    /// A snapshot, or its changes since another, with this amount: for programs.
    pub fn described(self, snapshot: &str, since: Option<&str>) -> Value {
        let Exported { data, zeros } = self;
        json!({ "snapshot": snapshot, "since": since, "bytes": data, "zero_bytes": zeros })
    }
}

/// The snapshot to export.
#[derive(Clone, Debug)]
pub struct Export {
    /// The volume's name.
    pub volume: String,
    /// The snapshot's, without the volume's.
    pub snapshot: String,
    /// An earlier snapshot, if only the changes since are wanted.
    pub since: Option<String>,
    /// The offset to begin at.
    pub from: u64,
}

impl Export {
    /// Reads from the array, and writes the stream.
    ///
    /// # Errors
    /// If a snapshot does not exist or cannot be read, or the stream cannot be written.
    pub fn write(
        &self,
        control: &mut Control,
        out: impl Write,
        stopped: &Stopped,
    ) -> Result<Exported> {
        let socket = control.path().to_path_buf();
        let mut pages = Pages::new(|offset| self.changes(control, offset));
        let mut page = pages.at(self.from)?;
        let header = Header { from: self.from, ..self.header(&page)? };
        let incremental = header.base.is_some();
        let full_name = format!("{}@{}", self.volume, self.snapshot);
        let source = open(&socket, &full_name)?;
        let name = format!("exporting {full_name}");
        let stage = stopped.shows.then(|| Stage::new(name, header.size, Counts::Bytes));
        let mut writer = Writer::new(out, &header)?;
        let mut done = Exported::default();
        loop {
            let mut reads = Reads { source: &source, in_flight: VecDeque::new() };
            for (offset, length) in ranges(&page) {
                for at in (offset..offset + length).step_by(READ as usize) {
                    stopped.check("the export")?;
                    let length = READ.min(offset + length - at);
                    if let Some(piece) = reads.begin(at, length)? {
                        write_piece(&mut writer, piece, incremental, &mut done)?;
                        stage.iter().for_each(|stage| stage.at(at));
                    }
                }
            }
            while let Some(piece) = reads.end()? {
                write_piece(&mut writer, piece, incremental, &mut done)?;
            }
            let Some(next) = page["next"].as_u64() else { break };
            page = pages.at(next)?;
        }
        // The last reads may be of another snapshot, too.
        pages.at(header.size)?;
        writer.end().context("the stream cannot be written")?;
        if let Some(stage) = stage {
            stage.done(super::in_words(done.data, done.zeros));
        }
        Ok(done)
    }

    /// The first of the ranges from this offset on.
    fn changes(&self, control: &mut Control, offset: u64) -> Result<Value> {
        let (volume, since) = (self.volume.clone(), self.since.clone());
        let until = Some(self.snapshot.clone());
        Ok(control.request(&ControlRequest::VolumeDiff { volume, since, until, offset })?)
    }

    fn header(&self, answer: &Value) -> Result<Header> {
        let base = match (answer["since"].as_str(), answer["since_identity"].as_str()) {
            (Some(name), Some(identity)) => {
                Some(Base { name: name.into(), identity: identity.into() })
            }
            (None, None) => None,
            _ => bail!(
                "'{}' is not a snapshot; only changes since a snapshot can be exported",
                answer["since"]
            ),
        };
        let identity = answer["identity"].as_str();
        let (Some(identity), Some(taken), Some(size)) =
            (identity, answer["taken"].as_u64(), answer["size"].as_u64())
        else {
            bail!("'{}@{}' is not a snapshot", self.volume, self.snapshot);
        };
        Ok(Header::new((&self.volume, &self.snapshot), identity, taken, size, base))
    }
}

/// The ranges of a snapshot, page by page. Pages go by names: a snapshot that was deleted and taken again in the meantime
/// is noticed by its identity.
struct Pages<F> {
    ask: F,
    /// The identities of the snapshot and its base, once they are known.
    of: Option<[Value; 2]>,
}

impl<F: FnMut(u64) -> Result<Value>> Pages<F> {
    fn new(ask: F) -> Pages<F> {
        Pages { ask, of: None }
    }

    /// The page from this offset on.
    fn at(&mut self, offset: u64) -> Result<Value> {
        let page = (self.ask)(offset)?;
        let identities = ["identity", "since_identity"].map(|key| page[key].clone());
        ensure!(
            *self.of.get_or_insert_with(|| identities.clone()) == identities,
            "a snapshot was deleted during the export, and another one of its name was taken; export again"
        );
        Ok(page)
    }
}

fn ranges(page: &Value) -> impl Iterator<Item = (u64, u64)> {
    let all = page["ranges"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter_map(|range| Some((range["offset"].as_u64()?, range["length"].as_u64()?)))
}

/// Writes a piece. A full export leaves out zeros: a new volume has them.
fn write_piece<W: Write>(
    writer: &mut Writer<W>,
    piece: Piece,
    incremental: bool,
    done: &mut Exported,
) -> Result<()> {
    match &piece {
        Piece::Data(_, bytes) => done.data += bytes.len() as u64,
        Piece::Zeros(_, length) => done.zeros += length,
    }
    match piece {
        Piece::Zeros(..) if !incremental => Ok(()),
        piece => writer.piece(&piece).context("the stream cannot be written"),
    }
}

/// Reads in flight, in the order of their offsets.
struct Reads<'a> {
    source: &'a Volume,
    in_flight: VecDeque<(u64, Completion)>,
}

impl Reads<'_> {
    /// Begins a read; ends the first one if enough are in flight.
    fn begin(&mut self, offset: u64, length: u64) -> Result<Option<Piece>> {
        let read = self.source.read(offset, length as u32, &[])?;
        self.in_flight.push_back((offset, read));
        match self.in_flight.len() > AT_ONCE {
            true => self.end(),
            false => Ok(None),
        }
    }

    /// Waits for the first read.
    fn end(&mut self) -> Result<Option<Piece>> {
        let Some((offset, read)) = self.in_flight.pop_front() else { return Ok(None) };
        let bytes = read.wait().with_context(|| format!("the snapshot at byte {offset}"))?;
        Ok(Some(piece(offset, bytes)))
    }
}

fn piece(offset: u64, bytes: Bytes) -> Piece {
    match bytes.iter().all(|byte| *byte == 0) {
        true => Piece::Zeros(offset, bytes.len() as u64),
        false => Piece::Data(offset, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(identities: [[&str; 2]; 3]) -> Result<Vec<Value>> {
        let mut left = identities.into_iter();
        let mut pages = Pages::new(|offset| {
            let [identity, since_identity] = left.next().unwrap_or_default();
            Ok(
                json!({ "next": offset + 1, "identity": identity, "since_identity": since_identity }),
            )
        });
        (0..3).map(|offset| pages.at(offset)).collect()
    }

    #[test]
    fn a_snapshot_that_was_taken_again_ends_the_export() {
        assert_eq!(pages([["a", "b"]; 3]).unwrap()[2]["next"], 3);
        for other in [["c", "b"], ["a", "c"]] {
            let refused = pages([["a", "b"], ["a", "b"], other]).unwrap_err();
            assert!(refused.to_string().contains("export again"), "{refused}");
        }
    }
}
