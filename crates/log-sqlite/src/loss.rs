//! Finds acknowledged commits that are missing, before SQLite writes anything.
//!
//! It compares two sources. The write-ahead log: commits of this round that follow a bad frame ([`wal`]). And the
//! high-water mark: the last position that was acknowledged ([`high_water`]). A power cut may leave the last commit
//! torn, as it was not synced and so not acknowledged; that is reported and is no loss. Where commits are not synced
//! (`relaxed`), a power cut may tear any end of the log, so a loss is reported there and the store opens.
//!
//! The damaged log is copied before the store may continue without it. This module must not know what a record
//! contains. Entry point: [`Evidence`].

use std::path::{Path, PathBuf};

use recount_log::{DropReason, DroppedEnd, Fault};
use rusqlite::{Connection, ErrorCode};

use crate::fault::{FaultContext as _, corrupt};
use crate::folder::{Folder, sync_folder};
use crate::high_water::{self, Mark, ReadMark};
use crate::layout;
use crate::limits;
use crate::options::Durability;
use crate::page_images::PageNames;
use crate::wal::{self, Survey, UnusedFrames};

/// The files as they were before SQLite opened the database.
pub(crate) struct Evidence {
    database: PathBuf,
    survey: Option<Survey>,
    mark: Option<Mark>,
    durability: Durability,
}

/// The result of the comparison once the end of the store is known.
#[derive(Debug)]
pub(crate) enum Verdict {
    Whole,
    /// The last commit in the log is incomplete, and nothing shows that it was acknowledged.
    Torn(String),
    Lost(Loss),
}

/// Acknowledged commits that are missing.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Describes the missing commits.
    pub(crate) words: String,
    /// The end of the store without them; `None` if it is unreadable.
    pub(crate) last_position: Option<u64>,
    /// Whether relaxed durability allows it.
    allowed: bool,
}

impl Evidence {
    /// Call it before SQLite opens the database.
    pub(crate) fn gather(folder: &Folder, durability: Durability) -> Result<Self, Fault> {
        let database = folder.database();
        let log = wal::beside(&database);
        let survey = wal::survey(&database).context(&format!("reading {}", log.display()))?;
        let path = folder.high_water();
        let mark = match high_water::read(&path)? {
            ReadMark::Mark(mark) => Some(mark),
            ReadMark::Missing => None,
            ReadMark::Unreadable => {
                tracing::warn!(
                    file = %path.display(),
                    "the high-water mark is damaged, so a missing end of the store cannot be detected"
                );
                None
            }
        };
        // The durability of the process that wrote the store.
        let durability = mark.map_or(durability, |mark| mark.durability);
        Ok(Evidence { database, survey, mark, durability })
    }

    /// Whether the write-ahead log itself shows that something is wrong.
    pub(crate) fn is_of_log(&self) -> bool {
        self.survey.as_ref().is_some_and(|survey| survey.beyond.is_some())
    }

    /// Compares with the end of the store. The connection must not have written anything yet.
    pub(crate) fn judge(&self, connection: &Connection) -> Verdict {
        let last_position = self.last_position(connection);
        let (mut clauses, mut seen) = (Vec::new(), PageNames::default());
        let mut torn = None;
        if let Some((survey, beyond)) =
            self.survey.as_ref().and_then(|survey| Some((survey, survey.beyond.as_ref()?)))
        {
            let log = wal::beside(&self.database);
            if let Err(error) = survey.pages_beyond(&self.database, |page| seen.take(page)) {
                tracing::warn!(%error, "cannot read a damaged write-ahead log to its end");
            }
            let damage = unusable(&log, beyond);
            // An old log with a torn new header looks like this too, but all of it is in the database.
            let is_missing = match beyond.first_bad {
                0 => last_position.is_none_or(|last| seen.last_position() > last),
                _ => beyond.was_synced,
            };
            match is_missing {
                true => clauses.push(damage),
                false => torn = Some(damage),
            }
        }
        if let (Some(mark), Some(last)) = (self.mark, last_position)
            && mark.position > last
        {
            clauses.extend(torn.take());
            clauses.push(format!(
                "position {} was acknowledged, but {} ends at position {last}",
                mark.position,
                self.database.display()
            ));
        }
        if clauses.is_empty() {
            return match torn {
                Some(damage) => Verdict::Torn(damage),
                None => Verdict::Whole,
            };
        }
        let marked = self.mark.map_or(0, |mark| mark.position);
        clauses.extend(missing(last_position, marked.max(seen.last_position()), &seen, connection));
        let allowed = self.durability == Durability::Relaxed;
        Verdict::Lost(Loss { words: clauses.join("; "), last_position, allowed })
    }

