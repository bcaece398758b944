//! Digests of headers and data: CRC-32C, lowest byte first (RFC 7143, 13.1).

use bytes::Bytes;
use weft_bytes::checksum::{crc32c, crc32c_append};

/// Length of a digest.
pub(super) const LEN: usize = 4;

/// The bytes of padding.
const PADDING: [u8; 3] = [0; 3];

/// The padding after this many bytes.
pub(super) fn padding(len: usize) -> &'static [u8] {
    &PADDING[..super::pdu::padded(len) - len]
}

/// The digest of a header, or of data with their padding.
pub(super) fn of(bytes: &[u8]) -> [u8; LEN] {
    crc32c(bytes).to_le_bytes()
}

/// The digest of data in pieces, with their padding.
pub(super) fn of_pieces(pieces: &[Bytes]) -> [u8; LEN] {
    let len = pieces.iter().map(Bytes::len).sum();
    let all = pieces.iter().fold(0, |crc, piece| crc32c_append(crc, piece));
    crc32c_append(all, padding(len)).to_le_bytes()
}

/// Whether bytes end with the digest of those before.
pub(super) fn is_right(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(before, digest)| of(before) == *digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143, appendix A.4 (as in RFC 3720): a READ command.
    #[test]
    fn the_values_are_the_standards() {
        let zeros = [0; 32];
        assert_eq!(of(&zeros), [0xaa, 0x36, 0x91, 0x8a]);
        let pieces = [Bytes::from(vec![0; 5]), Bytes::new(), Bytes::from(vec![0; 24])];
        assert_eq!(of_pieces(&pieces), of(&zeros), "29 bytes and three of padding");
        assert!(is_right(&[&zeros[..], &[0xaa, 0x36, 0x91, 0x8a]].concat()));
        assert!(!is_right(&[&zeros[..], &[0xaa, 0x36, 0x91, 0x8b]].concat()) && !is_right(&[1]));
    }
}
