//! Volumes, drawn at random.

use super::*;

pub fn volume() -> impl Strategy<Value = Volume> {
    let sizes = (1..100u64, 0..6usize);
    (volume_id(), "[a-zé]{0,20}", geometry(), policy(), sizes, vec(extent(), 6)).prop_map(
        |(id, name, geometry, policy, (extent_stripes, count), extents)| Volume {
            apart: name.clone(),
            visible: count as u64,
            unordered_sharing: count % 2 == 1,
            deletion: Deletion { since: (count % 3 == 1).then_some(extent_stripes) },
            ranges: (count % 2 == 1)
                .then_some(PolicyRange { first: 0, end: 1, redundancy: policy.redundancy })
                .into_iter()
                .collect(),
            hosts: (count % 3 != 0).then(|| {
                let access = |n| if n % 2 == 0 { Access::Full } else { Access::ReadOnly };
                (0..count).map(|n| (format!("host-{n}"), access(n))).collect()
            }),
            reservations: reservations(count),
            lineage: Lineage {
                below: (count % 2 == 0).then_some(VolumeId(count as u32)),
                snapshot: (count % 3 == 2).then(|| Snapshot {
                    of: id,
                    taken: extent_stripes,
                    source: (count > 2).then_some(source(extent_stripes)),
                    scheduled: Every::ALL.get(extent_stripes as usize % 5).copied(),
                }),
                flattens: count % 4 == 2,
            },
            import: (count % 3 == 0).then(|| Import {
                name: name.clone(),
                into: (count % 2 == 0).then_some(id),
                snapshot: name.clone(),
                taken: extent_stripes,
                source: source(extent_stripes),
                done: extent_stripes / 2,
            }),
            id,
            name,
            size: geometry.stripe_bytes() * extent_stripes * count as u64,
            layout: "raid5".into(),
            policy,
            extents: extents
                .into_iter()
                .take(count)
                .enumerate()
                .map(|(n, e)| cut(e, n as u64 * extent_stripes, geometry.layout.width()))
                .collect(),
            geometry,
        },
    )
}

fn source(n: u64) -> Source {
    Source { cluster: u128::from(n) << 70 | 3, snapshot: VolumeId(n as u32) }
}

fn reservations(count: usize) -> Reservations {
    let name = |n: usize| Registrant { host: format!("iqn.{n}"), port: n as u16 };
    Reservations {
        version: count as u64,
        generation: count as u32 / 2,
        registered: (0..count).map(|n| (name(n), 1 << (9 * n))).collect(),
        reservation: (count > 0)
            .then(|| Reservation { kind: ReservationKind::ALL[count % 6], holder: name(0) }),
        outcomes: (0..count).map(|n| (u64::MAX - n as u64, ReservationOutcome::Done)).collect(),
        resets: count as u64 / 3,
        hold: (count % 2 == 1).then(|| Hold { who: name(7), stamp: u64::MAX - 3 }),
        removed: (0..count).map(|n| Removal { who: name(n + 9), version: n as u64 }).collect(),
    }
}

pub fn times_away(times: Vec<(Timestamp, Option<Timestamp>)>) -> Vec<TimeAway> {
    times.into_iter().map(|(from, until)| TimeAway { from, until }).collect()
}
