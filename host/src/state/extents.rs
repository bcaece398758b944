//! The extents of volumes in the state file. Snapshots and clones have the extents of the volume below them, in another
//! address space. Only the first volume of a family writes them out; the others name it and their space.

use std::collections::BTreeMap;

use weft_core::cluster::{Extent, Volume};
use weft_core::units::SPACE_SECTORS;

use crate::error::{Error, Result};

/// For each extent its first stripe, and for each column node and first data sector.
pub(super) type Extents = Vec<(u64, Vec<(u16, u64)>)>;

/// A volume whose extents are written out, and the address space in which another volume has the same.
pub(super) type Alike = (u32, u64);

/// What a volume writes of its extents: all of them, or where the same ones stand.
pub(super) fn entry<'a>(
    volume: &'a Volume,
    written: &mut Vec<&'a Volume>,
) -> (Extents, Option<Alike>) {
    if let Some(other) = written.iter().find(|other| are_alike(other, volume)) {
        return (Vec::new(), Some((other.id.0, volume.space())));
    }
    written.push(volume);
    let of =
        |extent: &Extent| (extent.first, extent.columns.iter().map(|c| (c.0.0, c.1)).collect());
    (volume.extents.iter().map(of).collect(), None)
}

/// Whether a volume has the extents of another one, all in one address space.
fn are_alike(one: &Volume, volume: &Volume) -> bool {
    let space = volume.space();
    let has = |a: &[_], b: &[_]| {
        let same = |(a, b): (&(_, u64), &(_, u64))| {
            a.0 == b.0 && a.1 % SPACE_SECTORS == b.1 % SPACE_SECTORS && b.1 / SPACE_SECTORS == space
        };
        a.len() == b.len() && a.iter().zip(b).all(same)
    };
    !volume.extents.is_empty()
        && one.extents.len() == volume.extents.len()
        && one
            .extents
            .iter()
            .zip(&volume.extents)
            .all(|(a, b)| a.first == b.first && has(&a.columns, &b.columns))
}

/// The extents of volumes that have been read, by the number of the volume.
#[derive(Default)]
pub(super) struct Read(BTreeMap<u32, Extents>);

impl Read {
    /// The extents of the next volume.
    ///
    /// # Errors
    /// If they stand at a volume that is not there, or the space is none.
    pub(super) fn next(&mut self, id: u32, own: Extents, alike: Option<Alike>) -> Result<Extents> {
        let Some((of, space)) = alike else {
            self.0.insert(id, own.clone());
            return Ok(own);
        };
        let known = self.0.get(&of).filter(|_| own.is_empty());
        let first = space
            .checked_mul(SPACE_SECTORS)
            .filter(|first| first.checked_add(SPACE_SECTORS).is_some());
        let (Some(known), Some(first)) = (known, first) else {
            return Err(Error(format!(
                "the extents of volume {id} are those of volume {of} in space {space}, which does not exist"
            )));
        };
        let placed = |(node, sector): &(u16, u64)| (*node, first + sector % SPACE_SECTORS);
        Ok(known
            .iter()
            .map(|(stripe, columns)| (*stripe, columns.iter().map(placed).collect()))
            .collect())
    }
}
