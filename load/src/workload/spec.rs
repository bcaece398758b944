//! The description of a workload, as it stands in a scenario.

use serde::{Deserialize, Serialize};

use super::{Addresses, Imitation, Trace};
use crate::Kind;

/// The most hosts, and the most requests that one keeps outstanding.
const MOST_HOSTS: u32 = 65_536;
/// The longest request, in bytes.
const LONGEST: u64 = 1 << 30;
/// The longest time to think, in microseconds: a day.
const LONGEST_THINK: f64 = 86_400e6;
/// The most requests in a second, of all hosts.
const FASTEST: f64 = 1e9;

/// What hosts ask of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// How many hosts there are, 1 to 65,536; all do the same. TickerTAIP has 4 (4.2).
    #[serde(default = "paper_hosts")]
    pub hosts: u32,
    /// When they ask.
    pub arrivals: Arrivals,
    /// What they ask.
    pub requests: Requests,
    /// Where on the volume.
    #[serde(default)]
    pub addresses: Addresses,
    /// Offsets are multiples of so many bytes; by default of the largest power of two, up to
    /// 4,096, that divides all sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align_bytes: Option<u64>,
}

fn paper_hosts() -> u32 {
    4
}

/// When hosts ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Each host keeps a population of requests outstanding: one is asked when one is answered.
    Closed {
        /// Requests that each host keeps outstanding, 1 to 65,536.
        population: u32,
        /// How long a host thinks between a reply and the next request.
        #[serde(default)]
        think: Think,
    },
    /// Requests come at a rate, answered or not.
    Open {
        /// Requests in a second, of all hosts together; above 0, at most 10^9.
        rate_per_s: f64,
        /// How they are spaced.
        #[serde(default)]
        spacing: Spacing,
    },
    /// A host asks on as soon as its request is accepted, answered or not, and is stuck while it is not (DR-net,
    /// 3.1.1).
    Saturating,
    /// Requests come at the times of the trace that they are of, answered or not; hosts take
    /// turns.
    Traced {
        /// How many times as fast as they were, 10^-6 to 10^6.
        #[serde(default = "as_it_was")]
        speed: f64,
    },
}

fn as_it_was() -> f64 {
    1.0
}

/// How long a host thinks between a reply and its next request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Think {
    /// Always so many microseconds, 0 to a day.
    ConstantUs(f64),
    /// Drawn from the exponential distribution with this mean in microseconds, 0 to a day.
    ExponentialUs(f64),
    /// Drawn from a normal distribution; what would be below 0 is 0.
    NormalUs {
        /// Its mean in microseconds, 0 to a day.
        mean: f64,
        /// Its standard deviation in microseconds, 0 to a day.
        deviation: f64,
    },
}

impl Default for Think {
    fn default() -> Self {
        Think::ConstantUs(0.0)
    }
}

/// How open arrivals are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Spacing {
    /// A Poisson process.
    #[default]
    Poisson,
    /// The same gap between any two, hosts taking turns.
    Fixed,
    /// Bursts, of each host by itself, with pauses between them that make up for them. Gaps and pauses are exponentially
    /// distributed, and so nearly is how many requests a burst has.
    Bursts {
        /// Requests of a burst, on average; 1 to 10^9.
        requests: f64,
        /// Milliseconds between two of them, on average; 0 to a day.
        gap_ms: f64,
    },
}

/// What hosts ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Requests {
    /// All requests are of one size.
    Fixed {
        /// Their size, 1 byte to 1 GiB.
        bytes: u64,
        /// The share of reads among them, 0 to 1; the others are writes.
        read_share: f64,
    },
    /// Each request is of one of several classes, drawn by weight.
    Mix(Vec<Class>),
    /// The imitation of a workload that was measured elsewhere.
    Imitation(Imitation),
    /// The requests of a trace, in its order, where the trace has them.
    Trace(Trace),
}

