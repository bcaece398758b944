//! Which module of the core may use which: one way only. A module uses itself and what stands before it here.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules, in such an order that each may use those before it and none behind it.
const ORDER: [&str; 9] =
    ["units", "policy", "buffer", "layout", "order", "plan", "store", "cluster", "node"];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, out),
            false if path.extension().is_some_and(|e| e == "rs") => out.push(path),
            false => {}
        }
    }
}

/// The top modules that a line of code names after `crate::`.
fn named(code: &str) -> Vec<String> {
    let after = code.split("crate::").skip(1);
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    after.map(word).filter(|w| ORDER.contains(&w.as_str())).collect()
}

#[test]
fn modules_use_one_another_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 80, "the sources are not where they were");
    let mut wrong = Vec::new();
    for path in files {
        let name = path.strip_prefix(&src).expect("in the crate").display().to_string();
        let module = name.split(['/', '.']).next().expect("a name").to_string();
        let Some(own) = ORDER.iter().position(|m| *m == module) else {
            assert_eq!(module, "lib", "{name} is in no module that this test knows");
            continue;
        };
        if name.contains("test") || name.contains("reference") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (n, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            for used in named(line) {
                if ORDER.iter().position(|m| *m == used) > Some(own) {
                    wrong.push(format!("{name}:{}: {module} uses {used}", n + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports go one way ({}):\n{}", ORDER.join(" < "), wrong.join("\n"));
}
