use std::path::Path;

use crate::catalogue::{self, ENTRIES};
use crate::outputs::Outputs;
use crate::scenario::Scenario;
use crate::store::{Done, Store, Study};
use crate::study::{self, Shard};
use crate::world::World;
use crate::{describe, keys, result, run};

const SMALL: &str = "title = \"small\"\nabout = \"a test\"\n\
    workload.arrivals.closed.population = 2\n\
    workload.requests.fixed = { bytes = 4096, read_share = 0.5 }\n\
    measure = { warm_up = 5, requests = 20, replications = 2 }\n\
    [sweep]\nlinks.mb_s = [1, 10]\nvolume.commit = [\"none\", \"late\"]\n";

/// A scenario that comes with Weft, cut down to few requests.
fn small(entry: &catalogue::Entry) -> Scenario {
    let mut scenario = Scenario::parse(&entry.path(), entry.text).unwrap();
    for text in ["measure.requests=20", "measure.warm_up=5", "measure.replications=1"] {
        scenario.set(&text.parse().unwrap(), "--set").unwrap();
    }
    if entry.name == "drnet/scaling" {
        scenario.sweep(&"size=100,400".parse().unwrap()).unwrap();
    }
    scenario
}

fn results(scenario: &Scenario, jobs: usize) -> (Study, Done) {
    let points = scenario.points().unwrap();
    let study = study::study(&World::Simulated { jobs }, scenario, &points);
    let systems: Vec<_> = points.iter().map(|p| (scenario.name_of(p), &p.system)).collect();
    let mut done = Done::new();
    run::run(&systems, jobs, |n, outcomes| {
        let measured = result::Measured::of(&weft_sim::perf::Summary::of(outcomes));
        done.insert(study.points[n].key.clone(), measured);
        Ok(())
    })
    .unwrap();
    (study, done)
}

#[test]
fn every_scenario_that_comes_with_weft_runs() {
    for entry in ENTRIES {
        let scenario = small(entry);
        assert!(!scenario.title.is_empty() && !scenario.about.is_empty(), "{}", entry.name);
        let (study, done) = results(&scenario, 2);
        for place in &study.points {
            let measured = &done[&place.key];
            assert!(measured.throughput_mb_s.mean > 0.0, "{}: {place:?}", entry.name);
            assert!(measured.requests >= 20, "{}: {place:?}", entry.name);
        }
    }
}

#[test]
fn the_catalogue_has_every_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(&root).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            // Traces are in the catalogue beside the scenarios.
            if path.extension().is_some_and(|e| e != "toml") {
                let path = path.strip_prefix(root.parent().unwrap()).unwrap();
                assert!(catalogue::trace(&path.display().to_string()).is_some(), "{path:?}");
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().with_extension("");
            files.push(name.display().to_string());
        }
    }
    files.sort();
    let mut names: Vec<&str> = ENTRIES.iter().map(|e| e.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut scenario = small(catalogue::find("tickertaip/commit").unwrap());
    scenario.set(&"measure.replications=3".parse().unwrap(), "--set").unwrap();
    let one = results(&scenario, 1);
    let four = results(&scenario, 4);
    assert_eq!(Outputs::new(&one.0, &one.1).json(), Outputs::new(&four.0, &four.1).json());
}

#[test]
fn a_directory_has_one_writer() {
    let temp = tempfile::tempdir().unwrap();
    let (_store, done) = Store::open(temp.path()).unwrap();
    assert!(done.is_empty());
    let again = Store::open(temp.path()).err().unwrap().to_string();
    assert!(again.contains("another process is writing"), "{again}");
}

