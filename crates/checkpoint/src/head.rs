//! What a backup says of itself, without its images and its log: which one it is, upon which it goes, what its images are, from where to where in the
//! log it has everything, and as of which moments it can be restored.

use crate::archive::{ArchiveName, ArchiveReader, Content, Ending, NO_BASE, damaged_backup};
use crate::image::BlockName;
use crate::manifest::{ImagePlace, Manifest, decode};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::Disk;
use std::collections::BTreeMap;
use std::path::Path;

/// See the module.
pub(crate) struct BackupHead<'a> {
    pub(crate) path: &'a Path,
    pub(crate) name: ArchiveName,
    /// The manifest, and its bytes; empty ones if there was no checkpoint.
    pub(crate) manifest: Manifest,
    pub(crate) manifest_bytes: Vec<u8>,
    /// The checksums of the manifest's images.
    pub(crate) checksums: BTreeMap<BlockName, u32>,
    /// What it says of the log; nothing in version 1.
    pub(crate) ending: Option<Ending>,
    /// Bytes of the file.
    pub(crate) bytes: u64,
}

impl<'a> BackupHead<'a> {
    /// Reads the parts in front of the images, and the last one.
    pub(crate) fn read(disk: &dyn Disk, path: &'a Path) -> Result<BackupHead<'a>> {
        let mut archive = ArchiveReader::open(disk, path)?;
        let (name, ending) = (archive.name, archive.ending()?);
        let (mut manifest_bytes, mut sums, mut payload) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(frame) = archive.next(&mut payload)? {
            match frame.content {
                Content::Identity => {}
                Content::Manifest => manifest_bytes.extend_from_slice(&payload),
                Content::Checksums => sums.extend_from_slice(&payload),
                _ => break,
            }
        }
        let manifest = match manifest_bytes.is_empty() {
            true => Manifest::default(),
            false => decode(&manifest_bytes, path, name.database)?,
        };
        let sums: Vec<u32> = sums.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        if name.version > 1 && sums.len() != manifest.images.len() {
            return Err(damaged_backup(path, 0, "it has not one checksum for each image"));
        }
        let checksums = manifest.images.keys().copied().zip(sums).collect();
        let bytes = archive.length();
        Ok(BackupHead { path, name, manifest, manifest_bytes, checksums, ending, bytes })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.name.base == NO_BASE
    }

    /// Whether it has the very image, or the backups that it goes upon have.
    pub(crate) fn has(&self, name: &BlockName, place: &ImagePlace, checksum: u32) -> bool {
        self.manifest.images.get(name) == Some(place) && self.checksums.get(name) == Some(&checksum)
    }

    /// What it says of the log.
    ///
    /// # Errors
    /// 0A000 if it is of version 1.
    pub(crate) fn known_ending(&self) -> Result<Ending> {
        self.ending.ok_or_else(|| {
            let message = format!(
                "\"{}\" was made by an earlier version: it says neither where its log ends nor when that was",
                self.path.display()
            );
            let hint = "Make a full backup with this version first. This one can be restored as a whole.";
            Error::new(SqlState::FeatureNotSupported, message).with_hint(hint)
        })
    }
}
