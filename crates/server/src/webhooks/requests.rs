//! `/admin/webhooks`: lists webhooks and their dead letters, and delivers on request.
//!
//! Administrators of the default tenant see all webhooks, those of another tenant only its own. Start at [`WebhookRequests`].

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use recount_api::admin::{DeadLetter, RequestDelivery, WebhookProgress};
use recount_api::reply::{One, Page};
use recount_engine::RequestContext;
use recount_event::{Code, time};
use recount_face_aep::Refusal;
use serde_json::json;

use super::follower::Follower;
use super::{WebhookService, WebhookState};
use crate::access::{Admitted, Gate};
use crate::admin_json::{json as reply, read_or_default};
use crate::audit::AuditKind;
use crate::limits;
use crate::tokens::managed_tenant;

/// What the routes share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WebhookRequests {
    service: Arc<WebhookService>,
    gate: Gate,
}

impl WebhookRequests {
    pub(crate) fn new(service: &Arc<WebhookService>, gate: &Gate) -> Self {
        WebhookRequests { service: service.clone(), gate: gate.clone() }
    }

    /// The webhooks that the caller may manage.
    fn managed<'a>(&'a self, admitted: &'a Admitted) -> impl Iterator<Item = &'a Arc<Follower>> {
        let within = managed_tenant(admitted);
        self.service
            .followers
            .iter()
            .filter(move |follower| within.is_none_or(|tenant| follower.status.webhook.tenant == tenant))
    }

    fn named<'a>(&'a self, admitted: &'a Admitted, name: &str) -> Result<&'a Arc<Follower>, Refusal> {
        let mut managed = self.managed(admitted);
        managed.find(|follower| follower.status.webhook.name == name).ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            Refusal::new(Code::WebhookNotFound, format!("no webhook is named {shown:?}"))
        })
    }
}

pub(crate) async fn list(
    State(requests): State<WebhookRequests>,
    Extension(admitted): Extension<Admitted>,
) -> Result<Response, Refusal> {
    let mut found = Vec::new();
    for follower in requests.managed(&admitted) {
        found.push(progress(follower).await?);
    }
    Ok(reply(StatusCode::OK, &Page::new(found, None, false)))
}

async fn progress(follower: &Follower) -> Result<WebhookProgress, Refusal> {
    let webhook = &follower.status.webhook;
    let WebhookState { row, is_loaded, failing } = follower.status.state();
    let dead_letters = match follower.engine() {
        Ok(engine) => engine.admin().dead_letters(&webhook.name).await?.len(),
        Err(_) => 0,
    };
    let state = match (&row.disabled, &failing, is_loaded) {
        (Some(_), ..) => "disabled",
        (None, Some(_), _) => "failing",
        (None, None, true) => "active",
        (None, None, false) => "waiting",
    };
    Ok(WebhookProgress {
        name: webhook.name.clone(),
        tenant: webhook.tenant.clone(),
        format: webhook.format.as_str().to_owned(),
        state: state.to_owned(),
        position: row.cursor,
        delivered: row.delivered,
        given_up: row.given_up,
        dead_letters: dead_letters as u64,
        disabled_at: row.disabled.map(|disabled| disabled.at),
        failing_since: failing.as_ref().map(|failing| time::format_ms(failing.since_ms)),
        reason: failing.map(|failing| failing.reason),
    })
}

pub(crate) async fn dead_letters(
    State(requests): State<WebhookRequests>,
    Extension(admitted): Extension<Admitted>,
    Path(webhook): Path<String>,
) -> Result<Response, Refusal> {
    let follower = requests.named(&admitted, &webhook)?;
    let rows = follower.engine()?.admin().dead_letters(&webhook).await?;
    let letters = rows.into_iter().map(|row| {
        let recount_engine::DeadLetter {
            position,
            event_id,
            run_id,
            type_name,
            occurred_at,
            given_up_at,
            attempts,
            reason,
        } = row.letter;
        DeadLetter { event_id, run_id, type_name, position, occurred_at, given_up_at, attempts, reason }
    });
    Ok(reply(StatusCode::OK, &Page::new(letters.collect::<Vec<_>>(), None, false)))
}

/// Sends a dead letter again, or a test message, and records that.
pub(crate) async fn deliver(
    State(requests): State<WebhookRequests>,
    Extension(context): Extension<RequestContext>,
    Extension(admitted): Extension<Admitted>,
    Path(webhook): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let request: RequestDelivery = read_or_default(&headers, body).await?;
    let follower = requests.named(&admitted, &webhook)?;
    let Ok(_permit) = requests.service.requested.try_acquire() else {
        let most = limits::REQUESTED_DELIVERIES_MAX;
        let detail = format!("{most} requested deliveries are in progress; try again after one has finished");
        return Err(Refusal::new(Code::StoreBusy, detail));
    };
    let delivery = match &request.event_id {
        Some(event_id) => follower.send_again(event_id).await?,
        None => follower.send_test().await,
    };
    if let Some(audit) = requests.gate.tenants.audit() {
        let facts = json!({
            "tenant": follower.status.webhook.tenant, "webhook": webhook, "event_id": delivery.event_id,
            "is_test": request.event_id.is_none(), "delivered": delivery.delivered, "reason": delivery.reason,
            "by": context.caller.name, "caller_id": context.caller.id,
        });
        audit.record(AuditKind::WebhookDelivery, facts).await;
    }
    Ok(reply(StatusCode::OK, &One::new("delivery", delivery)))
}
