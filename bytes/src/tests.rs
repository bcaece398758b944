use super::*;

fn some<O: Order>(mut w: Writer<O>) -> Vec<u8> {
    w.u8(1);
    w.u16(0x0203);
    w.u32(4);
    w.u64(5);
    w.u128(6);
    w.bytes(b"ab");
    w.list([7, 8].into_iter(), |w, n| w.u16(n));
    w.option(Some(9), |w, n| w.u8(n));
    w.option(None::<u8>, |w, n| w.u8(n));
    w.raw("é".as_bytes());
    w.finish()
}

#[test]
fn what_is_written_is_read_in_either_order() {
    fn check<O: Order + Clone>(bytes: &[u8]) {
        let mut r = Reader::<O>::new(bytes);
        assert_eq!((r.u8(), r.u16(), r.u32()), (Ok(1), Ok(0x0203), Ok(4)));
        assert_eq!((r.u64(), r.u128(), r.bytes()), (Ok(5), Ok(6), Ok(&b"ab"[..])));
        assert_eq!(r.list(2, Reader::u16), Ok(vec![7, 8]));
        assert_eq!((r.option(Reader::u8), r.option(Reader::u8)), (Ok(Some(9)), Ok(None)));
        assert_eq!((r.clone().rest(), r.text(2)), ("é".as_bytes(), Ok("é")));
        assert_eq!((r.end(), r.rest()), (Ok(()), &[][..]));
    }
    let (little, big) = (some(Writer::<Little>::default()), some(Writer::<Big>::default()));
    assert_eq!((&little[1..3], &big[1..3]), (&[3, 2][..], &[2, 3][..]));
    check::<Little>(&little);
    check::<Big>(&big);
}

#[test]
fn errors_say_what_was_wrong() {
    let r = Reader::<Little>::new;
    assert_eq!(r(&[1]).u16(), Err(BytesError::Truncated));
    assert_eq!(r(&[2]).bool(), Err(BytesError::Unknown { what: "truth value", value: 2 }));
    assert_eq!(r(&[9; 3]).end(), Err(BytesError::Trailing(3)));
    assert_eq!(r(&[0xff]).text(1), Err(BytesError::Text));
    assert_eq!(r(b"weft").magic(b"WEFT", "a disk"), Err(BytesError::Magic("a disk")));
    assert_eq!(r(b"we").magic(b"WEFT", "a disk"), Err(BytesError::Magic("a disk")));
    assert!(at_most("a column", 5, 5).is_ok() && at_most("a column", 6, 5).is_err());
}

/// A count that the rest cannot hold costs nothing, whatever it says.
#[test]
fn a_count_is_bounded_by_what_is_there() {
    let endless = [0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    assert_eq!(Reader::<Little>::new(&endless).count(1), Err(BytesError::Truncated));
    assert_eq!(Reader::<Little>::new(&endless).count(usize::MAX), Err(BytesError::Truncated));
    assert_eq!(Reader::<Little>::new(&endless).bytes(), Err(BytesError::Truncated));
    assert_eq!(Reader::<Little>::new(&[3, 0, 0, 0, 1, 2, 3]).count(1), Ok(3));
    assert_eq!(Reader::<Little>::new(&[3, 0, 0, 0, 1, 2, 3]).count(2), Err(BytesError::Truncated));
}

/// Any bytes at all are read or refused; nothing panics.
#[test]
fn torn_anywhere_it_is_refused() {
    let whole = some(Writer::<Little>::default());
    for cut in 0..whole.len() {
        let mut r = Reader::<Little>::new(&whole[..cut]);
        let mut all = || {
            r.u8()?;
            r.u16()?;
            r.u32()?;
            r.u64()?;
            r.u128()?;
            r.bytes()?;
            r.list(2, Reader::u16)?;
            r.option(Reader::u8)?;
            r.option(Reader::u8)?;
            r.text(2)
        };
        assert_eq!(all().err(), Some(BytesError::Truncated), "cut at {cut}");
    }
}
