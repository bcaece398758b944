//! A member's log in which anything may stand. The first byte of the input says whether the rest is the log as it is,
//! or the bodies of frames, each behind its length of two bytes. The log is refused, or a member starts with it; and
//! with what it has written then, it starts again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_bytes::Reader;
use weft_fuzz::log;

const TICKS: u64 = 20;

fuzz_target!(|input: &[u8]| {
    let Some((how, bytes)) = input.split_first() else { return };
    let mut r: Reader = Reader::new(bytes);
    let bodies = std::iter::from_fn(|| {
        let len = r.u16().ok()?;
        Some(r.raw(usize::from(len).min(r.left())).ok()?.to_vec())
    });
    let log = if how & 1 == 0 { bytes.to_vec() } else { log::framed(bodies) };
    let Some(log) = log::run(log, TICKS) else { return };
    log::run_again(log, TICKS);
});
