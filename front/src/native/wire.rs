//! The format: what each message holds, and where.
//!
//! All numbers are big-endian. Every header has a fixed length, given by `LEN`;
//! what follows it is as long as the header says.

use std::fmt;

use bytes::Bytes;
use weft_bytes::{Big, Read, Reader, Writer};

/// The version that this code speaks. A host says which it knows, from and to.
pub const VERSION: u16 = 1;

/// Opens a hello: "WEFTHOST".
pub const HELLO: u64 = 0x5745_4654_484f_5354;
/// Opens the answer to it: "WEFTNODE".
pub const WELCOME: u64 = 0x5745_4654_4e4f_4445;
/// Opens a request: "rq".
pub const REQUEST: u16 = 0x7271;
/// Opens an answer: "an".
pub const ANSWER: u16 = 0x616e;

/// The longest name of a volume that is looked at.
pub const LONGEST_NAME: usize = 255;

/// The longest text of an answer; longer ones are cut.
pub const LONGEST_TEXT: usize = 1024;

/// Bits of a hello.
pub mod hello_flag {
    /// The host has been connected under this number before.
    pub const RESUMES: u16 = 1;
}

/// Bits of a welcome.
pub mod welcome_flag {
    /// The node remembers the host: it knows what became of its requests.
    pub const REMEMBERED: u16 = 1;
    /// What is answered as written is safe from a power cut.
    pub const JOURNALED: u16 = 2;
    /// The host may only read the volume.
    pub const READ_ONLY: u16 = 4;
}

/// Bits of a request.
pub mod flag {
    /// Answer only when the effect is safe from a power cut.
    pub const DURABLE: u8 = 1;
    /// It was sent before, over a connection that broke.
    pub const AGAIN: u8 = 2;
    /// It comes after others that are not named because they are complete.
    pub const AFTER_COMPLETED: u8 = 4;
    /// All of them.
    pub const ALL: u8 = DURABLE | AGAIN | AFTER_COMPLETED;
}

/// A request's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The host's number.
    pub host: u64,
    /// The request's, of that host; from 1 on.
    pub number: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} of host {:016x}", self.number, self.host)
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read; the answer has data.
    Read = 1,
    /// Write; the request has data.
    Write = 2,
    /// Make what was answered before safe from a power cut.
    Flush = 3,
    /// The range is not needed.
    Trim = 4,
    /// Make the range read as zeros.
    WriteZeroes = 5,
    /// Good-bye: the host will not come back.
    Bye = 6,
}

impl Verb {
    /// The verb of a number.
    pub fn of(number: u8) -> Option<Verb> {
        use Verb::*;
        [Read, Write, Flush, Trim, WriteZeroes, Bye].into_iter().find(|v| *v as u8 == number)
    }

    /// Whether it changes bytes.
    pub fn changes(self) -> bool {
        matches!(self, Verb::Write | Verb::Trim | Verb::WriteZeroes)
    }
}

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Well.
    Done = 0,
    /// The node speaks none of the versions that the host knows.
    Version = 1,
    /// There is no such volume.
    NoVolume = 2,
    /// The host's number is in use with another volume.
    OtherVolume = 3,
    /// Nothing orders the volume's requests, and another host writes to it.
    SecondWriter = 4,
    /// The node does not take part now: go to another.
    NotServing = 5,
    /// The host has no right to it, or has not proved who it is.
    NotAllowed = 6,
    /// The request makes no sense.
    Malformed = 16,
    /// It is longer than the node takes.
    TooLong = 17,
    /// It names more that must come first than the node takes.
    TooManyAfter = 18,
    /// Its number is too far ahead of the oldest that the host has not heard of.
    TooFarAhead = 19,
    /// It goes past the end of the volume.
    OutOfRange = 20,
    /// More columns are lost or unreadable than the layout can recover.
    Lost = 21,
    /// Others came between each time that it was tried.
    NoProgress = 22,
    /// It failed for a reason that only the text tells.
    Failed = 23,
    /// It was sent before, and nobody can say any more whether it happened.
    Unknown = 24,
    /// A disk is full, and the write would take space of it.
    NoSpace = 25,
    /// It is to come after itself.
    AfterItself = 32,
    /// What it is to come after waits for it.
    Cycle = 33,
    /// Its number has been used.
    Reused = 34,
    /// Too many wait for requests that have not been sent.
    TooManyUnissued = 35,
    /// One that must come first was aborted or failed.
    Aborted = 36,
    /// One that must come first was not sent in time.
    NeverIssued = 37,
    /// One that must come first is another host's, and the volume's ordering knows none of those.
    NotOrdered = 38,
}

impl Code {
    /// All of them.
    pub const ALL: [Code; 24] = [
        Code::Done,
        Code::Version,
        Code::NoVolume,
        Code::OtherVolume,
        Code::SecondWriter,
        Code::NotServing,
        Code::NotAllowed,
        Code::Malformed,
        Code::TooLong,
        Code::TooManyAfter,
        Code::TooFarAhead,
        Code::OutOfRange,
        Code::Lost,
        Code::NoProgress,
        Code::Failed,
        Code::Unknown,
        Code::NoSpace,
        Code::AfterItself,
        Code::Cycle,
        Code::Reused,
        Code::TooManyUnissued,
        Code::Aborted,
        Code::NeverIssued,
        Code::NotOrdered,
    ];

