//! `gap.*`: history that is missing, and why.

use crate::Json;
use crate::family::run::{Agent, Driver, RunKind};
use crate::family::{part, payload};

payload! {
    /// The beginning of the run was pruned. The event is at the end of the run, so the numbering continues.
    EventsPruned { first_pruned_sequence: u64, last_pruned_sequence: u64, pruned_at: String, reason: String } {
        /// The catalogue's values from the removed events; see [`Catalogue`].
        catalogue: Json,
    }

    /// Events of the run were damaged in its former store. They are missing here, or not proven to be unchanged. It
    /// may follow the ending.
    EventsDamaged {
        /// The first event of the former log that is lost or not proven.
        first_damaged_sequence: u64,
        /// `damaged`: these events and all later ones are lost. `unproven`: the events are present, but cannot be
        /// verified. `may_be_missing`: it is unknown whether such events existed.
        reason: String,
        /// When the damage was found, RFC 3339.
        found_at: String,
    } {
        /// The last event that is known to have existed; missing if unknown.
        last_damaged_sequence: u64,
        /// The number of readable events after the damage. They are stored next to the store.
        readable_events: u64,
    }

    /// No worker or producer drove the run for a while.
    RunDisconnected { since_sequence: u64, since_at: String, reason: String } {}

    /// The workspace of the run was removed. It may follow the ending.
    WorkspaceRemoved {
        /// The removed folder.
        path: String,
        reason: String,
        /// When it was removed, RFC 3339.
        removed_at: String,
    } {}
}

part! {
    /// What lists said of the run and only the pruned events say: all of it, also when a part was pruned
    /// before, so that the newest marker is enough.
    Catalogue { kind: RunKind, driver: Driver, created_at: String } {
        title: String,
        agent: Agent,
        started_at: String,
        turns: u64,
        input_tokens: u64,
        output_tokens: u64,
        cost_micros_usd: u64,
        model: String,
        provider: String,
        workspace_path: String,
        workspace_mode: String,
        budget_micros_usd: u64,
        budget_tokens: u64,
        prior_run_id: String,
        /// Whether the warning of the budget was given.
        budget_warned: bool,
    }
}

impl EventsPruned {
    /// What the catalogue knew, when it is written as this server writes it.
    pub fn facts(&self) -> Option<Catalogue> {
        serde_json::from_str(self.catalogue.as_ref()?.text()).ok()
    }
}

impl Catalogue {
    /// As the marker carries it.
    pub fn written(&self) -> Json {
        Json::of(self).expect("facts hold only values that JSON can represent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_facts_round_trip() {
        let facts = Catalogue {
            kind: RunKind::External,
            driver: Driver::External,
            created_at: "2026-01-01T00:00:00.000Z".into(),
            title: Some("t".into()),
            agent: None,
            started_at: None,
            turns: Some(3),
            input_tokens: None,
            output_tokens: None,
            cost_micros_usd: Some(9),
            model: Some("m".into()),
            provider: None,
            workspace_path: None,
            workspace_mode: Some("clone".into()),
            budget_micros_usd: None,
            budget_tokens: Some(7),
            prior_run_id: None,
            budget_warned: Some(true),
        };
        let mut marker = EventsPruned::new(0, 4, "2026-01-02T00:00:00.000Z".into(), "age".into());
        assert_eq!(marker.facts(), None);
        marker.catalogue = Some(facts.written());
        assert_eq!(marker.facts(), Some(facts));
        marker.catalogue = Some(Json::parse("[1]").unwrap());
        assert_eq!(marker.facts(), None, "a foreign shape is passed over");
    }
}
