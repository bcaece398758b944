//! Text that somebody else wrote, as it may stand in a log, on a terminal and in a URI.

use std::borrow::Cow;

/// Whether a character does something to a terminal, or to the order of what stands around it, instead of being seen.
fn acts(c: char) -> bool {
    let turns_around = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    c.is_control() || turns_around || matches!(c, '\u{2066}'..='\u{2069}')
}

/// One line: characters that would act are escaped as in JSON, so that a line stays one and a terminal does nothing.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same of several lines, which may have tabs. JSON stays JSON.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_bad(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// The beginning of a text that is longer than so many bytes, and how much is missing.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(most);
    Cow::Owned(format!("{}... ({} more bytes)", &text[..end], text.len() - end))
}

/// Whether a byte of a path means itself in a URI and to a shell.
pub fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"/._-~".contains(&b)
}

/// A path in a URI: bytes that would end it, or that a shell would take for something else, are percent-encoded (RFC 3986,
/// 2.1).
pub fn in_uri(path: &[u8]) -> String {
    path.iter().fold(String::new(), |mut out, b| {
        match is_plain(*b) {
            true => out.push(char::from(*b)),
            false => out.push_str(&format!("%{b:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_and_a_terminal_does_nothing() {
        let text = "a\nb\r\x1b[31mred\u{9b}2J\u{7f} \u{202e}txt \u{2028}é ok";
        let line = one_line(text);
        assert_eq!(line, r"a\nb\r\u001b[31mred\u009b2J\u007f \u202etxt \u2028é ok");
        assert!(!line.contains(acts));
        assert!(matches!(one_line("plain é"), Cow::Borrowed("plain é")));
        assert_eq!(lines("a\n\tb\x1b"), "a\n\tb\\u001b");
    }

    #[test]
    fn a_path_in_a_uri_is_percent_encoded() {
        assert_eq!(in_uri(b"/srv/weft-1/a_b.sock"), "/srv/weft-1/a_b.sock");
        assert_eq!(in_uri("/a b/\u{e9}?x=%".as_bytes()), "/a%20b/%C3%A9%3Fx%3D%25");
        assert_eq!(in_uri(b"/\xff"), "/%FF", "paths are bytes");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("aéb", 2), "a... (3 more bytes)");
        assert_eq!(cut(&"x".repeat(70_000), 4), "xxxx... (69996 more bytes)");
    }
}
