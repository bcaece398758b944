//! The codes through the public interface: what is encoded can be decoded,
//! whichever columns are lost.

use proptest::prelude::*;
use weft_code::{Code, CodeError, ColumnSet, delta, gf, mul_add};

/// Every pair of `k` and `m` with no more than `most` columns.
fn shapes(most: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..=most).flat_map(move |k| (0..=most - k).map(move |m| (k, m)))
}

fn code(k: usize, m: usize) -> Code {
    Code::new(k, m).expect("the shape is within the limits")
}

/// Units of `len` bytes that differ from each other and by `seed`.
fn units(count: usize, len: usize, seed: usize) -> Vec<Vec<u8>> {
    let byte = |unit: usize, i: usize| (((unit * 131 + i + 1) * (2 * seed + 40_503)) >> 7) as u8;
    (0..count).map(|unit| (0..len).map(|i| byte(unit, i)).collect()).collect()
}

fn slices(units: &[Vec<u8>]) -> Vec<&[u8]> {
    units.iter().map(Vec::as_slice).collect()
}

/// All columns of a stripe: the data, then the parity.
fn encoded(code: &Code, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0xee; data[0].len()]; code.parity_columns()];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&slices(data), &mut outputs);
    data.iter().cloned().chain(parity).collect()
}

/// Decodes every column from the columns `have` and compares.
fn check_decoding(code: &Code, columns: &[Vec<u8>], have: ColumnSet) {
    let available: Vec<&[u8]> = have.iter().map(|i| columns[i].as_slice()).collect();
    for (column, content) in columns.iter().enumerate() {
        let decoder = code.decoder(have, column).expect("they determine it");
        let mut out = vec![0xdd; content.len()];
        decoder.decode(&available, &mut out);
        assert_eq!(out, *content, "column {column} from {have:?}");
    }
}

#[test]
fn every_choice_of_columns_decodes_small_codes() {
    for (k, m) in shapes(10) {
        let code = code(k, m);
        let columns = encoded(&code, &units(k, 3, m));
        for set in (0..1u32 << (k + m)).map(ColumnSet).filter(|set| set.len() >= k) {
            check_decoding(&code, &columns, set);
        }
    }
}

#[test]
fn every_loss_of_three_decodes_the_widest_triple_parity() {
    let code = code(29, 3);
    let columns = encoded(&code, &units(29, 1, 0));
    for a in 0..32 {
        for b in a + 1..32 {
            for c in b + 1..32 {
                let have: ColumnSet = (0..32).filter(|i| ![a, b, c].contains(i)).collect();
                check_decoding(&code, &columns, have);
            }
        }
    }
}

#[test]
fn every_loss_of_two_decodes_the_widest_double_parity() {
    let code = code(30, 2);
    let columns = encoded(&code, &units(30, 1, 0));
    for a in 0..32 {
        for b in a + 1..32 {
            let have: ColumnSet = (0..32).filter(|&i| i != a && i != b).collect();
            check_decoding(&code, &columns, have);
        }
    }
}

/// A shape, and all its columns in some order: the first `k` are available.
fn shape_and_order() -> impl Strategy<Value = (usize, usize, Vec<usize>)> {
    (1..=Code::MAX_COLUMNS).prop_flat_map(|k| (Just(k), 0..=Code::MAX_COLUMNS - k)).prop_flat_map(
        |(k, m)| {
            let order = Just((0..k + m).collect::<Vec<_>>()).prop_shuffle();
            (Just(k), Just(m), order)
        },
    )
}

proptest! {
    #[test]
    fn any_columns_decode_any_code(
        (k, m, order) in shape_and_order(),
        len in 0..600usize,
        seed in 0..1000usize,
    ) {
        let code = code(k, m);
        let columns = encoded(&code, &units(k, len, seed));
        check_decoding(&code, &columns, order[..k].iter().copied().collect());
    }

    #[test]
    fn updating_by_deltas_is_encoding_anew(
        (k, m, order) in shape_and_order(),
        len in 0..300usize,
    ) {
        let code = code(k, m);
        let changed = order[0] % k;
        let mut data = units(k, len, 1);
        let mut columns = encoded(&code, &data);
        let new = units(k, len, 2).swap_remove(changed);
        let mut change = vec![0; len];
        delta(&mut change, &data[changed], &new);
        for parity in 0..m {
            mul_add(&mut columns[k + parity], &change, code.coefficient(parity, changed));
        }
        columns[changed] = new.clone();
        data[changed] = new;
        prop_assert_eq!(columns, encoded(&code, &data));
    }
}

