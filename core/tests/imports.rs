//! Which module of the core may use which: one way only.

include!("../../tests/rust/imports.rs");

/// The modules, in such an order that each may use those before it and none behind it.
const ORDER: [&str; 10] = [
    "units", "exposure", "policy", "buffer", "layout", "order", "plan", "store", "cluster", "node",
];

#[test]
fn modules_use_one_another_one_way() {
    one_way(&ORDER, 200);
}
