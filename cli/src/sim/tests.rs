use std::path::Path;

use anyhow::Result;
use weft_trial::scratch::MEMORY;

const SMALL: &str = "title = \"small\"\nabout = \"a test\"\n\
    workload.arrivals.closed.population = 2\n\
    workload.requests.fixed = { bytes = 4096, read_share = 0.5 }\n\
    measure = { warm_up = 5, requests = 20, replications = 2 }\n\
    [sweep]\nlinks.mb_s = [1, 10]\nvolume.commit = [\"none\", \"late\"]\n";

/// A command line, run.
fn weft(line: &str) -> Result<()> {
    use clap::Parser;
    let words = std::iter::once("weft").chain(line.split_whitespace());
    crate::Cli::try_parse_from(words)?.command.run().map(|_| ())
}

/// The files of a directory but for the one that is in the order in which points were done.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path())
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(p).unwrap()))
        .filter(|(name, _)| name != "points.jsonl")
        .collect();
    files.sort();
    files
}

#[test]
fn parts_put_together_and_runs_resumed_are_the_same_to_the_byte() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), SMALL).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/whole --jobs 1")).unwrap();
    let whole = files(&temp.path().join("whole"));
    let names: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["results.csv", "results.json", "report.html", "throughput_mb_s.svg", "study.json"]
    {
        assert!(names.contains(&name), "{names:?}");
    }

    weft(&format!("sim {dir}/s.toml --out {dir}/a --shard 0/3")).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/b --shard 1/3")).unwrap();
    let early = weft(&format!("sim merge {dir}/a {dir}/b --out {dir}/merged")).unwrap_err();
    assert!(early.to_string().contains("1 of 4 points are missing (index 2)"), "{early}");
    weft(&format!("sim {dir}/s.toml --out {dir}/c --shard 2/3 --jobs 3")).unwrap();
    weft(&format!("sim merge {dir}/c {dir}/a {dir}/b --out {dir}/merged")).unwrap();
    assert!(files(&temp.path().join("merged")) == whole, "what was merged differs");

    // Interrupted: two points done, the third cut off in the middle of its line.
    let points = temp.path().join("whole/points.jsonl");
    let text = std::fs::read_to_string(&points).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    let half = &lines[2][..lines[2].len() / 2];
    std::fs::write(&points, format!("{}\n{}\n{half}", lines[0], lines[1])).unwrap();
    std::fs::remove_file(temp.path().join("whole/results.csv")).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/whole")).unwrap();
    assert!(files(&temp.path().join("whole")) == whole, "what was resumed differs");
    let resumed = std::fs::read_to_string(&points).unwrap();
    assert!(resumed.starts_with(&format!("{}\n{}\n", lines[0], lines[1])));
    assert_eq!(resumed.lines().count(), 4);
}

#[test]
fn points_that_are_done_are_not_run_again() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), SMALL).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/d --set links.mb_s=10")).unwrap();
    let points = temp.path().join("d/points.jsonl");
    // What is kept is taken as it is: a mark in it comes out again.
    let text = std::fs::read_to_string(&points).unwrap();
    let marked: String = text
        .lines()
        .map(|line| {
            let (before, _) = line.rsplit_once("\"events\":").unwrap();
            format!("{before}\"events\":424242}}}}\n")
        })
        .collect();
    std::fs::write(&points, marked).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/d")).unwrap();
    let csv = std::fs::read_to_string(temp.path().join("d/results.csv")).unwrap();
    let known = csv.lines().filter(|l| l.ends_with(",424242")).count();
    assert_eq!((known, csv.lines().count()), (2, 5), "{csv}");
    // Another seed is another point.
    weft(&format!("sim {dir}/s.toml --out {dir}/d --seed 2")).unwrap();
    let csv = std::fs::read_to_string(temp.path().join("d/results.csv")).unwrap();
    assert!(!csv.contains("424242"), "{csv}");
}

