// Which module of a crate may use which: one way only. A module uses itself and what stands before it in the crate's
// order. Each crate that keeps to one has a test that includes this file and calls `one_way`.

use std::fs;
use std::path::{Path, PathBuf};

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

/// The modules that a piece of code names after `crate::`, also within braces.
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
    all
}

/// Fails if a module of this crate uses one that does not stand before it in `order`. `least` imports there are at
/// least: fewer would mean that they are written in a way that is not seen here.
fn one_way(order: &[&str], least: usize) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let place = |module: &str| order.iter().position(|m| *m == module);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in files {
        let name = path.strip_prefix(&src).expect("in the crate").display().to_string();
        let module = name.split(['/', '.']).next().expect("a name").to_string();
        let Some(own) = place(&module) else {
            assert!(matches!(&*module, "lib" | "main"), "{name} is in no module that is known");
            continue;
        };
        if name.contains("test") || name.contains("reference") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let bare = |line: &str| line.split("//").next().unwrap_or_default().to_string();
        let code = code.lines().map(bare).collect::<Vec<_>>().join("\n");
        for (used, at) in named(&code).into_iter().filter_map(|used| Some((place(&used)?, used))) {
            seen += 1;
            if used > own {
                wrong.push(format!("{name}: {module} uses {at}"));
            }
        }
    }
    assert!(seen >= least, "only {seen} imports were found");
    assert!(wrong.is_empty(), "imports go one way ({}):\n{}", order.join(" < "), wrong.join("\n"));
}

#[test]
fn imports_are_found_within_braces_and_on_lines_of_their_own() {
    let code = "use crate::one::A;\nuse crate::{\n    two::{B, C},\n    three,\n};\nlet x = crate::four::d();";
    let modules = ["one", "two", "three", "four"];
    let found: Vec<_> = named(code).into_iter().filter(|w| modules.contains(&&**w)).collect();
    assert_eq!(found, modules);
}