#[test]
fn long_units_are_encoded_to_the_end() {
    let code = code(5, 3);
    let columns = encoded(&code, &units(5, 3 * 4096 + 77, 9));
    check_decoding(&code, &columns, [6, 1, 7, 3, 5].into_iter().collect());
}

#[test]
fn mirrors_are_copies_and_single_parity_is_xor() {
    for m in 0..Code::MAX_COLUMNS {
        let code = code(1, m);
        let columns = encoded(&code, &units(1, 50, 0));
        assert!(columns.iter().all(|column| *column == columns[0]));
    }
    for k in 1..Code::MAX_COLUMNS {
        let columns = encoded(&code(k, 1), &units(k, 50, 0));
        for i in 0..50 {
            assert_eq!(columns.iter().fold(0, |sum, column| sum ^ column[i]), 0);
        }
    }
}

#[test]
fn double_parity_is_the_classic_p_and_q() {
    for k in 2..=30 {
        let columns = encoded(&code(k, 2), &units(k, 40, 3));
        let (data, parity) = columns.split_at(k);
        for i in 0..40 {
            let p = data.iter().fold(0, |sum, unit| sum ^ unit[i]);
            // Horner's rule, from the last column to the first.
            let horner = |sum, unit: &Vec<u8>| gf::mul(sum, 2) ^ unit[i];
            let q = data.iter().rev().fold(0, horner);
            assert_eq!([parity[0][i], parity[1][i]], [p, q]);
        }
    }
}

#[test]
fn the_first_parity_is_xor_and_no_coefficient_is_zero() {
    for (k, m) in shapes(Code::MAX_COLUMNS) {
        let code = code(k, m);
        assert_eq!((code.data_columns(), code.parity_columns()), (k, m));
        assert_eq!(code.columns(), k + m);
        for i in 0..k {
            for parity in 0..m {
                assert_ne!(code.coefficient(parity, i), 0);
            }
            assert!(m == 0 || code.coefficient(0, i) == 1);
        }
    }
}

#[test]
#[should_panic(expected = "length of a parity unit")]
fn parity_of_another_length_is_refused() {
    code(2, 1).encode(&[&[1, 2], &[3, 4]], &mut [&mut [0]]);
}

#[test]
#[should_panic(expected = "length of a source")]
fn data_of_another_length_is_refused() {
    code(2, 1).encode(&[&[1, 2], &[3, 4, 5]], &mut [&mut [0; 2]]);
}

#[test]
fn impossible_codes_are_refused() {
    let refusal = |k, m| Code::new(k, m).expect_err("not a code").to_string();
    assert_eq!(
        refusal(31, 2),
        "a code of 31 data and 2 parity columns has 33 columns; the most is 32"
    );
    assert_eq!(
        refusal(0, 2),
        "a code of 0 data and 2 parity columns holds no data; the fewest is 1 data column"
    );
    assert!(Code::new(usize::MAX, usize::MAX).is_err());
}

#[test]
fn impossible_decoders_are_refused() {
    let code = code(3, 2);
    let refusal = |have: &[usize], want| {
        code.decoder(have.iter().copied().collect(), want).expect_err("no decoder")
    };
    let few = CodeError::NotDetermined { column: 2 };
    assert_eq!(refusal(&[0, 1], 2), few);
    assert_eq!(few.to_string(), "column 2 cannot be computed from the columns that are available");
    let unknown = CodeError::NoSuchColumn { column: 5, columns: 5 };
    assert_eq!(refusal(&[0, 1, 5], 2), unknown);
    assert_eq!(refusal(&[0, 1, 3], 5), unknown);
}
