//! How much of a trace is replayed: what has to be known of it before the first request is made.

use serde::{Deserialize, Serialize};
use weft_core::SECTOR;

use super::{Reader, Record, TraceError};
use crate::{Kind, Nanos};

/// What the requests of a trace come to. Its size depends on the number of devices alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// How many there are.
    pub requests: u64,
    /// Up to which byte they reach, of each device.
    pub ends: Vec<u64>,
    /// Bytes of the longest.
    pub longest: u64,
    /// Nanoseconds from the first to the latest.
    pub span: Nanos,
    /// A hash of all of them (FNV-1a with 64 bits; Fowler, Noll, Vo; RFC 9923): other requests
    /// have, in all likelihood, another.
    pub fingerprint: u64,
    /// Writes that begin or end within a sector. The fingerprint tells such traces from others already.
    #[serde(skip)]
    pub partial_writes: u64,
    /// Time of the first; `None` before it.
    #[serde(skip)]
    first: Option<Nanos>,
}

impl Extent {
    /// Reads the requests of a trace, at most so many from its beginning.
    ///
    /// # Errors
    /// What is wrong with the trace.
    pub fn of(reader: &mut Reader<'_>, at_most: u64) -> Result<Extent, TraceError> {
        let mut extent = Extent { fingerprint: 0xcbf2_9ce4_8422_2325, ..Extent::default() };
        // A request more would be read, and refused if it is bad.
        while extent.requests < at_most
            && let Some(record) = reader.next()
        {
            extent.add(&record?);
        }
        Ok(extent)
    }

    fn add(&mut self, record: &Record) {
        self.requests += 1;
        let first = *self.first.get_or_insert(record.at);
        self.span = self.span.max(record.at.saturating_sub(first));
        self.longest = self.longest.max(record.len);
        let device = record.device as usize;
        if self.ends.len() <= device {
            self.ends.resize(device + 1, 0);
        }
        if record.kind != Kind::Flush {
            self.ends[device] = self.ends[device].max(record.offset + record.len);
        }
        let is_whole = record.offset.is_multiple_of(SECTOR) && record.len.is_multiple_of(SECTOR);
        self.partial_writes += u64::from(record.kind == Kind::Write && !is_whole);
        let kind = record.kind as u64;
        // A time of response that is not known is no time at all.
        let response = record.response.map_or(u64::MAX, |r| r);
        for value in
            [record.at, u64::from(record.device), kind, record.offset, record.len, response]
        {
            for byte in value.to_le_bytes() {
                let hash = self.fingerprint ^ u64::from(byte);
                self.fingerprint = hash.wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Options;

    const TEXT: &str = "time_ns,op,device,offset,bytes\n10,read,a,0,4096\n30,write,b,512,100\n\
                        20,flush,b,0,0\n25,read,a,8192,512\n40,read,a,x,1\n";

    fn extent(text: &str, at_most: u64) -> Result<Extent, TraceError> {
        Extent::of(&mut Reader::new("t", text.as_bytes(), Options::default())?, at_most)
    }

    #[test]
    fn the_extent_is_of_as_many_requests_as_are_asked_for() {
        let all = extent(TEXT, 4).unwrap();
        assert_eq!((all.requests, all.longest, all.span), (4, 4096, 20));
        assert_eq!((all.ends, all.partial_writes), (vec![8704, 612], 1));
        let one = extent(TEXT, 1).unwrap();
        assert_eq!((one.requests, one.ends, one.span), (1, vec![4096], 0));
        assert_eq!(extent(TEXT, 5).unwrap_err().to_string().split(':').next(), Some("t, line 6"));
    }

    #[test]
    fn other_requests_have_another_fingerprint() {
        let of = |text: &str| extent(text, 4).unwrap().fingerprint;
        assert_eq!(of(TEXT), of(&TEXT.replace("\n", "\r\n")));
        for (from, to) in [("10,", "11,"), ("read,a,0", "write,a,0"), ("512,100", "513,100")] {
            assert_ne!(of(TEXT), of(&TEXT.replacen(from, to, 1)), "{from}");
        }
    }
}
