//! What C gives and gets: errors, texts and lists, behind pointers.

use std::ffi::{CStr, c_char, c_int};
use std::slice;

use weft_client::{Error, ErrorKind};

use crate::weft_id;

/// Bytes of an error's text.
const TEXT: usize = 240;

/// Why something was not done.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct weft_error {
    /// A number of `enum weft_kind`.
    pub kind: c_int,
    /// The request because of which.
    pub because: weft_id,
    /// In words.
    pub text: [c_char; TEXT],
}

pub(crate) const OK: c_int = 0;
const ARGUMENT: c_int = 15;
const TIMED_OUT: c_int = 16;

fn kind(error: &Error) -> c_int {
    match error.kind() {
        ErrorKind::Address => 1,
        ErrorKind::Unreachable => 2,
        ErrorKind::Protocol => 3,
        ErrorKind::NoVolume => 4,
        ErrorKind::SecondWriter => 5,
        ErrorKind::Full => 6,
        ErrorKind::Invalid => 7,
        ErrorKind::OutOfRange => 8,
        ErrorKind::Lost => 9,
        ErrorKind::NoProgress => 10,
        ErrorKind::Aborted => 11,
        ErrorKind::NeverIssued => 12,
        ErrorKind::Place => 13,
        ErrorKind::NotAllowed => 17,
        ErrorKind::Certificates => 18,
        ErrorKind::NoSpace => 19,
        _ => 14,
    }
}

/// What an error of ours or of the caller's comes to.
pub(crate) enum Why {
    Client(Error),
    Argument(&'static str),
    TimedOut,
}

impl Why {
    pub(crate) fn kind(&self) -> c_int {
        match self {
            Why::Client(e) => kind(e),
            Why::Argument(_) => ARGUMENT,
            Why::TimedOut => TIMED_OUT,
        }
    }
}

impl From<Error> for Why {
    fn from(error: Error) -> Why {
        Why::Client(error)
    }
}

/// Tells the caller. `error` is null, or points to room for one.
pub(crate) unsafe fn tell<T>(result: Result<T, Why>, error: *mut weft_error) -> Option<T> {
    let none = weft_id { host: 0, number: 0 };
    let (value, kind, because, words) = match result {
        Ok(value) => (Some(value), OK, none, String::new()),
        Err(Why::Argument(what)) => (None, ARGUMENT, none, what.to_string()),
        Err(Why::TimedOut) => (None, TIMED_OUT, none, "it has not ended in time".to_string()),
        Err(Why::Client(e)) => {
            let because =
                e.because().map_or(none, |id| weft_id { host: id.host, number: id.number });
            (None, kind(&e), because, e.to_string())
        }
    };
    if !error.is_null() {
        let mut text = [0; TEXT];
        let cut = words.floor_char_boundary(TEXT - 1);
        copy(&words[..cut], &mut text);
        // SAFETY: the caller gives room for one, or null.
        unsafe { error.write(weft_error { kind, because, text }) };
    }
    value
}

pub(crate) fn copy(words: &str, text: &mut [c_char]) {
    for (to, from) in text.iter_mut().zip(words.bytes()) {
        *to = from as c_char;
    }
}

/// Text of the caller's.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Why> {
    if pointer.is_null() {
        return Err(Why::Argument("a text is NULL"));
    }
    // SAFETY: the caller gives a text that ends with 0.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Why::Argument("a text is not UTF-8"))
}

/// Things of the caller's.
pub(crate) unsafe fn many<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], Why> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Why::Argument("a pointer is NULL and its count is not 0")),
        // SAFETY: the caller gives so many.
        (false, count) => Ok(unsafe { slice::from_raw_parts(pointer, count) }),
    }
}
