//! `recount nodes`: the servers that use a PostgreSQL database, and which of them owns which store.

use clap::Args;
use recount_server::nodes::{NodeRow, StoreRow, Survey, survey};
use serde_json::json;

use super::invocation::Invocation;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{clean, count};

/// List the servers that share a PostgreSQL database and the stores they own
#[derive(Args)]
pub(super) struct Nodes {
    /// The database, such as postgres://user@host/db
    #[arg(long, value_name = "URL", env = "RECOUNT_STORE", hide_env_values = true)]
    store: String,
}

impl Nodes {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let Survey { nodes, stores } = survey(&self.store)?;
        let mut out = Output::new();
        if nodes.is_empty() && !invocation.json {
            note("no server uses this database; start one with recount serve --store");
        }
        for node in &nodes {
            let owned = stores.iter().filter(|store| store.node.as_ref() == Some(&node.node)).count();
            if invocation.json {
                out.value(&node_json(node, owned))?;
            } else {
                out.line(&clean::line(&node_line(node, owned)))?;
            }
        }
        for store in &stores {
            if invocation.json {
                out.value(&store_json(store))?;
            } else {
                out.line(&clean::line(&store_line(store)))?;
            }
        }
        Ok(())
    }
}

fn node_line(node: &NodeRow, owned: usize) -> String {
    let at = if node.address.is_empty() { String::new() } else { format!(" at {}", node.address) };
    let role = match owned {
        0 => "standby".to_owned(),
        owned => format!("owns {}", count(owned as u64, "store")),
    };
    let lease = match node.lease_left_ms {
        left @ 0.. => format!("lease valid for {}.{} s", left / 1000, left % 1000 / 100),
        expired => format!("lease expired {} s ago", -expired / 1000),
    };
    format!("node {}{at}: {role}, {lease}", node.node)
}

fn store_line(store: &StoreRow) -> String {
    let owner = store.node.as_deref().unwrap_or("none");
    format!(
        "store {}: owner {owner}, epoch {}, position {}, {}",
        store.name,
        store.epoch,
        store.last_position,
        count(store.records, "event")
    )
}

fn node_json(node: &NodeRow, owned: usize) -> serde_json::Value {
    json!({
        "node": node.node, "address": node.address, "since_ms": node.since_ms,
        "lease_left_ms": node.lease_left_ms, "stores": owned,
    })
}

fn store_json(store: &StoreRow) -> serde_json::Value {
    json!({
        "store": store.name, "owner": store.node, "epoch": store.epoch, "position": store.last_position,
        "events": store.records, "bytes": store.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_makes_sense_by_itself() {
        let mut node = NodeRow {
            node: "one-1a2b3c4d".into(),
            address: "http://127.0.0.1:8765".into(),
            since_ms: 0,
            lease_left_ms: 7_250,
        };
        assert_eq!(
            node_line(&node, 2),
            "node one-1a2b3c4d at http://127.0.0.1:8765: owns 2 stores, lease valid for 7.2 s"
        );
        (node.lease_left_ms, node.address) = (-3_900, String::new());
        assert_eq!(node_line(&node, 0), "node one-1a2b3c4d: standby, lease expired 3 s ago");
        let store = StoreRow {
            name: "default".into(),
            node: None,
            epoch: 3,
            last_position: 12,
            records: 1,
            bytes: 400,
        };
        assert_eq!(store_line(&store), "store default: owner none, epoch 3, position 12, 1 event");
    }
}
