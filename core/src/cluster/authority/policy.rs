//! What volumes choose, where the map changes: every change comes through here, whoever asks for it, and what
//! does not go together is not done. Who asks is told why by the same words.

use std::sync::Arc;

use super::super::map::{ClusterMap, MOST_RANGES, NodeInfo, Volume};
use crate::policy::{IN_RANGES, Ordering, PolicyError, Redundancy, Setting, Timing};
use crate::units::{Range, VolumeId};

/// What is to be otherwise of a volume's policy; what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyChange {
    /// The choice. A form of the sequencer is that of all volumes with one: one graph spans them.
    pub settings: Vec<Setting>,
    /// With an ordering of [`Ordering::None`]: whether several hosts may write all the same.
    pub unordered_sharing: bool,
    /// For which bytes of the volume, whole stripes; else it is for all that lie in no range with values of its own.
    pub range: Option<Range>,
}

impl PolicyChange {
    /// To these values.
    pub fn to(settings: impl IntoIterator<Item = Setting>) -> PolicyChange {
        PolicyChange { settings: settings.into_iter().collect(), ..PolicyChange::default() }
    }

    /// Makes it.
    pub fn apply(&self, volume: &mut Volume) {
        if let Some(range) = self.range {
            if let Some(stripes) = volume.whole_stripes_of(range) {
                volume.set_range(stripes, &self.settings);
            }
            return;
        }
        volume.policy = volume.policy.with(self.settings.iter().copied());
        volume.tidy_ranges();
        if self.settings.iter().any(|s| matches!(s, Setting::Ordering(_))) {
            let unordered = volume.policy.ordering == Ordering::None;
            volume.unordered_sharing = unordered && self.unordered_sharing;
        }
    }
}

/// A range can have it for itself, and is one.
fn check_range(
    volume: &Volume,
    changed: &Volume,
    change: &PolicyChange,
) -> Result<(), PolicyError> {
    let Some(range) = change.range else { return Ok(()) };
    if let Some(given) = change.settings.iter().copied().find(|s| !IN_RANGES.contains(&s.key())) {
        return Err(PolicyError::NotInRanges { given, known: IN_RANGES.join(", ") });
    }
    let (stripe, size) = (volume.geometry.stripe_bytes(), volume.size);
    if volume.whole_stripes_of(range).is_none() {
        let (from, to) = (range.offset, range.offset.saturating_add(range.len));
        let near_from = (from / stripe * stripe).min((size - 1) / stripe * stripe);
        let near_to = to.div_ceil(stripe).saturating_mul(stripe).max(near_from + stripe).min(size);
        return Err(PolicyError::NoStripes { from, to, stripe, size, near_from, near_to });
    }
    match changed.ranges.len() {
        would if would > MOST_RANGES => {
            Err(PolicyError::TooManyRanges { would, most: MOST_RANGES })
        }
        _ => Ok(()),
    }
}

/// What is asked for goes with the volume's layout.
fn check_layout(volume: &Volume, said: &[Setting]) -> Result<(), PolicyError> {
    let of_parity = |s: &Setting| match s {
        Setting::Strategy(Some(_)) | Setting::CalculatedAt(Some(_)) => true,
        Setting::Redundancy(timing) => *timing != Timing::Immediate,
        _ => false,
    };
    match said.iter().copied().find(of_parity) {
        Some(given) if !volume.geometry.is_redundant() => {
            Err(PolicyError::NoParity { given, layout: volume.layout.clone() })
        }
        _ => check_waiting(volume, said).and_then(|()| check_target(volume, said)),
    }
}

/// What a thin volume cannot have: a write that a full disk refuses must not have begun on the others.
fn unfit_for_thin(volume: &Volume) -> Option<Setting> {
    let policy = &volume.policy;
    match volume.is_thin() {
        true if !policy.commit.is_voted() => Some(Setting::Commit(policy.commit)),
        true if !policy.journal => Some(Setting::Journal(false)),
        _ => None,
    }
}

/// What a volume over a snapshot cannot have, in itself or in one of its ranges: it does not learn which stripes of the
/// snapshot are exposed, and a snapshot does not show copies that parity does not describe yet.
fn unfit_for_snapshots(volume: &Volume) -> Option<Setting> {
    volume.lineage.below?;
    let mut timings = volume.policies().map(|policy| policy.redundancy.timing);
    timings.find(|&timing| timing != Timing::Immediate).map(Setting::Redundancy)
}

