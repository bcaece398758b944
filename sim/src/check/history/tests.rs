use super::*;

fn write(id: u32, blocks: Range<u64>, start: Nanos, end: Option<Nanos>) -> Op {
    Op { id, did: Did::Wrote { zeros: false }, blocks, start, end, by: None }
}

/// A request for the first block that was answered.
fn replace(id: u32, found: u32, start: Nanos, end: Nanos) -> Op {
    Op { did: Did::Replaced(vec![found]), ..write(id, 0..1, start, Some(end)) }
}

fn read(id: u32, first: u64, values: &[u32], start: Nanos, end: Nanos) -> Op {
    let blocks = first..first + values.len() as u64;
    Op { id, did: Did::Read(values.to_vec()), blocks, start, end: Some(end), by: None }
}

#[test]
fn what_can_be_passes() {
    let ops = [
        write(1, 0..2, 1, Some(5)),
        read(2, 0, &[1, 1, 0], 6, 7),
        write(3, 1..3, 8, None),
        read(4, 0, &[1, 3, 3], 9, 10),
        write(5, 0..1, 3, Some(20)),
        read(6, 0, &[5], 21, 22),
    ];
    assert_eq!(check(&ops), Ok(()));
    assert_eq!(numbers(7, &content(9, 7..9)), Ok(vec![9, 9]));
}

#[test]
fn what_cannot_be_is_found() {
    let lost = [write(1, 0..1, 1, Some(2)), write(2, 0..1, 3, Some(4)), read(3, 0, &[1], 5, 6)];
    assert!(check(&lost).unwrap_err().contains("lost"));
    let stale = [
        write(1, 0..1, 1, Some(2)),
        write(2, 0..1, 3, None),
        read(3, 0, &[2], 5, 6),
        read(4, 0, &[1], 7, 8),
    ];
    assert!(check(&stale).is_err(), "new, then old");
    let torn = [write(1, 0..2, 1, Some(2)), write(2, 0..2, 3, None), read(3, 0, &[2, 1], 5, 6)];
    assert!(check(&torn).unwrap_err().contains("in part"));
    let gone = [write(1, 0..1, 1, Some(2)), read(2, 0, &[0], 3, 4)];
    assert!(check(&gone).unwrap_err().contains("zeros"));
    assert!(check(&[read(2, 0, &[7], 3, 4)]).unwrap_err().contains("never was"));
    assert_eq!(numbers(8, &content(9, 7..8)), Err(8), "content of another block");
}

fn zero(id: u32, blocks: Range<u64>, start: Nanos, end: Option<Nanos>) -> Op {
    Op { did: Did::Wrote { zeros: true }, ..write(id, blocks, start, end) }
}

#[test]
fn a_zeroing_that_is_lost_is_found() {
    let (old, zeros) = (write(1, 0..1, 1, Some(2)), zero(2, 0..1, 3, Some(4)));
    let at = |id, value, at| read(id, 0, &[value], at, at + 1);
    assert_eq!(check(&[old.clone(), zeros.clone(), at(3, 0, 5)]), Ok(()));
    let lost = check(&[old.clone(), zeros.clone(), at(3, 1, 5)]);
    assert!(lost.unwrap_err().contains("before and after request 2 wrote zeros"));
    // It may have come after the read began.
    assert_eq!(check(&[old.clone(), zeros.clone(), at(3, 1, 4)]), Ok(()));
    // One that was never answered, and was seen.
    let open = zero(2, 0..1, 3, None);
    let undone = check(&[old.clone(), open.clone(), at(3, 0, 5), at(4, 1, 7)]);
    assert!(undone.unwrap_err().contains("request 3 saw zeros"));
    // One that comes late though it is forbidden.
    let late = Op { by: Some(4), ..open };
    assert!(check(&[old.clone(), late.clone(), at(3, 1, 5), at(4, 0, 7)]).is_err());
    assert_eq!(check(&[old.clone(), late, at(3, 1, 3), at(4, 0, 7)]), Ok(()));
    // Not all of a range that is accepted has to be lost.
    let accepted = Op { did: Did::Accepted, ..zeros.clone() };
    assert_eq!(check(&[old.clone(), accepted.clone(), at(3, 1, 5)]), Ok(()));
    assert_eq!(check(&[old.clone(), accepted, at(3, 0, 5)]), Ok(()));
    // What replaces the value that was there before.
    assert!(check(&[old, zeros, replace(3, 1, 5, 6)]).is_err());
}

#[test]
fn content_that_was_there_was_not_missed() {
    let (old, seen) = (write(1, 0..1, 1, Some(2)), read(2, 0, &[1], 7, 8));
    let missed = |value, start| Op {
        did: Did::Missed(value),
        end: Some(start + 1),
        ..write(3, 0..1, start, None)
    };
    let found = check(&[old.clone(), missed(1, 4), seen.clone()]);
    assert!(found.unwrap_err().contains("missed"));
    let ops = [old.clone(), replace(2, 1, 3, 4), missed(1, 5), read(4, 0, &[2], 7, 8)];
    assert_eq!(check(&ops), Ok(()), "it was replaced");
    for other in [missed(1, 2), missed(1, 7), missed(9, 4), missed(0, 4)] {
        assert_eq!(check(&[old.clone(), other, seen.clone()]), Ok(()));
    }
}

