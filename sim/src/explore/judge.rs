//! What must hold once nothing more happens.

use std::sync::Arc;

use weft_core::layout::ColumnRole;
use weft_core::node::{HostOp, Input};
use weft_core::units::NodeId;

use super::hosts::SCRUB;
use super::setup::{UNIT_BLOCKS, VOLUME};
use super::state::State;
use crate::check::{BLOCK, numbers};

/// Judges a state in which nothing more happens by itself.
///
/// Every host whose node lives has been answered. Those that are left are asked for everything;
/// then the nodes that are down return, one after the other in no other order, and everything must
/// come to rest and be whole: parity is true, on the disks too; what was seen before the return is
/// still there; and what the hosts saw is linearizable, each write being there or not, whole.
pub(super) fn judge(state: &mut State) -> Result<(), String> {
    if let Some(id) = state.hosts.unanswered() {
        return Err(format!("everything is at rest, and request {id} is not answered"));
    }
    Arc::make_mut(&mut state.hosts).send_home();
    let down = state.down();
    let mut before = None;
    if !down.is_empty() {
        let left = state.running()[0];
        before = Some(read_all(state, left)?);
        for n in down {
            state.start(n)?;
        }
        state.rest()?;
    }
    if let Some(what) = state.not_whole() {
        return Err(what);
    }
    state.input(NodeId(0), Input::Host(SCRUB, VOLUME, HostOp::SCRUB))?;
    state.rest()?;
    let seen = read_all(state, NodeId(0))?;
    let Some(seen) = seen.into_iter().collect::<Option<Vec<u32>>>() else {
        return Err("all nodes are there, and something cannot be read".into());
    };
    let same = |(before, now): (&Option<u32>, &u32)| before.is_none_or(|b| b == *now);
    if let Some(before) = before
        && !before.iter().zip(&seen).all(same)
    {
        return Err(format!(
            "the blocks were of writes {before:?} while a node was away, and are of {seen:?} now \
             that it is back"
        ));
    }
    disks_agree(state, &seen)?;
    state.hosts.judge()
}

/// The write that each block is of, as a node says. What is on a node that is away may not be there, where parity waits.
fn read_all(state: &mut State, node: NodeId) -> Result<Vec<Option<u32>>, String> {
    let units = 0..state.volume.size / BLOCK / UNIT_BLOCKS;
    let all = units.map(|unit| read_unit(state, node, unit)).collect::<Result<Vec<_>, String>>()?;
    let seen = all.concat();
    state.tell(|| format!("it sees the writes {seen:?}, block by block"));
    Ok(seen)
}

fn read_unit(state: &mut State, node: NodeId, unit: u64) -> Result<Vec<Option<u32>>, String> {
    let blocks = unit * UNIT_BLOCKS..(unit + 1) * UNIT_BLOCKS;
    let (id, op) = Arc::make_mut(&mut state.hosts).read(blocks);
    state.tell(|| format!("someone asks {node} for unit {unit} (request {id})"));
    state.input(node, Input::Host(id, VOLUME, op))?;
    state.rest()?;
    if let Some(id) = state.hosts.unanswered() {
        return Err(format!("request {id}, a read at rest, is not answered"));
    }
    let seen = state.hosts.last_seen();
    let (stripe, column, _) = state.volume.geometry.locate(unit * state.volume.geometry.unit);
    match seen.is_empty() {
        true if state.down().contains(&state.volume.extent(stripe).columns[column].0) => {
            Ok(vec![None; UNIT_BLOCKS as usize])
        }
        true => Err(format!("unit {unit} cannot be read, and its node is there")),
        false => Ok(seen.into_iter().map(Some).collect()),
    }
}

/// Whether the disks themselves hold what was read, and parity that is true.
fn disks_agree(state: &State, seen: &[u32]) -> Result<(), String> {
    let volume = &state.volume;
    let g = &volume.geometry;
    for stripe in 0..volume.stripes() {
        let units: Vec<Vec<u8>> = (0..g.layout.width()).map(|c| state.on_disk(stripe, c)).collect();
        let (data, parity): (Vec<usize>, Vec<usize>) = (0..g.layout.width())
            .partition(|column| matches!(g.layout.role(stripe, *column), ColumnRole::Data(_)));
        for column in &data {
            let i = g.code_column(stripe, *column);
            let first = (stripe * g.data_columns() as u64 + i as u64) * UNIT_BLOCKS;
            let expected = &seen[first as usize..(first + UNIT_BLOCKS) as usize];
            if numbers(first, &units[*column]).as_deref() != Ok(expected) {
                return Err(format!(
                    "stripe {stripe}, column {column}: the disk's content differs from reads"
                ));
            }
        }
        let data: Vec<&[u8]> = (0..data.len()).map(|i| &units[g.seat_of(stripe, i)][..]).collect();
        let mut fresh = vec![vec![0; g.unit as usize]; parity.len()];
        g.code.encode(&data, &mut fresh.iter_mut().map(|p| &mut p[..]).collect::<Vec<_>>());
        let is_true = |(j, p): (usize, &Vec<u8>)| units[g.layout.parity_seat(stripe, j)] == *p;
        if !fresh.iter().enumerate().all(is_true) {
            return Err(format!("stripe {stripe}: the parity on the disk is not true"));
        }
    }
    Ok(())
}
