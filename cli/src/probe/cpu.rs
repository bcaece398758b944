//! What work costs this machine's processor: real nodes are put under small calibration
//! workloads, and the costs are those with which the simulator, which counts the work, comes to
//! the CPU time that was measured.
//!
//! An array of five nodes in this process answers one host. What the nodes' thread used for a
//! request is the process's CPU time less the host's thread's. The simulator runs the same requests
//! on the same nodes and says how much of each kind of work there was ([`Work`]): how often the
//! loop went round, messages, disk operations, bytes. The costs of the kinds are the least squares
//! of the relative errors, none below zero; how often the loop goes round depends on what all
//! else costs, so it is done a few times over. What is left of a lone request's time when all work is
//! accounted for is what it takes to wake the two threads.
//!
//! Sizes and depths are others than those of `validation/local`, so that its points tell
//! something.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};
use weft_sim::perf::{Measure, Outcome, PathLengths, Simulation, Store, System, WarmUp, Work};
use weft_terminal::{Counts, Stage};

use weft_scenario::real;

const KIB: u64 = 1 << 10;

/// The requests of the calibration: bytes, share of reads, outstanding.
const CASES: [(u64, f64, u32); 16] = [
    (8 * KIB, 1.0, 1),
    (8 * KIB, 1.0, 2),
    (8 * KIB, 1.0, 8),
    (8 * KIB, 0.0, 1),
    (8 * KIB, 0.0, 2),
    (8 * KIB, 0.0, 8),
    (32 * KIB, 1.0, 1),
    (32 * KIB, 1.0, 8),
    (32 * KIB, 0.0, 1),
    (32 * KIB, 0.0, 8),
    (256 * KIB, 1.0, 1),
    (256 * KIB, 1.0, 8),
    (256 * KIB, 0.0, 1),
    (256 * KIB, 0.0, 8),
    (512 * KIB, 1.0, 2),
    (512 * KIB, 0.0, 2),
];

/// How much is measured of each case.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Bytes of the volume: the more of it is used, the less of it and its tables is in caches.
    pub volume: u64,
    /// Requests of 8 KiB in a run; of larger ones fewer.
    pub requests: u64,
    /// Runs.
    pub runs: u32,
    /// For how long a run is tried again that others of the machine disturbed.
    pub patience: Duration,
}

/// How often the costs are worked out from the work, and the work from the costs.
const TIMES: usize = 6;

/// Nanoseconds that work takes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Costs {
    /// A round of the nodes' loop.
    pub round: f64,
    /// To go to sleep and wake up again.
    pub sleep: f64,
    /// A request, taken in and answered.
    pub request: f64,
    /// A message from node to node.
    pub message: f64,
    /// A disk operation.
    pub disk: f64,
    /// Each byte from and to a host.
    pub host_byte: f64,
    /// Each byte of a disk operation.
    pub disk_byte: f64,
    /// Each byte that is written, on top.
    pub write_byte: f64,
    /// Each byte added up.
    pub xor_byte: f64,
    /// The host's own work for a request.
    pub host: f64,
    /// Each byte that it asks to be written.
    pub ask_byte: f64,
    /// Each byte that it is answered.
    pub reply_byte: f64,
    /// The host's, to go to sleep and wake up again: nobody waits for it.
    pub host_sleep: f64,
    /// To wake a thread.
    pub wake: f64,
}

/// What was measured of one case: medians over the runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Calibrated {
    pub bytes: u64,
    pub read_share: f64,
    pub outstanding: u32,
    /// Nanoseconds of the nodes, and of the host, for a request.
    pub nodes_ns: f64,
    pub hosts_ns: f64,
    /// Mean time of a request, in nanoseconds.
    pub response_ns: f64,
    /// The share of the processors that others used in the run that they disturbed most.
    pub others: f64,
    /// What the simulator makes of these with the costs that were found.
    pub nodes_ns_predicted: f64,
    pub hosts_ns_predicted: f64,
    pub response_ns_predicted: f64,
}

/// Refuses a volume that the nodes, or the directory in memory, cannot have.
///
/// # Errors
/// Why not.
pub fn check(memory: &Path, each: Effort) -> Result<()> {
    let longest = CASES[CASES.len() - 1];
    let mut system = system(longest, each.volume, each.requests, each.runs);
    Costs::default().put(&mut system);
    system.check().map_err(|p| anyhow!("{p}"))?;
    real::limits::check_dir(&system, memory)
}

