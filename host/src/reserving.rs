//! Changes of reservations, as processes send them to one another.

use serde::{Deserialize, Serialize};
use weft_core::cluster::{Registrant, ReservationAction, ReservationChange, ReservationKind};
use weft_core::units::VolumeId;

use crate::error::{Error, Result};

/// A change of a volume's reservations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserving {
    /// The volume's number.
    volume: u32,
    /// The host and the port.
    host: String,
    port: u16,
    /// The action.
    action: Action,
    /// Its key, or the stamp of a hold that ends, and the action's other fields.
    #[serde(default)]
    key: u64,
    #[serde(default)]
    other_key: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kind: String,
    /// Whom a reservation is moved to, and whether the host leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<(String, u16)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    leaves: bool,
    /// Identifies the change, so that its outcome is recognised.
    stamp: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Action {
    Register,
    RegisterAndIgnore,
    Reserve,
    Release,
    Clear,
    Preempt,
    Move,
    Hold,
    Unhold,
    EndHold,
    Reset,
}

impl Reserving {
    /// In text form. An operator's change belongs to no host.
    pub(crate) fn of(change: &ReservationChange) -> Option<Reserving> {
        let (mut to, mut leaves) = (None, false);
        let (action, key, other_key, kind) = match change.action {
            ReservationAction::Register { key, new, ignores: false } => {
                (Action::Register, key, new, None)
            }
            ReservationAction::Register { key, new, ignores: true } => {
                (Action::RegisterAndIgnore, key, new, None)
            }
            ReservationAction::Reserve { key, kind } => (Action::Reserve, key, 0, Some(kind)),
            ReservationAction::Release { key, kind } => (Action::Release, key, 0, Some(kind)),
            ReservationAction::Clear { key } => (Action::Clear, key, 0, None),
            ReservationAction::Preempt { key, victim, kind } => {
                (Action::Preempt, key, victim, Some(kind))
            }
            ReservationAction::Move {
                key,
                to: Registrant { ref host, port },
                new,
                leaves: and,
            } => {
                (to, leaves) = (Some((host.clone(), port)), and);
                (Action::Move, key, new, None)
            }
            ReservationAction::Hold => (Action::Hold, 0, 0, None),
            ReservationAction::Unhold => (Action::Unhold, 0, 0, None),
            ReservationAction::EndHold { made_by } => (Action::EndHold, made_by, 0, None),
            ReservationAction::Reset => (Action::Reset, 0, 0, None),
            ReservationAction::ClearByOperator => return None,
        };
        let Registrant { host, port } = change.who.clone();
        let kind = kind.map_or(String::new(), |kind| kind.name().to_string());
        let (volume, stamp) = (change.volume.0, change.stamp);
        Some(Reserving { volume, host, port, action, key, other_key, kind, to, leaves, stamp })
    }

    /// The change.
    pub(crate) fn change(&self) -> Result<ReservationChange> {
        let kind = || {
            let known = ReservationKind::ALL.into_iter().find(|kind| kind.name() == self.kind);
            known.ok_or_else(|| Error(format!("'{}' is not a kind of reservation", self.kind)))
        };
        let key = self.key;
        let action = match self.action {
            Action::Register => {
                ReservationAction::Register { key, new: self.other_key, ignores: false }
            }
            Action::RegisterAndIgnore => {
                ReservationAction::Register { key, new: self.other_key, ignores: true }
            }
            Action::Reserve => ReservationAction::Reserve { key, kind: kind()? },
            Action::Release => ReservationAction::Release { key, kind: kind()? },
            Action::Clear => ReservationAction::Clear { key },
            Action::Preempt => {
                ReservationAction::Preempt { key, victim: self.other_key, kind: kind()? }
            }
            Action::Hold => ReservationAction::Hold,
            Action::Unhold => ReservationAction::Unhold,
            Action::EndHold => ReservationAction::EndHold { made_by: key },
            Action::Reset => ReservationAction::Reset,
            Action::Move => {
                let to = || Error("a reservation is moved to no registrant".to_string());
                let (host, port) = self.to.clone().ok_or_else(to)?;
                let (to, leaves) = (Registrant { host, port }, self.leaves);
                ReservationAction::Move { key, to, new: self.other_key, leaves }
            }
        };
        let who = Registrant { host: self.host.clone(), port: self.port };
        Ok(ReservationChange { volume: VolumeId(self.volume), who, action, stamp: self.stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> Registrant {
        Registrant { host: host.into(), port: 3 }
    }

    #[test]
    fn changes_come_back_as_they_went() {
        let kind = ReservationKind::ExclusiveAccessRegistrants;
        let key = u64::MAX - 1;
        for action in [
            ReservationAction::Register { key, new: 3, ignores: false },
            ReservationAction::Register { key, new: 0, ignores: true },
            ReservationAction::Reserve { key, kind },
            ReservationAction::Release { key, kind },
            ReservationAction::Clear { key },
            ReservationAction::Reset,
            ReservationAction::Hold,
            ReservationAction::Unhold,
            ReservationAction::EndHold { made_by: key },
            ReservationAction::Preempt { key, victim: u64::MAX, kind },
            ReservationAction::Move { key, to: name("iqn.b,i,0x2"), new: 7, leaves: true },
            ReservationAction::Move { key, to: name("iqn.b,i,0x2"), new: 7, leaves: false },
        ] {
            let who = name("iqn.a,i,0x1");
            let change = ReservationChange { volume: VolumeId(5), who, action, stamp: 1 << 63 };
            let words = serde_json::to_string(&Reserving::of(&change).unwrap()).unwrap();
            let back: Reserving = serde_json::from_str(&words).unwrap();
            assert_eq!(back.change().unwrap(), change);
        }
        let no_kind =
            r#"{"volume":1,"host":"a","port":1,"action":"reserve","kind":"no","stamp":1}"#;
        let no_kind: Reserving = serde_json::from_str(no_kind).unwrap();
        assert!(no_kind.change().unwrap_err().0.contains("'no' is not a kind"));
        let nobody = r#"{"volume":1,"host":"a","port":1,"action":"move","stamp":1}"#;
        let nobody: Reserving = serde_json::from_str(nobody).unwrap();
        assert!(nobody.change().unwrap_err().0.contains("to no registrant"));
    }
}
