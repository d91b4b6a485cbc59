//! Limits of the server, and what happens at each.

use std::time::Duration;

/// Connections at a time; the next one gets 503 and is closed. Fewer where the operating system allows fewer
/// open files than these and [`FILES_KEPT`].
pub const CONNECTIONS_MAX: usize = 25_000;

/// One in so many of these is reserved for addresses with few connections, so that no address can take all.
pub const CONNECTIONS_KEPT_DIVISOR: usize = 8;

/// Connections of one address that count as few, or fewer where there are few places. An IPv6 address counts as its
/// network of 64 bits.
pub const PEER_CONNECTIONS_KEPT: usize = 32;

/// Connections that wait at a Unix socket to be accepted; a further client waits, or gets an error if it does not want to.
pub const SOCKET_BACKLOG: u32 = 1024;

/// How often the new owner of a database tries to listen on a Unix socket that the former owner has not left yet.
pub const SOCKET_RETRY: Duration = Duration::from_secs(1);

/// Bytes of the path of a Unix socket that operating systems accept; a longer one is refused as configuration.
pub const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Sockets that a service manager may pass; more are refused.
pub const PASSED_SOCKETS_MAX: u32 = 16;

/// Users of this machine that the configuration may give access; more are refused as configuration.
pub const UNIX_USERS_MAX: usize = 1_000;

/// Addresses that the reserved connections suffice for, where there are few.
pub const PEERS_KEPT_MIN: usize = 8;
/// If the operating system allows fewer connections than this, the server warns at start; above it, only
/// `doctor` and the log at level info report the number.
pub const CONNECTIONS_FEW: usize = 1_000;

/// Open files that connections leave for everything else: the database's, blobs, a backup, and
/// [`REFUSALS_MAX`].
pub const FILES_KEPT: usize = 128;

/// Connections over the limit that get a response; a further one is closed without one.
pub const REFUSALS_MAX: usize = 64;

/// How long a connection over the limit may take to send the head of its request and to receive the refusal; then it is
/// closed.
pub const REFUSAL_WAIT: Duration = Duration::from_secs(2);

/// `Retry-After` of that refusal.
pub const CONNECTIONS_RETRY: Duration = Duration::from_secs(5);

/// `Retry-After` of a standby.
pub const STANDBY_RETRY: Duration = Duration::from_secs(1);

/// How long a standby waits for the owner to accept a connection that it passes; then the client gets 503. The owner waits
/// as long for the standby.
pub const FORWARD_WAIT: Duration = Duration::from_secs(2);

/// Bytes of a connection that are looked at before it is served: enough for the beginning of a health check.
pub const FIRST_BYTES: usize = 16;

/// Connections that are kept to a server that has tenants, for each of them.
pub const IDLE_CONNECTIONS_MAX: usize = 64;

/// How often the main server looks where the stores of tenants are.
pub const SPREAD_LOOK: Duration = Duration::from_secs(1);

/// How long a tenant stays at a server before it may be moved to another one.
pub const SPREAD_REST: Duration = Duration::from_secs(60);

/// The time over which the load of a tenant is smoothed.
pub const SPREAD_MEMORY: Duration = Duration::from_secs(30);

/// How long a request waits for the end of a move of its tenant; then it gets 503. Longer than a lease.
pub const SPREAD_PATIENCE: Duration = Duration::from_secs(10);

/// How long the main server waits for another server to open or close the store of a tenant.
pub const SPREAD_WAIT: Duration = Duration::from_secs(60);

/// How long a request for events of the audit trail waits for one, at a server that has stores of tenants.
pub const RELAY_POLL: Duration = Duration::from_secs(20);

/// Events of the audit trail that wait at such a server for the main server; more are logged only.
pub const RELAY_QUEUE_MAX: usize = 1_000;

/// How long such a server waits until an event is in the audit trail; then it is logged only.
pub const RELAY_WAIT: Duration = Duration::from_secs(5);

/// Bytes of events in one response; at least one event is sent.
pub const RELAY_BYTES: usize = 1 << 20;

/// A server gives its tenants back when it got no request of the main server for so long: no client can reach them.
pub const SPREAD_SILENCE: Duration = Duration::from_secs(30);

/// How long a page of the main server waits for what another server adds to it.
pub const PEER_WAIT: Duration = Duration::from_secs(5);

