//! The letters of a round to one process, in one frame: a list of their lengths, and the letters.

use bytes::Bytes;
use weft_bytes::{BytesError, Read, Reader, Writer};

/// Letters are joined up to so many bytes. What is in a frame stays in memory for as long as a buffer of any of its
/// letters does; and what comes later in a large frame would have to wait for what comes first.
pub const JOINED: usize = 64 << 10;

/// The payload of a frame with these letters.
pub fn join(letters: Vec<Vec<Bytes>>) -> Vec<Bytes> {
    let mut lengths: Writer = Writer::with_room(4 + 4 * letters.len());
    lengths.u32(letters.len() as u32);
    for letter in &letters {
        lengths.u32(letter.iter().map(Bytes::len).sum::<usize>() as u32);
    }
    std::iter::once(lengths.finish().into()).chain(letters.into_iter().flatten()).collect()
}

/// The letters of a frame with this payload.
///
/// # Errors
///
/// If it is not exactly as long as it says.
pub fn split(payload: &Bytes) -> Read<Vec<Bytes>> {
    let mut r: Reader = Reader::new(payload);
    let count = r.count(4)?;
    let mut start = 4 + 4 * count;
    let mut letters = Vec::with_capacity(count);
    for _ in 0..count {
        let len = r.u32()? as usize;
        let end = start.checked_add(len).filter(|end| *end <= payload.len());
        let end = end.ok_or(BytesError::Bounds { what: "a letter", value: len as u64 })?;
        letters.push(payload.slice(start..end));
        start = end;
    }
    match payload.len() - start {
        0 => Ok(letters),
        n => Err(BytesError::Trailing(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_out_as_they_went_in_and_parts_are_refused() {
        let letters = [&b"ab"[..], b"", b"cdefg"];
        let chunks =
            vec![vec![Bytes::from_static(b"a"), b"b"[..].into()], vec![], vec![letters[2].into()]];
        let payload = Bytes::from(join(chunks).concat());
        assert_eq!(split(&payload).unwrap(), letters);
        for len in 0..payload.len() {
            assert!(split(&payload.slice(..len)).is_err(), "{len}");
        }
        assert!(split(&[&payload[..], b"x"].concat().into()).is_err());
        let many = Bytes::from_static(&[255, 255, 255, 255]);
        assert!(split(&many).is_err(), "a count is believed");
        assert_eq!(split(&Bytes::from(join(Vec::new()).concat())).unwrap(), Vec::<Bytes>::new());
    }
}
