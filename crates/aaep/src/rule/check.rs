//! Checks single events against the rules. [`check_event`] takes an event, [`check_text`] a text, [`check`] a parsed
//! event. A valid event causes no allocation.

use super::measure::{Risk, is_localized, is_raw, stakes};
use super::{Finding, Findings, Profile, Rule, lint};
use crate::field::Field;
use crate::json::{Node, Reader, SyntaxError};
use crate::kind::{Kind, TypeClass};
use crate::quote::{bounded, quote};
use crate::reading::Reading;
use crate::rules;
use crate::shape::{Mismatch, MismatchKind};
use crate::table::{self, ALLOWED, ENVELOPE, ENVELOPE_REQUIRED, FOR_PEOPLE, REQUIRED, SHAPES};
use crate::wire::Event;
use crate::{kind, lex, limits};

/// Checks an event against all rules for single events.
///
/// ```
/// use recount_aaep::rule::{Profile, check_text};
/// let findings = check_text(r#"{"type":"aaep:agent.session.completed"}"#, Profile::Strict);
/// assert_eq!(findings[0].rule.id, "envelope.required");
/// assert_eq!(findings[0].message, "`@context` is missing");
/// ```
pub fn check_event(event: &Event, profile: Profile) -> Vec<Finding> {
    check_text(&event.to_json(), profile)
}

/// Checks the text of an event against all rules for single events, including the rules for JSON texts.
pub fn check_text(text: &str, profile: Profile) -> Vec<Finding> {
    let mut findings = Findings::new(profile);
    match Reader::new().read(text) {
        Err(error) => syntax(&error, &mut findings),
        Ok(doc) => match Reading::of(doc) {
            None => not_an_object(doc.root(), text, &mut findings),
            Some(reading) => check(&reading, &mut findings),
        },
    }
    findings.take()
}

/// Adds the finding for a JSON error.
pub(crate) fn syntax(error: &SyntaxError, findings: &mut Findings) {
    let rule = Rule::named(error.fault.rule()).unwrap_or(&rules::JSON_SYNTAX);
    let Some(severity) = rule.severity(findings.profile()) else { return };
    findings.found.push(Finding {
        rule,
        severity,
        line: 0,
        event_id: None,
        path: bounded(error.path.clone()),
        place: error.place,
        message: bounded(error.fault.to_string()),
    });
}

pub(crate) fn not_an_object(node: Node<'_>, text: &str, findings: &mut Findings) {
    let actual = node.sort().with_article();
    findings.add(&rules::JSON_OBJECT, text, Some(node), String::new, || {
        format!("{actual} where an object is expected")
    });
}

/// Checks a parsed event against all rules for single events.
pub fn check(event: &Reading<'_>, findings: &mut Findings) {
    let from = findings.found.len();
    let text = event.doc().text();
    required(event, text, findings);
    forms(event, text, findings);
    kinds(event, text, findings);
    lint::check(event, text, findings);
    if findings.found.len() > from {
        let id = event.text(Field::EventId);
        findings.settle(from, id.as_deref());
    }
}

fn required(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    const ENVELOPE_BITS: u128 = {
        let mut set = 0;
        let mut at = 0;
        while at < ENVELOPE_REQUIRED.len() {
            set |= ENVELOPE_REQUIRED[at].bit();
            at += 1;
        }
        set
    };
    let mut missing = |rule: &'static Rule, set: u128| {
        if set == 0 {
            return;
        }
        for field in Field::ALL.iter().filter(|field| field.bit() & set != 0) {
            let message = || format!("`{}` is missing", field.name());
            findings.add(rule, text, Some(event.node()), String::new, message);
        }
    };
    missing(&rules::ENVELOPE_REQUIRED, ENVELOPE_BITS & !event.set());
    if let Some(kind) = event.kind() {
        missing(&rules::PAYLOAD_REQUIRED, REQUIRED[kind as usize] & !event.set());
    }
}