#[test]
fn bad_input_is_refused_before_anything_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), SMALL).unwrap();
    for line in ["--set nodes.workers=0", "--sweep links.mb_s=1,x", "--seed 99999999999999999999"] {
        assert!(weft(&format!("sim {dir}/s.toml --out {dir}/d {line}")).is_err(), "{line}");
        assert!(!temp.path().join("d").exists(), "{line}");
    }
    assert!(weft(&format!("sim {dir}/none.toml")).unwrap_err().to_string().contains("--list"));
}

#[test]
fn parts_of_different_sweeps_are_not_put_together() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), SMALL).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/a --shard 0/2")).unwrap();
    weft(&format!("sim {dir}/s.toml --out {dir}/b --shard 1/2 --seed 5")).unwrap();
    let error = weft(&format!("sim merge {dir}/a {dir}/b --out {dir}/c")).unwrap_err();
    assert!(error.to_string().contains("part of another sweep"), "{error}");
    assert!(!temp.path().join("c").exists());
}

/// A scenario that a real array runs in moments.
const TINY: &str = "title = \"tiny\"\n\
    nodes = { workers = 3, originators = 2 }\n\
    volume = { unit = 8192, size_bytes = 1048576, commit = \"early\", calculator = \"solely\" }\n\
    workload.hosts = 3\n\
    workload.arrivals.closed.population = 2\n\
    workload.requests.fixed = { bytes = 4096, read_share = 0.5 }\n\
    measure = { warm_up = 5, requests = 40, replications = 2 }\n\
    [sweep]\nlinks.mb_s = [1, 10]\nworkload.requests.fixed.bytes = [4096, 12288]\n";

#[test]
fn a_real_array_gives_the_same_table_with_what_is_not_known_left_empty() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), TINY).unwrap();
    weft(&format!("sim {dir}/s.toml --world both --dir {dir} --out {dir}/out")).unwrap();
    let read = |name: &str| std::fs::read_to_string(temp.path().join("out").join(name)).unwrap();
    let (simulated, real) = (read("simulated/results.csv"), read("real/results.csv"));
    assert_eq!(simulated.lines().next(), real.lines().next());
    assert_eq!(real.lines().count(), 5);
    for line in real.lines().skip(1) {
        // Disks, queue, two of processors, links, requests of two runs, the warm-up, and events.
        assert!(line.ends_with(",,,,,,80,5,"), "{line}");
    }
    // A link's rate means nothing to a real array: those points are one, and measured once.
    let rows: Vec<&str> = real.lines().skip(1).collect();
    assert_eq!(rows[0].split_once(','), Some(("1", rows[2].split_once(',').unwrap().1)));
    assert_eq!(read("real/points.jsonl").lines().count(), 2);
    assert!(!temp.path().join("out/real/disk_utilisation.svg").exists());
    let comparison = read("comparison.csv");
    assert_eq!(comparison.lines().count(), 5);
    assert!(comparison.contains("response_ms_error_percent"));
    // The array's files are gone.
    let left = std::fs::read_dir(temp.path()).unwrap().count();
    assert_eq!(left, 2, "the scenario and its results");
}

#[test]
fn a_real_array_takes_open_arrivals_and_commands() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), TINY).unwrap();
    let set = "workload.arrivals.open.rate_per_s=300 volume.dispatch=commanded volume.commit=none";
    let line = format!("sim {dir}/s.toml --world real --dir {dir} --out {dir}/out --set {set}");
    weft(&line).unwrap();
    let csv = std::fs::read_to_string(temp.path().join("out/results.csv")).unwrap();
    let rate: f64 = csv.lines().nth(1).unwrap().split(',').nth(5).unwrap().parse().unwrap();
    assert!(rate > 60.0 && rate < 1_500.0, "{rate} requests a second, and 300 come");
}

