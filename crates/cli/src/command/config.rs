//! `recount config`: the effective settings of a server and of client verbs, and the source of each value.
//!
//! Secrets are not printed: of the token only whether there is one.

use clap::Args;
use clap::parser::ValueSource;
use recount_server::Source;
use serde_json::json;

use super::{Invocation, serve};
use crate::failure::Failure;
use crate::output::Output;
use crate::render::clean;

/// Show the configuration and where each value comes from
#[derive(Args)]
pub(super) struct Config {
    /// Print the default system prompt, as used for runs on a copy of the workspace with all tools
    #[arg(long)]
    system_prompt: bool,
    #[command(flatten)]
    serve: serve::Serve,
}

/// One value as it is printed.
struct Row {
    key: &'static str,
    value: String,
    source: &'static str,
    /// The name of the variable, or the path of the file.
    at: Option<String>,
}

impl Config {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let config = recount_server::Config::settle(self.serve.options(), |name| std::env::var(name).ok())?;
        if self.system_prompt {
            let text = recount_server::default_system_prompt(&config);
            let mut out = Output::new();
            return match invocation.json {
                true => out.value(&json!({ "system_prompt": text })),
                false => text.lines().try_for_each(|line| out.line(line)),
            };
        }
        let mut rows: Vec<Row> = config
            .settings
            .into_iter()
            .map(|setting| {
                let (source, at) = match setting.source {
                    Source::Flag => ("flag", None),
                    Source::Environment(name) => ("environment", Some(name.to_owned())),
                    Source::File(path) => ("file", Some(path.display().to_string())),
                    Source::Default => ("default", None),
                };
                Row { key: setting.key, value: setting.value, source, at }
            })
            .collect();
        let token = invocation.token.as_deref().filter(|token| !token.is_empty());
        let token = if token.is_some() { "set (hidden)" } else { "none" };
        rows.push(option_row(invocation.url_source, "url", "RECOUNT_URL", invocation.url.clone()));
        rows.push(option_row(invocation.token_source, "token", "RECOUNT_TOKEN", token.to_owned()));
        print_rows(&rows, invocation.json)
    }
}

/// An option of every verb.
fn option_row(source: Option<ValueSource>, key: &'static str, name: &str, value: String) -> Row {
    match source {
        Some(ValueSource::CommandLine) => Row { key, value, source: "flag", at: None },
        Some(ValueSource::EnvVariable) => {
            Row { key, value, source: "environment", at: Some(name.to_owned()) }
        }
        _ => Row { key, value, source: "default", at: None },
    }
}

fn print_rows(rows: &[Row], json: bool) -> Result<(), Failure> {
    let mut out = Output::new();
    let widest = |cell: fn(&Row) -> &str| rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0);
    let (keys, values) = (widest(|row| row.key), widest(|row| &row.value));
    for row in rows {
        if json {
            let mut line = json!({ "key": row.key, "value": row.value, "source": row.source });
            if let Some(at) = &row.at {
                line["at"] = json!(at);
            }
            out.value(&line)?;
        } else {
            let at = row.at.as_deref().map(|at| format!(" {at}")).unwrap_or_default();
            let line = format!("{:<keys$}  {:<values$}  {}{at}", row.key, row.value, row.source);
            out.line(&clean::line(&line))?;
        }
    }
    Ok(())
}
