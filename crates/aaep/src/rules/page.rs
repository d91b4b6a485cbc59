//! Generates the reference page of the rules from their table.

use super::{ALL, Layer, Severity};

/// All rules in Markdown: `docs/aaep/rules.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Rules of AAEP\n\nGenerated from the table in `crates/aaep`; do not edit. Each rule has a stable \
         id, the requirement and section it comes from, its source (`schema`: the JSON Schemas of the \
         protocol; `suite`: its conformance suite; `prose`: only the text of the specification; `lint`: \
         good practice), and the severity of a violation in the profiles `strict` and `compat`.\n",
    );
    let mut last = None;
    for rule in ALL {
        if last != Some(rule.layer) {
            last = Some(rule.layer);
            let title = match rule.layer {
                Layer::Text => "Texts",
                Layer::Required => "Required fields",
                Layer::Form => "Format of fields",
                Layer::Payload => "Types and their payload",
                Layer::Extension => "Extensions",
                Layer::Advice => "Sizes and advice",
                Layer::Message => "Messages other than events",
                Layer::Session => "Sessions",
            };
            page.push_str(&format!(
                "\n## {title}\n\n| rule | holds | what to do | from | source | strict | compat |\n\
                 | --- | --- | --- | --- | --- | --- | --- |\n"
            ));
        }
        let grave = |severity: Option<Severity>| severity.map_or("–", Severity::name);
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |\n",
            rule.id,
            rule.statement,
            rule.remedy,
            rule.cites,
            rule.source.name(),
            grave(rule.strict),
            grave(rule.compat),
        ));
    }
    page
}
