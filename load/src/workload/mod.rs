//! What hosts ask: the description of a workload, and the generator that draws from it.
//!
//! A [`Workload`] says three things that do not depend on one another: when hosts ask
//! ([`Arrivals`]), what they ask ([`Requests`]), and where ([`Addresses`]). It is read from a
//! scenario by serde; a key that is not known is refused, and [`Workload::check`] names a key
//! whose value is out of range. A [`Generator`] is made of a workload for a volume. A [`Trace`] may
//! stand in the place of drawn requests.

mod addresses;
mod generator;
mod imitation;
mod parameters;
mod spec;
mod trace;

pub use addresses::Addresses;
pub use generator::Generator;
pub use imitation::Imitation;
pub use parameters::{PARAMETERS, Parameter};
pub use spec::{Arrivals, Class, Problem, Requests, Spacing, Think, Workload};
pub use trace::{Asks, Trace};
