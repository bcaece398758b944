//! Pages and those who see them. The array answers as a test wants.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_host::Control;
use weft_host::status::{
    AbsenceStatus, DiskErrors, ExposedStatus, HostStatus, NodeState, NodeStatus, ScheduleStatus,
    VolumeMode, VolumeStatus,
};

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const PASSWORD: &str = "correct horse";

/// A name that would be more than text if it were not escaped.
const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// A site of an array with this status.
struct Fixture {
    site: Site,
    now: Instant,
    _dir: TempDir,
}

/// Answers questions at a control socket as an array does.
fn fake_array(dir: &std::path::Path, status: Status) {
    let listener = UnixListener::bind(dir.join("control.sock")).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let status = status.clone();
            thread::spawn(move || answer_all(BufReader::new(stream.unwrap()), &status));
        }
    });
}

fn answer_all(mut stream: BufReader<UnixStream>, status: &Status) {
    let mut line = String::new();
    while stream.read_line(&mut line).unwrap_or(0) > 0 {
        let asked: Value = serde_json::from_str(&line).unwrap();
        line.clear();
        let mut answer = match asked["cmd"].as_str() {
            Some("status") => json!(status),
            // It goes on until whoever asked hangs up.
            Some("scrub") => continue,
            Some("hosts") => json!({ "known": [{
                "name": HOSTILE, "until": 1, "secret": true,
                "volumes": [{ "volume": HOSTILE, "access": HOSTILE }],
            }] }),
            Some("what-if") => json!({ "prediction": {
                "lost": asked["lost"], "rebuild": { "bytes": 4096, "seconds_at_floor": 61 },
                "volumes": [{ "name": HOSTILE, "then": "degraded", "survives": 1, "has_room": false }],
            } }),
            _ => json!({ "disconnected": 2 }),
        };
        answer["ok"] = json!(true);
        if writeln!(stream.get_mut(), "{answer}").is_err() {
            break;
        }
    }
}

