//! What options ask for, and how they are answered.

use std::borrow::Cow;

use weft_bytes::{Big, BytesError, Reader, Writer};

use super::{Context, Event, Export, Phase, Server};
use crate::Tls;
use crate::nbd::export::is_of;
use crate::nbd::wire::{self, answer, info, option};

/// The longest name the protocol allows.
const MAX_NAME: usize = 4096;

/// The most contexts that a client can choose: each makes a question of its own out of one for the state of a range.
const MOST_CONTEXTS: usize = 16;

/// What an option needs to know of the driver before it can be answered.
pub(super) enum Question {
    List,
    /// `EXPORT_NAME`.
    Start {
        name: String,
    },
    /// `INFO` and `GO`.
    Describe {
        option: u32,
        name: String,
        wanted: Vec<u16>,
    },
    /// `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
    Contexts {
        option: u32,
        name: String,
        /// Names, or how names begin. None when listing asks for all.
        queries: Vec<Vec<u8>>,
    },
}

impl Question {
    pub(super) fn event(&self) -> Event {
        match self {
            Question::List => Event::List,
            Question::Start { name }
            | Question::Describe { name, .. }
            | Question::Contexts { name, .. } => {
                Event::Open { name: name.clone(), settles: self.settles() }
            }
        }
    }

    /// Whether the client settles on the export that it names.
    fn settles(&self) -> bool {
        match self {
            Question::Start { .. } => true,
            Question::Describe { option, .. } => *option == option::GO,
            Question::List | Question::Contexts { .. } => false,
        }
    }
}

/// Why an option is not granted.
pub(super) struct Refusal {
    pub(super) kind: u32,
    pub(super) message: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(kind: u32, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { kind, message: message.into() }
    }

    fn invalid(message: &'static str) -> Refusal {
        Refusal::new(answer::ERR_INVALID, message)
    }

    fn unknown() -> Refusal {
        Refusal::new(answer::ERR_UNKNOWN, "no such export")
    }
}

impl From<BytesError> for Refusal {
    fn from(error: BytesError) -> Refusal {
        Refusal::invalid(match error {
            BytesError::Trailing(_) => "more data than the option takes",
            _ => "option data cut short",
        })
    }
}

impl Server {
    /// Deals with an option as far as that goes without the driver.
    pub(super) fn take_option(
        &mut self,
        option: u32,
        data: &[u8],
    ) -> Result<Option<Question>, Refusal> {
        if let Some(refusal) = self.lacks_tls(option) {
            return Err(refusal);
        }
        match option {
            option::EXPORT_NAME => {
                let name = name(data)?;
                return Ok(Some(Question::Start { name }));
            }
            option::INFO | option::GO => return describe(option, data).map(Some),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                if !self.negotiation.structured {
                    return Err(Refusal::invalid("structured replies come first"));
                }
                return contexts(option, data).map(Some);
            }
            option::LIST => {
                no_data(data)?;
                return Ok(Some(Question::List));
            }
            option::STRUCTURED_REPLY => {
                no_data(data)?;
                self.negotiation.structured = true;
                self.answer(option, answer::ACK, &[]);
            }
            option::STARTTLS => {
                self.start_tls(data)?;
            }
            option::ABORT => {
                self.answer(option, answer::ACK, &[]);
                self.close();
            }
            _ => return Err(Refusal::new(answer::ERR_UNSUP, "option not supported")),
        }
        Ok(None)
    }

    /// Answers [`Event::List`]. Without such a question, nothing happens.
    pub fn exports(&mut self, list: &[Export]) {
        if !matches!(self.phase, Phase::Asking(Question::List)) {
            return;
        }
        self.phase = Phase::Negotiating;
        for export in list {
            let mut w = Writer::<Big>::default();
            w.bytes(export.name.as_bytes());
            w.raw(export.description.as_bytes());
            self.answer(option::LIST, answer::SERVER, w.written());
        }
        self.answer(option::LIST, answer::ACK, &[]);
    }

    /// Answers [`Event::Open`]: the export of that name, or that there is
    /// none. Without such a question, nothing happens.
    pub fn export(&mut self, found: Option<Export>) {
        self.open(found.ok_or_else(Refusal::unknown));
    }

    /// Answers [`Event::Open`]: there is no such export, for this reason. A client of
    /// [`EXPORT_NAME`](option::EXPORT_NAME) cannot be told why.
    pub fn lacks(&mut self, why: String) {
        self.open(Err(Refusal::new(answer::ERR_UNKNOWN, why)));
    }

    /// Answers [`Event::Open`]: the export cannot be served now, for this reason. The client may try again later, or at
    /// another server.
    pub fn puts_off(&mut self, why: String) {
        self.open(Err(Refusal::new(answer::ERR_SHUTDOWN, why)));
    }

    /// Answers [`Event::Open`]: the client has no right to the export. One that has not proved who it is may have it by
    /// TLS.
    pub fn forbid_without_tls(&mut self, why: String) {
        let can = self.negotiation.tls != Tls::Off && !self.negotiation.is_secured;
        let kind = if can { answer::ERR_TLS_REQD } else { answer::ERR_POLICY };
        self.open(Err(Refusal::new(kind, why)));
    }

    fn open(&mut self, found: Result<Export, Refusal>) {
        let found = found.map(Export::normalised);
        let phase = std::mem::replace(&mut self.phase, Phase::Negotiating);
        match (phase, found) {
            (Phase::Asking(Question::Start { .. }), Ok(export)) => self.start(export),
            (Phase::Asking(Question::Start { .. }), Err(_)) => self.close(),
            (Phase::Asking(Question::Describe { option, wanted, .. }), Ok(export)) => {
                self.describe(option, &wanted, export);
            }
            (Phase::Asking(Question::Contexts { option, queries, .. }), Ok(export)) => {
                self.contexts(option, &queries, &export);
            }
            (
                Phase::Asking(
                    Question::Describe { option, .. } | Question::Contexts { option, .. },
                ),
                Err(refusal),
            ) => self.refuse(option, refusal),
            (phase, _) => self.phase = phase,
        }
    }

    fn start(&mut self, export: Export) {
        let flags = export.transmission_flags(self.negotiation.structured);
        let no_zeroes = self.negotiation.no_zeroes;
        self.outbox.fields(|w| {
            w.u64(export.size);
            w.u16(flags);
            if !no_zeroes {
                w.raw(&[0; wire::PADDING]);
            }
        });
        self.serve(export);
    }

    fn describe(&mut self, option: u32, wanted: &[u16], export: Export) {
        for data in infos(&export, self.negotiation.structured, wanted) {
            self.answer(option, answer::INFO, &data);
        }
        self.answer(option, answer::ACK, &[]);
        if option == option::GO {
            self.serve(export);
        }
    }

    fn contexts(&mut self, option: u32, queries: &[Vec<u8>], export: &Export) {
        let set = option == option::SET_META_CONTEXT;
        let asks =
            |query: &Vec<u8>, name: &str| query == name.as_bytes() || (!set && is_of(name, query));
        let is_wanted = |name: &str| {
            (!set && queries.is_empty()) || queries.iter().any(|query| asks(query, name))
        };
        let wanted = Context::of(export).filter(|(_, name)| is_wanted(name));
        let most = if set { MOST_CONTEXTS } else { usize::MAX };
        let mut chosen = Vec::new();
        for (context, name) in wanted.take(most) {
            let mut w = Writer::<Big>::default();
            w.u32(if set { context.id() } else { 0 });
            w.raw(name.as_bytes());
            self.answer(option, answer::META_CONTEXT, w.written());
            chosen.push(context);
        }
        self.answer(option, answer::ACK, &[]);
        if set {
            self.negotiation.contexts_of = Some((export.name.clone(), chosen));
        }
    }
}

