//! Scenarios: arrays and workloads as text, run on models or on real nodes, and measured.
//!
//! - [`scenario`], [`document`], [`keys`]: what is run, and errors that say where it is wrong
//! - [`catalogue`]: the scenarios that come with Weft; [`describe`]: what every key means
//! - [`traces`]: what is replayed
//! - [`world`]: simulated on all cores ([`run`]), or on real nodes ([`real`])
//! - [`study`]: the points of a scenario, run in a world; [`store`]: what is kept while they are
//! - [`result`], [`outputs`]: what came out, and how it is written; [`compare`]: both worlds side by side;
//!   `differences`: designs compared run by run; `grid`: tables that a terminal has room for

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod compare;
pub mod describe;
mod differences;
pub mod document;
mod grid;
pub mod keys;
pub mod outputs;
mod overload;
pub mod real;
pub mod result;
pub mod run;
pub mod scenario;
pub mod store;
pub mod study;
pub mod traces;
mod value;
pub mod world;

#[cfg(test)]
mod tests;