/// What is asked for goes together with the rest, in the volume and in each of its ranges.
fn check_everywhere(volume: &Volume, said: &[Setting]) -> Result<(), PolicyError> {
    if let Some(given) = unfit_for_thin(volume) {
        return Err(PolicyError::Thin(given));
    }
    if let Some(given) = unfit_for_snapshots(volume) {
        return Err(PolicyError::Snapshots(given));
    }
    volume.policies().try_for_each(|policy| policy.check_for_volume(said))
}

/// What is to be achieved is what immediate parity can give, at most.
fn check_target(volume: &Volume, said: &[Setting]) -> Result<(), PolicyError> {
    let redundancy = volume.policy.redundancy;
    let of_target = |s: &Setting| matches!(s, Setting::Mttdl(_) | Setting::DiskMttf(_));
    if redundancy.mttdl == Redundancy::UNBOUNDED || !said.iter().any(of_target) {
        return Ok(());
    }
    // Whole hours that are reached for sure.
    let most = volume.rates().protected_h as u64;
    match redundancy.mttdl > most {
        true => Err(PolicyError::BeyondReach {
            given: Setting::Mttdl(redundancy.mttdl),
            layout: volume.layout.clone(),
            most,
        }),
        false => Ok(()),
    }
}

/// Where parity waits, one parity at least does.
fn check_waiting(volume: &Volume, said: &[Setting]) -> Result<(), PolicyError> {
    let parities = volume.geometry.code.parity_columns();
    let most = volume.redundancies().map(|r| r.immediate_parities).max().unwrap_or(0);
    let immediate = usize::from(most);
    let of_waiting =
        |s: &Setting| matches!(s, Setting::Redundancy(_) | Setting::ImmediateParities(_));
    let is_said = said.iter().any(of_waiting);
    match is_said && immediate > 0 && immediate >= parities {
        true => Err(PolicyError::NoneWaits {
            given: Setting::ImmediateParities(most),
            layout: volume.layout.clone(),
            parities,
            most: parities.saturating_sub(1),
        }),
        false => Ok(()),
    }
}

impl ClusterMap {
    /// Refuses a change of a volume's policy that makes no sense. There may be no such volume any more.
    pub fn check_policy(&self, id: VolumeId, change: &PolicyChange) -> Result<(), PolicyError> {
        let Some(volume) = self.volumes.get(&id) else { return Ok(()) };
        let mut changed = Volume::clone(volume);
        change.apply(&mut changed);
        check_range(volume, &changed, change)?;
        check_layout(&changed, &change.settings)?;
        if change.settings.iter().any(|s| matches!(s, Setting::Roles(_))) {
            self.check_controller(&changed)?;
        }
        check_everywhere(&changed, &change.settings)
    }

    /// Refuses a new volume for what it chooses, of which somebody has asked for some by name.
    pub fn check_new_policy(&self, volume: &Volume, said: &[Setting]) -> Result<(), PolicyError> {
        check_layout(volume, said)?;
        self.check_controller(volume)?;
        check_everywhere(volume, said)?;
        volume.policies().try_for_each(|policy| policy.check_whole())?;
        match self.sequencer() {
            Some(now) if volume.is_sequenced() && volume.policy.sequencer != now => {
                Err(PolicyError::OtherForm { given: volume.policy.sequencer, now })
            }
            _ => Ok(()),
        }
    }
}

impl ClusterMap {
    /// A volume with a controller needs a process that can be it.
    fn check_controller(&self, volume: &Volume) -> Result<(), PolicyError> {
        let may = |n: &NodeInfo| !n.is_host() && !n.removed && !n.given_up;
        match volume.policy.controller.is_some() && !self.nodes.iter().any(may) {
            true => Err(PolicyError::NoController(Setting::Roles(volume.policy.roles()))),
            false => Ok(()),
        }
    }
}

/// Changes a volume's policy, if that makes sense.
pub(super) fn set_policy(map: &mut ClusterMap, id: VolumeId, change: &PolicyChange) {
    if map.check_policy(id, change).is_err() {
        return;
    }
    let before = map.sequencer();
    let Some(volume) = map.volumes.get_mut(&id) else { return };
    change.apply(Arc::make_mut(volume));
    let form = |s: &Setting| match s {
        Setting::Sequencer(form) => Some(*form),
        _ => None,
    };
    let said = change.settings.iter().find_map(form).filter(|_| volume.is_sequenced());
    let Some(form) = said.or(before) else { return };
    for volume in map.volumes.values_mut().filter(|v| v.is_sequenced()) {
        if volume.policy.sequencer != form {
            Arc::make_mut(volume).policy.sequencer = form;
        }
    }
}
