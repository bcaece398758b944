//! Runs DR-net with so many disks at saturation, and says how long that took: `torus DISKS REQUESTS`.

use weft_sim::perf::{Simulation, System};

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let [disks, requests] = args[..] else { panic!("DISKS REQUESTS") };
    let interfaces = disks / 5;
    let text = format!(
        "disks.model = \"drnet\"\n\
         [nodes]\nworkers = {disks}\noriginators = 0\ncontrollers = {interfaces}\nbuffers = 5\n\
         [links]\nfabric = \"torus\"\nmb_s = 100\nset_up_us = 50\nlatency_us = 0\n\
         [volume]\nlayout = \"drnet\"\nunit = 65536\nwidth = 25\ncommit = \"none\"\nordering = \"none\"\n\
         [workload]\nhosts = {interfaces}\narrivals = \"saturating\"\nalign_bytes = 65536\n\
         requests.fixed = {{ bytes = 65536, read_share = 1.0 }}\n\
         [measure]\nwarm_up = 0\nrequests = {requests}\n"
    );
    let system: System = toml::from_str(&text).unwrap();
    let begun = std::time::Instant::now();
    let o = Simulation::new(&system, 0).unwrap().run().unwrap();
    let s = begun.elapsed().as_secs_f64();
    println!(
        "{:.0} requests a second, links {:.3} in use, disks {:.3}; {} events in {s:.2} s",
        o.requests_s, o.links.mean, o.disks.mean, o.events
    );
}
