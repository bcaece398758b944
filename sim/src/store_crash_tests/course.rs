//! A script is played once for many crashes. Before each of its acts the bench is copied, and each crash at an operation of
//! this act goes on from the copy. Otherwise each would play the script from its beginning.

use super::Where;
use super::bench::{Bench, Order};
use super::script::Act;

/// So often a script is played whose order is drawn: else all crashes would have the same order of operations before their
/// act. Each crash draws its own from there on.
const COURSES: usize = 16;

/// Where a script has got before one of its acts.
pub(super) struct Stage<'a> {
    bench: Bench,
    /// This act, and those after it.
    acts: &'a [Act],
    /// How many operations and writes had ended when it was over; nothing if no act is left.
    ended: Option<(usize, usize)>,
    /// Which course it is, of how many.
    course: (usize, usize),
}

impl<'a> Stage<'a> {
    /// The numbers from one on and before another, if there is one, that are for this course.
    fn of_course(&self, first: usize, end: Option<usize>) -> impl Iterator<Item = usize> + use<> {
        let (course, courses) = self.course;
        let own = (first..).filter(move |at| at % courses == course);
        own.take_while(move |at| end.is_none_or(|end| *at < end))
    }

    /// The operations of this act. Behind the last act they go on, as long as the disk has something to do.
    pub(super) fn operations(&self) -> impl Iterator<Item = usize> + use<> {
        self.of_course(self.bench.ended, self.ended.map(|(ended, _)| ended))
    }

    /// The writes of this act, likewise.
    pub(super) fn writes(&self) -> impl Iterator<Item = usize> + use<> {
        self.of_course(self.bench.written, self.ended.map(|(_, written)| written))
    }

    /// How many operations have ended before.
    pub(super) fn ended(&self) -> usize {
        self.bench.ended
    }

    /// A copy of the bench that draws with this seed and is cut off at an operation; and what it has yet to do.
    pub(super) fn cut_off_at(&self, at: usize, seed: usize) -> (Bench, &'a [Act]) {
        let mut bench = self.bench.clone();
        bench.rng.seed(seed as u64);
        bench.left = Some(at - bench.ended);
        (bench, self.acts)
    }
}

/// Plays a script in an order on the bench that `start` makes of a seed, and shows each stage.
pub(super) fn play(
    acts: &[Act],
    order: Order,
    start: impl Fn(u64, Order) -> Bench,
    mut look: impl FnMut(&Stage),
) {
    let courses = if order == Order::Any { COURSES } else { 1 };
    for course in 0..courses {
        let _where = Where(format!("{order:?}, course {course}"));
        let mut bench = start(course as u64, order);
        for n in 0..=acts.len() {
            let (before, acts) = (bench.clone(), &acts[n..]);
            let ended = acts.first().map(|act| {
                assert!(bench.act(*act), "nothing is cut off now");
                (bench.ended, bench.written)
            });
            look(&Stage { bench: before, acts, ended, course: (course, courses) });
        }
    }
}
