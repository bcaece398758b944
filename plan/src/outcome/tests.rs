use super::*;

/// AFRAID's Table 1.
const PAPER: &str = "
mission.years = 3
disks = { size_gb = 2, mttf_h = 1e6, coverage = 0.5, price = 100 }
repair.mttr_h = 48
";

fn all(text: &str) -> Vec<Outcome> {
    outcomes(&Spec::parse(&format!("{PAPER}{text}")).unwrap()).unwrap()
}

fn one(text: &str) -> Outcome {
    let mut all = all(text);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn near(is: f64, should: f64, within: f64) {
    assert!((is / should - 1.0).abs() < within, "{is}, not {should}");
}

#[test]
fn the_papers_array_is_as_the_paper_says() {
    let text =
        "support.mttdl_h = 2e6\n[[designs]]\nlayout = \"raid5\"\ndisks = 5\nunit_bytes = 8192";
    let raid5 = one(text);
    near(raid5.mttdl_disk_h.unwrap(), 4e9, 0.05);
    near(raid5.mdlr_disk_b_h, 0.8, 0.05);
    near(raid5.mttdl_h.unwrap(), 2e6, 1e-3);
    near(raid5.mdlr_b_h, 4e3, 1e-3);
    assert_eq!(raid5.causes[0].name, "support");
    // A store keeps a twentieth of such a small disk for itself.
    near(raid5.usable_tb, 0.95 * 0.008, 0.01);
    assert_eq!(raid5.cost, 500.0);
}

#[test]
fn power_and_memory_are_as_the_paper_says() {
    let power = |more: &str| {
        one(&format!(
            "power = {{ mains_mttf_h = 4300, write_share = 0.1{more} }}\n\
             [[designs]]\nlayout = \"raid5\"\ndisks = 5\nunit_bytes = 8192"
        ))
    };
    let mains = power(", journal = false");
    near(mains.mttdl_h.unwrap(), 43e3, 1e-3);
    near(mains.mdlr_b_h - mains.mdlr_disk_b_h, 0.7, 0.1);
    near(power(", journal = false, ups_mttf_h = 200e3").mttdl_h.unwrap(), 2e6, 1e-3);
    near(power("").mttdl_h.unwrap(), 4e9, 0.05);
    let nvram = |copies: u32| {
        one(&format!(
            "nvram = {{ mttf_h = 15e3, mb = 1, copies = {copies} }}\n[[designs]]\nlayout = \"raid5\"\ndisks = 5"
        ))
    };
    near(nvram(1).mdlr_b_h - nvram(1).mdlr_disk_b_h, 67.0, 0.01);
    assert!(nvram(2).mttdl_h > nvram(1).mttdl_h.map(|h| 100.0 * h));
}

/// Two power supplies of which one is enough, and a controller without a second.
#[test]
fn parts_fail_as_they_are_needed() {
    let out =
        one("[[support.parts]]\nname = \"power supply\"\ncount = 2\nmttf_h = 1e5\nprice = 10\n\
         [[support.parts]]\nname = \"controller\"\nmttf_h = 5e5\nloses = 0.25\n\
         [[designs]]\nlayout = \"raid5\"\ndisks = 5");
    let per_h = |name: &str| out.causes.iter().find(|c| c.name == name).unwrap().per_h;
    near(per_h("controller"), 0.25 / 5e5, 1e-9);
    near(per_h("power supply"), 2.0 * 24.0 / 1e10, 1e-2);
    assert_eq!(out.cost, 520.0);
}

/// Backblaze's vault by the whole planner: four times what its windows come to (chain.rs).
#[test]
fn backblaze_by_the_planner() {
    // So long a mission that it does not matter that all is whole when it begins.
    let text = "mission.years = 20\ndisks = { size_gb = 12000, afr_percent = 0.405 }\nrepair.mttr_h = 156\n\
                monte_carlo.trials = 30000\n[[designs]]\nlayout = \"rs:17+3\"\ndisks = 20";
    let out = outcomes(&Spec::parse(text).unwrap()).unwrap().remove(0);
    let windows = 365.0 / 6.5;
    let by_windows = windows * chain::window(20, 3, 0.00405 / windows);
    near(out.loss_per_year, 4.0 * by_windows, 0.02);
    let played = out.played.unwrap();
    assert!((played.loss_per_mission - played.by_chain).abs() < played.ci95, "{played:?}");
}

#[test]
fn many_groups_lose_as_often_as_all_of_them() {
    let of = |disks: u32| one(&format!("[[designs]]\nlayout = \"rs:4+1\"\ndisks = {disks}"));
    near(of(5).mttdl_h.unwrap(), 3.0 * of(15).mttdl_h.unwrap(), 1e-9);
    near(3.0 * of(5).mdlr_b_h, of(15).mdlr_b_h, 1e-9);
}

#[test]
fn a_mirror_box_by_box_outlives_a_stripe_in_one() {
    let text = |apart: bool, count: u32| {
        format!(
            "boxes = {{ count = {count}, loss_mttf_h = 1e6, apart = {apart}, price = 7 }}\n\
             [[designs]]\nlayout = \"raid5\"\ndisks = 5"
        )
    };
    let (apart, together) = (one(&text(true, 5)), one(&text(false, 1)));
    near(together.mttdl_h.unwrap(), 1e6, 1e-2);
    assert!(apart.mttdl_h.unwrap() > 1e8);
    assert_eq!((apart.cost, together.causes[0].name.as_str()), (535.0, "boxes"));
}

#[test]
fn what_meets_the_budget_comes_first_and_the_cheapest_of_it() {
    let out = all("budget.loss_per_mission = 1e-4\n\
                   [[designs]]\nlayout = \"raid0\"\ndisks = 4\n\
                   [[designs]]\nlayout = \"raid6\"\ndisks = 6\n\
                   [[designs]]\nname = \"five\"\nlayout = \"raid5\"\ndisks = 5");
    let names: Vec<&str> = out.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["five", "raid6", "raid0"]);
    assert_eq!(
        (out[1].beyond.len(), &out[2].beyond[..]),
        (0, &["loss_per_mission".to_string()][..])
    );
}

