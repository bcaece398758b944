//! Who is there: the cluster map, and the authority that changes it.

mod authority;
mod map;

pub use authority::{Authority, AuthorityInput, AuthorityOutput};
pub use map::{Attendance, ClusterMap, Extent, NodeInfo, PlacementError, Volume, place_volume};
