//! The services of the interface. Each call is handed to what does it, on a thread that may block.

pub mod controller;
pub mod groups;
pub mod identity;
pub mod metadata;
pub mod node;
