//! What a request costs the simulator when many are outstanding, over what it costs when few are.
//!
//! Nothing may look at all that is outstanding for each request: then this ratio is about that of the
//! numbers outstanding (64 here), and the bench fails. What is in no cache any more costs something; 2
//! to 3 is what it was when this was written.
//!
//! `cargo bench -p weft-sim`. It is the processor's time that is taken; both are run in turns, and of each the
//! fastest run counts, so that what others do on the machine counts for little.

use std::io::Cursor;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weft_load::workload::{Addresses, Arrivals, Requests, Think, Trace, Workload};
use weft_sim::perf::{Measure, Simulation, System, WarmUp};

const FEW: u32 = 256;
const MANY: u32 = 64 * FEW;
/// Requests of a run.
const REQUESTS: u32 = 20_000;
/// Runs of each.
const RUNS: u32 = 5;
/// The highest ratio that is let pass.
const MOST: f64 = 16.0;

fn main() {
    // Not `cargo bench`, but tests of all targets: that it runs is enough.
    let judges = std::env::args().any(|argument| argument == "--bench");
    let mut passed = true;
    for (what, run) in [("closed", closed as fn(u32, u32) -> Duration), ("trace", traced)] {
        if !judges {
            run(16, 64);
            continue;
        }
        let mut least = [Duration::MAX; 2];
        for _ in 0..RUNS {
            for (least, outstanding) in least.iter_mut().zip([FEW, MANY]) {
                *least = (*least).min(run(outstanding, REQUESTS));
            }
        }
        let [few, many] = least.map(|time| time.as_secs_f64() * 1e6 / f64::from(REQUESTS));
        let ratio = many / few;
        println!(
            "{what}: {few:.1} us a request with {FEW} outstanding, {many:.1} us with {MANY}: ratio \
             {ratio:.2} (at most {MOST})"
        );
        passed &= ratio <= MOST;
    }
    assert!(passed, "a request costs the more the more are outstanding");
}

/// TickerTAIP's array under these requests of 4 KiB.
fn system(arrivals: Arrivals, requests: Requests, measured: u32) -> System {
    System {
        measure: Measure {
            warm_up: WarmUp::Requests(0),
            requests: measured.into(),
            replications: 1,
            ..Measure::default()
        },
        ..System::under(Workload {
            hosts: 4,
            arrivals,
            requests,
            addresses: Addresses::Uniform,
            align_bytes: None,
        })
    }
}

/// What a run takes of the processor.
fn time(simulation: Simulation) -> Duration {
    let begun = processor();
    let outcome = simulation.run().expect("a run that ends");
    assert!(outcome.all.latency.count() > 0);
    processor() - begun
}

/// The processor time of this process so far.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// So many always outstanding.
fn closed(outstanding: u32, measured: u32) -> Duration {
    let arrivals = Arrivals::Closed { population: outstanding / 4, think: Think::default() };
    let requests = Requests::Fixed { bytes: 4096, read_share: 0.5 };
    let system = system(arrivals, requests, measured);
    time(Simulation::new(&system, 0).expect("a system"))
}

/// A trace in which so many come at once, and as many again when those are long done.
fn traced(outstanding: u32, measured: u32) -> Duration {
    let mut text = String::from("time_s,op,offset,bytes\n");
    let mut chance = fastrand::Rng::with_seed(1);
    for n in 0..measured {
        // A second for each of a burst is much more than they take.
        let at = u64::from(n / outstanding) * u64::from(outstanding);
        let op = if chance.bool() { 'R' } else { 'W' };
        text += &format!("{at},{op},{},4096\n", chance.u64(0..1 << 20) * 4096);
    }
    let mut trace = Trace::of("bursts.csv");
    let mut reader = trace.reader("bursts.csv", text.as_bytes()).expect("a trace");
    trace.survey(&mut reader).expect("a trace");
    drop(reader);
    let system = system(Arrivals::Traced { speed: 1.0 }, Requests::Trace(trace), measured);
    time(Simulation::reading(&system, 0, Cursor::new(text)).expect("a system"))
}
