//! Checks the order of rooms: modules of a crate that are layered. A room uses only those below it. The methods of a
//! room's handle must be in the room, because method calls are not seen. Start at [`check`].

use std::collections::BTreeMap;

use super::super::Report;
use super::super::tree::Tree;
use super::arrows::Arrow;

const RULE: &str = "rooms";

/// A folder, and the rooms in it from the lowest to the highest, each with the type whose methods are only there.
pub(super) type RoomOrder = (&'static str, &'static [(&'static str, &'static str)]);

pub(super) const HOUSES: &[RoomOrder] = &[(
    "crates/engine/src",
    &[
        ("limits", ""),
        ("ground", "Ground"),
        ("catalogue", "CatalogueHandle"),
        ("read", "ReadHandle"),
        ("write", "WriteHandle"),
        ("work", "WorkHandle"),
        ("admin", "AdminHandle"),
        ("engine", "Engine"),
    ],
)];

pub(super) fn check(
    tree: &Tree,
    arrows: &BTreeMap<String, Vec<Arrow>>,
    houses: &[RoomOrder],
    report: &mut Report,
) {
    for (folder, rooms) in houses {
        let height = |room: &str| rooms.iter().position(|(name, _)| *name == room);
        for Arrow { from, to, name, path, line } in arrows.get(*folder).into_iter().flatten() {
            if height(from).zip(height(to)).is_some_and(|(from, to)| from < to) {
                let message = format!(
                    "`{from}` is below `{to}` and uses its `{name}`: move what is needed down, or invert the call"
                );
                report.refuse(path, *line, RULE, message);
            }
        }
        for (path, source) in &tree.sources {
            let Some(within) = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else {
                continue;
            };
            let here = within.strip_suffix(".rs").unwrap_or(within).split('/').next().unwrap_or_default();
            for at in (1..source.tokens.len()).filter(|at| source.name(at - 1) == Some("impl")) {
                let Some((room, handle)) =
                    rooms.iter().find(|(_, handle)| source.name(at).is_some_and(|name| name == *handle))
                else {
                    continue;
                };
                if *room != here && !source.is_test(at) {
                    let message =
                        format!("methods of `{handle}` belong in `{room}`, or the room's use is not seen");
                    report.refuse(path, source.tokens[at].line, RULE, message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::source::Source;
    use super::super::super::tests::clean_tree;
    use super::super::super::{Report, tree::Tree};
    use super::super::arrows;
    use super::{HOUSES, RULE, RoomOrder, check};

    const HOUSE: RoomOrder = ("crates/event/src", &[("low", "LowHandle"), ("high", "HighHandle")]);

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree: Tree = clean_tree();
        for (path, text) in files {
            let path = format!("crates/event/src/{path}");
            tree.sources.insert(path.clone(), Source::read(&path, text));
            tree.texts.insert(path, (*text).to_owned());
        }
        let mut report = Report::default();
        check(&tree, &arrows::folders(&tree), &[HOUSE], &mut report);
        assert!(report.findings.iter().all(|finding| finding.rule == RULE));
        report.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_room_may_use_those_below_it() {
        let files = [("low.rs", "pub struct Low;"), ("high.rs", "use crate::low::Low;")];
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn an_upward_use_is_refused_through_the_root_and_from_nested_modules() {
        let files = [
            ("lib.rs", "mod low; mod high; pub use high::High;"),
            ("low.rs", "mod deep;"),
            ("low/deep.rs", "//! Deep.\nuse crate::High;"),
            ("high.rs", "pub struct High;"),
        ];
        let found = findings(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(
                "crates/event/src/low/deep.rs:2: rooms: `low` is below `high` and uses its `High`"
            ),
            "{found:?}"
        );
    }

    #[test]
    fn methods_of_a_handle_are_in_its_room() {
        let own = [("high.rs", "mod part;"), ("high/part.rs", "use super::HighHandle;\nimpl HighHandle {}")];
        assert_eq!(findings(&own), [""; 0]);
        let found = findings(&[("high.rs", "//! High.\nimpl LowHandle {}"), ("low.rs", "")]);
        assert!(found[0].contains("high.rs:2: rooms: methods of `LowHandle` belong in `low`"), "{found:?}");
    }

    #[test]
    fn the_rooms_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (folder, rooms) in HOUSES {
            for (room, handle) in *rooms {
                let file = root.join(folder).join(room).with_extension("rs");
                assert!(file.exists(), "{folder}/{room}");
                let inner = [file.clone(), file.with_extension("").join("handle.rs")];
                let inner = inner.into_iter().chain([root.join(folder).join(room).join("context.rs")]);
                let holds = |path: std::path::PathBuf| {
                    std::fs::read_to_string(path)
                        .is_ok_and(|text| text.contains(&format!("impl {handle} {{")))
                };
                assert!(handle.is_empty() || inner.into_iter().any(holds), "{folder}/{room}: {handle}");
            }
        }
    }
}
