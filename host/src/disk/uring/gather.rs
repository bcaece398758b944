//! The memory of a write: its pieces, as far as direct I/O can take them from where they are, and copies of the others.
//!
//! A piece can be taken from where it is if it lies in whole pages. What comes between such pieces is copied into one
//! buffer, and so are short ones, where a piece more costs more than a copy.
//!
//! `unsafe` says that the memory stays where it is: that of a shared or pooled buffer does, wherever its owner is moved.

use std::io::IoSlice;

use weft_bytes::memory::{PAGE, PageBuffer, Pool};
use weft_core::Buffer;

/// Shorter pieces are copied.
const SHORTEST: usize = 16 << 10;

/// Pieces that are given at most; of more, all are copied.
const MOST: usize = 64;

/// A run of a write.
#[derive(Debug)]
enum Run {
    InPlace(Buffer),
    Copied(PageBuffer),
}

impl Run {
    fn bytes(&self) -> &[u8] {
        match self {
            Run::InPlace(Buffer::Bytes(bytes)) => bytes,
            Run::InPlace(_) => unreachable!("only bytes lie anywhere"),
            Run::Copied(buffer) => buffer.as_ref(),
        }
    }
}

/// What a write writes, in memory that stays where it is until this is dropped.
#[derive(Debug)]
pub(super) struct Gathered {
    runs: Vec<Run>,
    len: usize,
    /// What the kernel is told: the memory of `runs`, from where it goes on.
    told: Vec<IoSlice<'static>>,
}

impl Gathered {
    /// The memory for a write of these pieces.
    pub(super) fn of(data: Vec<Buffer>, pool: &Pool) -> Gathered {
        let len = data.iter().map(Buffer::len).sum();
        let in_place = data.iter().filter(|piece| lies_in_pages(piece)).count();
        let whole = data.iter().all(|piece| piece.len().is_multiple_of(PAGE));
        let takes = in_place > 0 && 2 * in_place < MOST && whole;
        let mut runs = Vec::with_capacity(if takes { 2 * in_place + 1 } else { 1 });
        let mut between = Vec::new();
        for piece in data {
            match takes && lies_in_pages(&piece) {
                true => {
                    copy(&mut between, &mut runs, pool);
                    runs.push(Run::InPlace(piece));
                }
                false => between.push(piece),
            }
        }
        copy(&mut between, &mut runs, pool);
        Gathered { runs, len, told: Vec::new() }
    }

    /// How many bytes it is.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What the kernel is to write after the first `moved` bytes: pieces of memory, which stay there until this is
    /// called again.
    pub(super) fn after(&mut self, moved: usize) -> &[IoSlice<'static>] {
        self.told.clear();
        let mut skip = moved;
        for run in &self.runs {
            let bytes = run.bytes();
            let rest = &bytes[skip.min(bytes.len())..];
            skip -= bytes.len() - rest.len();
            if !rest.is_empty() {
                // SAFETY: the bytes stay there as long as `runs`, which nobody changes, and the slices go no further
                // than this value and the kernel's operation, for which it is kept.
                let rest = unsafe { std::slice::from_raw_parts(rest.as_ptr(), rest.len()) };
                self.told.push(IoSlice::new(rest));
            }
        }
        &self.told
    }
}

/// Whether direct I/O can take a piece from where it is, and that pays.
fn lies_in_pages(piece: &Buffer) -> bool {
    match piece {
        Buffer::Bytes(bytes) => {
            let aligned = (bytes.as_ptr() as usize).is_multiple_of(PAGE);
            bytes.len() >= SHORTEST && aligned && bytes.len().is_multiple_of(PAGE)
        }
        Buffer::Zero(_) | Buffer::Length(_) => false,
    }
}

/// Copies pieces into one buffer, which is a run.
fn copy(pieces: &mut Vec<Buffer>, runs: &mut Vec<Run>, pool: &Pool) {
    let len = pieces.iter().map(Buffer::len).sum();
    if len == 0 {
        return pieces.clear();
    }
    let mut buffer = pool.get(len);
    let mut rest = buffer.as_mut();
    for piece in pieces.drain(..) {
        let (head, tail) = rest.split_at_mut(piece.len());
        piece.copy_to(head);
        rest = tail;
    }
    runs.push(Run::Copied(buffer));
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn in_pages(pool: &Pool, len: usize, value: u8) -> Bytes {
        let mut buffer = pool.get(len);
        buffer.as_mut().fill(value);
        Bytes::from_owner(buffer)
    }

    fn written(gathered: &mut Gathered, moved: usize) -> Vec<u8> {
        gathered.after(moved).iter().flat_map(|piece| piece.to_vec()).collect()
    }

    #[test]
    fn what_lies_in_pages_is_taken_from_there_and_the_rest_is_copied() {
        let pool = Pool::default();
        let payload = in_pages(&pool, 64 << 10, 1);
        let at = payload.as_ptr();
        let head = Buffer::from(vec![2; PAGE]);
        let short = Buffer::from(payload.slice(..PAGE));
        let skewed = Buffer::from(payload.slice(512..512 + (32 << 10)));
        let data = vec![head, payload.slice(..32 << 10).into(), short, skewed, Buffer::Zero(PAGE)];
        let expected = Buffer::join(&data);
        let mut gathered = Gathered::of(data, &pool);
        assert_eq!(gathered.len(), expected.len());
        let places: Vec<_> = gathered.after(0).iter().map(|piece| piece.as_ptr()).collect();
        assert_eq!((places.len(), places[1]), (3, at));
        assert!(places.iter().all(|place| (*place as usize).is_multiple_of(PAGE)));
        for moved in [0, 1, PAGE, PAGE + 5, 40 << 10, expected.len() - 1, expected.len()] {
            assert_eq!(written(&mut gathered, moved), expected[moved..], "{moved}");
        }
    }

    #[test]
    fn all_is_copied_where_not_all_is_whole_pages_or_the_pieces_are_many() {
        let pool = Pool::default();
        let payload = in_pages(&pool, 32 << 10, 1);
        let odd = vec![payload.clone().into(), Buffer::from(vec![2; 512])];
        let many = vec![Buffer::from(payload); MOST];
        for data in [odd, many] {
            let expected = Buffer::join(&data);
            let mut gathered = Gathered::of(data, &pool);
            assert_eq!(gathered.after(0).len(), 1);
            assert_eq!(written(&mut gathered, 0), expected);
        }
    }
}