/// The pieces of information a client gets. Block sizes come unasked: a
/// client that does not know them must be told, and one that does not care
/// ignores them.
fn infos(export: &Export, structured: bool, wanted: &[u16]) -> Vec<Vec<u8>> {
    let mut basic = Writer::<Big>::default();
    basic.u16(info::EXPORT);
    basic.u64(export.size);
    basic.u16(export.transmission_flags(structured));
    let mut sizes = Writer::<Big>::default();
    sizes.u16(info::BLOCK_SIZE);
    sizes.u32(export.min_block);
    sizes.u32(export.preferred_block);
    sizes.u32(export.max_payload);
    let mut all = vec![basic.finish(), sizes.finish()];
    for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
        if wanted.contains(&kind) && !text.is_empty() {
            let mut w = Writer::<Big>::default();
            w.u16(kind);
            w.raw(text.as_bytes());
            all.push(w.finish());
        }
    }
    all
}

fn describe(option: u32, data: &[u8]) -> Result<Question, Refusal> {
    let mut r = Reader::<Big>::new(data);
    let name = name(r.bytes()?)?;
    let count = r.u16()?;
    if r.left() != 2 * usize::from(count) {
        return Err(Refusal::invalid("number of requests does not match the data"));
    }
    let wanted = (0..count).map(|_| r.u16()).collect::<Result<_, _>>()?;
    Ok(Question::Describe { option, name, wanted })
}

fn contexts(option: u32, data: &[u8]) -> Result<Question, Refusal> {
    let mut r = Reader::<Big>::new(data);
    let name = name(r.bytes()?)?;
    let count = r.u32()?;
    let query = |r: &mut Reader<'_, Big>| r.bytes().map(<[u8]>::to_vec);
    let queries = (0..count).map(|_| query(&mut r)).collect::<Result<Vec<_>, _>>()?;
    r.end()?;
    Ok(Question::Contexts { option, name, queries })
}

fn name(bytes: &[u8]) -> Result<String, Refusal> {
    if bytes.len() > MAX_NAME {
        return Err(Refusal::invalid("name too long"));
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| Refusal::invalid("name is not UTF-8"))
}

pub(super) fn no_data(data: &[u8]) -> Result<(), Refusal> {
    Ok(Reader::<Big>::new(data).end()?)
}
