//! The disks of a process: which of its nodes is on which.
//!
//! Each disk is a node of the cluster. Which is which is kept in `cluster.toml`, since a disk may
//! come while the process runs, and a disk's path may change in the configuration: what is kept
//! counts. A path of the configuration that is not kept is that of a disk that has been moved, which
//! says so itself, or that has been exchanged; or it is a new disk's, which is not used before
//! `weft disk add`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_core::units::NodeId;

use crate::error::{Result, fail};

/// A disk, and the node that is on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) node: u16,
    pub(crate) path: PathBuf,
    /// It came by a command, and need not stand in the configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) by_command: bool,
}

impl Kept {
    /// The disks of a configuration, for nodes of these numbers.
    pub(crate) fn of(nodes: &[u16], paths: &[PathBuf]) -> Vec<Kept> {
        let kept = |(node, path): (&u16, &PathBuf)| Kept {
            node: *node,
            path: path.clone(),
            by_command: false,
        };
        nodes.iter().zip(paths).map(kept).collect()
    }

    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node)
    }
}

/// Takes up what the configuration says of the disks that are kept. Paths of it that are not used
/// are returned. `holder` says which node's disk is at a path, if one of this cluster is.
pub(crate) fn take_up(
    kept: &mut [Kept],
    configured: &[PathBuf],
    holder: impl Fn(&Path) -> Option<u16>,
) -> Vec<PathBuf> {
    let known = |path: &PathBuf| kept.iter().any(|k| k.path == *path);
    let mut left: Vec<PathBuf> = configured.iter().filter(|p| !known(p)).cloned().collect();
    let gone = |k: &&mut Kept| !k.by_command && !configured.contains(&k.path);
    let mut gone: Vec<&mut Kept> = kept.iter_mut().filter(gone).collect();
    gone.retain_mut(|k| match left.iter().position(|p| holder(p) == Some(k.node)) {
        Some(at) => {
            k.path = left.remove(at);
            false
        }
        None => true,
    });
    // One for one: the disk has been exchanged, unless it is still there. What is on the new one is not touched before
    // `weft disk replace`.
    if let ([exchanged], [path]) = (&mut gone[..], &left[..])
        && holder(path).is_none()
        && holder(&exchanged.path) != Some(exchanged.node)
    {
        exchanged.path = path.clone();
        left.clear();
    }
    left
}

/// Refuses a path that is given twice.
pub(crate) fn check_distinct(paths: &[PathBuf]) -> Result<()> {
    match (0..paths.len()).find(|n| paths[..*n].contains(&paths[*n])) {
        Some(n) => fail(format!("the disk {} is given twice", paths[n].display())),
        None => Ok(()),
    }
}

/// Refuses paths of which two lead to the same disk. A process that runs leaves that to its nodes: the disk of one is
/// missing, and the others serve.
pub(crate) fn refuse_same(paths: &[PathBuf]) -> Result<()> {
    check_distinct(paths)?;
    let whole = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let whole: Vec<PathBuf> = paths.iter().map(whole).collect();
    for (n, path) in whole.iter().enumerate() {
        if let Some(before) = whole[..n].iter().position(|p| p == path) {
            return fail(format!(
                "{} and {} are the same disk ({})",
                paths[before].display(),
                paths[n].display(),
                path.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<PathBuf> {
        text.split_whitespace().map(PathBuf::from).collect()
    }

    /// What is at the paths of disks 3, 4 and 7 after the configuration says `configured`, and what
    /// of it is not used. A path with a number at its end has the disk of that node.
    fn after(configured: &str) -> (String, String) {
        let mut kept = Kept::of(&[3, 4, 7], &paths("/a /b /c"));
        kept[2].by_command = true;
        let holder = |path: &Path| path.to_str()?.get(2..)?.parse().ok();
        let left = take_up(&mut kept, &paths(configured), holder);
        let show = |paths: Vec<&PathBuf>| {
            paths.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        (show(kept.iter().map(|k| &k.path).collect()), show(left.iter().collect()))
    }

    #[test]
    fn what_is_kept_counts_and_disks_that_moved_or_were_exchanged_are_found() {
        for (configured, then, left) in [
            ("/a /b", "/a /b /c", ""),
            ("/b /a /c", "/a /b /c", ""),
            ("/a", "/a /b /c", ""),
            ("/a /x", "/a /x /c", ""),
            ("/a /b /x", "/a /b /c", "/x"),
            ("/x4 /y3", "/y3 /x4 /c", ""),
            ("/x4 /y", "/y /x4 /c", ""),
            ("/x /y", "/a /b /c", "/x /y"),
            ("/a /x7", "/a /b /c", "/x7"),
            ("/a /x9", "/a /b /c", "/x9"),
            ("/a /b /x7", "/a /b /c", "/x7"),
        ] {
            assert_eq!(after(configured), (then.to_string(), left.to_string()), "{configured}");
        }
    }

    /// A path in the configuration may be mistyped.
    #[test]
    fn a_disk_that_is_still_there_has_not_been_exchanged() {
        let mut kept = Kept::of(&[3], &paths("/x3"));
        let holder = |path: &Path| path.to_str()?.get(2..)?.parse().ok();
        assert_eq!(take_up(&mut kept, &paths("/y"), holder), paths("/y"));
        assert_eq!(kept[0].path, paths("/x3")[0]);
    }

    #[test]
    fn one_disk_by_two_paths_is_refused() {
        let dir = std::env::temp_dir().join(format!("weft-disks-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (file, link) = (dir.join("file"), dir.join("link"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let said = |paths: &[&PathBuf]| {
            let paths: Vec<PathBuf> = paths.iter().map(|p| p.to_path_buf()).collect();
            refuse_same(&paths).map_err(|e| e.0)
        };
        assert!(said(&[&file, &dir.join("other")]).is_ok());
        assert!(said(&[&file, &file]).unwrap_err().contains("given twice"));
        assert!(said(&[&file, &link]).unwrap_err().contains("are the same disk"));
        let none = dir.join("none");
        assert!(said(&[&none, &none]).unwrap_err().contains("given twice"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
