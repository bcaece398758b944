//! The sentences of sections 4.1, 4.2 and 5 as ratios with bounds, read off the runs of [`Found`].
//!
//! A sentence in words has no number, so each bound is ours: 1 where the paper says that one is higher or faster, a little
//! to either side where it says "hardly" or "almost".

use std::collections::BTreeMap;

use super::super::{Metric, Point, Row, Value};

/// What a word without a number allows.
const ABOUT: f64 = 1.25;
/// What is not lower, but for chance.
const NOT_LOWER: f64 = 0.99;

const BLOCKS: [u64; 3] = [4, 32, 128];
const LARGEST: u64 = 4096;

/// Puts the sentences in the place of the rows that they are read off.
pub fn add(rows: &mut Vec<Row>) {
    let (of, others): (Vec<Row>, Vec<Row>) =
        std::mem::take(rows).into_iter().partition(|r| r.experiment == "checklist");
    *rows = others;
    if !of.is_empty() {
        let found = Found::new(&of);
        let sentences = [of_reads(&found), of_writes(&found), of_the_rest(&found)].concat();
        rows.extend(sentences.into_iter().filter_map(Sentence::rows).flatten());
    }
}

/// A sentence, and the ratio that says whether it is met.
#[derive(Clone, Copy)]
struct Sentence {
    place: &'static str,
    words: &'static str,
    /// None if the runs do not have it.
    ratio: Option<f64>,
    bound: f64,
    /// Whether the ratio has to be at least that, or at most.
    at_least: bool,
}

impl Sentence {
    fn is_met(&self, ratio: f64) -> bool {
        if self.at_least { ratio >= self.bound } else { ratio <= self.bound }
    }

    fn rows(self) -> Option<[Row; 2]> {
        let ratio = self.ratio?;
        let point: Point = vec![
            ("section", Value::Name(self.place)),
            ("sentence", Value::Name(self.words)),
            ("at", Value::Name(if self.at_least { "least" } else { "most" })),
        ];
        let row = |metric, measured, paper| Row {
            experiment: "checklist",
            point: point.clone(),
            metric,
            measured,
            ci95: None,
            relative_deviation: None,
            paper,
        };
        let met = f64::from(u8::from(self.is_met(ratio)));
        Some([row(Metric::Ratio, ratio, Some(self.bound)), row(Metric::IsMet, met, None)])
    }
}

fn at_least(
    place: &'static str,
    words: &'static str,
    bound: f64,
    all: impl IntoIterator<Item = Option<f64>>,
) -> Sentence {
    let ratio = all.into_iter().flatten().reduce(f64::min);
    Sentence { place, words, ratio, bound, at_least: true }
}

fn at_most(
    place: &'static str,
    words: &'static str,
    bound: f64,
    all: impl IntoIterator<Item = Option<f64>>,
) -> Sentence {
    let ratio = all.into_iter().flatten().reduce(f64::max);
    Sentence { place, words, ratio, bound, at_least: false }
}

/// Where a run belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    op: &'static str,
    system: &'static str,
    block: u64,
    request: u64,
    lost: &'static str,
    hosts: u64,
    xor: bool,
}

fn at(op: &'static str, system: &'static str, block: u64, request: u64) -> At {
    At { op, system, block, request, lost: "nothing", hosts: 4, xor: true }
}

/// What was found.
struct Found(BTreeMap<(At, Metric), f64>);

impl Found {
    fn new(rows: &[Row]) -> Found {
        Found(rows.iter().map(|r| ((place(&r.point), r.metric), r.measured)).collect())
    }

    fn of(&self, at: At, metric: Metric) -> Option<f64> {
        self.0.get(&(at, metric)).copied()
    }

    fn most(&self, at: At) -> Option<f64> {
        self.of(at, Metric::ControllerMbS)
    }

    /// How many times the baseline's throughput TPT-RAID's is.
    fn advantage(&self, op: &'static str, block: u64, request: u64) -> Option<f64> {
        self.advantage_at(At { block, request, ..at(op, "tpt", 0, 0) })
    }

    fn advantage_at(&self, tpt: At) -> Option<f64> {
        Some(self.most(tpt)? / self.most(At { system: "baseline", ..tpt })?)
    }

    /// How a processor's most throughput stands to the port's.
    fn processor_to_port(&self, at: At) -> Option<f64> {
        let processor = self.of(at, Metric::ControllerProcessorMbS)?;
        Some(processor / self.of(at, Metric::ControllerPortMbS)?)
    }

