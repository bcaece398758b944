use super::*;

const BASE: &str = "title = \"t\"\nabout = \"a\"\n[workload]\narrivals.closed.population = 1\n\
                    requests.fixed = { bytes = 4096, read_share = 1.0 }\n";

fn scenario(more: &str) -> Result<Scenario> {
    Scenario::parse("x.toml", &format!("{BASE}{more}"))
}

fn problem(more: &str) -> String {
    scenario(more).and_then(|s| s.points()).unwrap_err().to_string()
}

fn setting(text: &str) -> Setting {
    text.parse().unwrap()
}

#[test]
fn axes_multiply_in_the_order_of_the_file() {
    let s = scenario(
        "[sweep]\nvolume.unit = [4096, 8192]\nlinks.mb_s = [1, 2.5]\n\
         who = [{ name = \"few\", nodes.workers = 5 }, { name = \"many\", nodes.workers = 22 }]\n",
    )
    .unwrap();
    let axes: Vec<&str> = s.axes.iter().map(|a| a.key.as_str()).collect();
    assert_eq!(axes, ["volume.unit", "links.mb_s", "who"]);
    let points = s.points().unwrap();
    assert_eq!(points.len(), 8);
    let p = &points[5];
    let labels: Vec<String> = p.labels.iter().map(plain).collect();
    assert_eq!(labels, ["8192", "1", "many"]);
    let values = (p.system.volume.unit, p.system.links.mb_s, p.system.nodes.workers);
    assert_eq!(values, (8192, 1.0, 22));
}

#[test]
fn the_command_line_changes_what_is_set_and_what_is_swept() {
    let mut s = scenario(
        "[sweep]\nvolume.unit = [4096, 8192]\n\
         who = [{ name = \"few\", nodes.workers = 5 }, { name = \"many\", nodes.workers = 22 }]\n",
    )
    .unwrap();
    s.set(&setting("volume.unit=16384"), "--set").unwrap();
    s.set(&setting("disks.model=flash"), "--set").unwrap();
    s.set(&setting("workload.requests.imitation=oltp"), "--set").unwrap();
    s.sweep(&setting("disks.scheduler=fcfs,satf")).unwrap();
    s.sweep(&setting("who=many")).unwrap();
    let points = s.points().unwrap();
    assert_eq!(points.len(), 2);
    let system = &points[1].system;
    assert_eq!((system.volume.unit, system.nodes.workers), (16384, 22));
    assert_eq!(system.disks.model, "flash");
    assert_eq!(points[1].labels.iter().map(plain).collect::<Vec<_>>(), ["many", "satf"]);
    assert!(s.sweep(&setting("who=some")).unwrap_err().to_string().contains("choose from many"));
}

#[test]
fn errors_name_file_line_and_range() {
    for (more, why) in [
        ("[links]\nmb_s = -1", "x.toml:7: links.mb_s = -1: give 0.001 to 1e9"),
        ("[sweep]\nlinks.mb_s = [1,\n-1]", "x.toml:8: links.mb_s = -1: give 0.001 to 1e9"),
        (
            "[sweep]\nlink.mb_s = [1]",
            "x.toml:7: sweep.link.mb_s: this key does not exist; did you mean links?",
        ),
        ("[sweep]\nlinks.mb_s = 1", "x.toml:7: sweep.links.mb_s: give a list of values"),
        ("[sweep]\na = [{ nodes.workers = 1 }]", "x.toml:7: sweep.a: a case needs a name"),
        (
            "[disks]\nmodel = \"hp98000\"",
            "x.toml:7: disks.model = hp98000: there is no disk 'hp98000'; there are hp97560-tickertaip",
        ),
        ("hosts = 0", "x.toml:6: workload.hosts = 0: give 1 to 65536"),
        ("hosts = -1", "x.toml:6: workload.hosts = -1: give 1 to 65536; it counts hosts"),
        ("hosts = \"4\"", "x.toml:6: workload.hosts = 4: give 1 to 65536; it counts hosts"),
        ("arrivals.open.rate_per_s = 1", "x.toml:4: workload.arrivals: give one of closed, open"),
        (
            "[nodes]\nworkers = 7\noriginators = 8",
            "x.toml:8: nodes.originators = 8: there are 7 workers; give 0 to 7 (4 if left out)",
        ),
        (
            "[nodes]\nworkers = 2\noriginators = 1\n[volume]\nlayout = \"raid6\"",
            "x.toml:10: volume.layout = raid6: ",
        ),
        (
            "[nodes]\nworkers = 5000\n[links]\nfabric = \"point-to-point\"",
            "x.toml:9: links.fabric = point-to-point: 5000 workers would need a link",
        ),
        (
            "[volume]\nwidth = 4",
            "x.toml:7: volume.width = 4: give a number that divides the 11 workers",
        ),
        ("addresses.zipf.regions = 7", "x.toml:6: workload.addresses.zipf.exponent is missing"),
        (
            "[sweep]\na = [{ name = \"b\", nodes.workers = 5 }, { name = \"b\", nodes.workers = 6 }]",
            "x.toml:7: sweep.a: b appears twice; give each once",
        ),
        (
            "addresses = \"zipf\"",
            "x.toml:6: workload.addresses.zipf has keys of its own: give workload.addresses.zipf.regions,",
        ),
        ("\n[volume]\nunit = 4097", "x.toml:8: volume.unit = 4097: give a multiple of 4096"),
    ] {
        let said = problem(more);
        assert!(said.starts_with(why), "{more}\n{said}");
    }
    let open = "[workload]\n\narrivals.open.rate_per_s = 1e6\nrequests.imitation = \"oltp\"";
    let said = Scenario::parse("y", open).unwrap().points().unwrap_err().to_string();
    assert!(
        said.starts_with("y:3: workload.arrivals.open.rate_per_s = 1000000: that is "),
        "{said}"
    );
}

