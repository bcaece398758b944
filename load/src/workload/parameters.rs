//! The keys of a workload, for programs that explain them: the same that
//! `docs/lab/simulator-workloads.md` lists.

/// A key of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, with those above it.
    pub key: &'static str,
    /// What its value counts; empty if it counts nothing.
    pub unit: &'static str,
    /// Which values it may have.
    pub range: &'static str,
    /// What it is if it is not there; empty if something must be said.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Where the default, or the idea, comes from.
    pub source: &'static str,
}

const fn parameter(key: &'static str, unit: &'static str, range: &'static str) -> Parameter {
    Parameter { key, unit, range, default: "", meaning: "", source: "Weft" }
}

/// All keys of a [`Workload`](super::Workload).
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        default: "4",
        meaning: "number of hosts; all have this workload",
        source: "TickerTAIP, 4.2",
        ..parameter("hosts", "hosts", "1 to 65536")
    },
    Parameter {
        meaning: "requests that each host keeps outstanding",
        source: "closed as in TickerTAIP, 4.2, which does not say how many",
        ..parameter("arrivals.closed.population", "requests", "1 to 65536")
    },
    Parameter {
        default: "0",
        meaning: "time between a reply and the next request",
        ..parameter("arrivals.closed.think.constant_us", "microseconds", "0 to 86400000000")
    },
    Parameter {
        meaning: "mean of an exponentially distributed time between a reply and the next request",
        ..parameter("arrivals.closed.think.exponential_us", "microseconds", "0 to 86400000000")
    },
    Parameter {
        meaning: "mean of a normally distributed time between a reply and the next request; below 0 is 0",
        source: "Highly concurrent shared storage, Table 2",
        ..parameter("arrivals.closed.think.normal_us.mean", "microseconds", "0 to 86400000000")
    },
    Parameter {
        meaning: "its standard deviation",
        source: "Highly concurrent shared storage, Table 2",
        ..parameter("arrivals.closed.think.normal_us.deviation", "microseconds", "0 to 86400000000")
    },
    Parameter {
        meaning: "requests in a second, of all hosts together",
        ..parameter("arrivals.open.rate_per_s", "requests a second", "above 0, to 1000000000")
    },
    Parameter {
        default: "poisson",
        meaning: "how open arrivals are spaced: a Poisson process, or equal gaps, hosts taking turns",
        ..parameter("arrivals.open.spacing", "", "poisson, fixed or bursts")
    },
    Parameter {
        meaning: "bursts: requests of one, on average; each host has its own",
        source: "AFRAID, 1.2",
        ..parameter("arrivals.open.spacing.bursts.requests", "requests", "1 to 1000000000")
    },
    Parameter {
        meaning: "bursts: time between two requests of one, on average; pauses make up for them",
        source: "AFRAID, 1.2",
        ..parameter("arrivals.open.spacing.bursts.gap_ms", "milliseconds", "0 to 86400000")
    },
    Parameter {
        meaning: "saturating: a host sends its next request once the last one is accepted, before \
                  its answer; needs nodes.buffers",
        source: "DR-net, 3.1.1",
        ..parameter("arrivals", "", "saturating, closed, open or traced")
    },
    Parameter {
        default: "1",
        meaning: "requests arrive at the times of their trace (requests.trace), whether earlier \
                  ones are answered or not, sped up by this factor; hosts take turns",
        ..parameter("arrivals.traced.speed", "", "0.000001 to 1000000")
    },
    Parameter {
        meaning: "size of every request",
        ..parameter("requests.fixed.bytes", "bytes", "1 to 1073741824")
    },
    Parameter {
        meaning: "share of reads; the other requests are writes",
        ..parameter("requests.fixed.read_share", "", "0 to 1")
    },
    Parameter {
        meaning: "classes of requests that are drawn by weight: kind (read, write, flush), bytes, weight",
        ..parameter("requests.mix", "", "a list of classes")
    },
    Parameter {
        meaning: "what the requests of a class do",
        ..parameter("requests.mix.kind", "", "read, write or flush")
    },
    Parameter {
        meaning: "their size; left out of a flush",
        ..parameter("requests.mix.bytes", "bytes", "1 to 1073741824")
    },
    Parameter {
        meaning: "how often they are drawn, as a share of the weights of all classes",
        ..parameter("requests.mix.weight", "", "above 0")
    },
    Parameter {
        meaning: "the imitation of a measured workload",
        source: "TickerTAIP, 4.6; the tables are in docs/lab/simulator-workloads.md",
        ..parameter(
            "requests.imitation",
            "",
            "oltp, timeshare, small-scientific or large-scientific",
        )
    },
    Parameter {
        meaning: "the trace whose requests are made, in its order: a path relative to the \
                  scenario's directory, or to the current one; may be compressed with gzip",
        ..parameter("requests.trace.file", "", "a path")
    },
    Parameter {
        default: "as the file begins",
        meaning: "format of the trace",
        ..parameter(
            "requests.trace.format",
            "",
            "csv, srt, disksim, ssdsim, msr, vscsi, blkparse, iolog or measured",
        )
    },
    Parameter {
        default: "512; 256 of srt, and of csv with its columns",
        meaning: "size of a sector, of traces that count in sectors",
        ..parameter("requests.trace.sector_bytes", "bytes", "1 to 1048576")
    },
    Parameter {
        default: "all",
        meaning: "most requests of the trace to use, from its beginning or after the skipped ones",
        ..parameter("requests.trace.requests", "requests", "1 or more")
    },
    Parameter {
        default: "0",
        meaning: "number of requests to skip at the beginning of the trace",
        ..parameter("requests.trace.skip", "requests", "0 or more")
    },
    Parameter {
        default: "refuse",
        meaning: "how to fit a trace that exceeds the volume: refuse it, take its offsets modulo \
                  the volume, or scale them to cover it",
        ..parameter("requests.trace.fit", "", "refuse, wrap or scale")
    },
    Parameter {
        default: "uniform",
        meaning: "where requests go: anywhere, each host after its last request, to hot spots, or to a part",
        ..parameter("addresses", "", "uniform, sequential, zipf or part")
    },
    Parameter {
        meaning: "regions of equal size into which the volume is cut",
        ..parameter("addresses.zipf.regions", "regions", "1 to 1099511627776")
    },
    Parameter {
        meaning: "how uneven regions are: the r-th hottest has weight 1 / r^exponent",
        ..parameter("addresses.zipf.exponent", "", "0.01 to 10")
    },
    Parameter {
        meaning: "the share of each region that is active: its beginning",
        source: "Highly concurrent shared storage, 4.4, 4.6",
        ..parameter("addresses.part.share", "", "above 0, to 1")
    },
    Parameter {
        meaning: "regions of equal size into which the volume is cut; no request crosses their borders",
        ..parameter("addresses.part.regions", "regions", "1 to 1099511627776")
    },
    Parameter {
        default: "the largest power of two up to 4096 that divides all sizes",
        meaning: "offsets are multiples of this",
        ..parameter("align_bytes", "bytes", "1 to 1073741824")
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    /// A value for a key, and what the rest of the workload must have beside it.
    fn example(key: &str) -> (&'static str, &'static str) {
        const OPEN: &str = "arrivals.open.rate_per_s = 1\n";
        const TRACE: &str = "arrivals.open.rate_per_s = 1\nrequests.trace.file = \"t.csv\"\n";
        const OLTP: &str = "requests.imitation = \"oltp\"\n";
        const BOTH: &str = "arrivals.open.rate_per_s = 1\nrequests.imitation = \"oltp\"\n";
        match key {
            "hosts" => ("7", BOTH),
            "arrivals.closed.population" => ("3", OLTP),
            "arrivals.closed.think.constant_us" | "arrivals.closed.think.exponential_us" => {
                ("2.5", "requests.imitation = \"oltp\"\narrivals.closed.population = 1\n")
            }
            "arrivals.closed.think.normal_us.mean" => (
                "2.5",
                "requests.imitation = \"oltp\"\narrivals.closed.population = 1\n\
                 arrivals.closed.think.normal_us.deviation = 1\n",
            ),
            "arrivals.closed.think.normal_us.deviation" => (
                "2.5",
                "requests.imitation = \"oltp\"\narrivals.closed.population = 1\n\
                 arrivals.closed.think.normal_us.mean = 1\n",
            ),
            "addresses.part.share" => (
                "0.5",
                "arrivals.open.rate_per_s = 1\nrequests.imitation = \"oltp\"\naddresses.part.regions = 4\n",
            ),
            "addresses.part.regions" => (
                "4",
                "arrivals.open.rate_per_s = 1\nrequests.imitation = \"oltp\"\naddresses.part.share = 0.5\n",
            ),
            "arrivals" => ("\"saturating\"", OLTP),
            "arrivals.open.rate_per_s" => ("5.0", OLTP),
            "arrivals.open.spacing" => ("\"fixed\"", BOTH),
            "arrivals.open.spacing.bursts.requests" => (
                "20.5",
                "arrivals.open.rate_per_s = 1\narrivals.open.spacing.bursts.gap_ms = 5\n\
                 requests.imitation = \"oltp\"\n",
            ),
            "arrivals.open.spacing.bursts.gap_ms" => (
                "5.5",
                "arrivals.open.rate_per_s = 1\narrivals.open.spacing.bursts.requests = 20\n\
                 requests.imitation = \"oltp\"\n",
            ),
            "requests.trace.skip" => ("10", TRACE),
            "requests.fixed.bytes" => {
                ("512", "arrivals.open.rate_per_s = 1\nrequests.fixed.read_share = 0.5\n")
            }
            "requests.fixed.read_share" => {
                ("0.25", "arrivals.open.rate_per_s = 1\nrequests.fixed.bytes = 512\n")
            }
            "requests.mix" => ("[{ kind = \"write\", bytes = 512, weight = 1 }]", OPEN),
            "requests.imitation" => ("\"timeshare\"", OPEN),
            "arrivals.traced.speed" => ("2.5", "requests.trace.file = \"t.csv\"\n"),
            "requests.trace.file" => ("\"t.csv\"", OPEN),
            "requests.trace.format" => ("\"msr\"", TRACE),
            "requests.trace.sector_bytes" => ("4096", TRACE),
            "requests.trace.requests" => ("10", TRACE),
            "requests.trace.fit" => ("\"wrap\"", TRACE),
            "addresses" => ("\"sequential\"", BOTH),
            "addresses.zipf.regions" => (
                "9",
                "arrivals.open.rate_per_s = 1\nrequests.imitation = \"oltp\"\naddresses.zipf.exponent = 1\n",
            ),
            "addresses.zipf.exponent" => (
                "0.5",
                "arrivals.open.rate_per_s = 1\nrequests.imitation = \"oltp\"\naddresses.zipf.regions = 9\n",
            ),
            "align_bytes" => ("512", BOTH),
            _ => panic!("no example of {key}"),
        }
    }

    #[test]
    fn every_key_is_one_that_a_scenario_may_set() {
        for parameter in PARAMETERS {
            if parameter.key.starts_with("requests.mix.") {
                // Of an element of the list, as the example of the list shows it.
                continue;
            }
            let (value, rest) = example(parameter.key);
            let text = format!("{} = {value}\n{rest}", parameter.key);
            let workload: Workload = toml::from_str(&text).unwrap_or_else(|e| panic!("{text}{e}"));
            assert_eq!(workload.check(), Ok(()), "{text}");
            // It must have been taken, not passed over.
            let last = parameter.key.rsplit('.').next().unwrap();
            let shown = toml::to_string(&workload).unwrap();
            assert!(shown.contains(last), "{last} is not in {shown}");
        }
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../docs/lab/simulator-workloads.md");
        for parameter in PARAMETERS {
            assert!(page.contains(&format!("| `{}` |", parameter.key)), "{}", parameter.key);
            assert!(!parameter.range.is_empty() && !parameter.meaning.is_empty());
            assert!(!parameter.source.is_empty());
        }
    }
}
