//! Prints how fast the kernels are on this machine, next to a plain copy.
//!
//! `cargo run --release -p weft-code --example kernel_speed`
//!
//! There are two figures for each loop: GB/s of input, and GB/s read and
//! written, which is what compares to the copy. "cold" walks in units through
//! columns much larger than the cache; "warm" repeats units that fit it.
//! The input of `mul_add` is its source and the parity it adds to.

use std::hint::black_box;
use std::time::Instant;

use weft_code::{Code, dot, kernel_name, mul_add, xor_sources};

const DATA: usize = 4;
const PARITY: usize = 2;
const COLUMN: usize = 64 << 20;
const COLD_UNIT: usize = 256 << 10;
const WARM_UNIT: usize = 4 << 10;
/// Warm loops run until they have read so many bytes of each column.
const WARM_BYTES: usize = 64 << 20;
const RUNS: usize = 9;

/// What a loop does with the units of a stripe: the data, P and Q.
type Body<'a> = dyn Fn(&[&[u8]], &mut [u8], &mut [u8]) + 'a;

fn main() {
    let mut columns: Vec<Vec<u8>> = (0..DATA + PARITY).map(filled_column).collect();
    let code = Code::new(DATA, PARITY).expect("4+2 is within the limits");
    let have = (2..6).collect();
    let lost = [0, 1].map(|column| code.decoder(have, column).expect("any 4 of 6 will do"));
    let q_row: Vec<u8> = (0..DATA).map(|i| code.coefficient(1, i)).collect();

    println!("kernel {}, median of {RUNS} runs", kernel_name());
    println!("{:24} {:>9} {:>11}", "", "GB/s in", "GB/s moved");
    let ceiling = column_rate(&mut columns, COLUMN, COLUMN, 1, &copy);
    println!("{:24} {ceiling:9.1} {:11.1}", "copy of 64 MiB", 2.0 * ceiling);
    let mut show = |name: &str, reads: usize, writes: usize, body: &Body| {
        for (heat, unit, len, rounds) in
            [("cold", COLD_UNIT, COLUMN, 1), ("warm", WARM_UNIT, WARM_UNIT, WARM_BYTES / WARM_UNIT)]
        {
            let rate = column_rate(&mut columns, unit, len, rounds, body);
            let (input, moved) = (rate * reads as f64, rate * (reads + writes) as f64);
            println!("{name:18} {heat:5} {input:9.1} {moved:11.1}");
        }
    };
    show("copy", 1, 1, &copy);
    show("xor 4 to 1", 4, 1, &|data, p, _| xor_sources(p, data));
    show("dot 4 to 1 (Q)", 4, 1, &|data, _, q| {
        let mut terms = [(0, data[0]); DATA];
        for (i, term) in terms.iter_mut().enumerate() {
            *term = (q_row[i], data[i]);
        }
        dot(q, &terms);
    });
    show("encode 4+2", 4, 2, &|data, p, q| code.encode(data, &mut [p, q]));
    show("mul_add", 2, 1, &|data, p, _| mul_add(p, data[0], 29));
    show("decode 1 of 4+2", 4, 1, &|data, p, _| lost[0].decode(data, p));
    show("decode 2 of 4+2", 4, 2, &|data, p, q| {
        lost[0].decode(data, p);
        lost[1].decode(data, q);
    });
}

fn copy(data: &[&[u8]], p: &mut [u8], _: &mut [u8]) {
    p.copy_from_slice(data[0]);
}

fn filled_column(seed: usize) -> Vec<u8> {
    (0..COLUMN).map(|i| (((i + seed) * 37) >> 3) as u8).collect()
}

/// The median rate, in GB/s of one column, of `body` on the units of the
/// first `len` bytes of the columns, `rounds` times over.
fn column_rate(
    columns: &mut [Vec<u8>],
    unit: usize,
    len: usize,
    rounds: usize,
    body: &Body,
) -> f64 {
    let (data, parity) = columns.split_at_mut(DATA);
    let [p, q] = parity else { unreachable!("two parity columns") };
    let mut run = || {
        let start = Instant::now();
        for _ in 0..rounds {
            for at in (0..len).step_by(unit) {
                let units: [&[u8]; DATA] = std::array::from_fn(|i| &data[i][at..at + unit]);
                body(black_box(&units), &mut p[at..at + unit], &mut q[at..at + unit]);
            }
        }
        (len * rounds) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    run();
    let mut rates: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}
