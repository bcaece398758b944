//! What the controller service does, a module for each subject. Everything is asked of the cluster, and nothing is
//! remembered here but [identifiers of rights](crate::grants): so whoever is stopped at any step is asked again and goes on.

pub mod capacity;
pub mod copies;
pub mod groups;
pub mod health;
pub mod metadata;
pub mod pages;
pub mod publishing;
pub mod snapshots;
pub mod volumes;