impl Requests {
    /// The classes that are drawn from; none of a trace.
    pub fn classes(&self) -> Vec<Class> {
        match self {
            Requests::Fixed { bytes, read_share } => {
                let class = |kind, weight| Class { kind, bytes: *bytes, weight };
                let both = [class(Kind::Read, *read_share), class(Kind::Write, 1.0 - read_share)];
                both.into_iter().filter(|c| c.weight > 0.0).collect()
            }
            Requests::Mix(classes) => classes.clone(),
            Requests::Imitation(imitation) => imitation.classes(),
            Requests::Trace(_) => Vec::new(),
        }
    }

    /// The trace, if they are a trace's.
    pub fn trace(&self) -> Option<&Trace> {
        match self {
            Requests::Trace(trace) => Some(trace),
            _ => None,
        }
    }
}

/// Requests of one kind and size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// What they do.
    pub kind: Kind,
    /// Their size, 1 byte to 1 GiB; 0 for a flush.
    #[serde(default)]
    pub bytes: u64,
    /// How often they are drawn, as a share of the weights of all classes; above 0.
    pub weight: f64,
}

/// What is wrong with a description: the key, and the range that its value must be in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {expected}")]
pub struct Problem {
    /// The key, with those above it: `arrivals.closed.population`.
    pub key: String,
    /// The value that it has.
    pub value: String,
    /// What it must be.
    pub expected: String,
}

impl Problem {
    /// The same of a key that is in a table.
    pub fn within(self, table: &str) -> Self {
        Problem { key: format!("{table}.{}", self.key), ..self }
    }

    /// The value of a key, and what it must be.
    pub fn new(key: &str, value: impl ToString, expected: impl ToString) -> Self {
        Problem { key: key.into(), value: value.to_string(), expected: expected.to_string() }
    }
}

/// Refuses a value that is not in its range; `NaN` is in none.
fn range<T: PartialOrd + ToString>(key: &str, value: T, low: T, high: T) -> Result<(), Problem> {
    match low <= value && value <= high {
        true => Ok(()),
        false => {
            let expected = format!("give {} to {}", low.to_string(), high.to_string());
            Err(Problem::new(key, value, expected))
        }
    }
}

/// Refuses a value that is not above 0 and at most `high`.
fn positive(key: &str, value: f64, high: f64) -> Result<(), Problem> {
    match value > 0.0 && value <= high {
        true => Ok(()),
        false => Err(Problem::new(key, value, format!("give more than 0 and at most {high}"))),
    }
}

impl Workload {
    /// Checks that every value is in its range.
    ///
    /// # Errors
    /// The first that is not, by its key.
    pub fn check(&self) -> Result<(), Problem> {
        range("hosts", self.hosts, 1, MOST_HOSTS)?;
        self.arrivals.check(self.hosts)?;
        self.requests.check()?;
        self.addresses.check()?;
        if let Some(align) = self.align_bytes {
            range("align_bytes", align, 1, LONGEST)?;
        }
        self.check_trace()
    }

    /// Refuses what a trace says itself, and times of a trace that there is none.
    fn check_trace(&self) -> Result<(), Problem> {
        if self.requests.trace().is_none() {
            return match self.arrivals {
                Arrivals::Traced { speed } => {
                    let expected = "only a trace has times; give requests.trace.file, or arrivals \
                                    that are closed or open";
                    Err(Problem::new("arrivals.traced.speed", speed, expected))
                }
                _ => Ok(()),
            };
        }
        let own = "a trace has its own addresses; omit it";
        if self.addresses != Addresses::default() {
            return Err(Problem::new("addresses", "not uniform", own));
        }
        match self.align_bytes {
            Some(align) => Err(Problem::new("align_bytes", align, own)),
            None => Ok(()),
        }
    }

    /// How many times as fast as they were the requests of a trace come; `None` if when they come
    /// is not the trace's.
    pub fn speed(&self) -> Option<f64> {
        match self.arrivals {
            Arrivals::Traced { speed } => Some(speed),
            Arrivals::Closed { .. } | Arrivals::Open { .. } | Arrivals::Saturating => None,
        }
    }

    /// What offsets are multiples of.
    pub fn alignment(&self) -> u64 {
        self.align_bytes.unwrap_or_else(|| {
            let sizes = self.requests.classes();
            let twos = sizes.iter().filter(|c| c.bytes > 0).map(|c| c.bytes.trailing_zeros()).min();
            1 << twos.unwrap_or(0).min(12)
        })
    }
}

