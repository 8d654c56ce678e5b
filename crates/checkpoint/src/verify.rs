//! Looking at all images of a checkpoint for damage, those of tables that are gone, too.
//!
//! Reading ends at the first image that is wrong. So if there is one, its file's images are read one by one, and each that is wrong is told.

use crate::files::FolderOfImages;
use crate::manifest::Manifest;
use crate::reader::{ImageLoader, read_images};
use ankerdb_base::{Error, Result};
use ankerdb_log::tell_fault;
use ankerdb_table::ImageOfBlock;

/// Looks at all images that count, with so many threads. Tells each fault to `fault`, with its file and offset.
///
/// # Errors
/// `FeatureNotSupported` if they are of a newer format, `InsufficientPrivilege` if they cannot be read, `OutOfMemory`.
pub fn verify_images(
    place: &FolderOfImages,
    manifest: &Manifest,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
    fault: &mut dyn FnMut(Error),
) -> Result<()> {
    let total = manifest.images.values().map(|image| image.bytes).sum();
    let mut before = 0;
    for (&file, &length) in &manifest.files {
        let mut part = Manifest { files: [(file, length)].into(), ..Manifest::default() };
        let images = manifest.images.iter().filter(|(_, image)| image.file == file);
        part.images = images.map(|(name, image)| (*name, *image)).collect();
        let looks = Looks { before, total, progress };
        let look = |part: &Manifest| read_images(place, part, threads, &looks);
        before += part.images.values().map(|image| image.bytes).sum::<u64>();
        let Err(error) = look(&part) else { continue };
        tell_fault(error, &mut |_| {})?;
        // Opening the file may be what fails.
        let images = std::mem::take(&mut part.images);
        if let Err(error) = look(&part) {
            tell_fault(error, fault)?;
            continue;
        }
        for (name, image) in images {
            part.images = [(name, image)].into();
            if let Err(error) = look(&part) {
                tell_fault(error, fault)?;
            }
        }
    }
    Ok(())
}

/// Reads, and does nothing with it.
struct Looks<'a> {
    before: u64,
    total: u64,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl ImageLoader for Looks<'_> {
    fn wants(&self, _table: u32) -> bool {
        true
    }

    fn block(&self, _table: u32, _image: &ImageOfBlock<'_>) -> Result<()> {
        Ok(())
    }

    fn progress(&self, read: u64, _total: u64) {
        (self.progress)(self.before + read, self.total);
    }
}