/// Bytes of a response about tenants, keys, checks or metrics of another server.
pub const PEER_RESPONSE_BYTES_MAX: usize = 4 << 20;

/// How long a new owner waits for the previous one to give all stores back, after it has given the first one back.
pub const HANDOVER_WAIT: Duration = Duration::from_secs(30);

/// How long a client may take to send the head of a request; then the connection is closed.
pub const HEAD_WAIT: Duration = Duration::from_secs(15);

/// Bytes read for the head of a request; a longer head is refused with 431.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Headers of one request; more is refused with 431.
pub const HEADERS_MAX: usize = 100;

/// Requests of one HTTP/2 connection at a time; the client waits with more.
pub const REQUESTS_OF_A_CONNECTION_MAX: u32 = 1_024;

/// Bytes of responses that an HTTP/2 connection keeps for each request until the client accepts them.
pub const SEND_BYTES_OF_A_REQUEST_MAX: usize = 256 << 10;

/// How often a quiet HTTP/2 connection is probed; without an answer for as long, it is closed.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);

/// How often the files of the certificate are looked at for a change.
pub const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long the listener pauses after the operating system refused it a connection.
pub const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How long open requests may take at shutdown; then their connections are cut. Less than the engine waits
/// for its tasks, so that a stalled peer does not count as a task that did not end.
pub const DRAIN_WAIT: Duration = Duration::from_secs(4);
const _: () = assert!(DRAIN_WAIT.as_millis() < recount_engine::limits::SHUTDOWN_TIMEOUT.as_millis());

/// Events read at a time when a store is verified or exported.
pub const VERIFY_PAGE_EVENTS: usize = 1000;

/// Bytes read at a time when a store is verified or exported.
pub const VERIFY_PAGE_BYTES: usize = 1 << 20;

/// Appends that a migration has in progress; it waits before it sends a further one.
pub const MIGRATE_APPENDS_MAX: usize = 1000;

/// Bytes of these appends; it waits before it sends a further one.
pub const MIGRATE_BYTES_MAX: usize = 32 << 20;

/// Rows that a migration reads at a time.
pub const MIGRATE_ROWS: usize = 256;

/// Threads that serve requests, at most.
pub const SERVING_THREADS_MAX: usize = 8;

/// Problems of the catalogue that `verify` lists; the rest are counted.
pub const VERIFY_SENTENCES_MAX: usize = 20;

/// Backups made at a time; the next one is refused with `store_busy`.
pub const BACKUPS_MAX: usize = 1;

/// Characters of a backup's name; more is refused.
pub const BACKUP_NAME_MAX: usize = 64;

/// A body sent to a route for operators; larger is refused with `body_too_large`.
pub const ADMIN_BODY_BYTES_MAX: usize = 4 << 10;

/// Free bytes below which the doctor calls the disk a problem.
pub const DISK_FREE_BYTES_MIN: u64 = 256 << 20;

/// Free bytes below which the doctor notes it.
pub const DISK_FREE_BYTES_LOW: u64 = 2 << 30;

/// How far the time of the newest event may be ahead of the clock before the doctor reports a problem.
pub const CLOCK_AHEAD_MS_MAX: u64 = 60_000;

/// A clock before this (the beginning of 2025) is wrong.
pub const CLOCK_EARLIEST_MS: u64 = 1_735_689_600_000;

/// The default pause between two retention sweeps.
pub const SWEEP_EVERY_DEFAULT: Duration = Duration::from_secs(10 * 60);

/// The shortest time between sweeps; a shorter one is refused as configuration.
pub const SWEEP_EVERY_MIN: Duration = Duration::from_secs(1);

/// Tenants besides the default one; a token for one more is refused with `limit_reached`. Each has a store and an
/// engine of its own, open as long as the server runs.
pub const TENANTS_MAX: usize = 64;

/// Characters of a tenant's name; more is refused.
pub const TENANT_NAME_MAX: usize = 63;

/// Bytes read of the list of tenants in a backup: enough for [`TENANTS_MAX`] names, the audit trail and more.
pub const TENANT_LIST_BYTES_MAX: u64 = 16 * 1024;

/// Characters of a token's name; more is refused.
pub const TOKEN_NAME_MAX: usize = 64;