#[test]
fn a_name_that_is_nearly_right_is_said() {
    let said = |name: &str| Scenario::open(name).map(drop).unwrap_err().to_string();
    let meant = said("tickertaip/reeds");
    assert!(meant.contains("did you mean tickertaip/reads?"), "{meant}");
    assert!(!said("of-nobody/at-all").contains("did you mean"));
}

#[test]
fn errors_name_the_argument() {
    let mut s = scenario("").unwrap();
    let said = s.set(&setting("links.mbs=1"), "--set").unwrap_err().to_string();
    assert_eq!(
        said,
        "--set links.mbs=1: links.mbs: this key does not exist; did you mean links.mb_s?"
    );
    s.sweep(&setting("links.mb_s=1,0")).unwrap();
    let said = s.points().unwrap_err().to_string();
    assert_eq!(said, "--sweep links.mb_s=1,0: links.mb_s = 0: give 0.001 to 1e9");
    assert!("links.mb_s".parse::<Setting>().is_err());
}

#[test]
fn a_key_that_another_displaces_is_refused() {
    let mut s = scenario("").unwrap();
    s.sweep(&setting("workload.requests.fixed.bytes=4096,8192")).unwrap();
    s.sweep(&setting("workload.requests.imitation=oltp")).unwrap();
    let said = s.points().unwrap_err().to_string();
    assert!(said.contains("another key overrides it"), "{said}");
}

#[test]
fn a_key_that_is_set_is_never_passed_over() {
    let mut s = scenario("[sweep]\nworkload.requests.fixed.bytes = [4096, 8192]\n").unwrap();
    s.set(&setting("workload.requests.imitation=oltp"), "--set").unwrap();
    let said = s.points().unwrap_err().to_string();
    let why = "--set workload.requests.imitation=oltp: workload.requests.imitation is set, but";
    assert!(said.starts_with(why), "{said}");
}

/// A case that sets the same key would win, whatever the command line says.
#[test]
fn a_key_that_a_case_sets_is_not_set_or_swept_beside_it() {
    let cases = "[sweep]\nwho = [{ name = \"few\", nodes.workers = 5 }, { name = \"many\", links.mb_s = 22 }]\n";
    let mut s = scenario(cases).unwrap();
    s.set(&setting("nodes.workers=7"), "--set").unwrap();
    let said = s.points().unwrap_err().to_string();
    let why = "--set nodes.workers=7: nodes.workers is set, but the sweep's few sets it, too";
    assert!(said.starts_with(why), "{said}");
    s.set(&setting("who=many"), "--set").unwrap();
    assert_eq!(s.points().unwrap()[0].system.nodes.workers, 7, "this case does not set it");

    let mut s = scenario(cases).unwrap();
    s.sweep(&setting("nodes.workers=7,8")).unwrap();
    let said = s.points().unwrap_err().to_string();
    let why = "--sweep nodes.workers=7,8: sweep.who and sweep.nodes.workers both set nodes.workers";
    assert!(said.starts_with(why), "{said}");
}
