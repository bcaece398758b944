//! Which page a request gets: nothing but the form to log in without a session, and no action without the right to it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weft_host::status::Status;
use weft_host::{About, ControlRequest, Level, Log, Result, Sparing};
use weft_net::identity::Identity;

use crate::actions::{Action, Actions, Actor};
use crate::ask::Asker;
use crate::attempts::Attempts;
use crate::events::Events;
use crate::http::{Method, Request, Response};
use crate::samples::Samples;
use crate::sessions::{LONGEST, Notice, Sessions, Who};
use crate::users::{Role, Users};
use crate::views::{self, Certificate, Frame, Overview};

const STYLE: &str = include_str!("style.css");

/// Who sends a request.
pub(crate) struct Caller {
    pub(crate) from: IpAddr,
    pub(crate) now: Instant,
}

/// Everything that is shown.
pub(crate) struct Site {
    asker: Arc<Asker>,
    events: Events,
    actions: Actions,
    samples: Mutex<Samples>,
    sessions: Mutex<Sessions>,
    attempts: Mutex<Attempts>,
    log: Log,
    /// The log for what strangers may cause as often as they like.
    complaints: Sparing,
    /// The directory of the process.
    dir: PathBuf,
    /// The same, whole, for commands.
    shown: String,
    /// The name of the cookie. Cookies of all ports of a machine are sent to each, so it has the port.
    cookie: String,
    is_secure: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    pub(crate) fn new(
        asker: Arc<Asker>,
        events: Events,
        log: Log,
        dir: PathBuf,
        port: u16,
        is_secure: bool,
    ) -> Site {
        Site {
            actions: Actions::new(asker.clone(), log.clone()),
            asker,
            events,
            samples: Mutex::default(),
            sessions: Mutex::default(),
            attempts: Mutex::default(),
            complaints: Sparing::new(log.clone(), "the page"),
            log,
            shown: std::path::absolute(&dir).unwrap_or(dir.clone()).display().to_string(),
            dir,
            cookie: format!("weft-{port}"),
            is_secure,
        }
    }

    /// Those who may log in.
    pub(crate) fn users(&self) -> Result<Users> {
        Users::load(&self.dir)
    }

    /// Looks at the array, for the course of the last hour.
    pub(crate) fn sample(&self) {
        let status = self.asker.status();
        let now = Instant::now();
        lock(&self.samples).look(status.ok().as_deref(), now);
        self.complaints.sum_up(now);
    }

    /// The answer to a request.
    pub(crate) fn respond(&self, request: &Request, caller: &Caller) -> Response {
        let is_post = request.method == Method::Post;
        if is_post && request.is_from_elsewhere() {
            let text = "This form was sent by another site, so nothing was done.";
            return Response::page("403 Forbidden", views::bare("Refused", text));
        }
        if request.path == "/style.css" && !is_post {
            return Response::style(STYLE);
        }
        let users = match self.users() {
            Ok(users) => users,
            Err(_) => {
                let text = "The file of users cannot be read; see the log of the process.";
                self.complain(&format!(
                    "page: {}",
                    self.users().err().map_or(String::new(), |e| e.0)
                ));
                return Response::page("503 Service Unavailable", views::bare("No login", text));
            }
        };
        if request.path == "/login" && is_post {
            return self.log_in(request, caller, &users);
        }
        let number = request.cookie(&self.cookie).unwrap_or_default();
        let who = lock(&self.sessions).find(number, &users, caller.now);
        match (who, is_post) {
            (None, false) if request.path == "/login" => Response::ok(views::login(None)),
            (None, _) => Response::see("/login"),
            (Some(who), false) => self.show(request, &who),
            (Some(who), true) => self.act(request, &who, caller),
        }
    }

    fn complain(&self, line: &str) {
        self.complaints.say_of(Instant::now(), About::default(), line);
    }