/// Tasks and sessions that one token may be narrowed to; more is refused.
pub const TOKEN_NARROWED_MAX: usize = 1000;

/// How long a ticket waits to be redeemed; then it is invalid.
pub const TICKET_WAIT: Duration = Duration::from_secs(60);

/// How long the same reader may reconnect with a redeemed ticket.
pub const TICKET_LIFE: Duration = Duration::from_secs(60 * 60);

/// Tickets at a time; one more is refused with `rate_limited`.
pub const TICKETS_MAX: usize = 10_000;

/// Characters of the path of a ticket; more is refused.
pub const TICKET_PATH_MAX: usize = 512;

/// How long a browser may cache the response to a preflight request.
pub const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// Allowed origins that the refusal of a page names; of more only the number.
pub const ORIGINS_SHOWN_MAX: usize = 8;

/// Letters or digits from which a value of a variable with a secret-sounding name is a secret; a shorter value counts
/// as a word or a number.
pub const PLAIN_WORD_BYTES_MAX: usize = 12;

/// Bytes of a file that holds a secret; a larger one is refused.
pub const SECRET_FILE_BYTES_MAX: u64 = 64 << 10;

/// Own runs executed at a time, for each tenant, by default; the others wait in a queue, and their logs show it. Most
/// runs wait for a model, so this serves a thousand applications; tools have a bound of their own.
pub const RUNS_AT_ONCE_DEFAULT: usize = 1_024;

/// The most own runs at work at a time that can be configured.
pub const RUNS_AT_ONCE_MAX: usize = 10_000;

/// The most tools at work at a time, over all tenants, that can be configured; the default is a limit of the agent.
pub const TOOLS_AT_ONCE_MAX: usize = 10_000;

/// Files and folders that a health check counts in workspaces; beyond it reports that there are more.
pub const WORKSPACE_ENTRIES_COUNTED_MAX: usize = 100_000;

/// Characters of the name of an agent, or of one of its options; a longer one is refused as configuration.
pub const AGENT_NAME_MAX: usize = 64;

/// Bytes of the file with an agent's system prompt; a larger one is refused as configuration.
pub const SYSTEM_FILE_BYTES_MAX: u64 = 256 << 10;

/// Base paths of the face for applications; more are refused as configuration.
pub const BASE_PATHS_MAX: usize = 16;

/// How often refused requests are recorded in the audit trail; those in between are recorded together, with their
/// count.
pub const AUDIT_REFUSALS_EVERY: Duration = Duration::from_secs(10);

/// How often a server that started on a full disk tries to record its start in the audit trail.
pub const AUDIT_START_EVERY: Duration = Duration::from_secs(10);

/// Milliseconds after which the record of a delayed start names its own time.
pub const AUDIT_START_LATE_MS: u64 = 5_000;

/// Peers and codes of refused requests that are counted separately between two recordings; the rest count as others.
pub const AUDIT_PEERS_MAX: usize = 256;

/// The newest runs of the audit trail that a start checks for an unfinished one; only one can be unfinished.
pub const AUDIT_RUNS_LEFT_MAX: usize = 16;

/// Unfinished runs that the server names at start; for the rest it gives their number. The log names all.
pub const UNFINISHED_NAMED_MAX: usize = 10;

/// How long a prompt of the conformance agent waits for `aaep conformance`, which replies wrongly before it replies
/// rightly; then its default is applied.
pub const CONFORMANCE_PROMPT_WAIT: Duration = Duration::from_secs(30);

/// The same for the public suite, which ends a session after two seconds of silence.
pub const CONFORMANCE_PROMPT_WAIT_SHORT: Duration = Duration::from_secs(1);

/// How long the slow tool of the conformance agent runs before it times out.
pub const CONFORMANCE_TOOL_WAIT: Duration = Duration::from_millis(200);

/// Milliseconds after which the doctor calls it a problem that an OpenTelemetry endpoint takes no traces.
pub const EXPORT_FAILING_MS: u64 = 60_000;

/// Artifacts that `artifacts.task_count` may allow a task; a larger setting is refused at the start.
pub const ARTIFACTS_OF_A_TASK_MAX: usize = 1_000_000;

/// Webhooks that can be configured; more are refused as configuration.
pub const WEBHOOKS_MAX: usize = 32;

