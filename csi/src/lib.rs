//! The CSI driver of Weft: volumes for Kubernetes, and for whatever else speaks the Container Storage Interface.
//!
//! | module | content |
//! |---|---|
//! | `service` | the services of the interface: each call is handed on |
//! | `controller` | volumes, snapshots, clones and rights, by the cluster's control socket |
//! | `node` | a machine that uses volumes: devices, file systems and mounts |
//! | `cluster` | the control socket |
//! | `grants` | rights to a volume, told apart |
//! | `names`, `parameters`, `capability` | requests in Weft's words |
//! | `server` | the driver's own socket |

#![forbid(unsafe_code)]

pub mod busy;
pub mod capability;
pub mod cluster;
pub mod controller;
pub mod grants;
pub mod names;
pub mod node;
pub mod parameters;
pub mod proto;
pub mod server;
pub mod service;
