//! Options for what a volume chooses, made from the core's table: each choice is `--KEY WORD`, with its words
//! and their meaning as help. Commands that take all choices take them by `--set KEY=VALUE`, and their help leaves the
//! other options out: `weft choices` explains them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::marker::PhantomData;

use anyhow::bail;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use weft_core::policy::{CHOICES, Choice, Kind, Policy, Setting, choice};
use weft_scenario::keys::most_like;
use weft_terminal::say;

/// The option that takes any choice.
pub const SET: &str = "set";

/// Which choices a command takes.
pub trait Takes {
    /// Whether it takes this one.
    fn takes(choice: &Choice) -> bool;

    /// Whether it takes values that are for measuring, too.
    const MEASURING: bool = false;

    /// Whether it takes them by `--set`, and its help leaves the other options out.
    const BY_SET: bool = false;
}

/// Volumes: all choices.
#[derive(Clone, Debug)]
pub struct ForVolumes;

impl Takes for ForVolumes {
    fn takes(_: &Choice) -> bool {
        true
    }

    const BY_SET: bool = true;
}

/// What was given.
#[derive(Clone, Debug)]
pub struct Choices<T> {
    /// In the order of the table.
    pub given: Vec<Setting>,
    taken_by: PhantomData<T>,
}

impl<T> Choices<T> {
    /// By key, in words.
    pub fn words(&self) -> BTreeMap<String, String> {
        self.given.iter().map(|s| (s.key().to_string(), s.word())).collect()
    }
}

fn taken<T: Takes>() -> impl Iterator<Item = &'static Choice> {
    CHOICES.iter().filter(|c| T::takes(c))
}

/// Reads the word of a choice. Shells are told the words, or some of them.
#[derive(Clone)]
struct Word(&'static Choice);

impl TypedValueParser for Word {
    type Value = Setting;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Setting, Error> {
        let choice = self.0;
        (move |word: &str| choice.parse(word)).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.words().map(PossibleValue::new)))
    }
}

/// What an option says of a choice.
fn help(choice: &Choice, measuring: bool) -> String {
    let (first, rest) = choice.help.split_at(1);
    let values = choice.values().into_iter().filter(|v| measuring || v.kind != Kind::Measuring);
    let values = values.map(|v| match v.help {
        "" => v.word.to_string(),
        means => format!("{} ({means})", v.word),
    });
    let values: Vec<String> = values.collect();
    let usual = choice.word_of(&Policy::default());
    format!("{}{rest}: {} [default: {usual}]", first.to_uppercase(), values.join(", "))
}

/// Reads `KEY=VALUE`.
fn setting(text: &str) -> Result<Setting, String> {
    let Some((key, word)) = text.split_once('=') else {
        return Err("it is not KEY=VALUE; write it like redundancy=deferred".to_string());
    };
    let Some(choice) = choice(key) else {
        return Err(unknown(key));
    };
    choice.parse(word).map_err(|e| e.to_string())
}

fn unknown(key: &str) -> String {
    let meant = most_like(&key.replace('_', "-"), CHOICES.iter().map(|c| c.key));
    let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
    format!("there is no choice '{key}'; `weft choices` lists them all{hint}")
}

/// Explain what a volume can choose, by `--set KEY=VALUE` when it is created, or `weft volume set` later
#[derive(Debug, Args)]
#[command(after_help = explained(CHOICES.iter()))]
pub struct Explained {
    /// Explain only this choice
    key: Option<String>,
}

impl Explained {
    /// Prints it.
    pub fn run(&self) -> anyhow::Result<()> {
        match &self.key {
            None => say(explained(CHOICES.iter())),
            Some(key) => match choice(key) {
                Some(choice) => say(explained([choice].into_iter())),
                None => bail!(unknown(key)),
            },
        }
    }
}

/// Each choice with its values, as paragraphs.
fn explained<'a>(choices: impl Iterator<Item = &'a Choice>) -> String {
    let one = |choice: &Choice| {
        let usual = choice.word_of(&Policy::default());
        let changes = if choice.in_use { "can change in use" } else { "cannot change later" };
        let values = choice.values().into_iter().filter(|v| v.kind != Kind::Measuring);
        let values: String = values.map(|v| format!("\n  {:<12}  {}", v.word, v.help)).collect();
        let lines = values.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        format!("{}: {} [default: {usual}; {changes}]{lines}", choice.key, choice.help)
    };
    choices.map(one).collect::<Vec<_>>().join("\n\n")
}

