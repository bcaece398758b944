//! `weft host secret`: the CHAP secrets by which a host and the target prove who they are.
//!
//! A secret comes from a file, from the environment or from a terminal, and never from the command line, which other
//! users of the machine can see.

use std::env::{self, VarError};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_host::{HostAction, Sealed};
use weft_terminal::{ask_secret, say, say_json};

use super::request;
use crate::args::Common;
use crate::output::map_of;

/// Where secrets are looked for that no file has.
const SECRET: &str = "WEFT_HOST_SECRET";
const MUTUAL: &str = "WEFT_HOST_MUTUAL_SECRET";

/// A host and its secrets.
#[derive(Debug, Args)]
pub struct Secret {
    /// Name of the host, which is also its CHAP name
    name: String,
    /// File with the secret: 12 to 255 bytes as printable text, or in hexadecimal after 0x [default: $WEFT_HOST_SECRET, or asked for]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// File with a second secret, by which the target authenticates to the host [default: $WEFT_HOST_MUTUAL_SECRET, or none]
    #[arg(long, value_name = "FILE")]
    mutual_file: Option<PathBuf>,
    /// Remove the secrets of the host
    #[arg(long, conflicts_with_all = ["file", "mutual_file"])]
    remove: bool,
    #[command(flatten)]
    common: Common,
}

impl Secret {
    /// Does it.
    pub(super) fn run(&self) -> Result<()> {
        let mut control = self.common.target.connect()?;
        let sealed = match self.remove {
            true => None,
            false => {
                let name = self.name.clone();
                let (secret, mutual) = self.given()?;
                let seal = request(HostAction::Seal { name, secret, mutual });
                let mut answer = control.request(&seal)?;
                Some(serde_json::from_value::<Sealed>(answer["sealed"].take())?)
            }
        };
        let done = match &sealed {
            None => "no longer has a CHAP secret",
            Some(Sealed { mutual: false, .. }) => "has a new CHAP secret",
            Some(Sealed { mutual: true, .. }) => "has new CHAP secrets, its own and the target's",
        };
        let action = HostAction::Secret { name: self.name.clone(), sealed };
        let answer = control.request(&request(action))?;
        match self.common.json {
            true => say_json(answer),
            false => say(format!("host '{}' {done} ({})", self.name, map_of(&answer))),
        }
    }

    /// The secrets of the host and of the target.
    fn given(&self) -> Result<(String, Option<String>)> {
        let mutual = find(self.mutual_file.as_deref(), MUTUAL)?;
        if let Some(secret) = find(self.file.as_deref(), SECRET)? {
            return Ok((secret, mutual));
        }
        let asked = ask_secret(&format!("Secret of host '{}': ", self.name))?;
        let Some(secret) = asked else {
            bail!(
                "there is no secret; give it in a file (`--file FILE`) or in {SECRET}, or run this command at a terminal"
            );
        };
        if ask_secret("Repeat it: ")?.as_ref() != Some(&secret) {
            bail!("the two inputs differ; nothing was changed");
        }
        Ok((secret, mutual))
    }
}

/// A secret from a file, or else from a variable of the environment.
fn find(file: Option<&Path>, variable: &str) -> Result<Option<String>> {
    let Some(path) = file else {
        return match env::var(variable) {
            Ok(secret) => Ok(Some(secret)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => bail!(
                "{variable} is not text; give the bytes of the secret in hexadecimal, after 0x"
            ),
        };
    };
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match String::from_utf8(text) {
        Ok(text) => Ok(Some(line(&text).to_string())),
        Err(_) => bail!(
            "{} is not text; give the bytes of the secret in hexadecimal, after 0x",
            path.display()
        ),
    }
}

/// A text without the end of its line, which editors put there.
fn line(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_secret_in_its_line() {
        assert_eq!((line("a b\n"), line("a b\r\n"), line("a b")), ("a b", "a b", "a b"));
        assert_eq!(line("a\n\n"), "a\n", "what is more than a line is refused later");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "twelve bytes\n").unwrap();
        assert_eq!(find(Some(&path), SECRET).unwrap().as_deref(), Some("twelve bytes"));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(find(Some(&path), SECRET).unwrap_err().to_string().contains("after 0x"));
        assert!(find(Some(&dir.path().join("none")), SECRET).is_err());
        assert_eq!(find(None, "WEFT_NO_SUCH_VARIABLE").unwrap(), None);
    }
}
