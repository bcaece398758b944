//! `weft volume diff`: what may have changed since a snapshot.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_host::{Control, ControlRequest};
use weft_terminal::{align_right, bytes, say, say_json, table};

use crate::args::Common;

/// The snapshots to compare.
#[derive(Debug, Args)]
pub struct Diff {
    /// Name of the volume
    name: String,
    /// Name of the earlier snapshot, such as monday or data@monday
    #[arg(value_name = "SINCE")]
    since: String,
    /// Name of the later snapshot [default: the volume as it is now]
    #[arg(value_name = "UNTIL")]
    until: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Diff {
    /// Asks the array, and lists the ranges.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let answer = self.ask(&mut self.common.target.connect()?)?;
        match self.common.json {
            true => say_json(answer)?,
            false => say(in_words(&answer))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The whole difference: an answer lists some thousand ranges, and says where the next begins.
    fn ask(&self, control: &mut Control) -> Result<Value> {
        let (mut offset, mut ranges) = (0, Vec::new());
        loop {
            let (volume, since) = (self.name.clone(), Some(self.since.clone()));
            let until = self.until.clone();
            let request = ControlRequest::VolumeDiff { volume, since, until, offset };
            let mut answer = control.request(&request)?;
            if let Value::Array(more) = answer["ranges"].take() {
                ranges.extend(more);
            }
            match answer["next"].as_u64() {
                Some(next) => offset = next,
                None => {
                    answer["ranges"] = ranges.into();
                    if let Value::Object(fields) = &mut answer {
                        fields.remove("next");
                    }
                    return Ok(answer);
                }
            }
        }
    }
}

/// The ranges, and how much they are together.
fn in_words(answer: &Value) -> String {
    let [volume, since] = ["volume", "since"].map(|key| answer[key].as_str().unwrap_or_default());
    let ranges = answer["ranges"].as_array().map_or(&[][..], Vec::as_slice);
    if ranges.is_empty() {
        return format!("{volume}: nothing has changed since {since}");
    }
    let mut all = table(["from byte", "to byte", "length"]);
    let mut changed = 0;
    for range in ranges {
        let [from, len] = ["offset", "length"].map(|key| range[key].as_u64().unwrap_or(0));
        all.add_row([from.to_string(), (from + len).to_string(), bytes(len)]);
        changed += len;
    }
    align_right(&mut all, [0, 1, 2]);
    let size = answer["size"].as_u64().unwrap_or(0);
    let (changed, size) = (bytes(changed), bytes(size));
    format!("{all}\n{volume}: {changed} of {size} may have changed since {since}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ranges_are_listed_with_their_sum() {
        let said = |ranges: Value| {
            in_words(&json!({ "volume": "a", "since": "a@b", "size": 1 << 20, "ranges": ranges }))
        };
        assert_eq!(said(json!([])), "a: nothing has changed since a@b");
        let range = |offset: u64| json!({ "offset": offset, "length": 8192 });
        let two = said(json!([range(4096), range(65536)]));
        assert!(two.lines().any(|line| line.contains("4096") && line.contains("12288")), "{two}");
        assert!(two.ends_with("a: 16.00 KiB of 1.00 MiB may have changed since a@b"), "{two}");
    }
}
