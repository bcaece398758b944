//! What an operator has the volume choose while hosts use it and things fail: by `weft volume set`, any choice that can
//! be changed in use, to any value that a run can bear.
//!
//! All of it is drawn from a stream of its own, and only in some runs, so that older seeds stay what they were.

use fastrand::Rng;
use weft_core::policy::{
    CHOICES, Choice, Commands, Commit, Dispatch, Ordering, Redundancy, Roles, Setting,
};
use weft_core::units::Nanos;

use super::Run;
use super::faults::Fault;

/// In one run of four somebody changes something.
pub(super) fn rng(seed: u64) -> Option<Rng> {
    let mut rng = Rng::with_seed(seed ^ 0x00c4_01ce_5000);
    (rng.u8(0..4) == 0).then_some(rng)
}

/// So many choices came later: only in some runs they are drawn with the others.
const LATER: usize = 5;

/// The last of the table are limits on what hosts may ask, what they are promised, schedules of snapshots, and the length of
/// blocks. Processes see to them, so they are not drawn.
const LIMITS: usize = 6;

fn later(seed: u64) -> Option<Rng> {
    let mut rng = Rng::with_seed(seed ^ 0x00c4_01ce_5001);
    (rng.u8(0..2) == 0).then_some(rng)
}

impl Run {
    /// Some changes in a phase.
    pub(super) fn draw_choices(&mut self, span: Nanos) {
        let Some(mut rng) = self.choice_rng.take() else { return };
        let mut later = later(rng.clone().u64(..));
        let choices = &CHOICES[..CHOICES.len() - LIMITS];
        for _ in 0..rng.usize(1..=4) {
            let older = rng.usize(0..choices.len() - LATER);
            let choice = match &mut later {
                Some(later) => &choices[later.usize(0..choices.len())],
                None => &choices[older],
            };
            let words: Vec<&str> = choice.words().collect();
            let setting =
                choice.parse(words[rng.usize(0..words.len())]).expect("a word of the table");
            let at = rng.u64(0..span);
            if self.bears_change(choice, setting) {
                self.plan(at, Fault::Choose(setting, self.with_it(setting)));
            }
        }
        self.choice_rng = Some(rng);
    }

    /// Whether what a run holds to its end stays so with this.
    fn bears_change(&self, choice: &Choice, setting: Setting) -> bool {
        let sequenced = self.volume.is_sequenced();
        let limited = self.volume.policy.commit == Commit::Limited;
        choice.in_use
            && match setting {
                // Clearing what is grown is to rely on no parity, and places are a sequencer's.
                Setting::Strategy(_) => self.operator.is_none(),
                Setting::Ordering(to) => {
                    let open = self.options.ordering.is_none() && !sequenced;
                    open && !matches!(to, Ordering::None | Ordering::Sequencer)
                }
                Setting::Sequencer(_) => sequenced && self.options.sequencer.is_none(),
                // What limited atomicity does not promise is not asked of such a run from its beginning.
                Setting::Commit(to) => limited || to != Commit::Limited,
                // Snapshots are taken by processes, not by nodes.
                Setting::LostWait(_) | Setting::Snapshots(_) => false,
                Setting::Redundancy(_) => self.exposes,
                Setting::ImmediateParities(n) => {
                    usize::from(n) < self.volume.geometry.code.parity_columns().max(1)
                }
                Setting::Refresh(_)
                | Setting::Idle(_)
                | Setting::ExposedStripes(_)
                | Setting::ExposedBytes(_)
                | Setting::ExposedFor(_)
                | Setting::Start(_)
                | Setting::Flush(_) => true,
                // Disks of which it is said that they fail sooner may not achieve what was asked for before.
                Setting::DiskMttf(_) => false,
                Setting::Mttdl(hours) => {
                    let reach = self.volume.rates().protected_h;
                    self.exposes && (hours == Redundancy::UNBOUNDED || hours as f64 <= reach)
                }
                // Else more is atomic in the run than later in the volume.
                Setting::Commands(to) => {
                    to == Commands::Column || self.volume.policy.commands == Commands::Block
                }
                Setting::Roles(to) => !limited || matches!(to, Roles::Node | Roles::Host),
                Setting::CalculatedAt(_)
                | Setting::Dispatch(_)
                | Setting::Journal(_)
                | Setting::Inline(_)
                | Setting::Iops(_)
                | Setting::Bandwidth(_)
                | Setting::Burst(_)
                | Setting::P99(_)
                | Setting::Block(_) => true,
            }
    }

    /// What must be chosen with it, so that it is not refused for what was drawn before.
    fn with_it(&self, setting: Setting) -> Option<Setting> {
        match setting {
            Setting::Commit(Commit::Limited) => Some(Setting::Dispatch(Dispatch::Commanded)),
            Setting::Dispatch(Dispatch::Commanded) | Setting::Roles(_) => {
                Some(Setting::CalculatedAt(None))
            }
            Setting::Inline(bytes) if bytes > 0 => Some(Setting::Commands(Commands::Column)),
            Setting::Commands(Commands::Block) => Some(Setting::Inline(0)),
            _ => None,
        }
    }
}
