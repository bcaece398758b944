//! The C interface of `weft-client`: what `include/weft.h` declares, and says what it means.
//!
//! The only crate of the client with unsafe code: it takes pointers on the word of its caller.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::slice;

use weft_client::{Completion, Error, ErrorKind, Id, Op, Volume};

/// A volume that is open.
#[allow(non_camel_case_types)]
pub struct weft_volume(Volume);

/// A request that was taken.
#[allow(non_camel_case_types)]
pub struct weft_request(Completion);

/// A request's name.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_id {
    /// The host.
    pub host: u64,
    /// The request, of that host.
    pub number: u64,
}

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

const OK: c_int = 0;
const ARGUMENT: c_int = 15;

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
        _ => 14,
    }
}

/// What an error of ours or of the caller's comes to.
enum Why {
    Client(Error),
    Argument(&'static str),
}

impl From<Error> for Why {
    fn from(error: Error) -> Why {
        Why::Client(error)
    }
}

/// Tells the caller. `error` is null, or points to room for one.
unsafe fn tell<T>(result: Result<T, Why>, error: *mut weft_error) -> Option<T> {
    let none = weft_id { host: 0, number: 0 };
    let (value, kind, because, words) = match result {
        Ok(value) => (Some(value), OK, none, String::new()),
        Err(Why::Argument(what)) => (None, ARGUMENT, none, what.to_string()),
        Err(Why::Client(e)) => {
            let because =
                e.because().map_or(none, |id| weft_id { host: id.host, number: id.number });
            (None, kind(&e), because, e.to_string())
        }
    };
    if !error.is_null() {
        let mut text = [0; TEXT];
        let cut = words.floor_char_boundary(TEXT - 1);
        for (to, from) in text.iter_mut().zip(words[..cut].bytes()) {
            *to = from as c_char;
        }
        // SAFETY: the caller gives room for one, or null.
        unsafe { error.write(weft_error { kind, because, text }) };
    }
    value
}

/// Text of the caller's.
unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Why> {
    if pointer.is_null() {
        return Err(Why::Argument("a text is NULL"));
    }
    // SAFETY: the caller gives a text that ends with 0.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Why::Argument("a text is not UTF-8"))
}

/// Things of the caller's.
unsafe fn many<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], Why> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Why::Argument("a pointer is NULL and its count is not 0")),
        // SAFETY: the caller gives so many.
        (false, count) => Ok(unsafe { slice::from_raw_parts(pointer, count) }),
    }
}

/// Opens a volume.
///
/// # Safety
///
/// `addresses` points to `count` texts, `name` is a text, `error` is null or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_open(
    addresses: *const *const c_char,
    count: usize,
    name: *const c_char,
    error: *mut weft_error,
) -> *mut weft_volume {
    let open = || {
        // SAFETY: as above.
        let addresses = unsafe { many(addresses, count) }?;
        let addresses: Vec<&str> = addresses
            .iter()
            // SAFETY: as above.
            .map(|a| unsafe { text(*a) })
            .collect::<Result<_, _>>()?;
        // SAFETY: as above.
        Ok(Volume::open(&addresses, unsafe { text(name) }?)?)
    };
    // SAFETY: as above.
    let volume = unsafe { tell(open(), error) };
    volume.map_or(ptr::null_mut(), |v| Box::into_raw(Box::new(weft_volume(v))))
}

/// Closes a volume.
///
/// # Safety
///
/// `volume` is null or came from [`weft_open`], and is not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_close(volume: *mut weft_volume) {
    if !volume.is_null() {
        // SAFETY: it came from a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(volume) });
    }
}

/// Its size in bytes; 0 of null.
///
/// # Safety
///
/// `volume` is null or came from [`weft_open`] and is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_size(volume: *const weft_volume) -> u64 {
    // SAFETY: as above.
    unsafe { volume.as_ref() }.map_or(0, |v| v.0.size())
}

/// The most bytes that a read or a write may have.
///
/// # Safety
///
/// `volume` is null or came from [`weft_open`] and is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_max_length(volume: *const weft_volume) -> u32 {
    // SAFETY: as above.
    unsafe { volume.as_ref() }.map_or(0, |v| v.0.limits().request_bytes)
}

/// Takes a request.
unsafe fn take(
    volume: *mut weft_volume,
    op: Result<Op, Why>,
    after: *const weft_id,
    count: usize,
    patient: bool,
    error: *mut weft_error,
) -> *mut weft_request {
    let submit = || {
        // SAFETY: the caller gives a volume that is open, or null.
        let volume = unsafe { volume.as_ref() }.ok_or(Why::Argument("the volume is NULL"))?;
        // SAFETY: the caller gives so many.
        let after = unsafe { many(after, count) }?;
        let after: Vec<Id> =
            after.iter().map(|id| Id { host: id.host, number: id.number }).collect();
        let op = op?;
        Ok(match patient {
            true => volume.0.submit(op, &after)?,
            false => volume.0.try_submit(op, &after)?,
        })
    };
    // SAFETY: the caller gives room for an error, or null.
    let request = unsafe { tell(submit(), error) };
    request.map_or(ptr::null_mut(), |r| Box::into_raw(Box::new(weft_request(r))))
}

