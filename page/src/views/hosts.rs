//! Hosts: those that are connected, those that the cluster knows, and what they may do.

use maud::{Markup, html};
use weft_host::status::{HostStatus, Status};

use super::{Frame, scroll};
use crate::actions::Action;
use crate::ask::KnownHost;

/// The page.
pub(crate) fn hosts(frame: &Frame<'_>, status: &Status, known: &[KnownHost], now: u64) -> String {
    let content = html! {
        section {
            h2 #connected { "Connected to this process" }
            @if status.hosts.is_empty() { p { "No host is." } }
            @else { (scroll("Connected hosts", &connected(&status.hosts))) }
            @if frame.acts() && !status.hosts.is_empty() { (disconnect(frame, status)) }
        }
        section {
            h2 #known { "Known to the cluster" }
            @if known.is_empty() { p { "No host has been added. " code { "weft host create NAME" } " adds one." } }
            @else { (scroll("Known hosts", &table(known, now))) }
        }
        section {
            h2 { "Addresses" }
            @if status.listens.is_empty() { p { "This process serves no hosts." } }
            @else { ul { @for listen in &status.listens { li { code { (listen) } } } } }
        }
    };
    frame.page("Hosts", &content)
}

fn connected(hosts: &[HostStatus]) -> Markup {
    html! {
        table aria-labelledby="connected" {
            thead {
                tr {
                    th scope="col" { "Address" }
                    th scope="col" { "Host" }
                    th scope="col" { "Volume" }
                    th scope="col" { "Protocol" }
                    th scope="col" { "May" }
                    th.n scope="col" { "Node" }
                }
            }
            tbody {
                @for host in hosts {
                    tr {
                        th scope="row" { (host.address) }
                        td { (host.host.as_deref().unwrap_or("-")) }
                        td { (host.volume.as_deref().unwrap_or("-")) }
                        td { (host.protocol) @if host.tls { ", TLS" } }
                        td { @if host.read_only { "read" } @else { "read and write" } }
                        td.n { (host.node) }
                    }
                }
            }
        }
    }
}

/// Forms that end the connections of an address.
fn disconnect(frame: &Frame<'_>, status: &Status) -> Markup {
    let addresses: std::collections::BTreeSet<&str> =
        status.hosts.iter().map(|h| h.address.as_str()).collect();
    html! {
        div.acts {
            @for address in addresses {
                (frame.button(&format!("Disconnect {address}"),
                    &Action::Disconnect { address: address.to_string() },
                    &[("action", "disconnect"), ("address", address)]))
            }
        }
    }
}

fn table(known: &[KnownHost], now: u64) -> Markup {
    html! {
        table aria-labelledby="known" {
            thead {
                tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Authenticates by" }
                    th scope="col" { "Volumes with a list that it may use" }
                }
            }
            tbody {
                @for host in known {
                    tr {
                        th scope="row" { (host.name) }
                        td { (proof(host, now)) }
                        td {
                            @if host.volumes.is_empty() { "none" }
                            @for (n, right) in host.volumes.iter().enumerate() {
                                @if n > 0 { ", " }
                                (right.volume) " (" (right.access) ")"
                            }
                        }
                    }
                }
            }
        }
    }
}

fn proof(host: &KnownHost, now: u64) -> Markup {
    let days = host.until.map(|until| (until as i64 - now as i64).div_euclid(86_400));
    html! {
        @match days {
            Some(days) if days < 0 => { span.bad { "an expired certificate" } },
            Some(days) => { "a certificate, " (days) " days left" },
            None => {},
        }
        @if host.secret { @if days.is_some() { " or " } "a CHAP secret" }
        @if days.is_none() && !host.secret { "nothing" }
    }
}
