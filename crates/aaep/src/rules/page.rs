//! The reference page of the rules, made of the table.

use super::{ALL, Layer, Severity};

/// All rules in Markdown: `docs/aaep/rules.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Rules of AAEP\n\nMade of the table in `crates/aaep`; do not edit. Each rule has a stable id, the \
         requirement and section it comes from, its source (`schema`: the protocol's JSON Schemas say it; `suite`: its \
         conformance suite looks for it; `prose`: only the text says it; `lint`: good practice), and how grave a breach \
         is in the profiles `strict` and `compat`.\n",
    );
    let mut last = None;
    for rule in ALL {
        if last != Some(rule.layer) {
            last = Some(rule.layer);
            let title = match rule.layer {
                Layer::Text => "Texts",
                Layer::Required => "Required fields",
                Layer::Form => "Forms of fields",
                Layer::Payload => "Types and their payload",
                Layer::Extension => "Extensions",
                Layer::Advice => "Sizes and advice",
                Layer::Message => "Messages that are no events",
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
            rule.says,
            rule.remedy,
            rule.cites,
            rule.source.name(),
            grave(rule.strict),
            grave(rule.compat),
        ));
    }
    page
}
