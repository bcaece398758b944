//! Named byte images as text, a line for each: what tests of a format keep as files, so that bytes which were written
//! once stay readable. A line is a name, a space, and hex digits; lines that begin with `#` are remarks.

use std::collections::BTreeMap;

/// The images in a text.
///
/// # Panics
///
/// If a line is not one, or a name stands there twice: it is a test's file.
pub fn images(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (name, digits) = line.split_once(' ').expect("a name and its bytes");
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).expect("hex digits");
            u8::from_str_radix(pair, 16).expect("hex digits")
        };
        let bytes = digits.as_bytes().chunks(2).map(byte).collect();
        assert!(all.insert(name.to_string(), bytes).is_none(), "{name} is there twice");
    }
    all
}

/// The line of an image.
pub fn line(name: &str, bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{name} {digits}\n")
}

/// Checks that there is an image of each kind, and of nothing else, and that `again`, which decodes an image and encodes
/// it, makes the same bytes of it.
///
/// # Panics
///
/// If not; it names the line that a missing image would have.
pub fn check(text: &str, fresh: &[(String, Vec<u8>)], again: impl Fn(&str, &[u8]) -> Vec<u8>) {
    let images = images(text);
    let missing = fresh.iter().filter(|(name, _)| !images.contains_key(name));
    let missing: String = missing.map(|(name, bytes)| line(name, bytes)).collect();
    assert!(missing.is_empty(), "kinds without an image; their lines would be\n{missing}");
    for (name, bytes) in &images {
        assert!(fresh.iter().any(|(n, _)| n == name), "there is no {name} any more");
        let made = again(name, bytes);
        assert!(made == *bytes, "{name} is encoded otherwise now:\n{}", line(name, &made));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let text = format!("# remark\n{}{}", line("a", &[0, 255]), line("b.c", &[]));
        assert_eq!(images(&text), [("a".into(), vec![0, 255]), ("b.c".into(), vec![])].into());
    }

    #[test]
    #[should_panic(expected = "kinds without an image; their lines would be\nb 02")]
    fn a_kind_without_an_image_is_found() {
        let fresh = [("a".into(), vec![1]), ("b".into(), vec![2])];
        check("a 01", &fresh, |_, bytes| bytes.to_vec());
    }

    #[test]
    #[should_panic(expected = "a is encoded otherwise now")]
    fn other_bytes_are_found() {
        check("a 01", &[("a".into(), vec![1])], |_, _| vec![2]);
    }
}
