//! The table of settings, one row each: key, flag, type, default, parser, and the text for `docs/configuration.md`.
//!
//! It must not know the use of a setting. Entry points: [`Values::read`], [`rows`]. Settings that are structures
//! (agents, providers of models, variables of commands) are only in the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use recount_agent::model::ModelName;
use recount_agent::sandbox::{Mode, SandboxSettings};
use recount_agent::web::PrivateHost;
use recount_engine::ArtifactQuota;
use recount_otel::Endpoint;
use tracing::level_filters::LevelFilter;

use super::aap::BASE_PATH_DEFAULT;
use super::accepts::*;
use super::bind::Bind;
use super::options::{LogFormat, Options};
use super::rooms::RoomAccess;
use crate::StartError;
use crate::amounts::sized;
use crate::database_url::DatabaseUrl;
use crate::limits::{
    ARTIFACTS_OF_A_TASK_MAX, RUNS_AT_ONCE_DEFAULT, RUNS_AT_ONCE_MAX, SWEEP_EVERY_DEFAULT, TOOLS_AT_ONCE_MAX,
};
use crate::settings::Lookup;
use crate::stores::Durability;

/// The type of a setting in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingKind {
    Text,
    Number,
    Bool,
    List,
    /// A path relative to the folder of the file.
    PathBeside,
    /// Not in the file and not documented: for tests and the bench.
    Hidden,
}

/// A setting as the file and the reference have it.
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) kind: SettingKind,
    #[cfg(test)]
    pub(super) flag: Option<&'static str>,
    /// As the reference shows it.
    #[cfg(test)]
    pub(super) default: String,
    #[cfg(test)]
    pub(super) values: &'static str,
}

macro_rules! settings {
    ($place:ident; $(
        $field:ident: $type:ty = $kind:ident $key:literal $(flag $flag:literal)?,
        $default:expr $(=> $shown:literal)?, $accepts:expr, $values:literal;
    )+) => {
        /// Every setting, read and checked.
        #[derive(Debug, Clone, PartialEq)]
        pub(super) struct Values {
            $(pub(super) $field: $type,)+
        }

        impl Values {
            /// Takes each setting from the flag, the environment, the file or its default, in this order.
            pub(super) fn read(
                lookup: &mut Lookup<'_>,
                options: &Options,
                $place: &DefaultContext,
            ) -> Result<Values, StartError> {
                $(
                    let flag = settings!(@flag_text options $field $($flag)?);
                    let text = lookup.pick($key, flag, || $default.into());
                    let accepts: fn(&str) -> Result<$type, String> = $accepts;
                    let $field = accepts(&text).map_err(|accepted| wrong($key, &text, &accepted))?;
                )+
                Ok(Values { $($field),+ })
            }

            /// The type of each value and what it was read as, for tests.
            #[cfg(test)]
            pub(super) fn debug_texts(&self) -> Vec<String> {
                vec![$(format!("{:?}", self.$field)),+]
            }
        }

        /// Every setting.
        pub(super) fn rows() -> Vec<Row> {
            vec![$(Row {
                key: $key,
                kind: SettingKind::$kind,
                #[cfg(test)]
                flag: settings!(@flag $($flag)?),
                #[cfg(test)]
                default: settings!(@shown $default $(, $shown)?),
                #[cfg(test)]
                values: $values,
            }),+]
        }
    };
    (@flag_text $options:ident $field:ident $flag:literal) => { $options.$field.flag_text() };
    (@flag_text $options:ident $field:ident) => { None };
    (@flag $flag:literal) => { Some($flag) };
    (@flag) => { None };
    (@shown $default:expr, $shown:literal) => { $shown.to_owned() };
    (@shown $default:expr) => { String::from($default) };
}

/// The values that a default may depend on, besides earlier settings.
pub(super) struct DefaultContext {
    /// The data folder of this user; empty if none is known.
    pub(super) data: String,
    pub(super) has_home: bool,
    /// Where the service manager opened sockets.
    pub(super) passed: Bind,
}

