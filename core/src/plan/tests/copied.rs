//! Plans of copied writes.

use super::*;

/// New content goes to the disk of the data and to those of parity at once, and nothing is read.
#[test]
fn a_copied_write_takes_one_round_trip_and_reads_nothing() {
    for (data, parity) in [(3, 1), (4, 2), (1, 2)] {
        let (g, policy) = (geometry(data, parity), Policy::default());
        let plan = |range, avoid| {
            let plan = WritePlan::deferring(&g, range, avoid, policy, Waits::COPIED);
            plan.expect("it can be done").rows[0]
        };
        let range = Range { offset: U - SECTOR, len: SECTOR };
        let row = plan(range, ColumnSet::EMPTY);
        assert_eq!(row.copied, ColumnSet::first(parity));
        assert_eq!(row.changed_seats(&g).len(), 1 + parity);
        assert_eq!(row.serial_messages(&g), 2);
        for cell in row.cells(&g).filter(|cell| matches!(cell.at, Role::Column(_))) {
            assert!(cell.reads().is_empty() && cell.sends().next().is_none(), "{cell:?}");
            assert_eq!(cell.copies(), Some(0), "{cell:?}");
        }
        let without = |range, avoid| plan(range, avoid).copied;
        let rest = Range { offset: 512, len: SECTOR };
        assert!(without(rest, ColumnSet::EMPTY).is_empty(), "parts of sectors");
        let whole = Range { offset: 0, len: g.stripe_bytes() };
        assert!(without(whole, ColumnSet::EMPTY).is_empty(), "whole stripes need no copies");
        let lost = ColumnSet::of(g.layout.column_at(0, g.layout.parity_seat(0, 0)));
        assert!(without(range, lost).is_empty(), "where a disk is away");
        let large = Geometry::new(g.layout, 2 * MOST_COPIED);
        for (len, copied) in [(MOST_COPIED, parity), (MOST_COPIED + SECTOR, 0)] {
            let range = Range { offset: 0, len };
            let plan = WritePlan::deferring(&large, range, ColumnSet::EMPTY, policy, Waits::COPIED);
            assert_eq!(plan.unwrap().rows[0].copied.len(), copied, "{len} bytes");
        }
        if data > 1 {
            let two = Range { offset: U - SECTOR, len: 2 * SECTOR };
            assert!(without(two, ColumnSet::EMPTY).is_empty(), "of two units");
        }
    }
}
