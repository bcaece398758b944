//! Runs seeds of the simulation check: `seed FROM TO`; with a number of lines as the third
//! word, a seed that fails is made smaller and its story told.
use weft_sim::check::{Options, run_once, run_seed};

fn main() {
    let words: Vec<u64> = std::env::args().skip(1).map(|s| s.parse().expect("a number")).collect();
    let [from, to, ref lines @ ..] = words[..] else { panic!("seed FROM TO [LINES]") };
    let mut failed = 0;
    for seed in from..to {
        let run = || run_once(seed, Options::default(), 0);
        let reason = match std::panic::catch_unwind(run) {
            Ok(Ok(_)) => continue,
            Ok(Err((reason, _))) => reason,
            Err(_) => "panic".to_string(),
        };
        failed += 1;
        println!("{seed} failed: {reason}");
        if let Some(lines) = lines.first()
            && let Err(failure) = run_seed(seed, Options::default())
        {
            println!("{} {:?}", failure.reason, failure.shrunk);
            let skip = failure.story.len().saturating_sub(*lines as usize);
            failure.story[skip..].iter().for_each(|line| {
                println!("{}", line.chars().take(6000).collect::<String>());
            });
        }
    }
    println!("{failed} of {} failed", to - from);
}
