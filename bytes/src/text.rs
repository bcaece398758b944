//! Text files as people's editors and spreadsheets write them: perhaps with a byte order mark, and not always in UTF-8.
//!
//! Everything that reads a file which a person wrote begins here: configurations, plans, scenarios, disk models, traces.
//! The ends of lines are left as they are: the formats take `\n` and `\r\n`.

/// What some editors put before UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Why bytes are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// They are text in another encoding.
    #[error("it is in UTF-16; save it as UTF-8")]
    Utf16,
    /// They are no text in UTF-8, first on this line, from 1.
    #[error("line {0} is not text in UTF-8")]
    Line(usize),
}

/// Bytes without the mark that may stand before UTF-8.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

/// Whether bytes begin as UTF-16 does.
pub fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")
}

/// The text of a file, without a byte order mark.
///
/// # Errors
/// If it is not UTF-8: what it is, or where.
pub fn of_file(bytes: &[u8]) -> Result<&str, TextError> {
    if is_utf16(bytes) {
        return Err(TextError::Utf16);
    }
    let bytes = without_mark(bytes);
    std::str::from_utf8(bytes).map_err(|e| {
        let before = &bytes[..e.valid_up_to()];
        TextError::Line(before.iter().filter(|b| **b == b'\n').count() + 1)
    })
}

/// A list of names such as stands above the columns of a table: two or more words, and no number among them.
pub fn is_heading(line: &str) -> bool {
    let apart = |c: char| c.is_whitespace() || matches!(c, ',' | ';');
    let mut words = line.split(apart).filter(|word| !word.is_empty()).peekable();
    let named = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || "_#\"'(".contains(c));
    let first = words.next().is_some_and(named);
    first && words.peek().is_some() && words.all(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_left_out_and_other_encodings_named() {
        assert_eq!(of_file(b"\xef\xbb\xbfa = 1\r\n"), Ok("a = 1\r\n"));
        assert_eq!(of_file("ä".as_bytes()), Ok("ä"));
        assert_eq!(of_file(b""), Ok(""));
        assert_eq!(of_file(b"\xff\xfea\0"), Err(TextError::Utf16));
        assert_eq!(of_file(b"\xfe\xff\0a"), Err(TextError::Utf16));
        assert_eq!(of_file(b"\xef\xbb\xbfa\nb\n\xe4\n"), Err(TextError::Line(3)));
    }

    #[test]
    fn headings_are_names_alone() {
        for heading in
            ["Timestamp,Hostname,DiskNumber,Type", "time  device\tblock", "\"a\";\"b (ms)\""]
        {
            assert!(is_heading(heading), "{heading}");
        }
        for other in ["", "word", "R Miss 5 2", "1 2 3", "a,b,3", "128166,usr,0,Read", "a,-1"] {
            assert!(!is_heading(other), "{other}");
        }
    }
}