impl Arrivals {
    fn check(&self, hosts: u32) -> Result<(), Problem> {
        match self {
            Arrivals::Closed { population, think } => {
                range("arrivals.closed.population", *population, 1, MOST_HOSTS)?;
                let within = |name: &str, us: f64| {
                    range(&format!("arrivals.closed.think.{name}"), us, 0.0, LONGEST_THINK)
                };
                match *think {
                    Think::ConstantUs(us) => within("constant_us", us),
                    Think::ExponentialUs(us) => within("exponential_us", us),
                    Think::NormalUs { mean, deviation } => {
                        within("normal_us.mean", mean)?;
                        within("normal_us.deviation", deviation)
                    }
                }
            }
            Arrivals::Open { rate_per_s, spacing } => {
                positive("arrivals.open.rate_per_s", *rate_per_s, FASTEST)?;
                spacing.check(*rate_per_s / f64::from(hosts))
            }
            Arrivals::Saturating => Ok(()),
            Arrivals::Traced { speed } => range("arrivals.traced.speed", *speed, 1e-6, 1e6),
        }
    }
}

impl Spacing {
    /// Checks the bursts of a host with this rate.
    fn check(&self, rate_per_s: f64) -> Result<(), Problem> {
        let Spacing::Bursts { requests, gap_ms } = *self else { return Ok(()) };
        range("arrivals.open.spacing.bursts.requests", requests, 1.0, FASTEST)?;
        range("arrivals.open.spacing.bursts.gap_ms", gap_ms, 0.0, LONGEST_THINK / 1e3)?;
        let most = requests / rate_per_s * 1e3 / (requests - 1.0).max(f64::MIN_POSITIVE);
        match gap_ms >= most {
            true => {
                let expected =
                    format!("that leaves no pause between bursts; give less than {most:.4}");
                Err(Problem::new("arrivals.open.spacing.bursts.gap_ms", gap_ms, expected))
            }
            false => Ok(()),
        }
    }
}