#[test]
fn scrubbing_more_often_finds_what_cannot_be_read() {
    let of = |hours: u32| {
        let text = format!(
            "disks = {{ size_gb = 2, mttf_h = 1e6, latent_per_h = 1e-4 }}\nscrub.period_h = {hours}\n\
             [[designs]]\nlayout = \"raid5\"\ndisks = 5"
        );
        outcomes(&Spec::parse(&text).unwrap()).unwrap().remove(0)
    };
    let (week, day) = (of(168).mttdl_h.unwrap(), of(24).mttdl_h.unwrap());
    assert!(week < day, "{week}, {day}");
    assert_eq!(of(168).causes[0].name, "unreadable sectors");
}

/// Every unit and every bound is said.
#[test]
fn bad_files_are_refused_with_what_would_do() {
    let design = "[[designs]]\nlayout = \"raid5\"\ndisks = 5\n";
    for (text, why) in [
        ("disks = { size_gb = 1 }", "give one of mttf_h, afr_percent, weibull"),
        ("disks = { size_gb = 1, mttf_h = 1e6, afr_percent = 1 }", "give one of"),
        (
            "disks = { size_gb = 1, mttf_h = 0 }",
            "disks.mttf_h: 0 is not possible; give a number above 0",
        ),
        ("disks = { size_gb = 1, mttf_h = nan }", "disks.mttf_h: nan is not possible"),
        ("disks = { size_gb = 1, mttf_h = inf }", "disks.mttf_h: inf is not possible"),
        ("disks = { size_gb = 1, mttf_h = 1e-300 }", "disks.mttf_h: 0.0000"),
        ("disks = { size_gb = 1e18, mttf_h = 1e6 }", "disks.size_gb: 1000000000000000000 is"),
        ("disks = { size_gb = 1, afr_percent = 101 }", "give 0.0001 to 100"),
        ("disks = { size_gb = 1, mttf_h = 1e6, coverage = 1 }", "a share from 0 to below 1"),
        (
            "disks = { size_gb = 1, mttf = 1e6 }",
            "unknown field `mttf`, expected one of `size_gb`, `mttf_h`",
        ),
        ("disks = { size_gb = \"1T\", mttf_h = 1e6 }", "disks.size_gb: invalid type: string"),
        (
            "disks = { size_gb = 1, mttf_h = 1e6 }\nbudget.loss_per_mission = 2",
            "a share from 0 to 1",
        ),
        (
            "disks = { size_gb = 1, mttf_h = 1e6 }\npower = { mains_mttf_h = 1, write_share = 20 }",
            "a share from 0 to 1",
        ),
        (
            "disks = { size_gb = 1, mttf_h = 1e6 }\nscrub.period_h = -1",
            "scrub.period_h: -1 is not possible",
        ),
        (
            "disks = { size_gb = 1, mttf_h = 1e6 }\nsupport.parts = [{ name = \"fan\", mttf_h = 1, needed = 2 }]",
            "support.parts[0].needed: 2 is not possible; give 1 to 1",
        ),
    ] {
        let problem = Spec::parse(&format!("{text}\n{design}")).unwrap_err().to_string();
        assert!(problem.contains(why), "{problem}");
    }
    let many = "disks = { size_gb = 1, mttf_h = 1e6 }\nmonte_carlo.trials = 100000000\n\
                        [[designs]]\nlayout = \"raid0\"\ndisks = 1000\n";
    let problem = Spec::parse(many).unwrap_err().to_string();
    assert!(
        problem.contains("monte_carlo.trials: 100000000 missions of 1000 disks in all"),
        "{problem}"
    );
    assert!(problem.ends_with("give at most 10000000"), "{problem}");
    let copied =
        format!("disks = {{ size_gb = 1, mttf_h = 1e6 }}\n{design}copied.folds_per_write = 2");
    let problem = Spec::parse(&copied).unwrap_err().to_string();
    assert!(problem.contains("designs[0].copied.folds_per_write: 2 is not"), "{problem}");
    assert!(Spec::parse("= 1").unwrap_err().to_string().starts_with("line 1: "));
    let none = Spec::parse("designs = []\ndisks = { size_gb = 1, mttf_h = 1e6 }").unwrap_err();
    assert!(none.to_string().contains("one [[designs]] or more"), "{none}");
}

