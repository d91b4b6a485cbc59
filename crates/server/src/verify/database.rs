//! Verifies the stores in a database that no server uses. See [`offline_database`].

use recount_log::Fault;

use super::signed::is_signed;
use super::survey::{ProblemsByRun, Survey, assemble, runs_of, without_advice};
use super::{Noted, PublicKeys};
use crate::StartError;
use crate::config::Config;
use crate::stores::Stores;
use crate::tenant_folder::TENANT_DEFAULT;

/// Checks every run of all tenants in a database.
pub fn offline_database(url: &str, noted: &[Noted], keys: Option<&PublicKeys>) -> Result<Survey, StartError> {
    let stores = Config::of_database(url)?.stores(None)?;
    let survey = of_stores(&stores, noted, keys);
    stores.disconnect();
    survey
}

fn of_stores(stores: &Stores, noted: &[Noted], keys: Option<&PublicKeys>) -> Result<Survey, StartError> {
    let names = stores.names()?;
    if !names.iter().any(|name| name == TENANT_DEFAULT) {
        let url = stores.database().map(ToString::to_string).unwrap_or_default();
        return Err(StartError::usage(format!(
            "the database {url} has no stores; name another with --store"
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| StartError::failed(format!("cannot start the runtime: {why}")))?;
    let failed = |fault: Fault| StartError::failed(without_advice(&fault.message));
    let one = |name: &str| {
        let keys = keys.filter(|_| is_signed(name));
        runtime.block_on(one_store(stores, name, noted, keys)).map_err(failed)
    };
    let mut survey = one(TENANT_DEFAULT)?;
    for name in names.iter().filter(|name| *name != TENANT_DEFAULT) {
        survey.join_tenant(name, one(name)?, noted);
    }
    Ok(survey)
}

async fn one_store(
    stores: &Stores,
    name: &str,
    noted: &[Noted],
    keys: Option<&PublicKeys>,
) -> Result<Survey, Fault> {
    let store = stores.open(name)?;
    let integrity = store.integrity().await?;
    let mut found = ProblemsByRun::group(&integrity);
    let (reports, astray) = runs_of(&*store, noted, keys).await?;
    found.of_store.extend(astray);
    store.close().await?;
    Ok(assemble(found, Some(reports), integrity, noted))
}
