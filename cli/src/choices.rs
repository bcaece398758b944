//! Options for what a volume chooses, made from the core's table: each choice is `--KEY WORD`, with its words
//! and their meaning as help.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use weft_core::policy::{CHOICES, Choice, Kind, Policy, Setting};

/// Which choices a command takes.
pub trait Takes {
    /// Whether it takes this one.
    fn takes(choice: &Choice) -> bool;

    /// Whether it takes values that are for measuring, too.
    const MEASURING: bool = false;
}

/// Volumes: all choices.
#[derive(Clone, Debug)]
pub struct ForVolumes;

impl Takes for ForVolumes {
    fn takes(_: &Choice) -> bool {
        true
    }
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

/// What `weft volume set` says of what it takes.
pub fn help_for_set() -> String {
    let values = |c: &Choice| c.words().collect::<Vec<_>>().join("|");
    let says = |c: &Choice| format!("{}={} ({})", c.key, values(c), c.help);
    let in_use = CHOICES.iter().filter(|c| c.in_use);
    in_use.map(says).collect::<Vec<_>>().join(", ")
}

impl<T: Takes> FromArgMatches for Choices<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = taken::<T>().filter_map(|c| matches.get_one::<Setting>(c.key).copied());
        Ok(Choices { given: given.collect(), taken_by: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Takes> Args for Choices<T> {
    fn augment_args(command: Command) -> Command {
        taken::<T>().fold(command, |command, choice| {
            let option = Arg::new(choice.key)
                .long(choice.key)
                .value_name("WORD")
                .value_parser(Word(choice))
                // The help says them with what they mean.
                .hide_possible_values(true)
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
