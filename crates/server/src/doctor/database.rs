//! Health checks of stores in a database that no server uses, and of the settings of a database.

use recount_api::admin::Check;
use recount_engine::Error;
use recount_log::{Fault, FaultKind};

use super::{DamageAdvice, clock_check, files, integrity_of, versions};
use crate::config::Config;
use crate::stores::Stores;
use crate::tenant_folder::TENANT_DEFAULT;
use crate::{Files, StartError, boxed};

/// The advice about damage in a database.
pub(super) const ADVICE: DamageAdvice = DamageAdvice {
    damage: "stop the server, check the stores with `recount verify --store URL`, and restore the database from its \
             own backups",
    lost: "restore the database from its own backups; without them the bytes are lost and requests for them fail",
};

/// Checks the stores in a database. With `full` every byte is read.
#[boxed]
pub async fn offline_database(url: &str, full: bool) -> Result<Vec<Check>, StartError> {
    Ok(of_config(&Config::of_database(url)?, full).await)
}

/// Checks the stores in the database that the configuration names.
pub(super) async fn of_config(config: &Config, full: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    match config.stores(None) {
        Ok(stores) => {
            of_stores(&mut checks, &stores, full).await;
            stores.disconnect();
        }
        Err(why) => {
            let advice = "start PostgreSQL, or correct the URL, the user or the password";
            checks.push(Check::problem("database", why.to_string(), advice));
        }
    }
    checks.push(clock_check(recount_world::World::real().clock.now_ms(), None));
    files(&mut checks, Files::now());
    checks
}

async fn of_stores(checks: &mut Vec<Check>, stores: &Stores, full: bool) {
    versions(checks, &stores.engine_words());
    settings(checks, stores.warnings());
    let mut names = match stores.names() {
        Ok(names) => names,
        Err(why) => {
            let advice = "check that the user of the URL may read the database";
            checks.push(Check::problem("store", format!("cannot list the stores: {why}"), advice));
            return;
        }
    };
    if names.is_empty() {
        let advice = "start `recount serve --store` to create them";
        checks.push(Check::note("store", "the database has no stores", advice));
    }
    names.sort_by_key(|name| name != TENANT_DEFAULT);
    for name in names {
        let mut found = Vec::new();
        let checked = store(&mut found, stores, &name, full).await;
        // The server that owns one store owns all; reported once.
        let is_owned = checked.as_ref().is_err_and(|fault| fault.kind == FaultKind::Locked);
        if let Err(fault) = checked {
            found.push(Check::problem("store", fault.to_string(), advice_for(fault.kind)));
        }
        if name != TENANT_DEFAULT {
            found.iter_mut().for_each(|check| check.name = format!("{} of {name}", check.name));
        }
        checks.extend(found);
        if is_owned {
            return;
        }
    }
}

async fn store(checks: &mut Vec<Check>, stores: &Stores, name: &str, full: bool) -> Result<(), Fault> {
    let store = stores.open(name)?;
    let stats = store.stats().await?;
    let events = stats.hot_records + stats.sealed_records;
    checks.push(Check::fine("store", format!("{} runs with {events} events", stats.streams)));
    if full {
        let found = store.integrity().await.map_err(Error::from);
        integrity_of(checks, found, recount_engine::missing_blobs(&*store).await, ADVICE);
    }
    store.close().await
}

/// Reports what the database warns of about its durability.
pub(super) fn settings(checks: &mut Vec<Check>, warnings: Result<Vec<String>, Fault>) {
    const NAME: &str = "durability";
    match warnings {
        Ok(warnings) if warnings.is_empty() => {
            checks.push(Check::fine(NAME, "the settings of the database keep acknowledged events"));
        }
        Ok(warnings) => {
            let advice = "see docs/operations.md, \"Use PostgreSQL\"";
            checks.extend(warnings.into_iter().map(|warning| Check::note(NAME, warning, advice)));
        }
        Err(fault) => checks.push(Check::problem(NAME, fault.to_string(), advice_for(fault.kind))),
    }
}

fn advice_for(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Locked => "use --url to check the server that uses it, or stop that server",
        FaultKind::Newer => "use the release that wrote it, or a newer one",
        FaultKind::Corrupt => ADVICE.damage,
        FaultKind::Full => "free some space on the disk of the database",
        _ => "check that the database runs and that its user may read and write it",
    }
}
