//! Messages that are always the same: what is not copied, and bytes that stay as they are.

use super::super::code::{Reader, Wire, Writer};
use super::*;

fn reply(data: Buffer) -> Message {
    let body = Body::ReadReply { ts: Timestamp(7), column: 1, result: Ok(vec![(5, data)]) };
    Message::Envelope(Envelope {
        from: NodeId(1),
        to: NodeId(2),
        epoch: 3,
        hops: 1,
        notices: vec![Notice::Ack(Timestamp(9))],
        reached: Reached { disk: 1, life: 2, frame: 3, sequence: 4 },
        heard: vec![(NodeId(2), Reached::default())],
        body: Some(body),
    })
}

fn data_of(message: &Message) -> &Bytes {
    let Message::Envelope(Envelope { body: Some(Body::ReadReply { result: Ok(p), .. }), .. }) =
        message
    else {
        panic!("a reply")
    };
    let Buffer::Bytes(bytes) = &p[0].1 else { panic!("bytes") };
    bytes
}

#[test]
fn bulk_data_is_not_copied() {
    let data = Bytes::from(vec![7; 4096]);
    let message = reply(data.clone().into());
    let chunks = message.encode();
    assert_eq!(chunks.len(), 2);
    assert_eq!(chunks[1].as_ptr(), data.as_ptr());

    let arrived = frame(&message);
    let decoded = Message::decode(&arrived).unwrap();
    assert!(arrived.as_ptr_range().contains(&data_of(&decoded).as_ptr()));
}

#[test]
fn zeros_travel_as_a_length_up_to_a_bound() {
    let message = reply(Buffer::Zero(MAX_BULK));
    assert!(frame(&message).len() < 200);
    assert_same(&Message::decode(&frame(&message)).unwrap(), &message);
    let too_long = Message::decode(&frame(&reply(Buffer::Zero(MAX_BULK + 1))));
    assert!(
        matches!(too_long, Err(WireError::Malformed(BytesError::Bounds { .. }))),
        "{too_long:?}"
    );
}

#[test]
fn the_encoding_of_this_version_stays() {
    let expected = concat!(
        "1a00",
        "81000000", // version, head of 129 bytes
        "01",
        "0100",
        "0200",
        "0300000000000000",
        "01", // an envelope from 1 to 2, epoch 3, 1 hop
        "01000000",
        "03",
        "0900000000000000", // a notice
        "0100000000000000",
        "0200000000000000",
        "0300000000000000",
        "0400000000000000", // how far the sender's disk has got
        "01000000",
        "0200",
        "0000000000000000",
        "0000000000000000",
        "0000000000000000",
        "0000000000000000", // what it heard of one other
        "01",
        "02",
        "0700000000000000",
        "01000000",
        "01", // a read reply at 7, column 1
        "01000000",
        "0500000000000000",
        "00",
        "02000000", // stripe 5, two bytes
        "abcd",
    );
    let bytes: String =
        frame(&reply(vec![0xab, 0xcd].into())).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(bytes, expected);
}

#[test]
fn a_later_version_is_named() {
    let mut bytes = frame(&reply(Buffer::Zero(0))).to_vec();
    bytes[0] = VERSION + 1;
    let error = Message::decode(&bytes.into()).unwrap_err();
    assert_eq!(error, WireError::Version { theirs: VERSION + 1 });
    let text = error.to_string();
    let later = format!("version {}", VERSION + 1);
    assert!(text.contains(&later) && text.contains(&format!("version {VERSION}")), "{text}");
}

#[test]
fn columns_and_nodes_out_of_bounds_are_refused() {
    let vote = |column| {
        let body = Body::Vote { ts: Timestamp(1), column, vote: Ok(()) };
        let (from, to) = (NodeId(0), NodeId(1));
        let envelope = Envelope {
            from,
            to,
            epoch: 1,
            hops: 0,
            notices: Vec::new(),
            reached: Reached::default(),
            heard: Vec::new(),
            body: Some(body),
        };
        Message::decode(&frame(&Message::Envelope(envelope)))
    };
    assert!(vote(31).is_ok());
    let error = BytesError::Bounds { what: "a column", value: 32 };
    assert_eq!(vote(32).unwrap_err(), WireError::Malformed(error));
}

#[test]
fn the_document_has_the_versions_of_today() {
    let document = include_str!("../../../../docs/internals/transport.md");
    for (what, version) in [("encoding", VERSION.into()), ("protocol", crate::frame::VERSION)] {
        let says = format!("| version of the {what}, {version} |");
        assert!(document.contains(&says), "docs/internals/transport.md does not say: {says}");
    }
}

/// Before version 22 no clone was flattened.
#[test]
fn a_lineage_of_an_earlier_version_is_read() {
    let lineage = Lineage { below: Some(VolumeId(3)), snapshot: None, flattens: true };
    let mut w = Writer::new(Vec::new());
    lineage.put(&mut w);
    let (bytes, _) = w.finish();
    let read = |version, bytes: &[u8]| {
        let mut r = Reader::new(version, bytes, Bytes::new());
        let lineage = Lineage::take(&mut r).expect("a lineage");
        r.finish().expect("all of it is read");
        lineage
    };
    assert_eq!(read(22, &bytes), lineage);
    let before = Lineage { flattens: false, ..lineage };
    assert_eq!(read(21, &bytes[..bytes.len() - 1]), before);
}
