//! What the loss of nodes, more disks or other layouts would mean.

use std::collections::BTreeSet;

use maud::{Markup, html};
use weft_host::status::{
    NodeStatus, PredictedDisk, PredictedLayout, PredictedMode, PredictedMoves, PredictedRebuild,
    PredictedVolume, Prediction, Status,
};

use super::{Frame, chart, scroll, words};

/// What the form asks: a node or process that would be lost, disks that would be added and layouts that volumes would have, as
/// they were typed.
pub(crate) struct Question<'a> {
    pub(crate) lose: &'a str,
    pub(crate) add: &'a str,
    pub(crate) layout: &'a str,
}

/// The page, with the prediction or why there is none, if one was asked for.
pub(crate) fn what_if(
    frame: &Frame<'_>,
    status: &Status,
    question: &Question<'_>,
    prediction: Option<&Result<Prediction, String>>,
) -> String {
    let content = html! {
        section {
            p { "What would become of the volumes if a disk or a machine were lost now. Nothing is changed." }
            (form(status, question))
        }
        @match prediction {
            None => {}
            Some(Err(why)) => section { p.bad role="alert" { (why) } },
            Some(Ok(prediction)) => {
                (answer(prediction))
                p { code { (command(frame, question)) } }
            }
        }
    };
    frame.page("What if", &content)
}

fn form(status: &Status, question: &Question<'_>) -> Markup {
    let has_disk = |n: &&NodeStatus| !n.host && !n.controller;
    let nodes: Vec<&NodeStatus> = status.nodes.iter().filter(has_disk).collect();
    let names: BTreeSet<&str> = nodes.iter().filter_map(|n| n.name.as_deref()).collect();
    let chosen = |value: &str| value == question.lose;
    html! {
        form method="get" action="/what-if" {
            label {
                "Lost"
                select name="lose" {
                    option value="" { "nothing" }
                    @for name in names { option value=(name) selected[chosen(name)] { "all nodes of " (name) } }
                    @for node in nodes {
                        @let number = node.node.to_string();
                        option value=(number) selected[chosen(&number)] {
                            "node " (number) @if let Some(name) = &node.name { " (" (name) ")" }
                        }
                    }
                }
            }
            label {
                "Added before, such as 16T, or 16T@box3,16T@box3"
                input name="add" value=(question.add) autocapitalize="none" spellcheck="false";
            }
            label {
                "Other layouts, such as db=rs:4+2"
                input name="layout" value=(question.layout) autocapitalize="none" spellcheck="false";
            }
            button type="submit" { "Predict" }
        }
    }
}

/// The command that asks the same.
fn command(frame: &Frame<'_>, question: &Question<'_>) -> String {
    let mut command = "weft cluster what-if".to_string();
    let Question { lose, add, layout } = question;
    for (option, value) in [("--lose", lose), ("--add", add), ("--layout", layout)] {
        if !value.is_empty() {
            command += &format!(" {option} {value}");
        }
    }
    format!("{command} --dir {}", frame.directory)
}

fn answer(prediction: &Prediction) -> Markup {
    html! {
        @if !prediction.layouts.is_empty() {
            section {
                h2 #layouts { "Layouts" }
                (scroll("Layouts", &layouts(&prediction.layouts)))
                @for predicted in prediction.layouts.iter().filter(|p| !p.fits_beside) {
                    p.warn {
                        "There is no space for " (predicted.volume) " in both layouts at once, which copying it to a new \
                         volume needs."
                    }
                }
            }
        }
        @if !prediction.lost.is_empty() {
            section {
                h2 #then { "Volumes" }
                (scroll("Volumes", &volumes(&prediction.volumes)))
                p { (rebuild(&prediction.rebuild)) }
                @for volume in prediction.volumes.iter().filter(|v| !v.has_room) {
                    p.bad {
                        "Volume " (volume.name) " would not be rebuilt in full: the other disks lack space, or are in \
                         failure domains that have columns already. See whether another disk suffices."
                    }
                }
            }
        }
        @if let Some(moves) = prediction.rebalance { section { h2 { "Balance" } p { (moved(moves)) } } }
        section {
            h2 #disks { "Disks" }
            (scroll("Disks", &disks(&prediction.disks)))
        }
    }
}

