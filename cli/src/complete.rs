//! `weft complete`: what only a running array, or the table of choices, knows of a command line that is being typed. The
//! shells' scripts of `weft completions` ask for it; commands, options and their words are in those scripts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgAction, Args, Command, CommandFactory};
use weft_core::policy::{CHOICES, Choice};
use weft_host::Control;
use weft_host::status::Status;
use weft_terminal::say;

use crate::args::usual_dir;

/// The command line so far.
#[derive(Debug, Args)]
pub struct Complete {
    /// Words after the command's name; the last one, possibly empty, is completed
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

impl Complete {
    /// Prints what the last word may be, a line each. That nobody can be asked is no error.
    pub fn run<C: CommandFactory>(&self) -> Result<ExitCode> {
        let dir = value_of("--dir", &self.words);
        let dir = usual_dir(dir.map(Path::new));
        let status = || Control::connect(&dir).and_then(|mut control| control.status()).ok();
        for word in completed(&C::command(), &self.words, status) {
            say(word)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What follows an option in a line, or stands behind its '='.
fn value_of<'a>(option: &str, words: &'a [String]) -> Option<&'a str> {
    let at = words.iter().position(|word| word.split('=').next() == Some(option))?;
    let behind = words[at].split_once('=').map(|(_, value)| value);
    behind.or_else(|| words.get(at + 1).map(String::as_str))
}

/// What the last of the words may be.
fn completed(
    command: &Command,
    words: &[String],
    status: impl FnOnce() -> Option<Status>,
) -> Vec<String> {
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    let all: Vec<String> = match wanted(command, last, before) {
        None => Vec::new(),
        Some(Wanted::Volume) => {
            status().map_or(Vec::new(), |s| s.volumes.into_iter().map(|v| v.name).collect())
        }
        Some(Wanted::Node) => status().map_or(Vec::new(), |s| numbers(&s)),
        Some(Wanted::NodeOrProcess) => status().map_or(Vec::new(), |s| {
            let names: BTreeSet<String> = s.nodes.iter().filter_map(|n| n.name.clone()).collect();
            numbers(&s).into_iter().chain(names).collect()
        }),
        Some(Wanted::Setting) => settings(last, |c| c.in_use),
        Some(Wanted::Choice) => settings(last, |_| true),
        Some(Wanted::Key) => CHOICES.iter().map(|c| c.key.to_string()).collect(),
    };
    all.into_iter().filter(|word| word.starts_with(last.as_str())).collect()
}

/// The numbers of all nodes.
fn numbers(status: &Status) -> Vec<String> {
    status.nodes.iter().map(|n| n.node.to_string()).collect()
}

/// What an argument is of which a table or an array knows the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Volume,
    Node,
    NodeOrProcess,
    /// `KEY=VALUE` of a choice that can change in use.
    Setting,
    /// The same of any choice.
    Choice,
    /// The key of a choice.
    Key,
}

/// What the last word is to be, given those before it.
fn wanted(command: &Command, last: &str, before: &[String]) -> Option<Wanted> {
    if last.starts_with('-') {
        return None;
    }
    let (mut at, mut path, mut place) = (command, Vec::new(), 0);
    let mut words = before.iter();
    while let Some(word) = words.next() {
        if let Some(option) = word.strip_prefix('-') {
            // Its value is the next word, perhaps the last one.
            if takes_value(at, option) && words.next().is_none() {
                return (word == "--set").then_some(Wanted::Choice);
            }
        } else if let Some(next) = at.find_subcommand(word) {
            path.push(next.get_name());
            (at, place) = (next, 0);
        } else {
            place += 1;
        }
    }
    let all: Vec<_> = at.get_positionals().collect();
    // The last takes all that follow, if it takes several.
    let several = |n: usize| matches!(all[n].get_action(), ArgAction::Append);
    let which = all
        .get(place)
        .or_else(|| all.len().checked_sub(1).filter(|n| several(*n)).map(|n| &all[n]))?;
    match (path.as_slice(), which.get_id().as_str()) {
        (["volume", "create"], _) => None,
        (["volume", ..], "name" | "source" | "destination" | "volumes" | "snapshot")
        | (["scrub" | "mirror"] | ["volume", "import"], "volume") => Some(Wanted::Volume),
        (["volume", "set"], "set") => Some(Wanted::Setting),
        (["choices"], "key") => Some(Wanted::Key),
        (["node" | "disk", ..], "node") | (["disk", "clear"], "of") => Some(Wanted::Node),
        (["node" | "disk", ..], "whose") => Some(Wanted::NodeOrProcess),
        _ => None,
    }
}

/// Whether an option, without its first dash, is followed by a value.
fn takes_value(command: &Command, option: &str) -> bool {
    let name = option.strip_prefix('-');
    let is_it = |arg: &&clap::Arg| match name {
        Some(name) => arg.get_long() == Some(name),
        None => arg.get_short().map(String::from).as_deref() == Some(option),
    };
    let arg = command.get_arguments().find(is_it);
    arg.is_some_and(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append))
}

