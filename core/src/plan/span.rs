//! Byte ranges inside a stripe unit.
//!
//! A contiguous request touches one range of each unit, and of the units' union at most two
//! (the end of one unit and the beginning of the next), so two ranges are enough everywhere.

use crate::Buffer;
use crate::units::SECTOR;

/// Bytes `lo..hi` of a stripe unit; empty if `lo >= hi`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub lo: u64,
    /// One past the last byte.
    pub hi: u64,
}

impl Span {
    /// No bytes.
    pub const EMPTY: Span = Span { lo: 0, hi: 0 };

    /// Bytes `lo..hi`.
    pub fn new(lo: u64, hi: u64) -> Span {
        if lo < hi { Span { lo, hi } } else { Span::EMPTY }
    }

    /// How many bytes.
    pub fn len(self) -> u64 {
        self.hi - self.lo
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.lo == self.hi
    }

    /// The bytes in both.
    pub fn intersect(self, other: Span) -> Span {
        Span::new(self.lo.max(other.lo), self.hi.min(other.hi))
    }

    /// Whether all of `other` is inside.
    pub fn covers(self, other: Span) -> bool {
        other.is_empty() || (self.lo <= other.lo && other.hi <= self.hi)
    }

    /// The whole sectors that hold these bytes.
    pub fn sectors_out(self) -> Span {
        Span::new(self.lo / SECTOR * SECTOR, self.hi.next_multiple_of(SECTOR))
    }
}

/// Up to two disjoint ranges, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spans {
    parts: [Span; 2],
}

impl Spans {
    /// No bytes.
    pub const EMPTY: Spans = Spans { parts: [Span::EMPTY; 2] };

    /// The union of ranges; ranges that touch become one.
    ///
    /// # Panics
    /// If more than two remain apart: no request does that.
    pub fn union(ranges: impl IntoIterator<Item = Span>) -> Spans {
        let mut out = Spans::EMPTY;
        for mut span in ranges.into_iter().filter(|s| !s.is_empty()) {
            let mut apart = Spans::EMPTY;
            for part in out.iter() {
                if part.lo <= span.hi && span.lo <= part.hi {
                    span = Span::new(part.lo.min(span.lo), part.hi.max(span.hi));
                } else {
                    apart.push(part);
                }
            }
            apart.push(span);
            if apart.parts[1].is_empty() || apart.parts[0].lo < apart.parts[1].lo {
                out = apart;
            } else {
                out = Spans { parts: [apart.parts[1], apart.parts[0]] };
            }
        }
        out
    }

    fn push(&mut self, span: Span) {
        let free = self.parts.iter().position(|p| p.is_empty()).expect("at most two ranges");
        self.parts[free] = span;
    }

    /// The ranges, in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Span> {
        self.parts.into_iter().filter(|p| !p.is_empty())
    }

    /// How many ranges.
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// How many bytes.
    pub fn len(self) -> u64 {
        self.parts[0].len() + self.parts[1].len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes that are not in `span`.
    pub fn minus(self, span: Span) -> Spans {
        if span.is_empty() {
            return self;
        }
        Spans::union(
            self.iter().flat_map(|p| {
                [Span::new(p.lo, p.hi.min(span.lo)), Span::new(p.lo.max(span.hi), p.hi)]
            }),
        )
    }

    /// The whole sectors that hold these bytes.
    pub fn sectors_out(self) -> Spans {
        Spans::union(self.iter().map(Span::sectors_out))
    }

    /// Where `span`, which lies inside one of the ranges, begins in the ranges' bytes laid
    /// end to end.
    pub fn position(self, span: Span) -> Option<usize> {
        let mut before = 0;
        for part in self.iter() {
            if part.covers(span) {
                return Some((before + span.lo - part.lo) as usize);
            }
            before += part.len();
        }
        None
    }
}

impl From<Span> for Spans {
    fn from(span: Span) -> Spans {
        Spans { parts: [span, Span::EMPTY] }
    }
}

/// The bytes of `wanted` out of sources laid over one another, later ones on top: each
/// source is ranges and their bytes end to end. What no source has is zero. Copies nothing
/// where one source, the last that touches `wanted`, has it all in one piece.
pub fn compose(wanted: Spans, sources: &[(Spans, &Buffer)]) -> Buffer {
    if wanted.count() == 1 {
        let span = wanted.iter().next().expect("one range");
        let top = sources.iter().rev().find(|(s, _)| touches(*s, span));
        match top {
            Some((spans, bytes)) => {
                if let Some(at) = spans.position(span) {
                    return bytes.slice(at, at + span.len() as usize);
                }
            }
            None => return Buffer::Zero(span.len() as usize),
        }
    }
    if sources.iter().all(|(_, bytes)| bytes.is_zero()) {
        return Buffer::Zero(wanted.len() as usize);
    }
    if sources.iter().any(|(_, bytes)| bytes.is_length()) {
        return Buffer::Length(wanted.len() as usize);
    }
    let mut out = vec![0; wanted.len() as usize];
    for (spans, bytes) in sources {
        for (to, from, n) in overlaps(wanted, *spans) {
            bytes.slice(from, from + n).copy_to(&mut out[to..to + n]);
        }
    }
    out.into()
}

/// Adds `c` times `bytes`, which lie at `spans`, to `sum`, which lies at `at`.
pub fn accumulate(sum: &mut [u8], at: Spans, spans: Spans, bytes: &Buffer, c: u8) {
    for (to, from, n) in overlaps(at, spans) {
        bytes.slice(from, from + n).add_to(&mut sum[to..to + n], c);
    }
}

fn touches(spans: Spans, span: Span) -> bool {
    spans.iter().any(|s| !s.intersect(span).is_empty())
}

/// Where two sets of ranges meet: position in `a`'s bytes, position in `b`'s bytes, length.
fn overlaps(a: Spans, b: Spans) -> impl Iterator<Item = (usize, usize, usize)> {
    a.iter().flat_map(move |x| {
        b.iter().filter_map(move |y| {
            let both = x.intersect(y);
            (!both.is_empty()).then(|| {
                let (to, from) = (a.position(both), b.position(both));
                (to.expect("inside a"), from.expect("inside b"), both.len() as usize)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_and_differences() {
        let ends = Spans::union([Span::new(50, 64), Span::new(0, 10)]);
        assert_eq!(ends.iter().collect::<Vec<_>>(), [Span::new(0, 10), Span::new(50, 64)]);
        assert_eq!(Spans::union([Span::new(0, 10), Span::new(10, 20)]).count(), 1);
        let all = Spans::union([Span::new(0, 10), Span::new(50, 64), Span::new(5, 55)]);
        assert_eq!(all, Spans::from(Span::new(0, 64)));
        assert_eq!(ends.minus(Span::new(50, 64)), Spans::from(Span::new(0, 10)));
        assert_eq!(Spans::from(Span::new(0, 64)).minus(Span::new(8, 9)).len(), 63);
        assert_eq!(ends.position(Span::new(52, 60)), Some(12));
    }

    #[test]
    fn composing_lays_new_over_old() {
        let old = Buffer::from(vec![1; 8]);
        let new = Buffer::from(vec![2; 3]);
        let at = Spans::from(Span::new(0, 8));
        let sources = [(at, &old), (Spans::from(Span::new(2, 5)), &new)];
        assert_eq!(compose(at, &sources), Buffer::from(vec![1, 1, 2, 2, 2, 1, 1, 1]));
        let within = compose(Span::new(3, 5).into(), &sources);
        assert_eq!(within, Buffer::from(vec![2, 2]));
    }
}
