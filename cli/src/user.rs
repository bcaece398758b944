//! `weft user`: those who may log in at the page of a process, and what they may do there.
//!
//! They are in a file of the process's directory. The page reads it at each request, so nothing needs to run, and the
//! removal of a user ends their sessions.

use std::env::{self, VarError};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use weft_host::is_there;
use weft_page::{Role, User as Person, Users};
use weft_terminal::{ask_secret, folded, say, say_json, table, width};

use crate::args::Target;

/// Where a password is looked for that no file has.
const VARIABLE: &str = "WEFT_USER_PASSWORD";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum User {
    /// Add a user
    Add(Add),
    /// List all users
    List(List),
    /// Change the password of a user, and end their sessions
    Password(Password),
    /// Change what a user may do
    Role(ChangeRole),
    /// Remove a user, and end their sessions
    Remove(Remove),
}

/// The users to list.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The user to add.
#[derive(Debug, Args)]
pub struct Add {
    /// Name: 1 to 32 of a-z, 0-9, '-', '_' and '.'
    name: String,
    /// Rights of the user: read (look), or act (also take snapshots, scrub and so on)
    #[arg(long, default_value = "read", value_name = "read|act")]
    role: Role,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    target: Target,
}

/// The user whose password to change.
#[derive(Debug, Args)]
pub struct Password {
    /// Name of the user
    name: String,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    target: Target,
}

/// The new role of a user.
#[derive(Debug, Args)]
pub struct ChangeRole {
    /// Name of the user
    name: String,
    /// Rights of the user: read or act
    #[arg(value_name = "read|act")]
    role: Role,
    #[command(flatten)]
    target: Target,
}

/// The user to remove.
#[derive(Debug, Args)]
pub struct Remove {
    /// Name of the user
    name: String,
    #[command(flatten)]
    target: Target,
}

/// A password. It is never on the command line, which other users of the machine can see.
#[derive(Debug, Args)]
struct Given {
    /// File with the password, of 12 to 256 bytes, on its first line [default: $WEFT_USER_PASSWORD, or asked for]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl User {
    /// Does it.
    pub fn run(&self) -> Result<()> {
        match self {
            User::Add(Add { name, role, given, target }) => {
                let mut users = users(target)?;
                users.check_new(name)?;
                users.add(name, *role, &given.password(name)?)?;
                say(format!("user '{name}' may {}", may(*role)))
            }
            User::List(List { target, json }) => list(users(target)?.all(), *json),
            User::Password(Password { name, given, target }) => {
                users(target)?.set_password(name, &given.password(name)?)?;
                say(format!("user '{name}' has a new password"))
            }
            User::Role(ChangeRole { name, role, target }) => {
                users(target)?.set_role(name, *role)?;
                say(format!("user '{name}' may {}", may(*role)))
            }
            User::Remove(Remove { name, target }) => {
                users(target)?.remove(name)?;
                say(format!("user '{name}' is removed"))
            }
        }
    }
}

fn may(role: Role) -> &'static str {
    match role {
        Role::Read => "only look",
        Role::Act => "look and act",
    }
}

fn users(target: &Target) -> Result<Users> {
    let dir = target.dir();
    if !is_there(dir)? {
        bail!(
            "there is no directory {}; give that of a process with --dir or in WEFT_DIR; for a new array, start it first",
            dir.display()
        );
    }
    Ok(Users::load(dir)?)
}

fn list(users: &[Person], json: bool) -> Result<()> {
    if json {
        let one = |user: &Person| json!({ "name": user.name, "role": user.role });
        return say_json(json!({ "users": users.iter().map(one).collect::<Vec<_>>() }));
    }
    if users.is_empty() {
        return say("there are no users; `weft user add NAME` adds one");
    }
    let mut rows = table(["user", "role"]);
    for user in users {
        rows.add_row([user.name.as_str(), user.role.word()]);
    }
    say(folded(&rows, width()))
}

impl Given {
    fn password(&self, name: &str) -> Result<String> {
        if let Some(password) = find(self.file.as_deref())? {
            return Ok(password);
        }
        let Some(password) = ask_secret(&format!("Password of user '{name}': "))? else {
            bail!(
                "there is no password; give it in a file (`--file FILE`) or in {VARIABLE}, or run this command at a terminal"
            );
        };
        if ask_secret("Repeat it: ")?.as_ref() != Some(&password) {
            bail!("the two inputs differ; nothing was changed");
        }
        Ok(password)
    }
}

/// A password from a file, or else from the environment.
fn find(file: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = file else {
        return match env::var(VARIABLE) {
            Ok(password) => Ok(Some(password)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => {
                bail!("{VARIABLE} is not text; choose another password")
            }
        };
    };
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line.contains('\n') {
        true => bail!("{shown} has more than one line; the password is one line"),
        false => Ok(Some(line.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_password_in_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        for (text, password) in [("a b\n", "a b"), ("a b\r\n", "a b"), (" a", " a")] {
            fs::write(&path, text).unwrap();
            assert_eq!(find(Some(&path)).unwrap().as_deref(), Some(password));
        }
        fs::write(&path, "a\nb\n").unwrap();
        assert!(find(Some(&path)).unwrap_err().to_string().contains("more than one line"));
        let missing = find(Some(&dir.path().join("none"))).unwrap_err();
        assert!(missing.to_string().starts_with("cannot read"), "{missing}");
    }
}
