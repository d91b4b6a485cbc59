//! The table of routes. The router is built from it, and so will be the published contract.
//!
//! Paths are under `/v1`, and the same under `/hecate/v1`, which the protocol's first clients call.

use crate::scope::Scope;

/// One way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub name: RouteName,
    pub method: &'static str,
    pub path: &'static str,
    /// One of these is needed.
    pub scopes: &'static [Scope],
    /// One sentence.
    pub does: &'static str,
}

macro_rules! routes {
    ($( $name:ident = $method:literal $path:literal, [$($scope:ident),*], $does:literal; )*) => {
        /// Names a route, so that the server must answer for each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RouteName { $( $name, )* }

        pub const ROUTES: &[Route] = &[$( Route {
            name: RouteName::$name,
            method: $method,
            path: $path,
            scopes: &[$( Scope::$scope ),*],
            does: $does,
        }, )*];
    };
}

routes! {
    CreateTask = "POST" "/tasks", [Run], "Creates a task, and its first run when a kind is given.";
    ListTasks = "GET" "/tasks", [Read], "Lists tasks, newest first.";
    GetTask = "GET" "/tasks/{task}", [Read], "Shows a task.";
    DeleteTask = "DELETE" "/tasks/{task}", [Admin], "Deletes a task and erases its runs; tombstones are all that stays.";
    CancelTask = "POST" "/tasks/{task}/cancel", [Run], "Cancels the task's active run.";
    CreateTaskRun = "POST" "/tasks/{task}/runs", [Run, Ingest], "Creates a run of a task.";
    ListTaskRuns = "GET" "/tasks/{task}/runs", [Read], "Lists a task's runs, newest first.";
    GetTaskRun = "GET" "/tasks/{task}/runs/{run}", [Read], "Shows a run of a task.";
    CancelTaskRun = "POST" "/tasks/{task}/runs/{run}/cancel", [Run], "Cancels a run of a task.";
    ReadTaskRunEvents = "GET" "/tasks/{task}/runs/{run}/events", [Read], "Reads a run's events, as a page or as a stream.";
    AppendTaskRunEvents = "POST" "/tasks/{task}/runs/{run}/events", [Ingest], "Appends events to an external run.";
    CreateRun = "POST" "/runs", [Run, Ingest], "Creates a run.";
    ListRuns = "GET" "/runs", [Read], "Lists runs, newest first.";
    GetRun = "GET" "/runs/{run}", [Read], "Shows a run.";
    CancelRun = "POST" "/runs/{run}/cancel", [Run], "Cancels a run.";
    GetRunDigest = "GET" "/runs/{run}/digest", [Read], "Shows what a run's bytes add up to.";
    PinRun = "PUT" "/runs/{run}/pin", [Admin], "Withholds a run from pruning.";
    UnpinRun = "DELETE" "/runs/{run}/pin", [Admin], "Lets a run be pruned again.";
    PruneRun = "POST" "/runs/{run}/prune", [Admin], "Takes away what came before the ending of a run, or before an event of it.";
    ReadRunEvents = "GET" "/runs/{run}/events", [Read], "Reads a run's events, as a page or as a stream.";
    AppendRunEvents = "POST" "/runs/{run}/events", [Ingest], "Appends events to an external run.";
    ImportRun = "POST" "/imports", [Admin], "Takes in a run that was exported, whole or not at all.";
    Prune = "POST" "/prune", [Admin], "Prunes runs that have ended, those first that ended first, until it is enough.";
    ReadFeed = "GET" "/events", [Read], "Reads the events of all runs, as a page or as a stream.";
    StreamFeed = "GET" "/events/stream", [Read], "Streams the events of all runs.";
    ListApprovals = "GET" "/approvals", [Read], "Lists approvals, newest first.";
    GetApproval = "GET" "/approvals/{approval}", [Read], "Shows an approval.";
    ResolveApproval = "POST" "/approvals/{approval}/resolve", [Approve], "Approves or rejects; the first valid answer wins.";
}