#[test]
fn every_key_is_explained() {
    let all = describe::describe("").unwrap();
    for key in
        ["title", "sweep", "links.mb_s", "workload.requests.fixed.bytes", "disk.bus.setup_ms"]
    {
        assert!(all.contains(&format!("\n{key}\n")) || all.starts_with(key), "{key}");
    }
    let one = describe::describe("links.mb_s").unwrap();
    assert!(one.starts_with("links.mb_s\n    0.001 to 1e9; in 10^6 bytes/s; default 10"), "{one}");
    assert!(!one.contains("latency"));
    let hosts = describe::describe("hosts.links").unwrap();
    assert!(
        hosts.contains("hosts.links.latency_us\n    0 to 1e9; in microseconds; default 10\n"),
        "{hosts}"
    );
    let class = describe::describe("workload.requests.mix[0].weight").unwrap();
    assert!(class.starts_with("workload.requests.mix.weight\n    above 0\n"), "{class}");
    let list = describe::list().unwrap();
    for row in keys::rows() {
        assert!(list.contains(&format!("\n{} ", row.key)), "{} is not listed", row.key);
        assert!(!row.source.is_empty(), "{} has no source", row.key);
    }
    let wrong = describe::describe("links.mbs").unwrap_err().to_string();
    assert!(wrong.ends_with("did you mean links.mb_s?"), "{wrong}");
}

#[test]
fn a_warm_up_by_a_test_is_found_and_told() {
    let text = SMALL.replace("warm_up = 5, requests = 20", "warm_up = \"mser-5\", requests = 200");
    let scenario = Scenario::parse("s.toml", &text).unwrap();
    let (study, done) = results(&scenario, 2);
    let again = results(&scenario, 1);
    assert_eq!(Outputs::new(&study, &done).json(), Outputs::new(&again.0, &again.1).json());
    assert!(study.method.contains("MSER-5"), "{}", study.method);
    let found: Vec<u64> = done.values().map(|d| d.warm_up.unwrap()).collect();
    assert!(found.iter().all(|n| n % 5 == 0 && *n < 100), "{found:?}");
    // Two runs of each point, of which the pilot is none.
    assert!(done.values().all(|d| d.requests == 400));
}

#[test]
fn shards_are_parts() {
    assert_eq!("1/4".parse(), Ok(Shard { index: 1, of: 4 }));
    for bad in ["4/4", "1", "0/0", "-1/2", "a/b"] {
        assert!(bad.parse::<Shard>().is_err(), "{bad}");
    }
}

