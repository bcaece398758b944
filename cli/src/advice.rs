//! Messages name commands. Each of them must be one that the command understands: whoever follows a message in the middle
//! of the night is not to be told of an option that there is not.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use crate::Cli;

/// What stands in the place of a number, a name, a path or a size.
const SAMPLES: [&str; 4] = ["1", "v", "1G", "key=value"];

/// The sources of all that speaks to people, and what they read.
fn files() -> Vec<PathBuf> {
    fn below(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => below(&path, out),
                false if path.extension().is_some_and(|e| e == "rs") => out.push(path),
                false => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    let speaking = [
        "cli", "client", "core", "csi", "front", "host", "load", "member", "model", "net", "page",
        "plan", "report", "scenario", "sim", "terminal", "trial",
    ];
    for of in speaking {
        below(&root.join(of).join("src"), &mut all);
    }
    all.sort();
    all
}

/// A source as its strings read: without comments, and with the lines of a string joined.
fn text(source: &str) -> String {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut text = String::new();
    for line in code {
        let line = line.trim_start();
        match line.strip_suffix('\\') {
            Some(begun) => text.push_str(begun),
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// The commands that a text names, each in backticks or quotes.
fn named(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for quote in ['`', '\''] {
        let begin = format!("{quote}weft ");
        for piece in text.split(&begin).skip(1) {
            if let Some((command, _)) = piece.split_once(quote)
                && !command.contains('\n')
            {
                all.push(format!("weft {command}"));
            }
        }
    }
    all
}

/// Ways to fill in what is left open in a command: `{n}`, `NAME`, `FILE...`.
fn filled(command: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for word in command.split_whitespace() {
        let open = word.contains('{') || word.chars().all(|c| c.is_ascii_uppercase() || c == '.');
        let words = if open { &SAMPLES[..] } else { &[word][..] };
        let each = |before: &Vec<String>| {
            let with = |w: &&str| before.iter().cloned().chain([w.to_string()]).collect();
            words.iter().map(with).collect::<Vec<Vec<String>>>()
        };
        all = all.iter().flat_map(each).collect();
    }
    all
}

/// Whether the command understands it, or only misses what a message need not repeat.
fn is_understood(words: &[String]) -> bool {
    use ErrorKind::*;
    let incomplete = [
        MissingRequiredArgument,
        MissingSubcommand,
        DisplayHelp,
        DisplayVersion,
        DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    Cli::try_parse_from(words).map_or_else(|e| incomplete.contains(&e.kind()), |_| true)
}

#[test]
fn every_command_that_a_message_names_is_one() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for path in files() {
        if path.ends_with("advice.rs") {
            continue;
        }
        for command in named(&text(&fs::read_to_string(&path).unwrap())) {
            seen += 1;
            if !filled(&command).iter().any(|words| is_understood(words)) {
                wrong.push(format!("{}: {command}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these are no commands:\n{}", wrong.join("\n"));
    assert!(seen > 60, "only {seen} commands were found");
}

#[test]
fn a_command_that_is_none_is_found() {
    let source = "// `weft nonsense`\nfail(\"do `weft disk \\\n    replac {n}`, or 'weft node stop {n} --later'\")";
    let commands = named(&text(source));
    assert_eq!(commands, ["weft disk replac {n}", "weft node stop {n} --later"]);
    for command in commands {
        assert!(!filled(&command).iter().any(|words| is_understood(words)), "{command}");
    }
    assert!(filled("weft node stop {n}").iter().any(|words| is_understood(words)));
    assert!(filled("weft node stop").iter().any(|words| is_understood(words)));
}
