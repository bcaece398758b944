//! Going through all states, depth first.

use std::collections::{BTreeMap, HashMap};

use super::judge::judge;
use super::ledger::Case;
use super::print::AsItIs;
use super::setup::Setup;
use super::state::State;
use super::{Bounds, Choice};
use crate::panics::caught;

/// What was gone through.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Different states.
    pub states: u64,
    /// Steps from one state to another, those to states reached before included.
    pub steps: u64,
    /// States in which nothing more happens by itself; each was judged.
    pub ends: u64,
    /// Steps of the longest path.
    pub longest: usize,
    /// What became of writes in the middle of which one node died, and in how many ends.
    pub cases: BTreeMap<Case, u64>,
    /// Whether everything within the bounds was gone through.
    pub complete: bool,
    /// What went wrong, if anything; then the search stopped.
    pub failure: Option<Failure>,
}

/// Something that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What.
    pub reason: String,
    /// What happened before.
    pub story: Vec<String>,
}

/// A state on the path that is being gone along, and the choices in it.
struct Frame {
    state: State,
    /// Each with the delays that are left after it.
    choices: Vec<(Choice, u16)>,
    next: usize,
}

/// The search under way.
struct Search {
    bounds: Bounds,
    /// States reached, with the most delays that were left there.
    reached: HashMap<u64, u16, AsItIs>,
    path: Vec<Frame>,
    report: Report,
}

/// Goes through everything within the bounds, until something is wrong.
pub fn explore(setup: &Setup, bounds: &Bounds) -> Report {
    let mut search = Search {
        bounds: *bounds,
        reached: HashMap::default(),
        path: Vec::new(),
        report: Report::default(),
    };
    let result = match State::new(setup, bounds) {
        Ok(first) => search.run(first),
        Err(reason) => Err(reason),
    };
    let mut report = search.report;
    if let Err(reason) = result {
        let path: Vec<Choice> =
            search.path.into_iter().map(|f| f.choices[f.next - 1].0.clone()).collect();
        report.complete = false;
        report.failure = Some(Failure { reason, story: tell(setup, bounds, &path) });
    }
    report
}

/// The failure that needs the fewest delays, if there is any within the bounds.
pub fn simplest(setup: &Setup, bounds: &Bounds) -> Option<Failure> {
    let any = explore(setup, bounds).failure?;
    let most = bounds.delays.unwrap_or(u16::MAX);
    let with = |delays| explore(setup, &Bounds { delays: Some(delays), ..*bounds }).failure;
    Some((0..most).find_map(with).unwrap_or(any))
}

impl Search {
    fn run(&mut self, first: State) -> Result<(), String> {
        self.enter(first, self.bounds.delays.unwrap_or(u16::MAX))?;
        self.report.complete = true;
        while let Some(frame) = self.path.last_mut() {
            let Some((choice, delays)) = frame.choices.get(frame.next).cloned() else {
                self.path.pop();
                continue;
            };
            frame.next += 1;
            if self.report.states >= self.bounds.states {
                self.report.complete = false;
                return Ok(());
            }
            let mut state = frame.state.clone();
            self.report.steps += 1;
            caught(|| state.apply(&choice))?;
            self.enter(state, delays)?;
        }
        Ok(())
    }

    /// Goes into a state, unless it was reached before with as many delays left.
    fn enter(&mut self, state: State, delays: u16) -> Result<(), String> {
        let before = self.reached.insert(state.print(), delays);
        if let Some(before) = before {
            if before >= delays {
                self.reached.insert(state.print(), before);
                return Ok(());
            }
        } else {
            self.report.states += 1;
        }
        let mut choices: Vec<(Choice, u16)> = Vec::new();
        let steps = state.steps();
        if steps.is_empty() && before.is_none() {
            self.report.ends += 1;
            for case in state.ledger.cases(&state.volume) {
                *self.report.cases.entry(case).or_default() += 1;
            }
            let mut end = state.clone();
            caught(|| judge(&mut end))?;
        }
        for (n, step) in steps.into_iter().enumerate() {
            let bounded = self.bounds.delays.is_some();
            match delays.checked_sub(u16::from(bounded && n > 0)) {
                Some(left) => choices.push((step, left)),
                None => break,
            }
        }
        choices.extend(state.faults().into_iter().map(|fault| (fault, delays)));
        self.path.push(Frame { state, choices, next: 0 });
        self.report.longest = self.report.longest.max(self.path.len() - 1);
        Ok(())
    }
}

/// Goes along a path once more, and tells what happens.
fn tell(setup: &Setup, bounds: &Bounds, path: &[Choice]) -> Vec<String> {
    let Ok(mut state) = State::new(setup, bounds) else { return Vec::new() };
    state.story = Some(Vec::new());
    for choice in path {
        if caught(|| state.apply(choice)).is_err() {
            return state.story.unwrap_or_default();
        }
    }
    if state.steps().is_empty() {
        state.tell(|| "no step is left; the final state is checked".into());
        // That it fails again is known.
        let _ = caught(|| judge(&mut state));
    }
    state.story.unwrap_or_default()
}
