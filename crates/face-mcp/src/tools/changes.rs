//! The tool that shows what a run changed: the differences of its copy, or the patches that were recorded.

use recount_api::query::{KIND, LIMIT};
use recount_api::reply::{Artifact, Changes, One, Page};
use recount_event::Code;
use serde_json::{Map, Value, json};

use crate::args::Args;
use crate::limits;
use crate::native::{Failure, Native};
use crate::project::{Pile, Reply, beginning, cut_note, quote};

pub(super) async fn diff_run(native: &Native, args: &Args) -> Result<Reply, Failure> {
    let run = args.needed("run")?;
    let (wants_diff, offset) = (args.is_set("diff") == Some(true), args.number("offset").unwrap_or_default());
    if offset > 0 && !wants_diff {
        return Err("offset needs diff: true".to_owned().into());
    }
    let changes: Result<One<Changes>, Failure> = native.get(&["runs", run, "changes"], &[]).await;
    match changes {
        Ok(One { data, .. }) if wants_diff => {
            let part = data.diff.get(offset as usize..).ok_or("offset is not within the diff".to_owned())?;
            let shown = beginning(part, limits::RESULT_BYTES_MAX);
            let next = (shown.len() < part.len()).then(|| offset + shown.len() as u64);
            let note = data.diff_cut.then(|| "the server cut the diff because of its size".to_owned());
            Ok(diff(shown, next, note.into_iter().collect()))
        }
        Ok(One { data, .. }) => Ok(copied_files(&data)),
        // It worked elsewhere, or its copy was deleted.
        Err(failure) if failure.is(&NO_COPY) => {
            let (patches, is_all) = patches(native, run).await?;
            match wants_diff {
                true => recorded_diff(native, &patches, offset, is_all).await,
                false => Ok(recorded_files(&patches, &failure, is_all)),
            }
        }
        Err(failure) => Err(failure),
    }
}

/// Codes of a run without a copy that could be compared.
const NO_COPY: [Code; 3] = [Code::KindUnavailable, Code::WorkspaceGone, Code::WorkspaceRefused];

fn diff(shown: &str, next: Option<u64>, mut notes: Vec<String>) -> Reply {
    if let Some(next) = next {
        notes.push(cut_note(&format!("call diff_run again with diff: true and offset {next}")));
    }
    if shown.is_empty() {
        notes.push("the diff is empty".to_owned());
    }
    let mut structured = Map::new();
    structured.insert("diff".to_owned(), shown.into());
    structured.insert("next".to_owned(), json!(next));
    structured.insert("notes".to_owned(), json!(notes));
    Reply::quoting(&notes.join("; "), &quote(shown), structured)
}

fn files(head: String, lines: Vec<(String, Value)>, left_out: u64) -> Reply {
    let (mut pile, mut shown) = (Pile::new(limits::RESULT_BYTES_MAX), Vec::new());
    let count = lines.len() as u64;
    for (line, value) in lines {
        if !pile.push(&quote(&line)) {
            break;
        }
        shown.push(value);
    }
    let left_out = left_out + count - shown.len() as u64;
    let head = match left_out {
        0 => head,
        more => format!("{head}; {more} more are not listed"),
    };
    let mut structured = Map::new();
    structured.insert("files".to_owned(), shown.into());
    structured.insert("left_out".to_owned(), left_out.into());
    Reply::quoting(&head, &pile.text, structured)
}

fn copied_files(changes: &Changes) -> Reply {
    let line = |change: &recount_api::reply::Change| {
        let text = format!("{} {} {} ({})", change.change, change.kind, change.path, change.state);
        (
            text,
            json!({ "path": change.path, "change": change.change, "kind": change.kind, "state": change.state }),
        )
    };
    let lines: Vec<_> = changes.changes.iter().map(line).collect();
    let left_out = changes.count.saturating_sub(lines.len() as u64);
    files(
        format!("{} changed paths in the run's copy, compared with the folder now", changes.count),
        lines,
        left_out,
    )
}

/// The newest patches of a run, oldest first, and whether these are all. A fragment is a change whose place in its file
/// is not known.
async fn patches(native: &Native, run: &str) -> Result<(Vec<Artifact>, bool), Failure> {
    let (mut patches, mut is_all) = (Vec::new(), true);
    for kind in ["patch", "patch_fragment"] {
        let query = [(KIND, Some(kind.to_owned())), (LIMIT, Some(limits::PATCHES_MAX.to_string()))];
        let page: Page<Artifact> = native.get(&["runs", run, "artifacts"], &query).await?;
        is_all &= !page.has_more;
        patches.extend(page.data.into_iter().rev());
    }
    patches.sort_by(|one, other| one.created_at.cmp(&other.created_at));
    Ok((patches, is_all))
}

/// What a result states if there are more patches.
const OLDER: &str = "older patches are not included";

fn recorded_files(patches: &[Artifact], why: &Failure, is_all: bool) -> Reply {
    let line = |patch: &Artifact| {
        let path = patch.target_path.as_deref().or(patch.name.as_deref()).unwrap_or("unknown path");
        let mut line = format!("{} {path}", patch.status);
        if let Some(stats) = &patch.stats {
            line.push_str(&format!(" +{} -{}", stats.additions, stats.deletions));
        }
        let value = json!({
            "path": path, "status": patch.status, "stats": patch.stats, "artifact_id": patch.id,
            "size_bytes": patch.size_bytes,
        });
        (line, value)
    };
    let head = match patches.len() {
        0 => format!("no recorded patches, and no copy to compare ({}: {})", why.code, why.detail),
        count => format!("{count} recorded patches, oldest first; there is no copy to compare"),
    };
    let head = if is_all { head } else { format!("{head}; {OLDER}") };
    files(head, patches.iter().map(line).collect(), 0)
}

/// The texts of the patches one after the other, from a byte on.
async fn recorded_diff(
    native: &Native,
    patches: &[Artifact],
    offset: u64,
    is_all: bool,
) -> Result<Reply, Failure> {
    let (mut text, mut notes, mut start, mut next) = (Vec::new(), Vec::new(), 0, None);
    if !is_all {
        notes.push(OLDER.to_owned());
    }
    for patch in patches {
        let size = patch.size_bytes.unwrap_or_default();
        let from = offset.saturating_sub(start).min(size);
        let room = (limits::RESULT_BYTES_MAX - text.len()) as u64;
        if from < size && room == 0 {
            next = Some(start + from);
            break;
        }
        if from < size {
            match native.bytes(&patch.id, from, room.min(size - from)).await {
                Ok(bytes) => {
                    text.extend_from_slice(&bytes);
                    if from + (bytes.len() as u64) < size {
                        next = Some(start + from + bytes.len() as u64);
                        break;
                    }
                }
                Err(failure) => notes.push(format!("{} cannot be read: {}", patch.id, failure.code)),
            }
        }
        start += size;
    }
    // A character that is cut at the end is shown with the next part.
    let whole = match std::str::from_utf8(&text) {
        Err(why) if why.error_len().is_none() => why.valid_up_to(),
        _ => text.len(),
    };
    let next = next.map(|next| next - (text.len() - whole) as u64);
    Ok(diff(&String::from_utf8_lossy(&text[..whole]), next, notes))
}
