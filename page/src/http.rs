//! As much HTTP as the page needs: one request a connection, of a bounded size, and its answer.

use std::io::{self, ErrorKind, Read, Write};

/// The longest head of a request, in bytes.
const MOST_HEAD: usize = 8 << 10;

/// The most lines in it.
const MOST_LINES: usize = 64;

/// The longest body: that of a form.
const MOST_BODY: usize = 4 << 10;

/// The most fields of a form or query.
const MOST_FIELDS: usize = 16;

/// Fields of a form or query, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(text: &[u8]) -> Result<Fields, Refused> {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            if fields.len() == MOST_FIELDS {
                return Err(Refused::Invalid("the form has too many fields"));
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Ok(Fields(fields))
    }

    /// The value of a field; the empty text if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// To see something.
    Get,
    /// The same without the body.
    Head,
    /// To do something.
    Post,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path, as it was sent.
    pub(crate) path: String,
    pub(crate) query: Fields,
    pub(crate) form: Fields,
    /// All cookies, in one line.
    cookies: String,
    /// Where the browser was when it sent this, if it says so.
    origin: Option<String>,
    fetch_site: Option<String>,
    host: Option<String>,
}

/// Why a request is not answered as it was meant.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The other end is gone or too slow.
    Gone,
    /// It is no request that is understood here.
    Invalid(&'static str),
    /// It is too long.
    TooLong(&'static str),
    /// Its method is another.
    Method,
}

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Refused {
        Refused::Gone
    }
}

impl Request {
    /// Reads one.
    pub(crate) fn read(from: &mut impl Read) -> Result<Request, Refused> {
        let mut said = Vec::new();
        let end = loop {
            if let Some(end) = end_of_head(&said) {
                break end;
            }
            if said.len() > MOST_HEAD {
                return Err(Refused::TooLong("the head of the request is too long"));
            }
            read_more(from, &mut said)?;
        };
        let (mut request, length) = Request::parse(&said[..end])?;
        while said.len() < end + length {
            read_more(from, &mut said)?;
        }
        request.form = Fields::parse(&said[end..end + length])?;
        Ok(request)
    }

    /// The request without its body, and how long that is.
    fn parse(head: &[u8]) -> Result<(Request, usize), Refused> {
        let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
        let mut parsed = httparse::Request::new(&mut lines);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refused::TooLong("the head of the request has too many lines"));
            }
            _ => return Err(Refused::Invalid("this is not HTTP")),
        }
        let method = match parsed.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("POST") => Method::Post,
            _ => return Err(Refused::Method),
        };
        let header = |name: &str| {
            let mut those = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
            let value = those.next().map(|h| String::from_utf8_lossy(h.value).into_owned());
            match those.next() {
                Some(_) => Err(Refused::Invalid("a line of the head appears twice")),
                None => Ok(value),
            }
        };
        if header("transfer-encoding")?.is_some() {
            return Err(Refused::Invalid("a body of unknown length is not accepted"));
        }
        let length = match header("content-length")? {
            None => 0,
            Some(_) if method != Method::Post => {
                return Err(Refused::Invalid("only POST has a body here"));
            }
            Some(text) if !text.bytes().all(|b| b.is_ascii_digit()) || text.is_empty() => {
                return Err(Refused::Invalid("the length of the body is not a number"));
            }
            // More digits than fit are more than is taken.
            Some(text) => text.parse().unwrap_or(usize::MAX),
        };
        if length > MOST_BODY {
            return Err(Refused::TooLong("the body of the request is too long"));
        }
        let target = parsed.path.unwrap_or("/");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Request {
            method,
            path: path.to_string(),
            query: Fields::parse(query.as_bytes())?,
            form: Fields::default(),
            cookies: header("cookie")?.unwrap_or_default(),
            origin: header("origin")?,
            fetch_site: header("sec-fetch-site")?,
            host: header("host")?,
        };
        Ok((request, length))
    }

    /// The value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Whether a browser says that another site has sent this.
    pub(crate) fn is_from_elsewhere(&self) -> bool {
        let site = self.fetch_site.as_deref();
        let origin = self.origin.as_deref().map(|origin| {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_none() || host != self.host.as_deref()
        });
        site.is_some_and(|site| site != "same-origin") || origin.unwrap_or(false)
    }
}

