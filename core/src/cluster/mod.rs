//! Who is there: the cluster map, and the authority that changes it.

mod authority;
mod balance;
mod crowding;
mod map;
mod message;
mod moves;
mod placement;
mod settings;
mod torus;
pub mod what_if;

pub use authority::{
    Absence, Arrival, Authority, AuthorityBug, AuthorityInput, AuthorityOutput, Change, Hindrance,
    NewNodes, PolicyChange, Prospect, VolumeSize,
};
pub use balance::{Fullness, Move, Plan, plan as plan_balance};
pub use crowding::deleted_in_the_way;
pub use map::{
    APART, APART_BY_NODE, Access, Area, Attendance, Certificate, ClusterMap, Deletion,
    DueSnapshots, Extent, Hold, Home, HostChange, HostList, Identity, Import, KnownHost,
    LONGEST_REGISTRANT, LONGEST_SEALED, Lineage, MOST_CERTIFICATES, MOST_HOSTS, MOST_RANGES,
    MOST_REGISTRANTS, MOST_REMOVED, MOST_SEALED, MOST_SNAPSHOTS, MOST_VIEWS, NoSource, NodeInfo,
    NodeKind, PolicyRange, Registrant, Removal, Reservation, ReservationAction, ReservationChange,
    ReservationKind, ReservationOutcome, Reservations, Scheduled, SealedSecret, Snapshot, Source,
    Stripes, TimeAway, ViewError, Volume, is_host_name,
};
pub use message::{MapMessage, MemberReport, Memory, Undescribed};
pub use moves::can_drain;
pub use placement::{
    EXTENT_COLUMN_BYTES, ONE_EXTENT, Place, PlacementError, column_bytes, place_stripes,
    place_thin, place_volume, thin_start,
};
pub use settings::{ClusterSetting, SettingError, Settings};
pub use torus::TorusError;
