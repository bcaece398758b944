//! Ranges of a volume that have a redundancy of their own, in words.

use weft_host::Size;
use weft_host::status::VolumeStatus;
use weft_terminal::bytes;

/// What the ranges of a volume choose, and what is exposed of each now.
pub(super) fn in_words(volume: &VolumeStatus) -> impl Iterator<Item = String> + '_ {
    volume.ranges.iter().map(|range| {
        let choices = range.policy.iter().map(|(key, w)| format!("{}: {w}", key.replace('_', "-")));
        let exposed = match &range.exposed {
            Some(e) => format!("; {} exposed by {} stripe units", bytes(e.bytes), e.stripes),
            None => String::new(),
        };
        let (from, to) = (Size(range.offset), Size(range.offset + range.length));
        format!("bytes {from}..{to}: {}{exposed}", choices.collect::<Vec<_>>().join(", "))
    })
}
