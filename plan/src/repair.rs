//! How long a repair takes, alone and beside others.

/// Repairs shorter than this are as good as none, and chains need a rate.
const LEAST_H: f64 = 1e-3;

/// The time of a repair, in hours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RepairTime {
    /// Until the rebuild begins, and whatever others do.
    pub before_h: f64,
    /// The least that the rebuild takes.
    pub alone_h: f64,
    /// What the rebuild takes of something that all rebuilds share, the array's bandwidth for instance.
    pub shared_h: f64,
}

impl RepairTime {
    /// A repair that takes as long whatever others do.
    pub fn constant(hours: f64) -> RepairTime {
        RepairTime { before_h: hours, ..RepairTime::default() }
    }

    /// The time of each repair, by the number of those under way.
    pub fn hours(&self, under_way: usize) -> f64 {
        (self.before_h + self.rebuild_h(under_way)).max(LEAST_H)
    }

    /// The same from the begin of the rebuild.
    pub fn rebuild_h(&self, under_way: usize) -> f64 {
        self.alone_h.max(self.shared_h * under_way.max(1) as f64)
    }

    /// The same repair, with a rebuild that takes `factor` times as long.
    pub fn times(self, factor: f64) -> RepairTime {
        RepairTime { alone_h: self.alone_h * factor, shared_h: self.shared_h * factor, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rebuilds_that_share_take_longer_together() {
        let repair = RepairTime { before_h: 5.0, alone_h: 10.0, shared_h: 4.0 };
        assert_eq!([1, 2, 3].map(|n| repair.hours(n)), [15.0, 15.0, 17.0]);
        assert_eq!(repair.times(2.0).hours(3), 29.0);
        assert_eq!(RepairTime::constant(0.0).hours(1), LEAST_H);
    }
}
