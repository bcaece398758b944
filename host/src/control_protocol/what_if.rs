//! The request for a prediction, from words.

use weft_core::layout::LayoutSpec;

use super::{ControlRequest, NewDiskOf};
use crate::error::{Error, Result, fail};
use crate::size::parse_size;
use crate::status::Status;

impl ControlRequest {
    /// The request for a prediction: nodes or processes that would be lost, and disks that would be there before, as `16T`
    /// or `16T@box3`, and layouts that volumes would have, as `db=rs:4+2`.
    ///
    /// # Errors
    /// If no process has such a name, or a disk or layout is not described so.
    pub fn what_if(
        status: &Status,
        lose: &[String],
        add: &[String],
        layout: &[String],
    ) -> Result<ControlRequest> {
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
        let layouts = layout.iter().map(|text| new_layout(text)).collect::<Result<_>>()?;
        Ok(ControlRequest::WhatIf { lost, added, layouts })
    }
}

fn new_layout(text: &str) -> Result<(String, String)> {
    let Some((volume, layout)) = text.split_once('=') else {
        return fail(format!("'{text}' names no layout; give VOLUME=LAYOUT, such as db=rs:4+2"));
    };
    let layout: LayoutSpec = layout.parse().map_err(|e| Error(format!("{e}")))?;
    Ok((volume.to_string(), layout.to_string()))
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
        let asked = |lose: &[&str], add: &[&str], layout: &[&str]| {
            ControlRequest::what_if(&status, &text(lose), &text(add), &text(layout))
        };
        let ControlRequest::WhatIf { lost, added, layouts } =
            asked(&["b0", "2"], &["1G", "2G@b1"], &["v=raid6", "w=rs:2+1"]).unwrap()
        else {
            panic!("another request")
        };
        assert_eq!(lost, [0, 1, 2]);
        let disk = |process, bytes| NewDiskOf { process, bytes };
        assert_eq!(added, [disk(None, 1 << 30), disk(Some(2), 2 << 30)]);
        let layout = |volume: &str, layout: &str| (volume.to_string(), layout.to_string());
        assert_eq!(layouts, [layout("v", "raid6"), layout("w", "rs:2+1")].into());
        let refused = |lose: &[&str], add: &[&str]| asked(lose, add, &[]).unwrap_err().0;
        let refused_layout = |text: &str| asked(&[], &[], &[text]).unwrap_err().0;
        assert!(refused_layout("raid6").contains("VOLUME=LAYOUT"));
        assert!(refused_layout("v=raid7").contains("raid7"));
        assert!(refused(&["b7"], &[]).contains("there are: b0, b1"));
        assert!(refused(&[], &["1G@b7"]).contains("there are: b0, b1"));
        assert!(refused(&["70000"], &[]).contains("no node 70000"));
        assert!(asked(&[], &["much"], &[]).is_err());
    }
}
