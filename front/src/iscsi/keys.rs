//! Keys and values as text: `key=value`, each followed by a zero byte (RFC 7143, 6).

/// The longest name of a key.
const LONGEST_KEY: usize = 63;

/// The longest text, in bytes, that is assembled from several requests.
pub(super) const MOST_TEXT: usize = 64 << 10;

/// Why a text is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TextError {
    #[error("it is not UTF-8")]
    Utf8,
    #[error("a line of it is not key=value")]
    Pair,
}

/// A key with its value.
pub(super) type Pair = (String, String);

/// The keys and values of a text, in order.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Pair>, TextError> {
    let text = std::str::from_utf8(text).map_err(|_| TextError::Utf8)?;
    let lines = text.split('\0').filter(|line| !line.is_empty());
    lines.map(pair).collect()
}

fn pair(line: &str) -> Result<Pair, TextError> {
    let (key, value) = line.split_once('=').ok_or(TextError::Pair)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-+@_#/".contains(c);
    if key.is_empty() || key.len() > LONGEST_KEY || !key.chars().all(plain) {
        return Err(TextError::Pair);
    }
    Ok((key.to_string(), value.to_string()))
}

/// Appends a key and a value to a text.
pub(super) fn append(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend_from_slice(key.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// A number in a value: decimal, or hexadecimal after `0x`.
pub(super) fn number(value: &str) -> Option<u32> {
    let hexadecimal = value.strip_prefix("0x").or(value.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((value, 10), |digits| (digits, 16));
    let all = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    all.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
}

/// A binary value: hexadecimal after `0x`, or base64 after `0b` (RFC 7143, 6.1).
pub(super) fn binary(value: &str) -> Option<Vec<u8>> {
    let rest = value.get(2..)?;
    match value.get(..2)? {
        "0x" | "0X" => from_hexadecimal(rest),
        "0b" | "0B" => from_base64(rest),
        _ => None,
    }
}

/// A binary value in hexadecimal.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_string(), |text, byte| text + &format!("{byte:02x}"))
}

fn from_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.chars().map(|c| c.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let odd = digits.len() % 2;
    // With an odd number of digits the first one is a byte of its own.
    let first = digits[..odd].iter().map(|digit| *digit as u8);
    let pairs = digits[odd..].chunks(2).map(|two| (two[0] << 4 | two[1]) as u8);
    Some(first.chain(pairs).collect())
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_whole = text.len().is_multiple_of(4) && padding <= 2;
    if !is_whole && padding > 0 || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // The unused bits of the last digit are zero.
    (bits == 0).then_some(bytes)
}

/// `Yes` or `No`.
pub(super) fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_lists_of_pairs() {
        let read = |text: &[u8]| parse(text);
        let pair = |k: &str, v: &str| (k.to_string(), v.to_string());
        assert_eq!(read(b"a=1\0b=2,x=y\0"), Ok(vec![pair("a", "1"), pair("b", "2,x=y")]));
        assert_eq!(read(b"\0\0"), Ok(vec![]));
        assert_eq!(read(b"X-a.b#c="), Ok(vec![pair("X-a.b#c", "")]));
        assert_eq!((read(b"=1\0"), read(b"a"), read(b"a b=1")), {
            let bad = || Err(TextError::Pair);
            (bad(), bad(), bad())
        });
        assert_eq!(read(b"a=\xff"), Err(TextError::Utf8));
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(
            (number("8192"), number("0x20"), number("0Xff")),
            (Some(8192), Some(32), Some(255))
        );
        for bad in ["", "0x", "-1", "+1", "1 ", "4294967296", "0x1ffffffff"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn binary_values_are_hexadecimal_or_base64() {
        assert_eq!(binary("0x00fF"), Some(vec![0, 255]));
        assert_eq!(binary("0Xabc"), Some(vec![0x0a, 0xbc]));
        assert_eq!(binary("0bAP8="), Some(vec![0, 255]));
        assert_eq!(binary("0BAP8"), Some(vec![0, 255]), "padding may be left out");
        assert_eq!(binary("0bZm9vYmFy"), Some(b"foobar".to_vec()));
        assert_eq!((binary("0x"), binary("0b")), (Some(vec![]), Some(vec![])));
        for bad in ["", "0", "12", "0xg", "0b=", "0bA", "0bAP8==", "0bAP9", "0bA P8", "é8x0"] {
            assert_eq!(binary(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_in_hexadecimal_is_read(bytes: Vec<u8>) {
            prop_assert_eq!(binary(&hexadecimal(&bytes)), Some(bytes));
        }

        #[test]
        fn what_is_written_is_read(pairs in proptest::collection::vec(("[A-Za-z#.]{1,63}", "[ -~]{0,80}"), 0..20)) {
            let mut text = Vec::new();
            pairs.iter().for_each(|(key, value)| append(&mut text, key, value));
            prop_assert_eq!(parse(&text), Ok(pairs));
        }

        #[test]
        fn no_bytes_upset_it(bytes: Vec<u8>) {
            for (key, value) in parse(&bytes).unwrap_or_default() {
                prop_assert!(!key.is_empty());
                number(&value);
                binary(&value);
            }
        }
    }
}
