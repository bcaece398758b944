//! What must hold once nothing more happens.

use std::sync::Arc;

use weft_core::layout::ColumnRole;
use weft_core::node::{HostOp, Input};
use weft_core::units::NodeId;

use super::hosts::SCRUB;
use super::setup::{UNIT_BLOCKS, VOLUME};
use super::state::State;
use crate::check::numbers;

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
    if let Some(before) = before
        && before != seen
    {
        return Err(format!(
            "the blocks were of writes {before:?} while a node was away, and are of {seen:?} now \
             that it is back"
        ));
    }
    disks_agree(state, &seen)?;
    state.hosts.judge()
}

/// The write that each block is of, as a node says.
fn read_all(state: &mut State, node: NodeId) -> Result<Vec<u32>, String> {
    let (id, op) = Arc::make_mut(&mut state.hosts).read_all(&state.volume);
    state.tell(|| format!("someone asks {node} for everything (request {id})"));
    state.input(node, Input::Host(id, VOLUME, op))?;
    state.rest()?;
    match state.hosts.unanswered() {
        Some(id) => Err(format!("request {id}, a read at rest, is not answered")),
        None => {
            let seen = state.hosts.last_seen();
            state.tell(|| format!("it sees the writes {seen:?}, block by block"));
            Ok(seen)
        }
    }
}

/// Whether the disks themselves hold what was read, and parity that is true. All layouts explored
/// have one parity column, the sum of the data.
fn disks_agree(state: &State, seen: &[u32]) -> Result<(), String> {
    let volume = &state.volume;
    let layout = &volume.geometry.layout;
    let code = &volume.geometry.code;
    assert_eq!(code.parity_columns(), 1, "only sums are looked at");
    for stripe in 0..volume.stripes() {
        let mut sum = Vec::new();
        for column in 0..layout.width() {
            let unit = state.on_disk(stripe, column);
            sum.resize(unit.len(), 0);
            sum.iter_mut().zip(&unit).for_each(|(s, b)| *s ^= b);
            let ColumnRole::Data(i) = layout.role(stripe, column) else { continue };
            let first = (stripe * layout.data_columns() as u64 + i as u64) * UNIT_BLOCKS;
            let expected = &seen[first as usize..(first + UNIT_BLOCKS) as usize];
            if numbers(first, &unit).as_deref() != Ok(expected) {
                return Err(format!(
                    "stripe {stripe}, column {column}: the disk does not hold what is read"
                ));
            }
        }
        if sum.iter().any(|b| *b != 0) {
            return Err(format!("stripe {stripe}: the parity on the disk is not true"));
        }
    }
    Ok(())
}