impl Fixture {
    fn new(status: Status) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut users = Users::load(dir.path()).unwrap();
        users.add("ann", Role::Act, PASSWORD).unwrap();
        users.add("ben", Role::Read, PASSWORD).unwrap();
        fake_array(dir.path(), status);
        let path = dir.path().to_path_buf();
        let asker = Arc::new(Asker::new(move || Control::connect(&path)));
        let events = Events::default();
        let log = events.heard(Log::silent());
        let path = dir.path().to_path_buf();
        let site = Site::new(asker, events, log, path, 10_800, false);
        Fixture { site, now: Instant::now(), _dir: dir }
    }

    fn send(&self, text: &str) -> Response {
        let request = Request::read(&mut text.as_bytes()).unwrap();
        self.site.respond(&request, &Caller { from: HERE, now: self.now })
    }

    fn get(&self, path: &str, cookie: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\n\r\n"))
    }

    fn post(&self, path: &str, cookie: &str, body: &str) -> Response {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Logs in, and returns the cookie and what forms have to say.
    fn log_in(&self, name: &str) -> (String, String) {
        let response = self.post("/login", "", &format!("name={name}&password=correct+horse"));
        let (status, _, lines) = response.parts();
        assert_eq!(status, "303 See Other");
        let cookie = line(lines, "Set-Cookie");
        assert!(cookie.ends_with("Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_string();
        let page = self.get("/volumes", &cookie);
        let csrf = page.parts().1.split("name=\"csrf\" value=\"").nth(1).unwrap();
        (cookie, csrf.split('"').next().unwrap().to_string())
    }
}

fn line<'a>(lines: &'a [(&'static str, String)], name: &str) -> &'a str {
    lines.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value)
}

fn is(response: &Response, status: &str, has: &str) {
    let (found, body, _) = response.parts();
    assert!(found.starts_with(status) && body.contains(has), "{found}: {body}");
}

/// Every text in it is hostile.
fn hostile() -> Status {
    let text = || HOSTILE.to_string();
    let volume = VolumeStatus {
        name: text(),
        layout: text(),
        apart: text(),
        warning: Some(text()),
        hosts: Some([(text(), text())].into()),
        reservation: Some(text()),
        policy: [(text(), text())].into(),
        schedule: vec![ScheduleStatus {
            kind: text(),
            next: text(),
            hindrance: Some(text()),
            ..ScheduleStatus::default()
        }],
        ..VolumeStatus::default()
    };
    let snapshot = VolumeStatus {
        name: format!("{HOSTILE}@{HOSTILE}"),
        snapshot_of: Some(text()),
        taken: Some(text()),
        ..VolumeStatus::default()
    };
    let gone = VolumeStatus { name: text(), mode: VolumeMode::Deleted, ..VolumeStatus::default() };
    let node = NodeStatus {
        name: Some(text()),
        why: Some(text()),
        trouble: Some(text()),
        disk: Some(text()),
        address: Some(text()),
        labels: Some([(text(), text())].into()),
        errors: Some(DiskErrors { read: 1, ..DiskErrors::default() }),
        absence: Some(AbsenceStatus { hindrance: Some(text()), ..AbsenceStatus::default() }),
        ..NodeStatus::default()
    };
    let host = HostStatus {
        address: text(),
        protocol: text(),
        volume: Some(text()),
        host: Some(text()),
        ..HostStatus::default()
    };
    Status {
        directory: text(),
        listens: vec![text()],
        volumes: vec![volume, snapshot, gone],
        nodes: vec![node],
        hosts: vec![host],
        host_warnings: vec![text()],
        cut_off: Some(text()),
        ..Status::default()
    }
}

#[test]
fn without_a_session_nothing_but_the_form_is_shown() {
    let fixture = Fixture::new(hostile());
    for path in ["/", "/volumes", "/volume?name=v", "/disks", "/hosts", "/slow", "/nonsense", "/do"]
    {
        for cookie in ["", "weft-10800=", "weft-10800=00", "weft=1; x=y"] {
            let response = fixture.get(path, cookie);
            let (status, body, lines) = response.parts();
            assert_eq!((status, body, line(lines, "Location")), ("303 See Other", "", "/login"));
        }
    }
    is(&fixture.post("/do", "", "action=scrub&volume=v"), "303", "");
    let form = fixture.get("/login", "");
    is(&form, "200", "type=\"password\"");
    assert!(!form.parts().1.contains("alert"));
    is(&fixture.get("/style.css", ""), "200", "prefers-color-scheme: dark");
}

#[test]
fn wrong_passwords_are_refused_and_slowed() {
    let fixture = Fixture::new(Status::default());
    let attempt = |name: &str, password: &str| {
        fixture.post("/login", "", &format!("name={name}&password={password}"))
    };
    for (name, password) in [("ann", "wrong"), ("", ""), ("nobody", "correct+horse")] {
        is(&attempt(name, password), "401", "The name or the password is wrong.");
    }
    let early = attempt("ann", "correct+horse");
    is(&early, "429", "too many wrong passwords");
    assert!(matches!(line(early.parts().2, "Retry-After"), "1" | "2"));
    let elsewhere = Caller { from: IpAddr::from([10, 0, 0, 9]), now: fixture.now };
    let body = "name=ben&password=correct+horse";
    let text = format!("POST /login HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let request = Request::read(&mut text.as_bytes()).unwrap();
    is(&fixture.site.respond(&request, &elsewhere), "303", "");
    let attempts = lock(&fixture.site.attempts);
    assert_eq!((attempts.wrong, attempts.early), (3, 1));
    drop(attempts);
    let said: Vec<String> = fixture.site.events.all().into_iter().map(|e| e.line).collect();
    assert!(said[1].contains("user 'nobody' at 127.0.0.1 at the page is refused"), "{said:?}");
    assert!(said[0].contains("user ben at 10.0.0.9 at the page: may read"), "{said:?}");
}

#[test]
fn who_may_only_look_does_nothing() {
    let fixture = Fixture::new(Status::default());
    let (cookie, csrf) = fixture.log_in("ben");
    for action in ["scrub&volume=v", "rebalance", "disconnect&address=1", "nonsense"] {
        let response = fixture.post("/do", &cookie, &format!("csrf={csrf}&action={action}"));
        is(&response, "403", "may only look");
    }
    assert!(fixture.site.events.all().iter().all(|e| !e.line.starts_with("change")));
    fixture.site.users().unwrap().set_role("ben", Role::Act).unwrap();
    let response =
        fixture.post("/do", &cookie, &format!("csrf={csrf}&action=disconnect&address=1"));
    is(&response, "303", "");
    is(&fixture.get("/hosts", &cookie), "200", "done: 2 disconnected");
    let told = fixture.get("/hosts", &cookie);
    assert!(!told.parts().1.contains("done: 2"), "it is told once");
    let last = &fixture.site.events.all()[0].line;
    let dir = &fixture.site.shown;
    let expected = format!(
        "change: `weft host disconnect 1 --dir {dir}`, from user ben at 127.0.0.1 through the page: done: 2 disconnected"
    );
    assert_eq!(*last, expected);
}

#[test]
fn a_scrub_that_was_begun_can_be_stopped() {
    let volume = VolumeStatus { name: "v".to_string(), ..VolumeStatus::default() };
    let fixture = Fixture::new(Status { volumes: vec![volume], ..Status::default() });
    let (cookie, csrf) = fixture.log_in("ann");
    let act = |action: &str| {
        is(
            &fixture.post("/do", &cookie, &format!("csrf={csrf}&action={action}&volume=v")),
            "303",
            "",
        );
        fixture.get("/volume?name=v", &cookie)
    };
    is(&act("stop-scrub"), "200", "no scrub of this volume was started");
    let begun = act("scrub");
    is(&begun, "200", "started: it is in progress");
    is(&begun, "200", "Stop the scrub");
    is(&act("scrub"), "200", "is already in progress");
    is(&act("stop-scrub"), "200", "done: the scrub ends");
    // Its thread finds out by itself.
    while fixture.site.actions.scrubs("v") {
        thread::yield_now();
    }
    assert!(!fixture.get("/volume?name=v", &cookie).parts().1.contains("Stop the scrub"));
}

#[test]
fn forms_of_others_are_refused() {
    let fixture = Fixture::new(Status::default());
    let (cookie, csrf) = fixture.log_in("ann");
    let (_, other) = fixture.log_in("ann");
    for wrong in ["", "00", other.as_str()] {
        let response = fixture.post("/do", &cookie, &format!("csrf={wrong}&action=rebalance"));
        is(&response, "403", "not from this session");
        is(&fixture.post("/logout", &cookie, &format!("csrf={wrong}")), "403", "");
    }
    let body = format!("csrf={csrf}&action=rebalance");
    for origin in ["Origin: http://evil", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        let text = format!(
            "POST /do HTTP/1.1\r\nHost: h\r\n{origin}\r\nCookie: {cookie}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        is(&fixture.send(&text), "403", "another site");
    }
    is(&fixture.get("/do?action=rebalance", &cookie), "404", "");
    is(&fixture.post("/nonsense", &cookie, &body), "404", "");
    is(&fixture.post("/do", &cookie, &body), "303", "");
    let out = fixture.post("/logout", &cookie, &format!("csrf={csrf}"));
    assert!(line(out.parts().2, "Set-Cookie").starts_with("weft-10800=; Path=/; Max-Age=0"));
    is(&fixture.get("/", &cookie), "303", "");
}

#[test]
fn hostile_names_stay_text() {
    let fixture = Fixture::new(hostile());
    let about = About { milliseconds: Some(1.0), volume: Some(HOSTILE.into()), ..About::default() };
    fixture.site.log.say(Level::Warning, &about, HOSTILE);
    fixture.site.log.say(Level::Error, &About::default(), HOSTILE);
    let (cookie, _) = fixture.log_in("ann");
    let name: String = form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    for path in [
        "/",
        "/volumes",
        &format!("/volume?name={name}"),
        "/disks",
        "/hosts",
        "/slow",
        "/what-if?lose=1",
    ] {
        let response = fixture.get(path, &cookie);
        let (status, body, _) = response.parts();
        assert_eq!(status, "200 OK", "{path}");
        assert!(body.contains("&lt;script&gt;") && !body.contains("<script"), "{path}: {body}");
        // In attributes, too: no quote of it ends one.
        assert!(!body.contains("</script>\""), "{path}");
    }
    let missing = fixture.get(&format!("/volume?name=x{name}"), &cookie);
    is(&missing, "404", "no volume of this name");
}

#[test]
fn predictions_are_shown_with_the_command_that_asks_the_same() {
    let fixture = Fixture::new(Status::default());
    let (cookie, _) = fixture.log_in("ben");
    is(&fixture.get("/what-if", &cookie), "200", "Predict");
    let told = fixture.get("/what-if?lose=2&add=", &cookie);
    is(&told, "200", "degraded");
    is(&told, "200", "That takes 1 min 1 s while hosts use the disks, and less while none does.");
    is(&told, "200", "would not be rebuilt in full");
    is(&told, "200", "weft cluster what-if --lose 2 --dir");
    is(&fixture.get("/what-if?lose=b7", &cookie), "200", "no process is called 'b7'");
    is(&fixture.get("/what-if?add=much", &cookie), "200", "role=\"alert\"");
}

#[test]
fn how_the_array_is_is_shown_rightly() {
    let shown = |status: Status| {
        let fixture = Fixture::new(status);
        let (cookie, _) = fixture.log_in("ben");
        let page = fixture.get("/", &cookie);
        (page.parts().1.to_string(), line(page.parts().2, "Refresh").to_string())
    };
    let volume = |mode, survives| {
        let name = "data".to_string();
        VolumeStatus { name, mode, survives: Some(survives), ..VolumeStatus::default() }
    };
    let (page, refresh) = shown(Status::default());
    assert!(page.contains("<p class=\"word\">healthy</p>") && refresh == "10", "{page}");
    let degraded = Status { volumes: vec![volume(VolumeMode::Degraded, 0)], ..Status::default() };
    let (page, _) = shown(degraded);
    assert!(page.contains("<p class=\"word\">degraded</p>") && page.contains("no further loss"));
    assert!(page.contains("volume data is degraded, and survives no more losses"), "{page}");
    let lost = ExposedStatus { lost_bytes: 4096, bytes: 1 << 20, ..ExposedStatus::default() };
    let failed = VolumeStatus { exposed: Some(lost), ..volume(VolumeMode::Failed, 0) };
    let (page, _) = shown(Status { volumes: vec![failed], ..Status::default() });
    assert!(page.contains("<p class=\"word\">failed</p>") && page.contains("4.00 KiB"), "{page}");
    assert!(page.contains("1.00 MiB"));
}

#[test]
fn two_hundred_volumes_are_a_small_page() {
    let volume = |n| VolumeStatus { name: format!("volume-{n}"), ..VolumeStatus::default() };
    let fixture =
        Fixture::new(Status { volumes: (0..200).map(volume).collect(), ..Status::default() });
    let (cookie, _) = fixture.log_in("ben");
    for path in ["/", "/volumes"] {
        let page = fixture.get(path, &cookie);
        let size = page.parts().1.len() + STYLE.len();
        assert!(size < 100 << 10, "{path} has {size} bytes");
    }
    is(&fixture.get("/volumes", &cookie), "200", "volume-199");
}

#[test]
fn an_array_that_does_not_answer_is_said() {
    let fixture = Fixture::new(Status::default());
    let (cookie, _) = fixture.log_in("ben");
    std::fs::remove_file(fixture.site.dir.join("control.sock")).unwrap();
    fixture.site.asker.forget();
    is(&fixture.get("/", &cookie), "503", "no array runs on");
    fixture.site.sample();
    std::fs::write(fixture.site.dir.join("users.json"), "nonsense").unwrap();
    is(&fixture.get("/", &cookie), "503", "file of users cannot be read");
    is(&fixture.get("/login", ""), "503", "file of users cannot be read");
}

#[test]
fn a_node_that_rebuilds_and_one_that_is_down_are_shown() {
    let rebuilds = NodeStatus {
        state: NodeState::CatchingUp,
        stale_sectors: Some(2048),
        rebuilt_bytes_per_second: Some(1 << 20),
        rebuild_seconds_left: Some(75),
        ..NodeStatus::default()
    };
    let down = NodeStatus {
        node: 1,
        state: NodeState::Down,
        why: Some("its disk failed".to_string()),
        ..NodeStatus::default()
    };
    let fixture = Fixture::new(Status { nodes: vec![rebuilds, down], ..Status::default() });
    let (cookie, _) = fixture.log_in("ben");
    is(&fixture.get("/", &cookie), "200", "at 1.00 MiB/s, for about 1 min 15 s");
    is(&fixture.get("/disks", &cookie), "200", "Node 1 is down: its disk failed");
    let later = Caller { from: HERE, now: fixture.now + Duration::from_secs(13 * 3600) };
    let text = format!("GET / HTTP/1.1\r\nCookie: {cookie}\r\n\r\n");
    let request = Request::read(&mut text.as_bytes()).unwrap();
    is(&fixture.site.respond(&request, &later), "303", "");
}