/// Keys, each with '='; behind a key its words.
fn settings(last: &str, takes: impl Fn(&Choice) -> bool) -> Vec<String> {
    let choices = CHOICES.iter().filter(|c| takes(c));
    match last.split_once('=') {
        None => choices.map(|c| format!("{}=", c.key)).collect(),
        Some((key, _)) => {
            let of = choices.filter(|c| c.key == key);
            of.flat_map(|c| c.words().map(|word| format!("{key}={word}"))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_host::status::{NodeStatus, VolumeStatus};

    use super::*;

    fn of(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        let volume = |name: &str| VolumeStatus { name: name.to_string(), ..Default::default() };
        let name = Some("box1".to_string());
        let node = |node: u16| NodeStatus { node, name: name.clone(), ..NodeStatus::default() };
        let (volumes, nodes) =
            (vec![volume("vm1"), volume("vm2"), volume("db")], vec![node(0), node(12)]);
        let status = Status { volumes, nodes, ..Status::default() };
        completed(&crate::Cli::command(), &words, || Some(status)).join(" ")
    }

    #[test]
    fn volumes_nodes_keys_and_words_are_completed() {
        for (line, completed) in [
            ("volume show ", "vm1 vm2 db"),
            ("volume show vm", "vm1 vm2"),
            ("volume resize --dir vm v", "vm1 vm2"),
            ("volume delete -y d", "db"),
            ("volume copy vm1 v", "vm1 vm2"),
            ("volume snapshot v", "vm1 vm2"),
            ("volume clone d", "db"),
            ("volume rollback vm1 v", "vm1 vm2"),
            ("volume export d", "db"),
            ("volume import d", "db"),
            ("mirror vm", "vm1 vm2"),
            ("scrub ", "vm1 vm2 db"),
            ("node kill ", "0 12 box1"),
            ("disk drain --no-wait 1", "12"),
            ("node stop ", "0 12 box1"),
            ("disk clear 1", "12"),
            ("volume set vm1 comm", "commit= commands="),
            ("volume set vm1 commit=late dispatch=c", "dispatch=collaborative dispatch=commanded"),
            ("volume create v 1G --set comm", "commit= commands="),
            ("up --set redundancy=d", "redundancy=deferred"),
            ("choices lost", "lost-wait"),
            // What the scripts know themselves, or nobody does.
            ("volume create ", ""),
            ("volume show --d", ""),
            ("volume show --dir ", ""),
            ("volume set vm1 nonsense=", ""),
            ("volume rename vm1 ", ""),
            ("volume snapshot vm1 ", ""),
            ("vol", ""),
            ("", ""),
        ] {
            assert_eq!(of(line), completed, "{line}");
        }
    }

    #[test]
    fn the_directory_is_that_of_the_line() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            value_of("--dir", &words).map(str::to_string)
        };
        assert_eq!(of("volume show --dir d v").as_deref(), Some("d"));
        assert_eq!(of("volume show --dir=d v").as_deref(), Some("d"));
        assert_eq!(of("volume show v"), None);
    }
}
