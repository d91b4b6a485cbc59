//! Where whole runs come from and go to: a server, or a data folder that no server holds. See [`Place`].

use std::collections::BTreeSet;
use std::path::Path;

use recount_client::admin::SigningKeys;
use recount_client::export::Header;
use recount_client::reply::{Gap, SignedHead};
use recount_client::{Client, ClientError, Listing};
use recount_server::export::{Folder, FolderRuns, ImportError};

use crate::failure::Failure;
use crate::pages::gather_all;
use crate::patience::Patience;
use crate::render::gap::damage_words;

pub(crate) enum Place {
    Server(Client, Patience),
    Folder(Box<Folder>),
}

/// The runs of a place.
#[derive(Default)]
pub(crate) struct Runs {
    /// Oldest first.
    pub(crate) ids: Vec<String>,
    /// How many are known to have been erased.
    pub(crate) erased: u64,
    /// Runs of a folder that cannot be read whole.
    pub(crate) damaged: Vec<String>,
    /// Sentences about what cannot be read, so that its runs are unknown.
    pub(crate) unread: Vec<String>,
}

/// What became of a run that was to come in.
pub(crate) enum ImportOutcome {
    Imported { events: u64, head: String, is_new: bool },
    Refused { code: String, detail: String },
}

impl Place {
    pub(crate) fn server(client: Client) -> Self {
        Place::Server(client, Patience::default())
    }

    pub(crate) fn open(data: &Path) -> Result<Self, Failure> {
        Ok(Place::Folder(Box::new(Folder::open(data)?)))
    }

    /// The same, but a missing folder is made.
    pub(crate) fn open_or_create(data: &Path) -> Result<Self, Failure> {
        Ok(Place::Folder(Box::new(Folder::open_or_create(data)?)))
    }

    /// All runs, and what is known of those that cannot be listed.
    pub(crate) async fn runs(&self) -> Result<Runs, Failure> {
        match self {
            Place::Server(client, patience) => {
                let mut damaged_rows = BTreeSet::new();
                let fetch =
                    async |listing: Listing| patience.read(async || client.list_runs(&listing).await).await;
                let newest_first = gather_all(fetch, &mut |row| damaged_rows.extend([row])).await?;
                let ids = newest_first.into_iter().rev().map(|run| run.id).collect();
                let unread = damaged_rows.iter().map(|row| {
                    format!("the row {row} is damaged; if it belongs to a run, that run was skipped")
                });
                Ok(Runs { ids, unread: unread.collect(), ..Runs::default() })
            }
            Place::Folder(folder) => {
                let FolderRuns { ids, erased, damaged, unread } = folder.runs().await?;
                let unread =
                    unread.map(|unread| format!("{unread}; runs that are not listed here may be missing"));
                Ok(Runs { ids, erased, damaged, unread: unread.into_iter().collect() })
            }
        }
    }

    /// The header of a run as it is now, and its signed head if there is one.
    pub(crate) async fn header(&self, run: &str) -> Result<(Header, Option<SignedHead>), Failure> {
        match self {
            Place::Server(client, patience) => {
                let digest = patience.read(async || client.get_run_digest(run).await).await?;
                let header = Header::new(run, digest.events, &digest.head);
                let header = match &digest.start {
                    Some(start) => header.beginning_at(digest.first_sequence, start),
                    None => header,
                };
                Ok((header, digest.signed.map(without_cose)))
            }
            Place::Folder(folder) => {
                let no = |why: &str| Failure::Missing(format!("run {run} not found ({why})"));
                let tail = folder.tail(run).await?.ok_or_else(|| no("run_not_found"))?;
                let header = Header::new(run, tail.next_sequence, &tail.head.to_string());
                let header = match tail.first_sequence {
                    _ if tail.erased => return Err(no("run_erased")),
                    0 => header,
                    first => header.beginning_at(first, &tail.start.to_string()),
                };
                let signed = folder.signed_head(run).await?.map(|signed| SignedHead {
                    statement: signed.statement,
                    signature: signed.signature,
                    cose: String::new(),
                });
                Ok((header, signed))
            }
        }
    }

    /// The public keys of the signed heads; none if the server is of an older release.
    pub(crate) async fn public_keys(&self) -> Result<Option<SigningKeys>, Failure> {
        match self {
            Place::Server(client, patience) => {
                match patience.read(async || client.signing_keys().await).await {
                    Err(ClientError::Problem(why)) if why.status == 404 => Ok(None),
                    keys => Ok(Some(keys?)),
                }
            }
            Place::Folder(folder) => Ok(Some(folder.public_keys().await?)),
        }
    }

    /// Gives some of a run's events from sequence `from` on to `each`, and answers how many. Events that are damaged
    /// make it fail with [`Failure::Damaged`].
    pub(crate) async fn events(
        &self,
        run: &str,
        from: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        match self {
            Place::Server(client, patience) => {
                let after = from.checked_sub(1);
                let page = patience.read(async || client.read_run_events(run, after, None).await).await?;
                if let Some(Gap::Damaged(range)) = &page.gap {
                    let words = damage_words(range);
                    return Err(Failure::Damaged(format!("cannot read all of {run}: {words}")));
                }
                page.data.iter().try_for_each(|envelope| each(envelope.get().as_bytes()))?;
                Ok(page.data.len() as u64)
            }
            Place::Folder(folder) => {
                let page = folder.events(run, from).await?;
                page.iter().try_for_each(|envelope| each(envelope))?;
                Ok(page.len() as u64)
            }
        }
    }

    /// Takes in one run. Only what was not about the run itself is a failure.
    pub(crate) async fn import(&self, lines: Vec<u8>) -> Result<ImportOutcome, Failure> {
        match self {
            Place::Server(client, _) => match client.import_run(lines).await {
                Ok(reply) => Ok(ImportOutcome::Imported {
                    events: reply.events,
                    head: reply.head,
                    is_new: reply.imported,
                }),
                Err(ClientError::Problem(problem)) => {
                    Ok(ImportOutcome::Refused { code: problem.code, detail: problem.detail })
                }
                Err(why) => Err(why.into()),
            },
            Place::Folder(folder) => match folder.import(&lines).await {
                Ok(imported) => Ok(ImportOutcome::Imported {
                    events: imported.events,
                    head: imported.head,
                    is_new: imported.is_new,
                }),
                Err(ImportError::Refused { code, detail }) => {
                    Ok(ImportOutcome::Refused { code: code.to_owned(), detail })
                }
                Err(ImportError::Failed(why)) => Err(why.into()),
            },
        }
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        match self {
            Place::Server(..) => Ok(()),
            Place::Folder(folder) => Ok(folder.close().await?),
        }
    }
}

/// A signed head as exports have it: the COSE form follows from the rest.
fn without_cose(signed: SignedHead) -> SignedHead {
    SignedHead { cose: String::new(), ..signed }
}
