use weft_sim::check::{run_seed, Options};
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|s| s.parse().unwrap()).collect();
    for seed in a[0]..a[1] {
        eprintln!("seed {seed}");
        match run_seed(seed, Options::default()) {
            Ok(s) => println!("{seed} ok {} {}n ans {} un {} crashes {} ev {} t {}ms", s.layout, s.nodes, s.answered, s.unanswered, s.crashes, s.events, s.time/1000000),
            Err(f) => { println!("{seed} FAIL {} {:?}", f.reason, f.shrunk); if a.len()>2 { for l in f.story { println!("{}", &l[..l.len().min(400)]); } } }
        }
    }
}
