use std::sync::atomic::{AtomicUsize, Ordering};
use weft_sim::paper::tickertaip::{Effort, cases};
use weft_sim::perf::Simulation;
fn main() {
    let mut args = std::env::args().skip(1);
    let effort = if args.next().unwrap() == "full" { Effort::Full } else { Effort::Quick };
    let only: Vec<String> = args.collect();
    let cases = cases(effort, &only);
    let next = AtomicUsize::new(0);
    let begun = std::time::Instant::now();
    let out = std::sync::Mutex::new(vec![String::new(); cases.len()]);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(n) else { return };
                let t = std::time::Instant::now();
                let runs: Vec<_> = (0..case.system.measure.replications)
                    .map(|r| Simulation::new(&case.system, r.into()).unwrap().run().unwrap())
                    .collect();
                let mut text = String::new();
                for row in case.rows(&runs) {
                    let point: Vec<String> = row.point.iter().map(|(k, v)| format!("{k}={v}")).collect();
                    text += &format!("{} {} {:?} {:.3} +- {:.3} paper {:?} [{:.2} s, disks {:.2} cpu {:.2} link {:.2}]\n", row.experiment, point.join(" "), row.metric, row.measured, row.ci95.unwrap_or(0.0), row.paper, t.elapsed().as_secs_f64(), runs[0].disks.mean, runs[0].processors.highest, runs[0].links.highest);
                }
                out.lock().unwrap()[n] = text;
            });
        }
    });
    for t in out.lock().unwrap().iter() {
        print!("{t}");
    }
    println!("{} cases in {:.1} s", cases.len(), begun.elapsed().as_secs_f64());
}
