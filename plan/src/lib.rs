//! How reliable an array will be, and what it costs: the planner of `weft plan`.
//!
//! - [`spec`]: what a plan's file says, and between what its numbers must be
//! - [`array`](mod@array): a design as an array, and how long its repairs take
//! - [`repair`]: how long a repair takes, alone and beside others
//! - [`losses`]: what a layout bears; [`markov`] and [`chain`](mod@chain): what comes of it, exactly
//! - [`trial`]: the same by missions that are played through
//! - [`equations`]: what AFRAID says beside its equations
//! - [`requests`]: what requests cost, by the plans that nodes carry out
//! - [`outcome`]: what becomes of each design, ranked; [`page`]: the same as tables and figures
//!
//! The crate is pure: the same file gives the same numbers on every machine.

#![forbid(unsafe_code)]

pub mod array;
pub mod chain;
pub mod equations;
pub mod lifetime;
pub mod losses;
pub mod markov;
pub mod outcome;
pub mod page;
pub mod repair;
pub mod requests;
pub mod spec;
pub mod trial;
pub mod unit;

/// A plan's file that has every key, with what it means and where its value comes from.
pub const EXAMPLE: &str = include_str!("example.toml");
