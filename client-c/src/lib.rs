//! The C interface of `weft-client`: what `include/weft.h` declares, and says what it means.
//!
//! The only crate of the client with unsafe code: it takes pointers on the word of its caller.

mod given;

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::time::Duration;

use weft_client::{Certificates, Completion, Ended, Id, Op, Options, Volume};

pub use given::weft_error;
use given::{OK, Why, copy, many, tell, text};

/// A volume that is open.
#[allow(non_camel_case_types)]
pub struct weft_volume {
    volume: Volume,
    /// Since its descriptor has been asked for.
    ended: OnceLock<Ended>,
}

/// How patient a host is; 0 means what it is without this.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_options {
    /// Milliseconds to look for a node at first.
    pub open_patience_ms: u32,
    /// The same when the connection broke.
    pub patience_ms: u32,
    /// Of silence, after which a node is given up that owes answers.
    pub stall_ms: u32,
}

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
    // SAFETY: as above.
    unsafe { weft_open_with(addresses, count, name, ptr::null(), error) }
}

/// Opens a volume, with other patience.
///
/// # Safety
///
/// As [`weft_open`], and `options` is null or points to some.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_open_with(
    addresses: *const *const c_char,
    count: usize,
    name: *const c_char,
    options: *const weft_options,
    error: *mut weft_error,
) -> *mut weft_volume {
    // SAFETY: as above.
    unsafe { open(addresses, count, name, None, options, error) }
}

/// Opens a volume over TLS, with the certificates in `directory`.
///
/// # Safety
///
/// As [`weft_open_with`], and `directory` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_open_tls(
    addresses: *const *const c_char,
    count: usize,
    name: *const c_char,
    directory: *const c_char,
    options: *const weft_options,
    error: *mut weft_error,
) -> *mut weft_volume {
    // SAFETY: as above.
    unsafe { open(addresses, count, name, Some(directory), options, error) }
}

unsafe fn open(
    addresses: *const *const c_char,
    count: usize,
    name: *const c_char,
    directory: Option<*const c_char>,
    options: *const weft_options,
    error: *mut weft_error,
) -> *mut weft_volume {
    let open = || {
        // SAFETY: as above.
        let mut options = patience(unsafe { options.as_ref() });
        if let Some(directory) = directory {
            // SAFETY: as above.
            options.certificates = Some(Certificates::load(unsafe { text(directory) }?)?);
        }
        // SAFETY: as above.
        let addresses = unsafe { many(addresses, count) }?;
        let addresses: Vec<&str> = addresses
            .iter()
            // SAFETY: as above.
            .map(|a| unsafe { text(*a) })
            .collect::<Result<_, _>>()?;
        // SAFETY: as above.
        let name = unsafe { text(name) }?;
        Ok(Volume::opening(&addresses, name, options)?.wait()?)
    };
    // SAFETY: as above.
    let volume = unsafe { tell(open(), error) };
    let open = |volume| Box::into_raw(Box::new(weft_volume { volume, ended: OnceLock::new() }));
    volume.map_or(ptr::null_mut(), open)
}

fn patience(options: Option<&weft_options>) -> Options {
    let usual = Options::default();
    let Some(given) = options else { return usual };
    let or = |ms: u32, usual| match ms {
        0 => usual,
        ms => Duration::from_millis(ms.into()),
    };
    Options {
        open_patience: or(given.open_patience_ms, usual.open_patience),
        patience: or(given.patience_ms, usual.patience),
        stall: or(given.stall_ms, usual.stall),
        certificates: None,
    }
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
    unsafe { volume.as_ref() }.map_or(0, |v| v.volume.size())
}

/// The most bytes that a read or a write may have.
///
/// # Safety
///
/// `volume` is null or came from [`weft_open`] and is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_max_length(volume: *const weft_volume) -> u32 {
    // SAFETY: as above.
    unsafe { volume.as_ref() }.map_or(0, |v| v.volume.limits().request_bytes)
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
            true => volume.volume.submit(op, &after)?,
            false => volume.volume.try_submit(op, &after)?,
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

/// Writes, and has ended only when that is safe from a power cut.
///
/// # Safety
///
/// As [`weft_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write_durable(
    volume: *mut weft_volume,
    offset: u64,
    data: *const c_void,
    length: u32,
    after: *const weft_id,
    count: usize,
    error: *mut weft_error,
) -> *mut weft_request {
    // SAFETY: as above.
    let op = unsafe { self::data(data, length.into()) }.map(|data| Op::WriteDurable(offset, data));
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
    let op = unsafe { any(verb, offset, data, length) };
    // SAFETY: as above.
    unsafe { take(volume, op, after, count, false, error) }
}

