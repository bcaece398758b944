//! What an operator should know: a line, how much it matters, and what it is about.

use std::fmt;

use weft_core::units::NodeId;

/// A line for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line.
    pub text: String,
    /// Whether something is not as it should be; otherwise something has changed.
    pub is_warning: bool,
    /// The process that it is about.
    pub process: Option<NodeId>,
    /// The node that it is about.
    pub node: Option<NodeId>,
}

impl Note {
    /// Something has changed.
    pub fn info(text: impl Into<String>) -> Note {
        Note { text: text.into(), is_warning: false, process: None, node: None }
    }

    /// Something is not as it should be.
    pub fn warning(text: impl Into<String>) -> Note {
        Note { is_warning: true, ..Note::info(text) }
    }

    /// It is about a process.
    #[must_use]
    pub fn of(self, process: NodeId) -> Note {
        Note { process: Some(process), ..self }
    }

    /// It is about a node.
    #[must_use]
    pub fn of_node(self, node: NodeId) -> Note {
        Note { node: Some(node), ..self }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Numbers as a list in a sentence.
pub fn listed(numbers: &[u16]) -> String {
    let words: Vec<String> = numbers.iter().map(u16::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_as_in_a_sentence() {
        for (numbers, said) in
            [(&[][..], ""), (&[4], "4"), (&[2, 3], "2 and 3"), (&[1, 2, 3], "1, 2 and 3")]
        {
            assert_eq!(listed(numbers), said);
        }
    }
}
