//! The stream of an exported snapshot: `docs/internals/export-format.md` describes it.
//!
//! It begins with a magic number and frames follow: a header, the content in the order of its offsets, and an end. The
//! checksum of a frame covers all frames before it, so a frame that is changed, lost or moved is found. A stream without
//! its end is incomplete.

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_bytes::checksum::crc32c_append;

/// What a stream begins with.
const MAGIC: &[u8; 8] = b"WEFTEXP\n";

/// The version that is written and read.
const VERSION: u32 = 1;

/// The most bytes of content in a frame.
pub const LONGEST: usize = 4 << 20;

/// Offsets and lengths are multiples of this.
const GRAIN: u64 = 512;

const HEADER: u8 = 1;
const DATA: u8 = 2;
const ZEROS: u8 = 3;
const END: u8 = 4;

/// The origin of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The volume's name when it was exported.
    pub volume: String,
    /// The snapshot's, without the volume's.
    pub snapshot: String,
    /// What identifies the snapshot.
    pub identity: String,
    /// Seconds since 1970 when it was taken.
    pub taken: u64,
    /// Bytes of the volume then.
    pub size: u64,
    /// The earlier snapshot whose changes the stream has; all content if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// The offset at which the content begins: the importer has what comes before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// An earlier snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Its full name when it was exported.
    pub name: String,
    /// What identifies it.
    pub identity: String,
}

impl Header {
    /// Of this version.
    pub fn new(
        (volume, snapshot): (&str, &str),
        identity: &str,
        taken: u64,
        size: u64,
        base: Option<Base>,
    ) -> Header {
        Header {
            version: VERSION,
            volume: volume.to_string(),
            snapshot: snapshot.to_string(),
            identity: identity.to_string(),
            taken,
            size,
            base,
            from: 0,
        }
    }
}

/// Content of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes from this offset on.
    Data(u64, Bytes),
    /// Zeros: their offset and number.
    Zeros(u64, u64),
}

impl Piece {
    /// Its offset and length.
    pub fn range(&self) -> (u64, u64) {
        match self {
            Piece::Data(offset, bytes) => (*offset, bytes.len() as u64),
            Piece::Zeros(offset, length) => (*offset, *length),
        }
    }
}

/// Writes a stream.
pub struct Writer<W> {
    out: W,
    checksum: u32,
    pieces: u64,
}

impl<W: Write> Writer<W> {
    /// Begins with what it is of.
    pub fn new(out: W, header: &Header) -> Result<Writer<W>> {
        let mut writer = Writer { out, checksum: 0, pieces: 0 };
        writer.out.write_all(MAGIC)?;
        writer.frame(HEADER, &[&serde_json::to_vec(header)?])?;
        Ok(writer)
    }

    /// Writes the next piece, behind those before it.
    pub fn piece(&mut self, piece: &Piece) -> Result<()> {
        self.pieces += 1;
        match piece {
            Piece::Data(offset, bytes) => self.frame(DATA, &[&offset.to_le_bytes(), bytes]),
            Piece::Zeros(offset, length) => {
                self.frame(ZEROS, &[&offset.to_le_bytes(), &length.to_le_bytes()])
            }
        }
    }

    /// Writes the end, and all that is still in buffers.
    pub fn end(mut self) -> Result<W> {
        self.frame(END, &[&self.pieces.to_le_bytes()])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn frame(&mut self, kind: u8, body: &[&[u8]]) -> Result<()> {
        let length: usize = body.iter().map(|part| part.len()).sum();
        let head = head(kind, length as u32);
        let parts = || std::iter::once(&head[..]).chain(body.iter().copied());
        self.checksum = parts().fold(self.checksum, crc32c_append);
        self.out.write_all(&head)?;
        self.out.write_all(&self.checksum.to_le_bytes())?;
        body.iter().try_for_each(|part| self.out.write_all(part))?;
        Ok(())
    }
}

fn head(kind: u8, length: u32) -> [u8; 5] {
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_le_bytes());
    head
}

/// Reads a stream.
pub struct Reader<R> {
    input: R,
    checksum: u32,
    pieces: u64,
    /// Where the last piece ended.
    at: u64,
    size: u64,
}

