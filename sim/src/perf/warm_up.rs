//! What of a run's beginning is left out: so many requests, or as many as a test says.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_load::stats::warmup;

use super::{Problem, System};

/// The word for [`WarmUp::Mser5`].
const MSER_5: &str = "mser-5";

/// How many requests of a run are left out at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So many.
    Requests(u64),
    /// As many as it takes until a pilot run is steady by MSER-5 ([`warmup`]).
    Mser5,
}

/// The number of the pilot among replications: none that counts has it.
pub const PILOT: u64 = u64::MAX;

impl Default for WarmUp {
    fn default() -> Self {
        WarmUp::Requests(warmup::PAPER)
    }
}

impl WarmUp {
    /// How many they are; none as long as that is to be found out.
    pub fn requests(self) -> u64 {
        match self {
            WarmUp::Requests(requests) => requests,
            WarmUp::Mser5 => 0,
        }
    }
}

impl fmt::Display for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarmUp::Requests(requests) => write!(f, "{requests}"),
            WarmUp::Mser5 => f.write_str(MSER_5),
        }
    }
}

impl Serialize for WarmUp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            WarmUp::Requests(requests) => to.serialize_u64(*requests),
            WarmUp::Mser5 => to.serialize_str(MSER_5),
        }
    }
}

impl<'de> Deserialize<'de> for WarmUp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = WarmUp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number of requests, or {MSER_5}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<WarmUp, E> {
        Ok(WarmUp::Requests(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<WarmUp, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(number), &self);
        number.try_into().map(WarmUp::Requests).map_err(wrong)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<WarmUp, E> {
        match word {
            MSER_5 => Ok(WarmUp::Mser5),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}

impl System {
    /// The system with its warm-up known: if a test is to say how long it is, it is asked about
    /// the times that the requests of a pilot took, in the order of their replies. `pilot` runs
    /// replication [`PILOT`] from its beginning and hands these back
    /// ([`Simulation::pilot`](super::Simulation::pilot)).
    ///
    /// # Errors
    /// If the pilot fails, or is too short to tell.
    pub fn warmed_up(
        &self,
        pilot: impl FnOnce() -> Result<warmup::Batches, String>,
    ) -> Result<System, String> {
        if self.measure.warm_up != WarmUp::Mser5 {
            return Ok(self.clone());
        }
        let Some(requests) = pilot()?.warm_up() else {
            let expected = format!(
                "a pilot run of {} requests is not steady before its middle; give more \
                 measure.requests, or a number",
                self.measured_requests()
            );
            return Err(Problem::new("measure.warm_up", MSER_5, expected).to_string());
        };
        let mut system = self.clone();
        system.measure.warm_up = WarmUp::Requests(requests);
        Ok(system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Has {
        warm_up: WarmUp,
    }

    #[test]
    fn it_is_a_number_or_a_word() {
        for (text, warm_up) in
            [("warm_up = 7\n", WarmUp::Requests(7)), ("warm_up = \"mser-5\"\n", WarmUp::Mser5)]
        {
            assert_eq!(toml::from_str(text), Ok(Has { warm_up }));
            assert_eq!(toml::to_string(&Has { warm_up }).unwrap(), text);
        }
        for text in ["warm_up = -1", "warm_up = \"mser\"", "warm_up = 1.5"] {
            let refused = toml::from_str::<Has>(text).unwrap_err().to_string();
            assert!(refused.contains("a number of requests, or mser-5"), "{refused}");
        }
    }

    #[test]
    fn a_test_is_asked_only_if_it_is_to_say() {
        let text =
            "workload.arrivals.closed.population = 1\nworkload.requests.imitation = \"oltp\"";
        let mut system: System = toml::from_str(text).unwrap();
        let same = system.warmed_up(|| panic!("nobody asked for a pilot")).unwrap();
        assert_eq!(same, system);
        system.measure.warm_up = WarmUp::Mser5;
        let of = |times: Vec<f64>| {
            let mut batches = warmup::Batches::default();
            times.into_iter().for_each(|t| batches.add(t));
            batches
        };
        // Slow for 50 requests, and then not.
        let times = |n| (0..n).map(|i| if i < 50 { 100.0 } else { f64::from(i % 3) }).collect();
        let found = system.warmed_up(|| Ok(of(times(400)))).unwrap();
        assert_eq!(found.measure.warm_up, WarmUp::Requests(50));
        let short = system.warmed_up(|| Ok(of(times(80)))).unwrap_err();
        assert!(short.starts_with("measure.warm_up = mser-5: a pilot run of 10000"), "{short}");
        assert_eq!(system.warmed_up(|| Err("it failed".into())).unwrap_err(), "it failed");
    }
}
