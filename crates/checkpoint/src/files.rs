//! The files of images in a database's folder.

use crate::manifest::Manifest;
use ankerdb_base::Result;
use ankerdb_log::{Disk, are_pinned, failed};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENDING: &str = ".blocks";
const DIGITS: usize = 16;
/// A file is written anew when no more than one part in so many of it is still images that count: so that what is written for that is
/// at most a fifth of what has taken the place of the others.
const REWRITTEN_BELOW: u64 = 6;

/// The folder, the disk and the database whose images they are.
#[derive(Clone)]
pub struct FolderOfImages {
    /// The operations on files.
    pub disk: Arc<dyn Disk>,
    /// The folder.
    pub folder: PathBuf,
    /// The database's identity.
    pub database: [u8; 16],
}

pub(crate) fn file_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:0DIGITS$}{ENDING}"))
}

fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING)?;
    (digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

impl FolderOfImages {
    /// The manifest, if there is one. What it does not name is removed. The names in the folder have been synced, which the log does: one
    /// that was not must not be built upon.
    ///
    /// # Errors
    /// Those of [`Manifest::read`] and of the disk.
    pub fn open(&self) -> Result<Option<Manifest>> {
        let manifest = Manifest::read(&*self.disk, &self.folder, self.database)?;
        self.clean(manifest.as_ref().unwrap_or(&Manifest::default()))?;
        Ok(manifest)
    }

    /// Removes the files of images that a manifest, which is in its place for good, does not name. While somebody
    /// [copies them](ankerdb_log::pin_files) they stay, for a later call.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn clean(&self, manifest: &Manifest) -> Result<()> {
        if are_pinned(&*self.disk, &self.folder)? {
            return Ok(());
        }
        let names = self.disk.list(&self.folder).map_err(failed("list the folder", &self.folder))?;
        let remnant = Manifest::remnant(&self.folder);
        for name in names {
            let path = self.folder.join(&name);
            let is_unused = file_number(&name).is_some_and(|number| !manifest.files.contains_key(&number));
            if is_unused || path == remnant {
                self.disk.remove(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }
}

impl FolderOfImages {
    /// A number that no file has: behind those that the manifest names, and those that only a copier needs any more.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn next_file(&self, manifest: &Manifest) -> Result<u64> {
        let names = self.disk.list(&self.folder).map_err(failed("list the folder", &self.folder))?;
        let last = names.iter().filter_map(|name| file_number(name)).max();
        Ok(manifest.next_file().max(last.map_or(1, |last| last + 1)))
    }
}

impl Manifest {
    /// The manifest of the next checkpoint, while it is being made: it names no image yet.
    pub fn next(&self) -> Manifest {
        Manifest { number: self.number + 1, ..Manifest::default() }
    }

    /// Behind the numbers of its files.
    fn next_file(&self) -> u64 {
        self.files.last_key_value().map_or(1, |(last, _)| last + 1)
    }

    /// The files of which so little counts that what does is written anew.
    pub fn files_to_rewrite(&self) -> BTreeSet<u64> {
        let used = self.bytes_used();
        let is_wasted = |(file, bytes): &(&u64, &u64)| used[file] * REWRITTEN_BELOW <= **bytes;
        self.files.iter().filter(is_wasted).map(|(file, _)| *file).collect()
    }

    /// Names the files of the images, of which the lengths are in `lengths` or were in the manifest before.
    pub fn name_files(&mut self, before: &Manifest, lengths: impl IntoIterator<Item = (u64, u64)>) {
        let used: BTreeSet<u64> = self.images.values().map(|place| place.file).collect();
        let known = before.files.iter().map(|(file, bytes)| (*file, *bytes)).chain(lengths);
        self.files = known.filter(|(file, _)| used.contains(file)).collect();
    }
}