    /// The sizes of requests that were run.
    fn requests(&self) -> Vec<u64> {
        (0..=10).map(|n| 4 << n).filter(|r| self.most(at("read", "tpt", 4, *r)).is_some()).collect()
    }

    /// All blocks and requests.
    fn everywhere(&self) -> Vec<(u64, u64)> {
        let requests = self.requests();
        BLOCKS.into_iter().flat_map(|b| requests.iter().map(move |r| (b, *r))).collect()
    }

    /// What becomes of something from one block to the next larger, wherever a request is longer than the smaller one.
    fn by_block(&self, of: impl Fn(u64, u64) -> Option<f64>) -> Vec<Option<f64>> {
        let ratio = |b: &[u64], r: u64| Some(of(b[1], r)? / of(b[0], r)?);
        let pairs =
            self.requests().into_iter().flat_map(|r| BLOCKS.windows(2).map(move |b| (b, r)));
        pairs.filter(|(b, r)| *r > b[0]).map(|(b, r)| ratio(b, r)).collect()
    }

    /// The same from one request to the next longer.
    fn by_request(&self, blocks: &[u64], of: impl Fn(u64, u64) -> Option<f64>) -> Vec<Option<f64>> {
        let requests = self.requests();
        let ratio = |b: u64, r: &[u64]| Some(of(b, r[1])? / of(b, r[0])?);
        let of_block = |b: &u64| requests.windows(2).map(|r| ratio(*b, r)).collect::<Vec<_>>();
        blocks.iter().flat_map(of_block).collect()
    }
}

fn place(point: &Point) -> At {
    let value = |key: &str| point.iter().find(|p| p.0 == key).map(|p| &p.1);
    let name = |key: &str| match value(key) {
        Some(Value::Name(name)) => *name,
        _ => "",
    };
    let count = |key: &str| match value(key) {
        Some(Value::Count(n)) => *n,
        _ => 0,
    };
    At {
        op: name("op"),
        system: name("system"),
        block: count("block_kb"),
        request: count("request_kb"),
        lost: name("lost"),
        hosts: count("hosts"),
        xor: value("xor") == Some(&Value::Switch(true)),
    }
}

/// What Figure 5 is said to show.
fn of_reads(found: &Found) -> Vec<Sentence> {
    let requests = found.requests();
    let tpt = |b, r| found.most(at("read", "tpt", b, r));
    let bound = |system, b, r| found.processor_to_port(at("read", system, b, r));
    let inverse = |ratio: Option<f64>| ratio.map(f64::recip);
    let spread = |r: &u64| {
        let of = |b: u64| found.most(at("read", "baseline", b, *r));
        let all: Vec<f64> = BLOCKS.into_iter().filter_map(of).collect();
        let (low, high) =
            (all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?);
        Some(high / low)
    };
    let advantage = |b, r| found.advantage("read", b, r);
    let small = requests.iter().filter(|r| **r <= 64);
    let large = requests.iter().filter(|r| **r > 64);
    let larger = || [32, 128].into_iter().flat_map(|b| requests.iter().map(move |r| (b, *r)));
    let last = requests.windows(2).last().map(|r| (r[0], r[1]));
    let grows = |b: u64| last.and_then(|(r, s)| Some(tpt(b, s)? / tpt(b, r)?));
    vec![
        at_most(
            "4.1 figure 5",
            "baseline: block size hardly affects",
            ABOUT,
            requests.iter().map(spread),
        ),
        at_most(
            "4.1 figure 5",
            "baseline, 4 KB requests: the processor limits",
            1.0,
            BLOCKS.map(|b| bound("baseline", b, 4)),
        ),
        at_most(
            "4.1 figure 5",
            "baseline, large requests: the link limits",
            1.0,
            BLOCKS.map(|b| inverse(bound("baseline", b, LARGEST))),
        ),
        at_most(
            "4.1 figure 5",
            "tpt: the processor limits",
            1.0,
            found.everywhere().into_iter().map(|(b, r)| bound("tpt", b, r)),
        ),
        at_least("4.1 figure 5", "tpt: increases with block size", NOT_LOWER, found.by_block(tpt)),
        at_most("4.1 figure 5", "tpt: longer requests hardly change it", ABOUT, BLOCKS.map(grows)),
        at_least(
            "4.1 figure 5",
            "4 KB blocks, to 64 KB: tpt higher (fitted)",
            1.0,
            small.map(|r| advantage(4, *r)),
        ),
        at_most(
            "4.1 figure 5",
            "4 KB blocks, above: baseline higher (fitted)",
            1.0,
            large.map(|r| advantage(4, *r)),
        ),
        at_least(
            "4.1 figure 5",
            "32, 128 KB blocks: tpt higher",
            1.0,
            larger().map(|(b, r)| advantage(b, r)),
        ),
        at_least(
            "4.1 figure 5",
            "the advantage increases with block size",
            NOT_LOWER,
            found.by_block(advantage),
        ),
    ]
}

