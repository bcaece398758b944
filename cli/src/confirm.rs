//! Asking whether something is meant that cannot be undone, or not for long.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Result, bail};
use clap::Args;

/// Confirmation in advance.
#[derive(Clone, Copy, Debug, Args)]
pub struct Confirm {
    /// Do it without asking
    #[arg(long, short = 'y')]
    yes: bool,
}

impl Confirm {
    /// Asks at the terminal whether to do it. `what` says what would happen. Without a terminal it must have been said
    /// already; if not, nothing is done, and that is an error.
    pub fn ask(&self, what: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            bail!("{what}. Nothing was done; add --yes to do it");
        }
        ask(what, &mut io::stdin().lock(), &mut io::stderr())
    }
}

fn ask(what: &str, from: &mut impl BufRead, to: &mut impl Write) -> Result<()> {
    write!(to, "{what}.\nDo it? [y/N] ")?;
    to.flush()?;
    let mut answer = String::new();
    from.read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (answer, is_yes) in [
            ("y\n", true),
            ("YES\n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yo\n", false),
        ] {
            let mut said = Vec::new();
            let done = ask("all is gone", &mut answer.as_bytes(), &mut said);
            assert_eq!(done.is_ok(), is_yes, "{answer:?}");
            assert_eq!(String::from_utf8(said).unwrap(), "all is gone.\nDo it? [y/N] ");
        }
    }

    #[test]
    fn what_was_said_is_not_asked() {
        assert!(Confirm { yes: true }.ask("all is gone").is_ok());
    }
}
