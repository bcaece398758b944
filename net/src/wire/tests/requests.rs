//! What endpoints and controllers say, drawn.

use super::*;

pub fn asker() -> impl Strategy<Value = Asker> {
    (request(), any::<u64>()).prop_map(|(id, oldest)| Asker { id, oldest })
}

pub fn asked() -> impl Strategy<Value = Ask> {
    let wish = prop_oneof![
        range().prop_map(Wish::Read),
        (range(), option::of(buffer())).prop_map(|(range, data)| Wish::Write(range, data)),
    ];
    let again = (ts(), any::<u64>()).prop_map(|(since, epoch)| Again { since, epoch });
    let origin = (asker(), option::of(again), any::<u64>());
    let origin = origin.prop_map(|(asker, again, permitted)| Origin { asker, again, permitted });
    let stages = vec![Stage::New, Stage::Repeated, Stage::Abandoned];
    let fields = (any::<(u64, u64, u128)>(), volume_id(), wish, origin, ts(), select(stages));
    fields.prop_map(|((number, oldest, key), volume, wish, origin, after, stage)| Ask {
        number,
        oldest,
        key: Key(key),
        volume,
        wish,
        origin,
        after,
        stage,
    })
}

pub fn done() -> impl Strategy<Value = Result<Vec<Buffer>, HostError>> {
    let error =
        (0..14u8, any::<(u64, u64, u64)>(), place_error()).prop_map(|(n, of, why)| match n {
            0 => HostError::NoVolume,
            1 => HostError::TooManyLost,
            2 => HostError::NoProgress { attempts: of.0 as u32 },
            3 => HostError::OutOfRange { offset: of.0, len: of.1, size: of.2 },
            4 => HostError::Gone,
            5 => HostError::OutcomeUnknown,
            6 => HostError::NotServing,
            7 => HostError::ReadOnly,
            8 => HostError::Outdated,
            9 => HostError::Reserved,
            10 => HostError::Differs { at: of.0 },
            11 => HostError::NotOffered,
            12 => HostError::NoSpace,
            _ => HostError::Place(why),
        });
    prop_oneof![vec(buffer(), 0..3).prop_map(Ok), error.prop_map(Err)]
}

pub fn holder() -> impl Strategy<Value = Holder> {
    (node(), any::<u64>(), any::<u128>()).prop_map(|(node, number, key)| Holder {
        node,
        number,
        key: Key(key),
    })
}
