//! Runs seeds of the simulation check one by one: `seed FROM TO [any]` (with the story).
use weft_sim::check::{Options, run_seed};

fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|s| s.parse().unwrap()).collect();
    for seed in a[0]..a[1] {
        let caught = std::panic::catch_unwind(|| run_seed(seed, Options::default()));
        match caught {
            Err(_) => println!("{seed} PANIC"),
            Ok(Ok(s)) => println!("{seed} ok {s:?}"),
            Ok(Err(f)) => {
                println!("{seed} FAIL {} {:?}", f.reason, f.shrunk);
                for l in f.story.iter().filter(|_| a.len() > 2) {
                    println!("{}", &l[..l.len().min(400)]);
                }
            }
        }
    }
}