/// What is to be written, copied.
unsafe fn data(data: *const c_void, length: u64) -> Result<bytes::Bytes, Why> {
    let length = usize::try_from(length).map_err(|_| Why::Argument("the length is too large"))?;
    // SAFETY: the caller gives so many bytes.
    let bytes = unsafe { many(data.cast::<u8>(), length) }?;
    Ok(bytes.to_vec().into())
}

/// Reads.
///
/// # Safety
///
/// `volume` came from [`weft_open`] and is open, `after` points to `count` names, `error` is null or
/// points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_read(
    volume: *mut weft_volume,
    offset: u64,
    length: u32,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    unsafe { take(volume, Ok(Op::Read(offset, length)), after, count, true, error) }
}

/// Writes.
///
/// # Safety
///
/// As [`weft_read`], and `data` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write(
    volume: *mut weft_volume,
    offset: u64,
    data: *const c_void,
    length: u32,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    let op = unsafe { self::data(data, length.into()) }.map(|data| Op::Write(offset, data));
    // SAFETY: as above.
    unsafe { take(volume, op, after, count, true, error) }
}

/// Makes what has ended, and what this comes after, safe from a power cut.
///
/// # Safety
///
/// As [`weft_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_flush(
    volume: *mut weft_volume,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    unsafe { take(volume, Ok(Op::Flush), after, count, true, error) }
}

/// Says that bytes are not needed.
///
/// # Safety
///
/// As [`weft_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_trim(
    volume: *mut weft_volume,
    offset: u64,
    length: u64,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    unsafe { take(volume, Ok(Op::Trim(offset, length)), after, count, true, error) }
}

/// Makes bytes read as zeros.
///
/// # Safety
///
/// As [`weft_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write_zeroes(
    volume: *mut weft_volume,
    offset: u64,
    length: u64,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    unsafe { take(volume, Ok(Op::WriteZeroes(offset, length)), after, count, true, error) }
}

/// Takes any request, if there is room.
///
/// # Safety
///
/// As [`weft_read`], and for writes `data` points to `length` bytes.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn weft_try(
    volume: *mut weft_volume,
    verb: c_int,
    offset: u64,
    data: *const c_void,
    length: u64,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    let data = || unsafe { self::data(data, length) };
    let op = match verb {
        1 => u32::try_from(length)
            .map(|length| Op::Read(offset, length))
            .map_err(|_| Why::Argument("the length is too large")),
        2 => data().map(|data| Op::Write(offset, data)),
        3 => Ok(Op::Flush),
        4 => Ok(Op::Trim(offset, length)),
        5 => Ok(Op::WriteZeroes(offset, length)),
        6 => data().map(|data| Op::WriteDurable(offset, data)),
        _ => Err(Why::Argument("there is no such verb")),
    };
    // SAFETY: as above.
    unsafe { take(volume, op, after, count, false, error) }
}

/// The request's name.
///
/// # Safety
///
/// `request` came from one of the functions above and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_request_id(request: *const weft_request) -> weft_id {
    // SAFETY: as above.
    let id = unsafe { request.as_ref() }.map_or(Id { host: 0, number: 0 }, |r| r.0.id());
    weft_id { host: id.host, number: id.number }
}

/// Whether the request has ended.
///
/// # Safety
///
/// As [`weft_request_id`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_has_ended(request: *const weft_request) -> c_int {
    // SAFETY: as above.
    unsafe { request.as_ref() }.map_or(1, |r| c_int::from(r.0.get().is_some()))
}

/// Waits until the request has ended, and frees it.
///
/// # Safety
///
/// As [`weft_request_id`], and it is not used after; `buffer` is null or has room for `length` bytes,
/// `error` is null or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_wait(
    request: *mut weft_request,
    buffer: *mut c_void,
    length: usize,
    error: *mut weft_error,
) -> c_int {
    let wait = || {
        if request.is_null() {
            return Err(Why::Argument("the request is NULL"));
        }
        // SAFETY: it came from a box, and nobody uses it any more.
        let request = unsafe { Box::from_raw(request) };
        let bytes = request.0.wait()?;
        if !buffer.is_null() {
            // SAFETY: there is room for `length` bytes, and no more are copied.
            unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len().min(length))
            };
        }
        Ok(())
    };
    let result = wait();
    let kind = match &result {
        Ok(()) => OK,
        Err(Why::Argument(_)) => ARGUMENT,
        Err(Why::Client(e)) => kind(e),
    };
    // SAFETY: as above.
    unsafe { tell(result, error) };
    kind
}

/// Frees a request that nobody waits for.
///
/// # Safety
///
/// `request` is null or as for [`weft_request_id`], and is not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_forget(request: *mut weft_request) {
    if !request.is_null() {
        // SAFETY: it came from a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(request) });
    }
}
