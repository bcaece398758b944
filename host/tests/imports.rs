//! Which module of this crate may use which: one way only. A module uses itself and what stands before it here.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules, in such an order that each may use those before it and none behind it.
const ORDER: [&str; 23] = [
    "error",
    "length_of_time",
    "size",
    "log",
    "clock",
    "durable",
    "socket",
    "limits",
    "disk",
    "spec",
    "policy",
    "status",
    "volumes",
    "state",
    "sessions",
    "control_protocol",
    "control_client",
    "cluster",
    "engine",
    "hosts",
    "control",
    "reactor",
    "array",
];

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

/// The top modules that a piece of code names after `crate::`, also within braces.
fn named(code: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        let text = text.trim_start();
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut all = Vec::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(list) => {
                let list = list.split(';').next().unwrap_or_default();
                all.extend(list.split(['{', ',', '}']).map(word));
            }
            None => all.push(word(after)),
        }
    }
    all.retain(|w| ORDER.contains(&w.as_str()));
    all
}

#[test]
fn modules_use_one_another_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 60, "the sources are not where they were");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in files {
        let name = path.strip_prefix(&src).expect("in the crate").display().to_string();
        let module = name.split(['/', '.']).next().expect("a name").to_string();
        let Some(own) = ORDER.iter().position(|m| *m == module) else {
            assert_eq!(module, "lib", "{name} is in no module that this test knows");
            continue;
        };
        if name.contains("test") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let bare = |line: &str| line.split("//").next().unwrap_or_default().to_string();
        let code = code.lines().map(bare).collect::<Vec<_>>().join("\n");
        for used in named(&code) {
            seen += 1;
            if ORDER.iter().position(|m| *m == used) > Some(own) {
                wrong.push(format!("{name}: {module} uses {used}"));
            }
        }
    }
    assert!(seen > 200, "no imports were found");
    assert!(wrong.is_empty(), "imports go one way ({}):\n{}", ORDER.join(" < "), wrong.join("\n"));
}