impl Requests {
    fn check(&self) -> Result<(), Problem> {
        match self {
            Requests::Fixed { bytes, read_share } => {
                range("requests.fixed.bytes", *bytes, 1, LONGEST)?;
                range("requests.fixed.read_share", *read_share, 0.0, 1.0)
            }
            Requests::Mix(classes) if classes.is_empty() => {
                Err(Problem::new("requests.mix", "[]", "give at least one class"))
            }
            Requests::Mix(classes) => classes.iter().enumerate().try_for_each(|(i, class)| {
                positive(&format!("requests.mix[{i}].weight"), class.weight, 1e9)?;
                let key = format!("requests.mix[{i}].bytes");
                match class.kind {
                    Kind::Flush => range(&key, class.bytes, 0, 0),
                    _ => range(&key, class.bytes, 1, LONGEST),
                }
            }),
            Requests::Imitation(_) => Ok(()),
            Requests::Trace(trace) => trace.check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Workload, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn scenarios_say_it_like_this() {
        let closed = read(
            "hosts = 2\naddresses = \"sequential\"\nalign_bytes = 512\n\
             [arrivals.closed]\npopulation = 8\nthink.exponential_us = 250\n\
             [requests.fixed]\nbytes = 4096\nread_share = 0.5",
        )
        .unwrap();
        assert_eq!(closed.check(), Ok(()));
        let think = Think::ExponentialUs(250.0);
        assert_eq!(closed.arrivals, Arrivals::Closed { population: 8, think });
        assert_eq!(closed.alignment(), 512);
        let open = read(
            "requests.imitation = \"oltp\"\narrivals.open.rate_per_s = 100\n\
             [addresses.zipf]\nregions = 1000\nexponent = 0.9",
        )
        .unwrap();
        assert_eq!(open.check(), Ok(()));
        let spacing = Spacing::Poisson;
        assert_eq!(open.arrivals, Arrivals::Open { rate_per_s: 100.0, spacing });
        assert_eq!((open.hosts, open.alignment()), (4, 4096));
        let mix = read(
            "arrivals.closed.population = 1\n[requests]\nmix = [\n\
             { kind = \"read\", bytes = 24576, weight = 3 },\n{ kind = \"flush\", weight = 1 }]",
        )
        .unwrap();
        assert_eq!(mix.check(), Ok(()));
        assert_eq!(mix.alignment(), 4096);
        assert_eq!(toml::from_str::<Workload>(&toml::to_string(&mix).unwrap()).unwrap(), mix);
    }

    #[test]
    fn a_trace_says_where_and_perhaps_when() {
        let trace = "requests.trace = { file = \"a.csv\", format = \"csv\", fit = \"wrap\" }\n";
        let timed = read(&format!("{trace}arrivals.traced = {{}}")).unwrap();
        assert_eq!((timed.check(), timed.speed()), (Ok(()), Some(1.0)));
        let closed = read(&format!("{trace}arrivals.closed.population = 2")).unwrap();
        assert_eq!((closed.check(), closed.speed()), (Ok(()), None));
        for (more, problem) in [
            ("arrivals.traced.speed = 0", "arrivals.traced.speed = 0: give 0.000001 to 1000000"),
            ("arrivals.traced = {}\nalign_bytes = 512", "align_bytes = 512: a trace has its own"),
            (
                "arrivals.traced = {}\naddresses = \"sequential\"",
                "addresses = not uniform: a trace",
            ),
        ] {
            let said = read(&format!("{trace}{more}")).unwrap().check().unwrap_err().to_string();
            assert!(said.starts_with(problem), "{said}");
        }
        let untold = read("requests.imitation = \"oltp\"\narrivals.traced.speed = 2").unwrap();
        let said = untold.check().unwrap_err().to_string();
        assert!(said.starts_with("arrivals.traced.speed = 2: only a trace has times"), "{said}");
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        for (text, name) in [
            ("arrivals.closed.populaton = 1\nrequests.imitation = \"oltp\"", "populaton"),
            ("arrivals.open.rate_per_s = 1\nrequests.imitation = \"olpt\"", "olpt"),
            ("arrivals.opened.rate_per_s = 1\nrequests.imitation = \"oltp\"", "opened"),
            ("host = 1\narrivals.open.rate_per_s = 1\nrequests.imitation = \"oltp\"", "host"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(name) && error.contains("at line "), "{error}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_by_key_and_range() {
        let good = "arrivals.closed.population = 1\nrequests.fixed.bytes = 4096\n\
                    requests.fixed.read_share = 1.0\n";
        for (from, to, problem) in [
            ("population = 1", "population = 0", "arrivals.closed.population = 0: give 1 to 65536"),
            ("bytes = 4096", "bytes = 0", "requests.fixed.bytes = 0: give 1 to 1073741824"),
            ("= 1.0", "= 1.1", "requests.fixed.read_share = 1.1: give 0 to 1"),
            ("= 1.0", "= nan", "requests.fixed.read_share = NaN: give 0 to 1"),
            ("arrivals", "hosts = 0\narrivals", "hosts = 0: give 1 to 65536"),
            ("arrivals", "align_bytes = 0\narrivals", "align_bytes = 0: give 1 to 1073741824"),
            (
                "closed.population = 1",
                "open.rate_per_s = 0",
                "arrivals.open.rate_per_s = 0: give more than 0 and at most 1000000000",
            ),
            (
                "arrivals",
                "addresses.zipf = { regions = 10, exponent = 0 }\narrivals",
                "addresses.zipf.exponent = 0: give 0.01 to 10",
            ),
            (
                "arrivals",
                "addresses.part = { share = 0, regions = 4 }\narrivals",
                "addresses.part.share = 0: give more than 0 and at most 1",
            ),
            (
                "population = 1",
                "population = 1\narrivals.closed.think.normal_us = { mean = 1, deviation = -1 }",
                "arrivals.closed.think.normal_us.deviation = -1: give 0 to 86400000000",
            ),
        ] {
            let workload = read(&good.replacen(from, to, 1)).unwrap();
            assert_eq!(workload.check().unwrap_err().to_string(), problem);
        }
    }
}