/// Checks the shape of each field of the envelope and of the type.
fn forms(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    // Of other types, only the envelope is checked.
    let allowed = event.kind().map_or(ENVELOPE, |kind| ALLOWED[kind as usize]);
    let mut rest = event.set() & allowed;
    while rest != 0 {
        let at = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let field = Field::ALL[at];
        let Some(node) = event.get(field) else { continue };
        SHAPES[at]
            .check(node, &mut |mismatch| add_mismatch(form_rule(field), &mismatch, event, text, findings));
    }
    let (_, others) = event.counts();
    if others > 0 || event.set() & !allowed != 0 {
        unknown(event, allowed, text, findings);
    }
}

/// The rule that an invalid field breaks.
fn form_rule(field: Field) -> &'static Rule {
    match field {
        Field::Context => &rules::ENVELOPE_CONTEXT,
        Field::Type => &rules::ENVELOPE_TYPE,
        Field::EventId => &rules::EVENT_ID,
        Field::SessionId => &rules::SESSION_ID,
        Field::Timestamp => &rules::TIMESTAMP,
        Field::Producer => &rules::PRODUCER,
        Field::LocalizationHints => &rules::HINTS_FORM,
        field if field.is_envelope() => &rules::ENVELOPE_FORM,
        _ => &rules::PAYLOAD_FORM,
    }
}

#[cold]
fn add_mismatch(
    rule: &'static Rule,
    mismatch: &Mismatch<'_>,
    event: &Reading<'_>,
    text: &str,
    findings: &mut Findings,
) {
    let node = mismatch.node;
    let path = || event.doc().path_at(node.offset());
    match &mismatch.kind {
        MismatchKind::Wrong(message) => findings.add(rule, text, Some(node), path, || message.clone()),
        MismatchKind::Missing(name) => {
            findings.add(rule, text, Some(node), path, || format!("`{name}` is missing"));
        }
        MismatchKind::Unknown => {
            let message = || format!("unknown field `{}`", quote(node.raw()));
            findings.add(rule, text, Some(node), path, message);
        }
        MismatchKind::Graded(graded, lex) => {
            let message = || format!("`{}` is not {}, as `{}`", quote(node.raw()), lex.name, lex.example);
            findings.add(graded, text, Some(node), path, message);
        }
    }
}

/// Reports fields that the type does not define.
#[cold]
fn unknown(event: &Reading<'_>, allowed: u128, text: &str, findings: &mut Findings) {
    for (key, value) in event.node().members() {
        let Some(name) = key.str() else { continue };
        if Field::of_name(&name).is_some_and(|field| field.bit() & allowed != 0) {
            continue;
        }
        let path = || name.clone().into_owned();
        if name.starts_with("aaep_") || name.starts_with('@') {
            let message = || format!("`{}` is reserved", quote(&name));
            findings.add(&rules::FIELD_RESERVED, text, Some(key), path, message);
        } else if !matches!(event.type_class(), TypeClass::Core(_)) {
            // Types of extensions define their own fields.
        } else if is_localized(&name) {
            if value.str().is_none_or(|text| text.is_empty()) {
                let message = || format!("{} where a string is expected", value.sort().with_article());
                findings.add(&rules::LOCALIZED_FORM, text, Some(value), path, message);
            }
        } else if is_raw(&name) {
            let message = || format!("`{}` is a raw value of a formatted field", quote(&name));
            findings.add(&rules::FIELD_RAW, text, Some(key), path, message);
        } else {
            let known = table::MISNOMERS.iter().find(|(other, _)| *other == name);
            let message = || match known {
                Some((_, right)) => format!("`{name}` is not in the protocol; the name is `{right}`"),
                None => format!("`{}` is not a field of this type", quote(&name)),
            };
            findings.add(&rules::FIELD_UNKNOWN, text, Some(key), path, message);
        }
    }
}