fn layouts(all: &[PredictedLayout]) -> Markup {
    html! {
        table aria-labelledby="layouts" {
            thead {
                tr {
                    th scope="col" { "Volume" }
                    th scope="col" { "Layout" }
                    th.n scope="col" { "On disks" }
                    th.n scope="col" { "Disks" }
                    th scope="col" { "May be lost" }
                    th scope="col" { "MTTDL" }
                }
            }
            tbody {
                @for predicted in all {
                    @for (when, figures) in [("now", &predicted.now), ("then", &predicted.then)] {
                        tr {
                            th scope="row" { (predicted.volume) " " (when) }
                            td { (figures.layout) }
                            td.n { (words::bytes(figures.bytes_on_disks)) }
                            td.n { (figures.disks) }
                            td { (nodes(figures.survives)) }
                            td { (format!("{:.1e} hours", figures.mttdl_hours)) }
                        }
                    }
                }
            }
        }
    }
}

fn nodes(n: usize) -> String {
    match n {
        1 => "1 node".to_string(),
        n => format!("{n} nodes"),
    }
}

fn volumes(all: &[PredictedVolume]) -> Markup {
    let nodes = |volume: &PredictedVolume, n: usize| match volume.then {
        PredictedMode::Failed => "-".to_string(),
        _ => nodes(n),
    };
    html! {
        table aria-labelledby="then" {
            thead {
                tr {
                    th scope="col" { "Volume" }
                    th scope="col" { "Then" }
                    th scope="col" { "May then be lost" }
                    th scope="col" { "After the rebuild" }
                }
            }
            tbody {
                @for volume in all {
                    tr {
                        th scope="row" { (volume.name) }
                        td {
                            @match volume.then {
                                PredictedMode::Failed => span.bad { "failed" },
                                PredictedMode::Degraded => span.warn { "degraded" },
                                PredictedMode::AsNow => span.good { "as now" },
                            }
                        }
                        td { (nodes(volume, volume.survives)) }
                        td { (nodes(volume, volume.survives_rebuilt)) }
                    }
                }
            }
        }
    }
}

fn rebuild(rebuild: &PredictedRebuild) -> String {
    if rebuild.bytes == 0 {
        return "Nothing would be rebuilt.".to_string();
    }
    let (all, most) = (words::bytes(rebuild.bytes), words::bytes(rebuild.most_bytes_on_a_disk));
    let mut text = format!("{all} would be rebuilt, at most {most} on a disk.");
    if let Some(seconds) = rebuild.seconds_at_floor {
        text += &format!(" That takes {} while hosts use the disks", words::seconds(seconds));
        text += &match rebuild.seconds_at_ceiling {
            Some(seconds) => format!(", and {} while none does.", words::seconds(seconds)),
            None => ", and less while none does.".to_string(),
        };
    }
    text
}

fn moved(moves: PredictedMoves) -> String {
    match moves.columns {
        0 => "Rebalancing would move nothing to the added disks.".to_string(),
        n => format!("Rebalancing would move {n} columns, {}.", words::bytes(moves.bytes)),
    }
}

fn disks(all: &[PredictedDisk]) -> Markup {
    let full = |used: u64, disk: &PredictedDisk| {
        let percent = words::percent(used, disk.bytes);
        let label = format!("up to {percent:.0} %");
        html! { (label) (chart::bar(&label, percent)) }
    };
    html! {
        table aria-labelledby="disks" {
            thead {
                tr {
                    th scope="col" { "Node" }
                    th.n scope="col" { "Disk" }
                    th scope="col" { "Now" }
                    th.n scope="col" { "Rebuilt on it" }
                    th scope="col" { "Then" }
                }
            }
            tbody {
                @for disk in all {
                    tr {
                        th scope="row" { (disk.node) }
                        td.n { (words::bytes(disk.bytes)) }
                        td { (full(disk.used_bytes, disk)) }
                        td.n { (words::bytes(disk.rebuilt_bytes)) }
                        td { (full(disk.used_bytes_after, disk)) }
                    }
                }
            }
        }
    }
}
