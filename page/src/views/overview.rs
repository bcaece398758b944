//! The first page: how the array is, what may be lost, how full it is and how fast.

use maud::{Markup, html};
use weft_host::status::{LatencyStatus, NodeStatus, Status, VolumeMode, VolumeStatus};

use super::{Frame, chart, events, words};
use crate::events::Event;
use crate::samples::Sample;

/// Certificates with fewer days are marked.
const FEW_DAYS: i64 = 14;

/// A certificate, and how long it is good.
pub(crate) struct Certificate {
    pub(crate) name: String,
    pub(crate) days: i64,
}

/// The content of the page.
pub(crate) struct Overview<'a> {
    pub(crate) status: &'a Status,
    pub(crate) samples: &'a [Option<Sample>],
    pub(crate) newest: Option<Sample>,
    pub(crate) events: &'a [Event],
    pub(crate) certificates: &'a [Certificate],
    /// Wrong passwords, and attempts that came too early after them.
    pub(crate) wrong: u64,
    pub(crate) early: u64,
    /// Whether the browser loads the page again by itself.
    pub(crate) refreshes: bool,
}

/// The page.
pub(crate) fn overview(frame: &Frame<'_>, overview: &Overview<'_>) -> String {
    let Overview { status, samples, newest, .. } = *overview;
    let content = html! {
        (health(status))
        div.grid {
            (risk(status))
            (capacity(status))
            (progress(status))
            (slowest(status))
        }
        (speed(samples, newest))
        div.grid.broad {
            (certificates(overview.certificates))
            (logins(overview))
        }
        (events(overview.events))
        p.faint {
            @if overview.refreshes { "This page reloads every 10 s. " a href="/?refresh=off" { "Stop reloading" } }
            @else { a href="/" { "Reload this page every 10 s" } }
        }
    };
    frame.page("Overview", &content)
}

fn health(status: &Status) -> Markup {
    let summary = status.summary();
    let word = summary.health.to_string();
    html! {
        section class={ "health " (word) } {
            h2 { "Health" }
            p.word { (word) }
            @if summary.reasons.is_empty() { p { "All data is available and fully redundant." } }
            @else { ul { @for reason in &summary.reasons { li { (reason) } } } }
        }
    }
}

/// The volumes that hosts see, without snapshots.
pub(super) fn visible(status: &Status) -> impl Iterator<Item = &VolumeStatus> {
    status.volumes.iter().filter(|v| v.snapshot_of.is_none() && v.mode != VolumeMode::Deleted)
}

/// How many nodes a volume bears to lose.
pub(super) fn survives(volume: &VolumeStatus) -> Markup {
    match volume.survives {
        None => html! { span.bad { "unknown" } },
        Some(0) => html! { span.warn { "no loss" } },
        Some(1) => html! { "any 1 node" },
        Some(n) => html! { "any " (n) " nodes" },
    }
}

/// What may still be lost, and the exposed data.
fn risk(status: &Status) -> Markup {
    let exposed = || visible(status).filter_map(|v| v.exposed.as_ref());
    let bytes: u64 = exposed().map(|e| e.bytes).sum();
    let lost: u64 = exposed().map(|e| e.lost_bytes).sum();
    let oldest = exposed().map(|e| e.oldest_seconds).fold(0.0, f64::max);
    let weakest = visible(status).filter_map(|v| v.survives).min();
    let those = || visible(status).filter(|v| v.survives == weakest);
    html! {
        section {
            h2 { "What may be lost" }
            dl.numbers {
                dt { "Every volume survives" }
                dd {
                    @match weakest {
                        None => "-",
                        Some(0) => { span.bad { "no further loss" } },
                        Some(1) => "1 more node",
                        Some(n) => { (n) " more nodes" },
                    }
                }
                dt { "Exposed (parity waits)" }
                dd { (words::bytes(bytes)) @if bytes > 0 { small { ", for up to " (words::seconds(oldest as u64)) } } }
                dt { "Permanently lost" }
                dd { @if lost > 0 { span.bad { (words::bytes(lost)) } } @else { "nothing" } }
            }
            @if let Some(weakest) = weakest.filter(|_| those().count() < visible(status).count()) {
                p.faint {
                    "Fewest (" (weakest) "): "
                    @for (n, volume) in those().take(5).enumerate() { @if n > 0 { ", " } (volume.name) }
                    @if those().count() > 5 { " and " (those().count() - 5) " more" }
                }
            }
        }
    }
}

