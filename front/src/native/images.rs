//! One image of each message of version 1, beside this file, and one of each verb and code in them.

use bytes::Bytes;
use weft_bytes::fixture;

use super::wire::{Answer, Code, Hello, Limits, Name, NumberedRequest, RequestHead, Verb, Welcome};

fn after() -> Vec<Name> {
    vec![Name { host: 7, number: 8 }, Name { host: 9, number: 10 }]
}

fn request(verb: Verb) -> NumberedRequest {
    let (number, oldest, offset, length) = (11, 5, 4096, 8192);
    NumberedRequest {
        verb,
        flags: 5,
        number,
        oldest,
        offset,
        length,
        after: after(),
        data: Bytes::new(),
    }
}

fn answer(code: Code) -> Answer {
    let because = (code != Code::Done).then_some(Name { host: 7, number: 8 });
    let text = if code == Code::Done { String::new() } else { "why not".into() };
    Answer { number: 11, code, because, text, data: vec![Bytes::from_static(&[1, 2, 3])] }
}

fn one_of_each() -> Vec<(String, Vec<u8>)> {
    let volume = "vol0".to_string();
    let hello = Hello { from: 1, to: 2, host: 3, oldest: 4, resumes: true, volume };
    let limits =
        Limits { request_bytes: 1, bytes_in_work: 2, requests_in_work: 3, ahead: 4, after: 5 };
    let (size, text) = (1 << 30, "welcome".to_string());
    let (remembered, journaled, read_only) = (true, true, false);
    let code = Code::Done;
    let welcome =
        Welcome { version: 1, code, remembered, journaled, read_only, size, limits, text };
    let mut all = vec![("Hello".into(), hello.encode()), ("Welcome".into(), welcome.encode())];
    let verbs = (0..=u8::MAX).filter_map(Verb::of);
    all.extend(verbs.map(|v| (format!("Request.{v:?}"), request(v).encode_head())));
    all.extend(Code::ALL.map(|c| (format!("Answer.{c:?}"), answer(c).encode_head())));
    all
}

/// Splits a header of `N` bytes from what follows it.
fn header<const N: usize>(bytes: &[u8]) -> (&[u8; N], &[u8]) {
    bytes.split_first_chunk().expect("a whole header")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("a text")
}

fn again(name: &str, bytes: &[u8]) -> Vec<u8> {
    match name.split('.').next() {
        Some("Hello") => {
            let (head, rest) = header(bytes);
            let (hello, len) = Hello::decode(head).expect("a hello");
            assert_eq!(rest.len(), len);
            Hello { volume: text(rest), ..hello }.encode()
        }
        Some("Welcome") => {
            let (head, rest) = header(bytes);
            let (welcome, len) = Welcome::decode(head).expect("a welcome");
            assert_eq!(rest.len(), len);
            Welcome { text: text(rest), ..welcome }.encode()
        }
        Some("Request") => {
            let (head, rest) = header(bytes);
            let head = RequestHead::decode(head).expect("a request");
            let after = Name::decode_all(rest);
            assert_eq!(after.len(), usize::from(head.after));
            let RequestHead { flags, number, oldest, offset, length, .. } = head;
            let verb = Verb::of(head.verb).expect("a verb");
            let data = Bytes::new();
            NumberedRequest { verb, flags, number, oldest, offset, length, after, data }
                .encode_head()
        }
        _ => {
            let (head, rest) = header(bytes);
            let (answer, len, data) = Answer::decode(head).expect("an answer");
            assert_eq!(rest.len(), len);
            let data = vec![vec![0; data].into()];
            Answer { text: text(rest), data, ..answer }.encode_head()
        }
    }
}

#[test]
fn messages_of_version_1_stay_what_they_are() {
    fixture::check(include_str!("images/messages-1.hex"), &one_of_each(), again);
}
