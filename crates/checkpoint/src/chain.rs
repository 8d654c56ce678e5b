//! Backups that are restored together: a full one, and incremental ones, each made since the one before.
//!
//! ```text
//!            monday (full)         tuesday                     wednesday
//! images     all                   those that differ           those that differ
//! log        ├──────────┤──────────┼──────────┤   (gone)  ├────┼────────┤
//! as of         ▲images    any moment ───────►              ▲images   ►
//! ```
//!
//! The images of one of them, and the log behind these, as far as it goes without a gap, give any moment since that one's images were complete.

use crate::archive::Ending;
use crate::head::BackupHead;
use crate::moment::show_moment;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_log::{Disk, WallTime};
use std::path::Path;

/// See the module.
pub(crate) struct Chain<'a> {
    pub(crate) backups: Vec<BackupHead<'a>>,
}

/// What of a chain is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needed {
    /// The backup whose images they are.
    pub(crate) images: usize,
    /// The last one whose log goes on behind them.
    pub(crate) log: usize,
}

impl<'a> Chain<'a> {
    /// Looks whether the files belong together, in this order.
    ///
    /// # Errors
    /// 22023 naming the file that does not, XX001 if one is damaged, 0A000 if it is of a newer version; those of the disk.
    pub(crate) fn read(disk: &dyn Disk, paths: &[&'a Path]) -> Result<Chain<'a>> {
        let mut backups: Vec<BackupHead<'a>> = Vec::new();
        for &path in paths {
            let next = BackupHead::read(disk, path)?;
            refuse_stranger(&backups, &next)?;
            backups.push(next);
        }
        if backups.is_empty() {
            return Err(Error::new(SqlState::InvalidParameterValue, "there is no backup to restore"));
        }
        Ok(Chain { backups })
    }

    pub(crate) fn last(&self) -> &BackupHead<'a> {
        self.backups.last().expect("a chain has a backup")
    }

    /// What is needed for the end of the chain, or a moment that it has.
    ///
    /// # Errors
    /// 22023 naming what there is; 0A000 if a backup knows no times.
    pub(crate) fn needed(&self, until: Option<WallTime>, behind: Option<WallTime>) -> Result<Needed> {
        let end = self.backups.len() - 1;
        let Some(until) = until else { return Ok(Needed { images: end, log: end }) };
        let endings = self.backups.iter().map(BackupHead::known_ending).collect::<Result<Vec<Ending>>>()?;
        let is_before = |ending: &Ending| ending.earliest.is_known() && ending.earliest <= until;
        let refuse = || Err(not_there(until, &ranges(&endings, behind)));
        let Some(images) = endings.iter().rposition(is_before) else { return refuse() };
        let goes_on = |log: &usize| *log < end && follows(&endings[*log], &endings[*log + 1]);
        let log = (images..=end).find(|log| !goes_on(log)).unwrap_or(end);
        let latest = endings[images..=log].iter().map(|ending| ending.latest).max();
        let latest = if log == end { latest.max(behind) } else { latest };
        if latest.is_none_or(|latest| latest < until) {
            return refuse();
        }
        Ok(Needed { images, log })
    }
}

/// Whether the log of one backup goes on in the other's.
fn follows(one: &Ending, other: &Ending) -> bool {
    other.from.chunks <= one.end.chunks
}

/// From when to when there is everything. `behind` is how far a log goes on behind the last one.
fn ranges(endings: &[Ending], behind: Option<WallTime>) -> Vec<(WallTime, WallTime)> {
    let mut ranges: Vec<(WallTime, WallTime)> = Vec::new();
    for (number, ending) in endings.iter().enumerate() {
        let goes_on = number > 0 && follows(&endings[number - 1], ending);
        match ranges.last_mut().filter(|_| goes_on) {
            Some((_, latest)) => *latest = ending.latest.max(*latest),
            None if ending.earliest.is_known() => ranges.push((ending.earliest, ending.latest)),
            None => {}
        }
    }
    if let (Some((_, latest)), Some(behind)) = (ranges.last_mut(), behind) {
        *latest = behind.max(*latest);
    }
    ranges
}

/// 22023: no backup has that moment.
#[cold]
fn not_there(until: WallTime, ranges: &[(WallTime, WallTime)]) -> Error {
    let shown: Vec<String> = ranges
        .iter()
        .map(|(earliest, latest)| format!("from {} to {}", show_moment(*earliest), show_moment(*latest)))
        .collect();
    let possible = match &shown[..] {
        [] => "no moment at all: they have no times".to_owned(),
        shown => shown.join(", and "),
    };
    let message = format!("the state as of {} is not in what is restored", show_moment(until));
    let hint = format!(
        "Possible is {possible}. For earlier moments restore an earlier backup, for later ones name later backups, or the folder with the log."
    );
    Error::new(SqlState::InvalidParameterValue, message).with_hint(hint)
}

/// 22023: a file that does not go upon the one before.
fn refuse_stranger(before: &[BackupHead<'_>], next: &BackupHead<'_>) -> Result<()> {
    let name = next.path.display();
    let refuse = |message: String, hint: String| {
        Err(Error::new(SqlState::InvalidParameterValue, message).with_hint(hint))
    };
    let Some(last) = before.last() else {
        if next.is_full() {
            return Ok(());
        }
        return refuse(
            format!("\"{name}\" is an incremental backup"),
            "Name the full backup first, then all incremental ones since, each behind the one that it was made since."
                .to_owned(),
        );
    };
    let last_name = last.path.display();
    if next.name.database != last.name.database {
        return refuse(
            format!("\"{name}\" and \"{last_name}\" are backups of different databases"),
            format!("Leave \"{name}\" out, or restore it into another folder."),
        );
    }
    if next.is_full() {
        return refuse(
            format!("\"{name}\" is a full backup"),
            format!("Restore it without \"{last_name}\": it needs none before it."),
        );
    }
    if next.name.base != last.name.backup {
        let known = before.iter().find(|backup| backup.name.backup == next.name.base);
        let since =
            known.map_or("another backup".to_owned(), |known| format!("\"{}\"", known.path.display()));
        return refuse(
            format!("\"{name}\" was made since {since}, not since \"{last_name}\""),
            "Name the backups in the order in which they were made, each behind the one that it was made since."
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_log::LogPlace;

    fn ending(from: u64, end: u64, earliest: u64, latest: u64) -> Ending {
        let place = |chunks| LogPlace { segment: 1, offset: 64, chunks };
        let (earliest, latest) = (WallTime(earliest), WallTime(latest));
        Ending { from: place(from), end: place(end), earliest, latest, ..Ending::default() }
    }

    #[test]
    fn a_gap_in_the_log_is_a_gap_between_moments() {
        let endings = [ending(0, 10, 100, 200), ending(10, 20, 150, 300), ending(25, 30, 400, 500)];
        let moments = |pairs: &[(u64, u64)]| -> Vec<(WallTime, WallTime)> {
            pairs.iter().map(|(earliest, latest)| (WallTime(*earliest), WallTime(*latest))).collect()
        };
        assert_eq!(ranges(&endings, None), moments(&[(100, 300), (400, 500)]));
        assert_eq!(ranges(&endings, Some(WallTime(900))), moments(&[(100, 300), (400, 900)]));
        assert_eq!(ranges(&endings[..1], None), moments(&[(100, 200)]));
    }
}
