//! Where on the volume hosts read and write.

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::random::Zipf;

/// Where on the volume hosts read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Addresses {
    /// Anywhere, every aligned place as likely as another.
    #[default]
    Uniform,
    /// Each host goes on where its request before ended. It begins at its own part of the volume
    /// (host h of n at h/n of it) and goes on from 0 when it comes to the end.
    Sequential,
    /// Hot spots: the volume is cut into regions of the same size, the r-th hottest region has
    /// weight 1/r^exponent, and within a region every place is as likely as another. Regions of
    /// similar heat are spread over the volume.
    Zipf {
        /// How many regions, 1 to 2^40 and at most one for each aligned place.
        regions: u64,
        /// How uneven: 0.01 (nearly uniform) to 10; 1 is usual.
        exponent: f64,
    },
    /// Only a part is active: the volume is cut into regions of the same size, and of each only
    /// the beginning is read and written, every aligned place there as likely as another. No
    /// request crosses from one region to the next.
    Part {
        /// The active share of each region, above 0 to 1.
        share: f64,
        /// How many regions, 1 to 2^40 and so few that the active share of each has room for the
        /// longest request.
        regions: u64,
    },
}

impl Addresses {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let count = |key: &str, regions: &u64| match (1..=1 << 40).contains(regions) {
            true => Ok(()),
            false => Err(Problem::new(key, regions, format!("give 1 to {}", 1u64 << 40))),
        };
        match self {
            Addresses::Uniform | Addresses::Sequential => Ok(()),
            Addresses::Zipf { regions, exponent } => {
                count("addresses.zipf.regions", regions)?;
                if !(0.01..=10.0).contains(exponent) {
                    let expected = "give 0.01 to 10";
                    return Err(Problem::new("addresses.zipf.exponent", exponent, expected));
                }
                Ok(())
            }
            Addresses::Part { share, regions } => {
                count("addresses.part.regions", regions)?;
                if !(*share > 0.0 && *share <= 1.0) {
                    let expected = "give more than 0 and at most 1";
                    return Err(Problem::new("addresses.part.share", share, expected));
                }
                Ok(())
            }
        }
    }
}

/// Draws offsets.
#[derive(Clone, Debug)]
pub(super) enum Picker {
    Uniform,
    /// Where each host goes on.
    Sequential(Vec<u64>),
    Zipf(Zipf, Regions),
    /// Active places at the beginning of each region, and how many regions there are.
    Part {
        active: u64,
        regions: u64,
    },
}

/// Regions of a volume, by heat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    count: u64,
    /// Has no factor in common with the count, so that multiplying by it permutes the regions.
    step: u64,
}

impl Regions {
    fn new(count: u64) -> Self {
        // Near the golden section, neighbours in rank end up far apart.
        let near = (count as f64 * 0.618_033_988_749_895) as u64;
        let step = (near.max(1)..).find(|s| common_divisor(*s, count) == 1);
        Regions { count, step: step.expect("count + 1 has no factor in common with count") }
    }

    /// Which region has this rank.
    fn at(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.step) % u128::from(self.count)) as u64
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Picker {
    /// For hosts on a volume with `places` aligned places, of which the longest request takes up
    /// `longest`.
    pub(super) fn new(
        addresses: &Addresses,
        hosts: u32,
        places: u64,
        longest: u64,
    ) -> Result<Self, Problem> {
        match addresses {
            Addresses::Uniform => Ok(Picker::Uniform),
            Addresses::Sequential => {
                let part = |h| (u128::from(places) * h / u128::from(hosts)) as u64;
                Ok(Picker::Sequential((0..u128::from(hosts)).map(part).collect()))
            }
            Addresses::Zipf { regions, .. } if *regions > places => {
                let expected = format!("the volume has {places} aligned places; give at most that");
                Err(Problem::new("addresses.zipf.regions", regions, expected))
            }
            Addresses::Zipf { regions, exponent } => {
                Ok(Picker::Zipf(Zipf::new(*regions, *exponent), Regions::new(*regions)))
            }
            Addresses::Part { share, regions } => {
                let each = places / regions;
                let active = ((each as f64 * share).round() as u64).min(each);
                if active < longest {
                    let expected = format!(
                        "of each of {regions} regions of {each} aligned places that is {active}; \
                         give more, as the longest request takes up {longest}"
                    );
                    return Err(Problem::new("addresses.part.share", share, expected));
                }
                Ok(Picker::Part { active, regions: *regions })
            }
        }
    }

    /// Draws the place where a request begins. It takes up `length` of all `places`.
    pub(super) fn draw(
        &mut self,
        host: usize,
        length: u64,
        places: u64,
        rng: &mut fastrand::Rng,
    ) -> u64 {
        let last = places - length;
        match self {
            Picker::Uniform => rng.u64(0..=last),
            Picker::Sequential(cursors) => {
                let begin = if cursors[host] > last { 0 } else { cursors[host] };
                cursors[host] = begin + length;
                begin
            }
            Picker::Zipf(zipf, regions) => {
                let region = u128::from(regions.at(zipf.draw(rng)));
                let edge = |r: u128| (u128::from(places) * r / u128::from(regions.count)) as u64;
                // A request that would leave the volume is moved back to its end.
                rng.u64(edge(region)..edge(region + 1)).min(last)
            }
            Picker::Part { active, regions } => {
                let each = places / *regions;
                rng.u64(0..*regions) * each + rng.u64(0..=*active - length)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranks_are_spread_over_all_regions() {
        for count in [1, 2, 3, 7, 10, 64, 1000, 1024] {
            let regions = Regions::new(count);
            let all: BTreeSet<u64> = (0..count).map(|r| regions.at(r)).collect();
            assert_eq!(all.len() as u64, count);
        }
    }
}