/// Checks that depend on the type or on several fields.
fn kinds(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    match event.type_class() {
        TypeClass::Malformed => {
            if let Some(name) = event.text(Field::Type) {
                let message = || format!("`{}` is neither `prefix:name` nor a URI", quote(&name));
                findings.add(&rules::ENVELOPE_TYPE, text, event.get(Field::Type), || "type".into(), message);
            }
        }
        TypeClass::Undefined => {
            let name = event.text(Field::Type).unwrap_or_default();
            let message = || format!("`{}` is not one of the twelve core types", quote(&name));
            findings.add(&rules::TYPE_UNDEFINED, text, event.get(Field::Type), || "type".into(), message);
            check_disguised_call(event, text, findings);
        }
        TypeClass::Extension => check_extension_type(event, text, findings),
        TypeClass::Core(kind) => {
            if kind.is_critical() && !event.is(Field::Urgency, "critical") {
                let node = event.get(Field::Urgency);
                let message = || {
                    let found = node.map_or("absent".into(), |node| format!("`{}`", quote(node.raw())));
                    format!("urgency is {found}, but `{}` is always critical", kind.name())
                };
                let path = || "urgency".into();
                findings.add(&rules::URGENCY_CRITICAL, text, node.or(Some(event.node())), path, message);
            }
            if kind == Kind::AwaitingConfirmation {
                confirmation(event, text, findings);
            }
            hints(event, text, findings);
        }
    }
    timestamp(event, text, findings);
    repeated_context(event, text, findings);
    if let Some(extensions) = event.get(Field::Extensions) {
        self::extensions(event, extensions, text, findings);
    }
}

/// Checks a valid timestamp for forms that other software misreads.
fn timestamp(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let node = event.get(Field::Timestamp);
    let Some(written) = node.and_then(Node::plain) else { return };
    if lex::time::Moment::parse(written).is_none() {
        return;
    }
    let mut add = |rule: &'static Rule, what: &str| {
        let message = || format!("`{}` {what}", quote(written));
        findings.add(rule, text, node, || "timestamp".into(), message);
    };
    if written.as_bytes().get(19) != Some(&b'.') {
        add(&rules::TIMESTAMP_WHOLE, "has no fraction of a second");
    }
    if written.get(17..19) == Some("60") {
        add(&rules::TIMESTAMP_LEAP, "is in a leap second");
    }
    if written.ends_with("-00:00") {
        add(&rules::TIMESTAMP_OFFSET, "has an unknown time zone");
    }
}

fn repeated_context(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let Some(contexts) = event.get(Field::Context) else { return };
    // Invalid contexts are reported by another rule; a long list is not compared.
    let repeated = contexts.items().take(limits::EVENT_FIELDS_SOFT).enumerate().find(|(at, item)| {
        let name = item.str();
        name.is_some() && contexts.items().take(*at).any(|earlier| earlier.str() == name)
    });
    if let Some((at, item)) = repeated {
        let message = || format!("`{}` appears twice", quote(item.raw()));
        findings.add(&rules::CONTEXT_REPEATED, text, Some(item), || format!("@context[{at}]"), message);
    }
}

fn confirmation(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let stakes = stakes(event);
    let node = event.get(Field::DefaultDecision);
    let path = || "default_decision".to_owned();
    if event.is(Field::DefaultDecision, "accept") {
        let message = || "an action that cannot be undone is done at the timeout".to_owned();
        match (stakes.irreversible, stakes.risk) {
            (true, Risk::High | Risk::Medium) if stakes.outright => {
                findings.add(&rules::DEFAULT_ACCEPTS, text, node, path, message);
            }
            (true, Risk::High | Risk::Medium) => {
                findings.add(&rules::DEFAULT_ACCEPTS_ASSUMED, text, node, path, message);
            }
            (true, Risk::Low) => findings.add(&rules::DEFAULT_ADVICE, text, node, path, message),
            (false, Risk::High) => {
                let message = || "a high-risk action is done at the timeout".to_owned();
                findings.add(&rules::DEFAULT_ADVICE, text, node, path, message);
            }
            (false, _) => {}
        }
    }
    if let Some(allowed) = event.get(Field::AllowedReplies) {
        let odd = allowed.items().find(|item| !item.is("accept") && !item.is("reject"));
        let path = || "allowed_replies".to_owned();
        if let Some(item) = odd {
            let message = || format!("`{}` is not a decision of a reply", quote(item.raw()));
            findings.add(&rules::ALLOWED_REPLIES, text, Some(item), path, message);
        } else if let Some(default) = event.text(Field::DefaultDecision)
            && allowed.items().next().is_some()
            && !allowed.items().any(|item| item.is(&default))
        {
            let message = || format!("the default `{}` is not among them", quote(&default));
            findings.add(&rules::ALLOWED_REPLIES, text, Some(allowed), path, message);
        }
    }
}

