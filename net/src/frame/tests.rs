use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut out = header(frame.kind, std::slice::from_ref(&frame.payload), Way::Bare).to_vec();
    out.extend_from_slice(&frame.payload);
    out
}

/// All frames in `bytes`, which come in pieces of the given lengths.
fn read_all(
    reader: &mut FrameReader,
    bytes: &[u8],
    pieces: &[usize],
) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    let (mut rest, mut pieces) = (bytes, pieces.iter().cycle());
    while !rest.is_empty() {
        let (mut piece, later) = rest.split_at(rest.len().min(*pieces.next().unwrap_or(&1)));
        rest = later;
        while !piece.is_empty() {
            frames.extend(reader.push(&mut piece)?);
        }
    }
    Ok(frames)
}

fn one(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
    read_all(&mut FrameReader::new(MAX_PAYLOAD, Way::Bare), bytes, &[usize::MAX])
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        frames in vec((any::<u8>(), vec(any::<u8>(), 0..300)), 0..6),
        pieces in vec(1..200usize, 1..10),
    ) {
        let frames: Vec<Frame> =
            frames.into_iter().map(|(kind, p)| Frame { kind, payload: p.into() }).collect();
        let stream: Vec<u8> = frames.iter().flat_map(bytes_of).collect();
        let read = read_all(&mut FrameReader::new(MAX_PAYLOAD, Way::Bare), &stream, &pieces).unwrap();
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn a_flipped_bit_is_found(
        payload in vec(any::<u8>(), 0..50), at in any::<prop::sample::Index>(), bit in 0..8u8,
    ) {
        let mut stream = bytes_of(&Frame { kind: 16, payload: payload.into() });
        let at = at.index(stream.len());
        stream[at] ^= 1u8 << bit;
        // A length that grew waits for bytes that do not come.
        let read = one(&stream);
        prop_assert!(!matches!(&read, Ok(frames) if !frames.is_empty()), "{:?}", read);
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in vec(any::<u8>(), 16..100)) {
        prop_assume!(bytes[..4] != MAGIC);
        prop_assert!(matches!(one(&bytes), Err(FrameError::Magic(_))));
    }
}

#[test]
fn by_a_guarded_way_the_header_alone_is_checked() {
    let payload = Bytes::from(vec![3; 500]);
    let mut stream = header(16, std::slice::from_ref(&payload), Way::Guarded);
    stream.extend_from_slice(&payload);
    let read = |bytes: &[u8], way| read_all(&mut FrameReader::new(MAX_PAYLOAD, way), bytes, &[9]);
    let whole = read(&stream, Way::Guarded).unwrap();
    assert_eq!(whole, [Frame { kind: 16, payload }]);
    assert_eq!(read(&stream, Way::Bare), Err(FrameError::Checksum), "the two ends differ");
    for at in 6..HEADER {
        let mut spoiled = stream.clone();
        spoiled[at] ^= 1;
        assert!(read(&spoiled, Way::Guarded).is_err(), "byte {at}");
    }
}

#[test]
fn large_payloads_are_read_in_place() {
    let frame = Frame { kind: 20, payload: vec![9; 4 * LARGE].into() };
    let stream = bytes_of(&frame);
    let mut reader = FrameReader::new(MAX_PAYLOAD, Way::Bare);
    let (mut first, rest) = stream.split_at(HEADER + 10);
    assert_eq!(reader.push(&mut first).unwrap(), None);
    let payload = reader.large().unwrap();
    assert_eq!(payload.capacity() - payload.len(), rest.len());
    payload.extend_from_slice(rest);
    assert_eq!(reader.whole().unwrap(), Some(frame));
    assert!(reader.large().is_none());
}

#[test]
fn what_is_read_in_place_only_in_part_is_pushed_to_its_end() {
    let payload: Vec<u8> = (0..2 * LARGE).map(|n| (n % 251) as u8).collect();
    let frame = Frame { kind: 20, payload: payload.into() };
    let stream = bytes_of(&frame);
    let mut reader = FrameReader::new(MAX_PAYLOAD, Way::Bare);
    let (mut first, rest) = stream.split_at(HEADER + 10);
    assert_eq!(reader.push(&mut first).unwrap(), None);
    let (here, mut rest) = rest.split_at(LARGE);
    reader.large().unwrap().extend_from_slice(here);
    assert_eq!(reader.whole().unwrap(), None);
    assert!(reader.large().is_none(), "what is left is not worth it");
    assert_eq!(reader.push(&mut rest).unwrap(), Some(frame));
    assert!(rest.is_empty());
}

#[test]
fn errors_say_what_was_wrong() {
    let frame = Frame { kind: 16, payload: vec![1; 100].into() };
    let mut later = bytes_of(&frame);
    later[4] = 7;
    let error = one(&later[..6]).unwrap_err();
    assert_eq!(error, FrameError::Version { theirs: 7 });
    assert!(error.to_string().contains("version 7") && error.to_string().contains("version 3"));

    let small = read_all(&mut FrameReader::new(99, Way::Bare), &bytes_of(&frame), &[7]);
    assert_eq!(small.unwrap_err(), FrameError::TooLong { len: 100, max: 99 });
    let empty = Frame { kind: 1, payload: Bytes::new() };
    let both = [bytes_of(&empty), bytes_of(&frame)].concat();
    let read = read_all(&mut FrameReader::new(99, Way::Bare), &both, &[usize::MAX]);
    assert_eq!(read.unwrap(), [empty, frame.clone()], "the bound is for the first alone");
    let mut endless = header(16, &[], Way::Bare);
    endless[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let said = one(&endless).unwrap_err();
    assert_eq!(said, FrameError::TooLong { len: u32::MAX, max: MAX_PAYLOAD });

    let mut spoiled = bytes_of(&frame);
    spoiled[50] ^= 1;
    assert_eq!(one(&spoiled).unwrap_err(), FrameError::Checksum);

    assert!(one(&[22, 3, 1, 2]).unwrap_err().to_string().contains("looks like TLS"));
    assert!(one(b"GET / HTTP").unwrap_err().to_string().contains("47455420"));
}
