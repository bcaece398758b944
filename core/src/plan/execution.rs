//! The one interpreter of cells (docs/internals/architecture.md, the plan): it receives arrivals, and returns what to send and
//! write. Whoever has a role runs the role's cells by it; disks and messages are the
//! caller's.

use smallvec::{SmallVec, smallvec};

use super::cell::{Cell, Destination, Part, Role, Send, Step, Term, Value};
use super::{Spans, accumulate, compose};
use crate::Buffer;

/// A cell in work.
#[derive(Clone, Debug, Hash)]
pub struct Execution {
    cell: Cell,
    /// The next step.
    next: usize,
    old: Old,
    /// Parts that are here, but for those that have been added up.
    here: SmallVec<[(Part, Buffer); 1]>,
    sum: Sum,
    /// The terms of the written content that have been summed, by place.
    summed: u64,
    /// The content to write, once it is known.
    content: Option<Buffer>,
    /// Bytes added up that have not been told yet.
    added: u64,
    /// Those of them that formed the written content: nothing that is sent waits for them.
    summed_to_write: u64,
}

/// Old content of the own unit.
#[derive(Clone, Debug, Hash)]
enum Old {
    NotNeeded,
    Wanted,
    Reading(SmallVec<[Option<Buffer>; 1]>),
    Here(Buffer),
}

/// The partial sum of the written content.
#[derive(Clone, Debug, Hash)]
enum Sum {
    Nothing,
    /// One term alone that is the whole sum.
    Whole(Buffer),
    Bytes(Vec<u8>),
}

/// Something to be sent.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Where to.
    pub to: Destination,
    /// What it is to those who get it.
    pub part: Part,
    /// The bytes.
    pub data: Buffer,
}

impl Execution {
    /// Begins a cell.
    pub fn new(cell: Cell) -> Execution {
        let old = if cell.reads().is_empty() { Old::NotNeeded } else { Old::Wanted };
        Execution {
            cell,
            next: 0,
            old,
            here: SmallVec::new(),
            sum: Sum::Nothing,
            summed: 0,
            content: None,
            added: 0,
            summed_to_write: 0,
        }
    }

    /// The cell in execution.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Bytes that have been added up since this was last asked.
    pub fn take_added(&mut self) -> u64 {
        std::mem::take(&mut self.added)
    }

    /// The bytes reported by [`Execution::take_added`] that formed the written content: only the disk waits for them.
    pub fn take_summed_to_write(&mut self) -> u64 {
        std::mem::take(&mut self.summed_to_write)
    }

    /// Whether a read has yet to be started.
    pub fn must_read(&self) -> bool {
        matches!(self.old, Old::Wanted)
    }

    /// Whether nothing is read, or all of it is here.
    pub fn has_read(&self) -> bool {
        !matches!(self.old, Old::Wanted | Old::Reading(_))
    }

    /// The read has been started, in this many parts.
    pub fn reading(&mut self, parts: usize) {
        self.old = Old::Reading(smallvec![None; parts]);
    }

    /// A part of the read is here.
    pub fn read_arrived(&mut self, part: usize, data: Buffer) {
        let Old::Reading(parts) = &mut self.old else { return };
        parts[part] = Some(data);
        if parts.iter().all(Option::is_some) {
            let parts: SmallVec<[Buffer; 1]> = parts.drain(..).flatten().collect();
            self.old = Old::Here(joined(parts));
        }
    }

    /// Takes an part in. What comes twice counts once; what nobody waits for is dropped.
    pub fn take(&mut self, part: Part, data: Buffer) {
        if let Some((place, len)) = self.place_in_sum(part) {
            if self.summed & 1 << place == 0 && data.len() as u64 == len {
                self.summed |= 1 << place;
                self.add(place, data);
            }
            return;
        }
        let has_come = self.here.iter().any(|(i, _)| *i == part);
        if !has_come && self.length_of(part) == Some(data.len() as u64) {
            self.here.push((part, data));
        }
    }

    /// Whether everything that it explicitly waits for is here.
    pub fn has_gathered(&self) -> bool {
        self.cell.awaited().iter().all(|(part, _)| self.part(*part).is_some())
    }

    /// Continues as the arrived content allows, and returns what to send.
    pub fn advance(&mut self) -> SmallVec<[Sending; 1]> {
        let mut sent = SmallVec::new();
        while self.next < self.cell.steps.len() {
            // Taken out for as long as the step lasts, since it changes the rest.
            let place = self.next;
            let step = std::mem::replace(&mut self.cell.steps[place], Step::Read(Spans::EMPTY));
            let done = self.carry_out(&step, &mut sent);
            self.cell.steps[place] = step;
            if !done {
                break;
            }
            self.next += 1;
        }
        sent
    }

