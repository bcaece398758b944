//! One image of each message, as this version writes it: `net/src/wire/images`.

use std::collections::BTreeMap;

use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use weft_bytes::fixture;

use super::super::code::Wire;
use super::*;

/// Images are shown to people, too: of the messages drawn of a kind the first is kept that is no longer.
const SHORT: usize = 400;

/// What kind of message it is, down to the variants of what it carries.
fn kind_of(message: &Message) -> String {
    let name = |debug: String| {
        debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_string()
    };
    match message {
        Message::Envelope(envelope) => match &envelope.body {
            Some(Body::Lock(inner)) => format!("Envelope.Lock.{}", name(format!("{inner:?}"))),
            Some(Body::Sequence(inner)) => {
                format!("Envelope.Sequence.{}", name(format!("{inner:?}")))
            }
            Some(body) => format!("Envelope.{}", name(format!("{body:?}"))),
            None => "Envelope".to_string(),
        },
        Message::Map(inner) => format!("Map.{}", name(format!("{inner:?}"))),
        Message::Report(inner) => format!("Report.{}", name(format!("{inner:?}"))),
    }
}

/// All kinds that the encoding knows.
fn kinds() -> Vec<String> {
    let of = |what: &str, kinds: &[&str]| -> Vec<String> {
        kinds.iter().map(|kind| format!("{what}.{kind}")).collect()
    };
    let carries = |kind: &String| kind == "Envelope.Lock" || kind == "Envelope.Sequence";
    let mut all = of("Envelope", Body::KINDS);
    all.retain(|kind| !carries(kind));
    all.push("Envelope".to_string());
    all.extend(of("Envelope.Lock", LockMessage::KINDS));
    all.extend(of("Envelope.Sequence", SequenceMessage::KINDS));
    all.extend(of("Map", MapMessage::KINDS));
    all.extend(of("Report", MemberReport::KINDS));
    all
}

/// A message of each kind, drawn in the same way every time.
fn one_of_each() -> Vec<(String, Vec<u8>)> {
    let (mut runner, strategy) = (TestRunner::deterministic(), message());
    let mut found = BTreeMap::<String, Vec<u8>>::new();
    for _ in 0..20_000 {
        let message = strategy.new_tree(&mut runner).expect("a message").current();
        let (bytes, kind) = (frame(&message).to_vec(), kind_of(&message));
        let before = found.get(&kind).map_or(usize::MAX, Vec::len);
        if before > SHORT && bytes.len() < before {
            found.insert(kind, bytes);
        }
    }
    kinds().into_iter().map(|k| (k.clone(), found.remove(&k).unwrap_or_default())).collect()
}

#[test]
fn messages_of_this_version_stay_what_they_are() {
    fixture::check(include_str!("../images/messages-26.hex"), &one_of_each(), |name, bytes| {
        assert_eq!(bytes[0], VERSION, "images of another version are another file");
        let message = Message::decode(&Bytes::copy_from_slice(bytes)).expect("a message");
        assert_eq!(kind_of(&message), name);
        frame(&message).to_vec()
    });
}

/// Disks and logs may hold a map that an earlier Weft wrote. It is read, and written anew as this version does.
#[test]
fn maps_of_every_version_that_is_kept_are_read() {
    let images = fixture::images(include_str!("../images/maps-kept.hex"));
    let versions: Vec<String> =
        (super::super::OLDEST_KEPT..=VERSION).map(|version| format!("version-{version}")).collect();
    assert!(versions.iter().eq(images.keys()), "an image of each version that is read");
    for (name, bytes) in &images {
        let bytes = Bytes::copy_from_slice(bytes);
        let message = Message::decode_kept(&bytes).expect(name);
        assert!(matches!(message, Message::Map(MapMessage::Enter { .. })), "{name}");
        let again = frame(&message);
        assert_same(&Message::decode(&again).expect(name), &message);
        assert_eq!(again[0], VERSION);
        // Since version 20 a host may have a secret. Only volumes have grown since, and that map has none.
        assert_eq!(again.len() == bytes.len(), bytes[0] >= 20, "{name}");
        let other = Message::decode(&bytes).is_err();
        assert_eq!(other, bytes[0] != VERSION, "{name}: processes speak one version");
    }
}
