//! The outcome of every identifier that a run has used. It only grows, and copies share the old part.
//!
//! A trie over a fixed hash: adding a name copies at most [`DEPTH_MAX`] nodes of [`WIDTH`] links, however
//! many names there are, so a scratch state costs the same for the first event as for the last.

use std::sync::Arc;

use recount_event::PromptKind;
use twox_hash::XxHash3_64;

const BITS: u32 = 4;
const WIDTH: usize = 1 << BITS;
const DEPTH_MAX: u32 = u64::BITS / BITS;
const LEAF_MAX: usize = 8;

/// The kinds of names, each with a space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    Call,
    Approval,
    Clarification,
    Handoff,
}

impl Space {
    pub(crate) fn of(kind: PromptKind) -> Self {
        match kind {
            PromptKind::Approval => Space::Approval,
            PromptKind::Clarification => Space::Clarification,
            PromptKind::Handoff => Space::Handoff,
        }
    }
}

/// The status of a name that was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameStatus {
    /// A call that was only announced, and was refused by a person; it may still be recorded.
    Denied,
    /// Settled or answered. The text completes the sentence "it was …".
    Over(Arc<str>),
}

/// Names and their fates.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ledger {
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Leaf(Vec<(Arc<Name>, NameStatus)>),
    Branch(Box<[Option<Arc<Node>>; WIDTH]>),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    space: Space,
    text: Box<str>,
}

impl Default for Node {
    fn default() -> Self {
        Node::Leaf(Vec::new())
    }
}

impl Ledger {
    pub(crate) fn get(&self, space: Space, text: &str) -> Option<&NameStatus> {
        let hash = hash(space, text);
        let mut node = &self.root;
        let mut depth = 0;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = find(entries, space, text).ok()?;
                    return Some(&entries[at].1);
                }
                Node::Branch(links) => node = links[slot(hash, depth)].as_deref()?,
            }
            depth += 1;
        }
    }

    /// Sets or replaces the status of a name.
    pub(crate) fn set(&mut self, space: Space, text: &str, status: NameStatus) {
        set(&mut self.root, hash(space, text), 0, space, text, status);
    }
}

fn set(node: &mut Node, whole: u64, depth: u32, space: Space, text: &str, status: NameStatus) {
    match node {
        Node::Branch(links) => {
            let link = links[slot(whole, depth)].get_or_insert_default();
            set(Arc::make_mut(link), whole, depth + 1, space, text, status);
        }
        Node::Leaf(entries) => match find(entries, space, text) {
            Ok(at) => entries[at].1 = status,
            Err(at) => {
                entries.insert(at, (Arc::new(Name { space, text: text.into() }), status));
                if entries.len() > LEAF_MAX && depth < DEPTH_MAX {
                    split(node, depth);
                }
            }
        },
    }
}

fn split(node: &mut Node, depth: u32) {
    let Node::Leaf(entries) = std::mem::take(node) else { return };
    let mut parts: [Vec<(Arc<Name>, NameStatus)>; WIDTH] = Default::default();
    for (name, status) in entries {
        parts[slot(hash(name.space, &name.text), depth)].push((name, status));
    }
    let links = parts.map(|part| (!part.is_empty()).then(|| Arc::new(Node::Leaf(part))));
    *node = Node::Branch(Box::new(links));
}

fn find(entries: &[(Arc<Name>, NameStatus)], space: Space, text: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(name, _)| (name.space, &*name.text).cmp(&(space, text)))
}

fn slot(hash: u64, depth: u32) -> usize {
    (hash >> (depth * BITS)) as usize & (WIDTH - 1)
}

/// Without a key of the process, because the same names must have the same slots in every process.
fn hash(space: Space, text: &str) -> u64 {
    XxHash3_64::oneshot_with_seed(space as u64, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(text: &str) -> NameStatus {
        NameStatus::Over(text.into())
    }

    fn depth(node: &Node) -> usize {
        match node {
            Node::Leaf(_) => 1,
            Node::Branch(links) => 1 + links.iter().flatten().map(|link| depth(link)).max().unwrap_or(0),
        }
    }

    /// Nodes of `after` that are not shared with `before`.
    fn fresh(before: &Node, after: &Node) -> usize {
        match (before, after) {
            (Node::Branch(old), Node::Branch(new)) => {
                1 + old
                    .iter()
                    .zip(new.iter())
                    .map(|pair| match pair {
                        (Some(old), Some(new)) if Arc::ptr_eq(old, new) => 0,
                        (Some(old), Some(new)) => fresh(old, new),
                        (_, Some(new)) => fresh(&Node::default(), new),
                        (_, None) => 0,
                    })
                    .sum::<usize>()
            }
            (_, Node::Branch(new)) => {
                1 + new.iter().flatten().map(|link| fresh(&Node::default(), link)).sum::<usize>()
            }
            (_, Node::Leaf(_)) => 1,
        }
    }

    #[test]
    fn remembers_everything_and_overwrites() {
        let mut ledger = Ledger::default();
        for n in 0..5_000 {
            ledger.set(Space::Call, &format!("call_{n}"), NameStatus::Denied);
            ledger.set(Space::Approval, &format!("call_{n}"), over("approved"));
        }
        ledger.set(Space::Call, "call_7", over("settled"));
        assert_eq!(ledger.get(Space::Call, "call_7"), Some(&over("settled")));
        assert_eq!(ledger.get(Space::Call, "call_4999"), Some(&NameStatus::Denied));
        assert_eq!(ledger.get(Space::Approval, "call_7"), Some(&over("approved")));
        assert_eq!(ledger.get(Space::Handoff, "call_7"), None);
        assert_eq!(ledger.get(Space::Call, "call_5000"), None);
    }

    #[test]
    fn the_order_of_adding_does_not_show() {
        let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
        let (mut up, mut down) = (Ledger::default(), Ledger::default());
        names.iter().for_each(|name| up.set(Space::Call, name, NameStatus::Denied));
        names.iter().rev().for_each(|name| down.set(Space::Call, name, NameStatus::Denied));
        assert!(up == down);
    }

    #[test]
    fn adding_to_a_copy_costs_the_same_however_many_there_are() {
        let mut ledger = Ledger::default();
        let mut most = 0;
        for n in 0..100_000 {
            let name = format!("call_{n}");
            if n % 1_000 == 999 {
                let mut copy = ledger.clone();
                copy.set(Space::Call, &name, NameStatus::Denied);
                most = most.max(fresh(&ledger.root, &copy.root));
            }
            ledger.set(Space::Call, &name, NameStatus::Denied);
        }
        assert!(depth(&ledger.root) <= 8, "depth {}", depth(&ledger.root));
        assert!(most <= 8 + WIDTH, "a copy took {most} nodes");
    }
}
