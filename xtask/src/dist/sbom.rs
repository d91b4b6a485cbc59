//! The list of the program's parts (SBOM) as CycloneDX 1.6.
//!
//! It has no time and no random id, so that two builds of one commit have the same list.

use serde_json::{Value, json};

use super::parts::{PROGRAM, Part, Parts};

pub(super) const FILE: &str = "sbom.cdx.json";

/// `sum` is the SHA-256 of the program.
pub(super) fn document(parts: &Parts, sum: &str) -> String {
    let program = parts.0.values().find(|part| part.name == PROGRAM);
    let mut main = program.map_or(Value::Null, |part| component(part, "application"));
    main["name"] = "recount".into();
    main["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    let others = parts.0.values().filter(|part| part.name != PROGRAM);
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": main },
        "components": others.map(|part| component(part, "library")).collect::<Vec<_>>(),
        "dependencies": parts.0.values()
            .map(|part| json!({ "ref": part.reference(), "dependsOn": part.uses }))
            .collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn component(part: &Part, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": part.reference(),
        "name": part.name,
        "version": part.version,
        "licenses": [{ "expression": part.licence }],
    });
    if let Some(checksum) = &part.checksum {
        component["purl"] = format!("pkg:cargo/{}@{}", part.name, part.version).into();
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &part.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}
