//! The simulated world: the same nodes that run on real disks, turned by an event queue.
//!
//! - [`engine`]: the queue; integer time, one seed
//! - [`disk`]: disks that lose, tear and reorder what was not flushed, fail to read, and rot
//! - [`world`]: nodes, disks, a network that delays, drops, repeats and reorders, crashes
//! - [`perf`]: the simulator of performance, with models of hardware and no faults
//! - [`paper`]: the papers' evaluations
//! - [`check`]: random clusters, workloads and faults, and the checker of what hosts saw
//! - [`explore`]: one or two writes on two or three nodes, in every order in which things can happen
//!
//! The same seed gives the same run, on every machine.

#![forbid(unsafe_code)]

#[cfg(test)]
mod asleep_tests;
pub mod check;
mod checked;
#[cfg(test)]
mod controlled_tests;
#[cfg(test)]
mod copied_tests;
#[cfg(test)]
mod cut_rebuild_tests;
mod damage;
pub mod disk;
pub mod engine;
pub mod explore;
#[cfg(test)]
mod full_tests;
#[cfg(test)]
mod lost_tests;
#[cfg(test)]
mod modified_tests;
#[cfg(test)]
mod old_disk_tests;
#[cfg(test)]
mod ordered_writes_tests;
#[cfg(test)]
mod ordering_tests;
mod panics;
pub mod paper;
pub mod perf;
#[cfg(test)]
mod put_back_tests;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod refresh_tests;
#[cfg(test)]
mod removed_volumes_tests;
#[cfg(test)]
mod reserved_tests;
#[cfg(test)]
mod rewriting_tests;
#[cfg(test)]
mod small_worlds;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod store_crash_tests;
#[cfg(test)]
mod store_damage_tests;
#[cfg(test)]
mod store_mixed_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod store_unlogged_tests;
#[cfg(test)]
mod thin_tests;
#[cfg(test)]
mod two_volumes_tests;
pub mod world;
