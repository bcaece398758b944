//! Models of the hardware under a Weft array, for its simulator.
//!
//! Everything here is sans-I/O and deterministic: time is an argument in whole nanoseconds,
//! chance is a generator that is handed in, and a model says when it next wants to be looked
//! at. Whoever drives a model keeps the clock.
//!
//! - [`spec`]: a device's numbers, read from a commented parameter file, and what each of them
//!   means;
//! - [`disk`]: the devices themselves;
//! - [`schedule`]: in which order a disk's queue is served.
//!
//! The models and how far each was found from the truth are described in
//! `docs/lab/simulator-disks.md`.

pub mod disk;
pub mod schedule;
pub mod spec;
