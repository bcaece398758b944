//! Markov chains with states in which nothing is lost, and rates at which something is. What is asked of them is
//! solved exactly, by elimination.
//!
//! Rates of failure are often a millionth of rates of repair, and a matrix of both, solved as it stands, loses all its
//! digits. So states are eliminated as Grassmann, Taksar and Heyman do (1985): what leaves a state is the sum of
//! where it goes, never a difference. Nothing is ever subtracted, and every result has all its digits.

/// A chain. Its first state is that in which it begins.
#[derive(Clone, Debug)]
pub struct Chain {
    /// From state to state, in an hour.
    rates: Vec<Vec<f64>>,
    /// From each state to a loss of each kind, in an hour.
    losses: Vec<Vec<f64>>,
    /// Bytes lost in an hour spent in each state.
    bytes: Vec<f64>,
}

/// What is expected of a chain until the first loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Hours until something is lost; infinite if that cannot be.
    pub mttdl_h: f64,
    /// For each kind of loss, the share of first losses that are such.
    pub shares: Vec<f64>,
    /// Bytes lost by the first loss.
    pub bytes: f64,
}

impl Chain {
    /// So many states and kinds of loss, with no way from one to another yet.
    pub fn new(states: usize, kinds: usize) -> Chain {
        Chain {
            rates: vec![vec![0.0; states]; states],
            losses: vec![vec![0.0; kinds]; states],
            bytes: vec![0.0; states],
        }
    }

    /// Adds a way from one state to another.
    pub fn go(&mut self, from: usize, to: usize, per_h: f64) {
        debug_assert!(per_h >= 0.0, "a rate of {per_h}");
        if from != to {
            self.rates[from][to] += per_h;
        }
    }

    /// Adds a way to lose something: of this kind, so many bytes.
    pub fn lose(&mut self, from: usize, kind: usize, per_h: f64, bytes: f64) {
        debug_assert!(per_h >= 0.0 && bytes >= 0.0, "{bytes} bytes at a rate of {per_h}");
        self.losses[from][kind] += per_h;
        self.bytes[from] += per_h * bytes;
    }

    /// What is expected until the first loss.
    pub fn solve(mut self) -> Expected {
        let mut hours = vec![1.0; self.bytes.len()];
        for state in (1..hours.len()).rev() {
            self.eliminate(state, &mut hours);
        }
        let out: f64 = self.losses[0].iter().sum();
        Expected {
            mttdl_h: hours[0] / out,
            shares: self.losses[0].iter().map(|l| if out > 0.0 { l / out } else { 0.0 }).collect(),
            bytes: if out > 0.0 { self.bytes[0] / out } else { 0.0 },
        }
    }

    /// Has all that goes to `state`, the last that is left, go where it goes from there.
    fn eliminate(&mut self, state: usize, hours: &mut [f64]) {
        let out = self.rates[state][..state].iter().chain(&self.losses[state]).sum::<f64>();
        let (onward, lost) = (self.rates[state].clone(), self.losses[state].clone());
        for from in 0..state {
            let rate = self.rates[from][state];
            if rate == 0.0 {
                continue;
            }
            assert!(out > 0.0, "state {state} is never left");
            let times = rate / out;
            for (rate, onward) in self.rates[from][..state].iter_mut().zip(&onward) {
                *rate += times * onward;
            }
            for (loss, lost) in self.losses[from].iter_mut().zip(&lost) {
                *loss += times * lost;
            }
            self.bytes[from] += times * self.bytes[state];
            hours[from] += times * hours[state];
            // What comes back at once does not go.
            self.rates[from][from] = 0.0;
        }
    }
}

/// The chance that more than `bears` of `n` fail within a window, in which each fails with this chance.
pub fn window(n: u64, bears: u64, chance: f64) -> f64 {
    let mut ways = 1.0;
    let mut more = 0.0;
    for lost in 0..=n {
        if lost > bears {
            more +=
                ways * libm::pow(chance, lost as f64) * libm::pow(1.0 - chance, (n - lost) as f64);
        }
        ways *= (n - lost) as f64 / (lost + 1) as f64;
    }
    more
}

