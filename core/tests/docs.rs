//! What the documents say of the code is so: the functions in the life of a write are where the architecture says,
//! the table of messages
//! has every message, and the guide's table of choices every choice.

use std::fs;
use std::path::{Path, PathBuf};

use weft_core::policy::{CHOICES, Policy};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The text without where its links lead.
fn without_links(text: &str) -> String {
    let parts = text.split("](").enumerate();
    let kept =
        parts.map(|(n, part)| if n == 0 { part } else { part.split_once(')').map_or("", |p| p.1) });
    kept.collect::<String>().replace('[', "")
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_life_of_a_write_is_where_the_architecture_says() {
    let text = read("docs/internals/architecture.md");
    let life = text.split("## The life of a write").nth(1).expect("the chapter");
    let life = life.split("\n## ").next().expect("the chapter");
    let mut found = 0;
    for row in life.lines().filter(|l| l.starts_with("| ")) {
        let Some(place) = row.trim_end_matches('|').rsplit(" | ").next() else { continue };
        let mut source = String::new();
        for word in quoted(place) {
            if word.ends_with(".rs") {
                source = read(word);
                continue;
            }
            let function = format!("fn {word}(");
            assert!(source.contains(&function), "{place}: no function {word} there");
            found += 1;
        }
    }
    assert!(found > 10, "the table is not where it was: {found} functions");
}

#[test]
fn the_table_of_messages_has_every_message() {
    let source = read("core/src/node/message.rs");
    let body = source.split("pub enum Body {").nth(1).expect("the messages");
    let body = body.split("\n}\n").next().expect("its end");
    // A variant stands four spaces deep and begins with a capital.
    let variants: Vec<String> = body
        .lines()
        .filter_map(|l| l.strip_prefix("    "))
        .filter(|l| l.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|l| l.chars().take_while(|c| c.is_alphanumeric()).collect())
        .collect();
    assert!(variants.len() > 12, "{variants:?}");
    let table = read("docs/internals/messages.md");
    let table = table.split("## Bodies").nth(1).expect("the chapter");
    let table = table.split("\n## ").next().expect("the chapter");
    let rows: Vec<&str> = table.lines().filter_map(|l| l.strip_prefix("| `")).collect();
    let names: Vec<&str> = rows.iter().filter_map(|r| r.split('`').next()).collect();
    for variant in &variants {
        assert!(
            names.contains(&variant.as_str()),
            "docs/internals/messages.md does not have {variant}"
        );
    }
    for name in names {
        assert!(variants.iter().any(|v| v == name), "there is no message {name}");
    }
}

#[test]
fn the_guide_has_every_choice_with_its_values() {
    let guide = read("docs/use/user-guide.md");
    let table = guide.split("| key | values | meaning |").nth(1).expect("the table");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .take_while(|l| l.starts_with("| "))
        .map(|l| l.trim_matches('|').split(" | ").collect())
        .collect();
    let keys: Vec<&str> = rows.iter().flat_map(|r| quoted(r[0])).collect();
    assert_eq!(keys, CHOICES.iter().map(|c| c.key).collect::<Vec<_>>());
    for (choice, row) in CHOICES.iter().zip(rows) {
        assert_eq!(quoted(row[1]), choice.words().collect::<Vec<_>>(), "{}", choice.key);
        let usual = format!("`{}` (default)", choice.word_of(&Policy::default()));
        assert!(row[1].contains(&usual), "{}: {usual}", choice.key);
        let says = without_links(row[2]).replace('`', "");
        let begins = choice.help.split([',', ':']).next().expect("help");
        assert!(says.starts_with(begins), "{}: '{says}' is not '{}'", choice.key, choice.help);
    }
}
