//! What another process may send. The first byte of the input says as what the rest is taken: as a message, which
//! goes through a frame too, as a hello or a word of a router, or as a stream of frames, in pieces.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weft_net::frame::{self, Frame, FrameReader, MAX_PAYLOAD, Way};
use weft_net::letters;
use weft_net::transport::{hello_again, word_again};
use weft_net::wire::Message;

/// What is read as a message is read as the same again when it has been encoded, and encoded the same.
fn message(payload: Bytes) {
    let Ok(message) = Message::decode(&payload) else { return };
    let bytes = Bytes::from(message.encode().concat());
    let again = Message::decode(&bytes).expect("it was a message before");
    assert_eq!(format!("{again:?}"), format!("{message:?}"));
    assert_eq!(again.encode().concat(), bytes);
}

/// The letters of a round that come out of a frame are what goes into one.
fn letters(payload: Bytes) {
    if let Ok(letters) = letters::split(&payload) {
        assert_eq!(letters::join(letters.into_iter().map(|l| vec![l]).collect()).concat(), payload);
    }
}

/// Any payload comes out of its frame as it went in.
fn framed(payload: Bytes, most: usize) {
    let kind = frame::FIRST_KIND;
    let bytes =
        [&frame::header(kind, std::slice::from_ref(&payload), Way::Bare)[..], &payload].concat();
    assert_eq!(stream(&bytes, most), (vec![Frame { kind, payload }], None));
}

fn hello(bytes: &[u8]) {
    if let Some(again) = hello_again(bytes) {
        assert_eq!(again, bytes);
    }
}

/// A word that is written again is the same.
fn word(kind: u8, bytes: &[u8]) {
    if let Some(again) = word_again(kind, &Bytes::copy_from_slice(bytes)) {
        assert_eq!(word_again(kind, &again), Some(again.clone()));
    }
}

/// The frames in a stream, and why it ends before its end.
fn stream(bytes: &[u8], most: usize) -> (Vec<Frame>, Option<String>) {
    let (mut reader, mut frames) = (FrameReader::new(MAX_PAYLOAD, Way::Bare), Vec::new());
    for mut piece in bytes.chunks(most) {
        while !piece.is_empty() {
            match reader.push(&mut piece) {
                Ok(frame) => frames.extend(frame),
                Err(error) => return (frames, Some(error.to_string())),
            }
        }
    }
    (frames, None)
}

fuzz_target!(|input: &[u8]| {
    let Some((how, bytes)) = input.split_first() else { return };
    let most = 1 + usize::from(how >> 2);
    match how & 3 {
        0 | 1 => {
            framed(Bytes::copy_from_slice(bytes), most);
            letters(Bytes::copy_from_slice(bytes));
            message(Bytes::copy_from_slice(bytes));
        }
        2 => {
            hello(bytes);
            word(how >> 2, bytes);
        }
        _ => assert_eq!(stream(bytes, 1 << 20), stream(bytes, most)),
    }
});
