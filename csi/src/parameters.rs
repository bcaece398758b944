//! Parameters of storage classes: the table of a volume's choices.

use std::collections::{BTreeMap, HashMap};

use tonic::Status;
use weft_core::layout::LayoutSpec;
use weft_core::policy::settings;
use weft_host::{ControlRequest, VolumeCreation, parse_size};

/// Keys with this prefix are the orchestrator's own.
const FOREIGN: &str = "csi.storage.k8s.io/";

/// The keys that are not in the table of choices.
const OWN: [&str; 4] = ["layout", "stripe-unit", "apart", "thin"];

/// Layout of a new volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Its layout; Weft's default if open.
    pub layout: Option<LayoutSpec>,
    /// Its stripe unit, in bytes.
    pub stripe_unit: Option<u64>,
    /// The label of failure domains that its columns are kept apart by.
    pub apart: Option<String>,
    /// Whether it reserves no space.
    pub thin: bool,
    /// What else it chooses, by key.
    pub set: BTreeMap<String, String>,
}

impl Parameters {
    /// Reads the parameters of a class, and those of a class of attributes, which go before.
    ///
    /// # Errors
    /// `InvalidArgument`, for unknown keys and values.
    pub fn read(
        class: &HashMap<String, String>,
        attributes: &HashMap<String, String>,
    ) -> Result<Parameters, Status> {
        let mut out = Parameters { set: own(class), ..Parameters::default() };
        let mut take = |key: &str| out.set.remove(key);
        let [layout, stripe_unit, apart, thin] = OWN.map(&mut take);
        out.layout = layout.map(|word| word.parse().map_err(invalid)).transpose()?;
        out.stripe_unit = stripe_unit.map(|word| parse_size(&word).map_err(invalid)).transpose()?;
        out.apart = apart;
        out.thin = match thin.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(word) => return Err(invalid(format!("thin is true or false, not '{word}'"))),
        };
        out.set.extend(changes(attributes)?);
        settings(&out.set, |_| true).map_err(|e| invalid(known(&e.to_string())))?;
        Ok(out)
    }

    /// The request for a volume like this.
    pub fn request(&self, name: &str, size: u64) -> ControlRequest {
        ControlRequest::VolumeCreate(VolumeCreation {
            name: name.to_string(),
            size,
            thin: self.thin,
            layout: self.layout.map(|layout| layout.to_string()),
            stripe_unit: self.stripe_unit,
            apart: self.apart.clone(),
            set: self.set.clone(),
            // Nobody uses it before it is published.
            hosts: Some(Vec::new()),
            import: None,
        })
    }
}

/// The changes of a volume in use.
///
/// # Errors
/// `InvalidArgument`, for unknown keys and values, and for what cannot be changed.
pub fn changes(attributes: &HashMap<String, String>) -> Result<BTreeMap<String, String>, Status> {
    let set = own(attributes);
    settings(&set, |choice| choice.in_use).map_err(invalid)?;
    Ok(set)
}

/// Refuses parameters where there are none.
///
/// # Errors
/// `InvalidArgument`, if there are any.
pub fn none(class: &HashMap<String, String>) -> Result<(), Status> {
    match own(class).keys().next() {
        Some(key) => Err(invalid(format!("snapshots have no parameter '{key}'; remove it"))),
        None => Ok(()),
    }
}

/// Those that are not the orchestrator's.
fn own(class: &HashMap<String, String>) -> BTreeMap<String, String> {
    let ours = class.iter().filter(|(key, _)| !key.starts_with(FOREIGN));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// With the keys named that the table of choices does not have.
fn known(error: &str) -> String {
    format!("{error}; a storage class may also have {}", OWN.join(", "))
}

fn invalid(why: impl ToString) -> Status {
    Status::invalid_argument(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn classes_are_read_by_the_table_of_choices() {
        let class = map(&[
            ("layout", "rs:4+2"),
            ("stripe-unit", "64K"),
            ("apart", "rack"),
            ("thin", "true"),
            ("commit", "early"),
            ("csi.storage.k8s.io/pvc/name", "db"),
        ]);
        let read = Parameters::read(&class, &map(&[("iops", "500")])).unwrap();
        assert_eq!(read.layout.map(|layout| layout.to_string()).as_deref(), Some("rs:4+2"));
        assert_eq!((read.stripe_unit, read.thin), (Some(65536), true));
        assert_eq!(read.apart.as_deref(), Some("rack"));
        let set = [("commit", "early"), ("iops", "500")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(read.set, set.into());
    }

    #[test]
    fn what_is_unknown_is_refused_with_what_is_known() {
        for (key, value, said) in [
            ("lay-out", "raid5", "layout"),
            ("commit", "maybe", "commit"),
            ("layout", "raid7", "raid6"),
            ("stripe-unit", "many", "many"),
            ("thin", "yes", "true or false"),
        ] {
            let refused = Parameters::read(&map(&[(key, value)]), &map(&[])).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            assert!(refused.message().contains(said), "{refused}");
        }
    }

    #[test]
    fn attributes_can_only_be_what_changes_in_use() {
        assert!(changes(&map(&[("iops", "500")])).is_ok());
        for key in ["layout", "journal", "nonsense"] {
            let refused = changes(&map(&[(key, "off")])).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{key}");
        }
        assert!(none(&map(&[("csi.storage.k8s.io/volumesnapshot/name", "a")])).is_ok());
        assert!(none(&map(&[("a", "b")])).is_err());
    }
}
