//! Who is there: the cluster map, and the authority that changes it.

mod authority;
mod map;
mod moves;

pub use authority::{Arrival, Authority, AuthorityInput, AuthorityOutput};
pub use map::{
    Attendance, ClusterMap, EXTENT_COLUMN_BYTES, Extent, NodeInfo, PlacementError, Volume,
    place_volume,
};
