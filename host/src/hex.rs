//! Bytes in hexadecimal.

/// Bytes, two small digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text that is made of pairs of digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|c| c.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let pair = |two: &[u32]| (two[0] << 4 | two[1]) as u8;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!((unhex("Af"), unhex("")), (Some(vec![0xaf]), Some(vec![])));
        assert_eq!((unhex("a"), unhex("0g")), (None, None));
    }
}
