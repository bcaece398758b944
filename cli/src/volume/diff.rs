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
    /// Name of the snapshot since which changes are wanted, such as monday or data@monday
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
            false => show(&answer)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The whole difference: an answer lists some thousand ranges, and says where the next begins.
    fn ask(&self, control: &mut Control) -> Result<Value> {
        let (mut offset, mut ranges) = (0, Vec::new());
        loop {
            let (volume, since) = (self.name.clone(), self.since.clone());
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

/// Lists the ranges.
fn show(answer: &Value) -> Result<()> {
    let [volume, since] = ["volume", "since"].map(|key| answer[key].as_str().unwrap_or_default());
    let ranges = answer["ranges"].as_array().map_or(&[][..], Vec::as_slice);
    if ranges.is_empty() {
        return say(format!("{volume}: nothing has changed since {since}"));
    }
    let mut all = table(["from byte", "to byte", "length"]);
    let mut changed = 0;
    for range in ranges {
        let [from, len] = ["offset", "length"].map(|key| range[key].as_u64().unwrap_or(0));
        all.add_row([from.to_string(), (from + len).to_string(), bytes(len)]);
        changed += len;
    }
    align_right(&mut all, [0, 1, 2]);
    say(all.to_string())?;
    let size = answer["size"].as_u64().unwrap_or(0);
    say(format!("{volume}: {} of {} may have changed since {since}", bytes(changed), bytes(size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_and_something_can_be_shown() {
        let ranges = json!([{ "offset": 4096, "length": 8192 }]);
        for ranges in [json!([]), ranges] {
            show(&json!({ "volume": "a", "since": "a@b", "size": 1 << 20, "ranges": ranges }))
                .unwrap();
        }
    }
}
