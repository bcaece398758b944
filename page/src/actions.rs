//! What users with the right to act can do. It goes through the array's control socket as the command does that it
//! equals, and is in the log with the user's name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weft_host::{
    About, ControlRequest, DiskAction, Error, HangUp, Level, Log, RebalanceAction, Result,
};

use crate::ask::Asker;
use crate::http::Fields;
use crate::sessions::Notice;

/// How long a user waits before they are told that it goes on.
const PATIENCE: Duration = Duration::from_secs(8);

/// The most actions at a time.
const MOST: usize = 16;

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Scrub { volume: String },
    StopScrub { volume: String },
    Snapshot { volume: String, name: String },
    DeleteSnapshot { snapshot: String },
    Undelete { volume: String },
    Rebalance { start: bool },
    ClearErrors { node: usize },
    Disconnect { address: String },
}

impl Action {
    /// What a form asks for.
    pub(crate) fn of(form: &Fields) -> std::result::Result<Action, &'static str> {
        let text = |name: &str, missing: &'static str| match form.get(name).trim() {
            "" => Err(missing),
            text => Ok(text.to_string()),
        };
        let volume = || text("volume", "the form names no volume");
        match form.get("action") {
            "scrub" => Ok(Action::Scrub { volume: volume()? }),
            "stop-scrub" => Ok(Action::StopScrub { volume: volume()? }),
            "snapshot" => {
                let name = text("name", "give the snapshot a name")?;
                Ok(Action::Snapshot { volume: volume()?, name })
            }
            "delete-snapshot" => match volume()? {
                snapshot if snapshot.contains('@') => match form.get("sure") {
                    "yes" => Ok(Action::DeleteSnapshot { snapshot }),
                    _ => Err("a deleted snapshot cannot be restored: tick the box if you mean it"),
                },
                _ => {
                    Err("only snapshots can be deleted here; for a volume use `weft volume delete`")
                }
            },
            "undelete" => Ok(Action::Undelete { volume: volume()? }),
            "rebalance" => Ok(Action::Rebalance { start: true }),
            "stop-rebalance" => Ok(Action::Rebalance { start: false }),
            "clear-errors" => {
                let node = form.get("node").parse().map_err(|_| "the form names no node")?;
                Ok(Action::ClearErrors { node })
            }
            "disconnect" => {
                Ok(Action::Disconnect { address: text("address", "the form names no address")? })
            }
            _ => Err("this action does not exist"),
        }
    }

    /// The command that it equals.
    pub(crate) fn command(&self, dir: &str) -> String {
        let words = match self {
            Action::Scrub { volume } => format!("scrub {}", quoted(volume)),
            Action::StopScrub { volume } => {
                return format!(
                    "Ctrl-C of {}",
                    Action::Scrub { volume: volume.clone() }.command(dir)
                );
            }
            Action::Snapshot { volume, name } => {
                format!("volume snapshot {} {}", quoted(volume), quoted(name))
            }
            Action::DeleteSnapshot { snapshot } => {
                format!("volume delete {} --yes", quoted(snapshot))
            }
            Action::Undelete { volume } => format!("volume undelete {}", quoted(volume)),
            Action::Rebalance { start: true } => "cluster rebalance --no-wait".to_string(),
            Action::Rebalance { start: false } => "cluster rebalance --cancel".to_string(),
            Action::ClearErrors { node } => format!("disk clear {node}"),
            Action::Disconnect { address } => format!("host disconnect {}", quoted(address)),
        };
        match dir {
            "" => format!("weft {words}"),
            dir => format!("weft {words} --dir {}", quoted(dir)),
        }
    }

    /// Where a user finds what came of it.
    pub(crate) fn page(&self) -> String {
        let volume = |name: &str| {
            let name = name.split('@').next().unwrap_or(name);
            let query: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
            format!("/volume?name={query}")
        };
        match self {
            Action::Scrub { volume: name }
            | Action::StopScrub { volume: name }
            | Action::Snapshot { volume: name, .. }
            | Action::DeleteSnapshot { snapshot: name } => volume(name),
            Action::Undelete { .. } => "/volumes".to_string(),
            Action::Rebalance { .. } | Action::ClearErrors { .. } => "/disks".to_string(),
            Action::Disconnect { .. } => "/hosts".to_string(),
        }
    }

    /// What the array is asked.
    fn request(&self) -> Option<ControlRequest> {
        Some(match self.clone() {
            Action::Scrub { volume } => {
                let (rate, trust, suspect) = (None, None, None);
                ControlRequest::Scrub { volume, from: 0, rate, trust, suspect, alone: false }
            }
            Action::StopScrub { .. } => return None,
            Action::Snapshot { volume, name } => {
                ControlRequest::VolumeSnapshot { volumes: vec![volume], snapshot: name }
            }
            Action::DeleteSnapshot { snapshot } => ControlRequest::volume_delete(&snapshot),
            Action::Undelete { volume } => ControlRequest::VolumeUndelete { name: volume },
            Action::Rebalance { start } => ControlRequest::Rebalance {
                action: if start { RebalanceAction::Start } else { RebalanceAction::Stop },
            },
            Action::ClearErrors { node } => ControlRequest::disk(DiskAction::Clear, node),
            Action::Disconnect { address } => {
                ControlRequest::HostDisconnect { address: Some(address), volume: None }
            }
        })
    }

    /// What its answer says.
    fn said(&self, answer: &Value) -> String {
        let of = |answer: &Value, key: &str| answer[key].as_u64().unwrap_or(0);
        let below = || answer["below"].as_array().into_iter().flatten();
        let count = |key: &str| of(answer, key) + below().map(|b| of(b, key)).sum::<u64>();
        match self {
            Action::Scrub { .. } => format!(
                "done: {} stripes verified, {} units rebuilt, {} wrong, {} unclear, {} skipped",
                count("verified"),
                count("rebuilt"),
                count("mismatched"),
                count("unclear"),
                count("skipped")
            ),
            Action::Disconnect { .. } => format!("done: {} disconnected", count("disconnected")),
            _ => "done".to_string(),
        }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@._-/:[]".contains(c);
    match !word.is_empty() && word.chars().all(plain) && !word.starts_with('-') {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Who acts.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) name: String,
    pub(crate) from: IpAddr,
}