    /// These bytes of an part that is here.
    ///
    /// # Panics
    ///
    /// If it is not here, or has not all of them.
    pub fn bytes_of(&self, part: Part, spans: Spans) -> Buffer {
        let extent = self.extent(part).expect("it is waited for");
        let data = self.part(part).expect("it is here");
        match extent == spans {
            true => data.clone(),
            false => compose(spans, &[(extent, data)]),
        }
    }

    /// Whether all steps are done, except the write of the prepared content.
    pub fn is_done(&self) -> bool {
        self.next == self.cell.steps.len()
    }

    /// The content to prepare and write, end to end.
    pub fn take_content(&mut self) -> Option<Buffer> {
        self.content.take()
    }

    fn carry_out(&mut self, step: &Step, sent: &mut SmallVec<[Sending; 1]>) -> bool {
        match step {
            // Who runs the cell starts it; the steps that need the read content wait for it.
            Step::Read(_) => true,
            Step::Await(parts) => parts.iter().all(|(part, _)| self.part(*part).is_some()),
            Step::Combine(part, spans, value) => {
                let Some(data) = self.value(value, *spans) else { return false };
                self.here.push((*part, data));
                true
            }
            Step::Send(Send { value, spans, part, to }) => {
                let Some(data) = self.value(value, *spans) else { return false };
                sent.push(Sending { to: *to, part: *part, data });
                true
            }
            Step::Write(write) => {
                self.content = match &write.value {
                    Value::Sum(terms) => self.finished_sum(terms, write.spans),
                    value => self.value(value, write.spans),
                };
                self.content.is_some()
            }
        }
    }

    /// A value, if what it is made of is here.
    fn value(&mut self, value: &Value, spans: Spans) -> Option<Buffer> {
        let (read, new_at) = (self.cell.reads(), Spans::from(self.cell.new));
        match value {
            Value::Old => Some(compose(spans, &[(read, self.old()?)])),
            Value::Content => {
                let (old, new) = (self.old()?, self.new_bytes()?);
                Some(compose(spans, &[(read, old), (new_at, new)]))
            }
            Value::Change => {
                let (old, new) = (self.old()?, self.new_bytes()?);
                let change = difference(compose(spans, &[(read, old)]), new);
                self.added += change.len() as u64;
                Some(change)
            }
            Value::Given(part) => self.part(*part).cloned(),
            Value::Sum(terms) => Some(self.sum_of(spans, terms)),
            Value::Mark => Some(Buffer::Zero(spans.len() as usize)),
        }
    }

    fn old(&self) -> Option<&Buffer> {
        match &self.old {
            Old::NotNeeded => Some(&Buffer::Zero(0)),
            Old::Here(data) => Some(data),
            Old::Wanted | Old::Reading(_) => None,
        }
    }

    fn new_bytes(&self) -> Option<&Buffer> {
        match self.cell.new.is_empty() {
            true => Some(&Buffer::Zero(0)),
            false => self.part(Part::New),
        }
    }

    fn part(&self, part: Part) -> Option<&Buffer> {
        self.here.iter().find(|(i, _)| *i == part).map(|(_, data)| data)
    }

    /// How many bytes an part has, if it is waited for as a whole.
    fn length_of(&self, part: Part) -> Option<u64> {
        match (part, self.cell.at) {
            (Part::New, _) => (!self.cell.new.is_empty()).then(|| self.cell.new.len()),
            // What it has to hand out is all that it knows.
            (Part::NewOf(_), Role::Endpoint) => {
                self.cell.sends().find(|s| s.value == Value::Given(part)).map(|s| s.spans.len())
            }
            _ => self.extent(part).map(Spans::len),
        }
    }

    /// Which bytes of the unit an part has that is waited for as a whole.
    fn extent(&self, part: Part) -> Option<Spans> {
        let awaited = self.cell.awaited().iter().find(|(i, _)| *i == part);
        let combined = || {
            self.cell.steps.iter().find_map(|step| match step {
                Step::Combine(i, spans, _) if *i == part => Some(*spans),
                _ => None,
            })
        };
        let written = || self.cell.write().filter(|w| w.value == Value::Given(part));
        awaited.map(|(_, spans)| *spans).or_else(combined).or_else(|| written().map(|w| w.spans))
    }

