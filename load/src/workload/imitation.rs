//! The imitations of TickerTAIP's section 4.6.
//!
//! The paper names each workload's origin and, of the scientific ones, the mean size; nothing
//! else. What is known besides, from where, and what was chosen:
//!
//! | imitation | known | chosen here |
//! |---|---|---|
//! | `oltp` | After TPC-A (4.6). A transaction of that benchmark updates an account, a teller and a branch of 100 bytes and appends to a history (Gray, "DebitCredit"; TPC-A). Table VIII, the row left for calibration: the striping array does 1.63 MB/s on 10 disks; at 25 ms a random access of a saturated disk that is 4 KiB a request. | Teller and branch stay in the host's memory. Three requests a transaction, each one page of 4 KiB: the account is read, the account is written, the history is written; so two in three are writes. The history is spread over the volume like the accounts: appended at one place, all parity updates of a stripe would queue at one disk, and 0.59 MB/s (144 requests a second) could not be reached. |
//! | `timeshare` | After a Unix timesharing system (4.6, citing Ruemmler and Wilkes 1993): of the three systems there that is cello, with 20 users and 4.2BSD file systems, whose requests are of 8 KiB or less. A week of it: mean 6.3 KB, 46.2 % reads (Worthington, Ganger and Patt, SIGMETRICS 1994). | Blocks of 8 KiB, and fragments that each count as a sector of 4 KiB, 55 and 45 in a hundred: mean 6.2 KiB. 46 % of either are reads. |
//! | `small-scientific` | After applications on a Cray (4.6, citing Miller and Katz 1991); the mean is about 30 KB. | One size, 32 KiB, as a program there has; so no disk of a stripe moves two units. Half are reads. |
//! | `large-scientific` | As before; the mean is about 0.3 MB. | One size, 300 KiB = 0.307 MB. Half are reads. |
//!
//! Requests are drawn independently of one another. Addresses are the workload's, uniform if it
//! says nothing: many hosts' files, as the array sees them.

use serde::{Deserialize, Serialize};

use super::Class;
use crate::Kind::{self, Read, Write};

const KIB: u64 = 1024;

/// A workload of TickerTAIP's Table VIII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Imitation {
    /// Transactions after TPC-A.
    Oltp,
    /// A Unix timesharing system.
    Timeshare,
    /// Supercomputer applications with small requests.
    SmallScientific,
    /// Supercomputer applications with large requests.
    LargeScientific,
}

/// Three pages of a transaction.
const OLTP: &[(Kind, u64, u32)] = &[(Read, 4 * KIB, 1), (Write, 4 * KIB, 2)];

/// Blocks and fragments of a timesharing system, in 2,000ths.
const TIMESHARE: &[(Kind, u64, u32)] =
    &[(Read, 4 * KIB, 414), (Read, 8 * KIB, 506), (Write, 4 * KIB, 486), (Write, 8 * KIB, 594)];

/// Programs whose requests have one size.
fn scientific(bytes: u64) -> Vec<(Kind, u64, u32)> {
    vec![(Read, bytes, 1), (Write, bytes, 1)]
}

impl Imitation {
    /// The classes of its requests.
    pub fn classes(self) -> Vec<Class> {
        let table = match self {
            Imitation::Oltp => OLTP.to_vec(),
            Imitation::Timeshare => TIMESHARE.to_vec(),
            Imitation::SmallScientific => scientific(32 * KIB),
            Imitation::LargeScientific => scientific(300 * KIB),
        };
        let class = |(kind, bytes, weight)| Class { kind, bytes, weight: f64::from(weight) };
        table.into_iter().map(class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of reads, and mean bytes of reads, of writes and of all.
    fn means(imitation: Imitation) -> [f64; 4] {
        let classes = imitation.classes();
        let sum = |kind: Option<Kind>, by: fn(&Class) -> f64| -> f64 {
            classes.iter().filter(|c| kind.is_none_or(|k| c.kind == k)).map(by).sum()
        };
        let mean = |kind| sum(kind, |c| c.weight * c.bytes as f64) / sum(kind, |c| c.weight);
        let reads = sum(Some(Read), |c| c.weight) / sum(None, |c| c.weight);
        [reads, mean(Some(Read)), mean(Some(Write)), mean(None)]
    }

    #[test]
    fn the_tables_have_the_means_that_are_known() {
        assert_eq!(means(Imitation::Oltp), [1.0 / 3.0, 4096.0, 4096.0, 4096.0]);
        assert_eq!(means(Imitation::Timeshare), [0.46, 6348.8, 6348.8, 6348.8]);
        assert_eq!(means(Imitation::SmallScientific), [0.5, 32_768.0, 32_768.0, 32_768.0]);
        assert_eq!(means(Imitation::LargeScientific)[3], 307_200.0);
    }
}
