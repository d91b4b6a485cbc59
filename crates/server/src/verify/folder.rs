//! Verifies a data folder that no server holds, damaged or not. See [`offline`].

use std::path::Path;

use recount_log::{Fault, FaultKind};
use recount_log_sqlite::inspect;

use super::signed::is_signed;
use super::survey::{ProblemsByRun, Survey, add, assemble, runs_of, without_advice};
use super::{Noted, PublicKeys, VerifyReport};
use crate::StartError;
use crate::stores::{missing_store, open_folder};
use crate::tenant_folder::{loss_of_tenants, tenant_folders};

/// Checks every run of all tenants of a data folder that no server holds.
pub fn offline(data: &Path, noted: &[Noted]) -> Result<Survey, StartError> {
    offline_with_keys(data, noted, None)
}

/// The same, and compares each run with its signed head, if there are keys.
pub fn offline_with_keys(
    data: &Path,
    noted: &[Noted],
    keys: Option<&PublicKeys>,
) -> Result<Survey, StartError> {
    let mut survey = one_store(data, noted, keys)?;
    let folders = tenant_folders(data)
        .map_err(|why| StartError::failed(format!("cannot read the folder of tenants: {why}")))?;
    let loss = loss_of_tenants(data).map_err(|why| StartError::failed(why.to_string()))?;
    if let Some(loss) = loss {
        add(&mut survey.reports, None, loss);
    }
    for (name, folder) in folders {
        survey.join_tenant(&name, one_store(&folder, noted, keys.filter(|_| is_signed(&name)))?, noted);
    }
    Ok(survey)
}

/// Checks every run of one store that no server holds. The store is not changed: a missing one is not created, and a
/// damaged or older one is only read.
fn one_store(data: &Path, noted: &[Noted], keys: Option<&PublicKeys>) -> Result<Survey, StartError> {
    if !data.join("recount.db").is_file() {
        return Err(missing_store(data, "verify them with `recount verify --store URL`"));
    }
    let integrity = inspect(data).map_err(|fault| refused(&fault))?;
    let mut found = ProblemsByRun::group(&integrity);
    let may_open = if data.join("blobs").is_dir() {
        // Without readable events there may be no tables, and opening would create them.
        integrity.problems.is_empty() || integrity.readable_records > 0
    } else {
        found
            .of_store
            .push("the folder blobs is missing; restore a complete copy of the data folder".to_owned());
        false
    };
    let opened = match may_open.then(|| runs(data, noted, keys)) {
        Some(Ok((reports, astray))) => {
            found.of_store.extend(astray);
            Some(reports)
        }
        // Reported already.
        Some(Err(ReadFailure::Store(fault))) if fault.kind == FaultKind::Corrupt => {
            if integrity.problems.is_empty() {
                found.of_store.push(without_advice(&fault.message));
            }
            None
        }
        Some(Err(ReadFailure::Store(fault))) => return Err(refused(&fault)),
        Some(Err(ReadFailure::Runtime(why))) => return Err(why),
        None => None,
    };
    if opened.is_none() && !noted.is_empty() {
        found.of_store.push("the store cannot be opened, so no recorded digests were compared".to_owned());
    }
    Ok(assemble(found, opened, integrity, noted))
}

/// Why runs could not be read.
enum ReadFailure {
    Store(Fault),
    Runtime(StartError),
}

/// Opens the store, which refuses a damaged one unchanged, and checks each run; then the catalogue, if the runs are
/// sound.
fn runs(
    data: &Path,
    noted: &[Noted],
    keys: Option<&PublicKeys>,
) -> Result<(Vec<VerifyReport>, Vec<String>), ReadFailure> {
    let store = open_folder(data).map_err(ReadFailure::Store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| {
        ReadFailure::Runtime(StartError::failed(format!("cannot start the runtime: {why}")))
    })?;
    runtime.block_on(runs_of(&*store, noted, keys)).map_err(ReadFailure::Store)
}

fn refused(fault: &Fault) -> StartError {
    let advice = match fault.kind {
        FaultKind::Io => "; the lock needs a writable folder: use a copy of the folder",
        _ => "",
    };
    StartError::failed(format!("{}{advice}", without_advice(&fault.message)))
}
