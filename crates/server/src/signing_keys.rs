//! `/.well-known/recount-keys` and `/admin/signing-keys`: the keys that sign heads of runs.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use recount_api::admin::{SigningKey, SigningKeys};
use recount_api::reply::One;
use recount_engine::{KeyRow, RequestContext};
use recount_face_aep::Refusal;
use serde_json::json;

use crate::access::{Admitted, Gate};
use crate::admin_json::json as reply;
use crate::audit::AuditKind;
use crate::spread;
use crate::tenants::Tenants;

/// The keys of all tenants. They do not name the tenant.
pub(crate) async fn list(State(tenants): State<Arc<Tenants>>) -> Result<Response, Refusal> {
    let mut keys = of_tenants(&tenants).await?;
    spread::add_keys(&mut keys, &tenants).await?;
    keys.sort_by(|one, other| (&one.created_at, &one.kid).cmp(&(&other.created_at, &other.kid)));
    Ok(reply(StatusCode::OK, &SigningKeys { keys }))
}

/// The keys of the tenants that this server serves.
pub(crate) async fn of_tenants(tenants: &Tenants) -> Result<Vec<SigningKey>, Refusal> {
    let mut keys = Vec::new();
    for (_, engine) in tenants.all() {
        keys.extend(engine.admin().signing_keys().await?.into_iter().map(public));
    }
    Ok(keys)
}

pub(crate) async fn rotate(
    State(gate): State<Gate>,
    Extension(context): Extension<RequestContext>,
    Extension(admitted): Extension<Admitted>,
) -> Result<Response, Refusal> {
    let key = public(context.engine.admin().rotate_signing_key().await?);
    if let Some(audit) = gate.tenants.audit() {
        let facts = json!({
            "tenant": &*admitted.tenant, "key_id": key.kid, "by": context.caller.name,
            "caller_id": context.caller.id,
        });
        audit.record(AuditKind::SigningKeyRotated, facts).await;
    }
    Ok(reply(StatusCode::CREATED, &One::new("signing_key", key)))
}

/// The key as published.
pub(crate) fn public(key: KeyRow) -> SigningKey {
    let KeyRow { public, created_at, retired_at } = key;
    SigningKey { kty: public.kty, crv: public.crv, x: public.x, kid: public.kid, created_at, retired_at }
}
