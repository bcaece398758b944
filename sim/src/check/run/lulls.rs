//! Times in which no host asks for anything. Nodes that die then leave volumes behind that rest.

use fastrand::Rng;
use weft_core::units::{MILLIS, Nanos};

/// One in so many requests comes after a lull.
const SELDOM: u32 = 20;

/// What is drawn of lulls, if there are some in this run: in a third of the seeds.
pub(super) struct Lulls {
    rng: Rng,
    until: Nanos,
}

impl Lulls {
    pub(super) fn draw(seed: u64) -> Option<Lulls> {
        let mut rng = Rng::with_seed(seed ^ 0x0010_0115_0000);
        (rng.u8(0..3) == 0).then_some(Lulls { rng, until: 0 })
    }

    /// For how long a host that is about to ask must wait.
    pub(super) fn wait(&mut self, now: Nanos) -> Option<Nanos> {
        if now >= self.until && self.rng.u32(0..SELDOM) == 0 {
            self.until = now + self.rng.u64(2..80) * MILLIS;
        }
        self.until.checked_sub(now).filter(|left| *left > 0)
    }
}