/// The mean time until fewer than `needed` of `count` parts run, each of which fails once in `mttf_h` and is replaced
/// in `repair_h`.
pub fn parts(count: usize, needed: usize, mttf_h: f64, repair_h: f64) -> f64 {
    let mut chain = Chain::new(count - needed + 1, 1);
    for failed in 0..=count - needed {
        let rate = (count - failed) as f64 / mttf_h;
        match failed < count - needed {
            true => chain.go(failed, failed + 1, rate),
            false => chain.lose(failed, 0, rate, 0.0),
        }
        if failed > 0 {
            chain.go(failed, failed - 1, failed as f64 / repair_h);
        }
    }
    chain.solve().mttdl_h
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// n disks, one of which may be lost: ((2n - 1) a + b) / (n (n - 1) a^2).
    #[test]
    fn one_loss_is_as_the_closed_form_says() {
        for (n, fails, repairs) in [(5, 1e-6, 1.0 / 48.0), (2, 0.1, 0.3), (12, 1e-9, 10.0)] {
            let m = n as f64;
            let closed = ((2.0 * m - 1.0) * fails + repairs) / (m * (m - 1.0) * fails * fails);
            let solved = parts(n, n - 1, 1.0 / fails, 1.0 / repairs);
            assert!((solved / closed - 1.0).abs() < 1e-12, "{n} disks: {solved}, not {closed}");
        }
    }

    /// Without spare parts the mean time is that of the first failure.
    #[test]
    fn none_to_spare() {
        assert_eq!(parts(4, 4, 1000.0, 24.0), 250.0);
    }

    #[test]
    fn what_cannot_be_lost_lasts_for_ever() {
        let mut chain = Chain::new(2, 1);
        chain.go(0, 1, 1.0);
        chain.go(1, 0, 1.0);
        let expected = chain.solve();
        assert_eq!((expected.mttdl_h, expected.bytes), (f64::INFINITY, 0.0));
    }

    #[test]
    fn kinds_of_loss_share_what_is_lost() {
        let mut chain = Chain::new(1, 2);
        chain.lose(0, 0, 1.0, 10.0);
        chain.lose(0, 1, 3.0, 20.0);
        let Expected { mttdl_h, shares, bytes } = chain.solve();
        assert_eq!((mttdl_h, shares, bytes), (0.25, vec![0.25, 0.75], 17.5));
    }

    /// Backblaze's own way to count: 17+3, and 6.5 days of which each is a window of its own.
    /// <https://www.backblaze.com/blog/cloud-storage-durability/>
    #[test]
    fn windows_give_backblaze_eleven_nines_and_the_chain_a_fourth() {
        let (yearly, days) = (0.00405, 6.5);
        let windows = 365.0 / days;
        let by_windows = windows * window(20, 3, yearly / windows);
        let nines = -libm::log10(by_windows);
        assert!((11.0..12.0).contains(&nines), "{nines} nines");
        let mttdl = parts(20, 17, 8760.0 / yearly, 24.0 * days);
        let by_chain = 8760.0 / mttdl;
        let times = by_chain / by_windows;
        assert!((3.95..4.05).contains(&times), "{times} times the loss");
    }

    proptest! {
        /// The mean time from each state is a step and then what is left, whatever the rates.
        #[test]
        fn every_solution_fulfils_its_equations(
            rates in prop::collection::vec(prop::collection::vec(1e-9f64..1e3, 5), 5),
            losses in prop::collection::vec(1e-12f64..1.0, 5),
        ) {
            let chain = |first: usize| {
                let mut chain = Chain::new(5, 1);
                // `first` and state 0 change names, so that the chain begins there.
                let name = |s: usize| if s == first { 0 } else if s == 0 { first } else { s };
                for (from, to) in (0..5).flat_map(|f| (0..5).map(move |t| (f, t))) {
                    chain.go(name(from), name(to), rates[from][to]);
                }
                (0..5).for_each(|s| chain.lose(name(s), 0, losses[s], 1.0));
                chain.solve().mttdl_h
            };
            let hours: Vec<f64> = (0..5).map(chain).collect();
            for from in 0..5 {
                let ways = (0..5).filter(|to| *to != from);
                let out: f64 = ways.clone().map(|to| rates[from][to]).sum::<f64>() + losses[from];
                let then: f64 = ways.map(|to| rates[from][to] * hours[to]).sum();
                let error = hours[from] / ((1.0 + then) / out) - 1.0;
                prop_assert!(error.abs() < 1e-9, "state {from} is off by {error}");
            }
        }
    }
}