// field: type = kind "key" flag "--flag", default => "default in the reference", accepts, "meaning and values";
settings! { place;
    bind: Bind = Text "bind" flag "--bind", "127.0.0.1:8765", Bind::parse,
        "an address with a port, `unix:` with the path of a [socket](security.md#a-socket-instead-of-an-address), or one of each with a comma between them; port 0 chooses a free port. A non-loopback address requires a \
         [token](security.md) first";
    data: PathBuf = Text "data" flag "--data", place.data.clone() => "`$XDG_DATA_HOME/recount`, else `~/.local/share/recount`", path,
        "the data folder; created for its owner only if it is missing";
    public_url: Option<String> = Text "public_url", "none", public_url,
        "the URL at which people reach this server, for [sign-in](sign-in.md) and [links in webhooks](webhooks.md#approve-by-a-link), such as `https://recount.example`";
    store: Option<DatabaseUrl> = Text "store.url" flag "--store", "none", database,
        "the PostgreSQL database that [holds the stores](operations.md#use-postgresql), as `postgres://USER@HOST/DATABASE`; `none`: the data folder holds them";
    node_address: Option<String> = Text "store.node_address" flag "--node-address", "auto", host_or_auto,
        "the host and port at which [other servers](nodes.md) on the same database reach this one; `auto`: the bound address, or the name of this machine if all its addresses are bound";
    spread_tenants: bool = Bool "store.spread_tenants" flag "--spread-tenants", "false", yes_or_no,
        "`true`: standbys own the stores of some [tenants](nodes.md#spread-tenants) and execute their runs; set it on all servers of the database";
    durability: Durability = Text "store.durability" flag "--durability", "strict", durability,
        "of stores in the data folder. `strict`: acknowledged means on disk; `relaxed`: faster, but a power failure may lose the last moments";
    hot_events_max: Option<u64> = Hidden "store.hot_events_max", "off", count,
        "unsealed events of a store: `off`, or a number";
    max_age: Option<Duration> = Text "retention.max_age" flag "--max-age", "off", time,
        "how long a run is kept complete after its end: `off`, or a whole number of `s`, `m`, `h` or `d`";
    max_events: Option<u64> = Number "retention.max_events" flag "--max-events", "off", count,
        "events of the whole store beyond which runs are pruned: `off`, or a number";
    max_bytes: Option<u64> = Text "retention.max_bytes" flag "--max-bytes", "off", size_or_off,
        "bytes of events beyond which runs are pruned: `off`, or a whole number of `B`, `KiB`, `MiB`, `GiB` \
         or `TiB`";
    sweep_every: Duration = Text "retention.sweep_every" flag "--sweep-every", format!("{}m", SWEEP_EVERY_DEFAULT.as_secs() / 60), sweep,
        "the pause between two sweeps, at least `1s`";
    artifact_task_bytes: u64 = Text "artifacts.task_bytes", sized(ArtifactQuota::default().task_bytes), size,
        "the limit of artifact bytes of a task, or of a run without a task; more is rejected with \
         [`artifact_quota`](errors.md)";
    artifact_task_count: usize = Number "artifacts.task_count", ArtifactQuota::default().task_count.to_string(), |text| number(text, ARTIFACTS_OF_A_TASK_MAX),
        "the limit of artifacts of a task, or of a run without a task";
    artifact_upload_bytes: u64 = Text "artifacts.upload_bytes", sized(ArtifactQuota::default().upload_bytes), size,
        "the limit of bytes of uploads that no run uses yet";
    tls_cert: Option<PathBuf> = PathBeside "tls.cert" flag "--tls-cert", "none", optional_path,
        "the certificate for [TLS](security.md#tls), a PEM file with those of intermediate authorities after it; read again when it changes. In the file, relative to its folder";
    tls_key: Option<PathBuf> = PathBeside "tls.key" flag "--tls-key", "none", optional_path,
        "the private key of `tls.cert`, a PEM file";
    require_token: bool = Bool "access.require_token" flag "--require-token", "false", yes_or_no,
        "`true`: every request requires a token, also from this machine";
    allowed_origins: Vec<String> = List "access.allowed_origins" flag "--allowed-origin", "none", origins,
        "origins whose pages may send requests, such as `https://app.example`; comma-separated in the variable";
    requests_per_second: Option<u32> = Number "access.requests_per_second", "off", rate,
        "requests per second for tokens without a rate of their own: `off`, or a number from 1";
    detectors: bool = Bool "redaction.detectors", "true", yes_or_no,
        "`true`: mask text with the [shape of a secret](redaction.md)";
    redact_environment: bool = Bool "redaction.environment", "true", yes_or_no,
        "`true`: mask the values of the server's own variables whose names sound secret";
    secret_env: Vec<String> = List "redaction.secret_env", "none", list,
        "further variables whose values are masked; comma-separated in the variable";
    secret_files: Vec<PathBuf> = List "redaction.secret_files", "none", paths,
        "files whose contents are masked, one secret per file; comma-separated in the variable";
    log: LevelFilter = Text "log.level" flag "--log", "info", level,
        "`off`, `error`, `warn`, `info`, `debug`, `trace`";
    log_format: LogFormat = Text "log.format" flag "--log-format", "text", log_format,
        "`text`, `json`";
    at_once: usize = Number "runs.at_once", RUNS_AT_ONCE_DEFAULT.to_string(), |text| number(text, RUNS_AT_ONCE_MAX),
        "own runs at work at a time, per tenant, from 1 to 10000; further runs wait in a queue, and their logs say so";
    tools_at_once: usize = Number "runs.tools_at_once", recount_agent::tools::limits::TOOLS_AT_ONCE.to_string(), |text| number(text, TOOLS_AT_ONCE_MAX),
        "tools at work at a time, over all tenants, from 1 to 10000; further calls wait in a queue, and the logs of their runs say so";
    mcp_at_once: usize = Number "runs.mcp_at_once", recount_agent::mcp::limits::MCP_AT_ONCE.to_string(), |text| number(text, RUNS_AT_ONCE_MAX),
        "runs with [MCP servers](tools.md#tools-of-mcp-servers) that are commands, at a time, per tenant, from 1 to 10000; further runs wait in a queue, and their logs say so";
    workspaces: Vec<String> = List "workspaces.allow" flag "--allow-workspace", usual_workspaces(&bind, require_token, place) => "`~`, else none: [where runs work](#where-runs-work)", list,
        "folders that runs may work in and copy, with their subfolders; comma-separated in the variable";
    keep: Option<Duration> = Text "workspaces.keep", "7d", time,
        "how long an unused copy is kept: `off` (until its task or session is deleted), or a time";
    instructions: bool = Bool "workspaces.instructions", "true", yes_or_no,
        "whether runs read the [`AGENTS.md` files](agents.md#instructions-of-a-workspace) of their workspaces";
    child_runs: bool = Bool "experimental.child_runs", "false", yes_or_no,
        "`true`: agents have the tool [`spawn_run`](child-runs.md), which starts further runs; `child_run.started` is logged";
    branches: bool = Bool "experimental.branches", "false", yes_or_no,
        "`true`: a run that begins at a checkpoint, event or turn of another logs `run.branched_from` ([experimental events](event-protocol-experimental.md))";
    input_deltas: bool = Bool "experimental.input_deltas", "false", yes_or_no,
        "`true`: the input of a tool call is logged while the model writes it, as `assistant.tool_call_input_delta`";
    model_images: bool = Bool "experimental.images", "false", yes_or_no,
        "`true`: an image that a model makes is kept as an artifact and logged as `assistant.image_block`; otherwise it is dropped";
    sandbox: Mode = Text "sandbox.mode" flag "--sandbox", "auto", sandbox_mode,
        "`auto`: bubblewrap if it works, else Landlock if it works, else no command runs; `bubblewrap` or `landlock`: only that one; `off`: commands run with all the rights of the server";
    strict: bool = Bool "sandbox.strict", "false", yes_or_no,
        "`true`: commands run only if the sandbox enforces everything that it can ([sandbox.md](sandbox.md)); otherwise none runs";
    readable: Vec<PathBuf> = List "sandbox.readable", "none", paths,
        "further folders that commands may read, such as `~/.cargo`; comma-separated in the variable";
    hidden: Vec<PathBuf> = List "sandbox.hidden", "none", paths,
        "paths below readable folders that commands must not see; comma-separated in the variable";
    memory_bytes: u64 = Text "sandbox.memory_bytes", sized(SandboxSettings::default().memory_bytes), size,
        "memory of a command and everything it starts; beyond it the command is killed";
    processes: u32 = Number "sandbox.processes", SandboxSettings::default().processes.to_string(), from_one,
        "processes and threads of a command";
    file_bytes: u64 = Text "sandbox.file_bytes", sized(SandboxSettings::default().file_bytes), size,
        "the largest file that a command may write";
    tmp_bytes: u64 = Text "sandbox.tmp_bytes", sized(SandboxSettings::default().tmp_bytes), size,
        "size of the `/tmp` of a command, if it is in memory";
    workspace_bytes: u64 = Text "sandbox.workspace_bytes", sized(SandboxSettings::default().workspace_bytes), size,
        "the size limit of a workspace: all of a copy, or the growth of a folder that is worked in directly; a command that writes more is killed ([how it is enforced](sandbox.md#space-in-a-workspace))";
    policy: Option<PathBuf> = PathBeside "policy.file" flag "--policy", "none", optional_path,
        "the [rules](policy.md) that allow, ask about or block tool calls; in the file, relative to its folder";
    private_hosts: Vec<PrivateHost> = List "web.private_hosts", "none", private_hosts,
        "hosts that [web tools](tools.md#the-web) may reach although they are not public: a host, `*.` and a host, an address or a network such as `10.1.0.0/16`, with or without a port; comma-separated in the variable";
    model: Option<ModelName> = Text "models.default", "none", model,
        "the model of runs that name none, as `PROVIDER/MODEL`";
    base_paths: Vec<String> = List "aap.base_paths", BASE_PATH_DEFAULT, list,
        "further paths for [applications](faces/aap.md), in addition to `/aap`, which always exists; none within another, and none in use by something else; comma-separated in the variable";
    public_meta: bool = Bool "aap.public_meta", "false", yes_or_no,
        "`true`: `meta` below these paths, which lists the agents, requires no token";
    otel_endpoint: Option<Endpoint> = Text "otel.endpoint", "none", otel_endpoint,
        "the base URL of an OpenTelemetry endpoint that takes [traces](opentelemetry.md) over OTLP/HTTP; `none`: no traces are exported. Otherwise `OTEL_EXPORTER_OTLP_ENDPOINT` applies";
    otel_headers_env: Option<String> = Text "otel.headers_env", OTEL_HEADERS, name_or_none,
        "the variable with the headers for the endpoint, as `name=value` pairs with commas between them and percent-encoded values; `none`: no headers. They are sent to `otel.logs_endpoint` only if it has the scheme, host and port of `otel.endpoint`, or if there is no `otel.endpoint`";
    otel_logs_headers_env: Option<String> = Text "otel.logs_headers_env", OTEL_LOGS_HEADERS, name_or_none,
        "the variable with the headers for logs, which replace those of `otel.headers_env`; `none`: logs have no headers of their own";
    otel_service_name: String = Text "otel.service_name", "recount", |text| Ok(text.to_owned()),
        "`service.name` of what is exported. Otherwise `OTEL_SERVICE_NAME` applies";
    otel_resource: Vec<(String, String)> = List "otel.resource_attributes", "none", resource_attributes,
        "further attributes of the resource, as `name=value`; comma-separated in the variable. Otherwise `OTEL_RESOURCE_ATTRIBUTES` applies";
    otel_contents: bool = Bool "otel.contents", "false", yes_or_no,
        "`true`: traces and logs have prompts, arguments, outputs and messages, [masked as stored](opentelemetry.md#contents)";
    otel_metrics: bool = Bool "otel.metrics", "false", yes_or_no,
        "`true`: the figures of `/metrics` are sent to the endpoint every minute";
    otel_logs: bool = Bool "otel.logs", "false", yes_or_no,
        "`true`: the events of runs are sent as [log records](opentelemetry.md#logs), also while the runs are open. Otherwise `OTEL_LOGS_EXPORTER=otlp` applies";
    otel_logs_endpoint: Option<Endpoint> = Text "otel.logs_endpoint", "none", otel_logs_endpoint,
        "the whole URL that takes logs over OTLP/HTTP; `none`: `/v1/logs` of `otel.endpoint`. Otherwise `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT` applies, and without `otel.endpoint` `/v1/logs` of `OTEL_EXPORTER_OTLP_ENDPOINT`";
    otel_history: bool = Bool "otel.history", "false", yes_or_no,
        "`true`: the first start with an endpoint also exports the runs that ended before it, and the first start with `otel.logs` all earlier events";
    rooms: RoomAccess = Text "aaep.rooms", "loopback", rooms,
        "who may reach the [rooms](faces/aaep.md#rooms) below `/aaep/legacy`: `loopback` (clients on this machine), `everywhere` or `off`";
    room_bind: Option<SocketAddr> = Text "aaep.room_bind", "off", address_or_off,
        "a further address whose root is a [room](faces/aaep.md#a-port-for-rooms): `off`, or an address with a port; a loopback one unless `aaep.rooms` is `everywhere`";
    subscriptions_max: u32 = Number "aaep.subscriptions_max", recount_face_aaep::limits::SUBSCRIPTIONS_MAX.to_string(), from_one,
        "subscriptions of [accessibility tools](faces/aaep.md) at a time, of all tenants; one more is rejected with `rate_limit`";
}

/// The variable that OpenTelemetry defines for headers.
pub(super) const OTEL_HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// The same for logs.
pub(super) const OTEL_LOGS_HEADERS: &str = "OTEL_EXPORTER_OTLP_LOGS_HEADERS";

/// The home folder, if only users of this machine can start runs and no token is required.
fn usual_workspaces(bind: &Bind, require_token: bool, place: &DefaultContext) -> &'static str {
    let is_personal = bind.replaced_by(&place.passed).is_local() && !require_token;
    if is_personal && place.has_home { "~" } else { "none" }
}

/// A flag as the text that a variable would have.
trait FlagText {
    fn flag_text(&self) -> Option<String>;
}

impl FlagText for Option<String> {
    fn flag_text(&self) -> Option<String> {
        self.clone()
    }
}

impl FlagText for Option<PathBuf> {
    fn flag_text(&self) -> Option<String> {
        self.as_ref().map(|path| path.to_string_lossy().into_owned())
    }
}

impl FlagText for bool {
    fn flag_text(&self) -> Option<String> {
        self.then(|| "true".to_owned())
    }
}

impl FlagText for Vec<String> {
    fn flag_text(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.join(", "))
    }
}
