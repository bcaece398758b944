use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    explain: Explain,
}

fn explained(line: &str) -> Result<Value> {
    let line = Line::try_parse_from(std::iter::once("explain").chain(line.split_whitespace()))?;
    match &line.explain {
        Explain::Read(common) => Ok(as_json(&explain(common, None)?.1, common)),
        Explain::Write(write) => {
            Ok(as_json(&explain(&write.common, Some(write))?.1, &write.common))
        }
        Explain::Refresh(refresh) => Ok(as_json(&refresh.explain()?.1, &refresh.common)),
        Explain::Layout(layout) => layout.as_json(),
    }
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
fn a_copied_write_takes_one_round_trip_and_reads_nothing() {
    let line = |more: &str| {
        explained(&format!("write --layout raid5 --offset 0 --redundancy copied {more}"))
    };
    let totals = json!({
        "disk_reads": 0, "disk_writes": 0, "journal_writes": 2,
        "messages": 4, "wire_bytes": 8192, "round_trips": 1,
    });
    let copied = line("--length 4K").unwrap();
    assert_eq!(copied["totals"], totals);
    assert_eq!(copied["rows"][0]["strategy"], json!("small, copied, parity later"));
    let long = line("--length 128K --stripe-unit 1M").unwrap();
    assert_eq!(long["totals"]["disk_reads"], 2, "too long to be copied");
    let error = line("--length 4K --journal off").unwrap_err().to_string();
    assert!(error.contains("copies are in the journal"), "{error}");
}

#[test]
fn where_parity_waits_a_small_write_marks_it_once() {
    let line = |more: &str| {
        explained(&format!("write --layout rs:4+2 --nodes 6 --offset 0 --length 4K {more}"))
    };
    let totals = json!({
        "disk_reads": 0, "disk_writes": 1, "journal_writes": 3,
        "messages": 6, "wire_bytes": 4096, "round_trips": 1,
    });
    let first = line("--redundancy deferred").unwrap();
    assert_eq!(first["totals"], totals);
    let totals = json!({
        "disk_reads": 0, "disk_writes": 1, "journal_writes": 1,
        "messages": 2, "wire_bytes": 4096, "round_trips": 1,
    });
    let again = line("--redundancy deferred --marked").unwrap();
    assert_eq!(again["totals"], totals);
    assert_eq!(again["rows"][0]["cells"][5], json!("P0: marked already"));
    let one = line("--redundancy never --immediate-parities 1").unwrap();
    assert_eq!(one["totals"]["messages"], 6);
    for (more, says) in [
        ("--marked", "--redundancy deferred"),
        ("--redundancy deferred --immediate-parities 1 --marked", "each write informs the parity"),
        ("--redundancy deferred --failed 1 --marked", "omit --failed"),
        ("--redundancy deferred --immediate-parities 7", "at most 1 can be immediate"),
    ] {
        let error = line(more).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Rows that were written lie side by side: they are read once, whatever was written to them, and for all parity together.
#[test]
fn refreshing_reads_each_data_column_once_and_writes_each_parity_once() {
    let line = |more: &str| {
        explained(&format!(
            "refresh --nodes 6 --offset 4K --length 12K --redundancy deferred {more}"
        ))
    };
    for (layout, reads, writes) in [("rs:4+2", 4, 2), ("raid5", 5, 1), ("raid6", 4, 2)] {
        let totals = &line(&format!("--layout {layout}")).unwrap()["totals"];
        assert_eq!(
            (&totals["disk_reads"], &totals["disk_writes"]),
            (&json!(reads), &json!(writes))
        );
        assert_eq!(totals["journal_writes"], 0);
    }
    let one = line("--layout raid6 --immediate-parities 1").unwrap();
    assert_eq!(one["totals"]["disk_writes"], 1);
    let error = explained("refresh --layout raid5 --offset 0 --length 4K").unwrap_err().to_string();
    assert!(error.contains("--redundancy deferred"), "{error}");
}

#[test]
fn a_layout_says_what_it_survives() {
    let json = explained("layout lrc:12+2+2 --json").unwrap();
    assert_eq!((&json["survives_any"], &json["capacity"]), (&json!(3), &json!(0.75)));
    let fours = json!({ "lost": 4, "recoverable": 1568, "sets": 1820 });
    assert_eq!(json["recoverable_sets"][3], fours);
    assert_eq!(json["small_write"]["messages"], 8);
    let group = json!(["D1", "D2", "D3", "D4", "D5", "P0"]);
    let first = json!({ "column": 0, "holds": "D0", "from": group });
    assert_eq!(json["read_for_lost"][0], first);
    let lost = explained("layout lrc:12+2+2 --failed 0,1").unwrap();
    assert_eq!(lost["read_for_lost"][1]["from"].as_array().map(Vec::len), Some(12));
    let error = explained("layout lrc:12+2+2 --failed 0,1,2,3").unwrap_err().to_string();
    assert!(error.contains("loss of columns 0, 1, 2, 3"), "{error}");
}

#[test]
fn a_grid_says_what_it_survives() {
    let json = explained("layout grid:4x4 --json").unwrap();
    assert_eq!((&json["survives_any"], &json["capacity"]), (&json!(3), &json!(0.64)));
    let fours = json!({ "lost": 4, "recoverable": 12_550, "sets": 12_650 });
    assert_eq!(json["recoverable_sets"][3], fours);
    let totals = json!({
        "disk_reads": 4, "disk_writes": 4, "journal_writes": 4,
        "messages": 2 + 2 * 3, "wire_bytes": 4 * 4096, "round_trips": 2,
    });
    assert_eq!(json["small_write"], totals);
    let row = json!(["D1", "D2", "D3", "P0"]);
    let first = json!({ "column": 0, "holds": "D0", "from": row });
    assert_eq!(json["read_for_lost"][0], first);
    let below = json!(["D4", "D8", "D12", "P4"]);
    let lost = explained("layout grid:4x4 --failed 0,1").unwrap();
    assert_eq!(lost["read_for_lost"][0]["from"], below);
    let error = explained("layout grid:4x4 --failed 0,1,5,6").unwrap_err().to_string();
    assert!(error.contains("loss of columns 0, 1, 5, 6"), "{error}");
    let error = explained("layout grid:4x4 --nodes 24").unwrap_err().to_string();
    assert!(error.contains("at least 25 nodes"), "{error}");
}

#[test]
fn a_sequencer_costs_two_round_trips_more() {
    for (request, messages, round_trips) in [("write", 4 + 4, 2 + 2), ("read", 2 + 4, 1 + 2)] {
        let line = format!("{request} --layout raid5 --offset 0 --length 4K --ordering sequencer");
        let totals = &explained(&line).unwrap()["totals"];
        assert_eq!(totals["messages"], messages);
        assert_eq!(totals["round_trips"], round_trips);
    }
}

#[test]
fn the_forms_of_the_sequencer_cost_what_the_paper_says_of_them() {
    // Messages and round trips before a request begins, and messages when it is over, of 11 nodes.
    for (form, before, trips, after) in [
        ("centralized", 4, 2, 4),
        ("partially-centralized", 4, 2, 20),
        ("originator-driven --originators 4", 6, 1, 20),
        ("originator-driven --originators 1", 0, 0, 20),
        ("worker-driven --originators 4", 20, 1, 20),
        ("worker-driven", 20, 1, 20),
    ] {
        let line = format!(
            "write --layout raid5 --nodes 11 --offset 0 --length 4K --ordering sequencer \
             --sequencer {form}"
        );
        let json = explained(&line).unwrap();
        let order = &json["order"];
        assert_eq!(order["messages_before"], before, "{form}");
        assert_eq!(order["round_trips"], trips, "{form}");
        assert_eq!(order["messages_after"], after, "{form}");
        assert_eq!(json["totals"]["messages"], 4 + before, "{form}");
        assert!(form.starts_with(order["sequencer"].as_str().unwrap()));
    }
}

#[test]
fn orderings_cost_what_the_shared_storage_paper_says() {
    for (ordering, read, small, full, after) in [
        ("none", 2, 8, 10, None),
        ("timestamps", 2, 8, 20, None),
        ("device-locks", 2, 8, 20, Some([1, 0, 1])),
        ("lock-server", 2 + 2, 8 + 2, 10 + 2, Some([1, 1, 1])),
        ("callback-locks", 2 + 2, 8 + 2, 10 + 2, Some([0, 0, 0])),
    ] {
        let json = |request: &str| {
            explained(&format!("{request} --layout raid5 --offset 0 --ordering {ordering}"))
                .unwrap()
        };
        let messages = |request: &str| json(request)["totals"]["messages"].as_u64().unwrap();
        // What gives locks back: after a read, a small write, and one that reads what it does not
        // write.
        let large = "write --length 192K --strategy large";
        for (n, request) in ["read --length 4K", "write --length 4K", large].iter().enumerate() {
            let order = &json(request)["order"];
            assert_eq!(order["messages_after"].as_u64(), after.map(|a| a[n]), "{ordering}");
            assert!(after.is_none() || order["ordering"] == ordering);
        }
        let limited = "--dispatch commanded --commit limited";
        assert_eq!(messages("read --length 4K"), read, "{ordering}");
        assert_eq!(messages(&format!("write --length 4K {limited}")), small, "{ordering}");
        assert_eq!(messages(&format!("write --length 256K {limited}")), full, "{ordering}");
    }
    let refused = explained("write --layout raid5 --offset 0 --length 4K --commit limited");
    assert!(refused.unwrap_err().to_string().contains("commanded"));
}

#[test]
fn without_commit_nothing_is_journalled() {
    let json = explained("write --layout raid5 --offset 0 --length 4K --commit none").unwrap();
    assert_eq!(json["totals"]["journal_writes"], 0);
}

#[test]
fn a_request_is_cut_where_an_extent_ends() {
    let across = "write --layout raid1 --offset 16320K --length 128K";
    let pieces = explained(across).unwrap();
    assert_eq!((&pieces["chunks"], &pieces["totals"]["messages"]), (&json!(2), &json!(8)));
    let whole = explained("write --layout raid1 --offset 16256K --length 128K").unwrap();
    assert_eq!((&whole["chunks"], &whole["totals"]["messages"]), (&json!(1), &json!(4)));
    let wide = explained("write --layout raid5 --offset 16320K --length 128K").unwrap();
    assert_eq!(wide["chunks"], 1);
    let elsewhere = explained("read --layout rs:2+1 --offset 32M --length 1M --failed 0").unwrap();
    assert_eq!(elsewhere["chunks"], 1);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    for (line, why) in [
        ("read --layout raid5 --offset 0 --length 0", "length 0"),
        ("read --layout raid5 --offset 0 --length 1T", "too long"),
        ("read --layout raid5 --offset 16383P --length 1", "beyond any volume"),
        ("read --layout raid5 --offset 0 --length 1 --failed 5", "columns 0 to 4"),
        ("read --layout raid5 --offset 0 --length 1 --failed 0,1", "loss of columns 0, 1"),
        ("read --layout raid5 --offset 0 --length 1 --stripe-unit 1000", "multiple of 4096"),
        ("read --layout raid5 --offset 0 --length 1 --failed 99", "columns 0 to 4"),
        ("read --layout raid5 --offset 0 --length 1 --failed a,b", "is not a column"),
        (
            "read --layout raid0 --offset 0 --length 1 --failed 0",
            "does not tolerate the loss of columns 0",
        ),
        ("read --layout raid5 --offset 0 --length 1 --stripe-unit 0", "multiple of 4096"),
        ("read --layout raid1 --offset 0 --length 1 --stripe-unit 16000P", "at most 1GiB"),
        ("read --layout raid5 --nodes 0 --offset 0 --length 1", "choose 1 to"),
        ("read --layout raid5 --nodes 2 --offset 0 --length 1", "at least 3 nodes"),
        ("read --layout raid5 --nodes 100000 --offset 0 --length 1", "choose 1 to"),
        ("read --layout rs:4+2 --nodes 5 --offset 0 --length 1", "at least 6 nodes"),
        ("read --layout rs:0+2 --offset 0 --length 1", "at least one data column"),
        (
            "write --layout raid5 --offset 0 --length 1 --commit none --journal on",
            "choose commit=late",
        ),
        (
            "read --layout raid5 --offset 0 --length 1 --sequencer worker-driven",
            "also set ordering=sequencer",
        ),
        (
            "read --layout raid5 --offset 0 --length 1 --ordering sequencer --originators 6",
            "choose 1 to 5",
        ),
    ] {
        let error = explained(line).unwrap_err().to_string();
        assert!(error.contains(why), "{line}: {error}");
    }
}

/// Disks of `drnet` hold two units of one stripe in five: its losses are those of disks, and its room that of units.
#[test]
fn losses_are_counted_by_disks_where_a_disk_holds_two_units() {
    let said = explained("layout drnet").unwrap();
    assert!((said["capacity"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9, "{said}");
    let sets = said["recoverable_sets"].as_array().unwrap();
    let counted =
        sets.iter().map(|s| (s["recoverable"].as_u64().unwrap(), s["sets"].as_u64().unwrap()));
    let expected = [(25, 25), (300, 300), (2280, 2300), (12_070, 12_650)];
    assert_eq!(counted.collect::<Vec<_>>(), expected);
    // Parity turns: a volume bears fewer than a stripe does.
    let of_volume = said["recoverable_sets_of_volume"].as_array().unwrap();
    let counted =
        of_volume.iter().map(|s| (s["recoverable"].as_u64().unwrap(), s["sets"].as_u64().unwrap()));
    let counted: Vec<_> = counted.collect();
    assert_eq!(counted[..2], [(25, 25), (300, 300)]);
    assert!(counted[2].0 < 2280 && counted[2].1 == 2300, "{counted:?}");
    assert!(counted[3].0 < 12_070 && counted[3].1 == 12_650, "{counted:?}");
    let raid5 = explained("layout raid5").unwrap();
    assert!(raid5.get("recoverable_sets_of_volume").is_none(), "one stripe is like the other");
}

/// In the first stripe of `drnet` five of its 25 disks hold both parities of one number: each unit is shown where it
/// lies, and a disk that is lost has helpers for each of its units.
#[test]
fn both_units_of_a_disk_are_shown() {
    let said = explained("layout drnet").unwrap();
    let holds: Vec<&str> =
        said["columns"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    let units: std::collections::BTreeSet<&str> =
        holds.iter().flat_map(|held| held.split(' ')).collect();
    assert_eq!(units.len(), 30, "{holds:?}");
    assert_eq!(holds.iter().filter(|held| held.split(' ').count() == 2).count(), 5, "{holds:?}");

    let reads = said["read_for_lost"].as_array().unwrap();
    assert_eq!(reads.len(), 30);
    assert!(reads.iter().all(|r| r["from"].as_array().unwrap().len() == 4), "{reads:?}");
}

/// As a cluster refuses them.
#[test]
fn a_layout_without_parity_has_none_to_defer_or_to_copy_to() {
    for redundancy in ["deferred", "copied"] {
        let line = format!("write --layout raid0 --offset 0 --length 4K --redundancy {redundancy}");
        let error = explained(&line).unwrap_err().to_string();
        assert!(error.contains("needs a layout with parity, and raid0 has none"), "{error}");
    }
}
