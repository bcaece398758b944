//! Keys and values as text: `key=value`, each behind it a zero (RFC 7143, 6).

/// The longest name of a key.
const LONGEST_KEY: usize = 63;

/// Text that was put together from several requests has no more bytes than this.
pub(super) const MOST_TEXT: usize = 64 << 10;

/// Why a text is none.
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

/// A number as values have it: decimal, or hexadecimal behind `0x`.
pub(super) fn number(value: &str) -> Option<u32> {
    let hexadecimal = value.strip_prefix("0x").or(value.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((value, 10), |digits| (digits, 16));
    let all = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    all.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
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

    proptest! {
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
            }
        }
    }
}
