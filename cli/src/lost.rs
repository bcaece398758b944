//! `weft volume lost`: what is lost for good, in words.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use weft_terminal::{align_right, bytes, say, table};

/// Says what is lost; success means that nothing is.
pub fn show(answer: &Value) -> Result<ExitCode> {
    let name = answer["volume"].as_str().unwrap_or_default();
    let [lost, accepted] =
        ["bytes_lost", "bytes_accepted"].map(|k| answer[k].as_u64().unwrap_or(0));
    if accepted > 0 {
        say(format!("volume {name}: {} that were lost are zeros now", bytes(accepted)))?;
    }
    if lost == 0 {
        say(format!("volume {name}: nothing is lost"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let ranges = answer["ranges"].as_array().map_or(&[][..], Vec::as_slice);
    say(list(ranges))?;
    if answer["listed_all"] == false {
        say("These are the first ranges; there are more.")?;
    }
    say(format!(
        "volume {name}: {} are lost. Reads of them fail until they are written, in whole sectors of 4 KiB; `weft volume \
         lost {name} --accept` makes them zeros",
        bytes(lost)
    ))?;
    Ok(ExitCode::FAILURE)
}

/// The ranges, and since when they are known to be lost.
fn list(ranges: &[Value]) -> String {
    let mut all = table(["from byte", "to byte", "length", "found"]);
    for range in ranges {
        let [from, len] = ["offset", "length"].map(|k| range[k].as_u64().unwrap_or(0));
        all.add_row([
            from.to_string(),
            (from + len).to_string(),
            bytes(len),
            range["found"].as_str().unwrap_or_default().to_string(),
        ]);
    }
    align_right(&mut all, [0, 1, 2]);
    all.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ranges_are_listed_with_their_times() {
        let text =
            list(&[json!({ "offset": 8192, "length": 4096, "found": "1970-01-02T00:00:00Z" })]);
        let line = text.lines().find(|line| line.contains("8192")).unwrap();
        assert!(line.contains("12288"), "{text}");
        assert!(line.contains("1970-01-02T00:00:00Z"), "{text}");
    }
}