#[test]
fn zeros_after_a_write_that_was_only_seen_are_found() {
    let open = write(1, 0..1, 1, None);
    let gone = [open.clone(), read(2, 0, &[1], 2, 3), read(3, 0, &[0], 4, 5)];
    assert!(check(&gone).unwrap_err().contains("zeros"));
    let again = [open, read(2, 0, &[0], 2, 3), read(3, 0, &[1], 4, 5)];
    assert_eq!(check(&again), Ok(()));
}

#[test]
fn a_write_in_part_over_zeros_is_found() {
    let (whole, torn) = (write(1, 0..2, 4, Some(5)), read(3, 0, &[1, 0], 8, 9));
    assert!(check(&[whole.clone(), torn.clone()]).is_err());
    let open = write(1, 0..2, 4, None);
    assert!(check(&[open, torn.clone()]).unwrap_err().contains("in part"));
    for (start, end, can_be) in
        [(1, Some(3), false), (1, Some(4), true), (6, None, true), (10, None, false)]
    {
        let ops = [whole.clone(), zero(2, 1..2, start, end), torn.clone()];
        assert_eq!(check(&ops).is_ok(), can_be, "zeros from {start} to {end:?}");
    }
}

#[test]
fn nothing_comes_between_what_was_found_and_what_replaced_it() {
    let first = write(1, 0..1, 1, Some(2));
    let chain = [first.clone(), replace(2, 1, 3, 4), replace(3, 2, 5, 6), read(4, 0, &[3], 7, 8)];
    assert_eq!(check(&chain), Ok(()));
    let twice = [first.clone(), replace(2, 1, 3, 9), replace(3, 1, 4, 9)];
    assert!(check(&twice).unwrap_err().contains("both replaced 1"));
    let early = [first.clone(), replace(3, 2, 3, 4), write(2, 0..1, 5, Some(6))];
    assert!(check(&early).unwrap_err().contains("over before"));
    // Write 2 is over before 3 begins, which finds the older one.
    let between = [first, write(2, 0..1, 3, Some(4)), replace(3, 1, 5, 6)];
    assert!(check(&between).unwrap_err().contains("before the other"));
}

#[test]
fn what_is_forbidden_happens_before_or_never() {
    let forbidden = |end| Op { by: Some(5), ..write(2, 0..1, 3, end) };
    let old = write(1, 0..1, 1, Some(2));
    let at = |id, value, at| read(id, 0, &[value], at, at + 1);
    assert_eq!(check(&[old.clone(), forbidden(None), at(3, 2, 4), at(4, 2, 9)]), Ok(()));
    assert_eq!(check(&[old.clone(), forbidden(None), at(3, 1, 6), at(4, 1, 9)]), Ok(()));
    for end in [None, Some(20)] {
        assert!(check(&[old.clone(), forbidden(end), at(3, 1, 6), at(4, 2, 9)]).is_err());
    }
    let late = Op { by: Some(2), ..write(2, 0..1, 3, None) };
    for check in [check, check_limited] {
        assert_eq!(check(&[old.clone(), late.clone(), at(3, 1, 6)]), Ok(()));
        assert!(check(&[old.clone(), late.clone(), at(3, 2, 6)]).is_err());
    }
}

#[test]
fn with_limited_atomicity_only_what_was_answered_counts() {
    let lost = [write(1, 0..1, 1, Some(2)), write(2, 0..1, 3, Some(4)), read(3, 0, &[1], 5, 6)];
    assert!(check_limited(&lost).unwrap_err().contains("was answered"));
    let again = [
        write(1, 0..2, 1, Some(9)),
        write(2, 0..2, 2, Some(3)),
        read(3, 0, &[1, 2], 4, 5),
        read(4, 0, &[2, 2], 5, 6),
        read(5, 0, &[1, 1], 10, 11),
    ];
    assert!(check(&again).is_err() && check_limited(&again).is_ok(), "in part, then again");
    let gone = [write(1, 0..1, 1, Some(2)), read(2, 0, &[0], 3, 4)];
    assert!(check_limited(&gone).unwrap_err().contains("zeros"));
    assert!(check_limited(&[read(2, 0, &[7], 3, 4)]).unwrap_err().contains("never was"));
    let early = [write(1, 0..1, 5, None), read(2, 0, &[1], 3, 4)];
    assert!(check_limited(&early).unwrap_err().contains("before it began"));
}

#[test]
fn what_nobody_wrote_is_told_apart_from_what_was_lost() {
    let lost = [write(1, 0..1, 1, Some(2)), write(2, 0..1, 3, Some(4)), read(3, 0, &[1], 5, 6)];
    assert!(check(&lost).is_err() && check_sources(&lost).is_ok());
    for wrong in [read(3, 0, &[9], 5, 6), read(3, 4, &[1], 5, 6), read(3, 0, &[2], 1, 2)] {
        assert!(check_sources(&[lost[0].clone(), lost[1].clone(), wrong]).is_err());
    }
}
