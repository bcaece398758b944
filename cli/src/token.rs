//! Where commands take a join token from. An argument can be read by everybody on the machine while
//! the command runs (`ps`), so a file, standard input or the environment is better.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use weft_host::JoinToken;

/// The variable that may hold it.
pub const VARIABLE: &str = "WEFT_TOKEN";

/// A token from a file.
#[derive(Clone, Debug, Default, Args)]
pub struct TokenFile {
    /// File with the token; - for standard input. The variable WEFT_TOKEN is an alternative
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenFile {
    /// Whether a file is given.
    pub fn is_given(&self) -> bool {
        self.token_file.is_some()
    }

    /// The token: of the file, or else of the environment.
    pub fn read(&self) -> Result<Option<JoinToken>> {
        match &self.token_file {
            Some(path) => from_file(path).map(Some),
            None => from_variable(std::env::var_os(VARIABLE)),
        }
    }
}

fn from_file(path: &Path) -> Result<JoinToken> {
    let mut bytes = Vec::new();
    let (read, name) = match path == Path::new("-") {
        true => (io::stdin().read_to_end(&mut bytes), "standard input".to_string()),
        false => {
            let read = fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes));
            (read, path.display().to_string())
        }
    };
    let from = || format!("cannot read a join token from {name}");
    read.with_context(from)?;
    let text = weft_bytes::text::of_file(&bytes).with_context(from)?;
    text.parse().with_context(|| format!("{name} does not hold a join token"))
}

fn from_variable(value: Option<OsString>) -> Result<Option<JoinToken>> {
    let Some(value) = value.filter(|v| !v.is_empty()) else { return Ok(None) };
    let token = value.to_string_lossy().parse();
    token.map(Some).with_context(|| format!("{VARIABLE} does not hold a join token"))
}

/// Reads a token that is an argument.
pub fn argument(text: &str) -> Result<JoinToken, String> {
    text.parse().map_err(|e: weft_host::TokenError| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        JoinToken { id: 7, secret: [3; 16], fingerprint: [5; 32] }
    }

    #[test]
    fn a_token_is_read_from_a_file_and_from_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, format!("{}\n", token())).unwrap();
        let file = TokenFile { token_file: Some(path.clone()) };
        assert_eq!(file.read().unwrap(), Some(token()));
        let said = |e: anyhow::Error| format!("{e:#}");
        fs::write(&path, "weft1-12").unwrap();
        let wrong = said(file.read().unwrap_err());
        assert!(
            wrong.contains("token does not hold a join token") && wrong.contains("five parts"),
            "{wrong}"
        );
        fs::remove_file(&path).unwrap();
        assert!(said(file.read().unwrap_err()).contains("cannot read"));
        assert_eq!(from_variable(Some(token().to_string().into())).unwrap(), Some(token()));
        assert_eq!(from_variable(Some("".into())).unwrap(), None);
        assert_eq!(from_variable(None).unwrap(), None);
        let wrong = said(from_variable(Some("x".into())).unwrap_err());
        assert!(wrong.contains("WEFT_TOKEN"), "{wrong}");
    }
}