/// Measures it in a directory in memory.
///
/// # Errors
/// If an array cannot be run there.
pub fn measure(memory: &Path, each: Effort, time: Duration) -> Result<(Costs, Vec<Calibrated>)> {
    let Effort { volume, requests, runs, patience } = each;
    let systems: Vec<System> =
        CASES.iter().map(|case| system(*case, volume, requests, runs)).collect();
    let stage = Stage::new("the nodes", (CASES.len() as u64) * u64::from(runs), Counts::Things);
    let ran = real::measure(&systems, memory, patience, || stage.advance(1))?;
    stage.done("measured");
    let median = |ran: &[real::Ran], of: fn(&real::Ran) -> f64| {
        let mut all: Vec<f64> = ran.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let mut cases: Vec<Calibrated> = CASES
        .iter()
        .zip(&ran)
        .map(|(&(bytes, read_share, outstanding), ran)| Calibrated {
            bytes,
            read_share,
            outstanding,
            nodes_ns: median(ran, |r| r.nodes_ns),
            hosts_ns: median(ran, |r| r.hosts_ns),
            response_ns: median(ran, |r| r.outcome.all.latency.mean()),
            others: ran.iter().map(|r| r.others).fold(0.0, f64::max),
            nodes_ns_predicted: 0.0,
            hosts_ns_predicted: 0.0,
            response_ns_predicted: 0.0,
        })
        .collect();
    let costs = fit(&mut cases, volume, xor_byte(time))?;
    Ok((costs, cases))
}

/// Nanoseconds of the nodes that a disk operation takes more on the disk of a directory than in memory:
/// small reads, of which each is one, as many outstanding as keep the nodes busy.
///
/// # Errors
/// If an array cannot be run there.
pub fn disk_more(dir: &Path, calibrated: &[Calibrated], each: Effort) -> Result<f64> {
    let Effort { volume, requests, runs, patience } = each;
    let case = CASES[2];
    let in_memory = calibrated.get(2).map_or(0.0, |c| c.nodes_ns);
    let ran = real::measure(&[system(case, volume, requests, runs)], dir, patience, || {})?;
    let mut on_disk: Vec<f64> = ran.iter().flatten().map(|r| r.nodes_ns).collect();
    on_disk.sort_by(f64::total_cmp);
    let median = on_disk.get(on_disk.len() / 2).copied().unwrap_or(in_memory);
    Ok((median - in_memory).max(0.0))
}

/// Five nodes in memory and one host.
fn system(
    (bytes, read_share, outstanding): (u64, f64, u32),
    volume: u64,
    requests: u64,
    runs: u32,
) -> System {
    let mut system = System::like_weft_up(Workload {
        hosts: 1,
        arrivals: Arrivals::Closed { population: outstanding, think: Think::default() },
        requests: Requests::Fixed { bytes, read_share },
        addresses: Addresses::Uniform,
        align_bytes: None,
    });
    system.volume.size_bytes = Some(volume);
    system.volume.calculated_at = None;
    // As much data takes as long.
    let requests = (requests * 64 * KIB / (bytes + 56 * KIB)).max(20);
    system.measure = Measure {
        warm_up: WarmUp::Requests(requests / 10),
        requests,
        replications: runs,
        ..Measure::default()
    };
    system
}

impl Costs {
    /// Puts them into a system of nodes in one process, with files in memory.
    pub fn put(&self, system: &mut System) {
        let half = |ns: f64| (ns / 2.0).round() as u64;
        let nodes = &mut system.nodes;
        (nodes.store, nodes.rounds, nodes.processors) = (Store::Journalled, true, Some(1));
        (nodes.mips, nodes.wake_us) = (1_000.0, self.wake / 1e3);
        nodes.path = PathLengths {
            round: self.round.round() as u64,
            sleep: self.sleep.round() as u64,
            request: half(self.request),
            reply: half(self.request),
            send: half(self.message),
            receive: half(self.message),
            disk_start: half(self.disk),
            disk_end: half(self.disk),
            host_byte: self.host_byte,
            disk_byte: self.disk_byte,
            write_byte: self.write_byte,
            xor_byte: self.xor_byte,
            ..PathLengths::NONE
        };
        (system.links.mb_s, system.links.latency_us) = (1e9, 0.0);
        let hosts = &mut system.hosts;
        (hosts.threads, hosts.wake_us) = (true, self.wake / 1e3);
        (hosts.ask_us, hosts.reply_us) = (self.host / 2e3, self.host / 2e3);
        (hosts.ask_byte_ns, hosts.reply_byte_ns) = (self.ask_byte, self.reply_byte);
        system.disks.model = "flash".to_string();
        system.disks.in_memory = true;
    }
}

impl Costs {
    /// Those of [`kinds`].
    fn of_kinds(&self) -> [f64; 8] {
        let nodes = [self.round, self.sleep, self.request, self.message, self.disk];
        let bytes = [self.host_byte, self.disk_byte, self.write_byte];
        std::array::from_fn(|n| if n < 5 { nodes[n] } else { bytes[n - 5] })
    }

    /// Takes those of [`kinds`].
    fn take(&mut self, found: &[f64]) {
        let fields = [
            &mut self.round,
            &mut self.sleep,
            &mut self.request,
            &mut self.message,
            &mut self.disk,
            &mut self.host_byte,
            &mut self.disk_byte,
            &mut self.write_byte,
        ];
        fields.into_iter().zip(found).for_each(|(field, cost)| *field = *cost);
    }
}

/// The costs with which the simulator comes to what was measured.
fn fit(cases: &mut [Calibrated], volume: u64, xor_byte: f64) -> Result<Costs> {
    // Some to begin with: only how often the loop goes round depends on them.
    let mut costs =
        Costs { round: 10_000.0, request: 10_000.0, host: 10_000.0, xor_byte, ..Costs::default() };
    for _ in 0..TIMES {
        let simulated =
            cases.iter().map(|c| simulate(c, volume, &costs)).collect::<Result<Vec<_>>>()?;
        let nodes: Vec<(Vec<f64>, f64)> = cases
            .iter()
            .zip(&simulated)
            .map(|(case, outcome)| {
                let (kinds, xored) = kinds(&outcome.work);
                (kinds, case.nodes_ns - xored * xor_byte)
            })
            .collect();
        let found = least_squares(&nodes);
        costs.take(&found);
        let hosts: Vec<(Vec<f64>, f64)> = cases
            .iter()
            .zip(&simulated)
            .map(|(c, o)| (host_kinds(c, &o.work), c.hosts_ns))
            .collect();
        let found = least_squares(&hosts);
        (costs.host, costs.host_sleep) = (found[0], found[1]);
        (costs.ask_byte, costs.reply_byte) = (found[2], found[3]);
        // Of a lone request: both sides sleep once. Its mean time, and not the median, is what a wake that
        // always takes as long has to come to.
        let alone = cases.iter().zip(&simulated).filter(|(c, _)| c.outstanding == 1);
        let mut left: Vec<f64> =
            alone.map(|(c, o)| (c.response_ns - o.all.latency.mean()) / 2.0 + costs.wake).collect();
        left.sort_by(f64::total_cmp);
        costs.wake = left[left.len() / 2].max(0.0);
    }
    for case in cases {
        let outcome = simulate(case, volume, &costs)?;
        let (kinds, xored) = kinds(&outcome.work);
        let sum = |counts: &[f64], costs: &[f64]| -> f64 {
            counts.iter().zip(costs).map(|(n, cost)| n * cost).sum()
        };
        case.nodes_ns_predicted = sum(&kinds, &costs.of_kinds()) + xored * xor_byte;
        let host = [costs.host, costs.host_sleep, costs.ask_byte, costs.reply_byte];
        case.hosts_ns_predicted = sum(&host_kinds(case, &outcome.work), &host);
        case.response_ns_predicted = outcome.all.latency.mean();
    }
    Ok(costs)
}

fn simulate(case: &Calibrated, volume: u64, costs: &Costs) -> Result<Outcome> {
    let mut system = system((case.bytes, case.read_share, case.outstanding), volume, 1_000, 1);
    costs.put(&mut system);
    let simulation = Simulation::new(&system, 0).map_err(|p| anyhow!("{p}"))?;
    simulation.run().map_err(|e| anyhow!(e)).context("the calibration could not be simulated")
}

/// What a host does for a request: once, how often it sleeps, for each byte written and read.
fn host_kinds(case: &Calibrated, work: &Work) -> Vec<f64> {
    let sleeps = work.host_sleeps as f64 / work.requests.max(1) as f64;
    let (bytes, reads) = (case.bytes as f64, case.read_share);
    vec![1.0, sleeps, bytes * (1.0 - reads), bytes * reads]
}

/// How much of each kind of work a request is, and how many bytes are added up for it.
fn kinds(work: &Work) -> (Vec<f64>, f64) {
    let each = |count: u64| count as f64 / work.requests.max(1) as f64;
    let kinds = [
        work.rounds,
        work.sleeps,
        work.requests,
        work.sent,
        work.disk_starts,
        work.host_bytes,
        work.disk_bytes,
        work.written_bytes,
    ];
    (kinds.into_iter().map(each).collect(), each(work.xor_bytes))
}

/// The factors, none below zero, with which the rows' sums come nearest to what they should be, by
/// the squares of the relative errors: one factor after the other is made as good as it can be, until
/// none gets better (coordinate descent; the problem is convex).
fn least_squares(rows: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let count = rows.first().map_or(0, |r| r.0.len());
    let mut factors = vec![0.0; count];
    let rows: Vec<Vec<f64>> =
        rows.iter().map(|(row, sum)| row.iter().map(|x| x / sum.max(1.0)).collect()).collect();
    let mut left = vec![1.0; rows.len()];
    for _ in 0..200_000 {
        let mut most_moved = 0.0_f64;
        for n in 0..count {
            let square: f64 = rows.iter().map(|r| r[n] * r[n]).sum();
            if square == 0.0 {
                continue;
            }
            let slope: f64 = rows.iter().zip(&left).map(|(r, l)| r[n] * l).sum();
            let better = (factors[n] + slope / square).max(0.0_f64);
            for (r, l) in rows.iter().zip(&mut left) {
                *l -= r[n] * (better - factors[n]);
            }
            most_moved = most_moved.max((better - factors[n]).abs() / better.max(1e-9));
            factors[n] = better;
        }
        if most_moved < 1e-9 {
            break;
        }
    }
    factors
}

/// Nanoseconds for each byte that is added up with the nodes' own kernel, in units of 64 KiB.
fn xor_byte(time: Duration) -> f64 {
    let (mut sum, unit) = (vec![0u8; 64 << 10], vec![7u8; 64 << 10]);
    let (begun, mut bytes) = (Instant::now(), 0usize);
    while begun.elapsed() < time {
        for _ in 0..64 {
            weft_code::xor_into(black_box(&mut sum), black_box(&unit));
            bytes += unit.len();
        }
    }
    begun.elapsed().as_nanos() as f64 / bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: u64 = 256 << 20;

    #[test]
    fn a_volume_that_is_too_small_or_too_large_is_refused_before_anything_is_measured() {
        let check = |volume| {
            let each = Effort { volume, requests: 1, runs: 1, patience: Duration::ZERO };
            check(Path::new("/dev/shm"), each)
        };
        assert!(check(16 << 20).is_ok());
        for volume in [0, 4096, (16 << 20) + 1, 1 << 60] {
            let error = check(volume).unwrap_err();
            assert!(error.to_string().contains("give"), "{volume}: {error}");
        }
    }

    #[test]
    fn factors_are_found_again_and_none_is_below_zero() {
        let rows: Vec<(Vec<f64>, f64)> = (1..8)
            .map(|n| {
                let row = vec![1.0, f64::from(n), f64::from(n * n % 5)];
                let sum = 3.0 * row[0] + 2.0 * row[1];
                (row, sum)
            })
            .collect();
        let found = least_squares(&rows);
        assert!((found[0] - 3.0).abs() < 1e-3 && (found[1] - 2.0).abs() < 1e-3, "{found:?}");
        assert!(found[2].abs() < 1e-3, "{found:?}");
        let against = least_squares(&[(vec![1.0, 1.0], 1.0), (vec![1.0, 2.0], 0.5)]);
        assert!(against.iter().all(|f| *f >= 0.0), "{against:?}");
    }

    #[test]
    fn costs_are_found_again_from_what_the_simulator_makes_of_them() {
        let costs = Costs {
            round: 12_000.0,
            sleep: 5_000.0,
            request: 8_000.0,
            message: 1_500.0,
            disk: 3_000.0,
            host_byte: 0.3,
            disk_byte: 0.2,
            write_byte: 0.5,
            xor_byte: 0.1,
            host: 9_000.0,
            ask_byte: 0.125,
            reply_byte: 0.25,
            host_sleep: 3_000.0,
            wake: 15_000.0,
        };
        let case = |&(bytes, read_share, outstanding): &(u64, f64, u32)| {
            let mut case = Calibrated {
                bytes,
                read_share,
                outstanding,
                nodes_ns: 0.0,
                hosts_ns: 0.0,
                response_ns: 0.0,
                others: 0.0,
                nodes_ns_predicted: 0.0,
                hosts_ns_predicted: 0.0,
                response_ns_predicted: 0.0,
            };
            let outcome = simulate(&case, VOLUME, &costs).unwrap();
            case.response_ns = outcome.all.latency.mean();
            let host = host_kinds(&case, &outcome.work);
            case.hosts_ns = 9_000.0 + 3_000.0 * host[1] + 0.125 * host[2] + 0.25 * host[3];
            let mut system = system((bytes, read_share, outstanding), VOLUME, 1_000, 1);
            costs.put(&mut system);
            case.nodes_ns =
                system.nodes.path.instructions(&outcome.work) / outcome.work.requests as f64;
            case
        };
        let mut cases: Vec<Calibrated> = CASES.iter().map(case).collect();
        let found = fit(&mut cases, VOLUME, 0.1).unwrap();
        for case in &cases {
            let nodes = case.nodes_ns_predicted / case.nodes_ns;
            let response = case.response_ns_predicted / case.response_ns;
            // The median of many outstanding jumps from one size of rounds to another.
            let within = if case.outstanding == 1 { 0.03 } else { 0.1 };
            assert!((nodes - 1.0).abs() < 0.02 && (response - 1.0).abs() < within, "{case:?}");
        }
        assert!((found.wake / costs.wake - 1.0).abs() < 0.1, "{found:?}");
        assert!((found.host / costs.host - 1.0).abs() < 0.01, "{found:?}");
    }
}