/// The example has values for most keys; those that it leaves out as comments are keys, too.
#[test]
fn the_example_works_as_it_is_and_with_what_it_leaves_out() {
    let mut out = outcomes(&Spec::parse(crate::EXAMPLE).unwrap()).unwrap();
    assert!(out.iter().any(|o| o.beyond.is_empty()) && out.iter().any(|o| !o.beyond.is_empty()));
    out.retain(|o| o.played.as_ref().is_none_or(|p| !p.loss_per_mission.is_finite()));
    assert!(out.is_empty(), "{out:?}");
    let mut with = String::new();
    for line in crate::EXAMPLE.lines() {
        let is_key = |l: &str| {
            l.starts_with('[') || l.split_once(" = ").is_some_and(|(k, _)| !k.contains(' '))
        };
        let left_out = line.strip_prefix("# ").filter(|l| is_key(l));
        let replaced = ["mttf_h = 1e6", "weibull"].iter().any(|k| line.contains(k));
        with += left_out.filter(|_| !replaced).unwrap_or(line);
        with.push('\n');
    }
    let spec = Spec::parse(&with).unwrap();
    assert!(spec.nvram.is_some() && spec.budget.cost.is_some() && spec.repair.mttr_h.is_some());
    outcomes(&spec).unwrap();
}
