//! `weft trace` on small traces made up here.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn weft(directory: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Two devices, four requests, one of them sequential, an idle second.
const BLKPARSE: &str = "\
  8,16   0        1     0.000000000   100  Q   R 0 + 8 [a]
  8,16   0        2     0.000001000   100  D   R 0 + 8 [a]
  8,16   0        3     0.001000000   100  Q   W 8 + 16 [a]
  8,32   0        4     1.500000000   100  Q  WS 1000 + 8 [a]
  8,32   0        5     2.000000000   100  Q FWS [a]
CPU0 (8,16):
";

#[test]
fn info_says_what_a_trace_is_like() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("t.txt"), BLKPARSE).unwrap();
    let json = said(&weft(directory.path(), "trace info t.txt --json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["format"], "blkparse");
    assert_eq!((&json["requests"], &json["span_s"]), (&4.into(), &2.0.into()));
    assert_eq!(json["read_share"], 0.25);
    assert_eq!(json["kinds"]["write"]["bytes"], 12_288);
    assert_eq!(json["kinds"]["write"]["mean_bytes"], 6144.0);
    assert_eq!(json["kinds"]["flush"]["requests"], 1);
    assert_eq!(json["kinds"]["read"]["sizes"][0]["bytes"], 4096);
    assert_eq!(json["inter_arrival"]["max_ms"], 1499.0);
    assert_eq!(json["idle"]["from_responses"], false);
    assert_eq!(json["idle"]["periods"][1]["periods"], 1);
    assert_eq!(json["sequential_share"], 0.25);
    assert_eq!(json["footprint_bytes"], 16_384);
    assert_eq!(json["devices"][1]["name"], "8:32");
    assert_eq!(json["devices"][1]["end_bytes"], 1008 * 512);
    assert_eq!(json["left_out"]["events other than the queueing of a request"], 1);
    let text = said(&weft(directory.path(), "trace info t.txt"));
    assert!(text.contains("4 requests in 2.00 s (blkparse), 25.0 % reads"), "{text}");
    assert!(text.contains("skipped: 1 lines of blkparse's summary"), "{text}");
    assert!(text.contains("assuming sectors of 512 bytes (not given"), "{text}");
    let given = said(&weft(directory.path(), "trace info t.txt --sector-size 256"));
    assert!(given.contains("256 bytes (as given)"), "{given}");
    let json = said(&weft(directory.path(), "trace info t.txt --json --sector-size 256"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["sector_bytes"], &json["sector_bytes_given"]), (&256.into(), &true.into()));
}

#[test]
fn converting_there_and_back_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("t.txt"), BLKPARSE).unwrap();
    let told = said(&weft(directory.path(), "trace convert t.txt a.csv.gz"));
    assert!(told.contains("4 requests, blkparse to csv"), "{told}");
    assert_eq!(fs::read(path("a.csv.gz")).unwrap()[..2], [0x1f, 0x8b]);
    said(&weft(directory.path(), "trace convert a.csv.gz b.log --to iolog"));
    said(&weft(directory.path(), "trace convert b.log c.csv"));
    let csv = "time_ns,device,op,offset,bytes,response_ns\n0,8:16,R,0,4096,\n\
               1000000,8:16,W,4096,8192,\n1500000000,8:32,W,512000,4096,\n2000000000,8:32,F,0,0,\n";
    assert_eq!(fs::read_to_string(path("c.csv")).unwrap(), csv);
    let told = said(&weft(directory.path(), "trace convert c.csv d.txt --to disksim"));
    assert!(told.contains("3 requests") && told.contains("skipped: 1 flushes"), "{told}");
}

#[test]
fn errors_say_where_and_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("bad.csv"), "time_ns,op,offset,bytes\n0,R,0,512\n1,R,x,512\n").unwrap();
    fs::write(path("there"), "").unwrap();
    for (arguments, why) in [
        ("trace info none.csv", "cannot open none.csv"),
        ("trace info bad.csv", "bad.csv, line 3: expected the offset as a whole number, found 'x'"),
        ("trace info bad.csv --format msr", "bad.csv, line 2: expected 'time,host,disk"),
        ("trace convert bad.csv out.csv", "bad.csv, line 3"),
        ("trace convert bad.csv there", "there already exists"),
        ("trace convert bad.csv no/out.csv", "cannot write no/out.csv"),
        ("trace info there", "there: it is empty"),
    ] {
        let error = refused(&weft(directory.path(), arguments));
        assert!(error.contains(why), "{arguments}: {error}");
    }
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
