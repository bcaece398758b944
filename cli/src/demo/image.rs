//! A file system to put on the demo's volume.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

/// Files in the file system.
const FILES: usize = 64;

/// An image, and what it is.
pub struct Image {
    /// Its bytes.
    pub content: Vec<u8>,
    /// What it is, in words.
    pub what: String,
    is_ext4: bool,
}

/// Makes an image of `size` bytes: ext4 if this machine can make one, else an archive of
/// the same files. Files that are needed meanwhile go to `place`.
pub fn make(place: &Path, size: u64, rng: &mut Rng) -> Result<Image> {
    let dir = tempfile::tempdir_in(place)?;
    // Together they fill about a quarter of it.
    let longest = size as usize / FILES / 2;
    let files = dir.path().join("files");
    fs::create_dir(&files)?;
    for n in 0..FILES {
        let mut content = vec![0; rng.usize(..longest)];
        rng.fill(&mut content);
        fs::write(files.join(format!("file-{n}")), content)?;
    }
    let path = dir.path().join("image");
    fs::File::create(&path)?.set_len(size)?;
    match mkfs(&files, &path) {
        Some(made) => {
            made?;
            let what = format!("an ext4 file system with {FILES} files");
            Ok(Image { content: fs::read(&path)?, what, is_ext4: true })
        }
        None => {
            let what = format!("an archive of {FILES} files (mkfs.ext4 is not installed here)");
            Ok(Image { content: archive(&files, size)?, what, is_ext4: false })
        }
    }
}

/// Makes a file system of the files; `None` if there is no program for it.
fn mkfs(files: &Path, image: &Path) -> Option<Result<()>> {
    let output = run("mkfs.ext4", |c| c.args(["-q", "-F", "-d"]).arg(files).arg(image))?;
    Some(output.and_then(|(ok, said)| {
        ensure!(ok, "mkfs.ext4 failed: {said}");
        Ok(())
    }))
}

/// The files one after the other, each with its name and length.
fn archive(files: &Path, size: u64) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(size as usize);
    for entry in fs::read_dir(files)? {
        let entry = entry?;
        let content = fs::read(entry.path())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        out.extend_from_slice(format!("{name} {}\n", content.len()).as_bytes());
        out.extend_from_slice(&content);
    }
    out.resize(size as usize, 0);
    Ok(out)
}

impl Image {
    /// Lets e2fsck look at `back`, the image as it was read back. `None` if it is not
    /// installed or does not apply.
    pub fn check(&self, place: &Path, back: &[u8]) -> Result<Option<String>> {
        if !self.is_ext4 {
            return Ok(None);
        }
        let file = tempfile::NamedTempFile::new_in(place)?;
        fs::write(file.path(), back)?;
        match run("e2fsck", |c| c.arg("-fn").arg(file.path())) {
            None => Ok(None),
            Some(outcome) => match outcome? {
                (true, _) => {
                    Ok(Some("e2fsck: the file system that was read back is clean".to_string()))
                }
                (false, said) => bail!("e2fsck finds the file system damaged: {said}"),
            },
        }
    }
}

/// Runs a program, also one that only administrators have in their path. Says whether it
/// succeeded and what it said; `None` if it is not installed.
fn run(
    program: &str,
    add: impl Fn(&mut Command) -> &mut Command,
) -> Option<Result<(bool, String)>> {
    for name in [program.to_string(), format!("/usr/sbin/{program}"), format!("/sbin/{program}")] {
        let mut command = Command::new(&name);
        match add(&mut command).stdin(Stdio::null()).output() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Some(Err(e).with_context(|| format!("cannot run {name}"))),
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                let said = String::from_utf8_lossy(&said).into_owned();
                return Some(Ok((output.status.success(), said)));
            }
        }
    }
    None
}
