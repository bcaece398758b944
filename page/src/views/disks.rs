//! Nodes and their disks.

use maud::{Markup, html};
use weft_host::status::{NodeState, NodeStatus, Status};

use super::{Frame, chart, scroll, words};
use crate::actions::Action;

/// The page.
pub(crate) fn disks(frame: &Frame<'_>, status: &Status) -> String {
    let with_errors = || status.nodes.iter().filter(|n| n.errors.is_some_and(|e| !e.is_none()));
    let content = html! {
        section {
            h2 #nodes { "Nodes" }
            @if status.nodes.is_empty() { p { "There are none." } }
            @else { (scroll("Nodes", &table(&status.nodes))) }
            @for node in status.nodes.iter().filter(|n| n.why.is_some() || n.trouble.is_some() || n.absence.is_some()) {
                (away(node))
            }
        }
        @if with_errors().next().is_some() {
            section {
                h2 { "Errors of disks" }
                div.acts {
                    @for node in with_errors() {
                        @let number = node.node.to_string();
                        div {
                            p { "Node " (number) ": " @if let Some(errors) = node.errors { (errors) } }
                            @if frame.acts() {
                                (frame.button(&format!("Reset the counts of node {number}"),
                                    &Action::ClearErrors { node: node.node.into() },
                                    &[("action", "clear-errors"), ("node", &number)]))
                            }
                        }
                    }
                }
            }
        }
        (balance(frame, status))
        @if status.cluster.is_some() { (processes(status)) }
    };
    frame.page("Disks and nodes", &content)
}

fn state(node: &NodeStatus) -> Markup {
    let state = node.state;
    match state {
        NodeState::Up => html! { span.good { (state) } },
        NodeState::Lost | NodeState::Down if !node.host => html! { span.bad { (state) } },
        NodeState::CatchingUp | NodeState::Hung | NodeState::Slow | NodeState::Suspect => {
            html! { span.warn { (state) } }
        }
        _ => html! { (state) },
    }
}

fn table(nodes: &[NodeStatus]) -> Markup {
    html! {
        table aria-labelledby="nodes" {
            thead {
                tr {
                    th scope="col" { "Node" }
                    th scope="col" { "State" }
                    th scope="col" { "Used" }
                    th.n scope="col" { "Disk" }
                    th.n scope="col" { "Queue" }
                    th.n scope="col" { "Errors" }
                    th scope="col" { "Where" }
                    th scope="col" { "Path of the disk" }
                }
            }
            tbody {
                @for node in nodes {
                    tr {
                        th scope="row" { (node.node) @if let Some(name) = &node.name { " (" (name) ")" } }
                        td { (state(node)) }
                        td { (used(node)) }
                        td.n { (node.disk_bytes.map_or("-".to_string(), words::bytes)) }
                        td.n { @if let Some(queued) = node.queued { (queued) } @else { "-" } }
                        td.n { @if let Some(e) = node.errors { (e.read + e.write + e.checksum) } @else { "-" } }
                        td { (place(node)) }
                        td.wide { (node.disk.as_deref().unwrap_or("-")) }
                    }
                }
            }
        }
    }
}

fn used(node: &NodeStatus) -> Markup {
    let (Some(used), Some(free)) = (node.used_bytes, node.free_bytes) else { return html! { "-" } };
    let percent = words::percent(used, used + free);
    let label = format!("{percent:.0} % used");
    html! { (label) (chart::bar(&label, percent)) }
}

/// The address and labels of its process.
fn place(node: &NodeStatus) -> Markup {
    html! {
        @if let Some(address) = &node.address { (address) } @else { "this process" }
        @for (label, value) in node.labels.iter().flatten() { br; (label) " " (value) }
    }
}

/// Why a node is away, and what becomes of it.
fn away(node: &NodeStatus) -> Markup {
    html! {
        p {
            "Node " (node.node) " is " (node.state)
            @if let Some(absence) = &node.absence { ", for " (words::seconds(absence.down_seconds)) }
            @if let Some(why) = &node.why { ": " (why) }
            @if let Some(trouble) = &node.trouble { ": " (trouble) }
            @if let Some(absence) = &node.absence {
                @if let Some(left) = absence.given_up_in_seconds { ". It is given up in " (words::seconds(left)) }
                @if let Some(hindrance) = &absence.hindrance { ". It is not given up: " (hindrance) }
            }
        }
    }
}

fn balance(frame: &Frame<'_>, status: &Status) -> Markup {
    let balance = &status.balance;
    let action = Action::Rebalance { start: !balance.rebalancing };
    html! {
        section {
            h2 { "Balance" }
            p {
                @if balance.rebalancing { "Data is being moved until the disks are equally full." }
                @else if balance.uneven { "The disks could be more equally full." }
                @else { "The disks are equally full." }
            }
            @if frame.acts() && (balance.rebalancing || balance.uneven) {
                div.acts {
                    @if balance.rebalancing { (frame.button("Stop", &action, &[("action", "stop-rebalance")])) }
                    @else { (frame.button("Rebalance", &action, &[("action", "rebalance")])) }
                }
            }
        }
    }
}

fn processes(status: &Status) -> Markup {
    let Some(cluster) = &status.cluster else { return html! {} };
    html! {
        section {
            h2 { "Processes" }
            dl.numbers {
                dt { "This process" } dd { (cluster.node) }
                dt { "Leader" } dd { @if let Some(leader) = cluster.leader { (leader) } @else { span.bad { "none" } } }
                dt { "Votes" } dd { (cluster.voters.len()) }
                dt { "Connected to" } dd { (cluster.connected.len()) }
            }
            @if !cluster.links.is_empty() {
                ul { @for link in &cluster.links { li { "to process " (link.to) ": " (link.over) } } }
            }
            @for detour in cluster.detours.iter().filter(|d| d.bad) {
                p.warn { "The connection from process " (detour.from) " to " (detour.to) " is bad." }
            }
        }
    }
}