#[test]
fn a_real_array_on_emulated_disks_is_as_slow_as_they_are() {
    let temp = tempfile::tempdir_in(MEMORY).unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), TINY).unwrap();
    // Much larger than there is memory: only what is used takes room.
    let disk = "name = \"d\"\n[fixed]\ncapacity_bytes = 1099511627776\nsector_bytes = 4096\n\
                positioning_ms = 20\nbytes_per_s = 1000000000\n";
    std::fs::write(temp.path().join("slow.toml"), disk).unwrap();
    // A machine's own disks are not those that are emulated.
    std::fs::write(temp.path().join("m.toml"), "[disks]\nin_memory = true\ndevices = 1\n").unwrap();
    let set = "disks.emulated=true disks.model=slow.toml workload.requests.fixed.read_share=1 \
               nodes.store=journalled measure.requests=10";
    let line = format!("sim {dir}/s.toml --params {dir}/m.toml --out {dir}/out --set {set}");
    weft(&format!("{line} --world both --dir {dir}")).unwrap();
    let read = |name: &str| std::fs::read_to_string(temp.path().join("out").join(name)).unwrap();
    let comparison: serde_json::Value = serde_json::from_str(&read("comparison.json")).unwrap();
    let points = comparison["results"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for point in points {
        for world in ["predicted", "real"] {
            let ms = point["response_ms"][world].as_f64().unwrap();
            assert!(ms >= 20.0, "{world}: {point}");
        }
    }
    let refused = weft(&format!("{line} --world real --dir /proc")).unwrap_err();
    assert!(format!("{refused:#}").contains("emulated disks are files in memory"), "{refused:#}");
    for (more, why) in [
        ("--sweep disks.emulated=true,false", "disks.emulated is varied"),
        ("--set disks.emulated=true volume.size_bytes=1000000000000000", "volume.size_bytes"),
    ] {
        let line = format!("{line} {more} --world real --dir {dir}");
        let error = format!("{:#}", weft(&line).unwrap_err());
        assert!(error.contains(why), "{more}: {error}");
    }
    // Its bytes are no multiple of 4,096; without a size the volume takes what journal and table leave.
    let whole = TINY.replace("size_bytes = 1048576, ", "");
    std::fs::write(temp.path().join("w.toml"), whole).unwrap();
    let small = "name = \"s\"\n[fixed]\ncapacity_bytes = 200000512\nsector_bytes = 512\n\
                 positioning_ms = 0.1\nbytes_per_s = 1000000000\n";
    std::fs::write(temp.path().join("small.toml"), small).unwrap();
    let set =
        "disks.emulated=true disks.model=small.toml nodes.store=journalled measure.requests=10";
    weft(&format!("sim {dir}/w.toml --world both --dir {dir} --set {set}")).unwrap();
    let shared = weft(&format!("{line} disks.per_bus=2 --world real --dir {dir}")).unwrap_err();
    assert!(shared.to_string().contains("disks.per_bus = 2: each emulated disk"), "{shared:#}");
    let line = format!("sim {dir}/w.toml --world real --dir {dir} --set {set} nodes.journal=nvram");
    let memory = weft(&line).unwrap_err();
    assert!(
        memory.to_string().contains("nodes.journal = nvram: a real node has its"),
        "{memory:#}"
    );
}

#[test]
fn what_a_real_array_cannot_be_is_refused_by_key() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), TINY).unwrap();
    for (more, why) in [
        ("--dir D --set nodes.originators=0", "nodes.originators = 0: a real array has no"),
        ("--dir D --set nodes.workers=33", "nodes.workers = 33: real nodes share one"),
        ("--dir D --set nodes.workers=6 volume.width=3", "volume.width = 3: a real volume's raid5"),
        ("--dir D --set workload.hosts=65", "workload.hosts = 65: each host is a thread"),
        ("--dir D --set volume.size_bytes=100", "volume.size_bytes = 100: give 4096 to"),
        ("--dir D --jobs 2", "--jobs"),
        ("--dir D/none", "this is not a directory"),
        ("", "give one with --dir"),
    ] {
        let more = more.replace('D', &dir.to_string());
        let line = format!("sim {dir}/s.toml --world real --out {dir}/out {more}");
        let error = format!("{:#}", weft(&line).unwrap_err());
        assert!(error.contains(why), "{line}: {error}");
        assert!(!temp.path().join("out").exists(), "{line}");
    }
    let idle = weft(&format!("sim {dir}/s.toml --dir {dir}")).unwrap_err().to_string();
    assert!(idle.contains("the simulated world has no files"), "{idle}");
}