    /// The last position; `None` if it is unreadable. A store that acknowledged events had tables: without tables
    /// nothing remains.
    fn last_position(&self, connection: &Connection) -> Option<u64> {
        match layout::last_position(connection) {
            Ok(last) => Some(last),
            Err(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::Unknown => {
                self.mark.map(|_| 0)
            }
            Err(_) => None,
        }
    }

    /// Decides whether the store may be opened, and copies the write-ahead log aside if commits are missing. Returns
    /// the unusable part of the log, which must then be emptied before writes.
    pub(crate) fn settle(
        &self,
        connection: &Connection,
        given_up: &[u64],
    ) -> Result<Option<DroppedEnd>, Fault> {
        let loss = match self.judge(connection) {
            Verdict::Whole => return Ok(None),
            Verdict::Torn(damage) => {
                let words = torn(&damage);
                tracing::warn!("{words}");
                let last_position = self.last_position(connection);
                return Ok(Some(DroppedEnd { words, reason: DropReason::TornCommit, last_position }));
            }
            Verdict::Lost(loss) => loss,
        };
        let kept = self.keep_log();
        let is_given_up = loss.last_position.is_some_and(|last| given_up.contains(&last));
        let copy = match (&kept, &self.survey) {
            (Ok(Some(path)), _) => format!("the write-ahead log was copied to {}", path.display()),
            (Ok(None), _) => "no write-ahead log exists that could be copied".to_owned(),
            (Err(fault), _) => format!("the write-ahead log could not be copied ({})", fault.message),
        };
        if is_given_up || loss.allowed {
            let (why, reason) = match is_given_up {
                true => ("because --accept-loss-after was given", DropReason::Accepted),
                false => ("because durability is relaxed", DropReason::RelaxedDurability),
            };
            kept?;
            tracing::error!("{}; {copy}; continuing without the missing end, {why}", loss.words);
            let words = format!("{}; {copy}", loss.words);
            return Ok(Some(DroppedEnd { words, reason, last_position: loss.last_position }));
        }
        let way_out = match loss.last_position {
            Some(last) => {
                format!(", or accept the loss with `recount serve --accept-loss-after {last}`")
            }
            None => String::new(),
        };
        Err(corrupt(format!(
            "{}; {copy}, and nothing else was changed; start with a backup, save the readable events with \
             `recount salvage`{way_out}",
            loss.words
        )))
    }

    /// Copies the write-ahead log, unless a copy exists. Returns the path of the copy.
    fn keep_log(&self) -> Result<Option<PathBuf>, Fault> {
        let Some(survey) = &self.survey else { return Ok(None) };
        let log = wal::beside(&self.database);
        let context = format!("copying {}", log.display());
        let bytes = log.metadata().context(&context)?.len();
        let copy = beside(&log, &format!("{COPY_SUFFIX}{}-{bytes}", survey.round()));
        if copy.metadata().is_ok_and(|copy| copy.len() == bytes) {
            return Ok(Some(copy));
        }
        let folder = self.database.parent().unwrap_or(Path::new("."));
        let kept = kept_logs(folder).context(&context)?.len();
        if kept >= limits::WAL_COPIES_MAX {
            return Err(corrupt(format!(
                "{kept} copies of damaged write-ahead logs are in {}, the maximum; move some to another \
                 folder",
                folder.display()
            )));
        }
        let unfinished = beside(&log, UNFINISHED);
        std::fs::copy(&log, &unfinished).context(&context)?;
        recount_world::platform::open_to_sync(&unfinished)
            .and_then(|file| file.sync_all())
            .context(&context)?;
        std::fs::rename(&unfinished, &copy).context(&context)?;
        sync_folder(folder)?;
        Ok(Some(copy))
    }
}

/// Describes the part of a log that cannot be used. A process that ends in a long commit leaves frames without the frame
/// that would commit them.
fn unusable(log: &Path, beyond: &UnusedFrames) -> String {
    let place = match beyond.first_bad {
        0 => "its header".to_owned(),
        bad => format!("frame {bad}"),
    };
    let unused = match beyond.commits {
        0 => "the unfinished commit",
        1 => "the commit",
        commits => &format!("the {commits} commits"),
    };
    let (log, last) = (log.display(), beyond.last);
    format!("{log} is damaged at {place}, and {unused} from there to frame {last} cannot be used")
}

/// Describes a log whose last commit is incomplete.
pub(crate) fn torn(damage: &str) -> String {
    format!(
        "{damage}; a power failure or a killed process during a commit that was not acknowledged also leaves this \
         damage"
    )
}

const COPY_SUFFIX: &str = "-damaged-";
const UNFINISHED: &str = "-damaged.unfinished";

fn beside(log: &Path, ending: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Damaged write-ahead logs that were copied aside in a folder.
pub(crate) fn kept_logs(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let begin = format!("recount.db-wal{COPY_SUFFIX}");
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&begin) {
            kept.push(entry.path());
        }
    }
    kept.sort();
    Ok(kept)
}

/// Describes the missing events and their runs, as far as they are known.
fn missing(
    last_position: Option<u64>,
    end: u64,
    seen: &PageNames,
    connection: &Connection,
) -> Option<String> {
    let last = last_position.filter(|last| *last < end)?;
    let mut words = format!("the {} events at positions {} to {end} are missing", end - last, last + 1);
    let streams = seen.streams_after(last);
    if streams.is_empty() {
        return Some(words);
    }
    let name = |(id, named): (&i64, &Option<&str>)| {
        let stored = || layout::stream_of(connection, *id).ok().flatten().map(|(key, _)| key.to_string());
        named.map(str::to_owned).or_else(stored).unwrap_or_else(|| format!("run number {id}"))
    };
    let named: Vec<String> = streams.iter().take(limits::LOST_RUNS_NAMED).map(name).collect();
    words += &format!(", of at least {} runs ({}", streams.len(), named.join(", "));
    if streams.len() > named.len() {
        words += &format!(" and {} more", streams.len() - named.len());
    }
    Some(words + ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_that_cannot_be_used_are_counted_only_where_there_are_any() {
        let words = |first_bad, commits| {
            unusable(Path::new("w"), &UnusedFrames { first_bad, last: 9, commits, was_synced: false })
        };
        for (first_bad, commits, expected) in [
            (3, 0, "w is damaged at frame 3, and the unfinished commit from there to frame 9 cannot be used"),
            (3, 1, "w is damaged at frame 3, and the commit from there to frame 9 cannot be used"),
            (0, 2, "w is damaged at its header, and the 2 commits from there to frame 9 cannot be used"),
        ] {
            assert_eq!(words(first_bad, commits), expected);
        }
    }
}