/// Characters of the name of a webhook or of its approver; a longer one is refused as configuration.
pub const WEBHOOK_NAME_CHARS_MAX: usize = 64;

/// Bytes of the secret of a webhook, decoded: the range of the Standard Webhooks specification. Others are refused as
/// configuration.
pub const WEBHOOK_SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// How long a delivery may take until the status of the response is known; then it has failed.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the connection to a receiver may take; then the delivery has failed.
pub const WEBHOOK_CONNECT: Duration = Duration::from_secs(10);

/// How long the delivery of a mail may take, the greeting of the server included; then it has failed.
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the end of a session with a mail server may take after a mail was accepted; then the connection is closed.
pub const MAIL_QUIT_WAIT: Duration = Duration::from_secs(1);

/// Bytes of one line of a mail server's reply; a longer one fails the delivery.
pub const MAIL_REPLY_LINE_BYTES_MAX: usize = 2_048;

/// Lines of one reply of a mail server; more fail the delivery.
pub const MAIL_REPLY_LINES_MAX: usize = 128;

/// Characters of a mail server's reply in a message about a failure; a longer one is cut.
pub const MAIL_REPLY_CHARS_MAX: usize = 200;

/// Bytes of a mail address; a longer one is refused as configuration.
pub const MAIL_ADDRESS_BYTES_MAX: usize = 254;

/// Bytes of a line of a mail that is sent as it is; a mail with a longer one is sent as base64.
pub const MAIL_LINE_BYTES_MAX: usize = 900;

/// The pause after the first failed delivery; it doubles with each further one.
pub const WEBHOOK_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between two deliveries, also where the receiver requests a longer one.
pub const WEBHOOK_RETRY_MAX: Duration = Duration::from_secs(600);

/// How old an event may be when a delivery fails; an older one is given up and becomes a dead letter.
pub const WEBHOOK_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often an event is sent to a receiver that calls it invalid; then it becomes a dead letter, so that it does not hold
/// up those after it.
pub const WEBHOOK_INVALID_ATTEMPTS: u32 = 3;

/// Bytes of the envelope in a message; a larger one is omitted, and its size is given.
pub const WEBHOOK_EVENT_BYTES_MAX: usize = 256 << 10;

/// Events that a webhook passes over before its progress is stored, if it delivers none of them.
pub const WEBHOOK_CURSOR_EVERY: u64 = 1_000;

/// The pause before a webhook continues after a fault of the store, and before it looks for its tenant again.
pub const WEBHOOK_RESTART: Duration = Duration::from_secs(5);

/// Characters of one line of a chat message; a longer one is cut.
pub const CHAT_LINE_CHARS_MAX: usize = 200;

/// Dead letters of a webhook that a health check names; the rest are counted.
pub const DEAD_LETTERS_NAMED_MAX: usize = 5;

/// Deliveries that requests make at the same time; one more is refused with `store_busy`.
pub const REQUESTED_DELIVERIES_MAX: usize = 4;

/// How long a decision link is valid for a prompt without a deadline; an earlier deadline of the prompt ends it, too.
pub const DECISION_LINK_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Bytes of the token of a decision link; a longer one is invalid.
pub const DECISION_TOKEN_BYTES_MAX: usize = 2_048;

/// Bytes of the form of a decision; a larger one is refused.
pub const DECISION_FORM_BYTES_MAX: usize = 64 << 10;

/// Characters of the comment or the answer in the form; the form is refused beyond it.
pub const DECISION_TEXT_CHARS_MAX: usize = 4_000;

/// Bytes of a preview that the page of a decision shows; a larger one cannot be approved there.
pub const DECISION_PREVIEW_BYTES_MAX: u64 = 1 << 20;

/// Grants of sign-in that can be configured; more are refused as configuration.
pub const SIGN_IN_GRANTS_MAX: usize = 1_000;

/// Characters of a text in the settings of sign-in, such as the name of a group; a longer one is refused as configuration.
pub const SIGN_IN_TEXT_CHARS_MAX: usize = 300;

/// How long a person stays signed in, by default; then their token expires.
pub const SIGN_IN_SESSION_DEFAULT: Duration = Duration::from_secs(12 * 60 * 60);

/// The shortest time that a person stays signed in; a shorter one is refused as configuration.
pub const SIGN_IN_SESSION_MIN: Duration = Duration::from_secs(5 * 60);

