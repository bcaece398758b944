//! Which module of this crate may use which: one way only.

include!("../../tests/rust/imports.rs");

/// The modules, in such an order that each may use those before it and none behind it.
const ORDER: [&str; 34] = [
    "error",
    "hex",
    "length_of_time",
    "size",
    "log",
    "clock",
    "durable",
    "socket",
    "holder",
    "doors",
    "unauthenticated",
    "limits",
    "polling",
    "lanes",
    "disk",
    "disk_timeout",
    "slow_disk_timeout",
    "spec",
    "policy",
    "throttle",
    "status",
    "volumes",
    "state",
    "sessions",
    "reserving",
    "control_protocol",
    "control_client",
    "metrics",
    "cluster",
    "engine",
    "hosts",
    "control",
    "reactor",
    "array",
];

#[test]
fn modules_use_one_another_one_way() {
    one_way(&ORDER, 200);
}