    /// The code of a number. One that is not known is a failure all the same.
    pub fn of(number: u16) -> Code {
        Code::ALL.into_iter().find(|c| *c as u16 == number).unwrap_or(Code::Failed)
    }
}

/// A host's first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version that it knows.
    pub from: u16,
    /// The highest.
    pub to: u16,
    /// Its number, which it drew at random when it began.
    pub host: u64,
    /// The oldest of its requests that it has not heard the end of.
    pub oldest: u64,
    /// Whether it has been connected under this number before.
    pub resumes: bool,
    /// The volume; the empty name means the first.
    pub volume: String,
}

impl Hello {
    /// Bytes before the name.
    pub const LEN: usize = 32;

    /// Its bytes, the name included.
    pub fn encode(&self) -> Vec<u8> {
        let name = &self.volume.as_bytes()[..self.volume.len().min(u16::MAX.into())];
        let mut out = Writer::<Big>::with_room(Hello::LEN + name.len());
        out.u64(HELLO);
        out.u16(self.from);
        out.u16(self.to);
        out.u16(if self.resumes { hello_flag::RESUMES } else { 0 });
        out.u16(name.len() as u16);
        out.u64(self.host);
        out.u64(self.oldest);
        out.raw(name);
        out.finish()
    }

    /// Reads a header, and how long the name behind it is. An error is what stands where
    /// [`HELLO`] should.
    pub fn decode(bytes: &[u8; Hello::LEN]) -> Result<(Hello, usize), u64> {
        header(bytes, |b| {
            let magic = b.u64()?;
            if magic != HELLO {
                return Ok(Err(magic));
            }
            let (from, to, flags, name) = (b.u16()?, b.u16()?, b.u16()?, b.u16()?);
            let (host, oldest) = (b.u64()?, b.u64()?);
            let resumes = flags & hello_flag::RESUMES != 0;
            Ok(Ok((Hello { from, to, host, oldest, resumes, volume: String::new() }, name.into())))
        })
    }
}

/// What a node takes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a read or a write.
    pub request_bytes: u32,
    /// Bytes of reads and writes that are not answered. One request may go beyond.
    pub bytes_in_work: u32,
    /// Requests that are not answered.
    pub requests_in_work: u32,
    /// How far a number may be ahead of the oldest that the host has not heard the end of.
    pub ahead: u32,
    /// Requests that one may name as coming first.
    pub after: u16,
}

/// The node's answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both speak from now on.
    pub version: u16,
    /// Whether the host is welcome; if not the connection ends.
    pub code: Code,
    /// Whether the node knows what became of the host's requests.
    pub remembered: bool,
    /// Whether what is answered as written is safe from a power cut.
    pub journaled: bool,
    /// The host may only read the volume.
    pub read_only: bool,
    /// The volume's size in bytes.
    pub size: u64,
    /// What the node takes.
    pub limits: Limits,
    /// Why not, or nothing.
    pub text: String,
}

impl Welcome {
    /// Bytes before the text.
    pub const LEN: usize = 44;

    /// Its bytes, the text included.
    pub fn encode(&self) -> Vec<u8> {
        let text = cut(&self.text);
        let mut out = Writer::<Big>::with_room(Welcome::LEN + text.len());
        out.u64(WELCOME);
        out.u16(self.version);
        out.u16(self.code as u16);
        let remembered = if self.remembered { welcome_flag::REMEMBERED } else { 0 };
        let journaled = if self.journaled { welcome_flag::JOURNALED } else { 0 };
        let read_only = if self.read_only { welcome_flag::READ_ONLY } else { 0 };
        out.u16(remembered | journaled | read_only);
        out.u16(text.len() as u16);
        out.u64(self.size);
        out.u32(self.limits.request_bytes);
        out.u32(self.limits.bytes_in_work);
        out.u32(self.limits.requests_in_work);
        out.u32(self.limits.ahead);
        out.u16(self.limits.after);
        out.u16(0);
        out.raw(text.as_bytes());
        out.finish()
    }