    /// A sum of parts that are all here.
    fn sum_of(&mut self, at: Spans, terms: &[Term]) -> Buffer {
        let parts: Vec<Buffer> = terms.iter().map(|t| self.bytes_of(t.part, t.spans)).collect();
        // A first term costs nothing, unless it is multiplied.
        let begins = terms.iter().position(|t| t.coefficient == 1);
        let added = parts.iter().enumerate().filter(|(n, _)| Some(*n) != begins);
        self.added += added.map(|(_, part)| part.len() as u64).sum::<u64>();
        sum(at, terms, &parts)
    }

    /// Which term of the written content a part is, and how long it must be.
    fn place_in_sum(&self, part: Part) -> Option<(usize, u64)> {
        let Value::Sum(terms) = &self.cell.write()?.value else { return None };
        let place = terms.iter().position(|t| t.part == part)?;
        Some((place, terms[place].spans.len()))
    }

    /// Adds a term of the written content when it arrives, so that not all need be held.
    fn add(&mut self, place: usize, data: Buffer) {
        let write = self.cell.write().expect("it is a sum");
        let Value::Sum(terms) = &write.value else { unreachable!("it is a sum") };
        let (term, at) = (terms[place], write.spans);
        let begins = self.summed.count_ones() == 1 && term.coefficient == 1;
        let added = if begins { 0 } else { data.len() as u64 };
        self.added += added;
        self.summed_to_write += added;
        if data.is_zero() {
            return;
        }
        if terms.len() == 1 && term.coefficient == 1 && term.spans == at {
            self.sum = Sum::Whole(data);
            return;
        }
        if data.is_length() {
            self.sum = Sum::Whole(Buffer::Length(at.len() as usize));
            return;
        }
        if let Sum::Nothing = self.sum {
            self.sum = Sum::Bytes(vec![0; at.len() as usize]);
        }
        if let Sum::Bytes(sum) = &mut self.sum {
            accumulate(sum, at, term.spans, &data, term.coefficient);
        }
    }

    fn finished_sum(&mut self, terms: &[Term], at: Spans) -> Option<Buffer> {
        if self.summed.count_ones() as usize != terms.len() {
            return None;
        }
        Some(match std::mem::replace(&mut self.sum, Sum::Nothing) {
            Sum::Nothing => Buffer::Zero(at.len() as usize),
            Sum::Whole(data) => data,
            Sum::Bytes(bytes) => bytes.into(),
        })
    }
}

/// The sum of terms, whose bytes are given in their order.
fn sum(at: Spans, terms: &[Term], parts: &[Buffer]) -> Buffer {
    let len = at.len() as usize;
    if parts.iter().all(Buffer::is_zero) {
        return Buffer::Zero(len);
    }
    if parts.iter().any(Buffer::is_length) {
        return Buffer::Length(len);
    }
    let mut sum = vec![0; len];
    let pairs = || terms.iter().zip(parts);
    if terms.iter().all(|t| t.spans == at) {
        let bytes = pairs().filter_map(|(term, data)| match data {
            Buffer::Bytes(b) => Some((term.coefficient, &b[..])),
            Buffer::Zero(_) | Buffer::Length(_) => None,
        });
        weft_code::dot(&mut sum, &bytes.collect::<Vec<_>>());
    } else {
        pairs().for_each(|(t, data)| accumulate(&mut sum, at, t.spans, data, t.coefficient));
    }
    sum.into()
}

fn joined(parts: SmallVec<[Buffer; 1]>) -> Buffer {
    match parts.into_inner() {
        Ok([one]) => one,
        Err(parts) if parts.iter().all(Buffer::is_zero) => {
            Buffer::Zero(parts.iter().map(Buffer::len).sum())
        }
        Err(parts) if parts.iter().any(Buffer::is_length) => {
            Buffer::Length(parts.iter().map(Buffer::len).sum())
        }
        Err(parts) => {
            let mut bytes = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
            parts.iter().for_each(|p| bytes.extend_from_slice(&p.to_bytes()));
            bytes.into()
        }
    }
}

fn difference(old: Buffer, new: &Buffer) -> Buffer {
    match (&old, new) {
        (Buffer::Zero(_), new) => new.clone(),
        (old, Buffer::Zero(_)) => old.clone(),
        (Buffer::Length(len), _) | (_, Buffer::Length(len)) => Buffer::Length(*len),
        (Buffer::Bytes(a), Buffer::Bytes(b)) => {
            let mut delta = vec![0; a.len()];
            weft_code::delta(&mut delta, a, b);
            delta.into()
        }
    }
}
