use super::*;
use weft_load::workload::{Addresses, Requests, Think, Workload};

pub(super) fn system(bytes: u64, read_share: f64, hosts: u32, population: u32) -> System {
    System {
        nodes: Default::default(),
        disks: Default::default(),
        links: Default::default(),
        hosts: Default::default(),
        volume: Default::default(),
        workload: Workload {
            hosts,
            arrivals: Arrivals::Closed { population, think: Think::default() },
            requests: Requests::Fixed { bytes, read_share },
            addresses: Addresses::Uniform,
            align_bytes: None,
        },
        measure: super::super::Measure { requests: 2000, ..Default::default() },
    }
}

#[test]
fn show() {
    for bytes in [4096, 40960, 1 << 20, 10 << 20] {
        for read in [1.0, 0.0] {
            for (hosts, population) in [(1, 1), (4, 2)] {
                let mut s = system(bytes, read, hosts, population);
                s.links.mb_s = 100.0;
                s.measure.requests = 400;
                let begun = std::time::Instant::now();
                let o = Simulation::new(&s, 0).unwrap().run().unwrap();
                println!(
                    "{bytes} read {read} x{}: {:.2} MB/s {:.2} ms disks {:.2} cpu {:.2} links {:.2} events {} {:?}",
                    hosts * population,
                    o.throughput_mb_s,
                    o.all.latency.mean() / 1e6,
                    o.disks.mean,
                    o.processors.highest,
                    o.links.highest,
                    o.events,
                    begun.elapsed()
                );
            }
        }
    }
}
