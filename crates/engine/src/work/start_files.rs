//! The files that a run after an ended one starts from: those of the place where it starts, in a new copy, or those of
//! the same folder as they are now.
//!
//! It must not know how files are recorded. Start at [`WorkHandle::files_from`].

use recount_event::Code;
use recount_run::view::FilesAt;

use crate::boxed;
use crate::work::handle::WorkHandle;
use crate::work::workspaces::no_performer;
use crate::{EndedRun, Error, FilesCheck, FilesFrom, ResumeFrom, StartFiles};

impl WorkHandle {
    /// The recorded files that a run from this place starts from. `None`: it works in the same folder, with its files as
    /// they are now. `place` is what [`WriteHandle::resume_point`](crate::WriteHandle::resume_point) returned. Refused if
    /// not all of them can be restored.
    #[boxed]
    pub async fn files_from(
        &self,
        past: &EndedRun,
        from: &ResumeFrom,
        place: Option<u64>,
        files: StartFiles,
    ) -> Result<Option<FilesFrom>, Error> {
        let Some(sequence) = place.filter(|place| place + 1 < past.events) else { return Ok(None) };
        let Some(path) = past.queued.workspace_path.clone().filter(|_| files == StartFiles::Restore) else {
            return Ok(None);
        };
        let places = self.write().places(past.run).await?;
        let snapshot = match places.files_at(sequence) {
            FilesAt::NoWorkspace => return Ok(None),
            FilesAt::Start => past.run.to_string(),
            FilesAt::Checkpoint(id) => id.to_string(),
            FilesAt::NotRecorded { last_checkpoint } => {
                let place = match last_checkpoint {
                    Some(id) => format!("; the last checkpoint before it is {id}"),
                    None => String::new(),
                };
                let why = format!("they are recorded at checkpoints only{place}");
                return Err(not_restorable(sequence, past, &why));
            }
        };
        let files_from = FilesFrom { run_id: past.run, sequence, workspace_path: path, snapshot };
        let Some(performer) = self.performer() else { return Err(no_performer()) };
        let check = performer.check_files(past.queued.workspace_mode.clone(), files_from.clone()).await?;
        // The rest of the work continues in the same folder, unless something else was done there since.
        let is_rest = *from == ResumeFrom::Settled;
        match check {
            FilesCheck::Current | FilesCheck::NotRecorded(_) if is_rest => Ok(None),
            FilesCheck::Current | FilesCheck::Restorable => Ok(Some(files_from)),
            FilesCheck::NotRecorded(why) | FilesCheck::NotRestorable(why) => {
                Err(not_restorable(sequence, past, &why))
            }
        }
    }
}

fn not_restorable(sequence: u64, past: &EndedRun, why: &str) -> Error {
    let run = past.run;
    let message = format!(
        "cannot restore the files at event {sequence} of {run}: {why}; to start with the files as they are now, in \
         the same folder, send \"files\": \"current\" (--keep-files)"
    );
    Error::rejected(Code::FilesNotRestorable, message)
}