/// What Figure 6 is said to show.
fn of_writes(found: &Found) -> Vec<Sentence> {
    let requests = found.requests();
    let all = found.everywhere();
    let tpt = |b, r| found.most(at("write", "tpt", b, r));
    let bound = |system, b, r| found.processor_to_port(at("write", system, b, r));
    let free = |b| At { xor: false, ..at("write", "baseline", b, LARGEST) };
    let by_xor = |b: u64| {
        let processor = |at| found.of(at, Metric::ControllerProcessorMbS);
        Some(1.0 - processor(at("write", "baseline", b, LARGEST))? / processor(free(b))?)
    };
    let advantage = |b, r| found.advantage("write", b, r);
    let apart = |r: &u64| advantage(4, *r).map(|a| a.max(a.recip()));
    let (small, large): (Vec<u64>, Vec<u64>) = requests.iter().partition(|r| **r <= 64);
    let larger = all.iter().filter(|(b, _)| *b > 4);
    vec![
        at_most(
            "4.1 figure 6",
            "baseline: the processor limits",
            1.0,
            all.iter().map(|(b, r)| bound("baseline", *b, *r)),
        ),
        at_least(
            "4.1 figure 6",
            "baseline, 4 MB: share of XOR in the processor's work (fitted)",
            0.5,
            BLOCKS.map(by_xor),
        ),
        at_most(
            "4.1 figure 6",
            "baseline with XOR hardware, 4 MB: the link limits",
            1.0,
            BLOCKS.map(|b| found.processor_to_port(free(b)).map(f64::recip)),
        ),
        at_most(
            "4.1 figure 6",
            "tpt: the processor limits",
            1.0,
            all.iter().map(|(b, r)| bound("tpt", *b, *r)),
        ),
        at_least("4.1 figure 6", "tpt: increases with block size", NOT_LOWER, found.by_block(tpt)),
        at_least(
            "4.1 figure 6",
            "tpt: increases with request size",
            NOT_LOWER,
            found.by_request(&BLOCKS, tpt),
        ),
        at_most(
            "4.1 figure 6",
            "4 KB blocks, to 64 KB: almost the same",
            ABOUT,
            small.iter().map(apart),
        ),
        at_most(
            "4.1 figure 6",
            "4 KB blocks, above: baseline higher (fitted)",
            1.0,
            large.iter().map(|r| advantage(4, *r)),
        ),
        at_least(
            "4.1 figure 6",
            "32, 128 KB blocks: tpt higher",
            1.0,
            larger.map(|(b, r)| advantage(*b, *r)),
        ),
        at_least(
            "4.1 figure 6",
            "the advantage increases with block size",
            NOT_LOWER,
            found.by_block(advantage),
        ),
        at_least(
            "4.1 figure 6",
            "the advantage increases with request size",
            NOT_LOWER,
            found.by_request(&[32, 128], advantage),
        ),
    ]
}

