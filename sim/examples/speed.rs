//! Runs one closed workload and says how fast the simulator was.

use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};
use weft_sim::perf::{Measure, Simulation, System};

fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let [bytes, read_share, population, requests] = args[..] else {
        panic!("BYTES READ_SHARE POPULATION REQUESTS")
    };
    let system = System {
        measure: Measure { requests: requests as u64, ..Default::default() },
        ..System::under(Workload {
            hosts: 4,
            arrivals: Arrivals::Closed { population: population as u32, think: Think::default() },
            requests: Requests::Fixed { bytes: bytes as u64, read_share },
            addresses: Addresses::Uniform,
            align_bytes: None,
        })
    };
    let begun = std::time::Instant::now();
    let o = Simulation::new(&system, 0).unwrap().run().unwrap();
    let s = begun.elapsed().as_secs_f64();
    println!(
        "{:.2} MB/s {:.2} ms; {} events in {s:.2} s: {:.0} a second, {:.0} requests a second",
        o.throughput_mb_s,
        o.all.latency.mean() / 1e6,
        o.events,
        o.events as f64 / s,
        o.all.latency.count() as f64 / s
    );
}