#[test]
fn parameters_take_the_place_of_the_scenarios_and_a_disk_may_be_a_file() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    std::fs::write(temp.path().join("s.toml"), TINY).unwrap();
    let disk = "name = \"d\"\n[fixed]\ncapacity_bytes = 1073741824\nsector_bytes = 4096\n\
                positioning_ms = 100\nbytes_per_s = 1000000000\n";
    std::fs::create_dir(temp.path().join("p")).unwrap();
    std::fs::write(temp.path().join("p/slow.toml"), disk).unwrap();
    let params = "disks = { model = \"slow.toml\" }\nnodes.mips = 1000\n";
    std::fs::write(temp.path().join("p/params.toml"), params).unwrap();
    let mean = |more: &str| -> f64 {
        weft(&format!("sim {dir}/s.toml --out {dir}/out {more}")).unwrap();
        let text = std::fs::read_to_string(temp.path().join("out/results.json")).unwrap();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        all["results"][0]["response_ms"].as_f64().unwrap()
    };
    let (usual, slow) = (mean(""), mean(&format!("--params {dir}/p/params.toml")));
    assert!(usual < 100.0 && slow > 100.0, "{usual} and {slow} ms");
    // The disk's numbers are part of what a result depends on.
    std::fs::write(temp.path().join("p/slow.toml"), disk.replace("= 100", "= 200")).unwrap();
    let slower = mean(&format!("--params {dir}/p/params.toml"));
    assert!(slower > 200.0, "{slower} ms");
    std::fs::write(temp.path().join("p/params.toml"), "nodes.mips = -1\n").unwrap();
    let bad = weft(&format!("sim {dir}/s.toml --params {dir}/p/params.toml")).unwrap_err();
    assert!(bad.to_string().contains("p/params.toml:1: nodes.mips = -1: give"), "{bad}");
}

/// A scenario with a trace beside it, and both files in a directory.
fn with_trace(dir: &Path, trace: &str) {
    let scenario = "title = \"replay\"\n[workload]\nhosts = 2\narrivals.traced.speed = 1\n\
        requests.trace = { file = \"t.csv\" }\n\
        [measure]\nwarm_up = 1\nreplications = 1\n";
    std::fs::write(dir.join("r.toml"), scenario).unwrap();
    std::fs::write(dir.join("t.csv"), trace).unwrap();
}

const TRACE: &str = "time_ms,op,offset,bytes\n0,read,0,4096\n10,write,8192,4096\n20,flush,0,0\n\
                     30,read,1048576,65536\n";