    fn log_in(&self, request: &Request, caller: &Caller, users: &Users) -> Response {
        let (name, password) = (request.form.get("name"), request.form.get("password"));
        let about = |result: &str| About {
            from: Some(caller.from.to_string()),
            action: Some("login"),
            result: Some(result.to_string()),
            ..About::default()
        };
        let from = caller.from;
        // Judged one after the other: many at a time are not more attempts, nor more memory for hashes.
        let mut attempts = lock(&self.attempts);
        let now = Instant::now();
        if let Some(left) = attempts.too_early(from, name, now) {
            let seconds = left.as_secs() + 1;
            let text = format!("There were too many wrong passwords. Try again in {seconds} s.");
            let response = Response::page("429 Too Many Requests", views::login(Some(&text)));
            return response.with("Retry-After", seconds.to_string());
        }
        let Some(user) = users.prove(name, password) else {
            attempts.wrong(from, (name, users.find(name).is_some()), now);
            let line = format!(
                "login: user '{name}' at {from} at the page is refused: wrong name or password"
            );
            self.complaints.say_of(now, about("password"), &line);
            let text = "The name or the password is wrong.";
            return Response::page("401 Unauthorized", views::login(Some(text)));
        };
        attempts.right(from, name, now);
        drop(attempts);
        let number = match lock(&self.sessions).begin(user, caller.now) {
            Ok(number) => number,
            Err(e) => {
                return Response::page("500 Internal Server Error", views::bare("No login", &e.0));
            }
        };
        let line = format!("login: user {name} at {from} at the page: may {}", user.role.word());
        self.log.say(Level::Info, &about("accepted"), &line);
        Response::see("/").with("Set-Cookie", self.cookie_line(&number, LONGEST.as_secs()))
    }

