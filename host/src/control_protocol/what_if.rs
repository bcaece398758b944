//! The request for a prediction, from words.

use super::{ControlRequest, NewDiskOf};
use crate::error::{Result, fail};
use crate::size::parse_size;
use crate::status::Status;

impl ControlRequest {
    /// The request for a prediction: nodes or processes that would be lost, and disks that would be there before, as `16T`
    /// or `16T@box3`.
    ///
    /// # Errors
    /// If no process has such a name, or a disk is not described so.
    pub fn what_if(status: &Status, lose: &[String], add: &[String]) -> Result<ControlRequest> {
        let mut lost = Vec::new();
        for node in lose.iter().map(|whose| status.nodes_of(whose)) {
            for node in node? {
                match u16::try_from(node) {
                    Ok(node) => lost.push(node),
                    Err(_) => return fail(format!("there is no node {node}")),
                }
            }
        }
        let added = add.iter().map(|text| added_disk(status, text)).collect::<Result<_>>()?;
        Ok(ControlRequest::WhatIf { lost, added })
    }
}

fn added_disk(status: &Status, text: &str) -> Result<NewDiskOf> {
    let (size, whose) = match text.split_once('@') {
        Some((size, whose)) => (size, Some(whose)),
        None => (text, None),
    };
    let bytes = parse_size(size)?;
    let process = whose.map(|whose| status.nodes_of(whose)).transpose()?;
    Ok(NewDiskOf { process: process.map(|nodes| nodes[0] as u16), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::NodeStatus;

    #[test]
    fn questions_name_nodes_processes_and_disks() {
        let node = |node, name: &str| NodeStatus {
            node,
            name: Some(name.to_string()),
            address: Some(String::new()),
            ..NodeStatus::default()
        };
        let nodes = vec![node(0, "b0"), node(1, "b0"), node(2, "b1")];
        let status = Status { nodes, ..Status::default() };
        let text = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let asked =
            |lose: &[&str], add: &[&str]| ControlRequest::what_if(&status, &text(lose), &text(add));
        let ControlRequest::WhatIf { lost, added } = asked(&["b0", "2"], &["1G", "2G@b1"]).unwrap()
        else {
            panic!("another request")
        };
        assert_eq!(lost, [0, 1, 2]);
        let disk = |process, bytes| NewDiskOf { process, bytes };
        assert_eq!(added, [disk(None, 1 << 30), disk(Some(2), 2 << 30)]);
        let refused = |lose: &[&str], add: &[&str]| asked(lose, add).unwrap_err().0;
        assert!(refused(&["b7"], &[]).contains("there are: b0, b1"));
        assert!(refused(&[], &["1G@b7"]).contains("there are: b0, b1"));
        assert!(refused(&["70000"], &[]).contains("no node 70000"));
        assert!(asked(&[], &["much"]).is_err());
    }
}