/// Takes a request that comes after all that have not ended.
///
/// # Safety
///
/// As [`weft_try`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_after_all(
    volume: *mut weft_volume,
    verb: c_int,
    offset: u64,
    data: *const c_void,
    length: u64,
    error: *mut weft_error,
) -> *mut weft_request {
    let submit = || {
        // SAFETY: as above.
        let volume = unsafe { volume.as_ref() }.ok_or(Why::Argument("the volume is NULL"))?;
        // SAFETY: as above.
        Ok(volume.volume.submit_after_all(unsafe { any(verb, offset, data, length) }?)?)
    };
    // SAFETY: as above.
    let request = unsafe { tell(submit(), error) };
    request.map_or(ptr::null_mut(), |r| Box::into_raw(Box::new(weft_request(r))))
}

/// What a request of this verb does.
unsafe fn any(verb: c_int, offset: u64, data: *const c_void, length: u64) -> Result<Op, Why> {
    // SAFETY: the caller gives so many bytes for writes.
    let data = || unsafe { self::data(data, length) };
    match verb {
        1 => u32::try_from(length)
            .map(|length| Op::Read(offset, length))
            .map_err(|_| Why::Argument("the length is too large")),
        2 => data().map(|data| Op::Write(offset, data)),
        3 => Ok(Op::Flush),
        4 => Ok(Op::Trim(offset, length)),
        5 => Ok(Op::WriteZeroes(offset, length)),
        6 => data().map(|data| Op::WriteDurable(offset, data)),
        _ => Err(Why::Argument("there is no such verb")),
    }
}

/// A descriptor that can be polled for the ends of requests; -1 if there is none.
///
/// # Safety
///
/// `volume` came from [`weft_open`] and is open, `error` is null or points to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_descriptor(
    volume: *mut weft_volume,
    error: *mut weft_error,
) -> c_int {
    let descriptor = || {
        // SAFETY: as above.
        let volume = unsafe { volume.as_ref() }.ok_or(Why::Argument("the volume is NULL"))?;
        let ended = match volume.ended.get() {
            Some(ended) => ended,
            None => {
                let ended = volume.volume.ended()?;
                volume.ended.get_or_init(|| ended)
            }
        };
        Ok(ended.as_fd().as_raw_fd())
    };
    // SAFETY: as above.
    unsafe { tell(descriptor(), error) }.unwrap_or(-1)
}

/// The next request that has ended; zeros if there is none.
///
/// # Safety
///
/// `volume` is null or came from [`weft_open`] and is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_next_ended(volume: *mut weft_volume) -> weft_id {
    // SAFETY: as above.
    let next = unsafe { volume.as_ref() }.and_then(|v| v.ended.get()?.take());
    next.map_or(weft_id { host: 0, number: 0 }, |id| weft_id { host: id.host, number: id.number })
}

/// Prints a request's name as errors do.
///
/// # Safety
///
/// `text` is null or has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_id_text(id: weft_id, text: *mut c_char, room: usize) -> usize {
    let words = Id { host: id.host, number: id.number }.to_string();
    if !text.is_null() && room > 0 {
        // SAFETY: there is so much room.
        let text = unsafe { slice::from_raw_parts_mut(text, room) };
        let cut = words.len().min(room - 1);
        copy(&words[..cut], text);
        text[cut] = 0;
    }
    words.len()
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
    // SAFETY: as above.
    unsafe { end(request, None, buffer, length, error) }
}

/// The same, for so many milliseconds; what has not ended by then is not freed.
///
/// # Safety
///
/// As [`weft_wait`], but it may be used after if the answer is that time has run out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_wait_for(
    request: *mut weft_request,
    milliseconds: u32,
    buffer: *mut c_void,
    length: usize,
    error: *mut weft_error,
) -> c_int {
    let time = Some(Duration::from_millis(milliseconds.into()));
    // SAFETY: as above.
    unsafe { end(request, time, buffer, length, error) }
}

/// Waits for a request's end, frees it if it has ended, and says how it has.
unsafe fn end(
    request: *mut weft_request,
    time: Option<Duration>,
    buffer: *mut c_void,
    length: usize,
    error: *mut weft_error,
) -> c_int {
    let wait = || {
        // SAFETY: it came from a box and is not freed yet, or it is null.
        let this = unsafe { request.as_ref() }.ok_or(Why::Argument("the request is NULL"))?;
        if let Some(time) = time {
            this.0.wait_for(time).ok_or(Why::TimedOut)?.ok();
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
    let kind = result.as_ref().map_or_else(Why::kind, |()| OK);
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
