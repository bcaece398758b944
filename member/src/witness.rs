//! A second witness of how far a member's log got.
//!
//! The last frame of a log may be torn: a crash in the middle of an append, whose frame nobody was promised. A
//! last frame that was promised and is damaged looks the same, and so does a log that has lost its end or is an
//! older copy of itself. So beside the log there is a small file, the *witness*: the number of the last frame
//! that is known to be durable, in two slots that are written in turn.
//!
//! **The order.** A frame is written and flushed; then its number goes into the slot that is broken or has the
//! lower number, which is flushed; then the member is told that the frame is durable. Only now does anything
//! leave that rests on the frame.
//!
//! **Why that suffices.** Let the last frame that the member was told of be *n*. Then a slot holds *n*, or one
//! that is being written holds *n* + 1; the log holds frame *n*. A crash may leave:
//!
//! | it comes | log | slots | then |
//! |---|---|---|---|
//! | while frame *n* + 1 is written | *n*, and a torn rest | *n*, *n* - 1 | taken up at *n*: the rest was promised to nobody |
//! | between frame and slot | *n* + 1 | *n*, *n* - 1 | taken up at *n* + 1, which does no harm |
//! | while the slot is written | *n* + 1 | *n*, broken | taken up at *n* + 1 |
//! | after that | *n* + 1 | *n*, *n* + 1 | taken up at *n* + 1 |
//!
//! So after a crash the log is never behind the higher slot; and where a slot is broken the log is *ahead* of the
//! other one, since slots are written only after their frames. Whatever is behind that is damage. The two
//! slots are in different sectors, so a torn write breaks one at most; and that one is the next to be written,
//! so the other stays until it is whole. A witness without a whole slot is damage too, as is a missing one
//! beside a log that has had one (its frames are of version 2). A log that takes the place of another is a frame like any
//! other: the file changes at once or not at all.
//!
//! What is not found here: both files put back together as they were earlier.

use weft_bytes::checksum;
use weft_bytes::{BytesError, Read, Reader, Writer, ensure};

use crate::{LogError, MemberId, Persist, Stored};

const MAGIC: [u8; 4] = *b"WMk\x01";
const LEN: usize = 24;

/// How far apart the slots are.
const APART: usize = 4096;

/// What the second file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    member: MemberId,
    /// The numbers of frames; none where a slot is broken.
    slots: [Option<u64>; 2],
}

impl Witness {
    /// Beside a log of this member whose last frame is this; 0 if there is none yet.
    pub fn new(member: MemberId, frame: u64) -> Witness {
        Witness { member, slots: [Some(frame); 2] }
    }

    /// Whose log it is beside.
    pub(crate) fn member(&self) -> MemberId {
        self.member
    }

    /// The whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.slot(0);
        bytes.resize(APART, 0);
        bytes.extend(self.slot(1));
        bytes
    }

    /// Takes note of a write to the log that is durable: what is to be written where in the file.
    pub fn note(&mut self, persist: &Persist) -> (u64, Vec<u8>) {
        let n = usize::from(self.slots[1] < self.slots[0]);
        self.slots[n] = Some(persist.frame());
        ((n * APART) as u64, self.slot(n))
    }

    /// The last frame that the log must hold, at least.
    pub fn least(&self) -> u64 {
        match self.slots {
            [Some(a), Some(b)] => a.max(b),
            [Some(n), None] | [None, Some(n)] => n + 1,
            [None, None] => u64::MAX,
        }
    }

    fn slot(&self, n: usize) -> Vec<u8> {
        let mut w: Writer = Writer::behind(MAGIC);
        w.u64(self.member.0);
        w.u64(self.slots[n].unwrap_or(0));
        w.u32(checksum::crc32c(w.written()));
        w.finish()
    }

    fn read(bytes: &[u8]) -> Option<Witness> {
        let slots = [0, APART].map(|at| read_slot(bytes.get(at..)?).ok());
        let member = slots.iter().flatten().map(|s| s.0).next()?;
        let same = slots.iter().flatten().all(|s| s.0 == member);
        same.then_some(Witness { member, slots: slots.map(|s| s.map(|s| s.1)) })
    }
}

fn read_slot(bytes: &[u8]) -> Read<(MemberId, u64)> {
    let mut r: Reader = Reader::new(bytes);
    r.magic(&MAGIC, "a witness")?;
    let read = (MemberId(r.u64()?), r.u64()?);
    ensure(r.u32()? == checksum::crc32c(&bytes[..LEN - 4]), "it does not have its checksum")?;
    Ok(read)
}

