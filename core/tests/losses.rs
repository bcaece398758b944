//! Whether losses are recoverable follows from the code's equations: no other code counts parities.
//! Who wants to know asks [`weft_core::layout::Geometry`] or the map whether a set of columns is recoverable.

use std::fs;
use std::path::{Path, PathBuf};

/// Who may speak of the number of parities: layouts, the code, plans (which go through them), the encoding, and
/// what shows them.
const MAY: [&str; 15] = [
    "code/",
    "core/src/layout/",
    "core/src/plan/",
    "net/src/wire/",
    "cli/src/explain/",
    // Which parities wait, and how many may.
    "core/src/node/account/",
    "core/src/node/originator/deferring.rs",
    "core/src/node/worker/bounds.rs",
    "core/src/cluster/authority/policy.rs",
    "core/src/node/settle/waiting.rs",
    "sim/src/explore/ledger.rs",
    // A deliberate bug.
    "core/src/cluster/authority/fault.rs",
    "sim/src/check/run/",
    // The scrub goes through all equations.
    "core/src/node/originator/writing.rs",
    // It looks at sums alone, and asserts that there is one parity.
    "sim/src/explore/judge.rs",
];

/// What gives the number: of a code, and of the layouts that are named by it.
const COUNTS: [&str; 2] = ["parity_columns()", "Rotating"];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, out),
            false if path.extension().is_some_and(|e| e == "rs") => out.push(path),
            false => {}
        }
    }
}

#[test]
fn nobody_compares_losses_with_parities() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut files = Vec::new();
    for part in ["code", "core", "member", "net", "front", "host", "sim", "plan", "cli"] {
        sources(&root.join(part).join("src"), &mut files);
    }
    assert!(files.len() > 200, "the sources are not where they were");
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(root).expect("in the workspace").display().to_string();
        if MAY.iter().any(|may| name.starts_with(may)) || name.contains("tests") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        for (n, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if COUNTS.iter().any(|c| code.contains(c)) {
                found.push(format!("{name}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "ask whether a set is recoverable instead:\n{}", found.join("\n"));
}
