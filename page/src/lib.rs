//! The page that a process serves for its operators: how the array is, and what users with the right to it can do.
//!
//! A page is made of a [`Status`](weft_host::status::Status) for each who looks, as `weft status` shows it. It is HTML from
//! templates that are checked when this crate is built (`maud`); it has no script, and nothing in it comes from elsewhere.
//!
//! | module | content |
//! |---|---|
//! | `door` | connections and their threads ([`Page`]) |
//! | `http` | requests and answers |
//! | `tls` | the operator's certificate |
//! | `site` | which page a request gets |
//! | `views` | the pages |
//! | `users`, `sessions`, `attempts` | who may log in ([`Users`]), who did, and who guesses |
//! | `ask` | questions to the array |
//! | `actions` | what can be done |
//! | `events`, `samples` | what happened lately |

#![forbid(unsafe_code)]

mod actions;
mod ask;
mod attempts;
mod door;
mod events;
mod http;
mod samples;
mod sessions;
mod site;
mod tls;
mod users;
mod views;

pub use door::Page;
pub use users::{Role, User, Users};
