//! What goes wrong, drawn by the seed.

use weft_core::units::{MILLIS, Nanos, NodeId};
use weft_member::MemberId;

use super::{Event, World};

/// Something goes wrong, or is mended.
pub fn fault(world: &mut World) {
    if !world.faults {
        return;
    }
    let next = world.rng.u64(50 * MILLIS..1500 * MILLIS);
    world.push(next, Event::Fault);
    let ids: Vec<MemberId> = world.processes.keys().copied().collect();
    let whom = ids[world.rng.usize(0..ids.len())];
    match world.rng.u32(0..13) {
        0 | 1 => {
            world.crash(whom);
            if world.rng.u32(0..4) == 0 {
                world.damage_log(whom);
            }
            let (life, down) = (world.processes[&whom].life, world.rng.u64(1..6000) * MILLIS);
            world.push(down, Event::Restart(whom, life));
        }
        2 => {
            let leader = world.leader().unwrap_or(whom);
            world.crash(leader);
            let life = world.processes[&leader].life;
            let down = world.rng.u64(1..4000) * MILLIS;
            world.push(down, Event::Restart(leader, life));
        }
        3 | 4 => {
            let time: Nanos = world.rng.u64(100..5000) * MILLIS;
            world.pause(whom, time);
        }
        5 => world.kill_node(whom, NodeId(whom.0 as u16 - 1)),
        6 | 7 => {
            // Two sides, the links between them cut in one direction or in both.
            let side: u64 = world.rng.u64(..);
            let both = world.rng.bool();
            world.tell(format!("cut {:b}, both ways {both}", side % (2 << ids.len())));
            let in_side = |m: &MemberId| side >> m.0 & 1 == 1;
            for a in ids.iter().filter(|m| in_side(m)) {
                for b in ids.iter().filter(|m| !in_side(m)) {
                    world.cut.insert((*a, *b));
                    if both {
                        world.cut.insert((*b, *a));
                    }
                }
            }
        }
        8 => {
            let other = ids[world.rng.usize(0..ids.len())];
            world.tell(format!("cut {whom} to {other}"));
            world.cut.insert((whom, other));
        }
        9 => world.loss_ppm = [0, 0, 20_000, 100_000, 300_000][world.rng.usize(0..5)],
        10 if world.rng.u32(0..4) == 0 => {
            world.tell("all power is cut".into());
            ids.iter().for_each(|m| world.crash(*m));
            for m in ids {
                let (life, down) = (world.processes[&m].life, world.rng.u64(1..3000) * MILLIS);
                world.push(down, Event::Restart(m, life));
            }
        }
        11 => {
            // Connections break, and nothing else: of the leader, or of anyone.
            let whom = world.leader().filter(|_| world.rng.bool()).unwrap_or(whom);
            world.tell(format!("{whom} loses its connections"));
            world.disconnect(whom);
        }
        _ => world.cut.clear(),
    }
}

/// Nothing is wrong any more.
pub fn heal(world: &mut World) {
    world.tell("everything is mended".into());
    world.faults = false;
    world.volumes = false;
    world.cut.clear();
    world.loss_ppm = 0;
    let ids: Vec<MemberId> = world.processes.keys().copied().collect();
    for id in ids {
        let p = world.processes.get_mut(&id).unwrap();
        p.paused_until = p.paused_until.min(world.now);
        world.restart(id);
    }
}
