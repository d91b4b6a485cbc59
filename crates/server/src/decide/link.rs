//! Creates and reads the tokens of decision links. A token is signed with a key derived from the seal key and contains what it
//! may decide, so nothing about it is stored: a prompt is answered once, and then every link to it is used up.
//!
//! Start at [`DecisionLinks`]. It must not know pages.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recount_engine::{PromptRow, SEAL_KEY_BYTES};
use serde::{Deserialize, Serialize};

use crate::config::Webhook;
use crate::limits::DECISION_TOKEN_BYTES_MAX;

/// The path before the token.
pub(crate) const PREFIX: &str = "/decide/";

/// Creates links. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DecisionLinks {
    key: [u8; blake3::KEY_LEN],
    public_url: std::sync::Arc<str>,
}

/// What a token may decide, for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) tenant: String,
    pub(super) webhook: String,
    pub(super) approver: String,
    /// `approval` or `clarification`.
    pub(super) kind: String,
    pub(super) prompt: String,
    pub(super) run: String,
    pub(super) shown_digest: String,
    pub(super) issued_ms: u64,
}

impl DecisionLinks {
    pub(crate) fn new(seal_key: &[u8; SEAL_KEY_BYTES], public_url: &str) -> Self {
        let key = blake3::derive_key("recount 2026 decision links", seal_key);
        DecisionLinks { key, public_url: public_url.into() }
    }

    pub(crate) fn public_url(&self) -> &str {
        &self.public_url
    }

    /// The link for a prompt as it is now.
    pub(crate) fn create(
        &self,
        webhook: &Webhook,
        approver: &str,
        row: &PromptRow,
        now_ms: u64,
    ) -> Option<String> {
        let shown = recount_face_aep::shown_prompt(row.clone(), None);
        let claim = Claim {
            tenant: webhook.tenant.clone(),
            webhook: webhook.name.clone(),
            approver: approver.to_owned(),
            kind: row.kind().as_str().to_owned(),
            prompt: row.id().to_string(),
            run: row.run_id().to_string(),
            shown_digest: shown.shown_digest()?.to_owned(),
            issued_ms: now_ms,
        };
        let token = self.token(&claim);
        (token.len() <= DECISION_TOKEN_BYTES_MAX).then(|| format!("{}{PREFIX}{token}", self.public_url))
    }

    fn token(&self, claim: &Claim) -> String {
        let Claim { tenant, webhook, approver, kind, prompt, run, shown_digest, issued_ms } = claim;
        // As a list, because the token is in a URL that people see.
        let parts = (tenant, webhook, approver, kind, prompt, run, shown_digest, issued_ms);
        let text = serde_json::to_vec(&parts).expect("texts and numbers are valid JSON");
        let proof = blake3::keyed_hash(&self.key, &text);
        format!("{}.{}", URL_SAFE_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(proof.as_bytes()))
    }

    /// The claim of a token that this server issued.
    pub(super) fn read(&self, token: &str) -> Option<Claim> {
        if token.len() > DECISION_TOKEN_BYTES_MAX {
            return None;
        }
        let (text, proof) = token.split_once('.')?;
        let text = URL_SAFE_NO_PAD.decode(text).ok()?;
        let proof: [u8; blake3::OUT_LEN] = URL_SAFE_NO_PAD.decode(proof).ok()?.try_into().ok()?;
        // Hashes are compared in constant time.
        if blake3::keyed_hash(&self.key, &text) != blake3::Hash::from_bytes(proof) {
            return None;
        }
        let (tenant, webhook, approver, kind, prompt, run, shown_digest, issued_ms) =
            serde_json::from_slice(&text).ok()?;
        Some(Claim { tenant, webhook, approver, kind, prompt, run, shown_digest, issued_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_unchanged_tokens_are_read() {
        let links = DecisionLinks::new(&[7; SEAL_KEY_BYTES], "https://r.example");
        let text = |text: &str| text.to_owned();
        let claim = Claim {
            tenant: text("default"),
            webhook: text("ops"),
            approver: text("ada"),
            kind: text("approval"),
            prompt: text("a1"),
            run: text("run_1"),
            shown_digest: text("d"),
            issued_ms: 1,
        };
        let token = links.token(&claim);
        assert_eq!(links.read(&token), Some(claim.clone()));
        let other = links.token(&Claim { prompt: text("a2"), ..claim.clone() });
        let (body, proof) = token.split_once('.').unwrap();
        let (other_body, other_proof) = other.split_once('.').unwrap();
        let foreign = DecisionLinks::new(&[8; SEAL_KEY_BYTES], "https://r.example").token(&claim);
        for forged in [
            format!("{other_body}.{proof}"),
            format!("{body}.{other_proof}"),
            format!("{body}."),
            body.to_owned(),
            String::new(),
            format!("{token}A"),
            foreign,
            "a".repeat(DECISION_TOKEN_BYTES_MAX + 1),
        ] {
            assert_eq!(links.read(&forged), None, "{forged}");
        }
    }
}
