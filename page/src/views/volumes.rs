//! Volumes and their snapshots.

use maud::{Markup, html};
use weft_host::status::{LatencyStatus, Status, VolumeMode, VolumeStatus};

use super::overview::{survives, visible};
use super::{Frame, scroll, words};
use crate::actions::Action;

fn link(name: &str) -> String {
    let query: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("/volume?name={query}")
}

fn mode(mode: VolumeMode) -> Markup {
    match mode {
        VolumeMode::Failed | VolumeMode::NotServed => html! { span.bad { (mode) } },
        VolumeMode::Degraded | VolumeMode::Reconstructing => html! { span.warn { (mode) } },
        VolumeMode::FaultFree => html! { span.good { (mode) } },
        VolumeMode::Migrating | VolumeMode::Unfinished | VolumeMode::Deleted => html! { (mode) },
    }
}

/// All volumes.
pub(crate) fn volumes(frame: &Frame<'_>, status: &Status) -> String {
    let deleted = || {
        let is_gone = |v: &&VolumeStatus| v.mode == VolumeMode::Deleted && !v.name.contains('@');
        status.volumes.iter().filter(is_gone)
    };
    let content = html! {
        section {
            h2 #volumes { "Volumes" }
            @if visible(status).next().is_none() { p { "There are none yet." } }
            @else { (scroll("Volumes", &table(visible(status)))) }
        }
        @if deleted().next().is_some() {
            section {
                h2 { "Deleted" }
                div.acts {
                    @for volume in deleted() {
                        div {
                            p {
                                (volume.name) ", " (words::bytes(volume.size))
                                @if let Some(left) = volume.deleted_seconds_left { ": can be restored for " (words::seconds(left)) }
                            }
                            @if frame.acts() {
                                (frame.button("Bring back", &Action::Undelete { volume: volume.name.clone() },
                                    &[("action", "undelete"), ("volume", &volume.name)]))
                            }
                        }
                    }
                }
            }
        }
    };
    frame.page("Volumes", &content)
}

fn table<'a>(volumes: impl Iterator<Item = &'a VolumeStatus>) -> Markup {
    html! {
        table aria-labelledby="volumes" {
            thead {
                tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Now" }
                    th.n scope="col" { "Size" }
                    th scope="col" { "Layout" }
                    th scope="col" { "Survives" }
                    th.n scope="col" { "Hosts" }
                    th.n scope="col" { "Snapshots" }
                }
            }
            tbody {
                @for volume in volumes {
                    tr {
                        th scope="row" { a href=(link(&volume.name)) { (volume.name) } }
                        td { (mode(volume.mode)) }
                        td.n { (words::bytes(volume.size)) }
                        td { (volume.layout) @if volume.thin { ", thin" } }
                        td { (survives(volume)) }
                        td.n { (volume.clients) }
                        td.n { (volume.snapshots) }
                    }
                }
            }
        }
    }
}

/// One volume, and whether it is being scrubbed by an action of this page.
pub(crate) fn volume(
    frame: &Frame<'_>,
    status: &Status,
    of: &VolumeStatus,
    scrubs: bool,
) -> String {
    let title = match &of.snapshot_of {
        Some(_) => format!("Snapshot {}", of.name),
        None => format!("Volume {}", of.name),
    };
    let content = html! {
        (state(of))
        @if let Some(warning) = &of.warning { section.notice.no { p { (warning) } } }
        @if of.snapshot_of.is_none() { (snapshots(frame, status, of)) }
        @if frame.acts() && of.mode != VolumeMode::Deleted { (scrub(frame, of, scrubs)) }
        (rights(of))
        (choices(of))
    };
    frame.page(&title, &content)
}

fn state(of: &VolumeStatus) -> Markup {
    let exposed = of.exposed.as_ref();
    html! {
        section {
            h2 { "State" }
            dl.numbers {
                dt { "Now" } dd { (mode(of.mode)) }
                dt { "Survives" } dd { (survives(of)) }
                dt { "Size" } dd { (words::bytes(of.size)) }
                @if let Some(used) = of.used_bytes { dt { "Takes" } dd { (words::bytes(used)) } }
                dt { "Exposed" } dd { (words::bytes(exposed.map_or(0, |e| e.bytes))) }
                dt { "Lost" } dd { (words::bytes(exposed.map_or(0, |e| e.lost_bytes))) }
                dt { "Degraded extents" } dd { (of.extents_degraded) small { " of " (of.extents) } }
                dt { "Failed extents" } dd { (of.extents_failed) small { " of " (of.extents) } }
                dt { "Hosts connected" } dd { (of.clients) }
                @if let Some(latency) = of.latency {
                    (measure("Reads", latency.reads))
                    (measure("Writes", latency.writes))
                    (measure("Flushes", latency.flushes))
                }
            }
            @if let Some(snapshot_of) = &of.snapshot_of { p { "Of volume " a href=(link(snapshot_of)) { (snapshot_of) } } }
            @if !of.missing.is_empty() {
                p.bad { "Missing nodes: " @for (n, m) in of.missing.iter().enumerate() { @if n > 0 { ", " } (m.node) } }
            }
        }
    }
}

