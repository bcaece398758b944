//! The pages. Whatever stands in them is escaped by the templates.

mod chart;
mod disks;
mod hosts;
mod overview;
mod volumes;
mod what_if;
mod words;

use maud::{DOCTYPE, Markup, html};
use weft_host::Level;

use crate::actions::Action;
use crate::events::{Event, Slow};
use crate::sessions::{Notice, Who};
use crate::users::Role;

pub(crate) use disks::disks;
pub(crate) use hosts::hosts;
pub(crate) use overview::{Certificate, Overview, overview};
pub(crate) use volumes::{volume, volumes};
pub(crate) use what_if::{Question, what_if};

/// What every page has.
pub(crate) struct Frame<'a> {
    /// Its path.
    pub(crate) path: &'a str,
    pub(crate) who: &'a Who,
    /// What there is to tell the user.
    pub(crate) notice: Option<&'a Notice>,
    /// The directory of the array, for commands.
    pub(crate) directory: &'a str,
}

/// All pages.
const PAGES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/volumes", "Volumes"),
    ("/disks", "Disks and nodes"),
    ("/hosts", "Hosts"),
    ("/slow", "Slow requests"),
    ("/what-if", "What if"),
];

fn document(title: &str, body: &Markup) -> String {
    let all = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - Weft" }
                link rel="stylesheet" href="/style.css";
            }
            body { (body) }
        }
    };
    all.into_string()
}

impl Frame<'_> {
    /// A page with this in it.
    fn page(&self, title: &str, content: &Markup) -> String {
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header {
                div.inner {
                    strong { "Weft" }
                    (self.navigation())
                    form method="post" action="/logout" {
                        (self.csrf())
                        span { (self.who.name) @if self.who.role == Role::Read { " (may only look)" } }
                        button type="submit" { "Log out" }
                    }
                }
            }
            main #content {
                h1 { (title) }
                @if let Some(notice) = self.notice {
                    section.notice.no[!notice.is_good] role="status" {
                        p { (notice.text) }
                        p { code { (notice.command) } }
                    }
                }
                (content)
            }
            footer { "Weft " (env!("CARGO_PKG_VERSION")) @if !self.directory.is_empty() { ", " (self.directory) } }
        };
        document(title, &body)
    }

    fn navigation(&self) -> Markup {
        let is_here = |path| path == self.path || (path, self.path) == ("/volumes", "/volume");
        html! {
            nav aria-label="Pages" {
                ul {
                    @for (path, name) in PAGES {
                        li { a href=(path) aria-current=[is_here(path).then_some("page")] { (name) } }
                    }
                }
            }
        }
    }

    fn csrf(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.who.csrf); }
    }

    /// Whether the user may act.
    fn acts(&self) -> bool {
        self.who.role >= Role::Act
    }

    /// A button that does something, with the command that it equals. `fields` are those of the form.
    fn button(&self, label: &str, action: &Action, fields: &[(&str, &str)]) -> Markup {
        html! {
            form method="post" action="/do" {
                (self.csrf())
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button type="submit" { (label) }
                code { (action.command(self.directory)) }
            }
        }
    }
}

/// A table that can be scrolled sideways, by the keyboard too.
fn scroll(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// The form to log in, and why the last attempt was refused.
pub(crate) fn login(wrong: Option<&str>) -> String {
    let body = html! {
        main.login {
            h1 { "Weft" }
            section {
                form method="post" action="/login" {
                    @if let Some(wrong) = wrong { p.bad role="alert" { (wrong) } }
                    label { "Name" input name="name" autocomplete="username" autocapitalize="none" required autofocus; }
                    label { "Password" input name="password" type="password" autocomplete="current-password" required; }
                    button type="submit" { "Log in" }
                }
            }
        }
    };
    document("Log in", &body)
}

/// A page with a sentence.
pub(crate) fn bare(title: &str, text: &str) -> String {
    let body = html! {
        main.login {
            h1 { (title) }
            section { p { (text) } p { a href="/" { "To the overview" } } }
        }
    };
    document(title, &body)
}

/// The page when the array does not answer.
pub(crate) fn unanswered(frame: &Frame<'_>, why: &str, last: &[Event]) -> String {
    let content = html! {
        section.health.failed {
            h2 { "Health" }
            p.word { "unknown" }
            ul { li { (why) } }
        }
        (events(last))
    };
    frame.page("No answer", &content)
}

/// The last events.
fn events(events: &[Event]) -> Markup {
    html! {
        section {
            h2 #events { "Events of this process" }
            @if events.is_empty() { p.faint { "The log of this process is empty." } }
            @else {
                (scroll("Events", &html! {
                    table aria-labelledby="events" {
                        thead { tr { th scope="col" { "Time (UTC)" } th scope="col" { "Level" } th scope="col" { "Event" } } }
                        tbody {
                            @for event in events {
                                tr {
                                    td.when { (words::time(&event.when)) }
                                    td { (level(event.level)) }
                                    td.wide { (event.line) }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn level(level: Level) -> Markup {
    match level {
        Level::Error => html! { span.bad { "error" } },
        Level::Warning => html! { span.warn { "warning" } },
        Level::Info => html! { "info" },
    }
}

/// What took long.
pub(crate) fn slow(frame: &Frame<'_>, slow: &[Slow]) -> String {
    let content = html! {
        section {
            h2 #slow { "Slow requests and disk operations of this process" }
            p.faint { "The last hundred lines of the log about these." }
            @if slow.is_empty() { p { "There were none." } }
            @else { (scroll("Slow requests", &slow_table(slow))) }
        }
    };
    frame.page("Slow requests", &content)
}

fn slow_table(slow: &[Slow]) -> Markup {
    html! {
        table aria-labelledby="slow" {
            thead {
                tr {
                    th scope="col" { "Time (UTC)" }
                    th.n scope="col" { "Took" }
                    th scope="col" { "Volume" }
                    th.n scope="col" { "Node" }
                    th scope="col" { "Line" }
                }
            }
            tbody {
                @for one in slow {
                    tr {
                        td.when { (words::time(&one.event.when)) }
                        td.n { (words::milliseconds(one.milliseconds)) }
                        td { (one.volume.as_deref().unwrap_or("-")) }
                        td.n { @if let Some(node) = one.node { (node) } @else { "-" } }
                        td.wide { (one.event.line) }
                    }
                }
            }
        }
    }
}
