//! `recount artifact`: what runs keep apart from the log, such as patches, outputs and pictures.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use recount_client::query::{LIST_LIMIT_DEFAULT, UPLOAD_KINDS};
use recount_client::reply;
use recount_client::{ArtifactStream, Listing};
use serde_json::json;

use super::attach::{self, AttachedFile};
use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::output::note;
use crate::pages::gather;
use crate::render::{clean, count, list, utc_time};

/// List, show, download, upload, pin and delete artifacts
#[derive(Args)]
#[command(visible_alias = "artifacts")]
pub(super) struct Artifact {
    #[command(subcommand)]
    verb: ArtifactVerb,
}

#[derive(Subcommand)]
enum ArtifactVerb {
    /// List artifacts, newest first
    #[command(alias = "ls")]
    List {
        /// Only artifacts of this run
        #[arg(long, conflicts_with = "task")]
        run: Option<String>,
        /// Only artifacts of this task
        #[arg(long)]
        task: Option<String>,
        /// Only artifacts of this kind, such as patch or command_output
        #[arg(long)]
        kind: Option<String>,
        /// Only artifacts with this status: created, proposed, applied or rejected
        #[arg(long)]
        status: Option<String>,
        /// List at most N
        #[arg(long, value_name = "N", default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Show an artifact and its status; for a small patch, also its text
    Show {
        /// Id of the artifact
        artifact: String,
    },
    /// Write the bytes of an artifact to standard output or a file
    Get {
        /// Id of the artifact
        artifact: String,
        /// File to create; an existing file is not overwritten
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Upload a file for a run; it is deleted after a day if no run uses it
    Add {
        /// File to upload
        file: PathBuf,
        /// Use the file as an image for models, or as a file; default: by its name
        #[arg(long, value_parser = UPLOAD_KINDS)]
        kind: Option<String>,
        /// Media type; default: by the name of the file
        #[arg(long = "type", value_name = "TYPE")]
        media_type: Option<String>,
    },
    /// Protect an artifact from deletion, and the run that created it from pruning
    Pin {
        /// Id of the artifact
        artifact: String,
    },
    /// Allow an artifact to be deleted again
    Unpin {
        /// Id of the artifact
        artifact: String,
    },
    /// Delete an artifact of an ended run; the events of the run stay
    Delete {
        /// Id of the artifact
        artifact: String,
        /// Confirm the deletion, which cannot be undone
        #[arg(long)]
        yes: bool,
    },
}

impl Artifact {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        match self.verb {
            ArtifactVerb::List { mut run, mut task, kind, status, limit } => {
                if let Some(run) = &mut run {
                    *run = ids::full(&client, IdKind::Run, run).await?;
                }
                if let Some(task) = &mut task {
                    *task = ids::full(&client, IdKind::Task, task).await?;
                }
                let fetch = async |listing: Listing| {
                    let listing = Listing { kind: kind.clone(), ..listing };
                    client.list_artifacts(&listing, run.as_deref(), task.as_deref()).await
                };
                let found = gather(fetch, limit, status).await?;
                asking.print_items(&found, list::artifacts, "no artifacts found")
            }
            ArtifactVerb::Show { artifact } => {
                let artifact = ids::full(&client, IdKind::Artifact, &artifact).await?;
                let artifact = client.get_artifact(&artifact).await?;
                if asking.json {
                    asking.out.value(&artifact)
                } else {
                    asking.out.lines(&render_artifact(&artifact))
                }
            }
            ArtifactVerb::Add { file, kind, media_type } => {
                let AttachedFile { name, bytes } = attach::read(&file)?;
                let media_type = media_type.as_deref().unwrap_or(attach::mime(&name));
                let kept = client.upload_artifact(bytes, media_type, kind.as_deref(), Some(&name)).await?;
                if asking.json {
                    return asking.out.value(&kept);
                }
                asking.out.line(&clean::line(&format!("{} uploaded from {name}", kept.id)))
            }
            ArtifactVerb::Pin { artifact } => {
                let artifact = ids::full(&client, IdKind::Artifact, &artifact).await?;
                let artifact = client.pin_artifact(&artifact).await?;
                state(asking, &artifact, "pinned")
            }
            ArtifactVerb::Unpin { artifact } => {
                let artifact = ids::full(&client, IdKind::Artifact, &artifact).await?;
                let artifact = client.unpin_artifact(&artifact).await?;
                state(asking, &artifact, "not pinned")
            }
            ArtifactVerb::Delete { artifact, yes } => {
                let artifact = ids::full(&client, IdKind::Artifact, &artifact).await?;
                if !yes {
                    let shown = client.get_artifact(&artifact).await?;
                    return Err(Failure::Usage(format!(
                        "{} of kind {} would be deleted permanently; confirm with --yes",
                        shown.id, shown.kind
                    )));
                }
                let deleted = client.delete_artifact(&artifact).await?;
                if asking.json {
                    return asking.out.value(&deleted);
                }
                let bytes = match deleted.bytes_removed {
                    true => "deleted, with its bytes",
                    false => "deleted; its bytes are kept, because another artifact has the same bytes",
                };
                asking.out.line(&clean::line(&format!("{} {bytes}", deleted.artifact_id)))
            }
            ArtifactVerb::Get { artifact, output } => {
                let artifact = ids::full(&client, IdKind::Artifact, &artifact).await?;
                let Some(file) = output else {
                    return asking.out.bytes(&client.read_artifact(&artifact).await?);
                };
                let bytes = client.stream_artifact(&artifact).await?;
                let size = write_new(&file, bytes).await?;
                let shown = file.display().to_string();
                if asking.json {
                    return asking.out.value(&json!({ "path": shown, "bytes": size }));
                }
                asking
                    .out
                    .line(&clean::line(&format!("{} of {artifact} written to {shown}", count(size, "byte"))))
            }
        }
    }
}

fn state(mut asking: Asking, artifact: &reply::Artifact, state: &str) -> Result<(), Failure> {
    if asking.json {
        return asking.out.value(artifact);
    }
    asking.out.line(&clean::line(&format!("{} {state}", artifact.id)))
}

/// Writes bytes into a new file as they come, and leaves none that is not complete.
async fn write_new(file: &Path, mut bytes: ArtifactStream) -> Result<u64, Failure> {
    let failed = |why: std::io::Error| Failure::Own(format!("cannot write {}: {why}", file.display()));
    let mut there = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    let written = async {
        let mut size = 0;
        while let Some(piece) = bytes.next().await? {
            there.write_all(&piece).map_err(failed)?;
            size += piece.len() as u64;
        }
        there.sync_all().map_err(failed)?;
        Ok(size)
    };
    let written: Result<u64, Failure> = written.await;
    if written.is_err()
        && let Err(why) = std::fs::remove_file(file)
    {
        note(&format!("{} is incomplete and cannot be removed: {why}", file.display()));
    }
    written
}

/// What it is, what became of it, and the patch where it came along.
fn render_artifact(artifact: &reply::Artifact) -> Vec<String> {
    let mut lines =
        vec![clean::line(&format!("{} of kind {}, {}", artifact.id, artifact.kind, artifact.status))];
    let mut fact = |name: &str, words: Option<&str>| {
        lines.extend(words.map(|words| clean::line(&format!("{name}: {words}"))));
    };
    fact("summary", artifact.summary.as_deref());
    fact("name", artifact.name.as_deref());
    fact("file", artifact.target_path.as_deref());
    fact("base", artifact.base_revision.as_deref());
    let stats = artifact.stats.map(|stats| {
        let (added, removed) = (count(stats.additions, "line"), count(stats.deletions, "line"));
        format!("{added} added, {removed} removed, in {}", count(stats.hunks, "hunk"))
    });
    fact("changes", stats.as_deref());
    fact("type", artifact.mime.as_deref());
    let cut = artifact.original_size_bytes.map(|all| format!(", the beginning of {all}")).unwrap_or_default();
    fact("bytes", artifact.size_bytes.map(|size| format!("{size}{cut}")).as_deref());
    fact("hash", artifact.hash.as_deref());
    fact("run", artifact.produced_by_run_id.as_deref());
    fact("call", artifact.produced_by_tool_call_id.as_deref());
    fact("created", Some(&utc_time(&artifact.created_at)));
    fact("applied", artifact.applied_at.as_deref().map(utc_time).as_deref());
    fact("rejected", artifact.rejected_at.as_deref().map(utc_time).as_deref());
    fact("reverted", artifact.reverted_at.as_deref().map(utc_time).as_deref());
    fact("pinned", artifact.pinned.then_some("yes"));
    if let Some(diff) = &artifact.diff {
        lines.push(String::new());
        lines.extend(clean::lines(diff));
    }
    lines
}
