use super::*;

#[test]
fn seeds_pass() {
    for seed in 0..60 {
        if let Err(failure) = run_seed(seed, Options::default()) {
            panic!("seed {seed}: {}\n{:?}\n{}", failure.reason, failure.shrunk, failure.story.join("\n"));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17] {
        let one = run_seed(seed, Options::default()).unwrap();
        let two = run_seed(seed, Options::default()).unwrap();
        assert_eq!(one, two);
    }
}