#[test]
fn a_trace_is_found_beside_its_scenario_and_part_of_what_a_result_depends_on() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    with_trace(temp.path(), TRACE);
    let csv = |more: &str| {
        weft(&format!("sim {dir}/r.toml --out {dir}/out {more}")).unwrap();
        std::fs::read_to_string(temp.path().join("out/results.csv")).unwrap()
    };
    let points =
        || std::fs::read_to_string(temp.path().join("out/points.jsonl")).unwrap().lines().count();
    let first = csv("");
    let study = std::fs::read_to_string(temp.path().join("out/study.json")).unwrap();
    assert!(study.contains("one run of 3 requests, after 1 to warm up"), "{study}");
    assert_eq!((csv(""), points()), (first.clone(), 1), "what is known is not run again");
    // The same name and another request: another point.
    std::fs::write(temp.path().join("t.csv"), TRACE.replace("65536", "4096")).unwrap();
    assert_ne!(csv(""), first);
    assert_eq!(points(), 2);
    // Another name, and the same requests packed in another format.
    std::fs::write(temp.path().join("t.csv"), TRACE).unwrap();
    weft(&format!("trace convert {dir}/t.csv {dir}/u.gz --to iolog")).unwrap();
    let packed = csv("--set workload.requests.trace.file=u.gz");
    assert_eq!((packed, points()), (first, 3));
    let swept = csv("--sweep workload.arrivals.traced.speed=1,2 workload.hosts=1,2");
    assert_eq!((swept.lines().count(), points()), (5, 6));
    weft(&format!("sim {dir}/r.toml --trace-request 3")).unwrap();
    weft(&format!("sim {dir}/r.toml --trace-request 3 --json")).unwrap();
}

#[test]
fn what_is_wrong_with_a_trace_is_said_with_its_line_and_the_scenarios() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display().to_string();
    with_trace(temp.path(), TRACE);
    let key = "workload.requests.trace.file = t.csv";
    let run = |more: &str| {
        let error = weft(&format!("sim {dir}/r.toml --out {dir}/out {more}")).unwrap_err();
        assert!(!temp.path().join("out").exists(), "{more}");
        format!("{error:#}")
    };
    for (trace, why) in [
        (TRACE.replace("8192,4096", "x,4096"), format!("{key}: {dir}/t.csv, line 3: ")),
        (
            TRACE.replace("time_ms", "when"),
            format!("{key}: {dir}/t.csv: its format cannot be detected"),
        ),
        (String::new(), format!("{key}: {dir}/t.csv: it is empty")),
        (
            TRACE.replace("1048576", "99999999999999"),
            format!("{key}: the trace covers 100000000065535 bytes and the volume has "),
        ),
        (TRACE.lines().take(1).collect(), format!("{key}: this trace has no requests")),
    ] {
        std::fs::write(temp.path().join("t.csv"), trace).unwrap();
        let said = run("");
        assert!(said.starts_with(&format!("{dir}/r.toml:5: {why}")), "{said}");
    }
    std::fs::write(temp.path().join("t.csv"), TRACE).unwrap();
    for (more, why) in [
        ("--set workload.requests.trace.file=none", "/none: No such file"),
        ("--set workload.requests.trace.fit=fold", "fit = fold: give refuse, wrap or scale"),
        ("--set workload.requests.trace.surveyed=1", "this key does not exist"),
        ("--set workload.requests.imitation=oltp", "only a trace has times; give requests.trace"),
        ("--set workload.addresses=sequential", "a trace has its own addresses; omit it"),
        ("--set measure.warm_up=4", "the trace has 4 requests; give less than that"),
        ("--replications 2", "--replications measure.replications=2: measure.replications = 2: "),
        (
            &format!("--world real --dir {dir} --set workload.arrivals.closed.population=1"),
            "real hosts replay a trace at its own times only",
        ),
    ] {
        let said = run(more);
        assert!(said.contains(why), "{more}: {said}");
    }
}

#[test]
fn a_real_array_replays_a_trace_at_its_times() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    with_trace(temp.path(), TRACE);
    let set = "nodes.workers=3 nodes.originators=2 workload.hosts=3 volume.size_bytes=4194304 \
               measure.warm_up=0";
    let line = format!("sim {dir}/r.toml --world both --dir {dir} --out {dir}/out --set {set}");
    weft(&line).unwrap();
    for world in ["simulated", "real"] {
        let path = temp.path().join("out").join(world).join("results.json");
        let all: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let result = &all["results"][0];
        assert_eq!(result["requests"], 4, "{world}: {all}");
        // The last is asked 30 ms after the first.
        let rate = result["requests_s"].as_f64().unwrap();
        assert!(rate < 4.0 / 0.030, "{world}: {rate} requests a second");
    }
}