/// Whether an event has text for people. Chunks of output may declare their own language.
fn has_text(event: &Reading<'_>) -> bool {
    let top = event.set() & FOR_PEOPLE & !(Field::Chunk.bit()) != 0;
    top || (event.has(Field::Chunk) && !event.has(Field::Language))
        || event.get(Field::Progress).is_some_and(|progress| progress.get("description").is_some())
}

fn hints(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let hints = event.get(Field::LocalizationHints);
    let has_primary_language = hints.is_some_and(|hints| hints.get("primary_language").is_some());
    if !has_primary_language && has_text(event) {
        let message = || "the texts have no language".to_owned();
        let path = || "localization_hints.primary_language".to_owned();
        findings.add(&rules::HINTS_MISSING, text, hints.or(Some(event.node())), path, message);
    }
}

fn extensions(event: &Reading<'_>, extensions: Node<'_>, text: &str, findings: &mut Findings) {
    let mut some = false;
    let mut is_known = contexts(event) == 1
        && event
            .get(Field::Context)
            .is_some_and(|context| context.items().any(|item| item.is(kind::EXTENSION_CONTEXT)));
    for (key, _) in extensions.members() {
        some = true;
        is_known &= key.is(kind::EXTENSION_PREFIX);
        let name = key.str().unwrap_or_default();
        if !(lex::EXTENSION_PREFIX.test)(&name) {
            let message = || format!("`{}` cannot be a prefix", quote(&name));
            let path = || format!("extensions.{name}");
            findings.add(&rules::EXTENSION_PREFIX, text, Some(key), path, message);
        }
    }
    if !some {
        return;
    }
    let path = || "extensions".to_owned();
    if contexts(event) == 0 {
        let message = || "`@context` declares no prefix".to_owned();
        findings.add(&rules::EXTENSION_UNDECLARED, text, Some(extensions), path, message);
    } else if !is_known {
        let message = || "cannot tell whether the contexts declare these prefixes".to_owned();
        findings.add(&rules::EXTENSION_UNRESOLVED, text, Some(extensions), path, message);
    }
}

/// Number of extension contexts in an event.
fn contexts(event: &Reading<'_>) -> usize {
    let beside_core = |item: &Node<'_>| !item.is(kind::CONTEXT);
    event.get(Field::Context).map_or(0, |context| context.items().filter(beside_core).count())
}

/// Checks a type of an extension: its prefix must be declared and must not imitate the protocol's.
fn check_extension_type(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let Some(name) = event.text(Field::Type) else { return };
    let (prefix, rest) = name.split_once(':').unwrap_or_default();
    // A full URI needs no declaration, unless it imitates the protocol's URI.
    let lower = name.to_ascii_lowercase();
    let alike = prefix.eq_ignore_ascii_case("aaep")
        || [kind::TYPES_URI, kind::VOCABULARY_URI].iter().any(|uri| lower.starts_with(uri));
    let what = if alike {
        "only looks like a type of the protocol"
    } else if !rest.starts_with("//") && contexts(event) == 0 {
        "has a prefix that `@context` does not declare"
    } else {
        return;
    };
    let message = || format!("`{}` {what}", quote(&name));
    findings.add(&rules::EXTENSION_TYPE, text, event.get(Field::Type), || "type".into(), message);
    check_disguised_call(event, text, findings);
}

/// Reports an event with an unknown type that describes a call which needs a confirmation.
fn check_disguised_call(event: &Reading<'_>, text: &str, findings: &mut Findings) {
    let stakes = stakes(event);
    if stakes.irreversible || stakes.risk == Risk::High {
        let name = event.text(Field::Type).unwrap_or_default();
        let message =
            || format!("`{}` reports a grave action with a type that subscribers do not know", quote(&name));
        findings.add(&rules::TOOL_DISGUISED, text, event.get(Field::Type), || "type".into(), message);
    }
}
