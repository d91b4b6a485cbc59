//! Computes from a recording what a machine finds on its disk after a power cut.
//!
//! Synced data is found. The rest is found, lost, torn or applied out of order, as drawn. Start at
//! [`DiskImage::write_after_cut`].

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::Op;

/// The files of a disk.
#[derive(Default)]
pub struct DiskImage(BTreeMap<String, File>);

#[derive(Default, Clone)]
struct File {
    /// The synced content; `None`: no such file.
    synced: Option<Vec<u8>>,
    /// Operations since the last sync.
    pending: Vec<Op>,
}

/// Numbers that decide what is found.
struct Draws<'a>(&'a mut dyn FnMut() -> u64);

impl Draws<'_> {
    /// Less than `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((self.0)() % bound as u64) as usize
    }

    fn coin(&mut self) -> bool {
        (self.0)() & 1 == 1
    }
}

impl DiskImage {
    /// Applies one operation of a recording.
    pub fn apply(&mut self, name: &str, op: &Op) {
        let file = self.0.entry(name.to_owned()).or_insert_with(|| File {
            // The store creates the database file itself and syncs the folder.
            synced: (!name.contains('-')).then(Vec::new),
            pending: Vec::new(),
        });
        match op {
            Op::Sync => {
                let is_new = file.pending.iter().any(|op| matches!(op, Op::Create));
                for op in std::mem::take(&mut file.pending) {
                    apply(&mut file.synced, &op, None);
                }
                // SQLite syncs the folder after the first sync of a log or journal it has created.
                if is_new {
                    self.sync_names();
                }
            }
            Op::Delete { synced } => {
                file.pending.push(op.clone());
                if *synced {
                    self.sync_names();
                }
            }
            other => file.pending.push(other.clone()),
        }
    }

    /// Syncs the folder: what was created is found, if empty, and what was removed is not.
    fn sync_names(&mut self) {
        for file in self.0.values_mut() {
            let is_name = |op: &Op| matches!(op, Op::Create | Op::Delete { .. });
            if let Some(last) = file.pending.iter().rposition(is_name) {
                let is_created = matches!(file.pending[last], Op::Create);
                let is_recreated = file.pending[..last].iter().any(|op| matches!(op, Op::Delete { .. }));
                if !is_created || is_recreated {
                    file.synced = None;
                    file.pending.drain(..=last);
                } else {
                    file.pending.retain(|op| !is_name(op));
                }
                if is_created {
                    file.synced.get_or_insert_default();
                }
            }
        }
    }

    /// Writes into `folder` what is found after a power cut now: what is synced, and of the rest what the numbers of
    /// `roll` decide.
    pub fn write_after_cut(&self, folder: &Path, mut roll: impl FnMut() -> u64) -> io::Result<()> {
        let mut draws = Draws(&mut roll);
        for (name, file) in &self.0 {
            if let Some(bytes) = file.after_cut(&mut draws) {
                std::fs::write(folder.join(name), bytes)?;
            }
        }
        Ok(())
    }
}

impl File {
    fn after_cut(&self, draws: &mut Draws<'_>) -> Option<Vec<u8>> {
        let mut found = self.synced.clone();
        let mut rest = &self.pending[..];
        // A removed name may be found again, with all its content; what came later is another file.
        while let Some(at) = rest.iter().position(|op| matches!(op, Op::Delete { .. })) {
            if draws.coin() {
                rest = &rest[..at];
            } else {
                found = None;
                rest = &rest[at + 1..];
            }
        }
        let manner = draws.below(4);
        let last = draws.below(rest.len() + 1);
        for (at, op) in rest.iter().enumerate() {
            let is_kept = match manner {
                0 => false,
                1 => true,
                // A prefix, its last write torn.
                2 => at <= last,
                // Any of them, in the order that the disk chose, some torn.
                _ => draws.coin(),
            };
            let is_torn = (manner == 2 && at == last) || (manner == 3 && draws.below(8) == 0);
            if is_kept {
                apply(&mut found, op, is_torn.then_some(&mut *draws));
            } else if matches!(op, Op::Create) && found.is_none() {
                // Without its name nothing of the file is found.
                return None;
            }
        }
        found
    }
}

/// Changes a file's content. A torn write is applied in part.
fn apply(content: &mut Option<Vec<u8>>, op: &Op, torn: Option<&mut Draws<'_>>) {
    match op {
        Op::Create => {
            content.get_or_insert_default();
        }
        Op::Delete { .. } => *content = None,
        Op::Truncate(length) => content.get_or_insert_default().resize(*length as usize, 0),
        Op::Write { offset, bytes } => {
            let mut bytes = &bytes[..];
            if let Some(draws) = torn {
                let kept = draws.below(bytes.len() + 1);
                // Disks tear at sectors, file systems anywhere.
                bytes = &bytes[..if draws.coin() { kept / 512 * 512 } else { kept }];
            }
            let content = content.get_or_insert_default();
            let end = *offset as usize + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset as usize..end].copy_from_slice(bytes);
        }
        Op::Sync => unreachable!("a sync is never pending"),
    }
}