impl Stored {
    /// Takes up a log with its witness; refuses damage other than a torn end.
    pub fn open(log: &[u8], witness: Option<&[u8]>) -> Result<(Stored, Witness), LogError> {
        let witness = witness.and_then(Witness::read).ok_or(LogError::NoWitness)?;
        let stored = Stored::replay(log).map_err(|e| match e {
            LogError::Foreign { .. } => {
                LogError::Damaged { at: 0, why: BytesError::Magic("a member's log") }
            }
            other => other,
        })?;
        if let Some(found) = stored.member.filter(|m| *m != witness.member) {
            return Err(LogError::OtherMember { found: found.0, wanted: witness.member.0 });
        }
        let (frame, promised) = (stored.frame, witness.least());
        match (frame < promised, frame) {
            (true, _) => Err(LogError::Behind { frame, promised }),
            // Nothing has been written: whose log it is to be says the witness alone.
            (false, 0) => Ok((Stored::anew(witness.member), witness)),
            (false, _) => Ok((stored, witness)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::LogSpan;
    use crate::record::Frame;

    const US: MemberId = MemberId(3);

    fn frame(n: u64, first: bool) -> Vec<u8> {
        let mut frame = Frame::default();
        if first {
            frame.started(US, 1);
        }
        frame.hard_state(&raft::eraftpb::HardState { term: n, vote: 3, ..Default::default() });
        frame.finish(n, &mut LogSpan::default())
    }

    /// The files after so many frames, each noted; and where the last frame begins.
    fn files(frames: u64) -> (Vec<u8>, Vec<u8>, usize) {
        let mut witness = Witness::new(US, 0);
        let (mut log, mut mark, mut last) = (Vec::new(), witness.bytes(), 0);
        for n in 1..=frames {
            let bytes = frame(n, n == 1);
            last = log.len();
            log.extend(&bytes);
            note(&mut mark, &mut witness, &Persist::Append(bytes));
        }
        (log, mark, last)
    }

    fn note(mark: &mut [u8], witness: &mut Witness, persist: &Persist) {
        let (at, bytes) = witness.note(persist);
        mark[at as usize..][..bytes.len()].copy_from_slice(&bytes);
    }

    #[test]
    fn whatever_a_crash_leaves_is_taken_up_and_noted_again() {
        for frames in 0..6 {
            let (log, mark, _) = files(frames);
            let next = frame(frames + 1, frames == 0);
            for cut in 0..=next.len() {
                let torn = [&log[..], &next[..cut]].concat();
                let (stored, mut witness) = Stored::open(&torn, Some(&mark)).unwrap();
                let whole = u64::from(cut == next.len());
                assert_eq!(stored.frame, frames + whole, "frame {frames} and {cut} bytes");
                if whole == 0 {
                    continue;
                }
                // The slot tears, at any byte; and so it does again when the member has started.
                let mut noted = mark.clone();
                let (at, slot) = witness.note(&Persist::Append(next.clone()));
                for torn_slot in 0..=slot.len() {
                    let place = &mut noted[at as usize..][..torn_slot];
                    place.copy_from_slice(&slot[..torn_slot]);
                    noted[at as usize..][torn_slot..slot.len()].fill(0);
                    let (again, mut witness) = Stored::open(&torn, Some(&noted)).unwrap();
                    assert_eq!(again.frame, frames + 1);
                    let replaced = Persist::Replace(frame(frames + 2, true));
                    let mut twice = noted.clone();
                    let (at, _) = witness.note(&replaced);
                    twice[at as usize..][..LEN].fill(7);
                    let Persist::Replace(log) = replaced else { unreachable!() };
                    assert_eq!(Stored::open(&log, Some(&twice)).unwrap().0.frame, frames + 2);
                }
            }
        }
    }

    #[test]
    fn what_was_promised_and_is_gone_is_damage() {
        let (log, mark, last) = files(4);
        let open = |log: &[u8]| Stored::open(log, Some(&mark)).map(|s| s.0.frame);
        assert_eq!(open(&log), Ok(4));
        for cut in 0..log.len() {
            assert!(open(&log[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..log.len() {
            let mut bad = log.clone();
            bad[at] ^= 1;
            assert!(
                open(&bad).is_err(),
                "byte {at} of {} changed, the last frame from {last}",
                log.len()
            );
        }
        assert_eq!(open(&[]), Err(LogError::Behind { frame: 0, promised: 4 }));
        assert_eq!(open(&vec![0; log.len()]), Err(LogError::Behind { frame: 0, promised: 4 }));
        // Older copies of itself, each as it was once.
        for frames in 1..4 {
            assert_eq!(
                open(&files(frames).0),
                Err(LogError::Behind { frame: frames, promised: 4 })
            );
        }
        // A log that is one frame, after it took the place of what was there.
        let only = frame(4, true);
        assert_eq!(open(&only), Ok(4));
        for at in 0..only.len() {
            let mut bad = only.clone();
            bad[at] ^= 0x10;
            assert!(open(&bad).is_err(), "byte {at}");
        }
    }

    /// A crash before the first frame leaves who it was to be the log of, and not an earlier member of the process.
    #[test]
    fn a_log_that_has_not_begun_is_that_of_its_witness() {
        for incarnation in [0, 7] {
            let member = crate::member_anew(crate::node_of(US), incarnation);
            let (stored, _) = Stored::open(&[], Some(&Witness::new(member, 0).bytes())).unwrap();
            assert_eq!(stored, Stored::anew(member));
        }
    }

    /// A slot that is broken may have said more than the other one; the other one alone does not do.
    #[test]
    fn a_damaged_witness_never_lets_through_what_it_would_have_found() {
        let (log, mark, last) = files(4);
        for at in (0..LEN).chain(APART..APART + LEN) {
            let mut bad = mark.clone();
            bad[at] ^= 1;
            assert!(Stored::open(&log[..last], Some(&bad)).is_err(), "byte {at}");
        }
        for broken in [&[][..], &vec![0; mark.len()], &mark[..LEN - 1]] {
            assert_eq!(Stored::open(&log, Some(broken)), Err(LogError::NoWitness));
        }
        assert_eq!(Stored::open(&log, None), Err(LogError::NoWitness));
        let other = Witness::new(MemberId(4), 0).bytes();
        assert!(matches!(Stored::open(&log, Some(&other)), Err(LogError::OtherMember { .. })));
    }

    /// Witnesses of this version must stay readable: these bytes are what it wrote.
    #[test]
    fn a_slot_of_version_1() {
        let mut slot = b"WMk\x01\x03\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0".to_vec();
        slot.extend(checksum::crc32c(&slot).to_le_bytes());
        assert_eq!(Witness::new(US, 9).bytes()[..LEN], slot);
        assert_eq!(Witness::new(US, 9).bytes()[APART..], slot);
    }
}