/// Where the head ends: behind its empty line.
fn end_of_head(said: &[u8]) -> Option<usize> {
    said.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

fn read_more(from: &mut impl Read, said: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 1024];
    match from.read(&mut buffer)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        n => {
            said.extend_from_slice(&buffer[..n]);
            Ok(())
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    status: &'static str,
    kind: &'static str,
    lines: Vec<(&'static str, String)>,
    body: String,
}

/// What a browser may do with a page: nothing comes from elsewhere, and no script runs.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

impl Response {
    /// A page.
    pub(crate) fn page(status: &'static str, body: String) -> Response {
        Response { status, kind: "text/html; charset=utf-8", lines: Vec::new(), body }
    }

    /// A page that was found.
    pub(crate) fn ok(body: String) -> Response {
        Response::page("200 OK", body)
    }

    /// The style of all pages.
    pub(crate) fn style(body: &str) -> Response {
        let kind = "text/css; charset=utf-8";
        Response { status: "200 OK", kind, lines: Vec::new(), body: body.to_string() }
    }

    /// The browser is to go and see another page.
    pub(crate) fn see(path: &str) -> Response {
        Response::page("303 See Other", String::new()).with("Location", path.to_string())
    }

    /// With one more line in its head.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Response {
        self.lines.push((name, value));
        self
    }

    /// The answer to a refused request; none if nobody is there.
    pub(crate) fn refused(refused: &Refused) -> Option<Response> {
        let (status, why) = match refused {
            Refused::Gone => return None,
            Refused::Invalid(why) => ("400 Bad Request", *why),
            Refused::TooLong(why) => ("413 Content Too Large", *why),
            Refused::Method => ("405 Method Not Allowed", "only GET, HEAD and POST are answered"),
        };
        let (kind, lines) = ("text/plain; charset=utf-8", Vec::new());
        Some(Response { status, kind, lines, body: format!("{why}\n") })
    }

    /// Sends it, without its body if only the head was asked for.
    pub(crate) fn send(&self, to: &mut impl Write, body: bool) -> io::Result<()> {
        let Response { status, kind, .. } = self;
        let mut out = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nContent-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
             X-Frame-Options: DENY\r\nReferrer-Policy: same-origin\r\n",
            self.body.len()
        );
        for (name, value) in &self.lines {
            out += &format!("{name}: {value}\r\n");
        }
        out += "\r\n";
        if body {
            out += &self.body;
        }
        to.write_all(out.as_bytes())?;
        to.flush()
    }

    /// Its status, its body and the lines of its head.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> (&'static str, &str, &[(&'static str, String)]) {
        (self.status, &self.body, &self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, Refused> {
        Request::read(&mut text.as_bytes())
    }

    #[test]
    fn a_request_is_read() {
        let text = "POST /do?x=1&y=a%20b HTTP/1.1\r\nHost: h:1\r\nCookie: a=1; weft=ff ; c=\r\nContent-Length: 21\r\n\r\nname=%3Cb%3E&to=a%2Bb";
        let request = read(text).unwrap();
        assert_eq!((request.method, request.path.as_str()), (Method::Post, "/do"));
        assert_eq!((request.query.get("x"), request.query.get("y")), ("1", "a b"));
        assert_eq!((request.form.get("name"), request.form.get("to")), ("<b>", "a+b"));
        assert_eq!((request.cookie("weft"), request.cookie("b")), (Some("ff"), None));
        assert_eq!(request.form.get("none"), "");
    }

    #[test]
    fn bad_requests_are_refused() {
        let invalid = |text: &str| matches!(read(text), Err(Refused::Invalid(_)));
        assert!(invalid("nonsense\r\n\r\n"));
        assert!(invalid("\0\0\0\0\r\n\r\n"));
        assert!(invalid("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde"));
        assert!(invalid("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"));
        assert!(invalid("POST / HTTP/1.1\r\nContent-Length: \r\n\r\n"));
        assert!(invalid("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"));
        assert!(invalid("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
        let fields = "a=1&".repeat(MOST_FIELDS + 1);
        assert!(invalid(&format!("GET /?{fields} HTTP/1.1\r\n\r\n")));
        let too_long = |text: &str| matches!(read(text), Err(Refused::TooLong(_)));
        assert!(too_long("POST / HTTP/1.1\r\nContent-Length: 4097\r\n\r\n"));
        assert!(too_long("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n"));
        assert!(too_long(&format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(MOST_HEAD))));
        assert!(too_long(&format!("GET / HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(65))));
        assert!(matches!(read("PUT / HTTP/1.1\r\n\r\n"), Err(Refused::Method)));
        assert!(matches!(read("GET / HTTP/1.1\r\n"), Err(Refused::Gone)));
        let short = "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc";
        assert!(matches!(read(short), Err(Refused::Gone)));
        let name = "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\na=%f";
        assert_eq!(read(name).unwrap().form.get("a"), "%f", "what is no escape stays");
    }

    #[test]
    fn whatever_bytes_come_nothing_panics() {
        let good =
            b"POST /do?x=%41 HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nContent-Length: 3\r\n\r\na=b";
        for at in 0..good.len() {
            for byte in [0, b' ', b'\r', b'\n', b'%', b'9', 0x80, 0xff] {
                let mut bytes = good.to_vec();
                bytes[at] = byte;
                let _ = Request::read(&mut bytes.as_slice());
                let _ = Request::read(&mut &bytes[..at]);
            }
        }
    }

    #[test]
    fn what_another_site_sends_is_told_by_the_browser() {
        let from = |lines: &str| {
            read(&format!("POST / HTTP/1.1\r\nHost: h:1\r\n{lines}\r\n"))
                .unwrap()
                .is_from_elsewhere()
        };
        assert!(!from("") && !from("Origin: http://h:1\r\n"));
        assert!(!from("Sec-Fetch-Site: same-origin\r\nOrigin: https://h:1\r\n"));
        for bad in ["Origin: null\r\n", "Origin: http://evil:1\r\n", "Origin: http://h:2\r\n"] {
            assert!(from(bad), "{bad}");
        }
        assert!(from("Sec-Fetch-Site: cross-site\r\n") && from("Sec-Fetch-Site: same-site\r\n"));
    }

    #[test]
    fn an_answer_is_written() {
        let mut out = Vec::new();
        Response::see("/x").send(&mut out, true).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.starts_with("HTTP/1.1 303 See Other\r\n") && out.contains("\r\nLocation: /x\r\n")
        );
        assert!(out.contains("default-src 'none'") && out.ends_with("\r\n\r\n"));
        assert!(Response::refused(&Refused::Gone).is_none());
    }
}
