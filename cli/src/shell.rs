//! `weft completions` and `weft man`: what a shell and a reader of manuals want to know of the command, made from the
//! command itself.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use weft_terminal::say;

/// The shell.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell; its script goes to standard output
    shell: Shell,
}

impl Completions {
    /// Prints the completions.
    pub fn run<C: CommandFactory>(&self) -> Result<ExitCode> {
        io::Write::write_all(&mut io::stdout(), script::<C>(self.shell)?.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What a shell reads: what is made from the command, and behind it what asks `weft complete`.
fn script<C: CommandFactory>(shell: Shell) -> Result<String> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut C::command(), "weft", &mut text);
    let text = String::from_utf8(text).context("completions are text")?;
    Ok(match shell {
        Shell::Bash => text + include_str!("completions/weft.bash"),
        Shell::Fish => text + include_str!("completions/weft.fish"),
        // The last lines of zsh's call the function that is to be asked second.
        Shell::Zsh => {
            let (made, last) = text.split_at(text.rfind("\nif ").context("zsh's last lines")?);
            let last = last.replace("    _weft \"$@\"", "    _weft_words \"$@\"");
            let last = last.replace("compdef _weft weft", "compdef _weft_words weft");
            format!("{made}{}{last}", include_str!("completions/weft.zsh"))
        }
        _ => text,
    })
}

/// The directory of manual pages.
#[derive(Debug, Args)]
pub struct Man {
    /// Directory, such as /usr/local/share/man/man1; created if missing
    directory: PathBuf,
}

impl Man {
    /// Writes a page for the command, and one for each of its subcommands.
    pub fn run<C: CommandFactory>(&self) -> Result<ExitCode> {
        let dir = &self.directory;
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        clap_mangen::generate_to(C::command(), dir)
            .with_context(|| format!("cannot write to {}", dir.display()))?;
        say(format!("manual pages are in {}: `man {}/weft.1`", dir.display(), dir.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_is_told_of_all_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = script::<crate::Cli>(shell).unwrap();
            assert!(text.contains("rebalance") && text.contains("explain"), "{shell}");
            assert!(text.contains("complete -- "), "{shell}");
        }
        // The words of a choice are in the scripts.
        assert!(script::<crate::Cli>(Shell::Bash).unwrap().contains("callback-locks device-locks"));
        let zsh = script::<crate::Cli>(Shell::Zsh).unwrap();
        let last = &zsh[zsh.rfind("\nif ").unwrap()..];
        assert_eq!(last.matches("_weft_words").count(), 2, "{last}");
        for shell in [Shell::PowerShell, Shell::Elvish] {
            assert!(script::<crate::Cli>(shell).unwrap().contains("rebalance"), "{shell}");
        }
    }

    #[test]
    fn each_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("man1");
        Man { directory: directory.clone() }.run::<crate::Cli>().unwrap();
        for page in ["weft.1", "weft-volume-create.1", "weft-status.1"] {
            let text = fs::read_to_string(directory.join(page)).unwrap();
            assert!(text.contains(".SH"), "{page}");
        }
    }
}