    fn cookie_line(&self, number: &str, seconds: u64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = &self.cookie;
        format!("{name}={number}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }

    /// Does what somebody with a session asks.
    fn act(&self, request: &Request, who: &Who, caller: &Caller) -> Response {
        if !who.gave(request.form.get("csrf")) {
            let text = "This form is not from this session, so nothing was done. Go back, reload the page, and retry.";
            return Response::page("403 Forbidden", views::bare("Refused", text));
        }
        if request.path == "/logout" {
            lock(&self.sessions).end(who);
            return Response::see("/login").with("Set-Cookie", self.cookie_line("", 0));
        }
        if request.path != "/do" {
            return Response::page(
                "404 Not Found",
                views::bare("Not found", "This page does not exist."),
            );
        }
        if who.role < Role::Act {
            let name = &who.name;
            let text =
                format!("User {name} may only look. `weft user role {name} act` lets them act.");
            return Response::page("403 Forbidden", views::bare("Refused", &text));
        }
        let action = match Action::of(&request.form) {
            Ok(action) => action,
            Err(why) => return Response::page("400 Bad Request", views::bare("Refused", why)),
        };
        let actor = Actor { name: who.name.clone(), from: caller.from };
        let notice = self.actions.act(&actor, &action, &self.shown);
        self.asker.forget();
        lock(&self.sessions).tell(who, notice);
        Response::see(&action.page())
    }

    /// Shows a page to somebody with a session.
    fn show(&self, request: &Request, who: &Who) -> Response {
        let path = request.path.as_str();
        let known = ["/", "/volumes", "/volume", "/disks", "/hosts", "/slow", "/what-if"];
        if path == "/login" {
            return Response::see("/");
        }
        if !known.contains(&path) {
            return Response::page(
                "404 Not Found",
                views::bare("Not found", "This page does not exist."),
            );
        }
        let notice = lock(&self.sessions).told(who);
        let status = match self.asker.status() {
            Ok(status) => status,
            Err(e) => {
                let frame = frame(path, who, notice.as_ref(), &self.shown);
                let body = views::unanswered(&frame, &e.0, &self.events.all());
                return Response::page("503 Service Unavailable", body);
            }
        };
        let frame = frame(path, who, notice.as_ref(), &self.shown);
        match path {
            "/" => self.overview(request, &frame, &status),
            "/volumes" => Response::ok(views::volumes(&frame, &status)),
            "/volume" => self.volume(request.query.get("name"), &frame, &status),
            "/disks" => Response::ok(views::disks(&frame, &status)),
            "/hosts" => match self.asker.known_hosts() {
                Ok(known) => Response::ok(views::hosts(&frame, &status, &known, seconds_now())),
                Err(e) => Response::page(
                    "503 Service Unavailable",
                    views::unanswered(&frame, &e.0, &self.events.all()),
                ),
            },
            "/what-if" => self.what_if(request, &frame, &status),
            _ => Response::ok(views::slow(&frame, &self.events.slow())),
        }
    }

    fn overview(&self, request: &Request, frame: &Frame<'_>, status: &Status) -> Response {
        let refreshes = request.query.get("refresh") != "off";
        let (samples, newest) = {
            let samples = lock(&self.samples);
            (samples.all(), samples.newest())
        };
        let (wrong, early) = {
            let attempts = lock(&self.attempts);
            (attempts.wrong, attempts.early)
        };
        let (events, certificates) = (self.events.all(), self.certificates());
        let overview = Overview {
            status,
            samples: &samples,
            newest,
            events: &events,
            certificates: &certificates,
            wrong,
            early,
            refreshes,
        };
        let response = Response::ok(views::overview(frame, &overview));
        match refreshes {
            true => response.with("Refresh", "10".to_string()),
            false => response,
        }
    }

    fn volume(&self, name: &str, frame: &Frame<'_>, status: &Status) -> Response {
        match status.volumes.iter().find(|v| v.name == name) {
            Some(volume) => {
                let scrubs = self.actions.scrubs(name);
                Response::ok(views::volume(frame, status, volume, scrubs))
            }
            None => {
                let text = "There is no volume of this name.";
                Response::page("404 Not Found", views::bare("Not found", text))
            }
        }
    }

    fn what_if(&self, request: &Request, frame: &Frame<'_>, status: &Status) -> Response {
        let asked = |key: &str| request.query.get(key).trim();
        let (lose, add, layout) = (asked("lose"), asked("add"), asked("layout"));
        let list = |text: &str| -> Vec<String> {
            text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_string).collect()
        };
        let (lost, added, layouts) = (list(lose), list(add), list(layout));
        let is_asked = !(lost.is_empty() && added.is_empty() && layouts.is_empty());
        let predict = || {
            let question = ControlRequest::what_if(status, &lost, &added, &layouts)?;
            self.asker.predict(&question)
        };
        let prediction = is_asked.then(|| predict().map_err(|e| e.0));
        let question = views::Question { lose, add, layout };
        Response::ok(views::what_if(frame, status, &question, prediction.as_ref()))
    }

    /// The certificates that this process can see: its own, and those of known hosts. The shortest comes first.
    fn certificates(&self) -> Vec<Certificate> {
        let now = seconds_now();
        let of = |name: String, until: u64| Certificate {
            name,
            days: (until as i64 - now as i64).div_euclid(86_400),
        };
        // An array in one process has none of its own.
        let own = Identity::load(&self.dir).ok();
        let own = own.map(|own| of(format!("this process, {}", own.name()), own.until()));
        let known = self.asker.known_hosts().unwrap_or_default();
        let hosts =
            known.into_iter().filter_map(|h| Some(of(format!("host {}", h.name), h.until?)));
        let mut all: Vec<_> = own.into_iter().chain(hosts).collect();
        all.sort_by_key(|c| c.days);
        all
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn frame<'a>(
    path: &'a str,
    who: &'a Who,
    notice: Option<&'a Notice>,
    directory: &'a str,
) -> Frame<'a> {
    Frame { path, who, notice, directory }
}

#[cfg(test)]
mod tests;
