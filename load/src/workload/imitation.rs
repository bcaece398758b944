//! The imitations of TickerTAIP's section 4.6.
//!
//! The paper names each workload's origin and, of the scientific ones, the mean size; nothing
//! else. What is known besides, from where, and what was chosen:
//!
//! | imitation | known | chosen here |
//! |---|---|---|
//! | `oltp` | After TPC-A (4.6). A transaction of that benchmark updates an account, a teller and a branch of 100 bytes and appends to a history (Gray, "DebitCredit"; TPC-A). Table VIII, the row left for calibration: the striping array does 1.63 MB/s on 10 disks; at 25 ms a random access of a saturated disk that is 4 KiB a request. | Teller and branch stay in the host's memory. Three requests a transaction, each one page of 4 KiB: the account is read, the account is written, the history is written; so two in three are writes. The history is spread over the volume like the accounts: appended at one place, all parity updates of a stripe would queue at one disk, and 0.59 MB/s (144 requests a second) could not be reached. |
//! | `timeshare` | After a Unix timesharing system (4.6, citing Ruemmler and Wilkes 1993). That paper: 57 % of the requests are writes, most of 8 KiB or less. Of its three systems a week is public, of hplajw (in DiskSim 4.0's validation set): 44,519 requests, 29.3 % reads, mean 4,718 bytes for reads and 6,410 for writes. | That week's reads and writes and their sizes, each class by its count. The 137 requests above 8 KiB (up to 256 KiB) are put together in two sizes of reads and two of writes, such that counts and bytes stay what they were. |
//! | `small-scientific` | After applications on a Cray (4.6, citing Miller and Katz 1991); the mean is about 30 KB. | 8, 16, 32 and 64 KiB, equally often: the mean is 30 KiB. Half are reads. |
//! | `large-scientific` | As before; the mean is about 0.3 MB. | Ten times the small ones: 80, 160, 320 and 640 KiB, mean 300 KiB = 0.307 MB. Half are reads. |
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

/// Requests of hplajw in the week from 30 May 1992, by kind and size.
const TIMESHARE: &[(Kind, u64, u32)] = &[
    (Read, KIB, 1241),
    (Read, 2 * KIB, 4380),
    (Read, 3 * KIB, 155),
    (Read, 4 * KIB, 1737),
    (Read, 5 * KIB, 108),
    (Read, 6 * KIB, 756),
    (Read, 7 * KIB, 71),
    (Read, 8 * KIB, 4536),
    // 9 of 10, 5 of 12, 6 of 14 and 36 of 16 KiB: 810 KiB in 56 requests.
    (Read, 14 * KIB, 43),
    (Read, 16 * KIB, 13),
    (Write, KIB, 3830),
    (Write, 2 * KIB, 4811),
    (Write, 3 * KIB, 86),
    (Write, 4 * KIB, 149),
    (Write, 5 * KIB, 72),
    (Write, 6 * KIB, 145),
    (Write, 7 * KIB, 51),
    (Write, 8 * KIB, 22_254),
    // 81 of 10 to 256 KiB: 3,124 KiB.
    (Write, 10 * KIB, 55),
    (Write, 99 * KIB, 26),
];

fn scientific(unit: u64) -> Vec<(Kind, u64, u32)> {
    let sizes = [1, 2, 4, 8].map(|n| n * unit);
    [Read, Write].iter().flat_map(|kind| sizes.map(|bytes| (*kind, bytes, 1))).collect()
}

impl Imitation {
    /// The classes of its requests.
    pub fn classes(self) -> Vec<Class> {
        let table = match self {
            Imitation::Oltp => OLTP.to_vec(),
            Imitation::Timeshare => TIMESHARE.to_vec(),
            Imitation::SmallScientific => scientific(8 * KIB),
            Imitation::LargeScientific => scientific(80 * KIB),
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
        let [reads, read, write, _] = means(Imitation::Timeshare);
        assert_eq!(reads, 13_040.0 / 44_519.0);
        assert!((read - 4718.33).abs() < 0.01 && (write - 6409.93).abs() < 0.01);
        assert_eq!(means(Imitation::SmallScientific), [0.5, 30_720.0, 30_720.0, 30_720.0]);
        assert_eq!(means(Imitation::LargeScientific)[3], 307_200.0);
    }
}