fn capacity(status: &Status) -> Markup {
    let sum = |of: fn(&NodeStatus) -> Option<u64>| status.nodes.iter().filter_map(of).sum::<u64>();
    let (all, used, free) = (sum(|n| n.disk_bytes), sum(|n| n.used_bytes), sum(|n| n.free_bytes));
    let percent = words::percent(used, used + free);
    let balance = &status.balance;
    html! {
        section {
            h2 { "Capacity" }
            dl.numbers {
                dt { "Used or reserved" } dd { (words::bytes(used)) }
                dt { "Free" } dd { (words::bytes(free)) }
                dt { "Disks" } dd { (words::bytes(all)) }
            }
            (chart::bar(&format!("{percent:.0} % used"), percent))
            p.faint {
                (format!("{percent:.0} % used; the fullest disk {:.0} %, the emptiest {:.0} %", balance.fullest_percent, balance.emptiest_percent))
                @if balance.rebalancing { ". Data is being moved until they are equal" }
            }
        }
    }
}

/// What goes on in the background.
fn progress(status: &Status) -> Markup {
    let rebuilds = || status.nodes.iter().filter(|n| n.stale_sectors.is_some_and(|s| s > 0));
    let moving = visible(status).filter(|v| v.extents_migrating > 0).count();
    html! {
        section {
            h2 { "Rebuild and scrub" }
            @for node in rebuilds() {
                p {
                    "Node " (node.node) " rebuilds: "
                    (words::bytes(node.stale_sectors.unwrap_or(0) * weft_core::SECTOR)) " left"
                    @if let Some(rate) = node.rebuilt_bytes_per_second { ", at " (words::bytes(rate)) "/s" }
                    @if let Some(left) = node.rebuild_seconds_left { ", for about " (words::seconds(left)) }
                }
            }
            @for scrub in &status.scrubs {
                @let percent = words::percent(scrub.done(), scrub.stripes);
                @let label = format!("scrub of {} at {percent:.0} %", scrub.volume.as_deref().unwrap_or("a deleted volume"));
                p {
                    "Node " (scrub.node) ": " (label) "; " (scrub.rebuilt) " rebuilt, " (scrub.mismatched) " wrong, "
                    (scrub.unclear) " unclear"
                }
                (chart::bar(&label, percent))
            }
            @if moving > 0 { p { "Data of " (moving) " volumes moves to other nodes." } }
            @if rebuilds().next().is_none() && status.scrubs.is_empty() && moving == 0 { p { "No work is in progress." } }
        }
    }
}

/// The slowest disk beside its peers, and the one at which most waits.
fn slowest(status: &Status) -> Markup {
    let slow = status.nodes.iter().filter_map(|n| Some((n, n.slow.as_ref()?)));
    let worst = |s: &weft_host::status::SlowStatus| s.read_microseconds.max(s.write_microseconds);
    let slowest = slow.max_by_key(|(_, slow)| worst(slow));
    let busiest = status.nodes.iter().filter(|n| n.queued > Some(0)).max_by_key(|n| n.queued);
    let compared =
        |its: Option<u64>, others: Option<u64>| Some((its? as f64 / 1e3, others? as f64 / 1e3));
    html! {
        section {
            h2 { "Slowest disk" }
            @match slowest {
                None => { p { "No disk is much slower than the others." } },
                Some((node, slow)) => {
                    @for (verb, both) in [
                        ("reads", compared(slow.read_microseconds, slow.others_microseconds)),
                        ("writes", compared(slow.write_microseconds, slow.others_write_microseconds)),
                    ] {
                        @if let Some((its, others)) = both {
                            p.warn {
                                "Node " (node.node) ": half of its " (verb) " take " (words::milliseconds(its))
                                ", those of the others " (words::milliseconds(others))
                            }
                        }
                    }
                },
            }
            @if let Some(node) = busiest {
                p { "Longest queue: node " (node.node) ", " (node.queued.unwrap_or(0)) " operations" }
            }
        }
    }
}

