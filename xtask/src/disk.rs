//! Warns before the first step if the disk has too little free space for the build, because a full disk ends a long run
//! late with a linker error. It never fails a run. Start at [`report`].

use std::path::Path;

use crate::setup::Host;

/// The size of `target` after all steps, in KiB: about 9 GB, as measured.
const NEEDED_KIB: u64 = 9_000_000;

/// What a run with a full `target` still writes: rebuilt parts are stored beside the old ones.
const NEEDED_KIB_MIN: u64 = 1_000_000;

/// The free space of the disk of `target`; `None` if it is unknown.
#[derive(Debug, PartialEq, Eq)]
struct Room {
    free_kib: u64,
    held_kib: u64,
}

/// Builds the line to print, with advice if there is too little space.
pub(crate) fn report(host: &impl Host, target: &Path) -> String {
    let Some(room) = room(host, target) else {
        let needed = gigabytes(NEEDED_KIB);
        return format!(
            "disk: how much is free is not known; an empty target folder needs about {needed} GB"
        );
    };
    let needed = NEEDED_KIB.saturating_sub(room.held_kib).max(NEEDED_KIB_MIN);
    let (free, needed_gb) = (gigabytes(room.free_kib), gigabytes(needed));
    let line = format!(
        "disk: {free} GB free for {}, which holds {} GB; this run needs about {needed_gb} GB more",
        target.display(),
        gigabytes(room.held_kib)
    );
    if room.free_kib >= needed {
        return line;
    }
    format!(
        "{line}\nWARNING: that is too little, so the run will probably fail: make room, let CARGO_TARGET_DIR name a folder \
         on a larger disk, or set CARGO_INCREMENTAL=0, which saves about 3 GB"
    )
}

fn room(host: &impl Host, target: &Path) -> Option<Room> {
    // The folder may not exist yet.
    let there = target.ancestors().find(|folder| folder.is_dir())?;
    let free = host.output_of(&["df", "-Pk", there.to_str()?])?;
    let free_kib = free.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    let held_kib = if there == target {
        let held = host.output_of(&["du", "-sk", target.to_str()?])?;
        held.split_whitespace().next()?.parse().ok()?
    } else {
        0
    };
    Some(Room { free_kib, held_kib })
}

/// Formats as units of 1,000 megabytes, rounded to a tenth.
fn gigabytes(kib: u64) -> String {
    format!("{:.1}", kib as f64 * 1024.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use anyhow::Result;

    use super::*;

    /// A machine with this much free space, and this much in `target`.
    struct Fake(Option<u64>, u64);

    impl Host for Fake {
        fn find(&self, _program: &str) -> Option<PathBuf> {
            None
        }

        fn output_of(&self, words: &[&str]) -> Option<String> {
            let Fake(free, held) = self;
            match words {
                ["df", "-Pk", _] => free.map(|free| {
                    let head = "Filesystem 1024-blocks Used Available Capacity Mounted on";
                    format!("{head}\n/dev/vda 260000000 1000 {free} 1% /")
                }),
                ["du", "-sk", folder] => Some(format!("{held}\t{folder}")),
                _ => None,
            }
        }

        fn variable(&self, _name: &str) -> Option<String> {
            None
        }

        fn run(&mut self, _folder: &Path, _words: &[&str]) -> Result<bool> {
            Ok(true)
        }
    }

    #[test]
    fn too_little_free_space_is_reported_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let (there, not_yet) = (folder.path().to_owned(), folder.path().join("target"));
        for (host, target, needed, is_enough) in [
            (Fake(Some(60_000_000), 0), &not_yet, "needs about 9.2 GB", true),
            (Fake(Some(8_000_000), 0), &not_yet, "8.2 GB free", false),
            (Fake(Some(8_000_000), 5_000_000), &there, "needs about 4.1 GB", true),
            (Fake(Some(900_000), 50_000_000), &there, "needs about 1.0 GB", false),
        ] {
            let line = report(&host, target);
            assert!(line.contains(needed), "{line}");
            assert_eq!(line.contains("WARNING"), !is_enough, "{line}");
            assert_eq!(line.contains("CARGO_TARGET_DIR"), !is_enough, "{line}");
        }
        let line = report(&Fake(None, 0), &there);
        assert!(line.contains("is not known") && !line.contains("WARNING"), "{line}");
    }

    #[test]
    fn the_free_space_of_this_machine_is_reported() {
        let line = report(&crate::setup::Machine, Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(line.contains(" GB free for "), "{line}");
    }
}