/// A sweep over designs is compared run by run, in a file and by the script that is an example of reading results.
#[test]
fn designs_are_compared_on_common_seeds() {
    let scenario = Scenario::parse("s.toml", SMALL).unwrap();
    let (study, done) = results(&scenario, 2);
    let dir = tempfile::tempdir().unwrap();
    Outputs::new(&study, &done).write(dir.path()).unwrap();
    let csv = std::fs::read_to_string(dir.path().join("differences.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "links.mb_s,volume.commit,beside,metric,difference,ci95,share,runs");
    assert_eq!(lines.len(), 1 + 2 * 2, "two links, two metrics: {csv}");
    assert!(lines[1].starts_with("1,late,none,throughput_mb_s,"), "{csv}");
    let late =
        |metric: usize| -> f64 { lines[1 + metric].split(',').nth(4).unwrap().parse().unwrap() };
    // The mean of the differences is the difference of the means; only the interval is another.
    let mean = |n: usize| done[&study.points[n].key].response_ms.mean;
    assert!((late(1) - (mean(1) - mean(0))).abs() < 1e-9, "{csv}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lab/examples/differences.py");
    let ran = std::process::Command::new("python3")
        .arg(script)
        .arg(dir.path())
        .args(["volume.commit", "none", "late"])
        .output();
    let Ok(ran) = ran else { return eprintln!("skipped: there is no python3") };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    let said: f64 = out.lines().nth(1).unwrap().split('\t').nth(2).unwrap().parse().unwrap();
    assert!((said - late(1)).abs() < 0.001, "{out}{csv}");
}

#[test]
fn writes_within_sectors_are_warned_of_once() {
    let method = |bytes: &str, more: &str| {
        let text = SMALL.replace("bytes = 4096", &format!("bytes = {bytes}"));
        let text = text.replace("[sweep]", &format!("{more}\n[sweep]"));
        let scenario = Scenario::parse("test", &text).unwrap();
        let points = scenario.points().unwrap();
        study::study(&World::Simulated { jobs: 1 }, &scenario, &points).method
    };
    let warned = method("2048", "");
    assert_eq!(warned.matches("Warning: writes of 2048 bytes begin or end within").count(), 1);
    assert!(method("8192", "workload.align_bytes = 512").contains("Warning: writes of 8192"));
    assert!(!method("8192", "").contains("Warning"));
}

#[test]
fn a_terminal_is_shown_differences_and_no_wide_table() {
    let scenario = Scenario::parse("test", SMALL).unwrap();
    let (study, done) = results(&scenario, 2);
    let text = Outputs::new(&study, &done).text();
    assert!(text.contains("On common seeds") && text.contains("response_ms"), "{text}");
    let width = |line: &str| line.chars().count();
    assert!(text.lines().filter(|l| l.contains(['│', '┆'])).all(|l| width(l) <= 120), "{text}");
}

fn method(text: &str) -> String {
    let scenario = Scenario::parse("test", text).unwrap();
    let points = scenario.points().unwrap();
    study::study(&World::Simulated { jobs: 1 }, &scenario, &points).method
}

#[test]
fn the_method_says_how_long_is_measured() {
    let of = |more: &str| method(&SMALL.replace("requests = 20", more));
    assert!(of("requests = 20").contains("2 independent runs of 20 requests"));
    let seconds = of("seconds = 1.5");
    assert!(seconds.contains("2 independent runs of 1.5 simulated seconds, after 5"), "{seconds}");
}

#[test]
fn writes_of_a_trace_within_sectors_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let of = |bytes: u32| {
        let file = dir.path().join(format!("{bytes}.csv"));
        let text =
            format!("time_ns,op,offset,bytes\n0,W,0,{bytes}\n10,R,512,512\n20,W,4096,4096\n");
        std::fs::write(&file, text).unwrap();
        method(&format!(
            "workload.requests.trace = {{ file = {file:?} }}\nworkload.arrivals.closed.population = 1\n\
             measure = {{ warm_up = 0, replications = 1 }}\n"
        ))
    };
    let warned = of(512);
    let why = "Warning: 1 of the trace's 3 requests are writes that begin or end within a sector";
    assert!(warned.contains(why), "{warned}");
    assert!(!of(8192).contains("Warning"));
}

/// The array of this scenario answers some 400 requests a second, so it carries 50 and falls behind 1500.
#[test]
fn a_workload_that_the_array_does_not_carry_is_warned_of() {
    let text = |rate: u32| {
        let requests = "workload.requests.fixed = { bytes = 4096, read_share = 1.0 }\nmeasure.requests = 2000\n";
        let scenario =
            format!("title = \"t\"\nworkload.arrivals.open.rate_per_s = {rate}\n{requests}");
        let scenario = Scenario::parse("test", &scenario).unwrap();
        let (study, done) =
            study::run(&World::Simulated { jobs: 2 }, &scenario, None, None).unwrap();
        Outputs::new(&study, &done).text()
    };
    let behind = text(1500);
    assert!(
        behind.contains("Warning: fewer requests a second were answered than offered ("),
        "{behind}"
    );
    assert!(behind.contains(" of 1500). Queues grow"), "{behind}");
    assert!(!text(50).contains("Warning"));
}

#[test]
fn what_counts_nothing_has_no_unit_in_errors() {
    let mut scenario = Scenario::parse("s.toml", SMALL).unwrap();
    scenario.set(&"measure.seed=9999999999999999999".parse().unwrap(), "--seed").unwrap();
    let said = scenario.points().unwrap_err().to_string();
    assert!(
        said.contains("give a whole number without unit, ") && !said.contains("counts"),
        "{said}"
    );
}