/// Rates and latencies, now and in the last hour.
fn speed(samples: &[Option<Sample>], newest: Option<Sample>) -> Markup {
    let of = |value: fn(&Sample) -> Option<f64>| -> Vec<Option<f64>> {
        samples.iter().map(|s| value(s.as_ref()?)).collect()
    };
    let ms = |us: u64| us as f64 / 1e3;
    let per_second = |n: f64| format!("{}/s", words::rate(n));
    let bytes = |n: f64| format!("{}/s", words::bytes(n as u64));
    html! {
        section {
            h2 { "Speed" }
            div.grid.broad {
                (measure("Requests of hosts", newest.map(|s| per_second(s.requests)),
                    &chart::course("Requests", &of(|s| Some(s.requests)), per_second)))
                (measure("Data between nodes", newest.map(|s| bytes(s.wire)),
                    &chart::course("Data", &of(|s| Some(s.wire)), bytes)))
                (measure("Reads and writes of disks", newest.map(|s| per_second(s.disk)),
                    &chart::course("Disk operations", &of(|s| Some(s.disk)), per_second)))
                (measure("Latency of reads", newest.and_then(|s| latency(s.reads)),
                    &chart::course("p99", &of(|s| s.reads.map(|l| l.p99_us as f64 / 1e3)), words::milliseconds)))
                (measure("Latency of writes", newest.and_then(|s| latency(s.writes)),
                    &chart::course("p99", &of(|s| s.writes.map(|l| l.p99_us as f64 / 1e3)), words::milliseconds)))
            }
            p.faint {
                "Rates are of all nodes, in the last 10 s. Latencies are those of requests that this process answered in the last
                 minute or two: of each number the highest of any volume."
                @if let Some(most) = newest.and_then(|s| Some(s.reads?.most_us.max(s.writes?.most_us))) {
                    " The slowest request took " (words::milliseconds(ms(most))) "."
                }
            }
        }
    }
}

fn latency(of: Option<LatencyStatus>) -> Option<String> {
    let of = of?;
    let ms = |us: u64| words::milliseconds(us as f64 / 1e3);
    Some(format!("p50 {}, p99 {}", ms(of.p50_us), ms(of.p99_us)))
}

fn measure(name: &str, now: Option<String>, course: &Markup) -> Markup {
    html! {
        div {
            dl.numbers { dt { (name) } dd { (now.as_deref().unwrap_or("-")) } }
            (course)
        }
    }
}

fn certificates(all: &[Certificate]) -> Markup {
    html! {
        section {
            h2 { "Certificates" }
            @if all.is_empty() { p { "This process has none, and neither do its hosts." } }
            @else {
                ul {
                    @for Certificate { name, days } in all.iter().take(20) {
                        li {
                            (name) ": "
                            @match *days {
                                days if days < 0 => { span.bad { "expired" } },
                                days if days < FEW_DAYS => { span.warn { (days) " days left" } },
                                days => { (days) " days left" },
                            }
                        }
                    }
                }
                @if all.len() > 20 { p.faint { "and " (all.len() - 20) " that are valid for longer" } }
            }
        }
    }
}

fn logins(overview: &Overview<'_>) -> Markup {
    let logins = &overview.status.logins;
    let refused: u64 = logins.refused.values().sum();
    html! {
        section {
            h2 { "Logins" }
            dl.numbers {
                dt { "Accepted hosts" } dd { (logins.accepted) }
                dt { "Hosts refused" } dd { (refused) }
                dt { "Wrong passwords at this page" } dd { (overview.wrong) }
                dt { "Attempts too soon after them" } dd { (overview.early) }
            }
            p.faint { "Since this process was started." }
        }
    }
}
