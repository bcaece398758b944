//! What the node service does. Nothing is remembered here: devices and mounts are looked up on the machine, so
//! whoever is stopped at any step is asked again and goes on.

pub mod devices;
pub mod linux;
pub mod machine;
pub mod nbd;
pub mod netlink;
pub mod programs;
pub mod publishing;
pub mod staging;
pub mod usage;