/// Degraded mode, Table 1, latency, and the conclusions.
fn of_the_rest(found: &Found) -> Vec<Sentence> {
    let lost = |op, lost| At { lost, ..at(op, "tpt", 32, 256) };
    let usual = found.advantage_at(lost("write", "nothing"));
    let like_writes = |op, what| {
        let ratio = found.advantage_at(lost(op, what))? / usual?;
        Some(ratio.max(ratio.recip()))
    };
    let hosts = |system, block, request| {
        ["read", "write"].map(|op| found.of(at(op, system, block, request), Metric::HostsMulti))
    };
    let rows = [(4, 64), (4, 1024), (32, 128), (32, 1024), (128, 512), (128, 4096)];
    let latency = |op, request, hosts| {
        let of = |system| found.of(At { hosts, ..at(op, system, 32, request) }, Metric::LatencyMs);
        Some(of("tpt")? / of("baseline")?)
    };
    let idle =
        ["read", "write"].into_iter().flat_map(|op| [4, 16, 64, 1024].map(|r| latency(op, r, 0)));
    let idle: Vec<f64> = idle.flatten().collect();
    let faster = idle.iter().filter(|ratio| **ratio <= 1.0 / NOT_LOWER).count();
    let most = (!idle.is_empty()).then(|| faster as f64 / idle.len() as f64);
    let loaded = ["read", "write"].map(|op| latency(op, 64, 16));
    let large: Vec<(u64, u64)> =
        found.everywhere().into_iter().filter(|(b, r)| *b > 32 && *r > 32).collect();
    let both = |of: &dyn Fn(&'static str) -> Vec<Option<f64>>| [of("read"), of("write")].concat();
    vec![
        at_most(
            "4.1 degraded",
            "reads: relative performance as of writes",
            1.5,
            [like_writes("read", "target")],
        ),
        at_most("4.1 degraded", "writes: the same", 1.5, [like_writes("write", "target")]),
        at_most(
            "4.1 degraded",
            "reads while reconstructing: the same",
            1.5,
            [like_writes("read", "reconstructed")],
        ),
        at_most(
            "4.1 degraded",
            "writes while reconstructing: the same",
            1.5,
            [like_writes("write", "reconstructed")],
        ),
        at_most(
            "4.1 table 1",
            "baseline: one host is too many",
            1.0,
            rows.into_iter().flat_map(|(b, r)| hosts("baseline", b, r)),
        ),
        at_most(
            "4.1 table 1",
            "tpt, 4 KB blocks: less than one (fitted)",
            1.0,
            [64, 1024].into_iter().flat_map(|r| hosts("tpt", 4, r)),
        ),
        at_least("4.2", "unloaded: in most cases tpt is no slower", 0.5, [most]),
        at_most("4.2", "loaded: tpt is faster", 1.0, loaded),
        at_least(
            "5",
            "blocks and requests above 32 KB: tpt higher",
            1.0,
            both(&|op| large.iter().map(|(b, r)| found.advantage(op, *b, *r)).collect()),
        ),
        at_least(
            "5",
            "the advantage increases further with block size",
            NOT_LOWER,
            both(&|op| found.by_block(|b, r| found.advantage(op, b, r))),
        ),
        at_least(
            "5",
            "the advantage increases further with request size",
            NOT_LOWER,
            both(&|op| found.by_request(&[128], |b, r| found.advantage(op, b, r))),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: &'static str, system: &'static str, block: u64, request: u64, mb_s: f64) -> Row {
        let point = vec![
            ("op", Value::Name(op)),
            ("system", Value::Name(system)),
            ("block_kb", Value::Count(block)),
            ("request_kb", Value::Count(request)),
            ("lost", Value::Name("nothing")),
            ("hosts", Value::Count(4)),
            ("xor", Value::Switch(true)),
        ];
        let (metric, ci95) = (Metric::ControllerMbS, None);
        let relative_deviation = None;
        Row {
            experiment: "checklist",
            point,
            metric,
            measured: mb_s,
            ci95,
            relative_deviation,
            paper: None,
        }
    }

    fn verdict(rows: &[Row], words: &str) -> Option<(f64, f64)> {
        let of = |metric| {
            let is = |r: &&Row| r.metric == metric && r.point[1].1 == Value::Name(words_of(words));
            rows.iter().find(is).map(|r| r.measured)
        };
        Some((of(Metric::Ratio)?, of(Metric::IsMet)?))
    }

    /// The sentence's own words, which are not the test's.
    fn words_of(words: &str) -> &'static str {
        let found = Found(BTreeMap::new());
        let all = [of_reads(&found), of_writes(&found), of_the_rest(&found)].concat();
        all.iter().find(|s| s.words == words).expect("there is such a sentence").words
    }

    #[test]
    fn a_sentence_is_met_where_its_worst_ratio_is_and_left_out_where_there_is_none() {
        let fast = |mb_s| {
            let mut rows = Vec::new();
            for (request, tpt) in [(4, 30.0), (64, mb_s), (128, 400.0)] {
                rows.push(row("read", "tpt", 4, request, tpt));
                rows.push(row(
                    "read",
                    "baseline",
                    4,
                    request,
                    if request > 64 { 500.0 } else { 25.0 },
                ));
            }
            add(&mut rows);
            rows
        };
        let small = "4 KB blocks, to 64 KB: tpt higher (fitted)";
        assert_eq!(verdict(&fast(50.0), small), Some((1.2, 1.0)));
        assert_eq!(verdict(&fast(20.0), small), Some((0.8, 0.0)));
        let large = "4 KB blocks, above: baseline higher (fitted)";
        assert_eq!(verdict(&fast(50.0), large), Some((0.8, 1.0)));
        assert_eq!(verdict(&fast(50.0), "32, 128 KB blocks: tpt higher"), None);
        assert!(fast(50.0).iter().all(|r| matches!(r.metric, Metric::Ratio | Metric::IsMet)));
    }
}
