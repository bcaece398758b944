//! `[links]` of a process's configuration: which others it dials, if not all, and how those of its machine connect.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, fail};

/// How the processes of one machine connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalLinks {
    /// By Unix sockets, where that goes.
    #[default]
    Unix,
    /// As those of different machines do.
    Tls,
}

impl fmt::Display for LocalLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LocalLinks::Unix => "unix",
            LocalLinks::Tls => "tls",
        })
    }
}

impl FromStr for LocalLinks {
    type Err = Error;

    fn from_str(text: &str) -> Result<LocalLinks> {
        match text {
            "unix" => Ok(LocalLinks::Unix),
            "tls" => Ok(LocalLinks::Tls),
            _ => fail(format!(
                "'{text}' is not a kind of connection between processes of one machine; give unix or tls"
            )),
        }
    }
}

/// Refuses names of processes that there are not: with a typing error there would be one connection less.
pub(crate) fn refuse_strangers<'a>(
    only: impl IntoIterator<Item = &'a str>,
    known: &BTreeSet<&str>,
) -> Result<()> {
    let Some(stranger) = only.into_iter().find(|n| !known.contains(n)) else { return Ok(()) };
    let names: Vec<&str> = known.iter().copied().collect();
    fail(format!(
        "links: only names '{stranger}', which is not a process of the cluster; choose from {}. Add a new process after it \
             has joined",
        if names.is_empty() { "no others".to_string() } else { names.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_has_are_refused_with_those_that_there_are() {
        let known = BTreeSet::from(["n0", "n2"]);
        assert!(refuse_strangers([], &known).is_ok() && refuse_strangers(["n2"], &known).is_ok());
        let text = refuse_strangers(["n2", "n3"], &known).unwrap_err().to_string();
        assert!(text.contains("'n3'") && text.contains("n0, n2"), "{text}");
        let text = refuse_strangers(["n0"], &BTreeSet::new()).unwrap_err().to_string();
        assert!(text.contains("no others"), "{text}");
    }
}
