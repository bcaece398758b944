//! Queues that theory has an answer for, simulated with this crate's arrivals and statistics:
//! M/M/1 and M/D/1, and a closed network of which every number is known.

use std::collections::VecDeque;

use weft_load::random::{Streams, exponential};
use weft_load::stats::{Level, Run, Summary};
use weft_load::workload::{Addresses, Arrivals, Generator, Requests, Spacing, Think, Workload};
use weft_load::{Ask, Nanos};

/// Mean time of service: 1 ms.
const SERVICE: f64 = 1e6;
/// Requests in a replication, after the warm-up.
const REQUESTS: u64 = 40_000;

fn workload(hosts: u32, arrivals: Arrivals) -> Workload {
    Workload {
        hosts,
        arrivals,
        requests: Requests::Fixed { bytes: 4096, read_share: 0.5 },
        addresses: Addresses::Uniform,
        align_bytes: None,
    }
}

/// What one replication says: mean response time in nanoseconds, utilisation of the server, number
/// present, and requests in a second.
struct Said {
    response: f64,
    utilisation: f64,
    present: f64,
    throughput: f64,
}

/// One server, first come first served; hosts arrive as the workload says.
fn simulate(
    workload: &Workload,
    replication: u64,
    mut service: impl FnMut(&mut fastrand::Rng) -> Nanos,
) -> Said {
    let streams = Streams::new(2026, replication);
    let mut hosts: Vec<_> = (0..workload.hosts).map(|h| streams.stream("host", h.into())).collect();
    let mut server = streams.stream("server", 0);
    let mut generator = Generator::new(workload, 1 << 30).unwrap();
    let open = matches!(workload.arrivals, Arrivals::Open { .. });
    let mut run = Run::new(0, 1000);
    let mut busy = Level::new(0);
    // When each host's next request comes; none while a closed host waits for a reply.
    let mut coming: Vec<Option<(Nanos, Ask)>> = hosts
        .iter_mut()
        .enumerate()
        .map(|(h, rng)| {
            let ask = generator.next(h, rng);
            Some((ask.wait, ask))
        })
        .collect();
    let (mut queue, mut done): (VecDeque<(Nanos, usize, Ask)>, Option<Nanos>) = Default::default();
    let mut now = 0;
    while run.finished() < 1000 + REQUESTS {
        let next = coming.iter().enumerate().filter_map(|(h, c)| Some((c.as_ref()?.0, h))).min();
        let replies = done.is_some_and(|at| next.is_none_or(|(t, _)| at <= t));
        if replies {
            now = done.take().unwrap();
            let (asked, host, ask) = queue.pop_front().unwrap();
            let cold = !run.is_warm();
            run.reply(now, ask.kind, ask.len, asked);
            if cold && run.is_warm() {
                busy.restart(now);
            }
            if !open {
                let ask = generator.next(host, &mut hosts[host]);
                coming[host] = Some((now + ask.wait, ask));
            }
        } else {
            let (at, host) = next.unwrap();
            now = at;
            let (_, ask) = coming[host].take().unwrap();
            run.ask(now);
            queue.push_back((now, host, ask));
            if open {
                let ask = generator.next(host, &mut hosts[host]);
                coming[host] = Some((now + ask.wait, ask));
            }
        }
        if done.is_none() && !queue.is_empty() {
            done = Some(now + service(&mut server));
        }
        busy.set(now, u64::from(done.is_some()));
    }
    let measured = run.measured().unwrap();
    assert_eq!(measured.check(now, queue.iter().map(|(asked, ..)| *asked)), Ok(()));
    Said {
        response: measured.all().latency.mean(),
        utilisation: busy.mean(now),
        present: measured.outstanding().mean(now),
        throughput: measured.requests_s(now),
    }
}

/// Twenty replications must hold the true value in their 99.9 % interval, which must be narrow.
fn agrees(name: &str, values: impl Iterator<Item = f64>, truth: f64) {
    let mut summary = Summary::default();
    values.for_each(|v| summary.add(v));
    let interval = summary.interval(0.999);
    let half = interval.half_width.unwrap();
    assert!(half < 0.05 * truth, "{name}: {} ± {half} says too little of {truth}", interval.mean);
    assert!(
        (interval.mean - truth).abs() <= half,
        "{name}: {} ± {half}, not {truth}",
        interval.mean
    );
}

fn open(load: f64, service: fn(&mut fastrand::Rng) -> Nanos, response: f64) {
    let rate_per_s = load * 1e9 / SERVICE;
    let arrivals = Arrivals::Open { rate_per_s, spacing: Spacing::Poisson };
    let said: Vec<Said> =
        (0..20).map(|i| simulate(&workload(3, arrivals.clone()), i, service)).collect();
    agrees("response", said.iter().map(|s| s.response), response);
    agrees("utilisation", said.iter().map(|s| s.utilisation), load);
    agrees("present", said.iter().map(|s| s.present), response * rate_per_s / 1e9);
    agrees("throughput", said.iter().map(|s| s.throughput), rate_per_s);
}

/// W = 1 / (mu - lambda).
#[test]
fn m_m_1() {
    for load in [0.2, 0.5, 0.7] {
        open(load, |rng| exponential(SERVICE, rng), SERVICE / (1.0 - load));
    }
}

/// W = 1 / mu + rho / (2 mu (1 - rho)): Pollaczek and Khinchine.
#[test]
fn m_d_1() {
    for load in [0.2, 0.5, 0.7] {
        open(load, |_| SERVICE as Nanos, SERVICE * (1.0 + load / (2.0 * (1.0 - load))));
    }
}

/// The machine repairman M/M/1//N: N hosts that think for Z on average and share one server. With
/// r = service / Z the probability of n present is proportional to N! / (N - n)! r^n.
#[test]
fn closed_hosts_that_think() {
    let (hosts, think) = (4u32, 3.0);
    let mut weights = vec![1.0];
    for n in 0..hosts {
        weights.push(weights[n as usize] * f64::from(hosts - n) / think);
    }
    let total: f64 = weights.iter().sum();
    let busy = 1.0 - weights[0] / total;
    let present: f64 = weights.iter().enumerate().map(|(n, w)| n as f64 * w / total).sum();
    let arrivals =
        Arrivals::Closed { population: 1, think: Think::ExponentialUs(think * SERVICE / 1e3) };
    let spec = workload(hosts, arrivals);
    let said: Vec<Said> =
        (0..20).map(|i| simulate(&spec, i, |rng| exponential(SERVICE, rng))).collect();
    agrees("utilisation", said.iter().map(|s| s.utilisation), busy);
    agrees("present", said.iter().map(|s| s.present), present);
    agrees("throughput", said.iter().map(|s| s.throughput), busy * 1e9 / SERVICE);
    agrees("response", said.iter().map(|s| s.response), present / busy * SERVICE);
}

/// Without time to think and with one server, everything is exact.
#[test]
fn closed_hosts_that_do_not_think() {
    let arrivals = Arrivals::Closed { population: 1, think: Think::default() };
    let said = simulate(&workload(3, arrivals), 0, |_| SERVICE as Nanos);
    assert_eq!((said.response, said.utilisation, said.present), (3.0 * SERVICE, 1.0, 3.0));
    assert_eq!(said.throughput, 1000.0);
}