    /// Reads a header, and how long the text behind it is. An error is what stands where
    /// [`WELCOME`] should.
    pub fn decode(bytes: &[u8; Welcome::LEN]) -> Result<(Welcome, usize), u64> {
        header(bytes, |b| {
            let magic = b.u64()?;
            if magic != WELCOME {
                return Ok(Err(magic));
            }
            let (version, code, flags, text) = (b.u16()?, b.u16()?, b.u16()?, b.u16()?);
            let size = b.u64()?;
            let limits = Limits {
                request_bytes: b.u32()?,
                bytes_in_work: b.u32()?,
                requests_in_work: b.u32()?,
                ahead: b.u32()?,
                after: b.u16()?,
            };
            let welcome = Welcome {
                version,
                code: Code::of(code),
                remembered: flags & welcome_flag::REMEMBERED != 0,
                journaled: flags & welcome_flag::JOURNALED != 0,
                read_only: flags & welcome_flag::READ_ONLY != 0,
                size,
                limits,
                text: String::new(),
            };
            Ok(Ok((welcome, text.into())))
        })
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedRequest {
    /// What it does.
    pub verb: Verb,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Its number.
    pub number: u64,
    /// The oldest of the host's requests that it has not heard the end of.
    pub oldest: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Those that must come first.
    pub after: Vec<Name>,
    /// What to write.
    pub data: Bytes,
}

impl NumberedRequest {
    /// Bytes before the names of those that come first and the data.
    pub const LEN: usize = 40;

    /// Whether a bit of [`flag`] is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Header and names.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut out = Writer::<Big>::with_room(NumberedRequest::LEN + Name::LEN * self.after.len());
        out.u16(REQUEST);
        out.u8(self.verb as u8);
        out.u8(self.flags);
        out.u16(self.after.len() as u16);
        out.u16(0);
        out.u64(self.number);
        out.u64(self.oldest);
        out.u64(self.offset);
        out.u64(self.length);
        for name in &self.after {
            out.u64(name.host);
            out.u64(name.number);
        }
        out.finish()
    }
}

impl Name {
    /// Bytes of a name.
    pub const LEN: usize = 16;

    /// Reads names that follow one another.
    pub fn decode_all(bytes: &[u8]) -> Vec<Name> {
        let (names, _) = bytes.as_chunks::<{ Name::LEN }>();
        names.iter().map(|bytes| header(bytes, Name::read)).collect()
    }

    fn read(b: &mut Reader<'_, Big>) -> Read<Name> {
        Ok(Name { host: b.u64()?, number: b.u64()? })
    }
}

/// A request's header, which may make no sense.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead {
    /// The verb's number.
    pub verb: u8,
    /// Bits of [`flag`], and perhaps others.
    pub flags: u8,
    /// How many names follow.
    pub after: u16,
    /// The request's number.
    pub number: u64,
    /// The oldest that the host has not heard the end of.
    pub oldest: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl RequestHead {
    /// Reads one. An error is what stands where [`REQUEST`] should.
    pub fn decode(bytes: &[u8; NumberedRequest::LEN]) -> Result<RequestHead, u16> {
        header(bytes, |b| {
            let magic = b.u16()?;
            if magic != REQUEST {
                return Ok(Err(magic));
            }
            let (verb, flags, after) = (b.u8()?, b.u8()?, b.u16()?);
            b.u16()?;
            let (number, oldest) = (b.u64()?, b.u64()?);
            Ok(Ok(RequestHead {
                verb,
                flags,
                after,
                number,
                oldest,
                offset: b.u64()?,
                length: b.u64()?,
            }))
        })
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub number: u64,
    /// How.
    pub code: Code,
    /// Because of which other, if of any.
    pub because: Option<Name>,
    /// What was wrong, in words.
    pub text: String,
    /// What was read, in pieces that follow one another.
    pub data: Vec<Bytes>,
}

impl Answer {
    /// Bytes before text and data.
    pub const LEN: usize = 36;

    /// Header and text; the data follow.
    pub fn encode_head(&self) -> Vec<u8> {
        let text = cut(&self.text);
        let mut out = Writer::<Big>::with_room(Answer::LEN + text.len());
        out.u16(ANSWER);
        out.u16(self.code as u16);
        out.u16(text.len() as u16);
        out.u16(u16::from(self.because.is_some()));
        out.u64(self.number);
        let because = self.because.unwrap_or(Name { host: 0, number: 0 });
        out.u64(because.host);
        out.u64(because.number);
        out.u32(self.data.iter().map(Bytes::len).sum::<usize>() as u32);
        out.raw(text.as_bytes());
        out.finish()
    }

    /// Reads a header, and how long text and data behind it are. An error is what stands where
    /// [`ANSWER`] should.
    pub fn decode(bytes: &[u8; Answer::LEN]) -> Result<(Answer, usize, usize), u16> {
        header(bytes, |b| {
            let magic = b.u16()?;
            if magic != ANSWER {
                return Ok(Err(magic));
            }
            let (code, text, flags) = (Code::of(b.u16()?), b.u16()?, b.u16()?);
            let number = b.u64()?;
            let because = Name::read(b)?;
            let length = b.u32()?;
            let because = (flags & 1 != 0).then_some(because);
            let answer = Answer { number, code, because, text: String::new(), data: Vec::new() };
            Ok(Ok((answer, text.into(), length as usize)))
        })
    }
}

/// Reads a header, whose bytes are all there.
fn header<T, const N: usize>(
    bytes: &[u8; N],
    read: impl FnOnce(&mut Reader<'_, Big>) -> Read<T>,
) -> T {
    read(&mut Reader::new(bytes)).expect("a header is as long as its fields")
}

/// A text as long as may be sent.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}
