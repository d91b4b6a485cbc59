//! Blobs: rows of parts under the hash of the whole.
//!
//! The hash is checked at each read.

use bytes::{Bytes, BytesMut};
use recount_log::{Fault, FaultKind, Retry};
use tokio_postgres::types::ToSql;

use crate::connect::Readers;
use crate::fault::{corrupt, fenced};
use crate::limits;
use crate::sql::Sql;
use crate::streams::bounded;

/// The owner, for what changes blobs.
pub(crate) struct Owner<'a> {
    pub(crate) name: &'a str,
    pub(crate) epoch: i64,
}

pub(crate) async fn put(
    readers: &Readers,
    sql: &Sql,
    owner: &Owner<'_>,
    bytes: &Bytes,
) -> Result<String, Fault> {
    let hash = blake3::hash(bytes);
    let mut parts: Vec<&[u8]> = bytes.chunks(limits::BLOB_PART_BYTES).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let numbers: Vec<i64> = (0..bounded(parts.len())).collect();
    let name = hash.to_hex().to_string();
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&owner.name, &owner.epoch, &&hash.as_bytes()[..], &numbers, &parts];
    // Storing twice changes nothing, so it may be repeated on a new connection.
    let done = readers.query(&format!("storing blob {name}"), &sql.put_blob, &parameters).await?;
    if done.is_empty() { Err(fenced(owner.name)) } else { Ok(name) }
}

pub(crate) async fn get(readers: &Readers, sql: &Sql, hash: &str) -> Result<Option<Bytes>, Fault> {
    let Some(parsed) = parse(hash) else { return Ok(None) };
    let context = format!("reading blob {hash}");
    let rows = readers.query(&context, &sql.blob, &[&&parsed.as_bytes()[..]]).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut whole = BytesMut::new();
    rows.iter().for_each(|row| whole.extend_from_slice(row.get(1)));
    if blake3::hash(&whole) != parsed {
        return Err(corrupt(format!("blob {hash} does not match its name; store its bytes again")));
    }
    Ok(Some(whole.freeze()))
}

pub(crate) async fn remove(readers: &Readers, sql: &Sql, owner: &Owner<'_>, hash: &str) -> Result<(), Fault> {
    let Some(parsed) = parse(hash) else { return Ok(()) };
    let (context, bytes) = (format!("deleting blob {hash}"), &parsed.as_bytes()[..]);
    let found = readers.query(&context, &sql.blob_versions, &[&bytes]).await?;
    let versions: Vec<String> = found.first().map(|row| row.get(0)).unwrap_or_default();
    let parameters: [&(dyn ToSql + Sync); 4] = [&owner.name, &owner.epoch, &bytes, &versions];
    let done = readers.query(&context, &sql.remove_blob, &parameters).await?;
    if done.is_empty() { Err(fenced(owner.name)) } else { Ok(()) }
}

/// Names of blobs in their order, strictly after `after`.
pub(crate) async fn list(
    readers: &Readers,
    sql: &Sql,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, Fault> {
    let after = after.map(|after| {
        let refused = || {
            let message = format!("{after:?} is not the name of a blob");
            Fault::new(FaultKind::Io, Retry::Never, message)
        };
        parse(after).ok_or_else(refused)
    });
    let after = after.transpose()?;
    let after = after.as_ref().map(|hash| &hash.as_bytes()[..]);
    let rows = readers.query("listing the blobs", &sql.blobs, &[&after, &bounded(limit)]).await?;
    let names = rows.iter().map(|row| {
        let hash: &[u8] = row.get(0);
        let hash: [u8; 32] = hash.try_into().map_err(|_| corrupt("the name of a blob is damaged"))?;
        Ok(blake3::Hash::from_bytes(hash).to_hex().to_string())
    });
    names.collect()
}

/// A hash as [`put`] returns it.
fn parse(hash: &str) -> Option<blake3::Hash> {
    let lower = hash.len() == 64 && hash.bytes().all(|byte| !byte.is_ascii_uppercase());
    lower.then(|| blake3::Hash::from_hex(hash).ok()).flatten()
}