/// Why these cannot be given together, if they cannot.
fn clash(given: &[Setting]) -> Option<String> {
    given.iter().enumerate().find_map(|(n, one)| {
        let earlier = given[..n].iter().find(|other| {
            let settles = |a: &Setting, b: &Setting| {
                choice(a.key()).is_some_and(|choice| choice.settles == Some(b.key()))
            };
            other.key() == one.key() || settles(one, other) || settles(other, one)
        })?;
        Some(match earlier.key() == one.key() {
            true => format!("{} is given twice; give it once", one.key()),
            false => format!("{} and {} cannot be given together", earlier.key(), one.key()),
        })
    })
}

impl<T: Takes> FromArgMatches for Choices<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let options = taken::<T>().filter_map(|c| matches.get_one::<Setting>(c.key).copied());
        let set = T::BY_SET.then(|| matches.get_many::<Setting>(SET)).flatten();
        let mut given: Vec<Setting> = options.chain(set.into_iter().flatten().copied()).collect();
        if let Some(why) = clash(&given) {
            return Err(Error::raw(ErrorKind::ArgumentConflict, format!("{why}\n")));
        }
        let place = |s: &Setting| CHOICES.iter().position(|c| c.key == s.key());
        given.sort_by_key(place);
        Ok(Choices { given, taken_by: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Takes> Args for Choices<T> {
    fn augment_args(command: Command) -> Command {
        let set = Arg::new(SET)
            .long(SET)
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .value_parser(setting)
            .help("What the volume chooses, such as redundancy=deferred; may be repeated; `weft choices` explains all");
        let command = if T::BY_SET { command.arg(set) } else { command };
        taken::<T>().fold(command, |command, choice| {
            let option = Arg::new(choice.key)
                .long(choice.key)
                .value_name("WORD")
                .value_parser(Word(choice))
                // The help says them with what they mean.
                .hide_possible_values(true)
                .hide(T::BY_SET)
                .conflicts_with_all(
                    choice.settles.filter(|key| taken::<T>().any(|c| c.key == *key)),
                )
                .help(help(choice, T::MEASURING));
            command.arg(option.aliases(choice.old_key()))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        choices: Choices<ForVolumes>,
    }

    fn given(line: &str) -> Result<String, String> {
        let words = line.split_whitespace();
        let line = Line::try_parse_from(["weft"].into_iter().chain(words));
        let line =
            line.map_err(|e| e.to_string().lines().next().unwrap_or_default().to_string())?;
        let words = line.choices.words().into_iter().map(|(key, word)| format!("{key}={word}"));
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn choices_are_set_by_key_and_by_their_own_options() {
        assert_eq!(given(""), Ok(String::new()));
        let both = given("--set redundancy=deferred --ordering sequencer --set lost-wait=5m");
        assert_eq!(both, Ok("lost-wait=5m ordering=sequencer redundancy=deferred".to_string()));
    }

    #[test]
    fn what_is_wrong_with_a_choice_is_said() {
        for (line, why) in [
            ("--set redundancy", "it is not KEY=VALUE; write it like redundancy=deferred"),
            ("--set redundency=never", "did you mean redundancy?"),
            ("--set lost_wiat=never", "did you mean lost-wait?"),
            ("--set redundancy=sometimes", "sometimes"),
            ("--set commit=late --set commit=late", "commit is given twice; give it once"),
            ("--set commit=late --commit late", "commit is given twice; give it once"),
            (
                "--set roles=node --set dispatch=commanded",
                "roles and dispatch cannot be given together",
            ),
        ] {
            let said = given(line).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
    }

    #[test]
    fn every_choice_and_every_value_is_explained() {
        let text = explained(CHOICES.iter());
        for choice in &CHOICES {
            assert!(text.contains(&format!("{}: {}", choice.key, choice.help)), "{}", choice.key);
            for word in choice.words() {
                assert!(text.contains(&format!("\n  {word}")), "{}={word}", choice.key);
            }
        }
        assert!(text.lines().all(|line| line.trim_end() == line));
    }
}