/// Actions, and those under way.
#[derive(Clone)]
pub(crate) struct Actions {
    asker: Arc<Asker>,
    log: Log,
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Default)]
struct UnderWay {
    next: u64,
    all: BTreeMap<u64, (Action, HangUp)>,
}

impl Actions {
    pub(crate) fn new(asker: Arc<Asker>, log: Log) -> Actions {
        Actions { asker, log, under_way: Arc::default() }
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a scrub of a volume was begun here and goes on.
    pub(crate) fn scrubs(&self, volume: &str) -> bool {
        let is = |a: &Action| matches!(a, Action::Scrub { volume: v } if v == volume);
        self.under_way().all.values().any(|(action, _)| is(action))
    }

    /// Does it, and says what came of it or that it goes on.
    pub(crate) fn act(&self, actor: &Actor, action: &Action, dir: &str) -> Notice {
        let command = action.command(dir);
        let notice = |text: String, is_good| Notice { command: command.clone(), text, is_good };
        let Some(request) = action.request() else {
            let stopped = self.stop(action);
            self.write(actor, &command, if stopped { "done" } else { "refused: there was none" });
            return match stopped {
                true => notice("done: the scrub ends".to_string(), true),
                false => {
                    notice("no scrub of this volume was started at this page".to_string(), false)
                }
            };
        };
        let (tell, told) = channel();
        if let Err(e) =
            self.begin(actor, action, &command, request, move |said| drop(tell.send(said)))
        {
            self.write(actor, &command, &format!("refused: {e}"));
            return notice(e.to_string(), false);
        }
        let patience =
            if matches!(action, Action::Scrub { .. }) { PATIENCE / 16 } else { PATIENCE };
        match told.recv_timeout(patience) {
            Ok(Ok(said)) => notice(said, true),
            Ok(Err(e)) => notice(e.to_string(), false),
            Err(RecvTimeoutError::Timeout) => {
                self.write(actor, &command, "begun");
                notice(
                    "started: it is in progress, and the events will show its result".to_string(),
                    true,
                )
            }
            Err(RecvTimeoutError::Disconnected) => {
                notice("it ended without an answer; see the log".to_string(), false)
            }
        }
    }

    /// Ends a scrub that was begun here.
    fn stop(&self, action: &Action) -> bool {
        let Action::StopScrub { volume } = action else { return false };
        let scrub = Action::Scrub { volume: volume.clone() };
        let under_way = self.under_way();
        let those = under_way.all.values().filter(|(action, _)| *action == scrub);
        those.map(|(_, hang_up)| hang_up.now()).count() > 0
    }

    /// Has a thread do it.
    fn begin(
        &self,
        actor: &Actor,
        action: &Action,
        command: &str,
        request: ControlRequest,
        tell: impl FnOnce(Result<String>) + Send + 'static,
    ) -> Result<()> {
        let mut control = self.asker.connect()?;
        let number = {
            let mut under_way = self.under_way();
            if under_way.all.len() >= MOST {
                return Err(Error(format!("{MOST} actions are in progress; wait for one of them")));
            }
            let is_scrub = matches!(action, Action::Scrub { .. });
            if is_scrub && under_way.all.values().any(|(other, _)| other == action) {
                return Err(Error("a scrub of this volume is already in progress".to_string()));
            }
            let number = under_way.next;
            under_way.next += 1;
            under_way.all.insert(number, (action.clone(), control.hang_up()?));
            number
        };
        let (actions, actor, action) = (self.clone(), actor.clone(), action.clone());
        let command = command.to_string();
        let run = move || {
            let said = control.request(&request).map(|answer| action.said(&answer));
            actions.under_way().all.remove(&number);
            actions.asker.forget();
            let result = said.as_ref().map_or_else(|e| format!("refused: {e}"), String::clone);
            actions.write(&actor, &command, &result);
            tell(said);
        };
        let started = thread::Builder::new().name("page-action".to_string()).spawn(run);
        started.map(drop).map_err(|e| {
            self.under_way().all.remove(&number);
            Error(format!("cannot start a thread: {e}"))
        })
    }

    /// Writes to the log what came of it.
    fn write(&self, Actor { name, from }: &Actor, command: &str, result: &str) {
        let from = format!("user {name} at {from} through the page");
        let about = About {
            from: Some(from.clone()),
            action: Some("change"),
            result: Some(result.to_string()),
            ..About::default()
        };
        self.log.say(Level::Info, &about, &format!("change: `{command}`, from {from}: {result}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Request;

    fn form(body: &str) -> Fields {
        let length = body.len();
        let text = format!("POST /do HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        Request::read(&mut text.as_bytes()).unwrap().form
    }

    #[test]
    fn a_form_says_what_to_do_and_which_command_that_is() {
        for (body, command, page) in [
            ("action=scrub&volume=v", "weft scrub v --dir /d", "/volume?name=v"),
            ("action=stop-scrub&volume=v", "Ctrl-C of weft scrub v --dir /d", "/volume?name=v"),
            (
                "action=snapshot&volume=v&name=+a+",
                "weft volume snapshot v a --dir /d",
                "/volume?name=v",
            ),
            (
                "action=delete-snapshot&sure=yes&volume=v%40a",
                "weft volume delete v@a --yes --dir /d",
                "/volume?name=v",
            ),
            ("action=undelete&volume=v", "weft volume undelete v --dir /d", "/volumes"),
            ("action=rebalance", "weft cluster rebalance --no-wait --dir /d", "/disks"),
            ("action=stop-rebalance", "weft cluster rebalance --cancel --dir /d", "/disks"),
            ("action=clear-errors&node=3", "weft disk clear 3 --dir /d", "/disks"),
            (
                "action=disconnect&address=10.0.0.1:99",
                "weft host disconnect 10.0.0.1:99 --dir /d",
                "/hosts",
            ),
            (
                "action=scrub&volume=a'b%26%3C",
                r"weft scrub 'a'\''b&<' --dir /d",
                "/volume?name=a%27b%26%3C",
            ),
        ] {
            let action = Action::of(&form(body)).unwrap();
            assert_eq!((action.command("/d").as_str(), action.page().as_str()), (command, page));
        }
        let action = Action::of(&form("action=clear-errors&node=0")).unwrap();
        assert_eq!(action.command("a dir"), "weft disk clear 0 --dir 'a dir'");
        assert_eq!(action.command(""), "weft disk clear 0");
    }

    #[test]
    fn bad_forms_are_refused() {
        for (body, why) in [
            ("", "action does not exist"),
            ("action=shutdown", "action does not exist"),
            ("action=scrub", "names no volume"),
            ("action=snapshot&volume=v&name=+", "give the snapshot a name"),
            ("action=delete-snapshot&volume=v", "only snapshots"),
            ("action=delete-snapshot&volume=v%40a", "tick the box"),
            ("action=clear-errors&node=-1", "names no node"),
            ("action=clear-errors&node=9999999999999999999999", "names no node"),
            ("action=disconnect", "names no address"),
        ] {
            let said = Action::of(&form(body)).unwrap_err();
            assert!(said.contains(why), "{body}: {said}");
        }
    }

    #[test]
    fn what_is_refused_is_told_and_in_the_log() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Log::new(move |_, line| kept.lock().unwrap().push(line.to_string()));
        let asker = Asker::new(|| Err(Error("none runs".to_string())));
        let actions = Actions::new(Arc::new(asker), log);
        let actor = Actor { name: "ann".to_string(), from: IpAddr::from([10, 0, 0, 1]) };
        let notice = actions.act(&actor, &Action::Rebalance { start: true }, "/d");
        assert_eq!((notice.text.as_str(), notice.is_good), ("none runs", false));
        let stop = Action::StopScrub { volume: "v".to_string() };
        assert!(!actions.act(&actor, &stop, "/d").is_good && !actions.scrubs("v"));
        let lines = lines.lock().unwrap();
        let expected = "change: `weft cluster rebalance --no-wait --dir /d`, from user ann at 10.0.0.1 through the page: \
                        refused: none runs";
        assert_eq!((lines.len(), lines[0].as_str()), (2, expected));
    }
}
