//! Which module of the command may use which: one way only.

include!("../../tests/rust/imports.rs");

/// The modules, in such an order that each may use those before it and none behind it.
const ORDER: [&str; 44] = [
    "args",
    "output",
    "token",
    "logging",
    "confirm",
    "notify",
    "config",
    "choices",
    "doors",
    "explore",
    "real",
    "check",
    "paper",
    "plan",
    "recover",
    "sim",
    "bench",
    "leaving",
    "disk",
    "boxes",
    "probe",
    "rebalance",
    "replace",
    "transfer",
    "scrub",
    "trace",
    "what_if",
    "cluster",
    "demo",
    "lost",
    "volume",
    "explain",
    "status",
    "host",
    "complete",
    "page",
    "user",
    "serving",
    "shell",
    "attach",
    "node",
    "processes",
    "up",
    "advice",
];

#[test]
fn modules_use_one_another_one_way() {
    one_way(&ORDER, 43);
}
