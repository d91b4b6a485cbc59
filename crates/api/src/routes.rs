//! The table of routes. The router is built from it, and so will be the published contract.
//!
//! Paths are under `/v1`, and the same under `/hecate/v1`, which the protocol's first clients call.

/// One way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub name: RouteName,
    pub method: &'static str,
    pub path: &'static str,
    /// One sentence.
    pub does: &'static str,
}

macro_rules! routes {
    ($( $name:ident = $method:literal $path:literal, $does:literal; )*) => {
        /// Names a route, so that the server must answer for each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RouteName { $( $name, )* }

        pub const ROUTES: &[Route] = &[$( Route { name: RouteName::$name, method: $method, path: $path, does: $does }, )*];
    };
}

routes! {
    CreateTask = "POST" "/tasks", "Creates a task, and its first run when a kind is given.";
    ListTasks = "GET" "/tasks", "Lists tasks, newest first.";
    GetTask = "GET" "/tasks/{task}", "Shows a task.";
    DeleteTask = "DELETE" "/tasks/{task}", "Deletes a task and erases its runs; tombstones are all that stays.";
    CancelTask = "POST" "/tasks/{task}/cancel", "Cancels the task's active run.";
    CreateTaskRun = "POST" "/tasks/{task}/runs", "Creates a run of a task.";
    ListTaskRuns = "GET" "/tasks/{task}/runs", "Lists a task's runs, newest first.";
    GetTaskRun = "GET" "/tasks/{task}/runs/{run}", "Shows a run of a task.";
    CancelTaskRun = "POST" "/tasks/{task}/runs/{run}/cancel", "Cancels a run of a task.";
    ReadTaskRunEvents = "GET" "/tasks/{task}/runs/{run}/events", "Reads a run's events, as a page or as a stream.";
    AppendTaskRunEvents = "POST" "/tasks/{task}/runs/{run}/events", "Appends events to an external run.";
    CreateRun = "POST" "/runs", "Creates a run.";
    ListRuns = "GET" "/runs", "Lists runs, newest first.";
    GetRun = "GET" "/runs/{run}", "Shows a run.";
    CancelRun = "POST" "/runs/{run}/cancel", "Cancels a run.";
    GetRunDigest = "GET" "/runs/{run}/digest", "Shows what a run's bytes add up to.";
    PinRun = "PUT" "/runs/{run}/pin", "Withholds a run from pruning.";
    UnpinRun = "DELETE" "/runs/{run}/pin", "Lets a run be pruned again.";
    PruneRun = "POST" "/runs/{run}/prune", "Takes away what came before the ending of a run, or before an event of it.";
    ReadRunEvents = "GET" "/runs/{run}/events", "Reads a run's events, as a page or as a stream.";
    AppendRunEvents = "POST" "/runs/{run}/events", "Appends events to an external run.";
    ImportRun = "POST" "/imports", "Takes in a run that was exported, whole or not at all.";
    Prune = "POST" "/prune", "Prunes runs that have ended, those first that ended first, until it is enough.";
    ReadFeed = "GET" "/events", "Reads the events of all runs, as a page or as a stream.";
    StreamFeed = "GET" "/events/stream", "Streams the events of all runs.";
    ListApprovals = "GET" "/approvals", "Lists approvals, newest first.";
    GetApproval = "GET" "/approvals/{approval}", "Shows an approval.";
    ResolveApproval = "POST" "/approvals/{approval}/resolve", "Approves or rejects; the first valid answer wins.";
}