/// The longest time that a person stays signed in; a longer one is refused as configuration.
pub const SIGN_IN_SESSION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Tokens that a person has from sign-ins in one tenant; the oldest is revoked for one more.
pub const SIGN_IN_TOKENS_MAX: usize = 32;

/// How long a person may take to sign in with a browser; then they start again.
pub const SIGN_IN_BROWSER_LIFE: Duration = Duration::from_secs(10 * 60);

/// Sign-ins of browsers that are at work, or brought a person from the provider within [`SIGN_IN_BROWSER_LIFE`]; one more is refused with
/// `rate_limited`.
pub const SIGN_IN_BROWSERS_MAX: usize = 10_000;

/// How many of these one peer may have; one more is refused with `rate_limited`. A proxy in front is one peer.
pub const SIGN_IN_BROWSERS_OF_PEER_MAX: usize = 2_000;

/// How long the console may take to fetch the token of a sign-in; then the person signs in again.
pub const SIGN_IN_CODE_LIFE: Duration = Duration::from_secs(60);

/// The same where the person has to choose a tenant.
pub const SIGN_IN_CHOICE_LIFE: Duration = Duration::from_secs(5 * 60);

/// Device flows in progress; one more is refused with `rate_limited`.
pub const SIGN_IN_DEVICES_MAX: usize = 1_000;

/// How many of these one peer may have; one more is refused with `rate_limited`. A proxy in front is one peer.
pub const SIGN_IN_DEVICES_OF_PEER_MAX: usize = 200;

/// The longest life of a device flow, also where the provider allows a longer one.
pub const SIGN_IN_DEVICE_LIFE_MAX: Duration = Duration::from_secs(30 * 60);

/// The pause between two requests about a device flow, if the provider names none.
pub const SIGN_IN_DEVICE_EVERY: Duration = Duration::from_secs(5);

/// The shortest such pause, also where the provider allows a shorter one.
pub const SIGN_IN_DEVICE_EVERY_MIN: Duration = Duration::from_secs(1);

/// The longest such pause, also where the provider requests a longer one.
pub const SIGN_IN_DEVICE_EVERY_MAX: Duration = Duration::from_secs(60);

/// Device flows that start at a time; one more is refused with `rate_limited`.
pub const SIGN_IN_DEVICE_STARTS_MAX: usize = 8;

/// Requests to the provider about started device flows at a time; one more is refused with `rate_limited`.
pub const SIGN_IN_DEVICE_POLLS_MAX: usize = 16;

/// Other requests to the provider at a time; a sign-in that needs one more is refused with `rate_limited`.
pub const SIGN_IN_REQUESTS_MAX: usize = 32;

/// `Retry-After` of refused sign-ins.
pub const SIGN_IN_RETRY: Duration = Duration::from_secs(5);

/// How long a request to the provider may take; then the sign-in fails.
pub const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a response of the provider; a larger one fails the sign-in.
pub const SIGN_IN_RESPONSE_BYTES_MAX: usize = 512 << 10;

/// Bytes of an ID token; a longer one is refused.
pub const SIGN_IN_ID_TOKEN_BYTES_MAX: usize = 128 << 10;

/// Bytes of a code or an address in a response of the provider; a longer one fails the sign-in.
pub const SIGN_IN_FIELD_BYTES_MAX: usize = 4 << 10;

/// Bytes of the code that a browser brings from the provider; a longer one is refused.
pub const SIGN_IN_CODE_BYTES_MAX: usize = 8 << 10;

/// Keys of the provider that are read; further ones are ignored.
pub const SIGN_IN_KEYS_MAX: usize = 100;

/// How long endpoints and keys of the provider are used before they are fetched again.
pub const SIGN_IN_DISCOVERY_LIFE: Duration = Duration::from_secs(60 * 60);

/// How long after a failed request the next sign-in fails without a new one.
pub const SIGN_IN_FAULT_LIFE: Duration = Duration::from_secs(5);

/// How often the keys of the provider are fetched for ID tokens with an unknown key.
pub const SIGN_IN_KEYS_EVERY: Duration = Duration::from_secs(10);

/// How far the clocks of this server and of the provider may differ.
pub const SIGN_IN_CLOCK_LEEWAY: Duration = Duration::from_secs(60);