impl<R: Read> Reader<R> {
    /// Reads what it is of.
    pub fn new(mut input: R) -> Result<(Header, Reader<R>)> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => anyhow::anyhow!("there is no stream: the input is empty"),
            _ => e.into(),
        })?;
        ensure!(
            magic == *MAGIC,
            "the input is not an exported snapshot; `weft volume export` writes one"
        );
        let mut reader = Reader { input, checksum: 0, pieces: 0, at: 0, size: 0 };
        let (kind, body) = reader.frame()?;
        ensure!(kind == HEADER, "the stream has no header");
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let version: Version = serde_json::from_slice(&body).context("the stream's header")?;
        ensure!(
            version.version == VERSION,
            "the stream has version {}, and this program reads version {VERSION}; import it with the version of weft that exported it",
            version.version
        );
        let header: Header = serde_json::from_slice(&body).context("the stream's header")?;
        ensure!(
            header.size > 0 && header.size.is_multiple_of(GRAIN),
            "the stream is of a volume of {} bytes, which is not a valid size",
            header.size
        );
        reader.size = header.size;
        Ok((header, reader))
    }

    /// The next piece; none at the end.
    pub fn next(&mut self) -> Result<Option<Piece>> {
        let (kind, mut body) = self.frame()?;
        let piece = match kind {
            END => {
                let pieces = number(&mut body)?;
                ensure!(
                    pieces == self.pieces && body.is_empty(),
                    "pieces of the stream are missing"
                );
                let mut rest = [0];
                let more = self.input.read(&mut rest).context("the stream")?;
                ensure!(more == 0, "the stream has extra bytes after its end");
                return Ok(None);
            }
            DATA => Piece::Data(number(&mut body)?, body),
            ZEROS => {
                let piece = Piece::Zeros(number(&mut body)?, number(&mut body)?);
                ensure!(body.is_empty(), "a piece of the stream is too long");
                piece
            }
            kind => bail!("the stream has a frame of the unknown kind {kind}"),
        };
        let (offset, length) = piece.range();
        let fits = offset >= self.at && length > 0 && length <= self.size.saturating_sub(offset);
        ensure!(
            fits && offset.is_multiple_of(GRAIN) && length.is_multiple_of(GRAIN),
            "the stream has content at byte {offset} that overlaps, is not aligned, or exceeds the volume"
        );
        self.at = offset + length;
        self.pieces += 1;
        Ok(Some(piece))
    }

    fn frame(&mut self) -> Result<(u8, Bytes)> {
        let mut head = [0; 5];
        let mut checksum = [0; 4];
        self.fill(&mut head)?;
        self.fill(&mut checksum)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        ensure!(length <= LONGEST + 8, "the stream is damaged: a frame has {length} bytes");
        let mut body = vec![0; length];
        self.fill(&mut body)?;
        self.checksum = crc32c_append(crc32c_append(self.checksum, &head), &body);
        ensure!(
            self.checksum == u32::from_le_bytes(checksum),
            "the stream is damaged: a checksum does not match after byte {} of the volume",
            self.at
        );
        Ok((head[0], body.into()))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.input.read_exact(bytes).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => anyhow::anyhow!("the stream ends early: it is incomplete"),
            _ => e.into(),
        })
    }
}

/// Takes a number from the front.
fn number(body: &mut Bytes) -> Result<u64> {
    ensure!(body.len() >= 8, "a piece of the stream is too short");
    let number = body.split_to(8);
    Ok(u64::from_le_bytes(number[..].try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn header() -> Header {
        let base = Base { name: "a@old".into(), identity: "7-1".into() };
        Header::new(("a", "new"), "7-2", 9, SIZE, Some(base))
    }

    fn pieces() -> Vec<Piece> {
        vec![
            Piece::Data(0, vec![7; 4096].into()),
            Piece::Zeros(8192, 65536),
            Piece::Data(SIZE - 512, vec![9; 512].into()),
        ]
    }

    fn written(pieces: &[Piece]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        pieces.iter().for_each(|piece| writer.piece(piece).unwrap());
        writer.end().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<(Header, Vec<Piece>)> {
        let (header, mut reader) = Reader::new(bytes)?;
        let mut all = Vec::new();
        while let Some(piece) = reader.next()? {
            all.push(piece);
        }
        Ok((header, all))
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&written(&pieces())).unwrap(), (header(), pieces()));
        assert_eq!(read(&written(&[])).unwrap(), (header(), vec![]));
    }

    #[test]
    fn a_stream_that_is_cut_off_or_changed_is_refused() {
        let whole = written(&pieces());
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "cut off at byte {end}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(read(&changed).is_err(), "changed at byte {at}");
        }
        let mut longer = whole;
        longer.push(0);
        assert!(read(&longer).unwrap_err().to_string().contains("after its end"));
    }

    #[test]
    fn frames_that_are_lost_or_moved_are_found() {
        let (whole, shorter) = (written(&pieces()), written(&pieces()[..1]));
        let end = written(&pieces()).len() - 17;
        // The end of another stream of the same beginning.
        let spliced = [&whole[..end], &shorter[shorter.len() - 17..]].concat();
        assert!(read(&spliced).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn content_that_does_not_fit_is_refused() {
        for wrong in [
            vec![Piece::Zeros(SIZE, 512)],
            vec![Piece::Zeros(u64::MAX - 511, 512)],
            vec![Piece::Zeros(0, SIZE + 512)],
            vec![Piece::Zeros(0, 0)],
            vec![Piece::Data(100, vec![1; 512].into())],
            vec![Piece::Data(0, vec![1; 100].into())],
            vec![Piece::Zeros(4096, 512), Piece::Zeros(0, 512)],
        ] {
            let error = read(&written(&wrong)).unwrap_err().to_string();
            assert!(error.contains("overlaps, is not aligned, or exceeds"), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn other_versions_and_other_files_are_refused() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(error(b"").contains("empty"));
        assert!(error(b"QFI\xfb and so on").contains("not an exported snapshot"));
        let later = Header { version: 2, ..header() };
        let later = Writer::new(Vec::new(), &later).unwrap().end().unwrap();
        assert!(error(&later).contains("has version 2"), "{}", error(&later));
        let small = Header { size: 100, ..header() };
        let small = Writer::new(Vec::new(), &small).unwrap().end().unwrap();
        assert!(error(&small).contains("not a valid size"));
    }
}
