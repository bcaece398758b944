//! `weft volume lost`: what is lost for good, in words.

use anyhow::Result;
use serde_json::Value;
use weft_terminal::{align_right, bytes, say, table};

/// Says what is lost.
pub fn show(answer: &Value) -> Result<()> {
    let name = answer["volume"].as_str().unwrap_or_default();
    let [lost, accepted] =
        ["bytes_lost", "bytes_accepted"].map(|k| answer[k].as_u64().unwrap_or(0));
    if accepted > 0 {
        say(format!("volume {name}: {} lost; they now read as zeros", bytes(accepted)))?;
    }
    if lost == 0 {
        return say(format!("volume {name}: nothing is lost"));
    }
    let ranges = answer["ranges"].as_array().map_or(&[][..], Vec::as_slice);
    say(list(ranges))?;
    if answer["listed_all"] == false {
        say("These are the first ranges; there are more.")?;
    }
    say(format!(
        "volume {name}: {} are lost. Reads of them fail until they are written, in whole sectors of 4 KiB; `weft volume lost \
         {name} --accept` makes them zeros",
        bytes(lost)
    ))
}

/// The ranges, and since when they are known to be lost.
fn list(ranges: &[Value]) -> String {
    let mut all = table(["from byte", "to byte", "length", "found"]);
    for (from, to, found) in joined(ranges) {
        all.add_row([from.to_string(), to.to_string(), bytes(to - from), found]);
    }
    align_right(&mut all, [0, 1, 2]);
    all.to_string()
}

/// Where the ranges begin and end, and when they were found. Those that touch are one, found with the first of them.
fn joined(ranges: &[Value]) -> Vec<(u64, u64, String)> {
    let read = |range: &Value| {
        let [from, len] = ["offset", "length"].map(|k| range[k].as_u64().unwrap_or(0));
        (from, from + len, range["found"].as_str().unwrap_or_default().to_string())
    };
    let mut all: Vec<_> = ranges.iter().map(read).collect();
    all.sort();
    let mut out: Vec<(u64, u64, String)> = Vec::new();
    for (from, to, found) in all {
        match out.last_mut() {
            Some(last) if last.1 >= from => {
                last.1 = last.1.max(to);
                // Times of this form are in order as text.
                last.2 = found.min(std::mem::take(&mut last.2));
            }
            _ => out.push((from, to, found)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ranges_that_touch_are_one() {
        let range = |offset: u64, length: u64, found: &str| json!({ "offset": offset, "length": length, "found": found });
        let (first, later) = ("1970-01-02T00:00:00Z", "1970-01-03T00:00:00Z");
        let ranges =
            [range(8192, 4096, first), range(20480, 4096, later), range(4096, 4096, later)];
        let expected = [(4096, 12288, first.to_string()), (20480, 24576, later.to_string())];
        assert_eq!(joined(&ranges), expected);
    }

    #[test]
    fn ranges_are_listed_with_their_times() {
        let text =
            list(&[json!({ "offset": 8192, "length": 4096, "found": "1970-01-02T00:00:00Z" })]);
        let line = text.lines().find(|line| line.contains("8192")).unwrap();
        assert!(line.contains("12288"), "{text}");
        assert!(line.contains("1970-01-02T00:00:00Z"), "{text}");
    }
}
