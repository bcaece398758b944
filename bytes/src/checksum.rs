//! CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of every format of Weft. The processor computes it, where it can.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// That of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// That of bytes of which the beginning has this checksum, and of which these are the rest.
pub fn crc32c_append(beginning: u32, rest: &[u8]) -> u32 {
    // What is computed with is the complement of what is said.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!beginning));
    digest.update(rest);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, B.4, and the check value of the catalogue of parametrised CRC algorithms.
    #[test]
    fn the_values_are_the_standards() {
        let up: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        for (bytes, crc) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&up, 0x46dd_794e),
            (&down, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(bytes), crc, "{bytes:?}");
        }
    }

    /// Bit by bit, as it is defined, for lengths and places at which fast ways begin, end and change.
    #[test]
    fn any_length_from_any_place_is_as_by_the_definition() {
        let plain = |bytes: &[u8]| {
            !bytes.iter().fold(!0_u32, |crc, byte| {
                let bit = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
                (0..8).fold(crc ^ u32::from(*byte), bit)
            })
        };
        let all: Vec<u8> =
            (0..9000_u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let lengths = (0..300).chain([511, 512, 513, 1023, 1024, 4095, 4096, 4097, 8192]);
        for (from, length) in lengths.enumerate().map(|(n, length)| (n % 67, length)) {
            let bytes = &all[from..from + length];
            let right = plain(bytes);
            assert_eq!(crc32c(bytes), right, "{length} from {from}");
            for cut in [0, 1, length / 3, length] {
                let (one, two) = bytes.split_at(cut.min(length));
                assert_eq!(crc32c_append(crc32c(one), two), right, "{length} cut at {cut}");
            }
        }
    }
}
