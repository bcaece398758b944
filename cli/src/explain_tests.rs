use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    explain: Explain,
}

fn explained(line: &str) -> Result<Value> {
    let line = Line::try_parse_from(std::iter::once("explain").chain(line.split_whitespace()))?;
    Ok(as_json(&line.explain.explain()?.1))
}

#[test]
fn a_small_write_costs_four_messages() {
    let json = explained("write --layout raid5 --offset 0 --length 4K --json").unwrap();
    let totals = json!({
        "disk_reads": 2, "disk_writes": 2, "journal_writes": 2,
        "messages": 4, "wire_bytes": 8192, "round_trips": 2,
    });
    assert_eq!(json["totals"], totals);
    assert_eq!((&json["chunks"], &json["rows"][0]["count"]), (&json!(1), &json!(1)));
    assert_eq!(json["rows"][0]["cells"].as_array().map(Vec::len), Some(5));
}

#[test]
fn without_commit_nothing_is_journalled() {
    let json = explained("write --layout raid5 --offset 0 --length 4K --commit none").unwrap();
    assert_eq!(json["totals"]["journal_writes"], 0);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    for (line, why) in [
        ("read --layout raid5 --offset 0 --length 0", "length 0"),
        ("read --layout raid5 --offset 0 --length 1T", "too long"),
        ("read --layout raid5 --offset 16383P --length 1", "beyond any volume"),
        ("read --layout raid5 --offset 0 --length 1 --failed 5", "columns 0 to 4"),
        ("read --layout raid5 --offset 0 --length 1 --failed 0,1", "2 columns are lost"),
        ("read --layout raid5 --offset 0 --length 1 --stripe-unit 1000", "multiple of 4096"),
        ("read --layout rs:4+2 --nodes 5 --offset 0 --length 1", "at least 6 nodes"),
        ("write --layout raid5 --offset 0 --length 1 --commit none --journal on", "--commit late"),
    ] {
        let error = explained(line).unwrap_err().to_string();
        assert!(error.contains(why), "{line}: {error}");
    }
}