fn measure(name: &str, of: Option<LatencyStatus>) -> Markup {
    let ms = |us: u64| words::milliseconds(us as f64 / 1e3);
    html! {
        @if let Some(of) = of {
            dt { (name) ", p50 and p99" } dd { (ms(of.p50_us)) small { " and " (ms(of.p99_us)) } }
        }
    }
}

fn snapshots(frame: &Frame<'_>, status: &Status, of: &VolumeStatus) -> Markup {
    let is_its = |v: &&VolumeStatus| v.snapshot_of.as_deref() == Some(of.name.as_str());
    let all = || status.volumes.iter().filter(is_its).filter(|v| v.mode != VolumeMode::Deleted);
    let take = Action::Snapshot { volume: of.name.clone(), name: "NAME".to_string() };
    html! {
        section {
            h2 { "Snapshots" }
            @for kind in &of.schedule {
                p.faint {
                    "Scheduled, " (kind.kind) ": " (kind.snapshots) " of " (kind.keep) " kept; the next at " (kind.next)
                    @if let Some(hindrance) = &kind.hindrance { span.warn { ". It cannot be taken: " (hindrance) } }
                }
            }
            @if all().next().is_none() { p { "There are none." } }
            div.acts {
                @for snapshot in all() {
                    div {
                        p {
                            a href=(link(&snapshot.name)) { (snapshot.name) }
                            @if let Some(taken) = &snapshot.taken { ", taken " (words::time(taken)) }
                            @if let Some(bytes) = snapshot.exclusive_bytes { ", " (words::bytes(bytes)) " of its own" }
                        }
                        @if frame.acts() {
                            (delete(frame, &snapshot.name))
                        }
                    }
                }
                @if frame.acts() && of.mode != VolumeMode::Deleted {
                    form method="post" action="/do" {
                        (frame.csrf())
                        input type="hidden" name="action" value="snapshot";
                        input type="hidden" name="volume" value=(of.name);
                        label { "Name of a new snapshot" input name="name" required maxlength="64" autocomplete="off"; }
                        button type="submit" { "Take it" }
                        code { (take.command(frame.directory)) }
                    }
                }
            }
        }
    }
}

/// The form that deletes a snapshot: that cannot be undone.
fn delete(frame: &Frame<'_>, name: &str) -> Markup {
    let action = Action::DeleteSnapshot { snapshot: name.to_string() };
    html! {
        form method="post" action="/do" {
            (frame.csrf())
            input type="hidden" name="action" value="delete-snapshot";
            input type="hidden" name="volume" value=(name);
            label.tick { input type="checkbox" name="sure" value="yes" required; " It cannot be restored" }
            button type="submit" { "Delete " (name) }
            code { (action.command(frame.directory)) }
        }
    }
}

fn scrub(frame: &Frame<'_>, of: &VolumeStatus, scrubs: bool) -> Markup {
    let volume = || of.name.clone();
    html! {
        section {
            h2 { "Scrub" }
            div.acts {
                @if scrubs {
                    p { "A scrub that was started at this page is in progress." }
                    (frame.button("Stop the scrub", &Action::StopScrub { volume: volume() },
                        &[("action", "stop-scrub"), ("volume", &of.name)]))
                } @else {
                    p { "A scrub reads and verifies every stripe, at 100 MiB/s of each disk at most." }
                    (frame.button("Scrub", &Action::Scrub { volume: volume() },
                        &[("action", "scrub"), ("volume", &of.name)]))
                }
            }
        }
    }
}

fn rights(of: &VolumeStatus) -> Markup {
    html! {
        section {
            h2 { "Access" }
            @match &of.hosts {
                None => { p { "All accepted hosts." } },
                Some(hosts) if hosts.is_empty() => { p { "Nobody." } },
                Some(hosts) => { ul { @for (host, access) in hosts { li { (host) ": " (access) } } } },
            }
            @if let Some(reservation) = &of.reservation { p { "Reserved: " (reservation) } }
        }
    }
}

fn choices(of: &VolumeStatus) -> Markup {
    html! {
        section {
            h2 #choices { "Choices" }
            (scroll("Choices", &html! {
                table aria-labelledby="choices" {
                    thead { tr { th scope="col" { "Choice" } th scope="col" { "Value" } } }
                    tbody {
                        tr { th scope="row" { "layout" } td { (of.layout) } }
                        tr { th scope="row" { "stripe unit" } td { (words::bytes(of.stripe_unit)) } }
                        tr { th scope="row" { "kept apart by" } td { (of.apart) } }
                        @for (name, value) in &of.policy { tr { th scope="row" { (name.replace('_', "-")) } td { (value) } } }
                    }
                }
            }))
        }
    }
}
