//! Headers of writes, drawn.

use super::*;

pub(super) fn header() -> impl Strategy<Value = Header> {
    let task = prop_oneof![
        range().prop_map(Task::Write),
        range().prop_map(Task::Accept),
        (range(), ts()).prop_map(|(range, of)| Task::Fold { range, of }),
        (any::<u64>(), span(), any::<u32>().prop_map(ColumnSet))
            .prop_map(|(stripe, part, parities)| Task::Refresh { stripe, part, parities }),
        (any::<u64>(), 0..32usize, span()).prop_map(|(stripe, column, part)| Task::Copy {
            stripe,
            column,
            part,
        }),
        (any::<u64>(), 0..32usize, span()).prop_map(|(stripe, column, part)| Task::Lose {
            stripe,
            column,
            part,
        }),
        (any::<u64>(), any::<u64>(), 0..32usize, span()).prop_map(
            |(stripe, stripes, column, part)| Task::Rebuild { stripe, stripes, column, part }
        ),
    ];
    let asker = option::of(asker());
    let columns = || any::<u32>().prop_map(ColumnSet);
    let asked = (asker, option::of(holder()));
    let waits = (columns(), option::of(ts()), any::<bool>(), any::<bool>()).prop_map(
        |(parities, marked_since, must, copied)| Waits { parities, marked_since, must, copied },
    );
    let fields = (ts(), volume_id(), columns(), waits, calculators(), task, asked);
    fields.prop_map(|(ts, volume, avoid, waits, calculators, task, (asker, holder))| Header {
        ts,
        volume,
        avoid,
        waits,
        calculators,
        task,
        asker,
        holder,
    })
}

pub(super) fn calculators() -> impl Strategy<Value = Calculators> {
    vec(0..32u8, 0..=Calculators::MOST).prop_map(|c| Calculators::new(&c).expect("not too many"))
}
