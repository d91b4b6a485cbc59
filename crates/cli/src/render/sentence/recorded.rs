//! What recorders of other agents say: the source of a run, and what is missing of it.

use super::{Data, Sentence};

pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    match type_name {
        "ext.recount.source" => {
            let version = data.text("version").map_or(String::new(), |version| format!(" {version}"));
            let missing = data.texts("does_not_show").filter(|missing| !missing.is_empty());
            let missing = missing.map_or(String::new(), |missing| {
                format!("; this source does not show {}", missing.join(", "))
            });
            Some(Sentence::line(format!("recorded from {}{version}{missing}", data.text("source")?)))
        }
        "ext.recount.gap" => {
            let what = data.text("what").unwrap_or("something");
            Some(Sentence::line(format!("not recorded: {what} ({})", data.text("reason")?)))
        }
        _ => None,
    }
}
